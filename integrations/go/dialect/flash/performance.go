package flash

import (
	"time"

	"ashlar/integrations/array"
)

// work is what was done of one kind of command: commands and bytes a second, and the mean latency in microseconds.
type work struct{ iops, bytes, latency float64 }

// and adds the work of another object; latencies are weighted by commands.
func (w work) and(other work) work {
	sum := work{iops: w.iops + other.iops, bytes: w.bytes + other.bytes}
	if sum.iops > 0 {
		sum.latency = (w.iops*w.latency + other.iops*other.latency) / sum.iops
	}
	return sum
}

// mean is the size of a command in bytes.
func (w work) mean() float64 {
	if w.iops == 0 {
		return 0
	}
	return w.bytes / w.iops
}

// performanceObject has the fields of every object with a performance. The array measures a command from its arrival to its
// completion: parts of that time are not known apart. Writes are mirrored by no other array.
func performanceObject(name, id string, at time.Time, read, write work) object {
	made := object{
		"name": name, "id": nothing(id), "time": millis(at),
		"reads_per_sec": read.iops, "read_bytes_per_sec": read.bytes, "bytes_per_read": read.mean(), "usec_per_read_op": read.latency,
		"service_usec_per_read_op": read.latency,
		"writes_per_sec":           write.iops, "write_bytes_per_sec": write.bytes, "bytes_per_write": write.mean(),
		"usec_per_write_op": write.latency, "service_usec_per_write_op": write.latency,
		"bytes_per_op": read.and(write).mean(), "service_usec_per_read_op_cache_reduction": 0.0,
		"others_per_sec": 0.0, "usec_per_other_op": 0.0, "queue_depth": 0, "local_queue_usec_per_op": 0.0,
		"mirrored_writes_per_sec": 0.0, "mirrored_write_bytes_per_sec": 0.0, "bytes_per_mirrored_write": 0.0,
	}
	for _, kind := range []string{"read", "write", "mirrored_write"} {
		for _, part := range []string{"qos_rate_limit", "queue", "san"} {
			made[part+"_usec_per_"+kind+"_op"] = 0.0
		}
	}
	made["usec_per_mirrored_write_op"], made["service_usec_per_mirrored_write_op"] = 0.0, 0.0
	return made
}

// performance has the newest sample of the array; none if there is none yet.
func (c *call) performance() ([]object, error) {
	points := int32(1)
	kept, err := array.Decode[array.Performance](c.api.ShowPerformance(c, &array.ShowPerformanceParams{Points: &points}))
	if err != nil || len(kept.Times) == 0 {
		return nil, err
	}
	status, err := c.api.Check(c)
	at := len(kept.Times) - 1
	sample := func(of array.WorkColumns) work {
		return work{array.Value(of.Iops[at]), array.Value(of.BytesPerSecond[at]), array.Value(of.LatencyUs.Mean[at])}
	}
	return []object{performanceObject(status.Name, status.ID, time.Unix(kept.Times[at], 0), sample(kept.Read), sample(kept.Write))}, err
}

// allBusy is more than an array has of volumes or hosts.
const allBusy = 1 << 20

// busy returns the work of all volumes or hosts that are not idle, by their names: reads and writes.
func (c *call) busy(by array.ListBusiestParamsBy) (map[string][2]work, error) {
	limit := allBusy
	found, err := array.Decode[array.Busiest](c.api.ListBusiest(c, &array.ListBusiestParams{By: &by, Limit: &limit}))
	all := map[string][2]work{}
	of := func(it array.Work) work { return work{it.Iops, it.BytesPerSecond, array.Value(it.LatencyUs.Mean)} }
	for _, each := range found.Items {
		all[each.Name] = [2]work{of(each.Read), of(each.Write)}
	}
	return all, err
}

func (c *call) volumesPerformance() ([]object, error) {
	if c.query.Get("destroyed") == "true" {
		return nil, nil
	}
	busy, err := c.busy(array.ListBusiestParamsByVolume)
	if err != nil {
		return nil, err
	}
	all, err := c.api.AllVolumes(c, "")
	now, made := time.Now(), []object{}
	for _, each := range all {
		its := busy[each.Name]
		made = append(made, performanceObject(withGroup(array.Value(each.Group), each.Name), each.ID, now, its[0], its[1]))
	}
	if err != nil {
		return nil, err
	}
	return selected(c, made, "Volume")
}

func (c *call) hostsPerformance() ([]object, error) {
	busy, err := c.busy(array.ListBusiestParamsByHost)
	if err != nil {
		return nil, err
	}
	all, err := c.api.AllHosts(c, "")
	now, made := time.Now(), []object{}
	for _, each := range all {
		its := busy[each.Name]
		made = append(made, performanceObject(each.Name, "", now, its[0], its[1]))
	}
	if err != nil {
		return nil, err
	}
	return selected(c, made, "Host")
}

// sum adds up what the members of a group do.
func sum(busy map[string][2]work, members []string) (read, write work) {
	for _, each := range members {
		read, write = read.and(busy[each][0]), write.and(busy[each][1])
	}
	return read, write
}

func (c *call) groupsPerformance() ([]object, error) {
	busy, err := c.busy(array.ListBusiestParamsByVolume)
	if err != nil {
		return nil, err
	}
	all, err := c.api.AllGroups(c, "")
	now, made := time.Now(), []object{}
	for _, each := range all {
		if !isProtection(each) {
			read, write := sum(busy, each.Volumes)
			made = append(made, performanceObject(each.Name, each.ID, now, read, write))
		}
	}
	if err != nil {
		return nil, err
	}
	return selected(c, made, "Volume group")
}

func (c *call) hostGroupsPerformance() ([]object, error) {
	busy, err := c.busy(array.ListBusiestParamsByHost)
	if err != nil {
		return nil, err
	}
	all, err := c.allHostGroups()
	now, made := time.Now(), []object{}
	for _, each := range all {
		read, write := sum(busy, each.Hosts)
		made = append(made, performanceObject(each.Name, "", now, read, write))
	}
	if err != nil {
		return nil, err
	}
	return selected(c, made, "Host group")
}
