package csi

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"k8s.io/klog/v2"

	"ashlar/integrations/array"
)

// GetPluginInfo returns the driver's name and version.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.config.Driver, VendorVersion: array.Version}, nil
}

// GetPluginCapabilities returns the services that the driver has.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	services := []csi.PluginCapability_Service_Type{
		csi.PluginCapability_Service_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE,
		csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE,
	}
	if d.config.Location != "" {
		services = append(services, csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	}
	capabilities := []*csi.PluginCapability{{Type: &csi.PluginCapability_VolumeExpansion_{
		VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: csi.PluginCapability_VolumeExpansion_ONLINE},
	}}}
	for _, service := range services {
		capabilities = append(capabilities, &csi.PluginCapability{Type: &csi.PluginCapability_Service_{
			Service: &csi.PluginCapability_Service{Type: service},
		}})
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: capabilities}, nil
}

// Probe reports a controller as not ready while its array can't be used. That is no error: sidecars wait for a driver that
// is not ready, and end themselves when it fails. A node is ready without the array.
func (d *Driver) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	ready := true
	if d.api != nil {
		if _, err := d.api.Check(ctx); err != nil {
			klog.ErrorS(err, "not ready")
			ready = false
		}
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(ready)}, nil
}

// topologyKey is the key of [Config.Location].
func (d *Driver) topologyKey() string { return "topology." + d.config.Driver + "/array" }

func (d *Driver) topology() *csi.Topology {
	if d.config.Location == "" {
		return nil
	}
	return &csi.Topology{Segments: map[string]string{d.topologyKey(): d.config.Location}}
}
