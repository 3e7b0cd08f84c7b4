package datastore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oapi-codegen/nullable"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/esxi"
	"ashlar/integrations/vsphere/job"
	"ashlar/integrations/vsphere/vcenter"
)

// New is a datastore to create.
type New struct {
	Name, Cluster string
	// Bytes of the volume.
	Bytes int64
	// Volume is its name on the array; empty: that of the datastore.
	Volume string
	// Group of volumes on the array; empty: none.
	Group string
}

// work is what the steps of one job have in common.
type work struct {
	*Manager
	cluster string
	hosts   []*esxi.Host
	members membership
	volume  array.Volume
	device  string
	store   types.ManagedObjectReference
}

// Create makes a volume, connects it to all hosts of a cluster and formats it.
func (m *Manager) Create(ctx context.Context, new New) error {
	if new.Volume == "" {
		new.Volume = hostName(new.Name)
	}
	w, err := m.begin(ctx, new.Name, new.Cluster)
	if err != nil {
		return err
	}
	labels := m.labels(new.Name)
	request := array.NewVolume{Name: new.Volume, Size: nullable.NewNullableWithValue(new.Bytes), Labels: &labels}
	if new.Group != "" {
		request.Group = nullable.NewNullableWithValue(new.Group)
	}
	steps := []job.Step{
		m.groupStep(new.Cluster, w.hosts, &w.members),
		w.volumeStep("create the volume", request),
		w.connectStep(),
		w.rescanStep(),
		w.formatStep(new.Name),
		w.mountStep(new.Name),
		w.settleStep(),
	}
	return m.run(ctx, taskCreate, w.parent(), steps)
}

// parent is the cluster, on which a task is shown.
func (w *work) parent() types.ManagedObjectReference { return *w.hosts[0].Parent }

// begin refuses what would fail later.
func (m *Manager) begin(ctx context.Context, name, cluster string) (*work, error) {
	// vSphere's limit of a datastore's name, in characters.
	const longest = 42
	if name == "" || len(name) > longest || strings.ContainsAny(name, "/\\%") {
		return nil, fmt.Errorf("%q is no name of a datastore: 1 to %d characters without / \\ and %%", name, longest)
	}
	if err := m.free(ctx, name); err != nil {
		return nil, err
	}
	hosts, err := m.hosts(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return &work{Manager: m, cluster: cluster, hosts: hosts}, nil
}

func (w *work) volumeStep(name string, request array.NewVolume) job.Step {
	isNew := false
	return job.Step{
		Name: name + " " + request.Name,
		Do: func(ctx context.Context) (err error) {
			w.volume, isNew, err = array.Made[array.Volume](w.Array.CreateVolume(ctx, request))
			if err == nil && !isNew {
				err = fmt.Errorf("the array has a volume %s already", request.Name)
			}
			w.device = "naa." + NAA(w.volume.Naa)
			return err
		},
		// It is empty, and restorable from the recycle bin even so.
		Undo: func(ctx context.Context) error {
			if !isNew {
				return nil
			}
			return array.Unless(array.NotFound, array.Done(w.Array.DeleteVolume(ctx, w.volume.ID, nil)))
		},
	}
}

func (w *work) connectStep() job.Step {
	connected := false
	return job.Step{
		Name: "connect it to all hosts",
		Do: func(ctx context.Context) error {
			_, isNew, err := array.Made[array.Attachment](w.Array.CreateConnection(ctx, array.NewConnection{
				Volume: w.volume.ID, HostGroup: nullable.NewNullableWithValue(w.members.group), MinLun: nullable.NewNullableWithValue[int32](1)}))
			connected = isNew
			return err
		},
		Undo: func(ctx context.Context) error {
			if !connected {
				return nil
			}
			err := array.Unless(array.NotFound, array.Done(w.Array.DeleteHostGroupConnection(ctx, w.volume.ID, w.members.group)))
			return errors.Join(err, each(w.hosts, func(host *esxi.Host) error { return host.Rescan(ctx) }))
		},
	}
}

func (w *work) rescanStep() job.Step {
	return job.Step{
		Name: "rescan all hosts",
		Do: func(ctx context.Context) error {
			return each(w.hosts, func(host *esxi.Host) error {
				if err := host.Rescan(ctx); err != nil {
					return err
				}
				if host.Disk(w.device) == nil {
					return fmt.Errorf("it does not see %s: check its paths, `ashlar host show %s` and its send targets", w.device, hostName(host.Name))
				}
				return nil
			})
		},
		// A device that is about to go is detached first, so that the host does not take it for a failure.
		Undo: func(ctx context.Context) error {
			return each(w.hosts, func(host *esxi.Host) error {
				if disk := host.Disk(w.device); disk != nil {
					return host.Detach(ctx, disk)
				}
				return nil
			})
		},
	}
}

func (w *work) formatStep(name string) job.Step {
	return job.Step{
		Name: "format it on " + w.hosts[0].Name,
		Do: func(ctx context.Context) error {
			made, err := w.hosts[0].Format(ctx, w.hosts[0].Disk(w.device), name)
			if err == nil {
				w.store = made.Reference()
			}
			return err
		},
		Undo: func(ctx context.Context) error {
			if w.store.Value == "" {
				return nil
			}
			return w.hosts[0].Destroy(ctx, w.store)
		},
	}
}

func (w *work) mountStep(name string) job.Step {
	return job.Step{
		Name: "mount it on all hosts",
		Do: func(ctx context.Context) error {
			return each(w.hosts, func(host *esxi.Host) error {
				if err := host.Rescan(ctx); err != nil {
					return err
				}
				for _, store := range host.Datastore {
					if store == w.store {
						return nil
					}
				}
				return fmt.Errorf("it has not mounted datastore %s", name)
			})
		},
	}
}

func (w *work) settleStep() job.Step {
	return job.Step{
		Name: "set path policy and outstanding I/Os",
		Do: func(ctx context.Context) error {
			return each(w.hosts, func(host *esxi.Host) error { return host.Settle(ctx, w.device) })
		},
	}
}

// Clone is a copy of a datastore to mount.
type Clone struct {
	// Source is a datastore, and Snapshot one of its volume; without it the copy is of this moment.
	Source, Snapshot string
	Name, Cluster    string
}

// CloneDatastore clones the volume of a datastore, or a snapshot of it, and mounts the copy with a new signature.
func (m *Manager) CloneDatastore(ctx context.Context, clone Clone) error {
	source, err := m.find(ctx, clone.Source)
	if err != nil {
		return err
	}
	from := source.Volume.ID
	if clone.Snapshot != "" {
		snapshot, err := array.Decode[array.Snapshot](m.Array.ShowSnapshot(ctx, clone.Snapshot))
		if err != nil {
			return err
		}
		if snapshot.SourceID != source.Volume.ID {
			return fmt.Errorf("snapshot %s is not one of datastore %s (volume %s)", clone.Snapshot, clone.Source, source.Volume.Name)
		}
		from = snapshot.ID
	}
	w, err := m.begin(ctx, clone.Name, clone.Cluster)
	if err != nil {
		return err
	}
	labels := m.labels(clone.Name)
	request := array.NewVolume{Name: hostName(clone.Name), Source: nullable.NewNullableWithValue(from), Labels: &labels}
	steps := append([]job.Step{m.groupStep(clone.Cluster, w.hosts, &w.members), w.volumeStep("clone the volume as", request)}, w.copySteps(clone.Name)...)
	return m.run(ctx, taskClone, w.parent(), steps)
}

// Resignature mounts an existing volume with the copy of a datastore, such as one that was cloned or replicated on the array.
func (m *Manager) Resignature(ctx context.Context, volume, name, cluster string) error {
	w, err := m.begin(ctx, name, cluster)
	if err != nil {
		return err
	}
	if w.volume, err = array.Decode[array.Volume](m.Array.ShowVolume(ctx, volume)); err != nil {
		return err
	}
	w.device = "naa." + NAA(w.volume.Naa)
	all, err := m.List(ctx, false)
	if err != nil {
		return err
	}
	for _, it := range all {
		if it.Volume.ID == w.volume.ID {
			return fmt.Errorf("volume %s is in use as datastore %s", volume, it.Name)
		}
	}
	return m.run(ctx, taskResignature, w.parent(), append([]job.Step{m.groupStep(cluster, w.hosts, &w.members)}, w.copySteps(name)...))
}

// copySteps connect a volume that has the copy of a datastore and mount it.
func (w *work) copySteps(name string) []job.Step {
	return []job.Step{w.connectStep(), w.rescanStep(), w.resignatureStep(), w.mountStep(name), w.renameStep(name), w.settleStep()}
}

func (w *work) resignatureStep() job.Step {
	return job.Step{
		Name: "give the copy a signature of its own",
		Do: func(ctx context.Context) (err error) {
			w.store, err = w.hosts[0].Resignature(ctx, w.device)
			return err
		},
		Undo: func(ctx context.Context) error { return w.unmountAll(ctx) },
	}
}

// unmountAll takes the new datastore from every host that has it.
func (w *work) unmountAll(ctx context.Context) error {
	if w.store.Value == "" {
		return nil
	}
	all, err := w.List(ctx, true)
	if err != nil {
		return err
	}
	for _, it := range all {
		if it.Ref == w.store {
			return w.unmountFrom(ctx, it)
		}
	}
	return nil
}

func (w *work) unmountFrom(ctx context.Context, it Mapped) error {
	return each(w.hosts, func(host *esxi.Host) error {
		for _, mount := range it.store.Host {
			if mount.Key == host.Self {
				return host.Unmount(ctx, it.UUID)
			}
		}
		return nil
	})
}

func (w *work) renameStep(name string) job.Step {
	return job.Step{
		Name: "name it " + name,
		Do: func(ctx context.Context) error {
			task, err := object.NewDatastore(w.VCenter.Client.Client, w.store).Rename(ctx, name)
			if err != nil {
				return vcenter.Explain(err)
			}
			return vcenter.Explain(task.Wait(ctx))
		},
	}
}
