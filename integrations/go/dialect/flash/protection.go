package flash

import (
	"strings"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

// A protection group is an empty volume group of the array with a label; its members have a label each, since a volume can be
// in several. Snapshots of a group are those of its members at one moment.
const (
	labelProtection = "flash.protection"
	// memberLabel begins labels of members; a hash of the group's name follows, which may be too long for a label.
	memberLabel = "flash.member/"
	// labelSet is the name of the group's snapshot that a volume's snapshot is a part of.
	labelSet = "flash.set"
)

func memberKey(group string) string { return memberLabel + array.Hash(group) }

func isProtection(it array.Group) bool { return it.Labels[labelProtection] != "" }

// protection returns the array's group that stands for a protection group.
func (c *call) protection(name string) (array.Group, error) {
	it, err := array.Decode[array.Group](c.api.ShowGroup(c, name))
	if err == nil && !isProtection(it) {
		err = &array.Error{Kind: array.NotFound, Detail: name}
	}
	return it, about("Protection group", name, err)
}

func (c *call) members(group string) ([]array.Volume, error) {
	return c.api.AllVolumes(c, array.LabelQuery(map[string]string{memberKey(group): group}))
}

func (c *call) protectionObject(it array.Group) (object, error) {
	members, err := c.members(it.Name)
	return object{
		"id": it.ID, "name": it.Name, "is_local": true, "volume_count": len(members), "host_count": 0, "host_group_count": 0,
		"target_count": 0, "retention_lock": "unlocked", "destroyed": false, "time_remaining": nil, "pod": object{"name": nil},
		"source": object{"name": nil},
	}, err
}

func (c *call) protections() ([]object, error) {
	made := []object{}
	var all []array.Group
	if wanted := c.names("names"); wanted != nil {
		for _, name := range wanted {
			it, err := c.protection(name)
			if err != nil {
				return nil, err
			}
			all = append(all, it)
		}
	} else {
		every, err := c.api.AllGroups(c, labelProtection)
		if err != nil {
			return nil, err
		}
		all = every
	}
	for _, each := range all {
		shown, err := c.protectionObject(each)
		if err != nil {
			return nil, err
		}
		made = append(made, shown)
	}
	return made, nil
}

func (c *call) createProtection() ([]object, error) {
	name, err := c.one("names")
	if err != nil {
		return nil, err
	}
	labels := map[string]string{labelProtection: "group"}
	it, isNew, err := array.Made[array.Group](c.api.CreateGroup(c, array.NewGroup{Name: name, Labels: &labels}))
	if err != nil {
		return nil, about("Protection group", name, err)
	}
	if !isNew {
		return nil, &refused{name, "Protection group already exists."}
	}
	shown, err := c.protectionObject(it)
	return []object{shown}, err
}

// changeProtection deletes a group. Its volumes and snapshots stay.
func (c *call) changeProtection() ([]object, error) {
	name, err := c.one("names")
	if err != nil {
		return nil, err
	}
	var wanted struct {
		Destroyed bool `json:"destroyed"`
	}
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	it, err := c.protection(name)
	if err != nil {
		return nil, err
	}
	if !wanted.Destroyed {
		return nil, &refused{name, "The protection group is not destroyed."}
	}
	members, err := c.members(name)
	if err != nil {
		return nil, err
	}
	for _, each := range members {
		if err := c.label(c, each.ID, map[string]*string{memberKey(name): nil}); err != nil {
			return nil, err
		}
	}
	return []object{{"id": it.ID, "name": name, "destroyed": true}}, array.Done(c.api.DeleteGroup(c, it.ID))
}

// memberships lists which volume is in which group.
func (c *call) memberships() ([]object, error) {
	groups, err := c.api.AllGroups(c, labelProtection)
	if err != nil {
		return nil, err
	}
	wanted := func(parameter, name string) bool {
		given := c.query.Get(parameter)
		return given == "" || strings.Contains(","+given+",", ","+name+",")
	}
	made := []object{}
	for _, group := range groups {
		if !wanted("group_names", group.Name) {
			continue
		}
		members, err := c.members(group.Name)
		if err != nil {
			return nil, err
		}
		for _, each := range members {
			if name := withGroup(array.Value(each.Group), each.Name); wanted("member_names", name) {
				made = append(made, object{"group": object{"name": group.Name}, "member": object{"name": name, "id": each.ID}})
			}
		}
	}
	return made, nil
}

func (c *call) addMembers() ([]object, error) { return c.setMembers(true) }

func (c *call) removeMembers() ([]object, error) { return c.setMembers(false) }

func (c *call) setMembers(in bool) ([]object, error) {
	name, err := c.one("group_names")
	if err != nil {
		return nil, err
	}
	if _, err := c.protection(name); err != nil {
		return nil, err
	}
	made := []object{}
	for _, member := range c.names("member_names") {
		volume, err := c.volume(member)
		if err != nil {
			return nil, err
		}
		labels := map[string]*string{memberKey(name): nil}
		if in {
			labels[memberKey(name)] = &name
		}
		if err := c.label(c, volume.ID, labels); err != nil {
			return nil, err
		}
		made = append(made, object{"group": object{"name": name}, "member": object{"name": member, "id": volume.ID}})
	}
	return made, nil
}

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
	if err := array.Done(c.api.CreateSnapshots(c, taken)); err != nil {
		return nil, about("Protection group snapshot", set, err)
	}
	return []object{{"id": it.ID, "name": set, "suffix": wanted.Suffix, "source": object{"name": name}, "destroyed": false}}, nil
}

// deleteProtected moves all snapshots of a group's snapshot to the recycle bin.
func (c *call) deleteProtected() ([]object, error) {
	name, err := c.one("names")
	if err != nil {
		return nil, err
	}
	var wanted struct {
		Destroyed bool `json:"destroyed"`
	}
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	parts, err := c.api.AllSnapshots(c, array.LabelQuery(map[string]string{labelSet: name}))
	if err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, &refused{name, "Protection group snapshot does not exist."}
	}
	if !wanted.Destroyed {
		return nil, &refused{name, "The snapshot is not destroyed."}
	}
	for _, each := range parts {
		if err := array.Done(c.api.DeleteSnapshot(c, each.ID, &array.DeleteSnapshotParams{})); err != nil {
			return nil, err
		}
	}
	return []object{{"name": name, "destroyed": true}}, nil
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
	bin, err := c.bin()
	if err != nil {
		return nil, err
	}
	for _, each := range bin {
		if each.Kind == array.DiskKindSnapshot && strings.HasPrefix(each.Name, name+".") {
			if err := array.Done(c.api.EradicateFromRecycleBin(c, each.ID)); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}
