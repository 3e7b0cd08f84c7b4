package csi

import (
	"context"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/oapi-codegen/nullable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ashlar/integrations/array"
)

// paramRetain is how long a snapshot can't be deleted by anybody, such as 72h.
const paramRetain = "retain"

// readSnapshot reads the parameters of snapshots: labels, and the end of the retention lock.
func readSnapshot(parameters map[string]string) (map[string]string, *time.Time, error) {
	labels := map[string]string{}
	var until *time.Time
	for key, value := range parameters {
		switch label, purpose := purposes[key]; {
		case purpose:
			labels[label] = value
		case strings.HasPrefix(key, sidecarPrefix):
			// A newer sidecar says more.
		case key == paramRetain:
			period, err := time.ParseDuration(value)
			if err != nil || period <= 0 {
				return nil, nil, invalid("%s is %q: it must be a time such as 72h", key, value)
			}
			end := time.Now().Add(period).UTC().Truncate(time.Second)
			until = &end
		default:
			return nil, nil, invalid("there is no parameter %q for snapshots: there is %s", key, paramRetain)
		}
	}
	return labels, until, nil
}

// CreateSnapshot takes a snapshot of a volume.
func (d *Driver) CreateSnapshot(ctx context.Context, request *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	name := request.GetName()
	if name == "" || request.GetSourceVolumeId() == "" {
		return nil, invalid("a snapshot needs a name and a source volume")
	}
	labels, until, err := readSnapshot(request.GetParameters())
	if err != nil {
		return nil, err
	}
	leave, err := d.busy.enter(ctx, "snapshot "+name)
	if err != nil {
		return nil, err
	}
	defer leave()
	serial, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	source, err := d.resolve(ctx, "volume", request.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	hash := array.Hash(name)
	found, err := d.api.AllSnapshots(ctx, array.LabelQuery(d.own(map[string]string{labelRequest: hash})))
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		if found[0].SourceID != source {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %q exists (%s on the array) of another volume", name, found[0].Name)
		}
		return &csi.CreateSnapshotResponse{Snapshot: ofSource(d.snapshot(serial, found[0]), request.GetSourceVolumeId())}, nil
	}
	labels[labelRequest], labels[labelName] = hash, name
	labels = d.own(labels)
	made := array.NewSnapshots{
		Volume: nullable.NewNullableWithValue(source),
		Suffix: nullable.NewNullableWithValue(d.config.Prefix + "-" + hash),
		Labels: &labels,
	}
	if until != nil {
		made.RetainUntil = nullable.NewNullableWithValue(*until)
	}
	list, err := array.Decode[array.Snapshots](d.api.CreateSnapshots(ctx, made))
	if err != nil {
		return nil, err
	}
	if len(list.Items) != 1 {
		return nil, status.Errorf(codes.Internal, "the array returned %d snapshots for one", len(list.Items))
	}
	return &csi.CreateSnapshotResponse{Snapshot: ofSource(d.snapshot(serial, list.Items[0]), request.GetSourceVolumeId())}, nil
}

// ofSource gives a snapshot the handle of its source that the request has: that of a replica is of another array.
func ofSource(made *csi.Snapshot, handle string) *csi.Snapshot {
	made.SourceVolumeId = handle
	return made
}

// snapshot is the answer for a snapshot of the array.
func (d *Driver) snapshot(serial string, snapshot array.Snapshot) *csi.Snapshot {
	made := &csi.Snapshot{
		SnapshotId:     handle(serial, snapshot.ID),
		SourceVolumeId: handle(serial, snapshot.SourceID),
		SizeBytes:      snapshot.Size,
		CreationTime:   timestamppb.New(snapshot.Created),
		ReadyToUse:     true,
	}
	if group := snapshot.Labels[labelGroup]; group != "" {
		made.GroupSnapshotId = handle(serial, group)
	}
	return made
}

// DeleteSnapshot moves a snapshot to the array's recycle bin. One that this driver did not make is left alone.
func (d *Driver) DeleteSnapshot(ctx context.Context, request *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if request.GetSnapshotId() == "" {
		return nil, invalid("no snapshot id")
	}
	leave, err := d.busy.enter(ctx, request.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	defer leave()
	snapshot, err := d.showSnapshot(ctx, request.GetSnapshotId())
	if gone(err) {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := d.dropSnapshot(ctx, snapshot); err != nil {
		return nil, err
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

func (d *Driver) dropSnapshot(ctx context.Context, snapshot array.Snapshot) error {
	if !d.isOwn(snapshot.Labels) {
		return status.Errorf(codes.FailedPrecondition, "snapshot %s was not made by driver %s of cluster %s, so it is not deleted: delete it on the array",
			snapshot.Name, d.config.Driver, d.config.Cluster)
	}
	return array.Unless(array.NotFound, array.Done(d.api.DeleteSnapshot(ctx, snapshot.ID, nil)))
}

func (d *Driver) showSnapshot(ctx context.Context, handle string) (array.Snapshot, error) {
	id, err := d.resolve(ctx, "snapshot", handle)
	if err != nil {
		return array.Snapshot{}, err
	}
	return array.Decode[array.Snapshot](d.api.ShowSnapshot(ctx, id))
}

// GetSnapshot returns one snapshot.
func (d *Driver) GetSnapshot(ctx context.Context, request *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	if request.GetSnapshotId() == "" {
		return nil, invalid("no snapshot id")
	}
	snapshot, err := d.showSnapshot(ctx, request.GetSnapshotId())
	if err != nil {
		return nil, err
	}
	serial, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	return &csi.GetSnapshotResponse{Snapshot: d.snapshot(serial, snapshot)}, nil
}

// ListSnapshots returns snapshots of this driver and cluster: all, those of a volume, or any one by its id.
func (d *Driver) ListSnapshots(ctx context.Context, request *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	offset, limit, err := page(request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	serial, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	if id := request.GetSnapshotId(); id != "" {
		return d.listOne(ctx, serial, id, request.GetSourceVolumeId())
	}
	label := array.LabelQuery(d.own(nil))
	asked := &array.ListSnapshotsParams{Limit: limit, Offset: &offset, Sort: &byID, Label: &label}
	if of := request.GetSourceVolumeId(); of != "" {
		source, err := d.resolve(ctx, "volume", of)
		if gone(err) {
			return &csi.ListSnapshotsResponse{}, nil
		}
		if err != nil {
			return nil, err
		}
		filter := "source_id=" + source
		asked.Filter = &filter
	}
	list, err := array.Decode[array.Snapshots](d.api.ListSnapshots(ctx, asked))
	if err != nil {
		return nil, err
	}
	response := &csi.ListSnapshotsResponse{NextToken: next(offset, len(list.Items), list.Total)}
	for _, snapshot := range list.Items {
		response.Entries = append(response.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: d.snapshot(serial, snapshot)})
	}
	return response, nil
}

// listOne lists a snapshot by its id: also one that the driver did not make, so that it can be imported.
func (d *Driver) listOne(ctx context.Context, serial, id, of string) (*csi.ListSnapshotsResponse, error) {
	snapshot, err := d.showSnapshot(ctx, id)
	if gone(err) {
		return &csi.ListSnapshotsResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	found := d.snapshot(serial, snapshot)
	if of != "" && found.SourceVolumeId != of {
		return &csi.ListSnapshotsResponse{}, nil
	}
	return &csi.ListSnapshotsResponse{Entries: []*csi.ListSnapshotsResponse_Entry{{Snapshot: found}}}, nil
}
