package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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

// Missing is an object of the cluster whose volume or snapshot is not on the array.
type Missing struct {
	Kind   string `json:"kind"`
	Handle string `json:"handle"`
	// Object is the kind and name of what names it, as kubectl takes them.
	Object string `json:"object"`
	// Claim is the namespace and name of the claim or VolumeSnapshot that stands on it.
	Claim string `json:"claim"`
}

// Comparison is how what is on an array and what a cluster knows differ.
type Comparison struct {
	Orphans []Orphan
	Missing []Missing
}

// Kinds of the cluster's objects.
const (
	kindVolume   = "PersistentVolume"
	kindSnapshot = "VolumeSnapshotContent"
)

// object is what of a PersistentVolume or a VolumeSnapshotContent counts.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name    string     `json:"name"`
		Deleted *time.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		CSI struct {
			Driver string `json:"driver"`
			Handle string `json:"volumeHandle"`
		} `json:"csi"`
		Claim reference `json:"claimRef"`

		Driver string `json:"driver"`
		Source struct {
			Handle string `json:"snapshotHandle"`
		} `json:"source"`
		Snapshot reference `json:"volumeSnapshotRef"`
	} `json:"spec"`
	Status struct {
		Handle string `json:"snapshotHandle"`
	} `json:"status"`
}

type reference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (r reference) String() string {
	if r.Name == "" {
		return ""
	}
	return r.Namespace + "/" + r.Name
}

func (o object) handles() []string {
	var found []string
	for _, handle := range []string{o.Spec.CSI.Handle, o.Status.Handle, o.Spec.Source.Handle} {
		if handle != "" {
			found = append(found, handle)
		}
	}
	return found
}

// readObjects reads a list of PersistentVolumes and VolumeSnapshotContents, as kubectl prints them in JSON.
func readObjects(from io.Reader) ([]object, error) {
	var list struct {
		Items []object `json:"items"`
	}
	if err := json.NewDecoder(from).Decode(&list); err != nil {
		return nil, fmt.Errorf("the list of the cluster's objects can't be read: %w", err)
	}
	for _, item := range list.Items {
		if item.Kind == kindVolume {
			return list.Items, nil
		}
	}
	// More likely a list of something else than a cluster without volumes.
	return nil, fmt.Errorf("the list has no PersistentVolume: give what `kubectl get persistentvolumes,volumesnapshotcontents -o json` prints")
}

// Compare lists what the driver made for its cluster, at least so long ago, and the cluster's objects do not name; and the objects of
// this driver whose volume or snapshot is not on the array.
func (d *Driver) Compare(ctx context.Context, from io.Reader, age time.Duration) (Comparison, error) {
	var found Comparison
	objects, err := readObjects(from)
	if err != nil {
		return found, err
	}
	known := map[string]bool{}
	for _, it := range objects {
		for _, handle := range it.handles() {
			known[handle] = true
		}
	}
	there, err := d.orphans(ctx, &found, known, age)
	if err != nil {
		return found, err
	}
	for _, it := range objects {
		missing, err := d.missing(ctx, it, there)
		if err != nil {
			return found, err
		}
		if missing != nil {
			found.Missing = append(found.Missing, *missing)
		}
	}
	return found, nil
}

// orphans adds what is not known, and returns the handles of everything that is there.
func (d *Driver) orphans(ctx context.Context, to *Comparison, known map[string]bool, age time.Duration) (map[string]bool, error) {
	serial, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	label := array.LabelQuery(d.own(nil))
	volumes, err := d.api.AllVolumes(ctx, label)
	if err != nil {
		return nil, err
	}
	all, err := d.api.AllReplications(ctx)
	if err != nil {
		return nil, err
	}
	replicated := map[string]bool{}
	for _, it := range all {
		replicated[it.ID] = true
	}
	there := map[string]bool{}
	add := func(orphan Orphan, other string) {
		if !known[orphan.Handle] && !known[other] && time.Since(orphan.Created) >= age {
			to.Orphans = append(to.Orphans, orphan)
		}
	}
	for _, it := range volumes {
		its, own := handleOf(serial, it), handle(serial, it.ID)
		there[its], there[own] = true, true
		// While a volume is replicated, the cluster of the other array may be the one that knows it.
		if len(it.Connections) == 0 && !replicated[it.Labels[labelReplication]] {
			add(Orphan{"volume", its, it.Name, it.Labels[labelName], it.Created, it.Mapped, it.ID}, own)
		}
	}
	snapshots, err := d.api.AllSnapshots(ctx, label)
	if err != nil {
		return nil, err
	}
	for _, it := range snapshots {
		handle := handle(serial, it.ID)
		there[handle] = true
		if len(it.Connections) == 0 {
			add(Orphan{"snapshot", handle, it.Name, it.Labels[labelName], it.Created, it.Mapped, it.ID}, handle)
		}
	}
	return there, nil
}

// missing returns an object whose volume or snapshot is not on the array; nil if it is there, or the object is not this driver's. One that
// is being deleted may well have lost it.
func (d *Driver) missing(ctx context.Context, it object, there map[string]bool) (*Missing, error) {
	handles := it.handles()
	if it.Metadata.Deleted != nil || len(handles) == 0 || there[handles[0]] {
		return nil, nil
	}
	var err error
	lost := &Missing{Handle: handles[0]}
	switch {
	case it.Kind == kindVolume && it.Spec.CSI.Driver == d.config.Driver:
		lost.Kind, lost.Object, lost.Claim = "missing volume", "persistentvolume/"+it.Metadata.Name, it.Spec.Claim.String()
		// A replica that was not promoted has no volume yet.
		_, err = d.protect(ctx, ofHandle(handles[0]), "", nil)
	case it.Kind == kindSnapshot && it.Spec.Driver == d.config.Driver:
		lost.Kind, lost.Object, lost.Claim = "missing snapshot", "volumesnapshotcontent/"+it.Metadata.Name, it.Spec.Snapshot.String()
		_, err = d.showSnapshot(ctx, handles[0])
	default:
		return nil, nil
	}
	if status.Code(coded(err)) == codes.NotFound {
		return lost, nil
	}
	return nil, err
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
