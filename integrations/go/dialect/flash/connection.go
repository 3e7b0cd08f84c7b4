package flash

import (
	"slices"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

// minLun leaves out LUN 0, which clients take for "not connected".
const minLun = 1

// connections lists those of volumes, of hosts, of host groups, or all. That of a host group is shown once for each of its hosts.
func (c *call) connections() ([]object, error) {
	wanted, err := c.wantedConnections()
	if err != nil {
		return nil, err
	}
	all, err := array.All(func(limit, offset int) ([]array.Connection, int, error) {
		found, err := array.Decode[array.Connections](c.api.ListConnections(c, &array.ListConnectionsParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
	if err != nil {
		return nil, err
	}
	volumes, err := c.groupsOfVolumes()
	if err != nil {
		return nil, err
	}
	groups, err := c.allHostGroups()
	if err != nil {
		return nil, err
	}
	members := map[string][]string{}
	for _, each := range groups {
		members[each.ID] = each.Hosts
	}
	made := []object{}
	for _, it := range all {
		hosts := []string{array.Value(it.Host)}
		if group := array.Value(it.HostGroupID); group != "" && len(members[group]) > 0 {
			hosts = members[group]
		}
		for _, host := range hosts {
			if wanted(it, host) {
				volume := withGroup(volumes[it.VolumeID], it.Volume)
				made = append(made, connectionObject(it.VolumeID, volume, host, array.Value(it.HostGroup), it.Lun))
			}
		}
	}
	return made, nil
}

// wantedConnections returns what selects connections by the parameters of a request; what they name must exist.
func (c *call) wantedConnections() (func(it array.Connection, host string) bool, error) {
	var volumes []string
	for _, name := range c.names("volume_names") {
		it, err := c.volume(name)
		if err != nil {
			return nil, err
		}
		volumes = append(volumes, it.ID)
	}
	var hosts []string
	for _, name := range c.names("host_names") {
		it, err := c.host(name)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, it.Name)
	}
	var groups []string
	for _, name := range c.names("host_group_names") {
		it, err := c.hostGroup(name)
		if err != nil {
			return nil, err
		}
		groups = append(groups, it.ID)
	}
	return func(it array.Connection, host string) bool {
		return (volumes == nil || slices.Contains(volumes, it.VolumeID)) && (hosts == nil || slices.Contains(hosts, host)) &&
			(groups == nil || slices.Contains(groups, array.Value(it.HostGroupID)))
	}, nil
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

// initiators are what a volume is connected to: a host or a host group.
type initiators struct{ host, group, hostID, groupID string }

// to returns what a request connects or disconnects.
func (c *call) to() (initiators, error) {
	if c.query.Get("host_group_names") != "" {
		if c.query.Get("host_names") != "" {
			return initiators{}, &refused{"host_names", "Either a host or a host group is connected."}
		}
		name, err := c.one("host_group_names")
		if err != nil {
			return initiators{}, err
		}
		it, err := c.hostGroup(name)
		return initiators{group: it.Name, groupID: it.ID}, err
	}
	name, err := c.one("host_names")
	if err != nil {
		return initiators{}, err
	}
	it, err := c.host(name)
	return initiators{host: it.Name, hostID: it.ID}, err
}

// connect connects volumes. If one fails, those before it are disconnected.
func (c *call) connect() ([]object, error) {
	var wanted struct {
		Lun *int32 `json:"lun"`
	}
	if len(c.body) > 0 {
		if err := c.read(&wanted); err != nil {
			return nil, err
		}
	}
	to, err := c.to()
	if err != nil {
		return nil, err
	}
	var done []array.Volume
	made, err := c.each("volume_names", func(name string) (object, error) {
		volume, err := c.volume(name)
		if err != nil {
			return nil, err
		}
		its, err := c.connectTo(volume, to, wanted.Lun)
		if err == nil {
			done = append(done, volume)
		}
		return its, err
	})
	if err == nil {
		return made, nil
	}
	for _, each := range done {
		// The first failure is the one that is reported.
		_ = c.disconnectFrom(each, to)
	}
	return nil, err
}

func (c *call) connectTo(volume array.Volume, to initiators, lun *int32) (object, error) {
	made := array.NewConnection{Volume: volume.ID}
	if lun != nil {
		made.Lun = nullable.NewNullableWithValue(*lun)
	} else {
		made.MinLun = nullable.NewNullableWithValue[int32](minLun)
	}
	if to.groupID != "" {
		made.HostGroup = nullable.NewNullableWithValue(to.groupID)
	} else {
		made.Host = nullable.NewNullableWithValue(to.hostID)
	}
	its, isNew, err := array.Made[array.Attachment](c.api.CreateConnection(c, made))
	if err != nil {
		return nil, about("Connection", volume.Name, err)
	}
	if !isNew {
		return nil, &refused{volume.Name, "Connection already exists."}
	}
	return connectionObject(volume.ID, withGroup(array.Value(volume.Group), volume.Name), to.host, to.group, its.Lun), nil
}

func (c *call) disconnect() ([]object, error) {
	to, err := c.to()
	if err != nil {
		return nil, err
	}
	return c.each("volume_names", func(name string) (object, error) {
		volume, err := c.volume(name)
		if err != nil {
			return nil, err
		}
		return nil, about("Connection", volume.Name, c.disconnectFrom(volume, to))
	})
}

func (c *call) disconnectFrom(volume array.Volume, to initiators) error {
	if to.groupID != "" {
		return array.Done(c.api.DeleteHostGroupConnection(c, volume.ID, to.groupID))
	}
	return array.Done(c.api.DeleteConnection(c, volume.ID, to.hostID))
}
