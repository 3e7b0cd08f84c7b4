package csi

import (
	"context"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/oapi-codegen/nullable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ashlar/integrations/array"
)

// GroupControllerGetCapabilities returns what can be done with group snapshots.
func (d *Driver) GroupControllerGetCapabilities(context.Context, *csi.GroupControllerGetCapabilitiesRequest) (*csi.GroupControllerGetCapabilitiesResponse, error) {
	return &csi.GroupControllerGetCapabilitiesResponse{Capabilities: []*csi.GroupControllerServiceCapability{{
		Type: &csi.GroupControllerServiceCapability_Rpc{Rpc: &csi.GroupControllerServiceCapability_RPC{
			Type: csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT,
		}},
	}}}, nil
}

// CreateVolumeGroupSnapshot takes snapshots of several volumes at one moment: all of them or none.
func (d *Driver) CreateVolumeGroupSnapshot(ctx context.Context, request *csi.CreateVolumeGroupSnapshotRequest) (*csi.CreateVolumeGroupSnapshotResponse, error) {
	name := request.GetName()
	if name == "" || len(request.GetSourceVolumeIds()) == 0 {
		return nil, invalid("a group snapshot needs a name and source volumes")
	}
	labels, until, err := readSnapshot(request.GetParameters())
	if err != nil {
		return nil, err
	}
	leave, err := d.busy.enter(ctx, "group snapshot "+name)
	if err != nil {
		return nil, err
	}
	defer leave()
	serial, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	var sources []string
	handles := map[string]string{}
	for _, given := range request.GetSourceVolumeIds() {
		id, err := d.resolve(ctx, "volume", given)
		if err != nil {
			return nil, err
		}
		sources = append(sources, id)
		handles[handle(serial, id)] = given
	}
	answer := func(members []array.Snapshot) (*csi.CreateVolumeGroupSnapshotResponse, error) {
		made := d.groupSnapshot(serial, array.Hash(name), members)
		for _, snapshot := range made.Snapshots {
			ofSource(snapshot, handles[snapshot.SourceVolumeId])
		}
		return &csi.CreateVolumeGroupSnapshotResponse{GroupSnapshot: made}, nil
	}
	hash := array.Hash(name)
	found, err := d.groupMembers(ctx, hash)
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		if !sameSources(found, sources) {
			return nil, status.Errorf(codes.AlreadyExists, "group snapshot %q exists of other volumes", name)
		}
		return answer(found)
	}
	labels[labelGroup], labels[labelName] = hash, name
	labels = d.own(labels)
	of := make([]array.SnapshotSource, 0, len(sources))
	for _, source := range sources {
		of = append(of, array.SnapshotSource{Volume: source})
	}
	made := array.NewSnapshots{
		Sources: nullable.NewNullableWithValue(of),
		Suffix:  nullable.NewNullableWithValue(d.config.Prefix + "-" + hash),
		Labels:  &labels,
	}
	if until != nil {
		made.RetainUntil = nullable.NewNullableWithValue(*until)
	}
	list, err := array.Decode[array.Snapshots](d.api.CreateSnapshots(ctx, made))
	if err != nil {
		return nil, err
	}
	return answer(list.Items)
}

func (d *Driver) groupMembers(ctx context.Context, hash string) ([]array.Snapshot, error) {
	return d.api.AllSnapshots(ctx, array.LabelQuery(d.own(map[string]string{labelGroup: hash})))
}

func sameSources(found []array.Snapshot, sources []string) bool {
	var have []string
	for _, snapshot := range found {
		have = append(have, snapshot.SourceID)
	}
	slices.Sort(have)
	slices.Sort(sources)
	return slices.Equal(have, sources)
}

func (d *Driver) groupSnapshot(serial, hash string, members []array.Snapshot) *csi.VolumeGroupSnapshot {
	made := &csi.VolumeGroupSnapshot{GroupSnapshotId: handle(serial, hash), ReadyToUse: true}
	for _, member := range members {
		made.CreationTime = timestamppb.New(member.Created)
		made.Snapshots = append(made.Snapshots, d.snapshot(serial, member))
	}
	return made
}

// resolveGroup returns the members of a group snapshot; none if it is unknown.
func (d *Driver) resolveGroup(ctx context.Context, id string) (serial, hash string, members []array.Snapshot, err error) {
	if id == "" {
		return "", "", nil, invalid("no group snapshot id")
	}
	if serial, err = d.arraySerial(ctx); err != nil {
		return "", "", nil, err
	}
	of, hash, found := strings.Cut(id, "-")
	if !found || of != serial {
		return serial, "", nil, nil
	}
	members, err = d.groupMembers(ctx, hash)
	return serial, hash, members, err
}

// DeleteVolumeGroupSnapshot moves all snapshots of a group snapshot to the array's recycle bin.
func (d *Driver) DeleteVolumeGroupSnapshot(ctx context.Context, request *csi.DeleteVolumeGroupSnapshotRequest) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	serial, _, members, err := d.resolveGroup(ctx, request.GetGroupSnapshotId())
	if err != nil {
		return nil, err
	}
	for _, member := range members {
		if named := request.GetSnapshotIds(); len(named) > 0 && !slices.Contains(named, handle(serial, member.ID)) {
			return nil, invalid("snapshot %s belongs to the group snapshot, and the request does not name it", handle(serial, member.ID))
		}
	}
	for _, member := range members {
		if err := d.dropSnapshot(ctx, member); err != nil {
			return nil, err
		}
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}

// GetVolumeGroupSnapshot returns a group snapshot.
func (d *Driver) GetVolumeGroupSnapshot(ctx context.Context, request *csi.GetVolumeGroupSnapshotRequest) (*csi.GetVolumeGroupSnapshotResponse, error) {
	serial, hash, members, err := d.resolveGroup(ctx, request.GetGroupSnapshotId())
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		return nil, status.Errorf(codes.NotFound, "there is no group snapshot %s", request.GetGroupSnapshotId())
	}
	return &csi.GetVolumeGroupSnapshotResponse{GroupSnapshot: d.groupSnapshot(serial, hash, members)}, nil
}
