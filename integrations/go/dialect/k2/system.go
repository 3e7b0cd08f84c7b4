package k2

import (
	"net"

	"ashlar/integrations/array"
)

const pathNetIPs = "/system/net_ips"

func listState(c *call, _ *query) ([]object, error) {
	status, err := c.api.Check(c)
	return []object{{
		"id": int64(1), "state": "ONLINE", "rest_api_version": restVersion, "iscsi_qualified_target_name": status.TargetIqn,
		"system_name": status.Name, "system_id": status.ID, "system_version": status.Version,
	}}, err
}

// listCapacity reports sizes in KiB.
func listCapacity(c *call, _ *query) ([]object, error) {
	status, err := c.api.Check(c)
	of := status.Capacity
	return []object{{
		"id": int64(1), "total": of.Total / kib, "free": of.Free / kib, "allocated": of.Used / kib,
		"provisioned": of.Provisioned / kib, "provisioned_volumes": of.Provisioned / kib,
	}}, err
}

func (c *call) portals() ([]array.TargetPortal, error) {
	return array.All(func(limit, offset int) ([]array.TargetPortal, int, error) {
		found, err := array.Decode[array.TargetPortals](c.api.ListPortals(c, &array.ListPortalsParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
}

// listNetIPs lists addresses for iSCSI. Clients take for granted that the port is 3260.
func listNetIPs(c *call, _ *query) ([]object, error) {
	of, err := array.Decode[array.Array](c.api.ShowArray(c))
	if err != nil {
		return nil, err
	}
	var made []object
	seen := map[string]bool{}
	for _, portal := range of.Portals {
		address, _, err := net.SplitHostPort(portal)
		if err != nil || seen[address] {
			continue
		}
		seen[address] = true
		written := address
		if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
			written = "[" + address + "]"
		}
		made = append(made, object{"id": number("address", address), "ip_address": written, "wan_port": nil, "name": address})
	}
	return made, nil
}

// listPorts lists what hosts reach over Fibre Channel.
func listPorts(c *call, _ *query) ([]object, error) {
	all, err := c.portals()
	var made []object
	for _, portal := range all {
		if portal.Protocol == array.PortalFibreChannel {
			made = append(made, object{"id": number("port", portal.Address), "pwwn": portal.Address, "enabled": portal.State == array.PortalListening})
		}
	}
	return made, err
}
