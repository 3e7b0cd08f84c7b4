package k2

import (
	"net/http"
	"slices"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

const (
	pathGroups  = "/volume_groups"
	pathVolumes = "/volumes"
	// kib is the unit of sizes and quotas.
	kib = 1024
	// controlID identifies the volume that stands for the array itself. Clients count it and subtract it.
	controlID   = 1
	controlName = "control"
)

func listGroups(c *call, asked *query) ([]object, error) {
	all, err := c.groups(asked)
	if err != nil {
		return nil, err
	}
	var made []object
	for _, each := range all {
		made = append(made, groupObject(each))
	}
	return made, nil
}

func groupObject(it *group) object {
	var quota, provisioned int64
	// The array deduplicates unless something else is set.
	dedup := true
	if len(it.members) > 0 {
		dedup = it.members[0].PolicyInForce.Dedup
	}
	if it.of != nil {
		quota = array.Value(it.of.HardQuota) / kib
		if own, err := it.of.Policy.Dedup.Get(); err == nil {
			dedup = own
		}
	}
	for _, volume := range it.members {
		provisioned += volume.Size / kib
	}
	return object{
		"id": it.id, "name": it.name, "quota": quota, "is_dedup": dedup, "is_default": false,
		"volumes_count": int64(len(it.members)), "volumes_provisioned_capacity": provisioned,
	}
}

func createGroup(c *call, sent body) (object, error) {
	wanted, err := sent.text("name")
	if err != nil {
		return nil, err
	}
	name, label, err := nameOf(wanted)
	if err != nil {
		return nil, err
	}
	labels := named(label)
	made := array.NewGroup{Name: name, Labels: &labels}
	if made.HardQuota, err = quotaOf(sent); err != nil {
		return nil, err
	}
	if sent.has("is_dedup") {
		dedup, err := sent.flag("is_dedup")
		if err != nil {
			return nil, err
		}
		made.Policy = &array.PolicyChange{Dedup: nullable.NewNullableWithValue(dedup)}
	}
	of, err := array.Decode[array.Group](c.api.CreateGroup(c, made))
	if err != nil {
		return nil, err
	}
	return groupObject(c.seenAs(&of)), nil
}

// quotaOf returns the quota in bytes: 0 stands for none.
func quotaOf(sent body) (nullable.Nullable[int64], error) {
	if !sent.has("quota") {
		return nil, nil
	}
	quota, err := sent.number("quota")
	if err != nil || quota < 0 || quota > 1<<40 {
		return nil, fail(http.StatusBadRequest, "quota is a size in KiB, 0 for none")
	}
	if quota == 0 {
		return nullable.NewNullNullable[int64](), nil
	}
	return nullable.NewNullableWithValue(quota * kib), nil
}

func changeGroup(c *call, id int64, sent body) (object, error) {
	it, err := c.group(id)
	if err != nil {
		return nil, err
	}
	if it, err = c.real(it, sent); err != nil {
		return nil, err
	}
	var change array.GroupChange
	if sent.has("name") {
		wanted, err := sent.text("name")
		if err != nil {
			return nil, err
		}
		name, label, err := nameOf(wanted)
		if err != nil {
			return nil, err
		}
		change.Name, change.Labels = nullable.NewNullableWithValue(name), &map[string]*string{labelName: label}
	}
	if change.HardQuota, err = quotaOf(sent); err != nil {
		return nil, err
	}
	if sent.has("is_dedup") {
		dedup, err := sent.flag("is_dedup")
		if err != nil {
			return nil, err
		}
		change.Policy = &array.PolicyChange{Dedup: nullable.NewNullableWithValue(dedup)}
	}
	if _, err := array.Decode[array.Group](c.api.ChangeGroup(c, it.of.ID, change)); err != nil {
		return nil, err
	}
	c.changed()
	if it, err = c.group(it.id); err != nil {
		return nil, err
	}
	return groupObject(it), nil
}

// real makes a group on the array of that of a volume which is in none there.
func (c *call) real(it *group, sent body) (*group, error) {
	if it.of != nil {
		return it, nil
	}
	wanted := it.name
	if sent.has("name") {
		var err error
		if wanted, err = sent.text("name"); err != nil {
			return nil, err
		}
	}
	name, label, err := nameOf(wanted)
	if err != nil {
		return nil, err
	}
	labels := named(label)
	made, err := array.Decode[array.Group](c.api.CreateGroup(c, array.NewGroup{Name: name, Labels: &labels}))
	if err != nil {
		return nil, err
	}
	change := array.VolumeChange{Group: nullable.NewNullableWithValue(made.ID)}
	if _, err := array.Decode[array.Volume](c.api.ChangeVolume(c, it.members[0].ID, change)); err != nil {
		return nil, err
	}
	c.changed()
	return c.group(c.seenAs(&made).id)
}

func removeGroup(c *call, id int64) error {
	it, err := c.group(id)
	if err != nil {
		return err
	}
	if len(it.members) > 0 {
		return fail(http.StatusBadRequest, "volume group %s has volumes: delete them first", it.name)
	}
	if it.of.Labels[labelSession] != "" {
		return fail(http.StatusBadRequest, "volume group %s is in a replication session: delete it first", it.name)
	}
	return array.Done(c.api.DeleteGroup(c, it.of.ID))
}

func listVolumes(c *call, asked *query) ([]object, error) {
	made := []object{{
		"id": int64(controlID), "name": controlName, "size": int64(0), "volume_group": (*ref)(nil), "description": "",
		"is_dedup": false, "scsi_sn": "", "replica": false,
	}}
	volumes, err := c.candidates(asked)
	if err != nil {
		return nil, err
	}
	for _, volume := range volumes {
		if !isView(volume) {
			made = append(made, c.volumeObject(volume))
		}
	}
	replicas, err := c.replicas()
	if err != nil {
		return nil, err
	}
	return append(made, replicas...), nil
}

// candidates returns the volumes that a search can find: it reads as few as it can.
func (c *call) candidates(asked *query) ([]array.Volume, error) {
	promoted, err := c.promoted()
	if err != nil {
		return nil, err
	}
	if permanent, known := c.known.get(asked.id); known {
		return c.shownAs(nil, permanent, promoted)
	}
	wanted, given := asked.equal("name")
	if !given {
		return c.allVolumes()
	}
	found, err := c.api.AllVolumes(c, array.LabelQuery(map[string]string{labelName: wanted}))
	if err != nil {
		return nil, err
	}
	for permanent, its := range promoted {
		if its.name == wanted && !slices.ContainsFunc(found, func(it array.Volume) bool { return it.ID == permanent }) {
			if found, err = c.shownAs(found, permanent, promoted); err != nil {
				return nil, err
			}
		}
	}
	if !accepted.MatchString(wanted) {
		return found, nil
	}
	return c.shownAs(found, wanted, promoted)
}

// shownAs adds a volume, by its identifier or its name on the array, unless it is gone or was found already.
func (c *call) shownAs(found []array.Volume, name string, promoted map[string]own) ([]array.Volume, error) {
	volume, err := array.Decode[array.Volume](c.api.ShowVolume(c, name))
	if array.IsKind(err, array.NotFound) {
		return found, nil
	}
	if err != nil || slices.ContainsFunc(found, func(it array.Volume) bool { return it.ID == volume.ID }) {
		return found, err
	}
	return append(found, promoted[volume.ID].asSeen(volume)), nil
}

func (c *call) volumeObject(volume array.Volume) object {
	id := number("volume", volume.ID)
	c.known.add(id, volume.ID)
	return object{
		"id": id, "name": shown(volume.Name, volume.Labels), "size": volume.Size / kib,
		"volume_group": refTo(pathGroups, groupID(volume)), "description": "", "is_dedup": volume.PolicyInForce.Dedup,
		"scsi_sn": volume.Naa, "replica": false,
	}
}

// volume returns the array's volume with an identifier.
func (c *call) volume(id int64) (array.Volume, error) {
	volumes, err := c.candidates(&query{id: id})
	if err != nil {
		return array.Volume{}, err
	}
	for _, each := range volumes {
		if number("volume", each.ID) == id && !isView(each) {
			return each, nil
		}
	}
	if id == controlID {
		return array.Volume{}, fail(http.StatusBadRequest, "volume %s stands for the array itself", controlName)
	}
	replicas, err := c.replicas()
	if err != nil {
		return array.Volume{}, err
	}
	for _, each := range replicas {
		if each["id"] == id {
			return array.Volume{}, fail(http.StatusBadRequest,
				"volume %s is the replica of another array's: it can be used after a failover of its replication session", each["name"])
		}
	}
	return array.Volume{}, gone(pathVolumes, id)
}

// size returns a size in bytes.
func size(sent body) (nullable.Nullable[int64], error) {
	wanted, err := sent.number("size")
	if err != nil || wanted <= 0 || wanted > 1<<44 {
		return nil, fail(http.StatusBadRequest, "size is a number of KiB")
	}
	return nullable.NewNullableWithValue(wanted * kib), nil
}

func createVolume(c *call, sent body) (object, error) {
	wanted, err := sent.text("name")
	if err != nil {
		return nil, err
	}
	name, label, err := nameOf(wanted)
	if err != nil {
		return nil, err
	}
	labels := named(label)
	made := array.NewVolume{Name: name, Labels: &labels}
	if made.Size, err = size(sent); err != nil {
		return nil, err
	}
	in, err := sent.refOf("volume_group", pathGroups)
	if err != nil {
		return nil, err
	}
	it, err := c.group(in)
	if err != nil {
		return nil, err
	}
	if it, err = c.real(it, nil); err != nil {
		return nil, err
	}
	made.Group = nullable.NewNullableWithValue(it.of.ID)
	volume, err := array.Decode[array.Volume](c.api.CreateVolume(c, made))
	if err != nil {
		return nil, err
	}
	return c.volumeObject(volume), nil
}

func changeVolume(c *call, id int64, sent body) (object, error) {
	volume, err := c.volume(id)
	if err != nil {
		return nil, err
	}
	var changes []array.VolumeChange
	if sent.has("name") {
		wanted, err := sent.text("name")
		if err != nil {
			return nil, err
		}
		name, label, err := nameOf(wanted)
		if err != nil {
			return nil, err
		}
		changes = append(changes, array.VolumeChange{
			Name: nullable.NewNullableWithValue(name), Labels: &map[string]*string{labelName: label},
		})
	}
	if sent.has("volume_group") {
		in, err := sent.refOf("volume_group", pathGroups)
		if err != nil {
			return nil, err
		}
		it, err := c.group(in)
		if err != nil {
			return nil, err
		}
		if it, err = c.real(it, nil); err != nil {
			return nil, err
		}
		changes = append(changes, array.VolumeChange{
			Group: nullable.NewNullableWithValue(it.of.ID), Labels: &map[string]*string{labelGroup: nil},
		})
	}
	if sent.has("size") {
		wanted, err := size(sent)
		if err != nil {
			return nil, err
		}
		// Without a permission to shrink, which is never given here, the array refuses a smaller size.
		changes = append(changes, array.VolumeChange{Size: wanted})
	}
	for _, change := range changes {
		if volume, err = array.Decode[array.Volume](c.api.ChangeVolume(c, volume.ID, change)); err != nil {
			return nil, err
		}
	}
	return c.volumeObject(volume), nil
}

// removeVolume moves a volume to the recycle bin. Nothing is eradicated here.
func removeVolume(c *call, id int64) error {
	volume, err := c.volume(id)
	if err != nil {
		return err
	}
	return array.Done(c.api.DeleteVolume(c, volume.ID, &array.DeleteVolumeParams{}))
}
