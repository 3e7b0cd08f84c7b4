package esxi

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/cli/esx"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/vcenter"
)

// Read reads what the table of settings needs. What one host refuses is in the state, not an error.
func (h *Host) Read(ctx context.Context) practice.State {
	state := practice.State{Name: h.Name, Unreadable: h.Unusable(), Maintenance: h.Runtime.InMaintenanceMode}
	if state.Unreadable != "" {
		return state
	}
	state.Version = h.Config.Product.Version
	for _, read := range []func(context.Context, *practice.State) error{
		h.readOptions, h.readRules, h.readModules, h.readISCSI, h.readDevices, h.readDisks,
	} {
		if err := read(ctx, &state); err != nil {
			state.Unreadable = err.Error()
			return state
		}
	}
	return state
}

func (h *Host) readOptions(ctx context.Context, state *practice.State) error {
	state.Options = map[string]string{}
	for _, setting := range practice.Table {
		if setting.Kind != practice.Option {
			continue
		}
		values, err := h.options().Query(ctx, setting.Key)
		if _, unknown := vcenter.Fault(err).(*types.InvalidName); unknown {
			continue
		}
		if err != nil {
			return vcenter.Explain(fmt.Errorf("%s: option %s: %w", h.Name, setting.Key, err))
		}
		for _, value := range values {
			// The query finds everything that begins with the key.
			if option := value.GetOptionValue(); option.Key == setting.Key {
				state.Options[setting.Key] = fmt.Sprint(option.Value)
			}
		}
	}
	return nil
}

func (h *Host) readRules(ctx context.Context, state *practice.State) error {
	rules, err := h.esxcli(ctx, "storage nmp satp rule list")
	if err != nil {
		return err
	}
	for _, rule := range rules {
		state.SATPRules = append(state.SATPRules, practice.SATPClaim{SATP: rule.Value("Name"), Vendor: rule.Value("Vendor"),
			Model: rule.Value("Model"), PSP: rule.Value("DefaultPSP"), PSPOptions: rule.Value("PSPOptions")})
	}
	claims, err := h.esxcli(ctx, "storage core claimrule list", "--claimrule-class=VAAI")
	if err != nil {
		return err
	}
	loaded := map[string]bool{}
	for _, claim := range claims {
		if claim.Value("Class") == "runtime" {
			loaded[claim.Value("Rule")] = true
		}
	}
	for _, claim := range claims {
		if claim.Value("Class") != "file" {
			continue
		}
		state.VAAIRules = append(state.VAAIRules, practice.VAAIClaim{
			Number: claim.Value("Rule"), Plugin: claim.Value("Plugin"), Vendor: matched(claim.Value("Matches"), "vendor"),
			ArrayValues: claim.Value("XCOPYUseArrayReportedValues") == "true",
			TransferKiB: claim.Value("XCOPYMaxTransferSizeKiB"), Loaded: loaded[claim.Value("Rule")],
		})
	}
	return nil
}

// matched returns a value of the text `vendor=ASHLAR model=*`.
func matched(text, key string) string {
	for _, word := range strings.Fields(text) {
		if value, is := strings.CutPrefix(word, key+"="); is {
			return value
		}
	}
	return ""
}

func (h *Host) readModules(ctx context.Context, state *practice.State) error {
	state.Modules = map[string]map[string]string{}
	for _, adapter := range h.Config.StorageDevice.HostBusAdapter {
		driver := adapter.GetHostHostBusAdapter().Driver
		if state.Modules[driver] != nil || !tabled(driver) {
			continue
		}
		parameters, err := h.esxcli(ctx, "system module parameters list", "--module="+driver)
		if err != nil {
			return err
		}
		state.Modules[driver] = map[string]string{}
		for _, parameter := range parameters {
			state.Modules[driver][parameter.Value("Name")] = parameter.Value("Value")
		}
	}
	return nil
}

func tabled(driver string) bool {
	for _, setting := range practice.Table {
		if setting.Kind == practice.Module && setting.Driver == driver {
			return true
		}
	}
	return false
}

func (h *Host) readISCSI(_ context.Context, state *practice.State) error {
	adapter := h.softwareAdapter()
	if adapter == nil {
		return nil
	}
	state.ISCSI = &practice.Adapter{Device: adapter.Device, Name: adapter.IScsiName, Options: map[string]string{}}
	if adapter.AuthenticationProperties.ChapAuthEnabled {
		state.ISCSI.CHAPUser = adapter.AuthenticationProperties.ChapName
	}
	for _, target := range adapter.ConfiguredSendTarget {
		state.ISCSI.SendTargets = append(state.ISCSI.SendTargets, portal(target))
	}
	for _, option := range adapter.AdvancedOptions {
		state.ISCSI.Options[option.Key] = fmt.Sprint(option.Value)
	}
	return nil
}

// iscsiPort is the port of RFC 7143 where none is given.
const iscsiPort = 3260

func portal(target types.HostInternetScsiHbaSendTarget) string {
	port := int(target.Port)
	if port == 0 {
		port = iscsiPort
	}
	return net.JoinHostPort(target.Address, strconv.Itoa(port))
}

func (h *Host) softwareAdapter() *types.HostInternetScsiHba {
	for _, adapter := range h.Config.StorageDevice.HostBusAdapter {
		if found, is := adapter.(*types.HostInternetScsiHba); is && found.IsSoftwareBased {
			return found
		}
	}
	return nil
}

// Disks returns the disks of the array that the host sees.
func (h *Host) Disks() []*types.HostScsiDisk {
	var found []*types.HostScsiDisk
	for _, unit := range h.Config.StorageDevice.ScsiLun {
		disk, is := unit.(*types.HostScsiDisk)
		if is && strings.TrimSpace(disk.Vendor) == practice.Vendor && strings.TrimSpace(disk.Model) == practice.Product {
			found = append(found, disk)
		}
	}
	return found
}

func (h *Host) readDevices(ctx context.Context, state *practice.State) error {
	disks := h.Disks()
	if len(disks) == 0 {
		return nil
	}
	devices, err := h.esxcli(ctx, "storage core device list")
	if err != nil {
		return err
	}
	accelerated, err := h.esxcli(ctx, "storage core device vaai status get")
	if err != nil {
		return err
	}
	outstanding := byDevice(devices)
	offload := byDevice(accelerated)
	for _, disk := range disks {
		device := practice.DeviceState{Name: disk.CanonicalName, Key: disk.Key,
			Outstanding: outstanding[disk.CanonicalName].Value("NoofoutstandingIOswithcompetingworlds")}
		h.readPaths(disk, &device)
		if device.Policy == practice.RoundRobin {
			config, err := h.esxcli(ctx, "storage nmp psp roundrobin deviceconfig get", "--device="+disk.CanonicalName)
			if err != nil {
				return err
			}
			if len(config) > 0 {
				device.Switch = config[0].Value("IOOperationLimit")
			}
		}
		if values := offload[disk.CanonicalName]; values != nil {
			device.Offload = map[string]string{"ATS": values.Value("ATSStatus"), "Clone": values.Value("CloneStatus"),
				"Zero": values.Value("ZeroStatus"), "Delete": values.Value("DeleteStatus")}
		}
		state.Devices = append(state.Devices, device)
	}
	return nil
}

func byDevice(rows []esx.Values) map[string]esx.Values {
	found := make(map[string]esx.Values, len(rows))
	for _, row := range rows {
		found[row.Value("Device")] = row
	}
	return found
}

// readPaths takes policy and paths from the multipathing of the host's configuration. A dead path is none.
func (h *Host) readPaths(disk *types.HostScsiDisk, device *practice.DeviceState) {
	unit := h.multipath(disk.Key)
	if unit == nil {
		return
	}
	if policy, is := unit.Policy.(types.BaseHostMultipathInfoLogicalUnitPolicy); is && policy != nil {
		device.Policy = policy.GetHostMultipathInfoLogicalUnitPolicy().Policy
	}
	for _, path := range unit.Path {
		if path.State != string(types.MultipathStateDead) {
			device.Paths++
		}
	}
}

func (h *Host) multipath(key string) *types.HostMultipathInfoLogicalUnit {
	if h.Config.StorageDevice.MultipathInfo == nil {
		return nil
	}
	for at := range h.Config.StorageDevice.MultipathInfo.Lun {
		if unit := &h.Config.StorageDevice.MultipathInfo.Lun[at]; unit.Lun == key {
			return unit
		}
	}
	return nil
}

// readDisks lists the virtual disks of the host's machines that are on datastores of the array.
func (h *Host) readDisks(ctx context.Context, state *practice.State) error {
	machines, err := h.machines(ctx)
	if err != nil {
		return vcenter.Explain(fmt.Errorf("%s: virtual machines: %w", h.Name, err))
	}
	ours, err := h.ourDatastores(ctx)
	if err != nil {
		return vcenter.Explain(fmt.Errorf("%s: datastores: %w", h.Name, err))
	}
	for _, machine := range machines {
		if machine.Config == nil {
			continue
		}
		for _, device := range machine.Config.Hardware.Device {
			disk, is := device.(*types.VirtualDisk)
			if !is {
				continue
			}
			backing, is := disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo)
			if !is || backing.Datastore == nil || !ours[*backing.Datastore] {
				continue
			}
			label := strconv.Itoa(int(disk.Key))
			if about := disk.DeviceInfo; about != nil {
				label = about.GetDescription().Label
			}
			state.Disks = append(state.Disks, practice.Disk{Machine: machine.Name, Label: label, Format: Format(backing)})
		}
	}
	return nil
}

// Format of a virtual disk that is a file.
func Format(backing *types.VirtualDiskFlatVer2BackingInfo) string {
	switch {
	case backing.ThinProvisioned != nil && *backing.ThinProvisioned:
		return practice.Thin
	case backing.EagerlyScrub != nil && *backing.EagerlyScrub:
		return practice.EagerZeroed
	}
	return practice.LazyZeroed
}

// Refresh reads the host again, after it was changed.
func (h *Host) Refresh(ctx context.Context) error {
	return vcenter.Explain(property.DefaultCollector(h.client).RetrieveOne(ctx, h.Self, vcenter.HostProperties,
		&h.HostSystem))
}
