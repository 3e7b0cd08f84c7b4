package vsim

import (
	"fmt"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/practice"
)

// Device is a logical unit on a host.
type Device struct {
	Unit
	PSP         string
	Switch      int
	Outstanding int
	Paths       int
	Detached    bool
	Offload     string
}

// Rule of native multipathing.
type Rule struct{ SATP, Vendor, Model, PSP, Options string }

// Claim rule of the VAAI plug-ins.
type Claim struct {
	Number, Vendor, Plugin string
	ArrayValues            string
	KiB                    string
	Loaded                 bool
}

// Host is a simulated host.
type Host struct {
	System  *simulator.HostSystem
	Options map[string]int64
	Devices []*Device
	Rules   []Rule
	Claims  []Claim
	// Modules are the texts of parameters by module.
	Modules map[string]string
	ISCSI   *types.HostInternetScsiHba

	v         *VCenter
	number    int
	storage   *storageSystem
	datastore *datastoreSystem
	executer  *executer
	mounted   map[string]bool
}

// defaults are the advanced options of a new host.
var defaults = map[string]int64{
	"Disk.SchedQuantum": 8, "DataMover.HardwareAcceleratedMove": 1, "DataMover.HardwareAcceleratedInit": 1,
	"VMFS3.HardwareAcceleratedLocking": 1, "VMFS3.UseATSForHBOnVMFS5": 1, "VMFS3.EnableBlockDelete": 0,
	"DataMover.MaxHWTransferSize": 4096, "DataMover.MaxHWTransferSizeForTests": 1,
}

func newHost(v *VCenter, system *simulator.HostSystem, number int) *Host {
	host := &Host{System: system, v: v, number: number, Options: map[string]int64{},
		Modules: map[string]string{"lpfc": "lpfc_log_verbose=1", "qlnativefc": ""}, mounted: map[string]bool{}}
	for key, value := range defaults {
		host.Options[key] = value
	}
	return host
}

// Initiator is the host's iSCSI name.
func (h *Host) Initiator() string {
	return fmt.Sprintf("iqn.1998-01.com.vmware:%s", strings.ToLower(strings.ReplaceAll(h.System.Name, "_", "-")))
}

// install puts the host's objects in the place of the simulator's.
func (h *Host) install(registry *simulator.Registry) {
	config := &h.System.ConfigManager
	h.storage = &storageSystem{HostStorageSystem: registry.Get(*config.StorageSystem).(*simulator.HostStorageSystem), h: h}
	h.datastore = &datastoreSystem{HostDatastoreSystem: registry.Get(*config.DatastoreSystem).(*simulator.HostDatastoreSystem), h: h}
	h.executer = &executer{ManagedObjectReference: types.ManagedObjectReference{Type: "ManagedMethodExecuter", Value: h.System.Self.Value}, h: h}
	options := &optionManager{OptionManager: registry.Get(*config.AdvancedOption).(*simulator.OptionManager), h: h}
	h.System.Config.Product.Version = "8.0.2"
	registry.Put(h.storage)
	registry.Put(h.datastore)
	registry.Put(h.executer)
	registry.Put(options)
	h.publish()
}

func (h *Host) owns(ref types.ManagedObjectReference) bool {
	config := h.System.ConfigManager
	return ref == h.System.Self || ref == h.executer.Reference() || ref == *config.StorageSystem ||
		ref == *config.DatastoreSystem || ref == *config.AdvancedOption
}

// Connect adds a device to the host, as vSphere claims it without a rule.
func (h *Host) Connect(unit Unit) *Device {
	device := &Device{Unit: unit, PSP: "VMW_PSP_FIXED", Switch: 1000, Outstanding: 32, Paths: 4, Offload: "supported"}
	for _, rule := range h.Rules {
		if rule.Vendor == practice.Vendor {
			device.PSP = rule.PSP
			if _, err := fmt.Sscanf(rule.Options, "iops=%d", &device.Switch); err != nil {
				device.Switch = 1000
			}
		}
	}
	h.Devices = append(h.Devices, device)
	h.publish()
	return device
}

func (h *Host) device(name string) *Device {
	for _, device := range h.Devices {
		if device.Name == name {
			return device
		}
	}
	return nil
}

// Publish makes changes of the exported fields visible to clients.
func (h *Host) Publish() { h.publish() }

// blockBytes is the length of a logical block.
const blockBytes = 512

// publish writes the state into the properties that clients read.
func (h *Host) publish() {
	info := &types.HostStorageDeviceInfo{SoftwareInternetScsiEnabled: h.ISCSI != nil, MultipathInfo: &types.HostMultipathInfo{}}
	for at, driver := range []string{"lpfc", "qlnativefc"} {
		if _, has := h.Modules[driver]; has {
			name := fmt.Sprintf("vmhba%d", at+2)
			info.HostBusAdapter = append(info.HostBusAdapter, &types.HostFibreChannelHba{PortType: types.FibreChannelPortTypeUnknown, HostHostBusAdapter: types.HostHostBusAdapter{
				Key: "key-vim.host.FibreChannelHba-" + name, Device: name, Status: "online", Model: driver, Driver: driver}})
		}
	}
	if h.ISCSI != nil {
		copied := *h.ISCSI
		info.HostBusAdapter = append(info.HostBusAdapter, &copied)
	}
	for at, device := range h.Devices {
		key := "key-vim.host.ScsiDisk-" + device.Name
		state := "ok"
		if device.Detached {
			state = "off"
		}
		info.ScsiLun = append(info.ScsiLun, &types.HostScsiDisk{
			ScsiLun: types.ScsiLun{
				HostDevice: types.HostDevice{DeviceName: "/vmfs/devices/disks/" + device.Name, DeviceType: "disk"},
				Key:        key, Uuid: "02" + device.Name, CanonicalName: device.Name, DisplayName: device.Name, LunType: "disk",
				Vendor: fmt.Sprintf("%-8s", practice.Vendor), Model: fmt.Sprintf("%-16s", practice.Product), Revision: "0.1",
				OperationalState: []string{state}, VStorageSupport: "vStorageSupported",
			},
			Capacity:   types.HostDiskDimensionsLba{BlockSize: blockBytes, Block: device.Bytes / blockBytes},
			DevicePath: "/vmfs/devices/disks/" + device.Name,
		})
		unit := types.HostMultipathInfoLogicalUnit{Key: "key-vim.host.MultipathInfo.LogicalUnit-" + device.Name,
			Id: "id-" + device.Name, Lun: key, Policy: &types.HostMultipathInfoLogicalUnitPolicy{Policy: device.PSP}}
		for path := range device.Paths {
			unit.Path = append(unit.Path, types.HostMultipathInfoPath{Name: fmt.Sprintf("vmhba64:C%d:T0:L%d", path, at), State: "active"})
		}
		info.MultipathInfo.Lun = append(info.MultipathInfo.Lun, unit)
	}
	h.storage.StorageDeviceInfo = info
	h.System.Config.StorageDevice = info
}

type optionManager struct {
	*simulator.OptionManager
	h *Host
}

// QueryOptions finds everything that begins with the name, as vSphere does.
func (m *optionManager) QueryOptions(request *types.QueryOptions) soap.HasFault {
	body := &methods.QueryOptionsBody{Res: &types.QueryOptionsResponse{}}
	for key, value := range m.h.Options {
		if strings.HasPrefix(key, request.Name) {
			body.Res.Returnval = append(body.Res.Returnval, &types.OptionValue{Key: key, Value: value})
		}
	}
	if body.Res.Returnval == nil {
		return &methods.QueryOptionsBody{Fault_: simulator.Fault("", &types.InvalidName{Name: request.Name})}
	}
	return body
}

// UpdateOptions insists on the type of an option, as vSphere does.
func (m *optionManager) UpdateOptions(request *types.UpdateOptions) soap.HasFault {
	for _, change := range request.ChangedValue {
		option := change.GetOptionValue()
		value, is := option.Value.(int64)
		if _, has := m.h.Options[option.Key]; !has {
			return &methods.UpdateOptionsBody{Fault_: simulator.Fault("", &types.InvalidName{Name: option.Key})}
		}
		if !is {
			return &methods.UpdateOptionsBody{Fault_: invalid("changedValue.value")}
		}
		m.h.Options[option.Key] = value
	}
	return &methods.UpdateOptionsBody{Res: new(types.UpdateOptionsResponse)}
}
