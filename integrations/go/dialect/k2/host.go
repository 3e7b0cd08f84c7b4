package k2

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

const (
	pathHosts      = "/hosts"
	pathHostGroups = "/host_groups"
	pathIqns       = "/host_iqns"
	pathPorts      = "/host_fc_ports"
	pathMappings   = "/mappings"
	// minLun leaves out LUN 0, which clients take for "not connected".
	minLun = 1
	// maxPending bounds hosts without initiators.
	maxPending = 1024
)

// pendingHosts are hosts that a client has made and that have no initiator yet: the array has no such hosts. They are made with
// the first one. A restart forgets them, so that nothing is left of a client that has gone away.
type pendingHosts struct {
	mutex sync.Mutex
	types map[string]string
}

func (p *pendingHosts) add(name, system string) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.types == nil {
		p.types = map[string]string{}
	}
	if len(p.types) >= maxPending {
		return fail(http.StatusTooManyRequests, "%d hosts wait for their first initiator", maxPending)
	}
	p.types[name] = system
	return nil
}

func (p *pendingHosts) remove(name string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.types, name)
}

func (p *pendingHosts) names() map[string]string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	all := map[string]string{}
	for name, system := range p.types {
		all[name] = system
	}
	return all
}

// host is one as clients see it.
type host struct {
	name, system string
	// of is the array's host; nil while it has no initiator.
	of *array.Host
}

// id of a host follows from its name, so that it is the same before and after its first initiator.
func (h *host) id() int64 { return number("host", h.name) }

func (c *call) hosts() ([]*host, error) {
	of, err := c.api.AllHosts(c, "")
	if err != nil {
		return nil, err
	}
	var all []*host
	pending := c.pending.names()
	for at := range of {
		it := &host{name: shown(of[at].Name, of[at].Labels), system: of[at].Labels[labelType], of: &of[at]}
		delete(pending, it.name)
		all = append(all, it)
	}
	for name, system := range pending {
		all = append(all, &host{name: name, system: system})
	}
	return all, nil
}

func (c *call) host(id int64) (*host, error) {
	all, err := c.hosts()
	if err != nil {
		return nil, err
	}
	for _, each := range all {
		if each.id() == id {
			return each, nil
		}
	}
	return nil, gone(pathHosts, id)
}

func (h *host) object() object {
	var in *ref
	if h.of != nil && array.Value(h.of.HostGroupID) != "" {
		in = refTo(pathHostGroups, number("host group", array.Value(h.of.HostGroupID)))
	}
	return object{"id": h.id(), "name": h.name, "type": h.system, "host_group": in, "description": ""}
}

func listHosts(c *call, _ *query) ([]object, error) {
	all, err := c.hosts()
	if err != nil {
		return nil, err
	}
	var made []object
	for _, each := range all {
		made = append(made, each.object())
	}
	return made, nil
}

func createHost(c *call, sent body) (object, error) {
	name, err := sent.text("name")
	if err != nil {
		return nil, err
	}
	if _, _, err := nameOf(name); err != nil {
		return nil, err
	}
	it := &host{name: name}
	if sent.has("type") {
		if it.system, err = sent.text("type"); err != nil {
			return nil, err
		}
	}
	all, err := c.hosts()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(all, func(other *host) bool { return other.name == name && other.of != nil }) {
		return nil, fail(http.StatusConflict, "there is a host %s", name)
	}
	if err := c.pending.add(name, it.system); err != nil {
		return nil, err
	}
	return it.object(), nil
}

func changeHost(c *call, id int64, sent body) (object, error) {
	it, err := c.host(id)
	if err != nil {
		return nil, err
	}
	if it.system, err = sent.text("type"); err != nil {
		return nil, err
	}
	if it.of == nil {
		return it.object(), c.pending.add(it.name, it.system)
	}
	change := array.HostChange{Labels: &map[string]*string{labelType: &it.system}}
	_, err = array.Decode[array.Host](c.api.ChangeHost(c, it.of.ID, change))
	return it.object(), err
}

func removeHost(c *call, id int64) error {
	it, err := c.host(id)
	if err != nil {
		return err
	}
	if it.of != nil {
		err = array.Done(c.api.DeleteHost(c, it.of.ID))
	}
	if err == nil {
		c.pending.remove(it.name)
	}
	return err
}

func listHostGroups(c *call, _ *query) ([]object, error) {
	all, err := array.All(func(limit, offset int) ([]array.HostGroup, int, error) {
		found, err := array.Decode[array.HostGroups](c.api.ListHostGroups(c, &array.ListHostGroupsParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
	var made []object
	for _, each := range all {
		made = append(made, object{"id": number("host group", each.ID), "name": shown(each.Name, each.Labels)})
	}
	return made, err
}

// ports are the initiators of hosts of one kind.
type ports struct {
	path, field string
	of          func(*array.Host) []string
	// creation and change write the complete list.
	creation func(*array.NewHost, []string)
	change   func(*array.HostChange, []string)
}

var iqns = &ports{
	path: pathIqns, field: "iqn",
	of:       func(of *array.Host) []string { return of.Initiators },
	creation: func(made *array.NewHost, all []string) { made.Initiators = all },
	change:   func(change *array.HostChange, all []string) { change.Initiators = nullable.NewNullableWithValue(all) },
}

var fcPorts = &ports{
	path: pathPorts, field: "pwwn",
	of:       func(of *array.Host) []string { return of.Wwpns },
	creation: func(made *array.NewHost, all []string) { made.Wwpns = &all },
	change:   func(change *array.HostChange, all []string) { change.Wwpns = nullable.NewNullableWithValue(all) },
}

func (p *ports) object(it *host, port string) object {
	return object{"id": number(p.field, port), p.field: port, "host": refTo(pathHosts, it.id())}
}

func (p *ports) list(c *call, _ *query) ([]object, error) {
	all, err := c.hosts()
	if err != nil {
		return nil, err
	}
	var made []object
	for _, it := range all {
		if it.of != nil {
			for _, port := range p.of(it.of) {
				made = append(made, p.object(it, port))
			}
		}
	}
	return made, nil
}

// create adds an initiator to a host. The first one makes the host on the array.
func (p *ports) create(c *call, sent body) (object, error) {
	port, err := sent.text(p.field)
	if err != nil {
		return nil, err
	}
	port = strings.ToLower(port)
	id, err := sent.refOf("host", pathHosts)
	if err != nil {
		return nil, err
	}
	it, err := c.host(id)
	if err != nil {
		return nil, err
	}
	if it.of != nil {
		all := p.of(it.of)
		if slices.Contains(all, port) {
			return p.object(it, port), nil
		}
		return p.object(it, port), p.write(c, it, append(all, port))
	}
	name, label, err := nameOf(it.name)
	if err != nil {
		return nil, err
	}
	labels := named(label)
	if it.system != "" {
		labels[labelType] = it.system
	}
	made := array.NewHost{Name: name, Initiators: []string{}, Labels: &labels}
	p.creation(&made, []string{port})
	if _, err := array.Decode[array.Host](c.api.CreateHost(c, made)); err != nil {
		return nil, err
	}
	c.pending.remove(it.name)
	return p.object(it, port), nil
}

func (p *ports) write(c *call, it *host, all []string) error {
	var change array.HostChange
	p.change(&change, all)
	_, err := array.Decode[array.Host](c.api.ChangeHost(c, it.of.ID, change))
	return err
}

func (p *ports) remove(c *call, id int64) error {
	all, err := c.hosts()
	if err != nil {
		return err
	}
	for _, it := range all {
		if it.of == nil {
			continue
		}
		its := p.of(it.of)
		if at := slices.IndexFunc(its, func(port string) bool { return number(p.field, port) == id }); at >= 0 {
			return p.write(c, it, slices.Delete(slices.Clone(its), at, at+1))
		}
	}
	return gone(p.path, id)
}

// mappings lists connections. What is connected is a volume, or a part of a snapshot.
func listMappings(c *call, _ *query) ([]object, error) {
	all, err := c.connections()
	if err != nil {
		return nil, err
	}
	snapshots, err := c.snapshots()
	if err != nil {
		return nil, err
	}
	parts := map[string]*ref{}
	for _, it := range snapshots {
		for _, each := range it.parts {
			to := refTo(pathVolsnaps, each.id())
			to.alias = refTo(pathSnapshots, it.id).Ref
			parts[each.permanent] = to
		}
	}
	hosts, err := c.hosts()
	if err != nil {
		return nil, err
	}
	byID := map[string]*host{}
	for _, it := range hosts {
		if it.of != nil {
			byID[it.of.ID] = it
		}
	}
	var made []object
	for _, each := range all {
		made = append(made, mappingObject(each, parts, byID))
	}
	return made, nil
}

func mappingObject(it array.Connection, parts map[string]*ref, hosts map[string]*host) object {
	to := parts[it.VolumeID]
	if to == nil {
		to = refTo(pathVolumes, number("volume", it.VolumeID))
	}
	var host, group *ref
	whose := array.Value(it.HostGroupID)
	if whose != "" {
		group = refTo(pathHostGroups, number("host group", whose))
	} else if whose = array.Value(it.HostID); hosts[whose] != nil {
		host = refTo(pathHosts, hosts[whose].id())
	}
	return object{
		"id": number("mapping", it.VolumeID+" "+whose), "lun": int64(it.Lun), "volume": to, "host": host, "host_group": group,
	}
}

func createMapping(c *call, sent body) (object, error) {
	what, err := c.connectable(sent)
	if err != nil {
		return nil, err
	}
	id, err := sent.refOf("host", pathHosts)
	if err != nil {
		return nil, err
	}
	it, err := c.host(id)
	if err != nil {
		return nil, err
	}
	if it.of == nil {
		return nil, fail(http.StatusBadRequest, "host %s has no initiator yet", it.name)
	}
	made := array.NewConnection{Volume: what, Host: nullable.NewNullableWithValue(it.of.ID)}
	if sent.has("lun") {
		lun, err := sent.number("lun")
		if err != nil || lun < 0 || lun > 16383 {
			return nil, fail(http.StatusBadRequest, "lun is a number from 0 to 16383")
		}
		made.Lun = nullable.NewNullableWithValue(int32(lun))
	} else {
		made.MinLun = nullable.NewNullableWithValue[int32](minLun)
	}
	if err := array.Done(c.api.CreateConnection(c, made)); err != nil {
		return nil, err
	}
	c.changed()
	return c.find(c.resources[pathMappings], number("mapping", what+" "+it.of.ID))
}

// connectable returns the permanent identifier of what a mapping's volume is.
func (c *call) connectable(sent body) (string, error) {
	path, id, err := sent.ref("volume")
	if err != nil {
		return "", err
	}
	if path == pathVolumes {
		volume, err := c.volume(id)
		return volume.ID, err
	}
	all, err := c.snapshots()
	if err != nil {
		return "", err
	}
	for _, it := range all {
		if path == pathSnapshots && it.id == id {
			if len(it.parts) != 1 {
				return "", fail(http.StatusBadRequest, "snapshot %s is of %d volumes: map one of its volsnaps", it.name, len(it.parts))
			}
			return it.parts[0].permanent, nil
		}
		for _, each := range it.parts {
			if path == pathVolsnaps && each.id() == id {
				return each.permanent, nil
			}
		}
	}
	return "", gone(path, id)
}

func removeMapping(c *call, id int64) error {
	all, err := c.connections()
	if err != nil {
		return err
	}
	for _, each := range all {
		host, group := array.Value(each.HostID), array.Value(each.HostGroupID)
		switch id {
		case number("mapping", each.VolumeID+" "+group):
			return array.Done(c.api.DeleteHostGroupConnection(c, each.VolumeID, group))
		case number("mapping", each.VolumeID+" "+host):
			return array.Done(c.api.DeleteConnection(c, each.VolumeID, host))
		}
	}
	return gone(pathMappings, id)
}
