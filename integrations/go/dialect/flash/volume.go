package flash

import (
	"context"
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
		"space": object{"total_provisioned": it.Size, "used_provisioned": it.Mapped},
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
			it, err := c.volume(name)
			if err != nil {
				return nil, err
			}
			made = append(made, volumeObject(it))
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

// withDestroyed adds what is in the recycle bin, unless a client wants to see it not.
func (c *call) withDestroyed(made []object, kind array.DiskKind) ([]object, error) {
	if c.query.Get("destroyed") == "false" {
		return made, nil
	}
	bin, err := c.bin()
	for _, each := range bin {
		if each.Kind == kind {
			made = append(made, object{
				"id": each.ID, "name": each.Name, "provisioned": each.Size, "destroyed": true, "created": nil, "serial": "",
				"time_remaining": max(time.Until(each.EradicatedAfter).Milliseconds(), 0), "connection_count": 0,
				"qos": object{}, "source": object{"name": nil}, "volume_group": object{"name": nil}, "pod": object{"name": nil},
			})
		}
	}
	return made, err
}

func (c *call) bin() ([]array.BinnedDisk, error) {
	return array.All(func(limit, offset int) ([]array.BinnedDisk, int, error) {
		found, err := array.Decode[array.RecycleBin](c.api.ListRecycleBin(c, &array.ListRecycleBinParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
}

type named struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
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

// createVolume makes a volume or a copy, or gives one the contents of another.
func (c *call) createVolume() ([]object, error) {
	name, err := c.one("names")
	if err != nil {
		return nil, err
	}
	var wanted newVolume
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	made := array.NewVolume{}
	group, own := inGroup(name)
	made.Name = own
	if group != "" {
		made.Group = nullable.NewNullableWithValue(group)
	}
	switch {
	case wanted.Source != nil:
		source := withoutGroup(wanted.Source.Name)
		if c.query.Get("overwrite") == "true" {
			return c.overwrite(name, source)
		}
		made.Source = nullable.NewNullableWithValue(source)
	case wanted.Provisioned != nil:
		made.Size = nullable.NewNullableWithValue(*wanted.Provisioned)
	default:
		return nil, &refused{name, "A size or a source is needed."}
	}
	volume, isNew, err := array.Made[array.Volume](c.api.CreateVolume(c, made))
	switch {
	case array.IsKind(err, array.NotFound):
		return nil, &refused{name, "The source or the volume group does not exist."}
	case err != nil:
		return nil, about("Volume", name, err)
	case !isNew:
		return nil, &refused{name, "Volume already exists."}
	}
	if wanted.Qos != nil {
		change := array.VolumeChange{Limits: wanted.Qos.change()}
		limited, err := array.Decode[array.Volume](c.api.ChangeVolume(c, volume.ID, change))
		if err != nil {
			// The client is not to find a volume that it was refused.
			return nil, errors.Join(err, array.Done(c.api.DeleteVolume(c, volume.ID, &array.DeleteVolumeParams{})))
		}
		volume = limited
	}
	return []object{volumeObject(volume)}, nil
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
}

func (c *call) changeVolume() ([]object, error) {
	name, err := c.one("names")
	if err != nil {
		return nil, err
	}
	var wanted volumeChange
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	volume, err := c.volume(name)
	if err != nil {
		return nil, err
	}
	if wanted.Destroyed != nil {
		if !*wanted.Destroyed {
			return nil, &refused{name, "The volume is not destroyed."}
		}
		if err := array.Done(c.api.DeleteVolume(c, volume.ID, &array.DeleteVolumeParams{})); err != nil {
			return nil, err
		}
		made := volumeObject(volume)
		made["destroyed"] = true
		return []object{made}, nil
	}
	for _, change := range wanted.steps() {
		if volume, err = array.Decode[array.Volume](c.api.ChangeVolume(c, volume.ID, change)); err != nil {
			return nil, about("Volume", name, err)
		}
	}
	return []object{volumeObject(volume)}, nil
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
	bin, err := c.bin()
	if err != nil {
		return nil, err
	}
	for _, name := range c.names("names") {
		own := withoutGroup(name)
		// Something older in the recycle bin may have the name of what is in use.
		if inUse, err := c.inUse(kind, own); err != nil || inUse {
			return nil, errors.Join(err, &refused{name, noun + " is not destroyed."})
		}
		found := ""
		for _, each := range bin {
			// The newest is last.
			if each.Kind == kind && each.Name == own {
				found = each.ID
			}
		}
		if found == "" {
			return nil, &refused{name, noun + " does not exist."}
		}
		if err := array.Done(c.api.EradicateFromRecycleBin(c, found)); err != nil {
			return nil, err
		}
	}
	return nil, nil
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

type tag struct {
	Key       string `json:"key"`
	Value     string `json:"value"`
	Namespace string `json:"namespace"`
	Copyable  bool   `json:"copyable"`
}

// setTags keeps tags in labels, without regard to their namespaces. Tags without a value are removed.
func (c *call) setTags() ([]object, error) {
	var tags []tag
	if err := c.read(&tags); err != nil {
		return nil, err
	}
	labels := map[string]*string{}
	made := []object{}
	for _, each := range tags {
		labels[tagLabel+each.Key] = nil
		if each.Value != "" {
			labels[tagLabel+each.Key] = &each.Value
		}
	}
	for _, name := range c.names("resource_names") {
		volume, err := c.volume(name)
		if err != nil {
			return nil, err
		}
		if err := c.label(c, volume.ID, labels); err != nil {
			return nil, err
		}
		for _, each := range tags {
			made = append(made, object{
				"key": each.Key, "value": nothing(each.Value), "namespace": each.Namespace, "copyable": each.Copyable,
				"resource": object{"name": name, "id": volume.ID},
			})
		}
	}
	return made, nil
}

func (c *call) label(ctx context.Context, volume string, labels map[string]*string) error {
	return array.Done(c.api.ChangeVolume(ctx, volume, array.VolumeChange{Labels: &labels}))
}

func (c *call) removeTags() ([]object, error) {
	for _, name := range c.names("resource_names") {
		volume, err := c.volume(name)
		if err != nil {
			return nil, err
		}
		labels := map[string]*string{}
		for key := range volume.Labels {
			if strings.HasPrefix(key, tagLabel) {
				labels[key] = nil
			}
		}
		if err := c.label(c, volume.ID, labels); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
