package flash

import (
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
	retention := object{"all_for_sec": 0, "per_day": 0, "days": 0}
	return object{
		"id": it.ID, "name": it.Name, "is_local": true, "volume_count": len(members), "host_count": 0, "host_group_count": 0,
		"target_count": 0, "retention_lock": "unlocked", "destroyed": false, "time_remaining": nil, "pod": object{"name": nil},
		"source": object{"name": nil},
		// The array's schedules are of volumes or volume groups.
		"snapshot_schedule":    object{"enabled": false, "frequency": 0, "at": nil},
		"replication_schedule": object{"enabled": false, "frequency": 0, "at": nil, "blackout": object{"start": 0, "end": 0}},
		"source_retention":     retention, "target_retention": retention, "space": volumeSpace(members...),
		"eradication_config": object{"manual_eradication": "enabled"},
	}, err
}

func (c *call) protections() ([]object, error) {
	made := []object{}
	if c.query.Get("destroyed") == "true" {
		for _, name := range c.names("names") {
			return nil, &refused{name, "Protection group does not exist."}
		}
		return made, nil
	}
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

// schedule is what a client wants to be done regularly.
type schedule struct {
	Enabled bool `json:"enabled"`
}

// changeProtection deletes a group. Its volumes and snapshots stay. Schedules can be disabled only, as they are.
func (c *call) changeProtection() ([]object, error) {
	var wanted struct {
		Destroyed   *bool     `json:"destroyed"`
		Snapshots   *schedule `json:"snapshot_schedule"`
		Replication *schedule `json:"replication_schedule"`
	}
	name, err := c.named(&wanted)
	if err != nil {
		return nil, err
	}
	it, err := c.protection(name)
	if err != nil {
		return nil, err
	}
	for _, each := range []*schedule{wanted.Snapshots, wanted.Replication} {
		if each != nil && each.Enabled {
			return nil, &refused{name, "Schedules of protection groups are not supported: `ashlar schedule create` and `ashlar replication create` do it."}
		}
	}
	if wanted.Destroyed == nil {
		shown, err := c.protectionObject(it)
		return []object{shown}, err
	}
	if !*wanted.Destroyed {
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
	made := []object{}
	for _, group := range groups {
		if !c.isAsked("group_names", group.Name) {
			continue
		}
		members, err := c.members(group.Name)
		if err != nil {
			return nil, err
		}
		for _, each := range members {
			if name := withGroup(array.Value(each.Group), each.Name); c.isAsked("member_names", name) {
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
	members := c.names("member_names")
	if members == nil {
		return nil, &refused{"member_names", "A name is needed."}
	}
	return c.enlist(name, members, in)
}

// enlist puts volumes into a protection group, or takes them out.
func (c *call) enlist(name string, volumes []string, in bool) ([]object, error) {
	if _, err := c.protection(name); err != nil {
		return nil, err
	}
	made := []object{}
	for _, member := range volumes {
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
