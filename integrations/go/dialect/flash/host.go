package flash

import (
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

const (
	// labelPersonality keeps the operating system that a client gives for a host.
	labelPersonality = "flash.personality"
	// noInitiator begins the name of the initiator of a host that has none for its client: hosts of an array have at least one.
	// A random number follows, so that no host logs in by that name.
	noInitiator = "iqn.2026-11.io.ashlar:no-initiator."
)

// iqns returns the names of iSCSI initiators that a client has given for a host.
func iqns(it array.Host) []string {
	return slices.DeleteFunc(slices.Clone(it.Initiators), func(name string) bool { return strings.HasPrefix(name, noInitiator) })
}

func hostObject(it array.Host) object {
	sessions := it.Sessions + it.FibreChannelSessions + it.Controllers
	connectivity := object{"details": "None", "status": "critical"}
	if sessions > 0 {
		connectivity = object{"details": "Connected", "status": "healthy"}
	}
	return object{
		"name": it.Name, "iqns": iqns(it), "nqns": it.Nqns, "wwns": it.Wwpns, "is_local": true, "destroyed": false,
		"time_remaining": nil, "vlan": "any", "connection_count": len(it.Connections), "personality": nothing(it.Labels[labelPersonality]),
		"host_group": object{"name": nothing(array.Value(it.HostGroup))}, "port_connectivity": connectivity, "preferred_arrays": []object{},
		"chap":  object{"host_user": nothing(array.Value(it.ChapUser)), "target_user": nothing(array.Value(it.MutualUser))},
		"space": object{},
	}
}

func (c *call) host(name string) (array.Host, error) {
	it, err := array.Decode[array.Host](c.api.ShowHost(c, name))
	return it, about("Host", name, err)
}

// hosts lists them; only a list of all has their space, which takes a list of the volumes.
func (c *call) hosts() ([]object, error) {
	if c.names("names") != nil {
		return c.each("names", func(name string) (object, error) {
			it, err := c.host(name)
			return hostObject(it), err
		})
	}
	all, err := c.api.AllHosts(c, "")
	if err != nil {
		return nil, err
	}
	volumes := map[string]array.Volume{}
	if c.query.Get("filter") == "" {
		every, err := c.api.AllVolumes(c, "")
		if err != nil {
			return nil, err
		}
		for _, each := range every {
			volumes[each.ID] = each
		}
	}
	made := []object{}
	for _, each := range all {
		shown := hostObject(each)
		var its []array.Volume
		for _, connection := range each.Connections {
			if volume, is := volumes[connection.VolumeID]; is {
				its = append(its, volume)
			}
		}
		shown["space"] = volumeSpace(its...)
		made = append(made, shown)
	}
	return made, nil
}

type hostChange struct {
	Name        *string   `json:"name"`
	Iqns        *[]string `json:"iqns"`
	Wwns        *[]string `json:"wwns"`
	Nqns        *[]string `json:"nqns"`
	Personality *string   `json:"personality"`
	Group       *named    `json:"host_group"`
	Preferred   []named   `json:"preferred_arrays"`
	Chap        *struct {
		User           *string `json:"host_user"`
		Password       string  `json:"host_password"`
		TargetUser     *string `json:"target_user"`
		TargetPassword string  `json:"target_password"`
	} `json:"chap"`
}

// chap returns what a host shows to the array, and what the array shows to it. An empty name removes it, none leaves it.
func (w hostChange) chap() (host, target nullable.Nullable[array.Chap]) {
	if w.Chap == nil {
		return nil, nil
	}
	of := func(user *string, secret string) nullable.Nullable[array.Chap] {
		switch {
		case user == nil:
			return nil
		case *user == "":
			return nullable.NewNullNullable[array.Chap]()
		}
		return nullable.NewNullableWithValue(array.Chap{User: *user, Secret: secret})
	}
	return of(w.Chap.User, w.Chap.Password), of(w.Chap.TargetUser, w.Chap.TargetPassword)
}

func (w hostChange) supported(name string) error {
	if len(w.Preferred) > 0 {
		return &refused{name, "Preferred arrays are not supported."}
	}
	return nil
}

// createHosts makes hosts. If one fails, those before it are deleted.
func (c *call) createHosts() ([]object, error) {
	var wanted hostChange
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	var done []string
	made, err := c.each("names", func(name string) (object, error) {
		it, err := c.createHost(name, wanted)
		if err == nil {
			done = append(done, it.ID)
		}
		return hostObject(it), err
	})
	if err != nil {
		for _, each := range done {
			err = errors.Join(err, array.Done(c.api.DeleteHost(c, each)))
		}
		return nil, err
	}
	return made, nil
}

func (c *call) createHost(name string, wanted hostChange) (array.Host, error) {
	if wanted.Name != nil || wanted.Group != nil {
		return array.Host{}, &refused{name, "A new host has the name of the request, and is in no host group."}
	}
	if err := wanted.supported(name); err != nil {
		return array.Host{}, err
	}
	made := array.NewHost{Name: name, Initiators: listed(wanted.Iqns), Wwpns: wanted.Wwns, Nqns: wanted.Nqns}
	made.Chap, made.Mutual = wanted.chap()
	if len(made.Initiators)+len(listed(made.Nqns))+len(listed(made.Wwpns)) == 0 {
		made.Initiators = []string{noInitiator + uuid.NewString()}
	}
	if made.Initiators == nil {
		made.Initiators = []string{}
	}
	if wanted.Personality != nil && *wanted.Personality != "" {
		made.Labels = &map[string]string{labelPersonality: *wanted.Personality}
	}
	it, isNew, err := array.Made[array.Host](c.api.CreateHost(c, made))
	if err != nil {
		return it, about("Host", name, err)
	}
	if !isNew {
		return it, &refused{name, "Host already exists."}
	}
	return it, nil
}

func (c *call) changeHosts() ([]object, error) {
	var wanted hostChange
	if err := c.read(&wanted); err != nil {
		return nil, err
	}
	return c.each("names", func(name string) (object, error) {
		it, err := c.changeHost(name, wanted)
		return hostObject(it), err
	})
}

func (c *call) changeHost(name string, wanted hostChange) (array.Host, error) {
	if err := wanted.supported(name); err != nil {
		return array.Host{}, err
	}
	it, err := c.host(name)
	if err != nil {
		return it, err
	}
	if wanted.Group != nil {
		if err := c.moveHost(it, wanted.Group.Name); err != nil {
			return it, err
		}
	}
	change := array.HostChange{}
	change.Chap, change.Mutual = wanted.chap()
	wanted.setInitiators(it, &change)
	if wanted.Name != nil {
		change.Name = nullable.NewNullableWithValue(*wanted.Name)
	}
	if wanted.Personality != nil {
		change.Labels = &map[string]*string{labelPersonality: wanted.Personality}
		if *wanted.Personality == "" {
			change.Labels = &map[string]*string{labelPersonality: nil}
		}
	}
	changed, err := array.Decode[array.Host](c.api.ChangeHost(c, it.ID, change))
	return changed, about("Host", name, err)
}

func listed(names *[]string) []string {
	if names == nil {
		return nil
	}
	return *names
}

// setInitiators sets those of the kinds that a client gives. The last one is replaced by one that stands for none.
func (w hostChange) setInitiators(it array.Host, change *array.HostChange) {
	if w.Iqns == nil && w.Nqns == nil && w.Wwns == nil {
		return
	}
	either := func(wanted *[]string, current []string) []string {
		if wanted == nil {
			return current
		}
		return *wanted
	}
	iqns, nqns, wwns := either(w.Iqns, iqns(it)), either(w.Nqns, it.Nqns), either(w.Wwns, it.Wwpns)
	if len(iqns)+len(nqns)+len(wwns) == 0 {
		iqns = []string{noInitiator + uuid.NewString()}
	}
	change.Initiators = nullable.NewNullableWithValue(iqns)
	change.Nqns, change.Wwpns = nullable.NewNullableWithValue(nqns), nullable.NewNullableWithValue(wwns)
}

func (c *call) deleteHosts() ([]object, error) {
	return c.each("names", func(name string) (object, error) {
		it, err := c.host(name)
		if err != nil {
			return nil, err
		}
		if len(it.Connections) > 0 {
			return nil, &refused{name, "Host cannot be deleted due to existing connections."}
		}
		return nil, array.Done(c.api.DeleteHost(c, it.ID))
	})
}
