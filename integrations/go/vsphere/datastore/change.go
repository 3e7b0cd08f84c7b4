package datastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"

	"ashlar/integrations/array"
	"ashlar/integrations/size"
	"ashlar/integrations/vsphere/esxi"
	"ashlar/integrations/vsphere/job"
	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/vcenter"
)

// Grow makes a datastore and its volume larger. Bytes is the new size of the volume.
func (m *Manager) Grow(ctx context.Context, name string, bytes int64) error {
	it, err := m.find(ctx, name)
	if err != nil {
		return err
	}
	if bytes < it.Volume.Size {
		return fmt.Errorf("datastore %s has %s already: it can't be made smaller, which would destroy what lies beyond the end",
			name, size.Format(it.Volume.Size))
	}
	hosts, err := m.mounted(ctx, it)
	if err != nil {
		return err
	}
	steps := []job.Step{{
		Name: "grow volume " + it.Volume.Name + " to " + size.Format(bytes),
		Do: func(ctx context.Context) error {
			if bytes == it.Volume.Size {
				return nil
			}
			return array.Done(m.Array.ChangeVolume(ctx, it.Volume.ID, array.VolumeChange{Size: nullable.NewNullableWithValue(bytes)}))
		},
		Left: fmt.Sprintf("volume %s has %s now, which harms nothing: run the same command again to finish", it.Volume.Name, size.Format(bytes)),
	}, {
		Name: "rescan all hosts",
		Do: func(ctx context.Context) error {
			return each(hosts, func(host *esxi.Host) error {
				if err := host.Rescan(ctx); err != nil {
					return err
				}
				disk := host.Disk(it.Device)
				if disk == nil || disk.Capacity.Block*int64(disk.Capacity.BlockSize) < bytes {
					return fmt.Errorf("it does not see the new size of %s", it.Device)
				}
				return nil
			})
		},
	}, {
		Name: "expand the file system on " + hosts[0].Name,
		Do: func(ctx context.Context) error {
			_, err := hosts[0].Expand(ctx, it.Ref)
			return err
		},
		Left: "the datastore has its new size; hosts that were not rescanned see it after their next rescan",
	}, {
		Name: "rescan the other hosts",
		Do: func(ctx context.Context) error {
			return each(hosts[1:], func(host *esxi.Host) error { return host.Rescan(ctx) })
		},
	}}
	return m.run(ctx, taskGrow, it.Ref, steps)
}

// Unmap gives what a datastore does not use back to the array, with a block count for its size, and returns that.
func (m *Manager) Unmap(ctx context.Context, name string) (int64, error) {
	it, err := m.find(ctx, name)
	if err != nil {
		return 0, err
	}
	hosts, err := m.mounted(ctx, it)
	if err != nil {
		return 0, err
	}
	blocks := practice.UnmapBlocks(it.Capacity, it.Free)
	return blocks, m.run(ctx, taskUnmap, it.Ref, []job.Step{{
		Name: fmt.Sprintf("unmap on %s, %d blocks in each pass", hosts[0].Name, blocks),
		Do:   func(ctx context.Context) error { return hosts[0].Unmap(ctx, name, blocks) },
	}})
}

// Delete unmounts a datastore everywhere, disconnects its volume and moves it to the array's recycle bin, from which it can
// be restored with its content. One in use is refused.
func (m *Manager) Delete(ctx context.Context, name string) error {
	it, err := m.find(ctx, name)
	if err != nil {
		return err
	}
	hosts, err := m.mounted(ctx, it)
	if err != nil {
		return err
	}
	if err := m.unused(ctx, it, hosts); err != nil {
		return err
	}
	d := &removal{Manager: m, it: it, hosts: hosts}
	return m.run(ctx, taskDelete, it.Ref, []job.Step{
		{Name: "unmount it from all hosts", Do: d.unmount, Undo: d.mount},
		{Name: "detach its device from all hosts", Do: d.detach, Undo: d.attach},
		{Name: "disconnect volume " + it.Volume.Name, Do: d.disconnect, Undo: d.connect},
		{Name: "move volume " + it.Volume.Name + " to the recycle bin", Do: func(ctx context.Context) error {
			return array.Done(m.Array.DeleteVolume(ctx, it.Volume.ID, nil))
		}, Undo: func(ctx context.Context) error {
			err := array.Done(m.Array.RestoreFromRecycleBin(ctx, it.Volume.ID, array.Restore{}))
			return array.Unless(array.NotFound, err)
		}},
		{Name: "rescan all hosts", Do: func(ctx context.Context) error {
			return each(hosts, func(host *esxi.Host) error { return host.Rescan(ctx) })
		}},
	})
}

// unused refuses a datastore that something still needs.
func (m *Manager) unused(ctx context.Context, it Mapped, hosts []*esxi.Host) error {
	var why []string
	if machines := it.store.Vm; len(machines) > 0 {
		var found []mo.VirtualMachine
		if err := property.DefaultCollector(m.VCenter.Client.Client).Retrieve(ctx, machines, []string{"name"}, &found); err != nil {
			return vcenter.Explain(err)
		}
		var names []string
		for _, machine := range found {
			names = append(names, machine.Name)
		}
		why = append(why, "it has files of virtual machines or templates: "+strings.Join(names, ", "))
	}
	if it.store.Parent != nil && it.store.Parent.Type == "StoragePod" {
		why = append(why, "it is in a datastore cluster: take it out first")
	}
	if control := it.store.IormConfiguration; control != nil && control.Enabled {
		why = append(why, "Storage I/O Control is on: switch it off first")
	}
	var initiators []string
	for _, host := range hosts {
		if adapter := host.ISCSI(); adapter != nil {
			initiators = append(initiators, strings.ToLower(adapter.IScsiName))
		}
	}
	others, err := m.otherUsers(ctx, it, initiators)
	if err != nil {
		return err
	}
	if others != nil {
		why = append(why, "its volume is also connected to hosts that are not those of the datastore: "+strings.Join(others, ", "))
	}
	if why != nil {
		return fmt.Errorf("datastore %s is in use, and nothing was changed: %s", it.Name, strings.Join(why, "; "))
	}
	return nil
}

// otherUsers are hosts that the volume is connected to and that have other initiators.
func (m *Manager) otherUsers(ctx context.Context, it Mapped, initiators []string) ([]string, error) {
	names := map[string]bool{}
	for _, connection := range it.Volume.Connections {
		if host, err := connection.Host.Get(); err == nil {
			names[host] = true
			continue
		}
		group, err := connection.HostGroup.Get()
		if err != nil {
			continue
		}
		found, err := array.Decode[array.HostGroup](m.Array.ShowHostGroup(ctx, group))
		if err != nil {
			return nil, err
		}
		for _, host := range found.Hosts {
			names[host] = true
		}
	}
	var others []string
	for name := range names {
		host, err := array.Decode[array.Host](m.Array.ShowHost(ctx, name))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(host.Initiators, func(it string) bool { return slices.Contains(initiators, it) }) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return others, nil
}

// removal is the deletion of a datastore, with what it takes back.
type removal struct {
	*Manager
	it           Mapped
	hosts        []*esxi.Host
	unmounted    []*esxi.Host
	detached     []*esxi.Host
	disconnected []array.Connection
}

func (d *removal) unmount(ctx context.Context) error {
	for _, host := range d.hosts {
		if err := host.Unmount(ctx, d.it.UUID); err != nil {
			return fmt.Errorf("host %s: %w", host.Name, err)
		}
		d.unmounted = append(d.unmounted, host)
	}
	return nil
}

func (d *removal) mount(ctx context.Context) error {
	return each(d.unmounted, func(host *esxi.Host) error { return host.Mount(ctx, d.it.UUID) })
}

func (d *removal) detach(ctx context.Context) error {
	for _, host := range d.hosts {
		disk := host.Disk(d.it.Device)
		if disk == nil {
			continue
		}
		if err := host.Detach(ctx, disk); err != nil {
			return fmt.Errorf("host %s: %w", host.Name, err)
		}
		d.detached = append(d.detached, host)
	}
	return nil
}

func (d *removal) attach(ctx context.Context) error {
	return each(d.detached, func(host *esxi.Host) error {
		if err := host.Rescan(ctx); err != nil {
			return err
		}
		disk := host.Disk(d.it.Device)
		if disk == nil {
			return fmt.Errorf("it does not see %s any more", d.it.Device)
		}
		return host.Attach(ctx, disk)
	})
}

func (d *removal) disconnect(ctx context.Context) error {
	for _, connection := range d.it.Volume.Connections {
		var err error
		if group, absent := connection.HostGroupID.Get(); absent == nil {
			err = array.Done(d.Array.DeleteHostGroupConnection(ctx, d.it.Volume.ID, group))
		} else if host, absent := connection.HostID.Get(); absent == nil {
			err = array.Done(d.Array.DeleteConnection(ctx, d.it.Volume.ID, host))
		}
		if err != nil {
			return err
		}
		d.disconnected = append(d.disconnected, connection)
	}
	return nil
}

// connect gives every connection back with its LUN, by which hosts know the paths.
func (d *removal) connect(ctx context.Context) error {
	var failures []error
	for _, it := range d.disconnected {
		request := array.NewConnection{Volume: d.it.Volume.ID, Lun: nullable.NewNullableWithValue(it.Lun), ReadOnly: &it.ReadOnly}
		if group, absent := it.HostGroupID.Get(); absent == nil {
			request.HostGroup = nullable.NewNullableWithValue(group)
		} else if host, absent := it.HostID.Get(); absent == nil {
			request.Host = nullable.NewNullableWithValue(host)
		}
		failures = append(failures, array.Done(d.Array.CreateConnection(ctx, request)))
	}
	return errors.Join(failures...)
}
