package flash

import (
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

// groupObject shows a volume group. Its physical space is known only with its volumes.
func groupObject(it array.Group, volumes ...array.Volume) object {
	if volumes == nil {
		volumes = []array.Volume{{Size: it.Provisioned, Mapped: it.Mapped}}
	}
	return object{
		"id": it.ID, "name": it.Name, "volume_count": len(it.Volumes), "destroyed": false, "time_remaining": nil,
		"priority_adjustment": priority(), "pod": object{"name": nil}, "space": volumeSpace(volumes...),
		"qos": object{"iops_limit": limitOf(it.Limits.Iops), "bandwidth_limit": limitOf(it.Limits.Bandwidth)},
	}
}

func limitOf(limit nullable.Nullable[int64]) any {
	if value := array.Value(limit); value != 0 {
		return value
	}
	return nil
}

func (c *call) groups() ([]object, error) {
	made := []object{}
	for _, name := range c.names("names") {
		it, err := array.Decode[array.Group](c.api.ShowGroup(c, name))
		destroyed := c.query.Get("destroyed")
		if destroyed == "true" || destroyed == "false" && (err == nil && isProtection(it) || array.IsKind(err, array.NotFound)) {
			return nil, &refused{name, "Volume group does not exist."}
		}
		if array.IsKind(err, array.NotFound) {
			// A client that deletes a volume again asks for its group as well, which it expects among the destroyed ones.
			made = append(made, object{"name": name, "volume_count": 0, "destroyed": true, "qos": object{}})
			continue
		}
		if err != nil {
			return nil, err
		}
		made = append(made, groupObject(it))
	}
	if c.query.Get("names") != "" || c.query.Get("destroyed") == "true" {
		return made, nil
	}
	volumes, err := c.api.AllVolumes(c, "")
	if err != nil {
		return nil, err
	}
	members := map[string][]array.Volume{}
	for _, each := range volumes {
		group := array.Value(each.Group)
		members[group] = append(members[group], each)
	}
	all, err := c.api.AllGroups(c, "")
	for _, each := range all {
		if !isProtection(each) {
			made = append(made, groupObject(each, members[each.Name]...))
		}
	}
	return made, err
}

// groupMembers lists which volume is in which group.
func (c *call) groupMembers() ([]object, error) {
	all, err := c.api.AllVolumes(c, "")
	made := []object{}
	for _, each := range all {
		if group := array.Value(each.Group); group != "" && c.isAsked("group_names", group) {
			made = append(made, object{"group": object{"name": group}, "member": object{"name": withGroup(group, each.Name), "id": each.ID}})
		}
	}
	return made, err
}

type groupChange struct {
	Qos       *qos        `json:"qos"`
	Destroyed *bool       `json:"destroyed"`
	Name      *string     `json:"name"`
	Priority  *adjustment `json:"priority_adjustment"`
}

func (c *call) createGroup() ([]object, error) {
	var wanted struct {
		Qos      *qos        `json:"qos"`
		Priority *adjustment `json:"priority_adjustment"`
	}
	name, err := c.named(&wanted)
	if err != nil {
		return nil, err
	}
	if wanted.Priority.isSet() {
		return nil, &refused{name, "Priorities of volume groups are not supported."}
	}
	if _, err := array.Decode[array.Group](c.api.ShowGroup(c, name)); err == nil {
		return nil, &refused{name, "Volume group already exists."}
	}
	made, err := array.Decode[array.Group](c.api.CreateGroup(c, array.NewGroup{Name: name, Limits: wanted.Qos.change()}))
	if err != nil {
		return nil, about("Volume group", name, err)
	}
	return []object{groupObject(made)}, nil
}

// changeGroup sets limits, or deletes a group without volumes. The array keeps no deleted groups.
func (c *call) changeGroup() ([]object, error) {
	var wanted groupChange
	name, err := c.named(&wanted)
	if err != nil {
		return nil, err
	}
	it, err := array.Decode[array.Group](c.api.ShowGroup(c, name))
	if err != nil {
		return nil, about("Volume group", name, err)
	}
	if wanted.Destroyed != nil && (!*wanted.Destroyed || wanted != (groupChange{Destroyed: wanted.Destroyed})) {
		return nil, &refused{name, "A volume group is destroyed by a request of its own, which is final."}
	}
	if wanted.Destroyed != nil {
		if len(it.Volumes) > 0 {
			return nil, &refused{name, "Volume group has volumes."}
		}
		return []object{groupObject(it)}, array.Done(c.api.DeleteGroup(c, it.ID))
	}
	if wanted.Priority.isSet() {
		return nil, &refused{name, "Priorities of volume groups are not supported."}
	}
	change := array.GroupChange{Limits: wanted.Qos.change()}
	if wanted.Name != nil {
		change.Name = nullable.NewNullableWithValue(*wanted.Name)
	}
	if it, err = array.Decode[array.Group](c.api.ChangeGroup(c, it.ID, change)); err != nil {
		return nil, about("Volume group", name, err)
	}
	return []object{groupObject(it)}, nil
}

// eradicateGroup has nothing to do for a group that is deleted already.
func (c *call) eradicateGroup() ([]object, error) {
	return c.each("names", func(name string) (object, error) {
		if _, err := array.Decode[array.Group](c.api.ShowGroup(c, name)); !array.IsKind(err, array.NotFound) {
			return nil, &refused{name, "Volume group is not destroyed."}
		}
		return nil, nil
	})
}
