package esxi

import (
	"context"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

func (h *Host) machines(ctx context.Context) ([]mo.VirtualMachine, error) {
	collector := property.DefaultCollector(h.client)
	var host mo.HostSystem
	if err := collector.RetrieveOne(ctx, h.Self, []string{"vm"}, &host); err != nil || len(host.Vm) == 0 {
		return nil, err
	}
	var machines []mo.VirtualMachine
	err := collector.Retrieve(ctx, host.Vm, []string{"name", "config.hardware"}, &machines)
	return machines, err
}

// ourDatastores are those of the host with an extent on the array.
func (h *Host) ourDatastores(ctx context.Context) (map[types.ManagedObjectReference]bool, error) {
	ours := map[types.ManagedObjectReference]bool{}
	if len(h.Datastore) == 0 {
		return ours, nil
	}
	var all []mo.Datastore
	if err := property.DefaultCollector(h.client).Retrieve(ctx, h.Datastore, []string{"info"}, &all); err != nil {
		return nil, err
	}
	devices := map[string]bool{}
	for _, disk := range h.Disks() {
		devices[disk.CanonicalName] = true
	}
	for _, store := range all {
		info, is := store.Info.(*types.VmfsDatastoreInfo)
		if !is || info.Vmfs == nil {
			continue
		}
		for _, extent := range info.Vmfs.Extent {
			if devices[extent.DiskName] {
				ours[store.Self] = true
			}
		}
	}
	return ours, nil
}
