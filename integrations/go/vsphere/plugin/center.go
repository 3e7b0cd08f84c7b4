package plugin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/vmware/govmomi/vim25/soap"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/vcenter"
)

// Center is a vCenter that is served, with the arrays that its users see.
type Center struct {
	Access vcenter.Access
	// ID is the identifier by which the vSphere Client knows it; empty: it is asked. Of several vCenters each needs one:
	// sessions of the client go to the vCenter with their identifier, so that none may say that it is another.
	ID     string
	Arrays []Array
}

// center is a vCenter with what is known of it. Nothing of one is used for another: who administrates one vCenter decides
// what its inventory says, also which device a datastore is on.
type center struct {
	access vcenter.Access
	arrays []Array
	// places are the volumes of datastores that were looked up.
	places *places

	mu sync.Mutex
	id string
}

// identify returns the identifier, and asks the vCenter for it until it has it.
func (c *center) identify(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id != "" {
		return c.id, nil
	}
	found, err := vcenter.About(ctx, c.access)
	if err != nil {
		return "", err
	}
	c.id = found.InstanceUuid
	return c.id, nil
}

// host is the vCenter's name or address without a port.
func (c *center) host() string {
	address, err := soap.ParseURL(c.access.Address)
	if err != nil || address == nil {
		return ""
	}
	return address.Hostname()
}

// array returns the one with a name; the only one if none is named.
func (c *center) array(name string) (*Array, error) {
	for at := range c.arrays {
		if c.arrays[at].Name == name || name == "" && len(c.arrays) == 1 {
			return &c.arrays[at], nil
		}
	}
	if name == "" {
		return nil, invalid("which array? there are: " + strings.Join(c.names(), ", "))
	}
	return nil, &refusal{http.StatusNotFound, "not_found", "Unknown array",
		fmt.Sprintf("the plug-in has no array %q for this vCenter: `ashlar-vsphere arrays add` adds it on its server", name)}
}

func (c *center) names() []string {
	var names []string
	for _, it := range c.arrays {
		names = append(names, it.Name)
	}
	return names
}

// center returns the vCenter with an identifier.
func (s *Server) center(ctx context.Context, id string) (*center, error) {
	for _, it := range s.centers {
		known, err := it.identify(ctx)
		if err != nil {
			return nil, err
		}
		if known == id {
			return it, nil
		}
	}
	return nil, &refusal{http.StatusNotFound, "not_found", "Another vCenter",
		"the server of this plug-in does not serve this vCenter: `ashlar-vsphere vcenters add` adds it on the server"}
}

// about is for the page that is about no object: the client says the vCenter of objects only. Of several vCenters it is the
// one from which the page came, since pages come through vCenter's proxy. The session of the client is not tried on all: it
// is a secret of one.
func (s *Server) about(out http.ResponseWriter, in *http.Request) {
	found, client := s.centers, in.URL.Query().Get("client")
	if len(found) > 1 {
		found = nil
		for _, it := range s.centers {
			if client != "" && strings.EqualFold(it.host(), client) {
				found = append(found, it)
			}
		}
	}
	if len(found) != 1 {
		s.refuse(out, in, &refusal{http.StatusNotFound, "unknown_client", "Which vCenter?", fmt.Sprintf(
			"the plug-in's server knows no vCenter by the name %q, by which the vSphere Client is open: use the name that `ashlar-vsphere vcenters list` shows, or add the vCenter with this one",
			client)})
		return
	}
	id, err := found[0].identify(in.Context())
	if err != nil {
		s.refuse(out, in, err)
		return
	}
	send(out, http.StatusOK, "application/json", map[string]string{"vcenter": id, "version": array.Version})
}
