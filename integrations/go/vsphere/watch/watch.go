// Package watch passes alerts of an array on to a vCenter: as events, which raise alarms on the datastores that they concern
// and clear them again. In the other direction, volumes get the names of their datastores and virtual machines as labels.
package watch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/event"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/catalogue"
	"ashlar/integrations/vsphere/datastore"
	"ashlar/integrations/vsphere/extension"
	"ashlar/integrations/vsphere/vcenter"
)

// Watch passes alerts on.
type Watch struct {
	VCenter *vcenter.Client
	Array   *array.API
	Log     *slog.Logger
	// raised is the worst severity that vCenter knows, by datastore and category.
	raised map[place]array.Severity
	known  bool
}

type place struct {
	store    types.ManagedObjectReference
	category catalogue.Category
}

// state is the worst alert of a place.
type state struct {
	severity array.Severity
	message  string
}

// Run passes alerts on until it is interrupted. What fails is tried again after the interval.
func (w *Watch) Run(ctx context.Context, interval time.Duration) error {
	for {
		if err := w.Step(ctx); err != nil {
			w.Log.Error("alerts could not be passed on", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

// Step compares array and vCenter once, and posts an event for each difference. A session that has expired begins again.
func (w *Watch) Step(ctx context.Context) error {
	err := w.step(ctx)
	if !vcenter.IsExpired(err) {
		return err
	}
	if err := w.VCenter.LogIn(ctx); err != nil {
		return err
	}
	return w.step(ctx)
}

func (w *Watch) step(ctx context.Context) error {
	manager := &datastore.Manager{VCenter: w.VCenter, Array: w.Array}
	stores, err := manager.List(ctx, false)
	if err != nil {
		return err
	}
	if err := manager.Label(ctx, stores); err != nil {
		return err
	}
	if !w.known {
		if err := w.learn(ctx, stores); err != nil {
			return err
		}
	}
	now, err := w.conditions(ctx, stores)
	if err != nil {
		return err
	}
	names := map[types.ManagedObjectReference]string{}
	for _, store := range stores {
		names[store.Ref] = store.Name
	}
	for _, at := range places(now, w.raised) {
		found, was := now[at], w.raised[at]
		if found.severity == was {
			continue
		}
		if names[at.store] == "" {
			// The datastore has gone, and its alarms with it.
			delete(w.raised, at)
			continue
		}
		if err := w.post(ctx, at, names[at.store], found); err != nil {
			return err
		}
		w.raised[at] = found.severity
		if found.severity == "" {
			delete(w.raised, at)
		}
	}
	return nil
}

// places are those of both, in an order that does not change.
func places(now map[place]state, raised map[place]array.Severity) []place {
	var all []place
	for at := range now {
		all = append(all, at)
	}
	for at := range raised {
		if _, has := now[at]; !has {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return strings.Compare(a.store.Value+string(a.category), b.store.Value+string(b.category))
	})
	return all
}

// learn reads which alarms are red or yellow already: this program may have ended while they were.
func (w *Watch) learn(ctx context.Context, stores []datastore.Mapped) error {
	if err := extension.EnsureAlarms(ctx, w.VCenter); err != nil {
		return err
	}
	w.raised = map[place]array.Severity{}
	collector := property.DefaultCollector(w.VCenter.Client.Client)
	for _, store := range stores {
		var found mo.Datastore
		if err := collector.RetrieveOne(ctx, store.Ref, []string{"triggeredAlarmState"}, &found); err != nil {
			return vcenter.Explain(err)
		}
		for _, triggered := range found.TriggeredAlarmState {
			var alarm mo.Alarm
			if err := collector.RetrieveOne(ctx, triggered.Alarm, []string{"info"}, &alarm); err != nil {
				return vcenter.Explain(err)
			}
			if category, is := extension.AlarmCategory(alarm); is {
				w.raised[place{store.Ref, category}] = severity(category, triggered.OverallStatus)
			}
		}
	}
	w.known = true
	return nil
}

// severity that an alarm's colour stands for.
func severity(category catalogue.Category, status types.ManagedEntityStatus) array.Severity {
	for _, severity := range catalogue.Severities {
		if extension.Status(category, severity) == status {
			return severity
		}
	}
	return array.SeverityCritical
}

// conditions is the worst open alert of each category for each datastore.
func (w *Watch) conditions(ctx context.Context, stores []datastore.Mapped) (map[place]state, error) {
	filter := "state!=closed"
	alerts, err := array.Decode[array.Alerts](w.Array.ListAlerts(ctx, &array.ListAlertsParams{Filter: &filter}))
	if err != nil {
		return nil, err
	}
	about, err := array.Decode[array.Status](w.Array.ShowStatus(ctx))
	if err != nil {
		return nil, err
	}
	worst := map[place]state{}
	for _, alert := range alerts.Items {
		concerned, err := w.concerned(ctx, alert, stores)
		if err != nil {
			return nil, err
		}
		category := catalogue.Of(alert.Kind)
		for _, store := range concerned {
			at := place{store.Ref, category}
			if rank(alert.Severity) > rank(worst[at].severity) {
				worst[at] = state{alert.Severity, fmt.Sprintf("array %s: %s", about.Name, alert.Message)}
			}
		}
	}
	return worst, nil
}

func rank(severity array.Severity) int { return slices.Index(catalogue.Severities, severity) }

// concerned are the datastores that an alert is about: those on the volume, in the volume group, on volumes of the host, or
// all if it is about the array.
func (w *Watch) concerned(ctx context.Context, alert array.Alert, stores []datastore.Mapped) ([]datastore.Mapped, error) {
	name, _ := alert.Name.Get()
	noun, _ := alert.Noun.Get()
	var keep func(datastore.Mapped) bool
	switch noun {
	case "volume":
		keep = func(it datastore.Mapped) bool { return it.Volume.Name == name }
	case "snapshot", "notification target":
		return nil, nil
	case "volume group":
		keep = func(it datastore.Mapped) bool { group, _ := it.Volume.Group.Get(); return group == name }
	case "host":
		host, err := array.Decode[array.Host](w.Array.ShowHost(ctx, name))
		if array.IsKind(err, array.NotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		keep = func(it datastore.Mapped) bool {
			return slices.ContainsFunc(host.Connections, func(to array.Connection) bool { return to.VolumeID == it.Volume.ID })
		}
	default:
		return stores, nil
	}
	return slices.DeleteFunc(slices.Clone(stores), func(it datastore.Mapped) bool { return !keep(it) }), nil
}

// post sends an event. It names the object twice: vCenter's alarms match by one, its lists by the other.
func (w *Watch) post(ctx context.Context, at place, name string, found state) error {
	message := found.message
	if found.severity == "" {
		message = "the condition has ended"
	}
	made := &types.EventEx{
		Event: types.Event{CreatedTime: time.Now(), Ds: &types.DatastoreEventArgument{
			EntityEventArgument: types.EntityEventArgument{Name: name}, Datastore: at.store}},
		EventTypeId: catalogue.Event(at.category, found.severity), Severity: level(found.severity), Message: message,
		Arguments: []types.KeyAnyValue{{Key: "message", Value: message}},
		ObjectId:  at.store.Value, ObjectType: at.store.Type, ObjectName: name,
	}
	if err := event.NewManager(w.VCenter.Client.Client).PostEvent(ctx, made); err != nil {
		return vcenter.Explain(fmt.Errorf("event for datastore %s: %w", name, err))
	}
	w.Log.Info("event", "datastore", name, "category", at.category, "severity", found.severity, "message", message)
	return nil
}

func level(severity array.Severity) string {
	switch severity {
	case array.SeverityCritical:
		return string(types.EventEventSeverityError)
	case array.SeverityWarning:
		return string(types.EventEventSeverityWarning)
	}
	return string(types.EventEventSeverityInfo)
}
