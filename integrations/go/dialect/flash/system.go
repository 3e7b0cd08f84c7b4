package flash

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"ashlar/integrations/array"
)

// controller is the name of the only one that clients see, and the beginning of its ports' names.
const controller = "CT0"

func (c *call) arrays() ([]object, error) {
	of, err := array.Decode[array.Array](c.api.ShowArray(c))
	if err != nil {
		return nil, err
	}
	its, err := array.Decode[array.Settings](c.api.ShowSettings(c))
	delay := its.RecycleBinSeconds * 1000
	shown := spaceObject(of)
	maps.Copy(shown, object{
		"version": level, "os": "Ashlar", "banner": "", "console_lock_enabled": false, "idle_timeout": 0, "scsi_timeout": 0,
		"ntp_servers": []string{}, "time_zone": its.TimeZone,
		"encryption": object{
			"data_at_rest": object{"enabled": of.Encryption != array.EncryptionNone, "algorithm": "AES-256-GCM"}, "module_version": of.Version,
		},
		// An administrator can eradicate at any time.
		"eradication_config": object{
			"eradication_delay": delay, "disabled_delay": delay, "enabled_delay": delay, "manual_eradication": "all-enabled",
		},
	})
	return []object{shown}, err
}

func (c *call) space() ([]object, error) {
	of, err := array.Decode[array.Array](c.api.ShowArray(c))
	return []object{spaceObject(of)}, err
}

func spaceObject(of array.Array) object {
	ratio := func(value float64) float64 { return max(value, 1) }
	used := of.Space.Total - of.Space.Free
	return object{
		"id": of.Serial, "name": of.Name, "capacity": of.Space.Total, "capacity_installed": of.Space.Total, "parity": 1.0,
		"space": object{
			"total_physical": used, "total_used": used, "total_provisioned": of.Space.Provisioned,
			"total_reduction": ratio(array.Value(of.Reduction.Total)), "data_reduction": ratio(array.Value(of.Reduction.Data)),
			"thin_provisioning": thin(of.Space.Provisioned, of.Space.Mapped), "snapshots": of.Space.Snapshot, "shared": of.Space.Shared,
			"unique": of.Space.Unique, "used_provisioned": of.Space.Mapped, "virtual": of.Space.Logical, "system": of.Space.Metadata,
			"replication": 0,
		},
	}
}

// thin is the part of what is provisioned that was never written.
func thin(provisioned, mapped int64) float64 {
	if provisioned == 0 {
		return 0
	}
	return max(1-float64(mapped)/float64(provisioned), 0)
}

func (c *call) controllers() ([]object, error) {
	of, err := array.Decode[array.Array](c.api.ShowArray(c))
	since := time.Now().Add(-time.Duration(of.UptimeSeconds) * time.Second)
	return []object{{
		"name": controller, "status": "ready", "mode": "primary", "model": "Ashlar", "version": of.Version, "type": "array_controller",
		"mode_since": millis(since),
	}}, err
}

func (c *call) ports() ([]object, error) {
	of, err := array.Decode[array.Array](c.api.ShowArray(c))
	if err != nil {
		return nil, err
	}
	made := []object{}
	for at, portal := range of.Portals {
		made = append(made, object{
			"name": portName(at), "iqn": of.TargetIqn, "portal": portal, "nqn": nil, "wwn": nil, "failover": nil,
		})
	}
	return selected(c, made, "Port")
}

func portName(at int) string { return controller + ".ETH" + strconv.Itoa(at) }

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
