package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"ashlar/integrations/array"
)

// Orphan is a volume or snapshot of this driver and cluster that the cluster does not know.
type Orphan struct {
	Kind    string    `json:"kind"`
	Handle  string    `json:"handle"`
	Name    string    `json:"name"`
	For     string    `json:"for"`
	Created time.Time `json:"created"`
	Mapped  int64     `json:"mapped"`

	id string
}

// known reads the handles in a list of PersistentVolumes and VolumeSnapshotContents, as kubectl prints them in JSON.
func known(objects io.Reader) (map[string]bool, error) {
	var list struct {
		Items []struct {
			Kind string `json:"kind"`
			Spec struct {
				CSI struct {
					Handle string `json:"volumeHandle"`
				} `json:"csi"`
				Source struct {
					Handle string `json:"snapshotHandle"`
				} `json:"source"`
			} `json:"spec"`
			Status struct {
				Handle string `json:"snapshotHandle"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.NewDecoder(objects).Decode(&list); err != nil {
		return nil, fmt.Errorf("the list of the cluster's objects can't be read: %w", err)
	}
	handles := map[string]bool{}
	volumes := 0
	for _, item := range list.Items {
		if item.Kind == "PersistentVolume" {
			volumes++
		}
		for _, handle := range []string{item.Spec.CSI.Handle, item.Spec.Source.Handle, item.Status.Handle} {
			if handle != "" {
				handles[handle] = true
			}
		}
	}
	if volumes == 0 {
		// More likely a list of something else than a cluster without volumes.
		return nil, fmt.Errorf("the list has no PersistentVolume: give what `kubectl get persistentvolumes,volumesnapshotcontents -o json` prints")
	}
	return handles, nil
}

// Orphans lists what the driver made for its cluster, at least so long ago, and the cluster's objects do not name.
func (d *Driver) Orphans(ctx context.Context, objects io.Reader, age time.Duration) ([]Orphan, error) {
	handles, err := known(objects)
	if err != nil {
		return nil, err
	}
	serial, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	label := array.LabelQuery(d.own(nil))
	volumes, err := d.api.AllVolumes(ctx, label)
	if err != nil {
		return nil, err
	}
	var found []Orphan
	add := func(kind, id, name string, labels map[string]string, created time.Time, mapped int64) {
		if handle := handle(serial, id); !handles[handle] && time.Since(created) >= age {
			found = append(found, Orphan{kind, handle, name, labels[labelName], created, mapped, id})
		}
	}
	for _, volume := range volumes {
		if len(volume.Connections) == 0 {
			add("volume", volume.ID, volume.Name, volume.Labels, volume.Created, volume.Mapped)
		}
	}
	snapshots, err := d.api.AllSnapshots(ctx, label)
	if err != nil {
		return nil, err
	}
	for _, snapshot := range snapshots {
		if len(snapshot.Connections) == 0 {
			add("snapshot", snapshot.ID, snapshot.Name, snapshot.Labels, snapshot.Created, snapshot.Mapped)
		}
	}
	return found, nil
}

// Recycle moves orphans to the array's recycle bin, from which they can be restored. It never eradicates.
func (d *Driver) Recycle(ctx context.Context, orphans []Orphan) error {
	for _, orphan := range orphans {
		var err error
		if orphan.Kind == "volume" {
			err = array.Done(d.api.DeleteVolume(ctx, orphan.id, nil))
		} else {
			err = array.Done(d.api.DeleteSnapshot(ctx, orphan.id, nil))
		}
		if err := array.Unless(array.NotFound, err); err != nil {
			return fmt.Errorf("%s %s: %w", orphan.Kind, orphan.Name, err)
		}
	}
	return nil
}
