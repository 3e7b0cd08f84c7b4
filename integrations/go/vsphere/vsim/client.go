package vsim

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// clonePath is where vCenter gives tickets for sessions of the vSphere Client.
const clonePath = "/api/ui/vcenter/session/clone-ticket"

// clientSessions are those of users of the vSphere Client.
type clientSessions struct {
	// open are the sessions by token.
	open map[string]*govmomi.Client
	// seen are the sessions that called something, and dead those of them that were ended.
	seen, dead map[string]bool
	// granted are the privileges of a user by object; a user who is not here has all.
	granted map[string]map[string][]string
}

func newClientSessions() clientSessions {
	return clientSessions{open: map[string]*govmomi.Client{}, seen: map[string]bool{}, dead: map[string]bool{}, granted: map[string]map[string][]string{}}
}

// ended notes who calls, and reports whether the session was ended.
func (c *clientSessions) ended(session *simulator.Session) bool {
	if session == nil {
		return false
	}
	c.seen[session.Key] = true
	return c.dead[session.Key]
}

// SignIn begins a session of the vSphere Client and returns its token.
func (v *VCenter) SignIn(t testing.TB, user string) string {
	t.Helper()
	address, err := soap.ParseURL(v.Address)
	if err != nil {
		t.Fatal(err)
	}
	address.User = nil
	client, err := govmomi.NewClient(t.Context(), address, true)
	if err != nil {
		t.Fatal(err)
	}
	_, err = methods.Login(t.Context(), client.Client, &types.Login{This: *client.ServiceContent.SessionManager, UserName: user, Password: Password})
	if err != nil {
		t.Fatal(err)
	}
	token := uuid.NewString()
	v.locked(func() { v.ui.open[token] = client })
	return token
}

// SignOut ends a session of the vSphere Client. Sessions that were cloned from it go on.
func (v *VCenter) SignOut(token string) { v.locked(func() { delete(v.ui.open, token) }) }

// EndSessions ends all sessions but those of the vSphere Client, as vCenter does after a while.
func (v *VCenter) EndSessions() {
	v.locked(func() {
		for key := range v.ui.seen {
			v.ui.dead[key] = true
		}
	})
}

// Grant gives a user these privileges on an object, and no others on it or on objects that are not granted.
func (v *VCenter) Grant(user string, on types.ManagedObjectReference, privileges ...string) {
	v.locked(func() {
		if v.ui.granted[user] == nil {
			v.ui.granted[user] = map[string][]string{}
		}
		v.ui.granted[user][on.Value] = privileges
	})
}

// ID is the identifier by which the vSphere Client knows the vCenter.
func (v *VCenter) ID() string { return v.model.ServiceContent.About.InstanceUuid }

// cloneTicket stands in for vCenter's own endpoint, which the simulator lacks.
func (v *VCenter) cloneTicket(out http.ResponseWriter, in *http.Request) {
	var asked struct {
		VCenter string `json:"vc_guid"`
	}
	err := json.NewDecoder(in.Body).Decode(&asked)
	var client *govmomi.Client
	v.locked(func() { client = v.ui.open[in.Header.Get("vmware-api-session-id")] })
	switch {
	case in.Method != http.MethodPost || err != nil || asked.VCenter != v.ID():
		http.Error(out, "bad request", http.StatusBadRequest)
		return
	case client == nil:
		http.Error(out, "no such session", http.StatusUnauthorized)
		return
	}
	ticket, err := client.SessionManager.AcquireCloneTicket(in.Context())
	if err != nil {
		http.Error(out, err.Error(), http.StatusUnauthorized)
		return
	}
	// The session that gave it is the client's own: ending others leaves it alone.
	if session, err := client.SessionManager.UserSession(in.Context()); err == nil && session != nil {
		v.locked(func() { delete(v.ui.seen, session.Key); delete(v.ui.dead, session.Key) })
	}
	out.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(out).Encode(map[string]string{"session_clone_ticket": ticket})
}

// authorization says what users were granted; the simulator's own grants everything.
type authorization struct {
	*simulator.AuthorizationManager
	v *VCenter
}

func (a *authorization) HasPrivilegeOnEntities(ctx *simulator.Context, request *types.HasPrivilegeOnEntities) soap.HasFault {
	a.v.mu.Lock()
	defer a.v.mu.Unlock()
	granted, limited := a.v.ui.granted[ctx.Session.UserName]
	body := &methods.HasPrivilegeOnEntitiesBody{Res: new(types.HasPrivilegeOnEntitiesResponse)}
	for _, entity := range request.Entity {
		made := types.EntityPrivilege{Entity: entity}
		for _, id := range request.PrivId {
			made.PrivAvailability = append(made.PrivAvailability, types.PrivilegeAvailability{PrivId: id,
				IsGranted: !limited || slices.Contains(granted[entity.Value], id)})
		}
		body.Res.Returnval = append(body.Res.Returnval, made)
	}
	return body
}
