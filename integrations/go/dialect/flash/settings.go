package flash

import (
	"encoding/json"
	"net"
	"strconv"

	"ashlar/integrations/array"
)

// Objects of the configuration that playbooks read. What is not configured in an array has empty values, since clients read the
// first object of these lists.

func (c *call) admins() ([]object, error) {
	users, err := array.All(func(limit, offset int) ([]array.User, int, error) {
		found, err := array.Decode[array.Users](c.api.ListUsers(c, &array.ListUsersParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
	if array.IsKind(err, array.Forbidden) {
		// Others than administrators see themselves.
		its, err := array.Decode[array.Session](c.api.ShowSession(c))
		return []object{adminObject(its.User, its.Role)}, err
	}
	made := []object{}
	for _, each := range users {
		made = append(made, adminObject(each.Name, each.Role))
	}
	return made, err
}

// adminObject has the role in the words of the interface.
func adminObject(name string, role array.Role) object {
	roles := map[array.Role]string{array.RoleViewer: "readonly", array.RoleOperator: "storage_admin", array.RoleAdmin: "array_admin"}
	return object{"name": name, "role": object{"name": roles[role]}, "is_local": true, "locked": false, "public_key": nil, "api_token": object{}}
}

func (c *call) single(shown object) ([]object, error) {
	_, err := c.api.Check(c)
	return []object{shown}, err
}

func (c *call) adminSettings() ([]object, error) {
	return c.single(object{
		"lockout_duration": nil, "max_login_attempts": nil, "min_password_length": nil, "single_sign_on_enabled": false,
	})
}

// support has no remote assistance and no messages to a manufacturer.
func (c *call) support() ([]object, error) {
	return c.single(object{
		"phonehome_enabled": false, "proxy": "", "remote_assist_active": false, "remote_assist_status": "disconnected",
		"remote_assist_duration": 0, "remote_assist_expires": 0, "remote_assist_opened": 0, "remote_assist_paths": []object{},
	})
}

func (c *call) smis() ([]object, error) {
	return c.single(object{"name": "smi-s", "slp_enabled": false, "wbem_https_enabled": false})
}

func (c *call) subscriptions() ([]object, error) {
	status, err := c.api.Check(c)
	return []object{{"id": status.ID, "service": "Ashlar"}}, err
}

// connectionKey has no key: making one changes the array, and `ashlar pairing-key create` does it.
func (c *call) connectionKey() ([]object, error) {
	return c.single(object{"connection_key": "", "created": nil, "expires": nil})
}

// arrayConnections are the remote arrays that it is paired with.
func (c *call) arrayConnections() ([]object, error) {
	all, err := array.All(func(limit, offset int) ([]array.RemoteArray, int, error) {
		found, err := array.Decode[array.RemoteArrays](c.api.ListRemoteArrays(c, &array.ListRemoteArraysParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
	made := []object{}
	for _, each := range all {
		status := "connecting"
		if each.Link.State == array.LinkConnected {
			status = "connected"
		}
		address := nothing(array.Value(each.Address))
		made = append(made, object{
			"id": each.Serial, "name": each.Name, "status": status, "type": "async-replication", "version": nil,
			"management_address": address, "replication_addresses": []any{address}, "replication_transport": "ip",
			"throttle": object{}, "encryption": "encrypted", "os": "Ashlar",
		})
	}
	if err != nil {
		return nil, err
	}
	return selected(c, made, "Array connection")
}

// destination is where notifications are sent: the fields of all kinds.
type destination struct {
	Kind       string   `json:"kind"`
	Host       string   `json:"host"`
	Port       int      `json:"port"`
	TLS        bool     `json:"tls"`
	User       string   `json:"user"`
	To         []string `json:"to"`
	Protection string   `json:"protection"`
}

func (d destination) address() string { return net.JoinHostPort(d.Host, strconv.Itoa(d.Port)) }

// destinations shows the notification targets of a kind; each of them may be several objects.
func (c *call) destinations(kind string, show func(target array.NotificationTarget, to destination) []object) ([]object, error) {
	all, err := array.All(func(limit, offset int) ([]array.NotificationTarget, int, error) {
		found, err := array.Decode[array.NotificationTargets](c.api.ListNotificationTargets(c,
			&array.ListNotificationTargetsParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
	if err != nil {
		return nil, err
	}
	made := []object{}
	for _, each := range all {
		var to destination
		text, err := each.Destination.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(text, &to)
		}
		if err != nil {
			return nil, err
		}
		if to.Kind == kind {
			made = append(made, show(each, to)...)
		}
	}
	return made, nil
}

// watchers are the recipients of e-mails.
func (c *call) watchers() ([]object, error) {
	return c.destinations("email", func(target array.NotificationTarget, to destination) []object {
		var made []object
		for _, each := range to.To {
			made = append(made, object{"name": each, "enabled": target.Enabled, "minimum_notification_severity": string(target.Severity)})
		}
		return made
	})
}

// mailServers has the server of the first target for e-mails, or an empty one.
func (c *call) mailServers() ([]object, error) {
	found, err := c.destinations("email", func(target array.NotificationTarget, to destination) []object {
		return []object{mailServer(target.Name, to)}
	})
	if len(found) == 0 {
		found = []object{mailServer("smtp", destination{})}
	}
	return found[:1], err
}

func mailServer(name string, to destination) object {
	relay := ""
	if to.Host != "" {
		relay = to.address()
	}
	return object{
		"name": name, "relay_host": nothing(relay), "sender_domain": nil, "user_name": nothing(to.User),
		"encryption_mode": nothing(to.Protection),
	}
}

// snmpAgents has an agent without a user: the array sends notifications, and nothing can be asked of it.
func (c *call) snmpAgents() ([]object, error) {
	return c.single(object{"name": "localhost", "version": "none", "engine_id": "", "notification": nil, "v2c": object{}, "v3": object{}})
}

func (c *call) snmpManagers() ([]object, error) {
	return c.destinations("snmp", func(target array.NotificationTarget, to destination) []object {
		version := "v2c"
		if to.User != "" {
			version = "v3"
		}
		return []object{{
			"name": target.Name, "host": to.address(), "version": version, "notification": "trap", "v2c": object{},
			"v3": object{"user": nothing(to.User)},
		}}
	})
}

func (c *call) syslogServers() ([]object, error) {
	return c.destinations("syslog", func(target array.NotificationTarget, to destination) []object {
		scheme := "tcp"
		if to.TLS {
			scheme = "tls"
		}
		return []object{{"name": target.Name, "uri": scheme + "://" + to.address(), "services": []string{"management"}}}
	})
}
