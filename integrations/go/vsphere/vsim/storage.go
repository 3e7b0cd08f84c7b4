package vsim

import (
	"slices"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/practice"
)

type storageSystem struct {
	*simulator.HostStorageSystem
	h *Host
}

// RescanAllHba asks the array what it shows to the host's initiator.
func (s *storageSystem) RescanAllHba(_ *simulator.Context, _ *types.RescanAllHba) soap.HasFault {
	s.h.rescan()
	return &methods.RescanAllHbaBody{Res: new(types.RescanAllHbaResponse)}
}

func (h *Host) rescan() {
	if h.ISCSI == nil {
		return
	}
	shown := h.v.Units(h.Initiator())
	find := func(name string) int {
		return slices.IndexFunc(shown, func(unit Unit) bool { return unit.Name == name })
	}
	h.Devices = slices.DeleteFunc(h.Devices, func(device *Device) bool {
		at := find(device.Name)
		if at >= 0 {
			device.Unit = shown[at]
		}
		return at < 0
	})
	for _, unit := range shown {
		if h.device(unit.Name) == nil {
			h.Connect(unit)
		}
	}
	h.publish()
}

// RescanVmfs mounts the file systems on devices that the host sees, and drops those that it sees no more.
func (s *storageSystem) RescanVmfs(ctx *simulator.Context, _ *types.RescanVmfs) soap.HasFault {
	for name, volume := range s.h.v.volumes {
		device := s.h.device(name)
		switch visible := device != nil && !device.Detached; {
		case visible && !volume.unmountedOn[s.h.System.Name]:
			s.h.datastore.mount(ctx, volume)
		case device == nil:
			s.h.datastore.unmount(ctx, volume, true)
		}
	}
	return &methods.RescanVmfsBody{Res: new(types.RescanVmfsResponse)}
}

func (s *storageSystem) SetMultipathLunPolicy(_ *simulator.Context, request *types.SetMultipathLunPolicy) soap.HasFault {
	body := &methods.SetMultipathLunPolicyBody{}
	for _, device := range s.h.Devices {
		if "id-"+device.Name == request.LunId {
			device.PSP = request.Policy.GetHostMultipathInfoLogicalUnitPolicy().Policy
			s.h.publish()
			body.Res = new(types.SetMultipathLunPolicyResponse)
			return body
		}
	}
	body.Fault_ = simulator.Fault("", new(types.NotFound))
	return body
}

func (s *storageSystem) UpdateSoftwareInternetScsiEnabled(_ *simulator.Context, request *types.UpdateSoftwareInternetScsiEnabled) soap.HasFault {
	s.h.EnableISCSI(request.Enabled)
	return &methods.UpdateSoftwareInternetScsiEnabledBody{Res: new(types.UpdateSoftwareInternetScsiEnabledResponse)}
}

// EnableISCSI switches the software adapter on or off.
func (h *Host) EnableISCSI(on bool) {
	switch {
	case !on:
		h.ISCSI = nil
	case h.ISCSI == nil:
		h.ISCSI = &types.HostInternetScsiHba{
			HostHostBusAdapter: types.HostHostBusAdapter{Key: "key-vim.host.InternetScsiHba-vmhba64", Device: "vmhba64", Status: "online",
				Model: "iSCSI Software Adapter", Driver: "iscsi_vmk"},
			IsSoftwareBased: true, IScsiName: h.Initiator(),
			AdvancedOptions: []types.HostInternetScsiHbaParamValue{
				{OptionValue: types.OptionValue{Key: "DelayedAck", Value: true}},
				{OptionValue: types.OptionValue{Key: "LoginTimeout", Value: int32(5)}},
			},
		}
	}
	h.publish()
}

func (s *storageSystem) adapter(name string) *soap.Fault {
	if s.h.ISCSI == nil || s.h.ISCSI.Device != name {
		return simulator.Fault("", new(types.NotFound))
	}
	return nil
}

func (s *storageSystem) AddInternetScsiSendTargets(_ *simulator.Context, request *types.AddInternetScsiSendTargets) soap.HasFault {
	body := &methods.AddInternetScsiSendTargetsBody{Fault_: s.adapter(request.IScsiHbaDevice)}
	if body.Fault_ == nil {
		s.h.ISCSI.ConfiguredSendTarget = append(s.h.ISCSI.ConfiguredSendTarget, request.Targets...)
		s.h.publish()
		body.Res = new(types.AddInternetScsiSendTargetsResponse)
	}
	return body
}

func (s *storageSystem) UpdateInternetScsiAuthenticationProperties(_ *simulator.Context, request *types.UpdateInternetScsiAuthenticationProperties) soap.HasFault {
	body := &methods.UpdateInternetScsiAuthenticationPropertiesBody{Fault_: s.adapter(request.IScsiHbaDevice)}
	// ESXi takes secrets of 12 to 16 characters.
	const shortest, longest = 12, 16
	if length := len(request.AuthenticationProperties.ChapSecret); body.Fault_ == nil && (length < shortest || length > longest) {
		body.Fault_ = invalid("authenticationProperties.chapSecret")
	}
	if body.Fault_ == nil {
		s.h.ISCSI.AuthenticationProperties = request.AuthenticationProperties
		s.h.ISCSI.AuthenticationProperties.ChapSecret = ""
		s.h.publish()
		body.Res = new(types.UpdateInternetScsiAuthenticationPropertiesResponse)
	}
	return body
}

func (s *storageSystem) UpdateInternetScsiAdvancedOptions(_ *simulator.Context, request *types.UpdateInternetScsiAdvancedOptions) soap.HasFault {
	body := &methods.UpdateInternetScsiAdvancedOptionsBody{Fault_: s.adapter(request.IScsiHbaDevice)}
	if body.Fault_ == nil {
		for _, change := range request.Options {
			if !s.h.setISCSI(change.Key, change.Value) {
				body.Fault_ = invalid("options")
				return body
			}
		}
		s.h.publish()
		body.Res = new(types.UpdateInternetScsiAdvancedOptionsResponse)
	}
	return body
}

func (h *Host) setISCSI(key string, value any) bool {
	for at := range h.ISCSI.AdvancedOptions {
		if h.ISCSI.AdvancedOptions[at].Key == key {
			h.ISCSI.AdvancedOptions[at].Value = value
			return true
		}
	}
	return false
}

func (s *storageSystem) DetachScsiLun(ctx *simulator.Context, request *types.DetachScsiLun) soap.HasFault {
	body := &methods.DetachScsiLunBody{}
	device := s.h.byUUID(request.LunUuid)
	switch {
	case device == nil:
		body.Fault_ = simulator.Fault("", new(types.NotFound))
	case s.h.mounted[device.Name]:
		body.Fault_ = simulator.Fault("", &types.ResourceInUse{Type: "Datastore", Name: s.h.v.volumes[device.Name].name})
	default:
		device.Detached = true
		s.h.publish()
		body.Res = new(types.DetachScsiLunResponse)
	}
	return body
}

func (s *storageSystem) AttachScsiLun(ctx *simulator.Context, request *types.AttachScsiLun) soap.HasFault {
	body := &methods.AttachScsiLunBody{}
	device := s.h.byUUID(request.LunUuid)
	if device == nil {
		body.Fault_ = simulator.Fault("", new(types.NotFound))
		return body
	}
	device.Detached = false
	s.h.publish()
	body.Res = new(types.AttachScsiLunResponse)
	return body
}

func (h *Host) byUUID(uuid string) *Device {
	for _, device := range h.Devices {
		if "02"+device.Name == uuid {
			return device
		}
	}
	return nil
}

// satpRule finds a rule with the same names.
func (h *Host) satpRule(it Rule) int {
	return slices.IndexFunc(h.Rules, func(rule Rule) bool {
		return rule.SATP == it.SATP && rule.Vendor == it.Vendor && rule.Model == it.Model
	})
}

// Plant makes a host deviate in every setting of the table that a host can deviate in.
func (h *Host) Plant() {
	h.Options["DataMover.HardwareAcceleratedMove"], h.Options["DataMover.HardwareAcceleratedInit"] = 0, 0
	h.Options["VMFS3.HardwareAcceleratedLocking"], h.Options["VMFS3.UseATSForHBOnVMFS5"] = 0, 0
	h.Rules = append(h.Rules, Rule{SATP: practice.SATP, Vendor: practice.Vendor, PSP: "VMW_PSP_MRU"})
	h.Claims = append(h.Claims, Claim{Number: "911", Vendor: practice.Vendor, Plugin: practice.VAAIPlugin, ArrayValues: "false", KiB: "4096"})
	h.publish()
}
