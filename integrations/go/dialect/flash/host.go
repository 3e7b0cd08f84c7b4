package flash

import (
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

const (
	// minLun leaves out LUN 0, which clients take for "not connected".
	minLun = 1
	// labelPersonality keeps the operating system that a client gives for a host.
	labelPersonality = "flash.personality"
)

func hostObject(it array.Host) object {
	return object{
		"name": it.Name, "iqns": it.Initiators, "nqns": it.Nqns, "wwns": it.Wwpns, "is_local": true,
		"connection_count": len(it.Connections), "personality": nothing(it.Labels[labelPersonality]),
		"host_group": object{"name": nothing(array.Value(it.HostGroup))}, "chap": object{"host_user": nothing(array.Value(it.ChapUser))},
		"port_connectivity": object{}, "preferred_arrays": []object{},
	}
}

func (c *call) host(name string) (array.Host, error) {
	it, err := array.Decode[array.Host](c.api.ShowHost(c, name))
	return it, about("Host", name, err)
}

func (c *call) hosts() ([]object, error) {
	made := []object{}
	if wanted := c.names("names"); wanted != nil {
		for _, name := range wanted {
			it, err := c.host(name)
			if err != nil {
				return nil, err
			}
			made = append(made, hostObject(it))
		}
		return made, nil
	}
	all, err := c.api.AllHosts(c, "")
	for _, each := range all {
		made = append(made, hostObject(each))
	}
	return made, err
}

type hostChange struct {
	Iqns        *[]string `json:"iqns"`
	Wwns        *[]string `json:"wwns"`
	Nqns        *[]string `json:"nqns"`
	Personality *string   `json:"personality"`
	Chap        *struct {
		User     string `json:"host_user"`
		Password string `json:"host_password"`
	} `json:"chap"`
}

func (w hostChange) chap() nullable.Nullable[array.Chap] {
	switch {
	case w.Chap == nil:
		return nil
	case w.Chap.User == "":
		return nullable.NewNullNullable[array.Chap]()
	}
	return nullable.NewNullableWithValue(array.Chap{User: w.Chap.User, Secret: w.Chap.Password})
}

func (c *call) createHost() ([]object, error) {
	name, err := c.one("names")
	if err != nil {
		return nil, err
	}
	var wanted hostChange
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	made := array.NewHost{Name: name, Initiators: []string{}, Wwpns: wanted.Wwns, Nqns: wanted.Nqns, Chap: wanted.chap()}
	if wanted.Iqns != nil {
		made.Initiators = *wanted.Iqns
	}
	if wanted.Personality != nil {
		made.Labels = &map[string]string{labelPersonality: *wanted.Personality}
	}
	it, isNew, err := array.Made[array.Host](c.api.CreateHost(c, made))
	if err != nil {
		return nil, about("Host", name, err)
	}
	if !isNew {
		return nil, &refused{name, "Host already exists."}
	}
	return []object{hostObject(it)}, nil
}

func (c *call) changeHost() ([]object, error) {
	name, err := c.one("names")
	if err != nil {
		return nil, err
	}
	var wanted hostChange
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	change := array.HostChange{Chap: wanted.chap()}
	for _, each := range []struct {
		from *[]string
		to   *nullable.Nullable[[]string]
	}{{wanted.Iqns, &change.Initiators}, {wanted.Wwns, &change.Wwpns}, {wanted.Nqns, &change.Nqns}} {
		if each.from != nil {
			*each.to = nullable.NewNullableWithValue(*each.from)
		}
	}
	if wanted.Personality != nil {
		change.Labels = &map[string]*string{labelPersonality: wanted.Personality}
	}
	it, err := array.Decode[array.Host](c.api.ChangeHost(c, name, change))
	if err != nil {
		return nil, about("Host", name, err)
	}
	return []object{hostObject(it)}, nil
}

func (c *call) deleteHost() ([]object, error) {
	name, err := c.one("names")
	if err != nil {
		return nil, err
	}
	it, err := c.host(name)
	if err != nil {
		return nil, err
	}
	if len(it.Connections) > 0 {
		return nil, &refused{name, "Host cannot be deleted due to existing connections."}
	}
	return nil, array.Done(c.api.DeleteHost(c, it.ID))
}

// connections lists those of volumes, of hosts, or all.
func (c *call) connections() ([]object, error) {
	volumes, hosts := map[string]bool{}, map[string]bool{}
	for _, name := range c.names("volume_names") {
		it, err := c.volume(name)
		if err != nil {
			return nil, err
		}
		volumes[it.ID] = true
	}
	for _, name := range c.names("host_names") {
		it, err := c.host(name)
		if err != nil {
			return nil, err
		}
		hosts[it.ID] = true
	}
	all, err := array.All(func(limit, offset int) ([]array.Connection, int, error) {
		found, err := array.Decode[array.Connections](c.api.ListConnections(c, &array.ListConnectionsParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
	if err != nil {
		return nil, err
	}
	groups, err := c.groupsOfVolumes()
	if err != nil {
		return nil, err
	}
	made := []object{}
	for _, it := range all {
		if (len(volumes) == 0 || volumes[it.VolumeID]) && (len(hosts) == 0 || hosts[array.Value(it.HostID)]) {
			made = append(made, connectionObject(it.VolumeID, withGroup(groups[it.VolumeID], it.Volume), array.Value(it.Host), array.Value(it.HostGroup), it.Lun))
		}
	}
	return made, nil
}

func (c *call) groupsOfVolumes() (map[string]string, error) {
	all, err := c.api.AllVolumes(c, "")
	groups := map[string]string{}
	for _, each := range all {
		groups[each.ID] = array.Value(each.Group)
	}
	return groups, err
}

func connectionObject(id, volume, host, group string, lun int32) object {
	return object{
		"volume": object{"name": volume, "id": id}, "host": object{"name": nothing(host)}, "host_group": object{"name": nothing(group)},
		"lun": lun, "nsid": nil, "protocol_endpoint": object{},
	}
}

// pair returns the volume and the host that a request is about.
func (c *call) pair() (volume array.Volume, host array.Host, err error) {
	names := [2]string{}
	for at, parameter := range []string{"volume_names", "host_names"} {
		if names[at], err = c.one(parameter); err != nil {
			return volume, host, err
		}
	}
	if host, err = c.host(names[1]); err != nil {
		return volume, host, err
	}
	volume, err = c.volume(names[0])
	return volume, host, err
}

func (c *call) connect() ([]object, error) {
	volume, host, err := c.pair()
	if err != nil {
		return nil, err
	}
	made := array.NewConnection{
		Volume: volume.ID, Host: nullable.NewNullableWithValue(host.ID), MinLun: nullable.NewNullableWithValue[int32](minLun),
	}
	its, err := array.Decode[array.Attachment](c.api.CreateConnection(c, made))
	if err != nil {
		return nil, about("Connection", volume.Name, err)
	}
	return []object{connectionObject(volume.ID, withGroup(array.Value(volume.Group), volume.Name), host.Name, "", its.Lun)}, nil
}

func (c *call) disconnect() ([]object, error) {
	volume, host, err := c.pair()
	if err != nil {
		return nil, err
	}
	return nil, about("Connection", volume.Name, array.Done(c.api.DeleteConnection(c, volume.ID, host.ID)))
}
