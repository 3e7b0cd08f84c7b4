package watch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oapi-codegen/nullable"
	"github.com/vmware/govmomi/event"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/catalogue"
	"ashlar/integrations/vsphere/datastore"
	"ashlar/integrations/vsphere/extension"
	"ashlar/integrations/vsphere/site"
	"ashlar/integrations/vsphere/vsim"
)

const mib = int64(1) << 20

// start has a vCenter with a datastore in a volume group that has a soft quota, and one beside it.
func start(t *testing.T) (*site.Site, *Watch, datastore.Mapped) {
	t.Helper()
	at := site.Start(t)
	group := array.NewGroup{Name: "team", SoftQuota: nullable.NewNullableWithValue(2 * mib)}
	if err := array.Done(at.Array.API.CreateGroup(t.Context(), group)); err != nil {
		t.Fatal(err)
	}
	manager := &datastore.Manager{VCenter: at.Client, Array: at.Array.API}
	for name, group := range map[string]string{"limited": "team", "free": ""} {
		if err := manager.Create(t.Context(), datastore.New{Name: name, Cluster: vsim.Cluster, Bytes: 64 * mib, Group: group}); err != nil {
			t.Fatal(err)
		}
	}
	if err := extension.Register(t.Context(), at.Client, nil); err != nil {
		t.Fatal(err)
	}
	stores, err := manager.List(t.Context(), false)
	if err != nil || len(stores) != 2 {
		t.Fatal(stores, err)
	}
	return at, &Watch{VCenter: at.Client, Array: at.Array.API, Log: slog.New(slog.DiscardHandler)}, stores[1]
}

// alarms are the colours of this program's alarms on a datastore.
func alarms(t *testing.T, at *site.Site, store datastore.Mapped) map[catalogue.Category]types.ManagedEntityStatus {
	t.Helper()
	collector := property.DefaultCollector(at.Client.Client.Client)
	var found mo.Datastore
	if err := collector.RetrieveOne(t.Context(), store.Ref, []string{"triggeredAlarmState"}, &found); err != nil {
		t.Fatal(err)
	}
	colours := map[catalogue.Category]types.ManagedEntityStatus{}
	for _, state := range found.TriggeredAlarmState {
		var alarm mo.Alarm
		if err := collector.RetrieveOne(t.Context(), state.Alarm, []string{"info"}, &alarm); err != nil {
			t.Fatal(err)
		}
		category, _ := extension.AlarmCategory(alarm)
		colours[category] = state.OverallStatus
	}
	return colours
}

func events(t *testing.T, at *site.Site, id string) []types.BaseEvent {
	t.Helper()
	found, err := event.NewManager(at.Client.Client.Client).QueryEvents(t.Context(), types.EventFilterSpec{EventTypeId: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// until steps the watch until something holds; the array notices a crossing within seconds, and says no sooner.
func until(t *testing.T, w *Watch, holds func() bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for {
		if err := w.Step(ctx); err != nil {
			t.Fatal(err)
		}
		if holds() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestASoftQuotaOfARealArrayIsAnEventAndARedAlarmThatIsClearedAgain(t *testing.T) {
	at, w, limited := start(t)
	lun := int(limited.Volume.Connections[0].Lun)
	initiator := at.V.Hosts[0].Initiator()
	at.IO(t, initiator, lun, "write -P 7 0 8M")
	until(t, w, func() bool { return alarms(t, at, limited)[catalogue.Quota] == types.ManagedEntityStatusRed })
	posted := events(t, at, catalogue.Event(catalogue.Quota, array.SeverityWarning))
	if len(posted) != 1 {
		t.Fatalf("%d events", len(posted))
	}
	made := posted[0].(*types.EventEx)
	if made.Ds == nil || made.Ds.Name != "limited" || !strings.Contains(made.Message, "soft quota") {
		t.Errorf("%+v", made)
	}
	// The same alert is one event, also after this program began again.
	if err := w.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := &Watch{VCenter: at.Client, Array: at.Array.API, Log: w.Log}
	if err := again.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if count := len(events(t, at, catalogue.Event(catalogue.Quota, array.SeverityWarning))); count != 1 {
		t.Errorf("%d events", count)
	}
	// A session that expires begins again.
	at.V.Expire()
	change := array.GroupChange{SoftQuota: nullable.NewNullableWithValue(32 * mib)}
	if err := array.Done(at.Array.API.ChangeGroup(t.Context(), "team", change)); err != nil {
		t.Fatal(err)
	}
	until(t, again, func() bool { return len(events(t, at, catalogue.Event(catalogue.Quota, ""))) == 1 })
	if colour, red := alarms(t, at, limited)[catalogue.Quota]; red {
		t.Errorf("the alarm is still %s", colour)
	}
}

func TestAnAlertReachesTheDatastoresThatItConcerns(t *testing.T) {
	at, w, limited := start(t)
	stores, err := (&datastore.Manager{VCenter: at.Client, Array: at.Array.API}).List(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range []struct{ noun, name, want string }{
		{"", "", "free limited"}, {"drive", "1", "free limited"}, {"volume", "free", "free"}, {"volume group", "team", "limited"},
		{"host", limited.Volume.Connections[0].Volume, ""}, {"notification target", "mail", ""}, {"volume", "other", ""},
	} {
		alert := array.Alert{Kind: "space.threshold"}
		if it.noun != "" {
			alert.Noun, alert.Name = nullable.NewNullableWithValue(it.noun), nullable.NewNullableWithValue(it.name)
		}
		found, err := w.concerned(t.Context(), alert, stores)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, store := range found {
			names = append(names, store.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != it.want {
			t.Errorf("%+v: %q", it, got)
		}
	}
	host, err := at.Array.API.HostOf(t.Context(), at.V.Hosts[0].Initiator())
	if err != nil || host == nil {
		t.Fatal(err)
	}
	alert := array.Alert{Noun: nullable.NewNullableWithValue("host"), Name: nullable.NewNullableWithValue(host.Name)}
	if found, err := w.concerned(t.Context(), alert, stores); err != nil || len(found) != 2 {
		t.Error(found, err)
	}
}

func TestRegistrationIsWholeAndCanBeRepeatedAndTakenBack(t *testing.T) {
	v := site.Start(t)
	manager, err := object.GetExtensionManager(v.Client.Client.Client)
	if err != nil {
		t.Fatal(err)
	}
	is := func(want bool) {
		t.Helper()
		if found, err := manager.Find(t.Context(), catalogue.Key); err != nil || (found != nil) != want {
			t.Errorf("registered %v, want %t (%v)", found, want, err)
		}
	}
	v.V.BreakOnce("CreateAlarm", "")
	if err := extension.Register(t.Context(), v.Client, nil); err == nil {
		t.Error("it did not fail")
	}
	is(false)
	for range 2 {
		if err := extension.Register(t.Context(), v.Client, nil); err != nil {
			t.Fatal(err)
		}
		is(true)
	}
	if made := v.V.Calls("CreateAlarm"); made != 1+len(catalogue.Categories) {
		t.Errorf("%d alarms were made", made)
	}
	for range 2 {
		if err := extension.Unregister(t.Context(), v.Client); err != nil {
			t.Fatal(err)
		}
		is(false)
	}
	if err := errors.Join(extension.EnsureRole(t.Context(), v.Client, ""), extension.EnsureRole(t.Context(), v.Client, "VSPHERE.LOCAL\\ashlar")); err != nil {
		t.Fatal(err)
	}
	roles, err := object.NewAuthorizationManager(v.Client.Client.Client).RoleList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	role := roles.ByName(extension.RoleName)
	if role == nil || slices.ContainsFunc(extension.Privileges, func(it string) bool { return !slices.Contains(role.Privilege, it) }) {
		t.Errorf("%+v", role)
	}
}

func TestJobsAreTasksOfVCenterOnceTheExtensionIsRegistered(t *testing.T) {
	at, w, limited := start(t)
	manager := &datastore.Manager{VCenter: w.VCenter, Array: w.Array}
	if err := manager.Grow(t.Context(), limited.Name, 128*mib); err != nil {
		t.Fatal(err)
	}
	at.V.BreakOnce("ExpandVmfsDatastore", "")
	if err := manager.Grow(t.Context(), limited.Name, 256*mib); err == nil {
		t.Fatal("it did not fail")
	}
	var states []types.TaskInfoState
	for _, task := range at.V.Tasks() {
		if task.DescriptionId != catalogue.Key+".grow" {
			continue
		}
		states = append(states, task.State)
		if task.State == types.TaskInfoStateSuccess && (task.Progress != 100 || task.Entity.Value != limited.Ref.Value) {
			t.Errorf("%+v", task)
		}
		if task.State == types.TaskInfoStateError && !strings.Contains(task.Error.LocalizedMessage, "run the same command again") {
			t.Errorf("%+v", task.Error)
		}
	}
	slices.Sort(states)
	if !slices.Equal(states, []types.TaskInfoState{types.TaskInfoStateError, types.TaskInfoStateSuccess}) {
		t.Errorf("%v", states)
	}
}

func TestTheArrayShowsDatastoresAndVirtualMachinesOfItsVolumes(t *testing.T) {
	at, w, limited := start(t)
	machine := at.V.Machines()[0]
	at.V.Place(machine, limited.Ref)
	labels := func() map[string]string {
		t.Helper()
		if err := w.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		volume, err := array.Decode[array.Volume](w.Array.ShowVolume(t.Context(), limited.Volume.ID))
		if err != nil {
			t.Fatal(err)
		}
		return volume.Labels
	}
	if got := labels(); got[datastore.LabelDatastore] != "limited" || got[datastore.LabelMachines] != machine.Name {
		t.Error(got)
	}
	// The name of a datastore that was renamed follows; a label of another client stays.
	change := array.VolumeChange{Labels: &map[string]*string{"owner": new("ada"), datastore.LabelDatastore: new("old")}}
	if err := array.Done(w.Array.ChangeVolume(t.Context(), limited.Volume.ID, change)); err != nil {
		t.Fatal(err)
	}
	if got := labels(); got[datastore.LabelDatastore] != "limited" || got["owner"] != "ada" {
		t.Error(got)
	}
	// A volume that is no datastore any more loses them.
	if err := array.Done(w.Array.DeleteHostGroupConnection(t.Context(), limited.Volume.ID, vsim.Cluster)); err != nil {
		t.Fatal(err)
	}
	at.V.Forget(limited.Device)
	if got := labels(); len(got) != 1 || got["owner"] != "ada" {
		t.Error(got)
	}
}
