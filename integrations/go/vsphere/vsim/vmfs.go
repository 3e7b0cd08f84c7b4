package vsim

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/cli/esx"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// volume is a VMFS on a device, whatever hosts have mounted it.
type volume struct {
	name, uuid, device, folder string
	bytes                      int64
	store                      *simulator.Datastore
	unmountedOn                map[string]bool
	// unmapped are the block counts that it was unmapped with.
	unmapped []int
}

type datastoreSystem struct {
	*simulator.HostDatastoreSystem
	h *Host
}

// mount makes a file system a datastore of the host.
func (d *datastoreSystem) mount(ctx *simulator.Context, it *volume) *soap.Fault {
	if d.h.mounted[it.device] {
		return nil
	}
	body := d.HostDatastoreSystem.CreateLocalDatastore(ctx, &types.CreateLocalDatastore{Name: it.name, Path: it.folder})
	if fault := body.Fault(); fault != nil {
		return fault
	}
	made := body.(*methods.CreateLocalDatastoreBody).Res.Returnval
	if store, found := ctx.Map.Get(made).(*simulator.Datastore); found {
		it.store = store
	} else if it.store != nil {
		// The simulator returns an object without a reference for a datastore that other hosts have.
		made = it.store.Self
	}
	d.h.mounted[it.device] = true
	it.describe()
	return nil
}

func (v *volume) describe() {
	v.store.Summary.Type, v.store.Summary.Capacity = "VMFS", v.bytes
	v.store.Summary.FreeSpace, v.store.Summary.Accessible = v.bytes/2, true
	v.store.Info = &types.VmfsDatastoreInfo{
		DatastoreInfo: types.DatastoreInfo{Name: v.name, Url: v.folder, FreeSpace: v.bytes / 2},
		Vmfs: &types.HostVmfsVolume{
			HostFileSystemVolume: types.HostFileSystemVolume{Type: "VMFS", Name: v.name, Capacity: v.bytes},
			BlockSizeMb:          1, BlockSize: 1024, MajorVersion: 6, Version: "6.82", Uuid: v.uuid,
			Extent: []types.HostScsiDiskPartition{{DiskName: v.device, Partition: 1}},
		},
	}
}

// unmount takes a datastore from the host. Gone: the device is not there any more, so that nothing remembers it.
func (d *datastoreSystem) unmount(ctx *simulator.Context, it *volume, gone bool) {
	if gone {
		delete(it.unmountedOn, d.h.System.Name)
	}
	if !d.h.mounted[it.device] {
		return
	}
	delete(d.h.mounted, it.device)
	store := it.store
	simulator.RemoveReference(&d.Datastore, store.Self)
	ctx.Map.RemoveReference(ctx, d.h.System, &d.h.System.Datastore, store.Self)
	for at, mount := range store.Host {
		if mount.Key == d.h.System.Self {
			store.Host = append(store.Host[:at], store.Host[at+1:]...)
			break
		}
	}
	if len(store.Host) == 0 {
		_ = store.DestroyTask(ctx, &types.Destroy_Task{This: store.Self})
		if parent, is := ctx.Map.Get(*d.h.System.Parent).(*simulator.ClusterComputeResource); is {
			simulator.RemoveReference(&parent.Datastore, store.Self)
		}
		ctx.Map.Remove(ctx, store.Self)
		it.store = nil
	}
}

func (d *datastoreSystem) named(path string) *Device {
	return d.h.device(strings.TrimPrefix(path, "/vmfs/devices/disks/"))
}

func (d *datastoreSystem) QueryVmfsDatastoreCreateOptions(_ *simulator.Context, request *types.QueryVmfsDatastoreCreateOptions) soap.HasFault {
	body := &methods.QueryVmfsDatastoreCreateOptionsBody{}
	device := d.named(request.DevicePath)
	if device == nil {
		body.Fault_ = simulator.Fault("", new(types.NotFound))
		return body
	}
	body.Res = &types.QueryVmfsDatastoreCreateOptionsResponse{}
	if d.h.v.volumes[device.Name] == nil {
		body.Res.Returnval = append(body.Res.Returnval, types.VmfsDatastoreOption{
			Info: &types.VmfsDatastoreAllExtentOption{},
			Spec: &types.VmfsDatastoreCreateSpec{VmfsDatastoreSpec: types.VmfsDatastoreSpec{DiskUuid: "02" + device.Name},
				Vmfs: types.HostVmfsSpec{MajorVersion: 6, Extent: types.HostScsiDiskPartition{DiskName: device.Name, Partition: 1}}},
		})
	}
	return body
}

func (d *datastoreSystem) CreateVmfsDatastore(ctx *simulator.Context, request *types.CreateVmfsDatastore) soap.HasFault {
	body := &methods.CreateVmfsDatastoreBody{}
	device := d.h.device(request.Spec.Vmfs.Extent.DiskName)
	if device == nil || d.h.v.volumes[device.Name] != nil {
		body.Fault_ = refused("the device is not there, or is in use")
		return body
	}
	made, err := d.h.v.format(request.Spec.Vmfs.VolumeName, device.Unit)
	if err != nil {
		body.Fault_ = refused(err.Error())
		return body
	}
	if body.Fault_ = d.mount(ctx, made); body.Fault_ != nil {
		delete(d.h.v.volumes, device.Name)
		return body
	}
	body.Res = &types.CreateVmfsDatastoreResponse{Returnval: made.store.Self}
	return body
}

func (v *VCenter) format(name string, unit Unit) (*volume, error) {
	folder, err := os.MkdirTemp("", "vsim-")
	if err != nil {
		return nil, err
	}
	made := &volume{name: name, uuid: uuid.NewString(), device: unit.Name, folder: folder, bytes: unit.Bytes, unmountedOn: map[string]bool{}}
	v.volumes[unit.Name] = made
	return made, nil
}

// Close removes the folders of file systems.
func (v *VCenter) close() {
	for _, volume := range v.volumes {
		_ = os.RemoveAll(volume.folder)
	}
}

// Formatted reports whether a device has a file system, and its name.
func (v *VCenter) Formatted(device string) (string, bool) {
	if volume := v.volumes[device]; volume != nil {
		return volume.name, true
	}
	return "", false
}

// Unmapped returns the block counts of UNMAP passes of a datastore.
func (v *VCenter) Unmapped(name string) []int {
	for _, volume := range v.volumes {
		if volume.name == name {
			return volume.unmapped
		}
	}
	return nil
}

// RemoveDatastore destroys the file system.
func (d *datastoreSystem) RemoveDatastore(ctx *simulator.Context, request *types.RemoveDatastore) soap.HasFault {
	body := &methods.RemoveDatastoreBody{}
	it := d.byStore(request.Datastore)
	switch {
	case it == nil:
		body.Fault_ = simulator.Fault("", new(types.NotFound))
	case len(it.store.Vm) > 0:
		body.Fault_ = simulator.Fault("", &types.ResourceInUse{Type: "Datastore", Name: it.name})
	default:
		for _, host := range d.h.v.Hosts {
			host.datastore.unmount(ctx, it, true)
		}
		delete(d.h.v.volumes, it.device)
		body.Res = new(types.RemoveDatastoreResponse)
	}
	return body
}

// renamer gives datastores the method that the simulator lacks.
type renamer struct {
	*simulator.Datastore
	v *VCenter
}

func (r *renamer) RenameTask(ctx *simulator.Context, request *types.Rename_Task) soap.HasFault {
	ctx.Map.Put(r.Datastore)
	body := simulator.RenameTask(ctx, r.Datastore, request)
	for _, volume := range r.v.volumes {
		if volume.store != nil && volume.store.Self == r.Self {
			volume.name = request.NewName
			volume.describe()
		}
	}
	return body
}

func (d *datastoreSystem) byStore(ref types.ManagedObjectReference) *volume {
	for _, volume := range d.h.v.volumes {
		if volume.store != nil && volume.store.Self == ref {
			return volume
		}
	}
	return nil
}

func (d *datastoreSystem) QueryVmfsDatastoreExpandOptions(_ *simulator.Context, request *types.QueryVmfsDatastoreExpandOptions) soap.HasFault {
	body := &methods.QueryVmfsDatastoreExpandOptionsBody{Res: &types.QueryVmfsDatastoreExpandOptionsResponse{}}
	it := d.byStore(request.Datastore)
	if it == nil {
		return &methods.QueryVmfsDatastoreExpandOptionsBody{Fault_: simulator.Fault("", new(types.NotFound))}
	}
	if device := d.h.device(it.device); device != nil && device.Bytes > it.bytes {
		body.Res.Returnval = []types.VmfsDatastoreOption{{Info: &types.VmfsDatastoreAllExtentOption{},
			Spec: &types.VmfsDatastoreExpandSpec{VmfsDatastoreSpec: types.VmfsDatastoreSpec{DiskUuid: "02" + device.Name},
				Extent: types.HostScsiDiskPartition{DiskName: device.Name, Partition: 1}}}}
	}
	return body
}

func (d *datastoreSystem) ExpandVmfsDatastore(_ *simulator.Context, request *types.ExpandVmfsDatastore) soap.HasFault {
	body := &methods.ExpandVmfsDatastoreBody{}
	it := d.byStore(request.Datastore)
	if it == nil || d.h.device(it.device) == nil {
		body.Fault_ = simulator.Fault("", new(types.NotFound))
		return body
	}
	it.bytes = d.h.device(it.device).Bytes
	it.describe()
	body.Res = &types.ExpandVmfsDatastoreResponse{Returnval: it.store.Self}
	return body
}

func (s *storageSystem) byUUID(uuid string) *volume {
	for _, volume := range s.h.v.volumes {
		if volume.uuid == uuid {
			return volume
		}
	}
	return nil
}

func (s *storageSystem) UnmountVmfsVolume(ctx *simulator.Context, request *types.UnmountVmfsVolume) soap.HasFault {
	body := &methods.UnmountVmfsVolumeBody{}
	it := s.byUUID(request.VmfsUuid)
	if it == nil || !s.h.mounted[it.device] {
		body.Fault_ = simulator.Fault("", new(types.NotFound))
		return body
	}
	for _, ref := range it.store.Vm {
		machine := ctx.Map.Get(ref).(*simulator.VirtualMachine)
		if machine.Runtime.Host != nil && *machine.Runtime.Host == s.h.System.Self {
			body.Fault_ = simulator.Fault("", &types.ResourceInUse{Type: "Datastore", Name: it.name})
			return body
		}
	}
	it.unmountedOn[s.h.System.Name] = true
	s.h.datastore.unmount(ctx, it, false)
	body.Res = new(types.UnmountVmfsVolumeResponse)
	return body
}

func (s *storageSystem) MountVmfsVolume(ctx *simulator.Context, request *types.MountVmfsVolume) soap.HasFault {
	body := &methods.MountVmfsVolumeBody{}
	it := s.byUUID(request.VmfsUuid)
	if it == nil || s.h.device(it.device) == nil {
		body.Fault_ = simulator.Fault("", new(types.NotFound))
		return body
	}
	delete(it.unmountedOn, s.h.System.Name)
	if body.Fault_ = s.h.datastore.mount(ctx, it); body.Fault_ == nil {
		body.Res = new(types.MountVmfsVolumeResponse)
	}
	return body
}

// unresolved is the file system whose copy a device has; nil if it has none of a copy.
func (h *Host) unresolved(device *Device) *volume {
	if device == nil || device.CopyOf == "" || h.v.volumes[device.Name] != nil {
		return nil
	}
	return h.v.volumes[device.CopyOf]
}

func (s *storageSystem) QueryUnresolvedVmfsVolume(_ *simulator.Context, _ *types.QueryUnresolvedVmfsVolume) soap.HasFault {
	body := &methods.QueryUnresolvedVmfsVolumeBody{Res: &types.QueryUnresolvedVmfsVolumeResponse{}}
	for _, device := range s.h.Devices {
		if source := s.h.unresolved(device); source != nil {
			body.Res.Returnval = append(body.Res.Returnval, types.HostUnresolvedVmfsVolume{VmfsLabel: source.name, VmfsUuid: source.uuid,
				Extent: []types.HostUnresolvedVmfsExtent{{Device: types.HostScsiDiskPartition{DiskName: device.Name, Partition: 1},
					DevicePath: "/vmfs/devices/disks/" + device.Name + ":1", VmfsUuid: source.uuid, IsHeadExtent: true}},
				ResolveStatus: types.HostUnresolvedVmfsVolumeResolveStatus{Resolvable: true}})
		}
	}
	return body
}

// ResignatureUnresolvedVmfsVolumeTask gives a copy a name of its own, as vSphere does: `snap-`, a number, and the old name.
func (d *datastoreSystem) ResignatureUnresolvedVmfsVolumeTask(ctx *simulator.Context, request *types.ResignatureUnresolvedVmfsVolume_Task) soap.HasFault {
	task := simulator.CreateTask(d, "resignature", func(*simulator.Task) (types.AnyType, types.BaseMethodFault) {
		if len(request.ResolutionSpec.ExtentDevicePath) != 1 {
			return nil, &types.InvalidArgument{InvalidProperty: "resolutionSpec"}
		}
		path, _, _ := strings.Cut(request.ResolutionSpec.ExtentDevicePath[0], ":")
		device := d.named(path)
		source := d.h.unresolved(device)
		if source == nil {
			return nil, new(types.NotFound)
		}
		made, err := d.h.v.format(fmt.Sprintf("snap-%08x-%s", len(d.h.v.volumes), source.name), device.Unit)
		if err != nil {
			return nil, new(types.HostConfigFault)
		}
		if fault := d.mount(ctx, made); fault != nil {
			return nil, new(types.HostConfigFault)
		}
		return types.HostResignatureRescanResult{Result: made.store.Self}, nil
	})
	return &methods.ResignatureUnresolvedVmfsVolume_TaskBody{
		Res: &types.ResignatureUnresolvedVmfsVolume_TaskResponse{Returnval: task.Run(ctx)}}
}

func unmapVmfs(h *Host, arguments esx.Values) ([]esx.Values, error) {
	blocks, err := strconv.Atoi(arguments.Value("reclaimunit"))
	if err != nil || blocks < 1 {
		return nil, fmt.Errorf("Invalid reclaim unit")
	}
	for _, volume := range h.v.volumes {
		if volume.name == arguments.Value("volumelabel") && h.mounted[volume.device] {
			volume.unmapped = append(volume.unmapped, blocks)
			return nil, nil
		}
	}
	return nil, fmt.Errorf("Volume %q cannot be found", arguments.Value("volumelabel"))
}

// Place puts a virtual machine's files on a datastore.
func (v *VCenter) Place(machine *simulator.VirtualMachine, store types.ManagedObjectReference) {
	found := v.model.Map().Get(store).(*simulator.Datastore)
	found.Vm = append(found.Vm, machine.Self)
	for _, device := range machine.Config.Hardware.Device {
		if disk, is := device.(*types.VirtualDisk); is {
			disk.Backing.(*types.VirtualDiskFlatVer2BackingInfo).Datastore = &store
		}
	}
	machine.Datastore = []types.ManagedObjectReference{store}
}

// Mounted are the names of the file systems that a host has mounted.
func (h *Host) Mounted() []string {
	var names []string
	for device := range h.mounted {
		names = append(names, h.v.volumes[device].name)
	}
	slices.Sort(names)
	return names
}

// Forget makes every host lose a device for good, as after it was disconnected on the array and rescanned.
func (v *VCenter) Forget(device string) {
	ctx := v.model.Service.Context
	for _, host := range v.Hosts {
		host.datastore.unmount(ctx, v.volumes[device], true)
		host.rescan()
	}
}
