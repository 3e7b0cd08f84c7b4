package csi

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"ashlar/integrations/array"
)

// addons are the services of CSI-Addons, at the socket of those of CSI. Both specifications have a call Probe, so this is a type of
// its own.
type addons struct {
	identity.UnimplementedIdentityServer
	replication.UnimplementedControllerServer
	reclaimspace.UnimplementedReclaimSpaceControllerServer
	reclaimspace.UnimplementedReclaimSpaceNodeServer

	*services
}

// services has the driver under a name, so that none of its calls is taken for one of CSI-Addons.
type services struct{ driver *Driver }

// registerAddons adds the services that the driver has.
func (d *Driver) registerAddons(server grpc.ServiceRegistrar) {
	served := addons{services: &services{d}}
	identity.RegisterIdentityServer(server, served)
	if d.api != nil {
		replication.RegisterControllerServer(server, served)
		reclaimspace.RegisterReclaimSpaceControllerServer(server, served)
		d.registerGroups(server)
	}
	if d.node != nil {
		reclaimspace.RegisterReclaimSpaceNodeServer(server, served)
	}
}

// GetIdentity returns the driver's name and version.
func (a addons) GetIdentity(context.Context, *identity.GetIdentityRequest) (*identity.GetIdentityResponse, error) {
	return &identity.GetIdentityResponse{Name: a.driver.config.Driver, VendorVersion: array.Version}, nil
}

// GetCapabilities returns what the controller or the node can do. Reclaiming space offline is not among it: zeros take no space, and what
// hosts unmap is free at once, so that nothing is left to reclaim for a volume that no node has.
func (a addons) GetCapabilities(context.Context, *identity.GetCapabilitiesRequest) (*identity.GetCapabilitiesResponse, error) {
	response := &identity.GetCapabilitiesResponse{}
	service := func(kind identity.Capability_Service_Type) {
		response.Capabilities = append(response.Capabilities, &identity.Capability{
			Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: kind}},
		})
	}
	if a.driver.api != nil {
		service(identity.Capability_Service_CONTROLLER_SERVICE)
		for _, kind := range []identity.Capability_VolumeReplication_Type{
			identity.Capability_VolumeReplication_VOLUME_REPLICATION,
			identity.Capability_VolumeReplication_GET_REPLICATION_DESTINATION_INFO,
		} {
			response.Capabilities = append(response.Capabilities, &identity.Capability{
				Type: &identity.Capability_VolumeReplication_{VolumeReplication: &identity.Capability_VolumeReplication{Type: kind}},
			})
		}
		for _, kind := range []identity.Capability_VolumeGroup_Type{
			identity.Capability_VolumeGroup_VOLUME_GROUP,
			identity.Capability_VolumeGroup_LIMIT_VOLUME_TO_ONE_VOLUME_GROUP,
			identity.Capability_VolumeGroup_MODIFY_VOLUME_GROUP,
			identity.Capability_VolumeGroup_GET_VOLUME_GROUP,
			identity.Capability_VolumeGroup_LIST_VOLUME_GROUPS,
		} {
			response.Capabilities = append(response.Capabilities, &identity.Capability{
				Type: &identity.Capability_VolumeGroup_{VolumeGroup: &identity.Capability_VolumeGroup{Type: kind}},
			})
		}
	}
	if a.driver.node != nil {
		service(identity.Capability_Service_NODE_SERVICE)
		response.Capabilities = append(response.Capabilities, &identity.Capability{
			Type: &identity.Capability_ReclaimSpace_{ReclaimSpace: &identity.Capability_ReclaimSpace{Type: identity.Capability_ReclaimSpace_ONLINE}},
		})
	}
	return response, nil
}

// Probe reports whether the driver can be used, as that of CSI does.
func (a addons) Probe(ctx context.Context, _ *identity.ProbeRequest) (*identity.ProbeResponse, error) {
	found, err := a.driver.Probe(ctx, &csi.ProbeRequest{})
	return &identity.ProbeResponse{Ready: wrapperspb.Bool(found.GetReady().GetValue())}, err
}

// ControllerReclaimSpace returns the mapped bytes of a volume. The array has nothing to reclaim by itself, see GetCapabilities.
func (a addons) ControllerReclaimSpace(ctx context.Context, request *reclaimspace.ControllerReclaimSpaceRequest) (*reclaimspace.ControllerReclaimSpaceResponse, error) {
	volume, err := a.driver.show(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	used := &reclaimspace.StorageConsumption{UsageBytes: volume.Mapped}
	return &reclaimspace.ControllerReclaimSpaceResponse{PreUsage: used, PostUsage: used}, nil
}

// NodeReclaimSpace unmaps what a mounted file system does not use. A block device is left to the workload that uses it.
func (a addons) NodeReclaimSpace(ctx context.Context, request *reclaimspace.NodeReclaimSpaceRequest) (*reclaimspace.NodeReclaimSpaceResponse, error) {
	path := request.GetVolumePath()
	if path == "" {
		// The sidecar gives the staging path alone.
		path = request.GetStagingTargetPath()
	}
	if request.GetVolumeId() == "" || path == "" {
		return nil, invalid("a volume id and a path are needed")
	}
	leave, err := a.driver.busy.enter(ctx, request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := a.driver.node.Trim(ctx, request.GetVolumeId(), path); err != nil {
		return nil, backend(err)
	}
	return &reclaimspace.NodeReclaimSpaceResponse{}, nil
}
