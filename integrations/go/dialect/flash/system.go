package flash

import (
	"fmt"
	"strconv"

	"ashlar/integrations/array"
)

// controller is the name of the only one that clients see, and the beginning of its ports' names.
const controller = "CT0"

// operations by method and path.
var operations = map[string]func(*call) ([]object, error){
	"GET arrays":                        (*call).arrays,
	"GET arrays/space":                  (*call).space,
	"GET arrays/performance":            (*call).performance,
	"GET controllers":                   (*call).controllers,
	"GET ports":                         (*call).ports,
	"GET network-interfaces":            (*call).nothing,
	"GET array-connections":             (*call).nothing,
	"GET protection-groups":             (*call).protections,
	"POST protection-groups":            (*call).createProtection,
	"PATCH protection-groups":           (*call).changeProtection,
	"DELETE protection-groups":          (*call).eradicateGroup,
	"GET protection-groups/volumes":     (*call).memberships,
	"POST protection-groups/volumes":    (*call).addMembers,
	"DELETE protection-groups/volumes":  (*call).removeMembers,
	"POST protection-group-snapshots":   (*call).protect,
	"PATCH protection-group-snapshots":  (*call).deleteProtected,
	"DELETE protection-group-snapshots": (*call).eradicateProtected,
	"GET pods":                          (*call).nothing,
	"GET volumes":                       (*call).volumes,
	"POST volumes":                      (*call).createVolume,
	"PATCH volumes":                     (*call).changeVolume,
	"DELETE volumes":                    (*call).eradicateVolume,
	"PUT volumes/tags/batch":            (*call).setTags,
	"DELETE volumes/tags":               (*call).removeTags,
	"GET volume-snapshots":              (*call).snapshots,
	"POST volume-snapshots":             (*call).createSnapshot,
	"PATCH volume-snapshots":            (*call).changeSnapshot,
	"DELETE volume-snapshots":           (*call).eradicateSnapshot,
	"GET volume-groups":                 (*call).groups,
	"POST volume-groups":                (*call).createGroup,
	"PATCH volume-groups":               (*call).changeGroup,
	"DELETE volume-groups":              (*call).eradicateGroup,
	"GET hosts":                         (*call).hosts,
	"POST hosts":                        (*call).createHost,
	"PATCH hosts":                       (*call).changeHost,
	"DELETE hosts":                      (*call).deleteHost,
	"GET connections":                   (*call).connections,
	"POST connections":                  (*call).connect,
	"DELETE connections":                (*call).disconnect,
}

// nothing is the list of what an array does not have, or not under this name.
func (c *call) nothing() ([]object, error) {
	if _, err := c.api.Check(c); err != nil {
		return nil, err
	}
	for _, name := range c.names("names") {
		return nil, &refused{name, "The object does not exist."}
	}
	return nil, nil
}

func (c *call) arrays() ([]object, error) {
	status, err := c.api.Check(c)
	return []object{{"id": status.ID, "name": status.Name, "version": level, "os": "Ashlar"}}, err
}

func (c *call) space() ([]object, error) {
	of, err := array.Decode[array.Array](c.api.ShowArray(c))
	ratio := func(value float64) float64 { return max(value, 1) }
	return []object{{
		"id": of.Serial, "name": of.Name, "capacity": of.Space.Total, "parity": 1.0,
		"space": object{
			"total_physical": of.Space.Total - of.Space.Free, "total_provisioned": of.Space.Provisioned,
			"total_reduction": ratio(array.Value(of.Reduction.Total)), "data_reduction": ratio(array.Value(of.Reduction.Data)),
			"thin_provisioning": 0.0, "snapshots": of.Space.Snapshot, "shared": of.Space.Shared, "unique": of.Space.Unique,
			"used_provisioned": of.Space.Mapped, "virtual": of.Space.Logical,
		},
	}}, err
}

// performance has the newest sample; none if there is none yet.
func (c *call) performance() ([]object, error) {
	points := int32(1)
	kept, err := array.Decode[array.Performance](c.api.ShowPerformance(c, &array.ShowPerformanceParams{Points: &points}))
	if err != nil || len(kept.Times) == 0 {
		return nil, err
	}
	at := len(kept.Times) - 1
	return []object{{
		"time":          kept.Times[at] * 1000,
		"reads_per_sec": array.Value(kept.Read.Iops[at]), "writes_per_sec": array.Value(kept.Write.Iops[at]),
		"read_bytes_per_sec": array.Value(kept.Read.BytesPerSecond[at]), "write_bytes_per_sec": array.Value(kept.Write.BytesPerSecond[at]),
		"usec_per_read_op": array.Value(kept.Read.LatencyUs.Mean[at]), "usec_per_write_op": array.Value(kept.Write.LatencyUs.Mean[at]),
		"queue_usec_per_read_op": 0.0, "queue_usec_per_write_op": 0.0, "queue_usec_per_mirrored_write_op": 0.0, "queue_depth": 0,
	}}, nil
}

func (c *call) controllers() ([]object, error) {
	status, err := c.api.Check(c)
	return []object{{"name": controller, "status": "ready", "mode": "primary", "model": "Ashlar", "version": status.Version, "type": "array_controller"}}, err
}

func (c *call) ports() ([]object, error) {
	of, err := array.Decode[array.Array](c.api.ShowArray(c))
	if err != nil {
		return nil, err
	}
	made := []object{}
	for at, portal := range of.Portals {
		made = append(made, object{
			"name": controller + ".ETH" + strconv.Itoa(at), "iqn": of.TargetIqn, "portal": portal, "nqn": nil, "wwn": nil, "failover": nil,
		})
	}
	return selected(c, made, "Port")
}

// selected returns the objects that the parameter `names` asks for, in its order; all without it.
func selected(c *call, all []object, noun string) ([]object, error) {
	wanted := c.names("names")
	if wanted == nil {
		return all, nil
	}
	byName := map[string]object{}
	for _, each := range all {
		byName[fmt.Sprint(each["name"])] = each
	}
	some := []object{}
	for _, name := range wanted {
		if byName[name] == nil {
			return nil, &refused{name, noun + " does not exist."}
		}
		some = append(some, byName[name])
	}
	return some, nil
}
