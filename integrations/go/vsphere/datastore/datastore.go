// Package datastore provisions datastores on volumes of an array: one job for the array's side and for all hosts of a cluster.
package datastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/esxi"
	"ashlar/integrations/vsphere/job"
	"ashlar/integrations/vsphere/vcenter"
)

// Labels on the array, by which a volume shows its datastore.
const (
	LabelDatastore = "vsphere.datastore"
	LabelVCenter   = "vsphere.vcenter"
	LabelHost      = "vsphere.host"
	// LabelMachines names the virtual machines with files on the datastore.
	LabelMachines = "vsphere.machines"
)

// Manager provisions datastores.
type Manager struct {
	VCenter *vcenter.Client
	Array   *array.API
	// Progress may be nil.
	Progress func(job.Progress)
}

// Mapped is a datastore with the volume that it is on.
type Mapped struct {
	Name   string
	Ref    types.ManagedObjectReference
	Device string
	// UUID of the VMFS; BlockKiB is its block size.
	UUID           string
	BlockKiB       int
	Capacity, Free int64
	// Volume of the array; nil if this array has none with the device's name.
	Volume *array.Volume
	store  mo.Datastore
}

// NAA returns the name of a device without its prefix, in lower case.
func NAA(name string) string { return strings.TrimPrefix(strings.ToLower(name), "naa.") }

// List returns the VMFS datastores of vCenter that are on volumes of the array, and with all those on other devices too.
func (m *Manager) List(ctx context.Context, all bool) ([]Mapped, error) {
	var stores []mo.Datastore
	err := m.VCenter.Below(ctx, m.VCenter.ServiceContent.RootFolder, "Datastore",
		[]string{"name", "info", "summary", "host", "vm", "parent", "iormConfiguration"}, &stores)
	if err != nil {
		return nil, vcenter.Explain(err)
	}
	volumes, err := m.Array.AllVolumes(ctx, "")
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*array.Volume, len(volumes))
	for at := range volumes {
		byName[NAA(volumes[at].Naa)] = &volumes[at]
	}
	var found []Mapped
	for _, store := range stores {
		info, is := store.Info.(*types.VmfsDatastoreInfo)
		if !is || info.Vmfs == nil || len(info.Vmfs.Extent) == 0 {
			continue
		}
		made := Mapped{Name: store.Name, Ref: store.Self, Device: info.Vmfs.Extent[0].DiskName, UUID: info.Vmfs.Uuid,
			BlockKiB: int(info.Vmfs.BlockSize), Capacity: store.Summary.Capacity, Free: store.Summary.FreeSpace, store: store}
		made.Volume = byName[NAA(made.Device)]
		if made.BlockKiB == 0 {
			made.BlockKiB = int(info.Vmfs.BlockSizeMb) * 1024
		}
		if made.Volume != nil || all {
			found = append(found, made)
		}
	}
	slices.SortFunc(found, func(a, b Mapped) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// find returns the datastore with a name, which must be on a volume of the array.
func (m *Manager) find(ctx context.Context, name string) (Mapped, error) {
	all, err := m.List(ctx, true)
	if err != nil {
		return Mapped{}, err
	}
	var found []Mapped
	for _, it := range all {
		if it.Name == name {
			found = append(found, it)
		}
	}
	switch {
	case len(found) == 0:
		return Mapped{}, fmt.Errorf("vCenter has no VMFS datastore %q that this user may see", name)
	case len(found) > 1:
		return Mapped{}, fmt.Errorf("there are %d datastores with the name %q in different datacenters: rename one", len(found), name)
	case found[0].Volume == nil:
		return Mapped{}, fmt.Errorf("datastore %s is on device %s, which is no volume of the array at %s: name the array that it is on",
			name, found[0].Device, m.Array.URL)
	case len(found[0].store.Info.(*types.VmfsDatastoreInfo).Vmfs.Extent) > 1:
		return Mapped{}, fmt.Errorf("datastore %s has several extents: change it in the vSphere Client", name)
	}
	return found[0], nil
}

// free refuses a name that a datastore has.
func (m *Manager) free(ctx context.Context, name string) error {
	_, err := m.VCenter.Find(ctx, "Datastore", name)
	var missing *vcenter.MissingError
	if errors.As(err, &missing) {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("there is a datastore %q already", name)
	}
	return err
}

// hosts returns the hosts of a cluster, all of which must be usable: a host that is left out would not have the datastore.
func (m *Manager) hosts(ctx context.Context, cluster string) ([]*esxi.Host, error) {
	found, err := m.VCenter.Hosts(ctx, vcenter.Scope{Cluster: cluster})
	if err != nil {
		return nil, err
	}
	return m.usable(found)
}

func (m *Manager) usable(found []mo.HostSystem) ([]*esxi.Host, error) {
	var hosts []*esxi.Host
	var bad []string
	for _, it := range found {
		host := esxi.New(m.VCenter.Client.Client, it)
		if why := host.Unusable(); why != "" {
			bad = append(bad, host.Name+": "+why)
		}
		hosts = append(hosts, host)
	}
	if bad != nil {
		return nil, fmt.Errorf("nothing was changed, because not every host can take part: %s", strings.Join(bad, "; "))
	}
	return hosts, nil
}

// mounted returns the hosts that a datastore is mounted on.
func (m *Manager) mounted(ctx context.Context, it Mapped) ([]*esxi.Host, error) {
	var refs []types.ManagedObjectReference
	for _, mount := range it.store.Host {
		refs = append(refs, mount.Key)
	}
	if refs == nil {
		return nil, fmt.Errorf("datastore %s is mounted on no host", it.Name)
	}
	var found []mo.HostSystem
	if err := property.DefaultCollector(m.VCenter.Client.Client).Retrieve(ctx, refs, vcenter.HostProperties, &found); err != nil {
		return nil, vcenter.Explain(err)
	}
	slices.SortFunc(found, func(a, b mo.HostSystem) int { return strings.Compare(a.Name, b.Name) })
	return m.usable(found)
}

// each does something on every host, and says on which it failed.
func each(hosts []*esxi.Host, do func(*esxi.Host) error) error {
	var failures []error
	for _, host := range hosts {
		if err := do(host); err != nil {
			failures = append(failures, fmt.Errorf("host %s: %w", host.Name, err))
		}
	}
	return errors.Join(failures...)
}

// labels of a volume that belongs to a datastore.
func (m *Manager) labels(name string) map[string]string {
	return map[string]string{LabelDatastore: name, LabelVCenter: m.VCenter.ServiceContent.About.InstanceUuid}
}
