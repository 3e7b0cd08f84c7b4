package flash

import (
	"strings"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

func snapshotObject(it array.Snapshot, group string) object {
	source := array.Value(it.Source)
	name, suffix := withGroup(group, it.Name), it.Name[strings.LastIndexByte(it.Name, '.')+1:]
	if set := it.Labels[labelSet]; set != "" {
		suffix = set[strings.LastIndexByte(set, '.')+1:]
		name = set + "." + withGroup(group, strings.TrimPrefix(it.Name, set+"."))
	}
	return object{
		"id": it.ID, "name": name, "provisioned": it.Size, "created": millis(it.Created), "destroyed": false,
		"time_remaining": nil, "suffix": suffix, "serial": strings.ToUpper(strings.TrimPrefix(it.Naa, "naa.")),
		"source": object{"name": nothing(withGroup(group, source)), "id": it.SourceID}, "pod": object{"name": nil},
		"volume_group": object{"name": nothing(group)},
		"space":        snapshotSpace(it.Size, it.Mapped),
	}
}

// snapshotSpace has no physical space: the array counts that of a snapshot with its volume's.
func snapshotSpace(size, mapped int64) object {
	return object{
		"total_provisioned": size, "used_provisioned": mapped, "virtual": mapped, "snapshots": 0, "total_physical": 0, "total_used": 0,
		"unique": 0,
	}
}

// withoutGroup returns the name on the array of a snapshot, SET.GROUP/VOLUME or GROUP/VOLUME.SUFFIX, or of a volume. Groups
// have no dots in their names.
func withoutGroup(name string) string {
	before, own := inGroup(name)
	set := strings.LastIndexByte(before, '.')
	return before[:set+1] + own
}

func (c *call) snapshot(name string) (array.Snapshot, error) {
	found, err := array.Decode[array.Snapshot](c.api.ShowSnapshot(c, withoutGroup(name)))
	return found, about("Volume snapshot", name, err)
}

func (c *call) snapshots() ([]object, error) {
	made := []object{}
	if wanted := c.names("names"); wanted != nil {
		for _, name := range wanted {
			if c.query.Get("destroyed") == "true" {
				its, err := c.binned(array.DiskKindSnapshot, "Volume snapshot", name)
				if err != nil {
					return nil, err
				}
				made = append(made, destroyedObject(its, name))
				continue
			}
			it, err := c.snapshot(name)
			if err != nil {
				return nil, err
			}
			group, _ := inGroup(name)
			made = append(made, snapshotObject(it, group))
		}
		return made, nil
	}
	if c.query.Get("destroyed") != "true" {
		volumes, err := c.api.AllVolumes(c, "")
		if err != nil {
			return nil, err
		}
		groups := map[string]string{}
		for _, each := range volumes {
			groups[each.ID] = array.Value(each.Group)
		}
		all, err := c.api.AllSnapshots(c, "")
		if err != nil {
			return nil, err
		}
		for _, each := range all {
			made = append(made, snapshotObject(each, groups[each.SourceID]))
		}
	}
	return c.withDestroyed(made, array.DiskKindSnapshot)
}

// createSnapshot takes snapshots of all volumes at one moment.
func (c *call) createSnapshot() ([]object, error) {
	var wanted struct {
		Suffix string `json:"suffix"`
	}
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	groups := map[string]string{}
	var of []array.SnapshotSource
	if _, err := c.each("source_names", func(name string) (object, error) {
		volume, err := c.volume(name)
		groups[volume.ID] = array.Value(volume.Group)
		of = append(of, array.SnapshotSource{Volume: volume.ID})
		return nil, err
	}); err != nil {
		return nil, err
	}
	made := array.NewSnapshots{Sources: nullable.NewNullableWithValue(of)}
	if wanted.Suffix != "" {
		made.Suffix = nullable.NewNullableWithValue(wanted.Suffix)
	}
	taken, isNew, err := array.Made[array.Snapshots](c.api.CreateSnapshots(c, made))
	if err != nil {
		return nil, about("Volume snapshot", wanted.Suffix, err)
	}
	if !isNew {
		return nil, &refused{wanted.Suffix, "Volume snapshot already exists."}
	}
	var items []object
	for _, each := range taken.Items {
		items = append(items, snapshotObject(each, groups[each.SourceID]))
	}
	return items, nil
}

func (c *call) changeSnapshot() ([]object, error) {
	var wanted struct {
		Name      *string `json:"name"`
		Destroyed *bool   `json:"destroyed"`
	}
	name, err := c.named(&wanted)
	if err != nil {
		return nil, err
	}
	if wanted.Destroyed != nil && wanted.Name != nil {
		return nil, &refused{name, "A snapshot is destroyed or recovered by a request of its own."}
	}
	if wanted.Destroyed != nil && !*wanted.Destroyed {
		if _, err := c.snapshot(name); err == nil {
			return nil, &refused{name, "The snapshot is not destroyed."}
		}
		if err := c.restore(array.DiskKindSnapshot, "Volume snapshot", name); err != nil {
			return nil, err
		}
	}
	it, err := c.snapshot(name)
	if err != nil {
		return nil, err
	}
	group, _ := inGroup(name)
	if wanted.Destroyed != nil && *wanted.Destroyed {
		if err := array.Done(c.api.DeleteSnapshot(c, it.ID, &array.DeleteSnapshotParams{})); err != nil {
			return nil, err
		}
		made := snapshotObject(it, group)
		made["destroyed"] = true
		return []object{made}, nil
	}
	if wanted.Name != nil {
		_, own := inGroup(*wanted.Name)
		change := array.SnapshotChange{Name: nullable.NewNullableWithValue(own)}
		if it, err = array.Decode[array.Snapshot](c.api.ChangeSnapshot(c, it.ID, change)); err != nil {
			return nil, about("Volume snapshot", *wanted.Name, err)
		}
	}
	return []object{snapshotObject(it, group)}, nil
}

func (c *call) eradicateSnapshot() ([]object, error) {
	return c.eradicate(array.DiskKindSnapshot, "Volume snapshot")
}
