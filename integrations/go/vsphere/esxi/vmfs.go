package esxi

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/vcenter"
)

// ISCSI is the software iSCSI adapter; nil if there is none.
func (h *Host) ISCSI() *types.HostInternetScsiHba { return h.softwareAdapter() }

func (h *Host) datastores() *object.HostDatastoreSystem {
	return object.NewHostDatastoreSystem(h.client, *h.ConfigManager.DatastoreSystem)
}

// Rescan looks for devices and file systems that came or went.
func (h *Host) Rescan(ctx context.Context) error {
	if err := h.storage().RescanAllHba(ctx); err != nil {
		return vcenter.Explain(fmt.Errorf("rescan of adapters: %w", err))
	}
	if err := h.storage().RescanVmfs(ctx); err != nil {
		return vcenter.Explain(fmt.Errorf("rescan of file systems: %w", err))
	}
	return h.Refresh(ctx)
}

// Disk returns the array's disk with a canonical name; nil if the host does not see it.
func (h *Host) Disk(name string) *types.HostScsiDisk {
	for _, disk := range h.Disks() {
		if disk.CanonicalName == name {
			return disk
		}
	}
	return nil
}

// Format makes a datastore on an empty disk. A disk with anything on it is refused by the host.
func (h *Host) Format(ctx context.Context, disk *types.HostScsiDisk, name string) (*object.Datastore, error) {
	options, err := h.datastores().QueryVmfsDatastoreCreateOptions(ctx, disk.DevicePath)
	if err != nil {
		return nil, vcenter.Explain(err)
	}
	for _, option := range options {
		if _, whole := option.Info.(*types.VmfsDatastoreAllExtentOption); !whole {
			continue
		}
		spec, is := option.Spec.(*types.VmfsDatastoreCreateSpec)
		if !is {
			continue
		}
		spec.Vmfs.VolumeName = name
		made, err := h.datastores().CreateVmfsDatastore(ctx, *spec)
		return made, vcenter.Explain(err)
	}
	return nil, fmt.Errorf("%s offers no way to format %s: it has data already", h.Name, disk.CanonicalName)
}

// Destroy destroys a file system with everything in it.
func (h *Host) Destroy(ctx context.Context, store types.ManagedObjectReference) error {
	return vcenter.Explain(h.datastores().Remove(ctx, object.NewDatastore(h.client, store)))
}

// Expand lets a datastore take all of its disk. It returns false if it has it already.
func (h *Host) Expand(ctx context.Context, store types.ManagedObjectReference) (bool, error) {
	options, err := methods.QueryVmfsDatastoreExpandOptions(ctx, h.client, &types.QueryVmfsDatastoreExpandOptions{
		This: *h.ConfigManager.DatastoreSystem, Datastore: store})
	if err != nil {
		return false, vcenter.Explain(err)
	}
	for _, option := range options.Returnval {
		spec, is := option.Spec.(*types.VmfsDatastoreExpandSpec)
		if !is {
			continue
		}
		_, err := methods.ExpandVmfsDatastore(ctx, h.client, &types.ExpandVmfsDatastore{
			This: *h.ConfigManager.DatastoreSystem, Datastore: store, Spec: *spec})
		return err == nil, vcenter.Explain(err)
	}
	return false, nil
}

// Unmount takes a file system from the host. It keeps its content.
func (h *Host) Unmount(ctx context.Context, uuid string) error {
	return vcenter.Explain(h.storage().UnmountVmfsVolume(ctx, uuid))
}

// Mount gives an unmounted file system back.
func (h *Host) Mount(ctx context.Context, uuid string) error {
	_, err := methods.MountVmfsVolume(ctx, h.client, &types.MountVmfsVolume{This: *h.ConfigManager.StorageSystem, VmfsUuid: uuid})
	return vcenter.Explain(err)
}

// Detach prepares the host for a disk that is about to go.
func (h *Host) Detach(ctx context.Context, disk *types.HostScsiDisk) error {
	_, err := methods.DetachScsiLun(ctx, h.client, &types.DetachScsiLun{This: *h.ConfigManager.StorageSystem, LunUuid: disk.Uuid})
	return vcenter.Explain(err)
}

// Attach takes Detach back.
func (h *Host) Attach(ctx context.Context, disk *types.HostScsiDisk) error {
	return vcenter.Explain(h.storage().AttachScsiLun(ctx, disk.Uuid))
}

// Resignature gives the copy of a file system on a disk an identity of its own and mounts it.
func (h *Host) Resignature(ctx context.Context, device string) (types.ManagedObjectReference, error) {
	var none types.ManagedObjectReference
	copies, err := h.storage().QueryUnresolvedVmfsVolumes(ctx)
	if err != nil {
		return none, vcenter.Explain(err)
	}
	for _, it := range copies {
		var paths []string
		ours := false
		for _, extent := range it.Extent {
			paths = append(paths, extent.DevicePath)
			ours = ours || extent.Device.DiskName == device
		}
		if !ours {
			continue
		}
		if !it.ResolveStatus.Resolvable {
			return none, fmt.Errorf("the copy of %s on %s can't be resignatured: not all of its extents are there, or another copy is", it.VmfsLabel, device)
		}
		return h.resignature(ctx, paths)
	}
	return none, fmt.Errorf("%s finds no copy of a file system on %s: is it a copy of a datastore?", h.Name, device)
}

func (h *Host) resignature(ctx context.Context, paths []string) (types.ManagedObjectReference, error) {
	var none types.ManagedObjectReference
	task, err := h.datastores().ResignatureUnresolvedVmfsVolumes(ctx, paths)
	if err != nil {
		return none, vcenter.Explain(err)
	}
	info, err := task.WaitForResult(ctx)
	if err != nil {
		return none, vcenter.Explain(err)
	}
	result, is := info.Result.(types.HostResignatureRescanResult)
	if !is {
		return none, fmt.Errorf("vCenter did not say which datastore the copy became")
	}
	return result.Result, nil
}

// Unmap gives unused blocks of a datastore back, this many in each pass.
func (h *Host) Unmap(ctx context.Context, label string, blocks int64) error {
	_, err := h.esxcli(ctx, "storage vmfs unmap", "--volume-label="+label, "--reclaim-unit="+strconv.FormatInt(blocks, 10))
	return err
}

// Settle gives a new disk the recommended path policy and queue, in the order of the table: the policy comes first.
func (h *Host) Settle(ctx context.Context, device string) error {
	state := h.Read(ctx)
	if state.Unreadable != "" {
		return errors.New(state.Unreadable)
	}
	for _, finding := range practice.Compare(state, practice.Want{}) {
		if finding.Object != device || finding.Verdict != practice.Deviates || !finding.Fixable {
			continue
		}
		if err := h.Apply(ctx, finding, state, Change{}); err != nil {
			return err
		}
	}
	return h.Refresh(ctx)
}
