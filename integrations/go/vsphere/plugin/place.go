package plugin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/datastore"
	"ashlar/integrations/vsphere/vcenter"
)

// place is the volume that a datastore is on.
type place struct {
	array          *Array
	volume         array.Volume
	name           string
	capacity, free int64
	hosts          []types.ManagedObjectReference
	machines       []types.ManagedObjectReference
}

// places remembers on which volume a device is: every request about a datastore needs it, and an array may have thousands.
type places struct {
	mu    sync.Mutex
	known map[string]remembered
}

type remembered struct {
	array *Array
	id    string
	when  time.Time
}

// placeLifetime bounds what is remembered; a volume that is not there any more is looked for at once.
const placeLifetime = 5 * time.Minute

func newPlaces() *places { return &places{known: map[string]remembered{}} }

// locate finds the volume of the datastore that a request is about. It reads the datastore as the user.
func (s *Server) locate(in *request) (*place, error) {
	if in.on.ref.Type != "Datastore" {
		return nil, invalid("this is for datastores only")
	}
	var store mo.Datastore
	err := property.DefaultCollector(in.user.client.Client.Client).RetrieveOne(in.Context(), in.on.ref, []string{"name", "info", "summary", "host", "vm"}, &store)
	if err != nil {
		return nil, err
	}
	made := &place{name: store.Name, capacity: store.Summary.Capacity, free: store.Summary.FreeSpace, machines: store.Vm}
	for _, mount := range store.Host {
		made.hosts = append(made.hosts, mount.Key)
	}
	info, is := store.Info.(*types.VmfsDatastoreInfo)
	if !is || info.Vmfs == nil || len(info.Vmfs.Extent) == 0 {
		return nil, unknown(store.Name, "it is not a VMFS datastore", in.center.names())
	}
	device := datastore.NAA(info.Vmfs.Extent[0].DiskName)
	made.array, made.volume, err = in.center.volume(in.Context(), s.sessions.now(), device)
	var missing *vcenter.MissingError
	if errors.As(err, &missing) {
		return nil, unknown(store.Name, "its device naa."+device+" is no volume of theirs", in.center.names())
	}
	return made, err
}

func unknown(name, why string, arrays []string) error {
	return &refusal{http.StatusNotFound, "unknown_datastore", "Not on an array of this plug-in", fmt.Sprintf(
		"datastore %s is on none of the arrays that the plug-in has (%s): %s. `ashlar-vsphere arrays add` adds an array on the plug-in's server",
		name, strings.Join(arrays, ", "), why)}
}

// volume finds the volume with a device's name. An array that can't be asked may have it, so that it is an error.
func (c *center) volume(ctx context.Context, now time.Time, device string) (*Array, array.Volume, error) {
	c.places.mu.Lock()
	known, has := c.places.known[device]
	c.places.mu.Unlock()
	if has && now.Sub(known.when) < placeLifetime {
		found, err := array.Decode[array.Volume](known.array.API.ShowVolume(ctx, known.id))
		if !array.IsKind(err, array.NotFound) {
			return known.array, found, err
		}
	}
	var failure error
	for at := range c.arrays {
		it := &c.arrays[at]
		all, err := it.API.AllVolumes(ctx, "")
		if err != nil {
			failure = err
			continue
		}
		for _, volume := range all {
			if datastore.NAA(volume.Naa) == device {
				c.places.mu.Lock()
				c.places.known[device] = remembered{it, volume.ID, now}
				c.places.mu.Unlock()
				return it, volume, nil
			}
		}
	}
	if failure == nil {
		failure = &vcenter.MissingError{Kind: "volume", Name: device}
	}
	return nil, array.Volume{}, failure
}

// namesOf are the names of objects that the user may see, in order.
func (s *Server) namesOf(in *request, refs []types.ManagedObjectReference) ([]string, error) {
	names := []string{}
	if refs == nil {
		return names, nil
	}
	var found []mo.ManagedEntity
	err := property.DefaultCollector(in.user.client.Client.Client).Retrieve(in.Context(), refs, []string{"name"}, &found)
	for _, it := range found {
		names = append(names, it.Name)
	}
	slices.Sort(names)
	return names, err
}

// clusterOf returns the cluster of the first host that is in one; empty if none is.
func (s *Server) clusterOf(in *request, hosts []types.ManagedObjectReference) (string, error) {
	if hosts == nil {
		return "", nil
	}
	var found []mo.HostSystem
	err := property.DefaultCollector(in.user.client.Client.Client).Retrieve(in.Context(), hosts, []string{"parent"}, &found)
	if err != nil {
		return "", err
	}
	for _, host := range found {
		if host.Parent != nil && host.Parent.Type == "ClusterComputeResource" {
			return s.unique(in, *host.Parent)
		}
	}
	return "", nil
}

// unique is the name of an object, or its path in the inventory if others have the name, too.
func (s *Server) unique(in *request, ref types.ManagedObjectReference) (string, error) {
	name, err := s.name(in, ref)
	if err != nil {
		return "", err
	}
	if found, err := in.user.client.Find(in.Context(), ref.Type, name); err == nil && found == ref {
		return name, nil
	}
	return find.InventoryPath(in.Context(), in.user.client.Client.Client, ref)
}
