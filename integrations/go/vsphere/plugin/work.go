package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/datastore"
	"ashlar/integrations/vsphere/esxi"
	"ashlar/integrations/vsphere/job"
	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/rollout"
	"ashlar/integrations/vsphere/vcenter"
)

// Work is what continues after the request that began it. vCenter shows it as a task, too.
type Work struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// State is `running`, `done` or `failed`.
	State string `json:"state"`
	// Steps are the last report of each step, in order.
	Steps  []job.Progress `json:"steps"`
	Reason string         `json:"reason,omitempty"`
	// Changes are those of hosts.
	Changes []rollout.Step `json:"changes,omitempty"`

	center *center
	on     types.ManagedObjectReference
}

const (
	running = "running"
	done    = "done"
	failed  = "failed"
	// maxWorks bounds what is remembered of work that has ended.
	maxWorks = 200
)

// works are those under way and the last that ended.
type works struct {
	mu      sync.Mutex
	all     []*Work
	ctx     context.Context
	stop    context.CancelFunc
	pending sync.WaitGroup
}

func newWorks() *works {
	made := &works{}
	made.ctx, made.stop = context.WithCancel(context.Background())
	return made
}

func (w *works) close() {
	w.stop()
	w.pending.Wait()
}

// begin starts work about an object, of which one runs at a time.
func (s *Server) begin(in *request, title string, do func(context.Context, *Work) error) (any, error) {
	w := s.works
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return nil, &refusal{http.StatusServiceUnavailable, "stopping", "The plug-in's server is stopping", "try again when it is back"}
	}
	for _, it := range w.all {
		if it.center == in.center && it.on == in.on.ref && it.State == running {
			return nil, &refusal{http.StatusConflict, "conflict", "Something is under way", fmt.Sprintf("%q is not finished: wait for it", it.Title)}
		}
	}
	made := &Work{ID: uuid.NewString(), Title: title, State: running, Steps: []job.Progress{}, center: in.center, on: in.on.ref}
	w.all = append(w.all, made)
	if ended := slices.IndexFunc(w.all, func(it *Work) bool { return it.State != running }); len(w.all) > maxWorks && ended >= 0 {
		w.all = slices.Delete(w.all, ended, ended+1)
	}
	user, ctx := in.user, s.asUser(w.ctx, in)
	s.sessions.hold(user)
	s.log.Info("begins", "work", title, "user", s.nameOf(user), "object", in.on.ref.String())
	w.pending.Go(func() {
		defer s.sessions.release(user)
		err := do(ctx, made)
		w.mu.Lock()
		defer w.mu.Unlock()
		made.State = done
		if err != nil {
			made.State, made.Reason = failed, reason(err)
			s.log.Warn("failed", "work", title, "user", s.nameOf(user), "object", made.on.String(), "reason", made.Reason)
		}
	})
	return made.copy(), nil
}

// reason is what failed; of a job that also says what is still in effect.
func reason(err error) string {
	var whole *job.Error
	if errors.As(err, &whole) {
		return err.Error()
	}
	return asRefusal(err).Detail
}

// copy is for a reader without the lock. Locked.
func (w *Work) copy() *Work {
	made := *w
	made.Steps, made.Changes = slices.Clone(w.Steps), slices.Clone(w.Changes)
	return &made
}

// progress keeps the last report of each step.
func (s *Server) progress(of *Work) func(job.Progress) {
	return func(it job.Progress) {
		s.works.mu.Lock()
		defer s.works.mu.Unlock()
		for at := range of.Steps {
			if of.Steps[at].Number == it.Number {
				of.Steps[at] = it
				return
			}
		}
		of.Steps = append(of.Steps, it)
	}
}

// work reports on work about the object.
func (s *Server) work(in *request) (any, error) {
	s.works.mu.Lock()
	defer s.works.mu.Unlock()
	for _, it := range s.works.all {
		if it.ID == in.PathValue("id") && it.center == in.center && it.on == in.on.ref {
			return it.copy(), nil
		}
	}
	return nil, &refusal{http.StatusNotFound, "not_found", "Not known any more",
		"the plug-in's server was started again since, or this is long ago: the tasks of vCenter say how it ended"}
}

func body[T any](in *request) (T, error) {
	var made T
	reader := json.NewDecoder(in.Body)
	reader.DisallowUnknownFields()
	if err := reader.Decode(&made); err != nil {
		return made, invalid("the request is not understood: " + err.Error())
	}
	return made, nil
}

func (s *Server) manager(in *request, on *Array, of *Work) *datastore.Manager {
	return &datastore.Manager{VCenter: in.user.client, Array: on.API, Progress: s.progress(of)}
}

type newDatastore struct {
	Name  string `json:"name"`
	Size  int64  `json:"size"`
	Array string `json:"array"`
	Group string `json:"group"`
}

func (s *Server) create(in *request) (any, error) {
	given, err := body[newDatastore](in)
	if err != nil {
		return nil, err
	}
	on, err := in.center.array(given.Array)
	if err != nil {
		return nil, err
	}
	if in.on.ref.Type != "ClusterComputeResource" {
		return nil, invalid("a datastore is created on a cluster")
	}
	cluster, err := s.unique(in, in.on.ref)
	if err != nil {
		return nil, err
	}
	return s.begin(in, "Create datastore "+given.Name, func(ctx context.Context, of *Work) error {
		return s.manager(in, on, of).Create(ctx, datastore.New{Name: given.Name, Cluster: cluster, Bytes: given.Size, Group: given.Group})
	})
}

type larger struct {
	Size int64 `json:"size"`
}

func (s *Server) grow(in *request) (any, error) {
	given, err := body[larger](in)
	if err != nil {
		return nil, err
	}
	found, err := s.locate(in)
	if err != nil {
		return nil, err
	}
	return s.begin(in, "Grow datastore "+found.name, func(ctx context.Context, of *Work) error {
		return s.manager(in, found.array, of).Grow(ctx, found.name, given.Size)
	})
}

type restored struct {
	Snapshot string `json:"snapshot"`
	Name     string `json:"name"`
}

// copy mounts a snapshot, or the content of now, as a datastore of its own on the cluster of the datastore.
func (s *Server) copy(in *request) (any, error) {
	given, err := body[restored](in)
	if err != nil {
		return nil, err
	}
	found, err := s.locate(in)
	if err != nil {
		return nil, err
	}
	cluster, err := s.clusterOf(in, found.hosts)
	if err != nil {
		return nil, err
	}
	if cluster == "" {
		return nil, invalid("datastore " + found.name + " is on no host of a cluster, and a copy is mounted on a cluster: use `ashlar-vsphere datastore clone`")
	}
	return s.begin(in, "Restore "+found.name+" as "+given.Name, func(ctx context.Context, of *Work) error {
		return s.manager(in, found.array, of).CloneDatastore(ctx, datastore.Clone{Source: found.name, Snapshot: given.Snapshot, Name: given.Name, Cluster: cluster})
	})
}

// hosts are those of a request's object, as the check takes them, and what they are compared with.
func (s *Server) hosts(in *request, name string) (vcenter.Scope, esxi.Change, error) {
	var scope vcenter.Scope
	object, err := s.unique(in, in.on.ref)
	if err != nil {
		return scope, esxi.Change{}, err
	}
	switch in.on.ref.Type {
	case "HostSystem":
		scope.Host = object
	case "ClusterComputeResource":
		scope.Cluster = object
	default:
		return scope, esxi.Change{}, invalid("settings are those of hosts and clusters")
	}
	on, err := in.center.array(name)
	if err != nil {
		return scope, esxi.Change{}, err
	}
	about, err := array.Decode[array.Array](on.API.ShowArray(in.Context()))
	if err != nil {
		return scope, esxi.Change{}, err
	}
	return scope, esxi.Change{Want: practice.Want{Portals: practice.Reachable(about.Portals, on.API.URL)}}, nil
}

func (s *Server) practice(in *request) (any, error) {
	scope, with, err := s.hosts(in, in.URL.Query().Get("array"))
	if err != nil {
		return nil, err
	}
	return rollout.Check(in.Context(), in.user.client, scope, with.Want)
}

type fixes struct {
	Array string `json:"array"`
	// Settings by id; none: all that deviate and are not optional.
	Settings []string `json:"settings"`
	// Sure: change the hosts. Without it the changes are only listed.
	Sure bool `json:"sure"`
}

// fix lists what would be changed, or changes it.
func (s *Server) fix(in *request) (any, error) {
	given, err := body[fixes](in)
	if err != nil {
		return nil, err
	}
	for _, id := range given.Settings {
		if setting, is := practice.Find(id); !is || !setting.Changeable() {
			return nil, invalid(fmt.Sprintf("%q is no setting that can be changed here", id))
		}
	}
	scope, with, err := s.hosts(in, given.Array)
	if err != nil {
		return nil, err
	}
	plan := rollout.Plan{Change: with, Settings: given.Settings, DryRun: !given.Sure}
	if !given.Sure {
		return rollout.Apply(in.Context(), in.user.client, scope, plan)
	}
	return s.begin(in, "Change settings of "+scope.String(), func(ctx context.Context, of *Work) error {
		plan.Progress = func(step rollout.Step) {
			s.works.mu.Lock()
			defer s.works.mu.Unlock()
			of.Changes = append(of.Changes, step)
		}
		manager := &datastore.Manager{VCenter: in.user.client}
		return manager.Task(ctx, datastore.TaskApply, in.on.ref, []job.Step{{Name: "change " + scope.String(), Do: func(ctx context.Context) error {
			report, err := rollout.Apply(ctx, in.user.client, scope, plan)
			s.works.mu.Lock()
			defer s.works.mu.Unlock()
			// Each host was read again since: a change that did not hold is a failure.
			of.Changes = report.Changes
			return errors.Join(err, unread(report))
		}}})
	})
}

// unread names hosts that were left out.
func unread(report rollout.Report) error {
	if len(report.Unread) == 0 {
		return nil
	}
	return fmt.Errorf("not every host was read: %s", strings.Join(report.Unread, "; "))
}
