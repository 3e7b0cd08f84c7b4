package csi

import (
	"context"
	"fmt"
	"time"

	"github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ashlar/integrations/array"
)

// GetVolumeReplicationInfo returns how old what the other array has is, for the array whose volume hosts may write to.
func (a addons) GetVolumeReplicationInfo(ctx context.Context, request *replication.GetVolumeReplicationInfoRequest) (*replication.GetVolumeReplicationInfoResponse, error) {
	p, err := a.driver.protect(ctx, request.GetReplicationSource(), request.GetReplicationId(), request.GetSecrets())
	if err != nil {
		return nil, err
	}
	if p.of == nil {
		return nil, notReplicated(p)
	}
	if !p.isPrimary() {
		return nil, status.Errorf(codes.FailedPrecondition, "%s %s is not promoted on this array", p.what(), p.handle)
	}
	progress := p.of.Progress
	response := &replication.GetVolumeReplicationInfoResponse{}
	taken, err := progress.LastPointTaken.Get()
	switch {
	case progress.State == array.InSync:
		response.LastSyncTime = timestamppb.New(time.Now())
	case err != nil:
		return nil, status.Errorf(codes.NotFound, "the first point of replication %q is not complete yet", p.of.Name)
	default:
		response.LastSyncTime = timestamppb.New(taken)
	}
	response.Status, response.StatusMessage = health(*p.of)
	return response, nil
}

// health is the state of a replication in the words of CSI-Addons. DEGRADED is what waits or lags; ERROR is what needs a decision.
func health(of array.Replication) (replication.GetVolumeReplicationInfoResponse_Status, string) {
	kind := replication.GetVolumeReplicationInfoResponse_DEGRADED
	message := fmt.Sprintf("replication %q is in the state %s", of.Name, of.Progress.State)
	switch of.Progress.State {
	case array.ReplicationIdle, array.ReplicationSyncing, array.InSync:
		kind = replication.GetVolumeReplicationInfoResponse_HEALTHY
	case array.ReplicationPromoted:
		message += ": nothing is replicated until the volume is resynced on the other array"
	case array.ReplicationSplit:
		kind = replication.GetVolumeReplicationInfoResponse_ERROR
		message += ": the volumes of both arrays take writes"
	case array.WritesStopped:
		kind = replication.GetVolumeReplicationInfoResponse_ERROR
		message += ": writes are refused until both arrays are the same again"
	}
	if why := array.Value(of.Progress.Problem); why != "" {
		message += ": " + why
	}
	lag := array.Value(of.Progress.LagSeconds)
	if kind == replication.GetVolumeReplicationInfoResponse_HEALTHY && lag > of.RpoSeconds {
		kind = replication.GetVolumeReplicationInfoResponse_DEGRADED
		message += fmt.Sprintf(", and the newest point is %d s old, more than the %d s of its recovery point objective", lag, of.RpoSeconds)
	}
	return kind, message
}

// GetReplicationDestinationInfo returns the handles by which the driver of the other array knows the volumes: the same as here. They
// are said once that array has a point that can be promoted.
func (a addons) GetReplicationDestinationInfo(ctx context.Context, request *replication.GetReplicationDestinationInfoRequest) (*replication.GetReplicationDestinationInfoResponse, error) {
	p, err := a.driver.protect(ctx, request.GetReplicationSource(), "", request.GetSecrets())
	if err != nil {
		return nil, err
	}
	if p.of == nil {
		return nil, notReplicated(p)
	}
	if p.of.Progress.LastPoint.IsNull() {
		return nil, status.Errorf(codes.Unavailable, "the first point of replication %q is not complete yet", p.of.Name)
	}
	to := &replication.ReplicationDestination{}
	if !p.isGroup {
		to.Type = &replication.ReplicationDestination_Volume{
			Volume: &replication.ReplicationDestination_VolumeDestination{VolumeId: p.handle},
		}
		return &replication.GetReplicationDestinationInfoResponse{ReplicationDestination: to}, nil
	}
	handles, err := a.members(ctx, p)
	if err != nil {
		return nil, err
	}
	to.Type = &replication.ReplicationDestination_Volumegroup{
		Volumegroup: &replication.ReplicationDestination_VolumeGroupDestination{VolumeGroupId: p.handle, VolumeIds: handles},
	}
	return &replication.GetReplicationDestinationInfoResponse{ReplicationDestination: to}, nil
}

// members returns the handles of the volumes of a group.
func (a addons) members(ctx context.Context, p *protected) (map[string]string, error) {
	serial, err := a.driver.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	remote, err := array.Decode[array.RemoteArray](p.api.ShowRemoteArray(ctx, p.of.RemoteArray))
	if err != nil {
		return nil, err
	}
	handles := map[string]string{}
	for _, it := range p.of.Volumes {
		of := handle(remote.Serial, it.ID)
		if p.of.Role == array.ReplicationSource {
			volume, err := array.Decode[array.Volume](p.api.ShowVolume(ctx, it.ID))
			if err != nil {
				return nil, err
			}
			of = handleOf(serial, volume)
		}
		handles[of] = of
	}
	return handles, nil
}
