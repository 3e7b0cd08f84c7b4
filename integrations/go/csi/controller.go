package csi

import (
	"context"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/oapi-codegen/nullable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ashlar/integrations/array"
	"ashlar/integrations/size"
)

// Labels of objects that a driver made. They, and not names, say whose an object is.
const (
	labelDriver  = "csi.driver"
	labelCluster = "csi.cluster"
	// labelRequest has the hash of the name in the request: a repeated request finds what an earlier one made.
	labelRequest = "csi.request"
	// labelName has that name itself, for people.
	labelName = "csi.name"
	// labelSource has the handle that a volume was cloned from.
	labelSource = "csi.source"
	// labelSize has the bytes that a clone was asked to have, so that one that was not grown yet is recognized.
	labelSize = "csi.size"
	// labelGroup has the hash of the name of a group snapshot.
	labelGroup = "csi.group"
)

const (
	minVolume = 1 << 20
	maxVolume = 16 << 50
	// sizeUnit is what sizes are rounded up to, in bytes.
	sizeUnit = 1 << 20
	// maxLabel is the array's limit of a label's value in bytes.
	maxLabel = 255
)

// Keys of a volume's context, for nodes.
const (
	// contextClone is set if a volume has the data of another: it is never formatted.
	contextClone = "clone"
)

// own returns the labels of everything that this driver made, with further ones.
func (d *Driver) own(more map[string]string) map[string]string {
	labels := map[string]string{labelDriver: d.config.Driver, labelCluster: d.config.Cluster}
	for key, value := range more {
		if len(value) > maxLabel {
			value = value[:maxLabel]
		}
		labels[key] = value
	}
	return labels
}

func (d *Driver) isOwn(labels map[string]string) bool {
	return labels[labelDriver] == d.config.Driver && labels[labelCluster] == d.config.Cluster
}

// ControllerGetCapabilities returns what the controller can do.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_READONLY,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}},
		})
	}
	return response, nil
}

// origin is what a volume is cloned from.
type origin struct {
	handle, id string
	bytes      int64
}

// wanted is a request for a volume, read and checked.
type wanted struct {
	name     string
	required int64 // bytes; 0: any
	limit    int64 // bytes; 0: none
	source   *origin
	fixed    fixed
	settings settings
}

// bytes is the size of the volume: what is required, at least what its source has.
func (w wanted) bytes() int64 {
	bytes := size.RoundUp(max(w.required, minVolume), sizeUnit)
	if w.source != nil {
		bytes = max(bytes, w.source.bytes)
		if w.required == 0 {
			bytes = w.source.bytes
		}
	} else if w.required == 0 && w.limit == 0 {
		bytes = defaultVolume
	}
	return bytes
}

// defaultVolume is the size if none is asked for, in bytes; it takes no space until it is written.
const defaultVolume = 1 << 30

// CreateVolume creates a volume, or a clone of a snapshot or of another volume.
func (d *Driver) CreateVolume(ctx context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	wanted, err := d.readVolume(ctx, request)
	if err != nil {
		return nil, err
	}
	leave, err := d.busy.enter(ctx, request.GetName())
	if err != nil {
		return nil, err
	}
	defer leave()
	serial, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	volume, err := d.ensureVolume(ctx, wanted)
	if err != nil {
		return nil, err
	}
	return &csi.CreateVolumeResponse{Volume: d.volume(serial, volume, request.GetVolumeContentSource())}, nil
}

func (d *Driver) readVolume(ctx context.Context, request *csi.CreateVolumeRequest) (wanted, error) {
	w := wanted{name: request.GetName()}
	if w.name == "" {
		return w, invalid("a volume needs a name")
	}
	if err := capable(request.GetVolumeCapabilities()...); err != nil {
		return w, err
	}
	var err error
	if w.fixed, w.settings, err = parse(request.GetParameters(), request.GetMutableParameters()); err != nil {
		return w, err
	}
	if err := d.reachable(request.GetAccessibilityRequirements()); err != nil {
		return w, err
	}
	w.required, w.limit = request.GetCapacityRange().GetRequiredBytes(), request.GetCapacityRange().GetLimitBytes()
	if w.required < 0 || w.limit < 0 {
		return w, invalid("a size is negative")
	}
	if w.source, err = d.readSource(ctx, request.GetVolumeContentSource()); err != nil {
		return w, err
	}
	if bytes := w.bytes(); bytes > maxVolume || w.limit > 0 && bytes > w.limit {
		return w, status.Errorf(codes.OutOfRange, "the volume would have %d bytes: sizes are multiples of 1 MiB from 1 MiB to 16 PiB, and not less than the source's", bytes)
	}
	return w, nil
}

// readSource finds the snapshot or volume that is to be cloned.
func (d *Driver) readSource(ctx context.Context, source *csi.VolumeContentSource) (*origin, error) {
	switch {
	case source == nil:
		return nil, nil
	case source.GetSnapshot() != nil:
		handle := source.GetSnapshot().GetSnapshotId()
		id, err := d.resolve(ctx, "snapshot", handle)
		if err != nil {
			return nil, err
		}
		snapshot, err := array.Decode[array.Snapshot](d.api.ShowSnapshot(ctx, id))
		return &origin{handle, id, snapshot.Size}, err
	case source.GetVolume() != nil:
		handle := source.GetVolume().GetVolumeId()
		id, err := d.resolve(ctx, "volume", handle)
		if err != nil {
			return nil, err
		}
		volume, err := array.Decode[array.Volume](d.api.ShowVolume(ctx, id))
		return &origin{handle, id, volume.Size}, err
	}
	return nil, invalid("the source is neither a snapshot nor a volume")
}

// reachable refuses volumes for nodes that do not reach the array.
func (d *Driver) reachable(requirement *csi.TopologyRequirement) error {
	if d.config.Location == "" || len(requirement.GetRequisite()) == 0 {
		return nil
	}
	for _, topology := range requirement.GetRequisite() {
		if topology.GetSegments()[d.topologyKey()] == d.config.Location {
			return nil
		}
	}
	return status.Errorf(codes.ResourceExhausted, "no node of the request reaches the array: nodes with the driver have the topology segment %s=%s",
		d.topologyKey(), d.config.Location)
}

// ensureVolume finds what an earlier call made, or creates it, and completes it.
func (d *Driver) ensureVolume(ctx context.Context, wanted wanted) (array.Volume, error) {
	hash := array.Hash(wanted.name)
	found, err := d.api.AllVolumes(ctx, array.LabelQuery(d.own(map[string]string{labelRequest: hash})))
	if err != nil {
		return array.Volume{}, err
	}
	var volume array.Volume
	if len(found) > 0 {
		volume = found[0]
		if err := same(volume, wanted); err != nil {
			return volume, err
		}
	} else if volume, err = d.makeVolume(ctx, hash, wanted); err != nil {
		return volume, err
	}
	// A clone begins with the size of its source.
	if bytes := wanted.bytes(); wanted.source != nil && volume.Size < bytes {
		change := array.VolumeChange{Size: nullable.NewNullableWithValue(bytes)}
		if volume, err = array.Decode[array.Volume](d.api.ChangeVolume(ctx, volume.ID, change)); err != nil {
			return volume, err
		}
	}
	if wanted.settings.given() {
		change := array.VolumeChange{Limits: wanted.settings.limits, Policy: wanted.settings.policy}
		return array.Decode[array.Volume](d.api.ChangeVolume(ctx, volume.ID, change))
	}
	return volume, nil
}

func (d *Driver) makeVolume(ctx context.Context, hash string, wanted wanted) (array.Volume, error) {
	labels := map[string]string{labelRequest: hash, labelName: wanted.name}
	for key, value := range wanted.fixed.labels {
		labels[key] = value
	}
	made := array.NewVolume{Name: d.config.Prefix + "-" + hash}
	if wanted.fixed.group != "" {
		made.Group = nullable.NewNullableWithValue(wanted.fixed.group)
	}
	if wanted.source != nil {
		labels[labelSource] = wanted.source.handle
		labels[labelSize] = strconv.FormatInt(wanted.bytes(), 10)
		made.Source = nullable.NewNullableWithValue(wanted.source.id)
	} else {
		made.Size = nullable.NewNullableWithValue(wanted.bytes())
		if wanted.fixed.blockSize != 0 {
			made.BlockSize = nullable.NewNullableWithValue(wanted.fixed.blockSize)
		}
	}
	labels = d.own(labels)
	made.Labels = &labels
	return array.Decode[array.Volume](d.api.CreateVolume(ctx, made))
}

// same refuses a volume that was made for another request of this name.
func same(volume array.Volume, wanted wanted) error {
	differs := func(what string) error {
		return status.Errorf(codes.AlreadyExists, "volume %q exists (%s on the array) with another %s", wanted.name, volume.Name, what)
	}
	var source string
	if wanted.source != nil {
		source = wanted.source.handle
	}
	if volume.Labels[labelSource] != source {
		return differs("source")
	}
	if wanted.source != nil && volume.Labels[labelSize] == strconv.FormatInt(wanted.bytes(), 10) {
		return nil
	}
	if volume.Size < wanted.required || wanted.limit > 0 && volume.Size > wanted.limit {
		return differs("size")
	}
	return nil
}

// volume is the answer for a volume of the array.
func (d *Driver) volume(serial string, volume array.Volume, source *csi.VolumeContentSource) *csi.Volume {
	made := &csi.Volume{
		VolumeId:      handleOf(serial, volume),
		CapacityBytes: volume.Size,
		ContentSource: source,
	}
	if volume.Labels[labelSource] != "" {
		made.VolumeContext = map[string]string{contextClone: "true"}
	}
	if topology := d.topology(); topology != nil {
		made.AccessibleTopology = []*csi.Topology{topology}
	}
	return made
}

// DeleteVolume moves a volume to the array's recycle bin. One that this driver did not make is left alone.
func (d *Driver) DeleteVolume(ctx context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, invalid("no volume id")
	}
	leave, err := d.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	volume, err := d.show(ctx, request.GetVolumeId())
	if gone(err) {
		return &csi.DeleteVolumeResponse{}, nil
	}
	if err != nil {
		return nil, err
	}
	if !d.isOwn(volume.Labels) {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s was not made by driver %s of cluster %s, so it is not deleted: delete it on the array, or give it the labels %s and %s",
			volume.Name, d.config.Driver, d.config.Cluster, labelDriver, labelCluster)
	}
	if len(volume.Connections) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is in use: it is connected to %s", volume.Name, users(volume.Connections))
	}
	if err := array.Unless(array.NotFound, array.Done(d.api.DeleteVolume(ctx, volume.ID, nil))); err != nil {
		return nil, err
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// show returns the volume of a handle.
func (d *Driver) show(ctx context.Context, handle string) (array.Volume, error) {
	if handle == "" {
		return array.Volume{}, invalid("no volume id")
	}
	id, err := d.resolve(ctx, "volume", handle)
	if err != nil {
		return array.Volume{}, err
	}
	return array.Decode[array.Volume](d.api.ShowVolume(ctx, id))
}

func gone(err error) bool {
	return err != nil && status.Code(coded(err)) == codes.NotFound
}

// ValidateVolumeCapabilities confirms what a volume can be used for.
func (d *Driver) ValidateVolumeCapabilities(ctx context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.GetVolumeId() == "" || len(request.GetVolumeCapabilities()) == 0 {
		return nil, invalid("a volume id and capabilities are needed")
	}
	if _, err := d.show(ctx, request.GetVolumeId()); err != nil {
		return nil, err
	}
	for _, capability := range request.GetVolumeCapabilities() {
		if why := unsupported(capability); why != "" {
			return &csi.ValidateVolumeCapabilitiesResponse{Message: why}, nil
		}
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeCapabilities: request.GetVolumeCapabilities(),
		VolumeContext:      request.GetVolumeContext(),
		Parameters:         request.GetParameters(),
	}}, nil
}

// GetCapacity returns the free space of the array, and the sizes that volumes can have.
func (d *Driver) GetCapacity(ctx context.Context, request *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	for _, capability := range request.GetVolumeCapabilities() {
		if unsupported(capability) != "" {
			return &csi.GetCapacityResponse{}, nil
		}
	}
	if at := request.GetAccessibleTopology(); at != nil && d.config.Location != "" && at.GetSegments()[d.topologyKey()] != d.config.Location {
		return &csi.GetCapacityResponse{}, nil
	}
	found, err := d.api.Check(ctx)
	if err != nil {
		return nil, err
	}
	return &csi.GetCapacityResponse{
		AvailableCapacity: found.Capacity.Free,
		MaximumVolumeSize: wrapped(maxVolume),
		MinimumVolumeSize: wrapped(minVolume),
	}, nil
}

// ControllerExpandVolume grows a volume. Nodes see the new size after NodeExpandVolume.
func (d *Driver) ControllerExpandVolume(ctx context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, invalid("no volume id")
	}
	if request.GetCapacityRange() == nil {
		return nil, invalid("no size")
	}
	leave, err := d.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	volume, err := d.show(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	required, most := request.GetCapacityRange().GetRequiredBytes(), request.GetCapacityRange().GetLimitBytes()
	bytes := size.RoundUp(max(required, minVolume), sizeUnit)
	if bytes > maxVolume || most > 0 && max(bytes, volume.Size) > most {
		return nil, status.Errorf(codes.OutOfRange, "volume %s has %d bytes and would get %d: sizes are multiples of 1 MiB up to 16 PiB, and volumes are not shrunk",
			volume.Name, volume.Size, bytes)
	}
	if volume.Size < bytes {
		change := array.VolumeChange{Size: nullable.NewNullableWithValue(bytes)}
		if volume, err = array.Decode[array.Volume](d.api.ChangeVolume(ctx, volume.ID, change)); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: volume.Size, NodeExpansionRequired: true}, nil
}

// ControllerModifyVolume changes QoS limits and data reduction settings.
func (d *Driver) ControllerModifyVolume(ctx context.Context, request *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, invalid("no volume id")
	}
	_, settings, err := parse(nil, request.GetMutableParameters())
	if err != nil {
		return nil, err
	}
	volume, err := d.show(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if settings.given() {
		change := array.VolumeChange{Limits: settings.limits, Policy: settings.policy}
		if err := array.Done(d.api.ChangeVolume(ctx, volume.ID, change)); err != nil {
			return nil, err
		}
	}
	return &csi.ControllerModifyVolumeResponse{}, nil
}
