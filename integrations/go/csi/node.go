package csi

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// NodeBackend is what a node does with devices, mounts and directories. Every method can be repeated, also after it was
// interrupted.
type NodeBackend interface {
	// Identity returns the node's name and initiator.
	Identity(ctx context.Context) (NodeID, error)
	// Stage makes the device appear, and mounts its file system at the staging path unless it is used as a block device.
	Stage(ctx context.Context, volume Staged) error
	// Unstage takes both back.
	Unstage(ctx context.Context, volume, stagingPath string) error
	// Publish gives a staged volume to a workload.
	Publish(ctx context.Context, volume Published) error
	// Unpublish takes it back and removes the target.
	Unpublish(ctx context.Context, volume, target string) error
	// Stats returns the use of a volume at a path.
	Stats(ctx context.Context, volume, path string) (Stats, error)
	// Expand makes the device and its file system as large as the volume, and returns the size in bytes.
	Expand(ctx context.Context, volume, path string, required int64) (int64, error)
	// Trim unmaps what the file system of a volume at a path does not use.
	Trim(ctx context.Context, volume, path string) error
}

// Errors of a back end with codes of their own.
var (
	// ErrNotFound: no such volume is staged or published here.
	ErrNotFound = errors.New("not found")
	// ErrPrecondition: the state of the node or of the volume forbids it; repeating does not help.
	ErrPrecondition = errors.New("precondition failed")
	// ErrUnsupported: it can't be done with this volume; repeating does not help.
	ErrUnsupported = errors.New("not supported")
)

// Access is how a volume is used on a node.
type Access struct {
	Block bool
	// FileSystem is the kind to make and mount; empty: the usual one.
	FileSystem string
	// Options of the mount.
	Options []string
	// ReadOnly: the array refuses writes, or the workload must not write.
	ReadOnly bool
	// OneWriter: at most one workload of this node may have it.
	OneWriter bool
}

// Device is where the array presents a volume.
type Device struct {
	// NAA is the volume's identifier: 32 hex digits.
	NAA string `json:"naa"`
	// Target is the array's iSCSI name, Portals its addresses with ports.
	Target  string   `json:"target"`
	Portals []string `json:"portals"`
	LUN     int      `json:"lun"`
	// Bytes is the size at the time of the connection; it may have grown since.
	Bytes int64 `json:"bytes"`
	// ReadOnly: the array refuses writes. Written: the volume had data when it was connected.
	ReadOnly bool `json:"read_only"`
	Written  bool `json:"written"`
}

// CHAP has what an initiator logs in with. Empty users mean none.
type CHAP struct {
	User, Secret             string
	MutualUser, MutualSecret string
}

// Staged is a volume to be staged.
type Staged struct {
	Volume, StagingPath string
	Device              Device
	Access              Access
	CHAP                CHAP
	// Clone: the volume has data of another, and is never formatted.
	Clone bool
}

// Published is a volume to be published.
type Published struct {
	Volume, StagingPath, Target string
	Access                      Access
}

// Stats is the use of a volume. A block device has a size only.
type Stats struct {
	Block                            bool
	Bytes, UsedBytes, AvailableBytes int64
	Inodes, UsedInodes, FreeInodes   int64
}

// backend turns errors of a back end into codes.
func backend(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, ErrPrecondition):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, ErrUnsupported):
		return status.Error(codes.Unimplemented, err.Error())
	}
	return coded(err)
}

// NodeGetCapabilities returns what a node can do.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_EXPAND_VOLUME,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}},
		})
	}
	return response, nil
}

// NodeGetInfo returns the node's id, from which the controller knows its initiator.
func (d *Driver) NodeGetInfo(ctx context.Context, _ *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	identity, err := d.node.Identity(ctx)
	if err != nil {
		return nil, backend(err)
	}
	id := identity.String()
	if len(id) > maxNodeID || strings.Contains(identity.Name, nodeSeparator) {
		return nil, status.Errorf(codes.FailedPrecondition, "the node's id %q can't be used: names of node and initiator have more than %d bytes, or a %q", id, maxNodeID, nodeSeparator)
	}
	return &csi.NodeGetInfoResponse{NodeId: id, MaxVolumesPerNode: d.config.MaxVolumes, AccessibleTopology: d.topology()}, nil
}

// access reads a capability.
func access(capability *csi.VolumeCapability) Access {
	mount := capability.GetMount()
	mode := capability.GetAccessMode().GetMode()
	return Access{
		Block:      capability.GetBlock() != nil,
		FileSystem: mount.GetFsType(),
		Options:    mount.GetMountFlags(),
		ReadOnly: mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY ||
			mode == csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
		OneWriter: mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
	}
}

// device reads a publish context.
func device(context map[string]string) (Device, error) {
	found := Device{NAA: context[publishNAA], Target: context[publishTarget]}
	var err error
	if found.LUN, err = strconv.Atoi(context[publishLUN]); err != nil || found.LUN < 0 {
		return found, invalid("the publish context has no LUN: was the volume published by this driver?")
	}
	if found.Bytes, err = strconv.ParseInt(context[publishSize], 10, 64); err != nil {
		return found, invalid("the publish context has no size: was the volume published by this driver?")
	}
	if found.Target == "" || context[publishPortals] == "" || !isHex(found.NAA, idDigits) {
		return found, invalid("the publish context has no target, no portals or no identifier: was the volume published by this driver?")
	}
	found.Portals = strings.Split(context[publishPortals], ",")
	found.ReadOnly = context[publishReadOnly] == strconv.FormatBool(true)
	// Whatever is not known to be empty may have data.
	found.Written = context[publishWritten] != strconv.FormatBool(false)
	return found, nil
}

// NodeStageVolume makes a volume's device appear on the node, and mounts its file system.
func (d *Driver) NodeStageVolume(ctx context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetStagingTargetPath() == "" {
		return nil, invalid("a volume id and a staging path are needed")
	}
	if err := capable(request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	device, err := device(request.GetPublishContext())
	if err != nil {
		return nil, err
	}
	chap, mutual, err := credentials(request.GetSecrets())
	if err != nil {
		return nil, err
	}
	staged := Staged{
		Volume: request.GetVolumeId(), StagingPath: request.GetStagingTargetPath(),
		Device: device, Access: access(request.GetVolumeCapability()),
		Clone: request.GetVolumeContext()[contextClone] != "",
	}
	if chap != nil {
		staged.CHAP.User, staged.CHAP.Secret = chap.User, chap.Secret
	} else if request.GetPublishContext()[publishCHAP] == strconv.FormatBool(true) {
		return nil, status.Errorf(codes.FailedPrecondition, "the array asks this node for CHAP and the request has no %s: set csi.storage.k8s.io/node-stage-secret-name in the StorageClass", secretUser)
	}
	if mutual != nil {
		staged.CHAP.MutualUser, staged.CHAP.MutualSecret = mutual.User, mutual.Secret
	}
	leave, err := d.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := d.node.Stage(ctx, staged); err != nil {
		return nil, backend(err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// NodeUnstageVolume unmounts a volume and removes its device from the node.
func (d *Driver) NodeUnstageVolume(ctx context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetStagingTargetPath() == "" {
		return nil, invalid("a volume id and a staging path are needed")
	}
	leave, err := d.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := d.node.Unstage(ctx, request.GetVolumeId(), request.GetStagingTargetPath()); err != nil {
		return nil, backend(err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// NodePublishVolume gives a staged volume to a workload.
func (d *Driver) NodePublishVolume(ctx context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetTargetPath() == "" {
		return nil, invalid("a volume id and a target path are needed")
	}
	if err := capable(request.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if request.GetStagingTargetPath() == "" {
		return nil, status.Error(codes.FailedPrecondition, "no staging path: stage the volume first")
	}
	leave, err := d.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	published := Published{
		Volume: request.GetVolumeId(), StagingPath: request.GetStagingTargetPath(), Target: request.GetTargetPath(),
		Access: access(request.GetVolumeCapability()),
	}
	published.Access.ReadOnly = published.Access.ReadOnly || request.GetReadonly()
	if err := d.node.Publish(ctx, published); err != nil {
		return nil, backend(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume takes a volume back from a workload.
func (d *Driver) NodeUnpublishVolume(ctx context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetTargetPath() == "" {
		return nil, invalid("a volume id and a target path are needed")
	}
	leave, err := d.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := d.node.Unpublish(ctx, request.GetVolumeId(), request.GetTargetPath()); err != nil {
		return nil, backend(err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats returns the use of a volume.
func (d *Driver) NodeGetVolumeStats(ctx context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if request.GetVolumeId() == "" || request.GetVolumePath() == "" {
		return nil, invalid("a volume id and a path are needed")
	}
	stats, err := d.node.Stats(ctx, request.GetVolumeId(), request.GetVolumePath())
	if err != nil {
		return nil, backend(err)
	}
	usage := []*csi.VolumeUsage{{
		Unit: csi.VolumeUsage_BYTES, Total: stats.Bytes, Used: stats.UsedBytes, Available: stats.AvailableBytes,
	}}
	if !stats.Block {
		usage = append(usage, &csi.VolumeUsage{
			Unit: csi.VolumeUsage_INODES, Total: stats.Inodes, Used: stats.UsedInodes, Available: stats.FreeInodes,
		})
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: usage}, nil
}

// NodeExpandVolume makes device and file system as large as the volume, while they are in use.
func (d *Driver) NodeExpandVolume(ctx context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetVolumePath() == "" {
		return nil, invalid("a volume id and a path are needed")
	}
	leave, err := d.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	bytes, err := d.node.Expand(ctx, request.GetVolumeId(), request.GetVolumePath(), request.GetCapacityRange().GetRequiredBytes())
	if err != nil {
		return nil, backend(err)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: bytes}, nil
}
