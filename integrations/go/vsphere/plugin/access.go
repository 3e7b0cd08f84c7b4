package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/extension"
	"ashlar/integrations/vsphere/vcenter"
)

// answered are privileges of a user on an object, and when vCenter was asked.
type answered struct {
	may  May
	when time.Time
}

// privilegesLifetime is how long an answer is used: a page asks for several things at once.
const privilegesLifetime = 5 * time.Second

// May is what a user may do with an object.
type May struct {
	View   bool `json:"view"`
	Manage bool `json:"manage"`
}

// subject is an object of the inventory in an address: its type and its identifier, or `root`.
type subject struct {
	ref  types.ManagedObjectReference
	root bool
}

// kinds are the types of objects that pages are about.
var kinds = []string{"Datastore", "HostSystem", "ClusterComputeResource"}

const root = "root"

func parseSubject(text string, folder types.ManagedObjectReference) (subject, error) {
	if text == root {
		return subject{folder, true}, nil
	}
	kind, id, _ := strings.Cut(text, ":")
	for _, known := range kinds {
		if kind == known && id != "" {
			return subject{types.ManagedObjectReference{Type: kind, Value: id}, false}, nil
		}
	}
	return subject{}, &refusal{404, "not_found", "Not found", fmt.Sprintf("%q is no object that this plug-in has pages for", text)}
}

// may asks vCenter, with the user's own session, for the privileges on an object.
func (s *Server) may(ctx context.Context, user *userSession, on subject) (May, error) {
	key := on.ref.String()
	s.sessions.mu.Lock()
	known, has := user.known[key]
	s.sessions.mu.Unlock()
	if has && s.sessions.now().Sub(known.when) < privilegesLifetime {
		return known.may, nil
	}
	session, err := user.client.SessionManager.UserSession(ctx)
	if err != nil {
		return May{}, err
	}
	if session == nil {
		return May{}, vcenter.Expired()
	}
	manager := user.client.ServiceContent.AuthorizationManager
	if manager == nil {
		return May{}, errors.New("this vCenter has no privileges")
	}
	response, err := methods.HasPrivilegeOnEntities(ctx, user.client.Client.Client, &types.HasPrivilegeOnEntities{
		This: *manager, Entity: []types.ManagedObjectReference{on.ref}, SessionId: session.Key,
		PrivId: []string{extension.PrivilegeView, extension.PrivilegeManage}})
	if err != nil {
		return May{}, err
	}
	var made May
	for _, entity := range response.Returnval {
		for _, it := range entity.PrivAvailability {
			made.View = made.View || it.IsGranted && it.PrivId == extension.PrivilegeView
			made.Manage = made.Manage || it.IsGranted && it.PrivId == extension.PrivilegeManage
		}
	}
	// Who may change the array may also look at it.
	made.View = made.View || made.Manage
	s.sessions.mu.Lock()
	user.known[key], user.name = answered{made, s.sessions.now()}, session.UserName
	s.sessions.mu.Unlock()
	return made, nil
}

// denied says which privilege is missing.
func denied(privilege string, on subject) error {
	object := on.ref.Type + " " + on.ref.Value
	if on.root {
		object = "the root of the inventory"
	}
	return &refusal{403, "forbidden", "Permission denied", fmt.Sprintf(
		"you need the privilege %s on %s: an administrator adds it to a role of yours in Administration > Access Control", privilege, object)}
}
