// Package forklift is a copy-offload provider for Forklift (Migration Toolkit for Virtualization): it lets an ESXi host clone
// a virtual disk straight into the volume of a persistent volume, so that the array copies and no data crosses the network.
//
// It needs nothing but Go's own library, because it is made to be part of Forklift: see contract.go. Every call can be
// repeated after any failure. What a migration connected is marked by a label of the volume, so that only that is
// disconnected again, also by another process.
package forklift

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Product is Forklift's `storageVendorProduct` for an array.
const Product = "ashlar"

const (
	// labelPrefix and a host's identifier are the key of the label of a volume that a migration connected to that host.
	labelPrefix = "forklift.map/"
	labelValue  = "connected by a migration; removed at its end"
	// Keys of a mapping context.
	contextHosts = "hosts"
	contextGroup = "group"
)

// Kinds of what a volume is connected to, as the API and the names of groups have them.
const (
	kindHost  = "host"
	kindGroup = "host_group"
)

const (
	serialDigits = 16
	idDigits     = 32
)

// Provider is the provider for one array.
type Provider struct {
	api   *client
	array status
}

// New connects to an array.
func New(config Config) (*Provider, error) {
	api, err := newClient(config)
	if err != nil {
		return nil, err
	}
	shown, err := api.check(context.Background())
	if err != nil {
		return nil, err
	}
	return &Provider{api: api, array: shown}, nil
}

// GetStorageArrayInfo returns labels for metrics.
func (p *Provider) GetStorageArrayInfo() StorageArrayInfo {
	return StorageArrayInfo{Vendor: "Ashlar", Product: "Ashlar", Version: p.array.Version}
}

// TargetPorts returns the array's target name, by which ESXi knows its devices.
func (p *Provider) TargetPorts() ([]string, error) { return []string{p.array.TargetIQN}, nil }

// ResolvePVToLUN finds the volume of a persistent volume that the CSI driver made on this array.
func (p *Provider) ResolvePVToLUN(pv PersistentVolume) (LUN, error) {
	serial, id, _ := strings.Cut(pv.VolumeHandle, "-")
	if !isHex(serial, serialDigits) || !isHex(id, idDigits) {
		return LUN{}, fmt.Errorf("persistent volume %s has the handle %q, which is none of the CSI driver csi.ashlar.io: map the datastore to a storage class of that driver", pv.Name, pv.VolumeHandle)
	}
	if serial != p.array.ID {
		return LUN{}, fmt.Errorf("persistent volume %s is on array %s, and the secret is for array %s (%s): the datastore and the storage class must be of one array", pv.Name, serial, p.array.ID, p.array.Name)
	}
	found, err := p.api.volume(context.Background(), id)
	if err != nil {
		return LUN{}, fmt.Errorf("the volume of persistent volume %s: %w", pv.Name, err)
	}
	return LUN{
		Name: found.ID, NAA: found.NAA, SerialNumber: strings.TrimPrefix(found.NAA, "naa."), IQN: p.array.TargetIQN,
		VolumeHandle: pv.VolumeHandle, StorageSerialNumber: p.array.ID, Protocol: "iscsi",
	}, nil
}

// EnsureClonnerIgroup finds the array's hosts that have the adapters of an ESXi host: `iqn.…`, or `fc.WWNN:WWPN`. None is made,
// and none is taken out of its host group: a datastore on this array means that the host is known.
func (p *Provider) EnsureClonnerIgroup(group string, adapters []string) (MappingContext, error) {
	known, err := p.api.hosts(context.Background())
	if err != nil {
		return nil, err
	}
	hosts := slices.DeleteFunc(known, func(it host) bool { return !slices.ContainsFunc(adapters, it.has) })
	if len(hosts) == 0 {
		return nil, fmt.Errorf("no host of array %s has one of the initiators %s: the array copies only what is on a datastore of its own; if this one is, create the ESXi host there with `ashlar host create NAME --iqn IQN`",
			p.array.Name, strings.Join(adapters, ", "))
	}
	return MappingContext{contextHosts: hosts, contextGroup: group}, nil
}

// has reports whether an adapter of ESXi is the host's.
func (h host) has(adapter string) bool {
	adapter = strings.ToLower(adapter)
	if _, port, found := strings.Cut(strings.TrimPrefix(adapter, "fc."), ":"); found && strings.HasPrefix(adapter, "fc.") {
		return slices.ContainsFunc(h.WWPNs, func(wwpn string) bool { return plain(wwpn) == plain(port) })
	}
	return slices.Contains(h.Initiators, adapter)
}

// plain is a WWPN without what its parts are separated by.
func plain(wwpn string) string {
	return strings.TrimPrefix(strings.ToLower(strings.NewReplacer(":", "", "-", "").Replace(wwpn)), "0x")
}

// MapTarget connects a volume to the ESXi host. Connections that it has stay: nodes of the cluster may go on using it.
func (p *Provider) MapTarget(target LUN, mapping MappingContext) (LUN, error) {
	hosts, err := hostsOf(mapping)
	if err != nil {
		return LUN{}, err
	}
	ctx := context.Background()
	found, err := p.api.volume(ctx, target.Name)
	if err != nil {
		return LUN{}, err
	}
	for _, host := range hosts {
		key := labelPrefix + host.ID
		if found.Labels[key] == "" {
			if found.seenBy(host) {
				// Another client has connected it, and it stays.
				continue
			}
			// First the label: a connection without one would stay after a crash.
			if err := p.api.label(ctx, found.ID, key, labelValue); err != nil {
				return LUN{}, err
			}
		}
		if err := p.api.connect(ctx, found.ID, kindHost, host.ID); err != nil {
			return LUN{}, fmt.Errorf("volume %s can't be connected to the ESXi host: %w", found.Name, err)
		}
	}
	return target, nil
}

// seenBy reports whether a host is connected, by itself or as one of its group.
func (v volume) seenBy(host host) bool {
	return slices.ContainsFunc(v.Connections, func(it connection) bool {
		return it.Host == host.ID || it.HostGroup != "" && it.HostGroup == host.HostGroup
	})
}

// UnmapTarget ends what MapTarget did, for every host that the volume is marked for: a migration that broke off and began
// again on another ESXi host leaves nothing.
func (p *Provider) UnmapTarget(target LUN, _ MappingContext) error {
	ctx := context.Background()
	found, err := p.api.volume(ctx, target.Name)
	if isKind(err, kindNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var failures []error
	for key := range found.Labels {
		host, own := strings.CutPrefix(key, labelPrefix)
		if !own {
			continue
		}
		err := p.api.disconnect(ctx, found.ID, kindHost, host)
		if err == nil {
			err = p.api.label(ctx, found.ID, key, "")
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// CurrentMappedGroups returns what a volume is connected to besides by a migration, as names for [Provider.Map].
func (p *Provider) CurrentMappedGroups(target LUN, _ MappingContext) ([]string, error) {
	found, err := p.api.volume(context.Background(), target.Name)
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, it := range found.Connections {
		switch {
		case it.HostGroup != "":
			groups = append(groups, kindGroup+"/"+it.HostGroup)
		case found.Labels[labelPrefix+it.Host] == "":
			groups = append(groups, kindHost+"/"+it.Host)
		}
	}
	return groups, nil
}

// Map connects a volume to a host or host group that [Provider.CurrentMappedGroups] returned; or to the ESXi host, for the
// name that EnsureClonnerIgroup was called with.
func (p *Provider) Map(group string, target LUN, mapping MappingContext) (LUN, error) {
	kind, id, err := parseGroup(group)
	if err != nil {
		if isClonner(group, mapping) {
			return p.MapTarget(target, mapping)
		}
		return LUN{}, err
	}
	return target, p.api.connect(context.Background(), target.Name, kind, id)
}

// UnMap is the contrary of [Provider.Map].
func (p *Provider) UnMap(group string, target LUN, mapping MappingContext) error {
	kind, id, err := parseGroup(group)
	if err != nil {
		if isClonner(group, mapping) {
			return p.UnmapTarget(target, mapping)
		}
		return err
	}
	return p.api.disconnect(context.Background(), target.Name, kind, id)
}

func isClonner(group string, mapping MappingContext) bool {
	named, _ := mapping[contextGroup].(string)
	return named != "" && named == group
}

func parseGroup(group string) (kind, id string, err error) {
	kind, id, _ = strings.Cut(group, "/")
	if kind != kindHost && kind != kindGroup || id == "" {
		return "", "", fmt.Errorf("%q is no initiator group of this provider", group)
	}
	return kind, id, nil
}

func hostsOf(mapping MappingContext) ([]host, error) {
	hosts, _ := mapping[contextHosts].([]host)
	if len(hosts) == 0 {
		return nil, errors.New("the mapping context has no hosts: it must be the one that EnsureClonnerIgroup returned")
	}
	return hosts, nil
}

// RDMCopy makes the volume of a persistent volume a copy of a raw device mapping, without any host: both share the data.
func (p *Provider) RDMCopy(vsphere VSphere, vm, disk string, target PersistentVolume, progress chan<- uint64) error {
	ctx := context.Background()
	backing, err := vsphere.GetVMDiskBacking(ctx, vm, disk)
	if err != nil {
		return fmt.Errorf("the backing of disk %s: %w", disk, err)
	}
	if !backing.IsRDM {
		return fmt.Errorf("disk %s is no raw device mapping", disk)
	}
	naa, err := naaOf(backing.DeviceName)
	if err != nil {
		return err
	}
	source, found, err := p.api.volumeByNAA(ctx, naa)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("array %s has no volume %s, which disk %s is mapped to: use another way of copying for this disk", p.array.Name, naa, disk)
	}
	lun, err := p.ResolvePVToLUN(target)
	if err != nil {
		return err
	}
	if source.ID == lun.Name {
		return fmt.Errorf("disk %s is the volume of persistent volume %s already", disk, target.Name)
	}
	if err := p.api.overwrite(ctx, lun.Name, source.ID); err != nil {
		return fmt.Errorf("volume %s can't be copied to that of persistent volume %s: %w", source.Name, target.Name, err)
	}
	progress <- 100
	return nil
}

// naaOf finds the identifier in the name of an ESXi device: `naa.…`, a path that ends with it, or `vml.…`, whose digits after
// the first ten have it.
func naaOf(device string) (string, error) {
	name := strings.ToLower(device[strings.LastIndex(device, "/")+1:])
	if digits, found := strings.CutPrefix(name, "naa."); found {
		digits, _, _ = strings.Cut(digits, ":")
		if isHex(digits, idDigits) {
			return "naa." + digits, nil
		}
	}
	if digits, found := strings.CutPrefix(name, "vml."); found && len(digits) >= 10+idDigits {
		if digits = digits[10 : 10+idDigits]; isHex(digits, idDigits) {
			return "naa." + digits, nil
		}
	}
	return "", fmt.Errorf("device %q has no NAA identifier of an array's volume", device)
}

func isHex(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}
