package flash

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

const (
	// noIops and noBandwidth are the highest limits that clients set: they stand for none.
	noIops      = 100_000_000
	noBandwidth = 512 << 30
	// tagLabel begins labels that keep tags.
	tagLabel = "flash.tag/"
)

// inGroup splits the name of a volume, or of its snapshot, from that of its volume group: names of volumes are unique on the
// array without it.
func inGroup(name string) (group, own string) {
	before, after, found := strings.Cut(name, "/")
	if !found {
		return "", name
	}
	return before, after
}

func withGroup(group, own string) string {
	if group == "" {
		return own
	}
	return group + "/" + own
}

// volume returns the volume that a client names, which must be in the group of the name.
func (c *call) volume(name string) (array.Volume, error) {
	group, own := inGroup(name)
	volume, err := array.Decode[array.Volume](c.api.ShowVolume(c, own))
	if err == nil && (volume.Name != own || array.Value(volume.Group) != group) {
		err = &array.Error{Kind: array.NotFound, Detail: name}
	}
	return volume, about("Volume", name, err)
}

func millis(at time.Time) int64 { return at.UnixMilli() }

func volumeObject(it array.Volume) object {
	group := array.Value(it.Group)
	connected := map[string]bool{}
	for _, each := range it.Connections {
		connected[array.Value(each.HostID)+array.Value(each.HostGroupID)] = true
	}
	iops, bandwidth := any(nil), any(nil)
	if limit := array.Value(it.Limits.Iops); limit != 0 {
		iops = limit
	}
	if limit := array.Value(it.Limits.Bandwidth); limit != 0 {
		bandwidth = limit
	}
	source := array.Value(it.Source)
	return object{
		"id": it.ID, "name": withGroup(group, it.Name), "serial": strings.ToUpper(strings.TrimPrefix(it.Naa, "naa.")),
		"provisioned": it.Size, "created": millis(it.Created), "destroyed": false, "time_remaining": nil, "subtype": "regular",
		"connection_count": len(connected), "qos": object{"iops_limit": iops, "bandwidth_limit": bandwidth},
		"source": object{"name": nothing(source), "id": nil}, "volume_group": object{"name": nothing(group), "id": nil},
		"pod": object{"name": nil, "id": nil}, "requested_promotion_state": "promoted", "promotion_status": "promoted",
		"space": volumeSpace(it), "priority": 0, "host_encryption_key_status": "none",
		"priority_adjustment": priority(),
	}
}

// priority of an object over others: all have the same.
func priority() object {
	return object{"priority_adjustment_operator": "+", "priority_adjustment_value": 0}
}

// volumeSpace computes the physical space from the reduction that the array has measured in the background: exact figures take a
// walk through the maps of each volume. Snapshots are included.
func volumeSpace(of ...array.Volume) object {
	var size, mapped, physical int64
	for _, each := range of {
		size, mapped = size+each.Size, mapped+each.Mapped
		physical += int64(float64(each.Mapped) / max(array.Value(each.Reduction), 1))
	}
	reduction, total := 1.0, 1.0
	if physical > 0 {
		reduction, total = float64(mapped)/float64(physical), float64(size)/float64(physical)
	}
	return object{
		"total_provisioned": size, "used_provisioned": mapped, "virtual": mapped, "unique": physical, "total_physical": physical,
		"total_used": physical, "snapshots": 0, "shared": nil, "system": nil, "data_reduction": reduction, "total_reduction": total,
		"thin_provisioning": thin(size, mapped),
	}
}

// nothing writes an empty text as null.
func nothing(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// volumes lists volumes, and those in the recycle bin as destroyed ones.
func (c *call) volumes() ([]object, error) {
	made := []object{}
	if wanted := c.names("names"); wanted != nil {
		for _, name := range wanted {
			shown, err := c.namedVolume(name)
			if err != nil {
				return nil, err
			}
			made = append(made, shown)
		}
		return made, nil
	}
	if c.query.Get("destroyed") != "true" {
		all, err := c.api.AllVolumes(c, "")
		if err != nil {
			return nil, err
		}
		for _, each := range all {
			made = append(made, volumeObject(each))
		}
	}
	return c.withDestroyed(made, array.DiskKindVolume)
}

// namedVolume shows a volume. One in the recycle bin is shown if a client asks for it, or says nothing and no other has the name.
func (c *call) namedVolume(name string) (object, error) {
	destroyed := c.query.Get("destroyed")
	if destroyed != "true" {
		it, err := c.volume(name)
		var missing *refused
		if err == nil {
			return volumeObject(it), nil
		}
		if destroyed == "false" || !errors.As(err, &missing) {
			return nil, err
		}
	}
	its, err := c.binned(array.DiskKindVolume, "Volume", name)
	if err != nil {
		return nil, err
	}
	return destroyedObject(its, name), nil
}

// withDestroyed adds what is in the recycle bin, unless a client wants to see it not.
func (c *call) withDestroyed(made []object, kind array.DiskKind) ([]object, error) {
	if c.query.Get("destroyed") == "false" {
		return made, nil
	}
	bin, err := c.bin(kind)
	for _, each := range bin {
		made = append(made, destroyedObject(each, each.Name))
	}
	return made, err
}

// destroyedObject shows what is in the recycle bin, a volume or a snapshot, by the name that a client knows it by.
func destroyedObject(of array.BinnedDisk, name string) object {
	return object{
		"id": of.ID, "name": name, "provisioned": of.Size, "destroyed": true, "created": millis(of.Deleted), "serial": "",
		"suffix": name[strings.LastIndexByte(name, '.')+1:], "time_remaining": max(time.Until(of.EradicatedAfter).Milliseconds(), 0),
		"connection_count": 0, "qos": object{}, "source": object{"name": nil}, "volume_group": object{"name": nil},
		"pod": object{"name": nil}, "space": snapshotSpace(of.Size, of.Mapped), "subtype": "regular",
		"requested_promotion_state": "promoted", "promotion_status": "promoted", "priority": 0, "priority_adjustment": priority(),
	}
}

// named is a reference to an object by its name; an empty one stands for none. Without a name it would seem to be empty.
type named struct{ Name string }

func (n *named) UnmarshalJSON(text []byte) error {
	var sent struct {
		Name *string `json:"name"`
		ID   string  `json:"id"`
	}
	if err := strictly(text, &sent); err != nil {
		return err
	}
	if sent.Name == nil || sent.ID != "" {
		return errors.New("an object is referred to by its name alone")
	}
	n.Name = *sent.Name
	return nil
}

// limit is a number, or an object around one as newer clients write it.
type limit struct{ value *int64 }

func (l *limit) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, &l.value); err == nil {
		return nil
	}
	var inside map[string]*int64
	if err := json.Unmarshal(text, &inside); err != nil {
		return err
	}
	if len(inside) != 1 {
		return errors.New("a limit is one number")
	}
	for _, value := range inside {
		l.value = value
	}
	return nil
}

func (l *limit) change(none int64) nullable.Nullable[int64] {
	switch {
	case l == nil || l.value == nil:
		return nil
	case *l.value >= none:
		return nullable.NewNullNullable[int64]()
	}
	return nullable.NewNullableWithValue(*l.value)
}

type qos struct {
	Iops      *limit `json:"iops_limit"`
	Bandwidth *limit `json:"bandwidth_limit"`
}

func (q *qos) change() *array.LimitsChange {
	if q == nil {
		return nil
	}
	return &array.LimitsChange{Iops: q.Iops.change(noIops), Bandwidth: q.Bandwidth.change(noBandwidth)}
}

type newVolume struct {
	Provisioned *int64 `json:"provisioned"`
	Source      *named `json:"source"`
	Qos         *qos   `json:"qos"`
	Subtype     string `json:"subtype"`
}

// createVolumes makes volumes or a copy, or gives one the contents of another. If one fails, those before it are deleted.
func (c *call) createVolumes() ([]object, error) {
	var wanted newVolume
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	if wanted.Subtype != "" && wanted.Subtype != "regular" {
		return nil, &refused{"subtype", "All volumes are regular ones."}
	}
	if c.query.Get("overwrite") == "true" {
		name, err := c.one("names")
		if err != nil {
			return nil, err
		}
		if wanted.Source == nil {
			return nil, &refused{name, "A source is needed."}
		}
		return c.overwrite(name, withoutGroup(wanted.Source.Name))
	}
	groups := c.names("add_to_protection_group_names")
	for _, group := range groups {
		if _, err := c.protection(group); err != nil {
			return nil, err
		}
	}
	var done []array.Volume
	made, err := c.each("names", func(name string) (object, error) {
		volume, err := c.createVolume(name, wanted, groups)
		if volume.ID != "" {
			done = append(done, volume)
		}
		return volumeObject(volume), err
	})
	if err != nil {
		// The client is not to find a volume that it was refused.
		for _, each := range done {
			err = errors.Join(err, array.Done(c.api.DeleteVolume(c, each.ID, &array.DeleteVolumeParams{})))
		}
		return nil, err
	}
	return made, nil
}

// createVolume returns the volume also if only a limit could not be set.
func (c *call) createVolume(name string, wanted newVolume, groups []string) (array.Volume, error) {
	made := array.NewVolume{}
	group, own := inGroup(name)
	made.Name = own
	if group != "" {
		made.Group = nullable.NewNullableWithValue(group)
	}
	switch {
	case wanted.Source != nil:
		made.Source = nullable.NewNullableWithValue(withoutGroup(wanted.Source.Name))
	case wanted.Provisioned != nil:
		made.Size = nullable.NewNullableWithValue(*wanted.Provisioned)
	default:
		return array.Volume{}, &refused{name, "A size or a source is needed."}
	}
	if len(groups) > 0 {
		labels := map[string]string{}
		for _, group := range groups {
			labels[memberKey(group)] = group
		}
		made.Labels = &labels
	}
	volume, isNew, err := array.Made[array.Volume](c.api.CreateVolume(c, made))
	switch {
	case array.IsKind(err, array.NotFound):
		return array.Volume{}, &refused{name, "The source or the volume group does not exist."}
	case err != nil:
		return array.Volume{}, about("Volume", name, err)
	case !isNew:
		return array.Volume{}, &refused{name, "Volume already exists."}
	}
	if wanted.Qos == nil {
		return volume, nil
	}
	limited, err := array.Decode[array.Volume](c.api.ChangeVolume(c, volume.ID, array.VolumeChange{Limits: wanted.Qos.change()}))
	if err != nil {
		return volume, err
	}
	return limited, nil
}

// overwrite gives a volume the contents and the size of the source.
func (c *call) overwrite(name, source string) ([]object, error) {
	volume, err := c.volume(name)
	if err != nil {
		return nil, err
	}
	volume, err = array.Decode[array.Volume](c.api.RestoreVolume(c, volume.ID, array.Overwrite{Source: source}))
	if err != nil {
		return nil, about("Source", source, err)
	}
	return []object{volumeObject(volume)}, nil
}

type volumeChange struct {
	Name        *string `json:"name"`
	Provisioned *int64  `json:"provisioned"`
	Destroyed   *bool   `json:"destroyed"`
	Qos         *qos    `json:"qos"`
	Group       *named  `json:"volume_group"`
	// Priority and Promotion are taken with the values that all volumes have.
	Priority  *adjustment `json:"priority_adjustment"`
	Promotion *string     `json:"requested_promotion_state"`
}

// adjustment is a priority as clients write it.
type adjustment struct {
	Operator string `json:"priority_adjustment_operator"`
	Value    int    `json:"priority_adjustment_value"`
}

func (a *adjustment) isSet() bool { return a != nil && a.Value != 0 }

func (c *call) changeVolumes() ([]object, error) {
	var wanted volumeChange
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	if err := c.moveMembers(); err != nil {
		return nil, err
	}
	return c.each("names", func(name string) (object, error) { return c.changeVolume(name, wanted) })
}

// moveMembers adds volumes to protection groups and removes them from others, as the query says.
func (c *call) moveMembers() error {
	for parameter, in := range map[string]bool{"add_to_protection_group_names": true, "remove_from_protection_group_names": false} {
		for _, group := range c.names(parameter) {
			if _, err := c.enlist(group, c.names("names"), in); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *call) changeVolume(name string, wanted volumeChange) (object, error) {
	if wanted.Destroyed != nil && wanted != (volumeChange{Destroyed: wanted.Destroyed}) {
		return nil, &refused{name, "A volume is destroyed or recovered by a request of its own."}
	}
	if wanted.Destroyed != nil && !*wanted.Destroyed {
		if _, err := c.volume(name); err == nil {
			return nil, &refused{name, "The volume is not destroyed."}
		}
		if err := c.restore(array.DiskKindVolume, "Volume", name); err != nil {
			return nil, err
		}
	}
	volume, err := c.volume(name)
	if err != nil {
		return nil, err
	}
	if wanted.Destroyed != nil && *wanted.Destroyed {
		if err := array.Done(c.api.DeleteVolume(c, volume.ID, &array.DeleteVolumeParams{})); err != nil {
			return nil, err
		}
		made := volumeObject(volume)
		made["destroyed"] = true
		return made, nil
	}
	if wanted.Priority.isSet() {
		return nil, &refused{name, "Priorities of volumes are not supported."}
	}
	if wanted.Promotion != nil && *wanted.Promotion != "promoted" {
		return nil, &refused{name, "Demoting single volumes is not supported."}
	}
	for _, change := range wanted.steps() {
		if volume, err = array.Decode[array.Volume](c.api.ChangeVolume(c, volume.ID, change)); err != nil {
			return nil, about("Volume", name, err)
		}
	}
	return volumeObject(volume), nil
}

// steps are the requests to the array: a size is changed by itself.
func (w volumeChange) steps() []array.VolumeChange {
	var steps []array.VolumeChange
	if w.Provisioned != nil {
		steps = append(steps, array.VolumeChange{Size: nullable.NewNullableWithValue(*w.Provisioned)})
	}
	var rest array.VolumeChange
	some := false
	if w.Name != nil {
		_, own := inGroup(*w.Name)
		rest.Name, some = nullable.NewNullableWithValue(own), true
	}
	if w.Qos != nil {
		rest.Limits, some = w.Qos.change(), true
	}
	if w.Group != nil {
		some = true
		if rest.Group = nullable.NewNullableWithValue(w.Group.Name); w.Group.Name == "" {
			rest.Group = nullable.NewNullNullable[string]()
		}
	}
	if some {
		steps = append(steps, rest)
	}
	return steps
}

func (c *call) eradicateVolume() ([]object, error) {
	return c.eradicate(array.DiskKindVolume, "Volume")
}

// eradicate destroys what is in the recycle bin: clients do so only if they are configured to.
func (c *call) eradicate(kind array.DiskKind, noun string) ([]object, error) {
	bin, err := c.bin(kind)
	if err != nil {
		return nil, err
	}
	return c.each("names", func(name string) (object, error) {
		own := withoutGroup(name)
		// Something older in the recycle bin may have the name of what is in use.
		if inUse, err := c.inUse(kind, own); err != nil || inUse {
			return nil, errors.Join(err, &refused{name, noun + " is not destroyed."})
		}
		found := ""
		for _, each := range bin {
			// The newest is last.
			if each.Name == own {
				found = each.ID
			}
		}
		if found == "" {
			return nil, &refused{name, noun + " does not exist."}
		}
		return nil, array.Done(c.api.EradicateFromRecycleBin(c, found))
	})
}

func (c *call) inUse(kind array.DiskKind, name string) (bool, error) {
	var err error
	if kind == array.DiskKindSnapshot {
		_, err = array.Decode[array.Snapshot](c.api.ShowSnapshot(c, name))
	} else {
		_, err = array.Decode[array.Volume](c.api.ShowVolume(c, name))
	}
	return err == nil, array.Unless(array.NotFound, err)
}
