package vcenter

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// Scope is a part of the inventory: one of the three is given.
type Scope struct{ Host, Cluster, Datacenter string }

func (s Scope) String() string {
	switch {
	case s.Host != "":
		return "host " + s.Host
	case s.Cluster != "":
		return "cluster " + s.Cluster
	}
	return "datacenter " + s.Datacenter
}

// HostProperties are what every use of a host needs.
var HostProperties = []string{"name", "parent", "runtime", "config.product", "config.storageDevice",
	"configManager", "datastore"}

// Hosts returns the hosts of a part of the inventory, by name.
func (c *Client) Hosts(ctx context.Context, scope Scope) ([]mo.HostSystem, error) {
	root, err := c.root(ctx, scope)
	if err != nil {
		return nil, err
	}
	var hosts []mo.HostSystem
	if root.Type == "HostSystem" {
		var host mo.HostSystem
		err = property.DefaultCollector(c.Client.Client).RetrieveOne(ctx, root, HostProperties, &host)
		hosts = append(hosts, host)
	} else {
		err = c.Below(ctx, root, "HostSystem", HostProperties, &hosts)
	}
	if err != nil {
		return nil, Explain(err)
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("%s has no hosts", scope)
	}
	sort.Slice(hosts, func(a, b int) bool { return hosts[a].Name < hosts[b].Name })
	return hosts, nil
}

// Below reads properties of all objects of a kind below one of the inventory.
func (c *Client) Below(ctx context.Context, root types.ManagedObjectReference, kind string, properties []string, into any) error {
	found, err := view.NewManager(c.Client.Client).CreateContainerView(ctx, root, []string{kind}, true)
	if err != nil {
		return err
	}
	defer func() { _ = found.Destroy(context.WithoutCancel(ctx)) }()
	return found.Retrieve(ctx, []string{kind}, properties, into)
}

func (c *Client) root(ctx context.Context, scope Scope) (types.ManagedObjectReference, error) {
	switch {
	case scope.Host != "":
		return c.Find(ctx, "HostSystem", scope.Host)
	case scope.Cluster != "":
		return c.Find(ctx, "ClusterComputeResource", scope.Cluster)
	case scope.Datacenter != "":
		return c.Find(ctx, "Datacenter", scope.Datacenter)
	}
	return types.ManagedObjectReference{}, errors.New("say which hosts: --host, --cluster or --datacenter")
}

// Find returns the one object of a kind with a name, or with a path in the inventory that begins with a slash.
func (c *Client) Find(ctx context.Context, kind, name string) (types.ManagedObjectReference, error) {
	var found []types.ManagedObjectReference
	if strings.HasPrefix(name, "/") {
		elements, err := find.NewFinder(c.Client.Client, true).ManagedObjectList(ctx, name, kind)
		var missing *find.NotFoundError
		if err != nil && !errors.As(err, &missing) {
			return types.ManagedObjectReference{}, Explain(err)
		}
		for _, element := range elements {
			if element.Object.Reference().Type == kind {
				found = append(found, element.Object.Reference())
			}
		}
	} else {
		var entities []mo.ManagedEntity
		if err := c.Below(ctx, c.ServiceContent.RootFolder, kind, []string{"name"}, &entities); err != nil {
			return types.ManagedObjectReference{}, Explain(err)
		}
		for _, entity := range entities {
			if entity.Name == name {
				found = append(found, entity.Self)
			}
		}
	}
	switch len(found) {
	case 0:
		return types.ManagedObjectReference{}, &MissingError{Kind: kind, Name: name}
	case 1:
		return found[0], nil
	}
	return types.ManagedObjectReference{}, fmt.Errorf("there are %d objects of kind %s with the name %q: give the path in "+
		"the inventory, which begins with /", len(found), kind, name)
}

// MissingError is for a name that the inventory does not have.
type MissingError struct{ Kind, Name string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("vCenter has no %s %q that this user may see", e.Kind, e.Name)
}
