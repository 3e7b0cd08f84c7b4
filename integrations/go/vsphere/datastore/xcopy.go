package datastore

import (
	"context"
	"fmt"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/esxi"
	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/vcenter"
)

// DiskCopy says of one disk whether the array would copy it.
type DiskCopy struct {
	Disk string `json:"disk"`
	// FallBacks are the reasons for a copy by the host; none: the array copies.
	FallBacks []string `json:"fall_backs"`
}

// ExplainCopy says for each disk of a virtual machine whether a clone or move to a datastore is done by the array. Format is
// the one of the copy; empty: unchanged.
func (m *Manager) ExplainCopy(ctx context.Context, machine, target, format string) ([]DiskCopy, error) {
	ref, err := m.VCenter.Find(ctx, "VirtualMachine", machine)
	if err != nil {
		return nil, err
	}
	var found mo.VirtualMachine
	err = property.DefaultCollector(m.VCenter.Client.Client).RetrieveOne(ctx, ref, []string{"name", "config.hardware", "snapshot"}, &found)
	if err != nil {
		return nil, vcenter.Explain(err)
	}
	if found.Config == nil {
		return nil, fmt.Errorf("vCenter has no configuration of virtual machine %s: its host is not connected", machine)
	}
	status, err := array.Decode[array.Status](m.Array.ShowStatus(ctx))
	if err != nil {
		return nil, err
	}
	stores, err := m.List(ctx, true)
	if err != nil {
		return nil, err
	}
	to, err := m.target(stores, target)
	if err != nil {
		return nil, err
	}
	var copies []DiskCopy
	for _, device := range found.Config.Hardware.Device {
		disk, is := device.(*types.VirtualDisk)
		if !is {
			continue
		}
		it := practice.Copy{TargetBlock: to.BlockKiB, TargetArray: on(to, status.ID), Snapshots: found.Snapshot != nil, TargetFile: true}
		m.source(&it, disk, stores, status.ID)
		it.TargetFormat = format
		if format == "" {
			it.TargetFormat = it.SourceFormat
		}
		copies = append(copies, DiskCopy{Disk: it.Label, FallBacks: practice.FallBacks(it)})
	}
	return copies, nil
}

func (m *Manager) target(stores []Mapped, name string) (Mapped, error) {
	for _, store := range stores {
		if store.Name == name {
			return store, nil
		}
	}
	return Mapped{}, fmt.Errorf("vCenter has no VMFS datastore %q that this user may see", name)
}

// on is the array that a datastore is on; a volume that this array does not know is on another one, or on none.
func on(store Mapped, id string) string {
	if store.Volume == nil {
		return ""
	}
	return id
}

func (m *Manager) source(it *practice.Copy, disk *types.VirtualDisk, stores []Mapped, id string) {
	it.Label = fmt.Sprint(disk.Key)
	if disk.DeviceInfo != nil {
		it.Label = disk.DeviceInfo.GetDescription().Label
	}
	var at *types.ManagedObjectReference
	switch backing := disk.Backing.(type) {
	case *types.VirtualDiskFlatVer2BackingInfo:
		it.SourceFormat, at = esxi.Format(backing), backing.Datastore
	case *types.VirtualDiskRawDiskMappingVer1BackingInfo:
		it.SourceRDM, at = true, backing.Datastore
	}
	for _, store := range stores {
		if at != nil && store.Ref == *at {
			it.SourceBlock, it.SourceArray = store.BlockKiB, on(store, id)
		}
	}
}
