package flash

import (
	"slices"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

func hostGroupObject(it array.HostGroup) object {
	return object{
		"name": it.Name, "is_local": true, "host_count": len(it.Hosts), "connection_count": len(it.Connections), "destroyed": false,
		"time_remaining": nil, "space": volumeSpace(),
	}
}

func (c *call) hostGroup(name string) (array.HostGroup, error) {
	it, err := array.Decode[array.HostGroup](c.api.ShowHostGroup(c, name))
	return it, about("Host group", name, err)
}

func (c *call) allHostGroups() ([]array.HostGroup, error) {
	return array.All(func(limit, offset int) ([]array.HostGroup, int, error) {
		found, err := array.Decode[array.HostGroups](c.api.ListHostGroups(c, &array.ListHostGroupsParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
}

// namedHostGroups returns those that a parameter names; all without it.
func (c *call) namedHostGroups(parameter string) ([]array.HostGroup, error) {
	wanted := c.names(parameter)
	if wanted == nil {
		return c.allHostGroups()
	}
	var made []array.HostGroup
	for _, name := range wanted {
		it, err := c.hostGroup(name)
		if err != nil {
			return nil, err
		}
		made = append(made, it)
	}
	return made, nil
}

func (c *call) hostGroups() ([]object, error) {
	all, err := c.namedHostGroups("names")
	made := []object{}
	for _, each := range all {
		made = append(made, hostGroupObject(each))
	}
	return made, err
}

func (c *call) createHostGroups() ([]object, error) {
	return c.each("names", func(name string) (object, error) {
		it, isNew, err := array.Made[array.HostGroup](c.api.CreateHostGroup(c, array.NewHostGroup{Name: name}))
		if err != nil {
			return nil, about("Host group", name, err)
		}
		if !isNew {
			return nil, &refused{name, "Host group already exists."}
		}
		return hostGroupObject(it), nil
	})
}

func (c *call) changeHostGroup() ([]object, error) {
	var wanted struct {
		Name *string `json:"name"`
	}
	name, err := c.named(&wanted)
	if err != nil {
		return nil, err
	}
	it, err := c.hostGroup(name)
	if err != nil || wanted.Name == nil {
		return []object{hostGroupObject(it)}, err
	}
	change := array.HostGroupChange{Name: nullable.NewNullableWithValue(*wanted.Name)}
	it, err = array.Decode[array.HostGroup](c.api.ChangeHostGroup(c, it.ID, change))
	return []object{hostGroupObject(it)}, about("Host group", *wanted.Name, err)
}

func (c *call) deleteHostGroups() ([]object, error) {
	return c.each("names", func(name string) (object, error) {
		it, err := c.hostGroup(name)
		if err != nil {
			return nil, err
		}
		if len(it.Connections) > 0 {
			return nil, &refused{name, "Host group cannot be deleted due to existing connections."}
		}
		return nil, array.Done(c.api.DeleteHostGroup(c, it.ID))
	})
}

// hostMemberships lists which host is in which group.
func (c *call) hostMemberships() ([]object, error) {
	all, err := c.namedHostGroups("group_names")
	if err != nil {
		return nil, err
	}
	made := []object{}
	for _, group := range all {
		for _, host := range group.Hosts {
			if c.isAsked("member_names", host) {
				made = append(made, object{"group": object{"name": group.Name}, "member": object{"name": host}})
			}
		}
	}
	return made, nil
}

func (c *call) addHosts() ([]object, error) { return c.changeMembers(true) }

func (c *call) removeHosts() ([]object, error) { return c.changeMembers(false) }

func (c *call) changeMembers(in bool) ([]object, error) {
	name, err := c.one("group_names")
	if err != nil {
		return nil, err
	}
	group, err := c.hostGroup(name)
	if err != nil {
		return nil, err
	}
	hosts := slices.Clone(group.Hosts)
	made, err := c.each("member_names", func(name string) (object, error) {
		host, err := c.host(name)
		if err != nil {
			return nil, err
		}
		at := slices.Index(hosts, host.Name)
		switch {
		case in && at < 0:
			hosts = append(hosts, host.Name)
		case !in && at < 0:
			return nil, &refused{name, "Host is not in the host group."}
		case !in:
			hosts = slices.Delete(hosts, at, at+1)
		}
		return object{"group": object{"name": group.Name}, "member": object{"name": host.Name}}, nil
	})
	if err != nil {
		return nil, err
	}
	return made, c.setHosts(group, hosts)
}

func (c *call) setHosts(group array.HostGroup, hosts []string) error {
	change := array.HostGroupChange{Hosts: nullable.NewNullableWithValue(hosts)}
	return about("Host group", group.Name, array.Done(c.api.ChangeHostGroup(c, group.ID, change)))
}

// moveHost puts a host into a group, out of the one that it was in; an empty name only does the latter.
func (c *call) moveHost(host array.Host, to string) error {
	from := array.Value(host.HostGroup)
	if from == to {
		return nil
	}
	if from != "" {
		group, err := c.hostGroup(from)
		if err != nil {
			return err
		}
		rest := slices.DeleteFunc(slices.Clone(group.Hosts), func(name string) bool { return name == host.Name })
		if err := c.setHosts(group, rest); err != nil {
			return err
		}
	}
	if to == "" {
		return nil
	}
	group, err := c.hostGroup(to)
	if err != nil {
		return err
	}
	return c.setHosts(group, append(slices.Clone(group.Hosts), host.Name))
}
