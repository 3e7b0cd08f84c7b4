// Package plugin is the server of the plug-in for the vSphere Client: its manifest, its pages, and what they ask for. It acts
// in vCenter as the user, by a session cloned from that of the client, and on arrays as the account that it was given, within
// the privileges that the user has in vCenter.
package plugin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/admission"
	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/datastore"
	"ashlar/integrations/vsphere/vcenter"
)

// tokenHeader carries the token of the vSphere Client's session.
const tokenHeader = "vmware-api-session-id"

const (
	// maxBodyBytes bounds a request of a page.
	maxBodyBytes = 1 << 20
	// sweepInterval is the time between searches for sessions that are too old.
	sweepInterval = time.Minute
	// headerTimeout, requestTimeout and idleTimeout bound connections of clients that send nothing.
	headerTimeout  = 10 * time.Second
	requestTimeout = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	// stopTimeout bounds the wait for responses at the end.
	stopTimeout = 30 * time.Second
)

// Array is one that the pages show.
type Array struct {
	Name string
	API  *array.API
}

// Server is the plug-in's server. One serves any number of vCenters, each with any number of arrays.
type Server struct {
	centers  []*center
	log      *slog.Logger
	pages    fs.FS
	sessions *sessions
	works    *works
}

// New makes a server of the built-in pages. Of several vCenters each has an identifier.
func New(centers []Center, log *slog.Logger) *Server {
	made := &Server{log: log, pages: builtIn(), works: newWorks()}
	for _, it := range centers {
		made.centers = append(made.centers, &center{access: it.Access, arrays: it.Arrays, places: newPlaces(), id: it.ID})
	}
	made.sessions = newSessions(func(ctx context.Context, token, id string) (*vcenter.Client, error) {
		on, err := made.center(ctx, id)
		if err != nil {
			return nil, err
		}
		return vcenter.CloneSession(ctx, on.access, token, id)
	})
	return made
}

// Arrays opens those of a configuration.
func Arrays(config Config, key Key) ([]Array, error) {
	var made []Array
	for _, entry := range config.Arrays {
		access, err := entry.access(key)
		if err != nil {
			return nil, err
		}
		api, err := array.Connect(access)
		if err != nil {
			return nil, fmt.Errorf("array %s: %w", entry.Name, err)
		}
		made = append(made, Array{entry.Name, api})
	}
	return made, nil
}

// refusal is a problem that pages show, as the array's own are (RFC 9457).
type refusal struct {
	Status int    `json:"status"`
	Kind   string `json:"kind"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

func (r *refusal) Error() string { return r.Detail }

func invalid(detail string) error {
	return &refusal{http.StatusBadRequest, "invalid", "Invalid request", detail}
}

// asRefusal turns an error of vCenter, of an array or of this program into what the page shows.
func asRefusal(err error) *refusal {
	var made *refusal
	var expired *vcenter.RefusedError
	var sent *array.Error
	switch {
	case errors.As(err, &made):
		return made
	case errors.As(err, &expired), vcenter.IsExpired(err):
		return &refusal{http.StatusUnauthorized, "unauthorized", "The session has expired", err.Error()}
	case errors.Is(err, errBusy):
		return &refusal{http.StatusServiceUnavailable, "busy", "Too many sessions", err.Error()}
	case vcenter.IsDenied(err):
		return &refusal{http.StatusForbidden, "forbidden", "Permission denied", vcenter.Explain(err).Error()}
	case vcenter.IsMissing(err):
		return &refusal{http.StatusNotFound, "not_found", "Not found", "vCenter has no such object, or not any more: refresh the inventory"}
	case array.IsKind(err, array.Unreachable):
		return &refusal{http.StatusBadGateway, array.Unreachable, "The array can't be reached", err.Error()}
	case array.IsKind(err, array.Unauthorized):
		// Not the user's session: a page must not take it for that.
		return &refusal{http.StatusBadGateway, "array_token", "The array refuses the plug-in", err.Error()}
	case errors.As(err, &sent):
		status := sent.Status
		if status < http.StatusBadRequest {
			status = http.StatusBadGateway
		}
		return &refusal{status, sent.Kind, "The array refused it", sent.Detail}
	}
	return &refusal{http.StatusBadGateway, "failed", "Something went wrong", vcenter.Explain(err).Error()}
}

// request is what a page asks for, by a user with a session and about an object.
type request struct {
	*http.Request
	center *center
	user   *userSession
	on     subject
	may    May
}

// handler answers a page's request with an object, or an error.
type handler func(*request) (any, error)

// Handler serves everything.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /plugin.json", s.manifest)
	mux.HandleFunc("GET /icons.png", icons)
	mux.HandleFunc("GET /", s.page)
	mux.HandleFunc("POST /visible/{type}", s.visible)
	mux.HandleFunc("GET /rest/about", s.about)
	for pattern, it := range map[string]struct {
		manage bool
		do     handler
	}{
		"GET /rest/{vcenter}/{object}/context":                            {false, s.context},
		"GET /rest/{vcenter}/{object}/datastores":                         {false, s.datastores},
		"GET /rest/{vcenter}/{object}/practice":                           {false, s.practice},
		"POST /rest/{vcenter}/{object}/practice":                          {true, s.fix},
		"POST /rest/{vcenter}/{object}/create":                            {true, s.create},
		"POST /rest/{vcenter}/{object}/grow":                              {true, s.grow},
		"POST /rest/{vcenter}/{object}/copy":                              {true, s.copy},
		"GET /rest/{vcenter}/{object}/work/{id}":                          {false, s.work},
		"GET /rest/{vcenter}/{object}/arrays/{array}/api/v1/{path...}":    {false, s.ask},
		"POST /rest/{vcenter}/{object}/arrays/{array}/api/v1/{path...}":   {true, s.ask},
		"PATCH /rest/{vcenter}/{object}/arrays/{array}/api/v1/{path...}":  {true, s.ask},
		"DELETE /rest/{vcenter}/{object}/arrays/{array}/api/v1/{path...}": {true, s.ask},
	} {
		mux.HandleFunc(pattern, s.rest(it.manage, it.do))
	}
	return mux
}

// rest authenticates and authorizes a request, and sends what the handler returns. A session that vCenter ended since it was
// cloned is cloned again, once.
func (s *Server) rest(manage bool, do handler) http.HandlerFunc {
	return func(out http.ResponseWriter, in *http.Request) {
		in.Body = http.MaxBytesReader(out, in.Body, maxBodyBytes)
		answer, err := s.perform(in, manage, do)
		if err != nil {
			s.refuse(out, in, err)
			return
		}
		status := http.StatusOK
		if sent, is := answer.(*raw); is {
			sent.write(out)
			return
		}
		if _, is := answer.(*Work); is && in.Method == http.MethodPost {
			status = http.StatusAccepted
		}
		send(out, status, "application/json", answer)
	}
}

func (s *Server) refuse(out http.ResponseWriter, in *http.Request, err error) {
	made := asRefusal(err)
	s.log.Info("refused", "method", in.Method, "path", in.URL.Path, "status", made.Status, "reason", made.Detail)
	send(out, made.Status, "application/problem+json", made)
}

func send(out http.ResponseWriter, status int, kind string, object any) {
	out.Header().Set("Content-Type", kind)
	out.Header().Set("Cache-Control", "no-store")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	out.WriteHeader(status)
	_ = json.NewEncoder(out).Encode(object)
}

func (s *Server) perform(in *http.Request, manage bool, do handler) (any, error) {
	ctx := in.Context()
	id := in.PathValue("vcenter")
	on, err := s.center(ctx, id)
	if err != nil {
		return nil, err
	}
	token := in.Header.Get(tokenHeader)
	if token == "" {
		return nil, vcenter.Expired()
	}
	for attempt := 0; ; attempt++ {
		user, err := s.sessions.acquire(ctx, token, id)
		if err != nil {
			return nil, err
		}
		made := &request{Request: in, center: on, user: user}
		err = s.authorize(made, manage)
		if attempt == 0 && err != nil && asRefusal(err).Status == http.StatusUnauthorized {
			s.sessions.retire(user)
			s.sessions.release(user)
			continue
		}
		var answer any
		if err == nil {
			made.Request = in.WithContext(s.asUser(ctx, made))
			answer, err = do(made)
		}
		if err == nil && manage {
			// An array may know its own account only: who it was is kept here.
			s.log.Info("changes", "user", s.nameOf(user), "method", in.Method, "path", in.URL.Path)
		}
		s.sessions.release(user)
		return answer, err
	}
}

// asUser makes requests to arrays name the user that they are made for, in their audit logs.
func (s *Server) asUser(ctx context.Context, of *request) context.Context {
	return array.OnBehalfOf(ctx, s.nameOf(of.user)+" at "+of.center.access.Address)
}

func (s *Server) nameOf(user *userSession) string {
	s.sessions.mu.Lock()
	defer s.sessions.mu.Unlock()
	return user.name
}

func (s *Server) authorize(made *request, manage bool) error {
	var err error
	made.on, err = parseSubject(made.PathValue("object"), made.user.client.ServiceContent.RootFolder)
	if err != nil {
		return err
	}
	made.may, err = s.may(made.Context(), made.user, made.on)
	switch {
	case err != nil:
		return err
	case manage && !made.may.Manage:
		return denied(PrivilegeManage, made.on)
	case !made.may.View:
		return denied(PrivilegeView, made.on)
	}
	return nil
}

// named is an array in a response.
type named struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Context is what a page has to know of its object before it asks for more.
type Context struct {
	Name   string  `json:"name"`
	User   string  `json:"user"`
	May    May     `json:"may"`
	Arrays []named `json:"arrays"`
	// Array and Volume are those of a datastore.
	Array  string `json:"array,omitempty"`
	Volume string `json:"volume,omitempty"`
	// Size is that of the volume in bytes, Capacity and Free of the file system.
	Size     int64 `json:"size,omitempty"`
	Capacity int64 `json:"capacity,omitempty"`
	Free     int64 `json:"free,omitempty"`
	// Cluster is where copies of a datastore are mounted.
	Cluster string `json:"cluster,omitempty"`
	// Machines are virtual machines with files on a datastore.
	Machines []string `json:"machines,omitempty"`
}

func (s *Server) context(in *request) (any, error) {
	made := &Context{May: in.may, Arrays: []named{}}
	for _, it := range in.center.arrays {
		made.Arrays = append(made.Arrays, named{it.Name, it.API.URL})
	}
	made.User = s.nameOf(in.user)
	if in.on.root {
		return made, nil
	}
	var err error
	if made.Name, err = s.name(in, in.on.ref); err != nil {
		return nil, err
	}
	if in.on.ref.Type != "Datastore" {
		return made, nil
	}
	found, err := s.locate(in)
	if err != nil {
		return nil, err
	}
	made.Array, made.Volume, made.Size = found.array.Name, found.volume.Name, found.volume.Size
	made.Capacity, made.Free = found.capacity, found.free
	if made.Cluster, err = s.clusterOf(in, found.hosts); err != nil {
		return nil, err
	}
	if made.Machines, err = s.namesOf(in, found.machines); err != nil {
		return nil, err
	}
	return made, nil
}

func (s *Server) name(in *request, ref types.ManagedObjectReference) (string, error) {
	var found mo.ManagedEntity
	err := property.DefaultCollector(in.user.client.Client.Client).RetrieveOne(in.Context(), ref, []string{"name"}, &found)
	return found.Name, err
}

// Row is a datastore in the list of all.
type Row struct {
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Volume   string   `json:"volume"`
	Capacity int64    `json:"capacity"`
	Free     int64    `json:"free"`
	Mapped   int64    `json:"mapped"`
	Machines []string `json:"machines"`
}

// datastores are those on volumes of an array that the user may see.
func (s *Server) datastores(in *request) (any, error) {
	on, err := in.center.array(in.URL.Query().Get("array"))
	if err != nil {
		return nil, err
	}
	manager := &datastore.Manager{VCenter: in.user.client, Array: on.API}
	found, err := manager.List(in.Context(), false)
	if err != nil {
		return nil, err
	}
	machines, err := manager.Machines(in.Context(), found)
	if err != nil {
		return nil, err
	}
	rows := []Row{}
	for _, it := range found {
		rows = append(rows, Row{it.Ref.Value, it.Name, it.Volume.Name, it.Capacity, it.Free, it.Volume.Mapped, append([]string{}, machines[it.Ref]...)})
	}
	return map[string]any{"items": rows}, nil
}

// Run serves at a socket, showing a certificate, until it is interrupted. Work that is under way ends first: its next step is not begun, and what was done is undone.
func (s *Server) Run(ctx context.Context, socket net.Listener, show *tls.Config) error {
	server := &http.Server{Handler: s.Handler(), TLSConfig: show, ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}
	limits, failed := admission.New(), make(chan error, 1)
	limits.Apply(server)
	go func() { failed <- server.ServeTLS(limits.Listener(socket), "", "") }()
	sweeps := time.NewTicker(sweepInterval)
	defer sweeps.Stop()
	for {
		select {
		case err := <-failed:
			s.Close()
			return err
		case <-sweeps.C:
			s.sessions.sweep()
		case <-ctx.Done():
			bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
			err := server.Shutdown(bounded)
			stop()
			s.Close()
			return err
		}
	}
}

// Close interrupts work, waits for its end, and logs every session out.
func (s *Server) Close() {
	s.works.close()
	s.sessions.close()
}
