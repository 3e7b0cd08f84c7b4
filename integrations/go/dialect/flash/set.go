package flash

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

// protect takes snapshots of all members of a group at one moment.
func (c *call) protect() ([]object, error) {
	name, err := c.one("source_names")
	if err != nil {
		return nil, err
	}
	var wanted struct {
		Suffix string `json:"suffix"`
	}
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	if wanted.Suffix == "" {
		return nil, &refused{name, "A suffix is needed."}
	}
	for _, parameter := range []string{"replicate", "replicate_now", "apply_retention"} {
		if c.query.Get(parameter) == "true" {
			return nil, &refused{parameter, "Protection groups have neither targets nor retention."}
		}
	}
	it, err := c.protection(name)
	if err != nil {
		return nil, err
	}
	members, err := c.members(name)
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, &refused{name, "The protection group has no volumes."}
	}
	set := name + "." + wanted.Suffix
	var of []array.SnapshotSource
	for _, each := range members {
		of = append(of, array.SnapshotSource{Volume: each.ID, Name: nullable.NewNullableWithValue(set + "." + each.Name)})
	}
	labels := map[string]string{labelSet: set}
	taken := array.NewSnapshots{Sources: nullable.NewNullableWithValue(of), Labels: &labels}
	_, isNew, err := array.Made[array.Snapshots](c.api.CreateSnapshots(c, taken))
	if err != nil {
		return nil, about("Protection group snapshot", set, err)
	}
	if !isNew {
		return nil, &refused{set, "Protection group snapshot already exists."}
	}
	shown := setObject(set, time.Now(), 0)
	shown["id"] = it.ID
	return []object{shown}, nil
}

// setObject is the snapshot of a protection group.
func setObject(name string, created time.Time, size int64) object {
	dot := strings.LastIndexByte(name, '.')
	return object{
		"name": name, "suffix": name[dot+1:], "source": object{"name": name[:max(dot, 0)]}, "created": millis(created), "destroyed": false,
		"time_remaining": nil, "pod": object{"name": nil}, "space": snapshotSpace(size, 0), "eradication_config": object{},
	}
}

// protected lists snapshots of protection groups that are in use, or, if they are named, those in the recycle bin.
func (c *call) protected() ([]object, error) {
	wanted, destroyed := c.names("names"), c.query.Get("destroyed")
	if destroyed == "true" {
		made := []object{}
		for _, name := range wanted {
			parts, err := c.binnedParts(name)
			if err != nil {
				return nil, err
			}
			shown := setObject(name, parts[0].Deleted, 0)
			shown["destroyed"] = true
			shown["time_remaining"] = max(time.Until(parts[0].EradicatedAfter).Milliseconds(), 0)
			made = append(made, shown)
		}
		return made, nil
	}
	all, err := c.api.AllSnapshots(c, labelSet)
	if err != nil {
		return nil, err
	}
	sources, sizes, found := c.names("source_names"), map[string]int64{}, map[string]array.Snapshot{}
	for _, each := range all {
		set := each.Labels[labelSet]
		sizes[set] += each.Size
		found[set] = each
	}
	made := []object{}
	for _, set := range slices.Sorted(maps.Keys(found)) {
		shown := setObject(set, found[set].Created, sizes[set])
		if sources == nil || slices.Contains(sources, set[:max(strings.LastIndexByte(set, '.'), 0)]) {
			made = append(made, shown)
		}
	}
	return selected(c, made, "Protection group snapshot")
}

// binnedParts returns the snapshots of volumes in the recycle bin that a protection group's snapshot consisted of, without
// those of an earlier one with its name.
func (c *call) binnedParts(name string) ([]array.BinnedDisk, error) {
	bin, err := c.bin(array.DiskKindSnapshot)
	if err != nil {
		return nil, err
	}
	newest := map[string]array.BinnedDisk{}
	for _, each := range bin {
		if strings.HasPrefix(each.Name, name+".") {
			newest[each.Name] = each
		}
	}
	if len(newest) == 0 {
		return nil, &refused{name, "Protection group snapshot does not exist."}
	}
	return slices.Collect(maps.Values(newest)), nil
}

// changeProtected moves all snapshots of a group's snapshot to the recycle bin, or out of it.
func (c *call) changeProtected() ([]object, error) {
	var wanted struct {
		Destroyed *bool `json:"destroyed"`
	}
	name, err := c.named(&wanted)
	if err != nil {
		return nil, err
	}
	if wanted.Destroyed == nil {
		return nil, &refused{name, "Protection group snapshots keep their names."}
	}
	if !*wanted.Destroyed {
		return c.recoverProtected(name)
	}
	parts, err := c.api.AllSnapshots(c, array.LabelQuery(map[string]string{labelSet: name}))
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, &refused{name, "Protection group snapshot does not exist."}
	}
	for _, each := range parts {
		if err := array.Done(c.api.DeleteSnapshot(c, each.ID, &array.DeleteSnapshotParams{})); err != nil {
			return nil, err
		}
	}
	return []object{{"name": name, "destroyed": true}}, nil
}

func (c *call) recoverProtected(name string) ([]object, error) {
	parts, err := c.binnedParts(name)
	if err != nil {
		return nil, err
	}
	for _, each := range parts {
		if err := array.Done(c.api.RestoreFromRecycleBin(c, each.ID, array.Restore{})); err != nil {
			return nil, about("Protection group snapshot", name, err)
		}
	}
	return []object{setObject(name, time.Now(), 0)}, nil
}

// eradicateProtected destroys the parts of a group's snapshot that are in the recycle bin.
func (c *call) eradicateProtected() ([]object, error) {
	name, err := c.one("names")
	if err != nil {
		return nil, err
	}
	parts, err := c.api.AllSnapshots(c, array.LabelQuery(map[string]string{labelSet: name}))
	if err != nil {
		return nil, err
	}
	if len(parts) > 0 {
		return nil, &refused{name, "Protection group snapshot is not destroyed."}
	}
	bin, err := c.bin(array.DiskKindSnapshot)
	if err != nil {
		return nil, err
	}
	for _, each := range bin {
		if strings.HasPrefix(each.Name, name+".") {
			if err := array.Done(c.api.EradicateFromRecycleBin(c, each.ID)); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}
