package forklift

import "context"

// This file is what Forklift's package `populator` and its vSphere client define. It is here so that the provider builds and
// is tested on its own; within Forklift the types become aliases of theirs, and nothing else changes.

// PersistentVolume is the part of a persistent volume that names its volume on the array.
type PersistentVolume struct {
	Name             string
	VolumeHandle     string
	VolumeAttributes map[string]string
}

// LUN is a volume on the array.
type LUN struct {
	Name, NAA, SerialNumber, IQN, ProviderID     string
	VolumeHandle, LDeviceID, StorageSerialNumber string
	Protocol                                     string
}

// MappingContext is what a provider keeps between the calls for one disk.
type MappingContext map[string]any

// StorageMapper maps volumes to ESXi hosts.
type StorageMapper interface {
	EnsureClonnerIgroup(group string, adapters []string) (MappingContext, error)
	MapTarget(target LUN, context MappingContext) (LUN, error)
	UnmapTarget(target LUN, context MappingContext) error
	Map(group string, target LUN, context MappingContext) (LUN, error)
	UnMap(group string, target LUN, context MappingContext) error
	CurrentMappedGroups(target LUN, context MappingContext) ([]string, error)
}

// StorageResolver finds the volume of a persistent volume.
type StorageResolver interface {
	ResolvePVToLUN(volume PersistentVolume) (LUN, error)
}

// VMDKCapable is what every provider does.
type VMDKCapable interface {
	StorageMapper
	StorageResolver
}

// RDMCapable is a provider that copies raw device mappings without a host.
type RDMCapable interface {
	StorageResolver
	RDMCopy(vsphere VSphere, vm, disk string, target PersistentVolume, progress chan<- uint64) error
}

// ArrayIdentifier names the target ports by which devices of an ESXi host belong to the array.
type ArrayIdentifier interface {
	TargetPorts() ([]string, error)
}

// StorageArrayInfo is for labels of metrics.
type StorageArrayInfo struct{ Vendor, Product, Model, Version string }

// StorageArrayInfoProvider returns it.
type StorageArrayInfoProvider interface {
	GetStorageArrayInfo() StorageArrayInfo
}

// DiskBacking is what a virtual disk lies on.
type DiskBacking struct {
	VVolId     string //nolint:revive // Forklift's name.
	IsRDM      bool
	DeviceName string
}

// VSphere is the part of Forklift's vSphere client that a provider needs.
type VSphere interface {
	GetVMDiskBacking(ctx context.Context, vm, disk string) (*DiskBacking, error)
}

var (
	_ VMDKCapable              = &Provider{}
	_ RDMCapable               = &Provider{}
	_ ArrayIdentifier          = &Provider{}
	_ StorageArrayInfoProvider = &Provider{}
)
