package datastore

import (
	"context"
	"slices"
	"strings"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/vcenter"
)

// Machines returns the names of the virtual machines with files on each datastore.
func (m *Manager) Machines(ctx context.Context, stores []Mapped) (map[types.ManagedObjectReference][]string, error) {
	var refs []types.ManagedObjectReference
	for _, store := range stores {
		for _, ref := range store.store.Vm {
			if !slices.Contains(refs, ref) {
				refs = append(refs, ref)
			}
		}
	}
	names := map[types.ManagedObjectReference]string{}
	if refs != nil {
		var found []mo.VirtualMachine
		if err := property.DefaultCollector(m.VCenter.Client.Client).Retrieve(ctx, refs, []string{"name"}, &found); err != nil {
			return nil, vcenter.Explain(err)
		}
		for _, machine := range found {
			names[machine.Self] = machine.Name
		}
	}
	on := map[types.ManagedObjectReference][]string{}
	for _, store := range stores {
		for _, ref := range store.store.Vm {
			on[store.Ref] = append(on[store.Ref], names[ref])
		}
		slices.Sort(on[store.Ref])
	}
	return on, nil
}

// labelBytes is the array's limit of a label's value.
const labelBytes = 255

// listed are names in one label; those for which it has no room are an ellipsis.
func listed(names []string) string {
	const more = ", …"
	text := ""
	for at, name := range names {
		next := text
		if at > 0 {
			next += ", "
		}
		next += name
		last := at == len(names)-1
		if len(next) > labelBytes || !last && len(next)+len(more) > labelBytes {
			return strings.TrimPrefix(text+more, ", ")
		}
		text = next
	}
	return text
}

// Label gives volumes the names of their datastores and virtual machines, so that the array shows them, and takes them from
// volumes that are no datastore of this vCenter any more.
func (m *Manager) Label(ctx context.Context, stores []Mapped) error {
	machines, err := m.Machines(ctx, stores)
	if err != nil {
		return err
	}
	id := m.VCenter.ServiceContent.About.InstanceUuid
	current := map[string]bool{}
	for _, store := range stores {
		current[store.Volume.ID] = true
		want := m.labels(store.Name)
		if names := listed(machines[store.Ref]); names != "" {
			want[LabelMachines] = names
		}
		if err := m.relabel(ctx, *store.Volume, want); err != nil {
			return err
		}
	}
	labelled, err := m.Array.AllVolumes(ctx, array.LabelQuery(map[string]string{LabelVCenter: id}))
	if err != nil {
		return err
	}
	for _, volume := range labelled {
		if !current[volume.ID] {
			if err := m.relabel(ctx, volume, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *Manager) relabel(ctx context.Context, volume array.Volume, want map[string]string) error {
	changes := map[string]*string{}
	for _, key := range []string{LabelDatastore, LabelVCenter, LabelMachines} {
		before, had := volume.Labels[key]
		value, has := want[key]
		switch {
		case has && before != value:
			changes[key] = &value
		case had && !has:
			changes[key] = nil
		}
	}
	if len(changes) == 0 {
		return nil
	}
	err := array.Done(m.Array.ChangeVolume(ctx, volume.ID, array.VolumeChange{Labels: &changes}))
	return array.Unless(array.NotFound, err)
}
