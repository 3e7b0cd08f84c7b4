package csi

import (
	"context"
	"errors"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"ashlar/integrations/array"
)

func wrapped(bytes int64) *wrapperspb.Int64Value { return wrapperspb.Int64(bytes) }

func as(err error, refused **array.Error) bool { return errors.As(err, refused) }

// byID is the order of lists: it does not change when objects are renamed.
var byID = "id"

// page reads a token of a list, which is the number of items before, and the number of items that are asked for.
func page(token string, entries int32) (offset int, limit *int, err error) {
	if token != "" {
		if offset, err = strconv.Atoi(token); err != nil || offset < 0 {
			return 0, nil, status.Errorf(codes.Aborted, "starting token %q is none of this driver: begin again without one", token)
		}
	}
	if entries < 0 {
		return 0, nil, invalid("the number of entries is negative")
	}
	if entries > 0 {
		number := int(entries)
		limit = &number
	}
	return offset, limit, nil
}

// next is the token of the next page; empty at the end.
func next(offset, items, total int) string {
	if items == 0 || offset+items >= total {
		return ""
	}
	return strconv.Itoa(offset + items)
}

// ListVolumes returns the volumes of this driver and cluster with the nodes that they are published to.
func (d *Driver) ListVolumes(ctx context.Context, request *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	offset, limit, err := page(request.GetStartingToken(), request.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	serial, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	label := array.LabelQuery(d.own(nil))
	list, err := array.Decode[array.Volumes](d.api.ListVolumes(ctx, &array.ListVolumesParams{Limit: limit, Offset: &offset, Sort: &byID, Label: &label}))
	if err != nil {
		return nil, err
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return nil, err
	}
	response := &csi.ListVolumesResponse{NextToken: next(offset, len(list.Items), list.Total)}
	for _, volume := range list.Items {
		response.Entries = append(response.Entries, &csi.ListVolumesResponse_Entry{
			Volume: d.volume(serial, volume, nil),
			Status: &csi.ListVolumesResponse_VolumeStatus{PublishedNodeIds: published(volume, nodes)},
		})
	}
	return response, nil
}

// nodes returns the node ids of the hosts that the driver made, by the hosts' ids.
func (d *Driver) nodes(ctx context.Context) (map[string]string, error) {
	hosts, err := d.api.AllHosts(ctx, array.LabelQuery(map[string]string{labelDriver: d.config.Driver, labelCluster: d.config.Cluster}))
	nodes := make(map[string]string, len(hosts))
	for _, host := range hosts {
		for _, initiator := range host.Initiators {
			nodes[host.ID] = NodeID{Name: host.Labels[labelNode], Initiator: initiator}.String()
		}
	}
	return nodes, err
}

func published(volume array.Volume, nodes map[string]string) []string {
	var ids []string
	for _, connection := range volume.Connections {
		if node := nodes[array.Value(connection.HostID)]; node != "" {
			ids = append(ids, node)
		}
	}
	return ids
}

// ControllerGetVolume returns one volume as ListVolumes does.
func (d *Driver) ControllerGetVolume(ctx context.Context, request *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	volume, err := d.show(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	serial, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerGetVolumeResponse{
		Volume: d.volume(serial, volume, nil),
		Status: &csi.ControllerGetVolumeResponse_VolumeStatus{PublishedNodeIds: published(volume, nodes)},
	}, nil
}
