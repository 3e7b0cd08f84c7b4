package flash

import (
	"strconv"
	"strings"

	"ashlar/integrations/array"
)

// component is what all kinds of hardware have; what an array does not measure is null.
func component(name, kind, status string) object {
	return object{
		"name": name, "type": kind, "status": status, "details": nil, "identify_enabled": false, "index": 0, "model": nil,
		"serial": nil, "slot": nil, "speed": nil, "temperature": nil, "voltage": nil,
	}
}

// bay is the name of the place of a drive: its slot.
func bay(of array.Drive) string { return "CH0.BAY" + strconv.Itoa(of.Slot) }

// faulty reports whether a drive is not used any more or reports that it will fail.
func faulty(of array.Drive) bool {
	return of.State == array.DriveStateFailed || of.Health.Verdict == array.Failing
}

func (c *call) allDrives() ([]array.Drive, error) {
	return array.All(func(limit, offset int) ([]array.Drive, int, error) {
		found, err := array.Decode[array.Drives](c.api.ListDrives(c, &array.ListDrivesParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
}

// hardware lists the controller and the bays of drives. An array in a Ceph cluster has no drives.
func (c *call) hardware() ([]object, error) {
	of, err := array.Decode[array.Array](c.api.ShowArray(c))
	if err != nil {
		return nil, err
	}
	drives, err := c.allDrives()
	first := component(controller, "controller", "ok")
	first["model"], first["serial"] = "Ashlar", of.Serial
	made := []object{first}
	for _, each := range drives {
		status := "ok"
		if faulty(each) {
			status = "critical"
		}
		shown := component(bay(each), "drive_bay", status)
		shown["index"], shown["slot"] = each.Slot, each.Slot
		shown["model"], shown["serial"] = nothing(array.Value(each.Health.Model)), nothing(array.Value(each.Health.Serial))
		if each.Health.TemperatureCelsius.IsSpecified() && !each.Health.TemperatureCelsius.IsNull() {
			shown["temperature"] = array.Value(each.Health.TemperatureCelsius)
		}
		made = append(made, shown)
	}
	if err != nil {
		return nil, err
	}
	return selected(c, made, "Hardware component")
}

func (c *call) drives() ([]object, error) {
	drives, err := c.allDrives()
	made := []object{}
	for _, each := range drives {
		status, protocol := "healthy", ""
		switch {
		case faulty(each):
			status = "failed"
		case each.State == array.DriveStateEvacuating:
			status = "evacuating"
		}
		if strings.HasPrefix(array.Value(each.Path), "/dev/nvme") {
			protocol = "NVMe"
		}
		made = append(made, object{
			"name": bay(each), "type": "SSD", "status": status, "details": nil, "capacity": each.Size, "protocol": nothing(protocol),
		})
	}
	if err != nil {
		return nil, err
	}
	return selected(c, made, "Drive")
}

// interfaces are the portals that listen at an address of a network.
func (c *call) interfaces() ([]object, error) {
	of, err := array.Decode[array.Array](c.api.ShowArray(c))
	made := []object{}
	for at, portal := range of.Portals {
		address := portal[:max(strings.LastIndexByte(portal, ':'), 0)]
		made = append(made, object{
			"name": portName(at), "enabled": true, "interface_type": "eth", "services": []string{"iscsi"}, "speed": 0,
			"eth": object{
				"address": address, "subtype": "physical", "gateway": nil, "mac_address": nil, "mtu": nil, "netmask": nil, "vlan": nil,
				"subinterfaces": []object{}, "subnet": object{"name": ""},
			},
			"fc": object{"wwn": nil},
		})
	}
	if err != nil {
		return nil, err
	}
	return selected(c, made, "Network interface")
}

// alerts lists those of the array. Its kinds are names: there are no numeric codes.
func (c *call) alerts() ([]object, error) {
	all, err := array.All(func(limit, offset int) ([]array.Alert, int, error) {
		found, err := array.Decode[array.Alerts](c.api.ListAlerts(c, &array.ListAlertsParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
	made := []object{}
	for _, each := range all {
		state, closed := "open", any(nil)
		if each.State == array.Closed {
			state, closed = "closed", millis(array.Value(each.Closed))
		}
		number := strconv.FormatInt(each.ID, 10)
		made = append(made, object{
			"id": number, "name": number, "state": state, "severity": string(each.Severity), "category": "array", "code": 0,
			"component_name": nothing(array.Value(each.Name)), "component_type": nothing(array.Value(each.Noun)),
			"created": millis(each.Opened), "updated": millis(each.Changed), "notified": nil, "closed": closed, "issue": each.Message,
			"summary": each.Kind, "description": each.Message, "actual": "", "expected": "",
			"flagged": each.State == array.Open, "knowledge_base_url": "",
		})
	}
	return made, err
}
