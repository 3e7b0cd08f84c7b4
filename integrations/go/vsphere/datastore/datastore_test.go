package datastore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
	"ashlar/integrations/vsphere/catalogue"
	"ashlar/integrations/vsphere/job"
	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/site"
	"ashlar/integrations/vsphere/vsim"
)

const gib = int64(1) << 30

// fixture is a site whose array can be made to fail.
type fixture struct {
	*Manager
	v       *vsim.VCenter
	running *rig.Array
	// fail makes requests to the array fail: a method and a part of the path.
	fail  string
	times int
}

func open(t *testing.T) *fixture {
	t.Helper()
	at := site.Start(t)
	made := &fixture{v: at.V, running: at.Array}
	sender := at.Array.API.Client.Client
	api := *at.Array.API.Client
	api.Client = doer(func(request *http.Request) (*http.Response, error) {
		if made.fail != "" && made.times > 0 && strings.Contains(request.Method+" "+request.URL.Path, made.fail) {
			made.times--
			return nil, errors.New("the array does not respond, for a test")
		}
		return sender.Do(request)
	})
	made.Manager = &Manager{VCenter: at.Client, Array: &array.API{Client: &api, URL: at.Array.API.URL}}
	return made
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(request *http.Request) (*http.Response, error) { return d(request) }

// traces is everything on both sides that a job could leave.
func (s *fixture) traces(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	var found []string
	volumes, err := s.running.API.AllVolumes(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, volume := range volumes {
		found = append(found, fmt.Sprintf("volume %s %d %d", volume.Name, volume.Size, len(volume.Connections)))
		for _, connection := range volume.Connections {
			found = append(found, fmt.Sprintf("  LUN %d", connection.Lun))
		}
	}
	hosts, err := s.running.API.AllHosts(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	found = append(found, fmt.Sprintf("%d hosts", len(hosts)))
	groups, err := array.Decode[array.HostGroups](s.running.API.ListHostGroups(ctx, &array.ListHostGroupsParams{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups.Items {
		found = append(found, fmt.Sprintf("group %s %v", group.Name, group.Hosts))
	}
	for _, host := range s.v.Hosts {
		found = append(found, fmt.Sprintf("%s sees %d devices, mounts %v", host.System.Name, len(host.Devices), host.Mounted()))
		for _, device := range host.Devices {
			name, _ := s.v.Formatted(device.Name)
			found = append(found, fmt.Sprintf("  %q detached %t", name, device.Detached))
		}
	}
	return strings.Join(found, "\n")
}

func (s *fixture) create(t *testing.T, name string, bytes int64) {
	t.Helper()
	if err := s.Create(t.Context(), New{Name: name, Cluster: vsim.Cluster, Bytes: bytes}); err != nil {
		t.Fatal(err)
	}
}

func (s *fixture) mapped(t *testing.T, name string) Mapped {
	t.Helper()
	it, err := s.find(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

func TestADatastoreLivesFromCreationToDeletion(t *testing.T) {
	s := open(t)
	var states []job.Progress
	s.Progress = func(it job.Progress) { states = append(states, it) }
	s.create(t, "production", 2*gib)
	if len(states) != 14 || states[13].Total != 7 || states[13].State != job.Done {
		t.Errorf("progress: %v", states)
	}
	it := s.mapped(t, "production")
	if it.Capacity != 2*gib || it.Volume.Labels[LabelDatastore] != "production" || len(it.store.Host) != 3 {
		t.Errorf("%+v", it)
	}
	for _, host := range s.v.Hosts {
		device := host.Devices[0]
		if device.PSP != practice.RoundRobin || device.Switch != 1 || device.Outstanding != 256 {
			t.Errorf("%s: %+v", host.System.Name, device)
		}
	}

	if err := s.Grow(t.Context(), "production", 3*gib); err != nil {
		t.Fatal(err)
	}
	if it := s.mapped(t, "production"); it.Capacity != 3*gib || it.Volume.Size != 3*gib {
		t.Errorf("grown to %d, volume %d", it.Capacity, it.Volume.Size)
	}
	if err := s.Grow(t.Context(), "production", gib); err == nil || !strings.Contains(err.Error(), "can't be made smaller") {
		t.Error(err)
	}

	blocks, err := s.Unmap(t.Context(), "production")
	if err != nil || !slices.Equal(s.v.Unmapped("production"), []int{int(blocks)}) || blocks != 15 {
		t.Error(blocks, err)
	}

	snapshots := array.NewSnapshots{Volume: nullable.NewNullableWithValue(it.Volume.ID), Name: nullable.NewNullableWithValue("production.before")}
	if err := array.Done(s.Array.CreateSnapshots(t.Context(), snapshots)); err != nil {
		t.Fatal(err)
	}
	for name, snapshot := range map[string]string{"copy-now": "", "copy-before": "production.before"} {
		if err := s.CloneDatastore(t.Context(), Clone{Source: "production", Snapshot: snapshot, Name: name, Cluster: vsim.Cluster}); err != nil {
			t.Fatal(err)
		}
		if copied := s.mapped(t, name); copied.UUID == it.UUID || len(copied.store.Host) != 3 {
			t.Errorf("%+v", copied)
		}
	}

	for _, name := range []string{"copy-now", "copy-before", "production"} {
		if err := s.Delete(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := s.find(t.Context(), name); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	bin, err := array.Decode[array.RecycleBin](s.Array.ListRecycleBin(t.Context(), nil))
	if err != nil || len(bin.Items) != 3 {
		t.Error("the volumes are not in the recycle bin", err)
	}
}

func TestAVolumeThatWasClonedOnTheArrayIsMountedWithANewSignature(t *testing.T) {
	s := open(t)
	s.create(t, "production", gib)
	source := s.mapped(t, "production")
	err := array.Done(s.Array.CreateVolume(t.Context(), array.NewVolume{Name: "copied", Source: nullable.NewNullableWithValue(source.Volume.ID)}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Resignature(t.Context(), "production", "again", vsim.Cluster); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
	if err := s.Resignature(t.Context(), "copied", "again", vsim.Cluster); err != nil {
		t.Fatal(err)
	}
	if it := s.mapped(t, "again"); it.Volume.Name != "copied" {
		t.Errorf("%+v", it)
	}
	// A volume without a copy of a file system is refused, and nothing stays connected.
	if err := array.Done(s.Array.CreateVolume(t.Context(), array.NewVolume{Name: "blank", Size: nullable.NewNullableWithValue(gib)})); err != nil {
		t.Fatal(err)
	}
	before := s.traces(t)
	if err := s.Resignature(t.Context(), "blank", "third", vsim.Cluster); err == nil || !strings.Contains(err.Error(), "no copy") {
		t.Error(err)
	}
	if after := s.traces(t); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// failures are the calls that a job makes, on both sides.
func (s *fixture) broken(t *testing.T, where string, do func() error) {
	t.Helper()
	before := s.traces(t)
	if method, path, is := strings.Cut(where, " "); is {
		s.fail, s.times = method+" "+path, 1
	} else {
		method, host, _ := strings.Cut(where, "@")
		if host != "" {
			host = s.v.Hosts[len(s.v.Hosts)-1].System.Name
		}
		s.v.BreakOnce(method, host)
	}
	err := do()
	s.times = 0
	if err == nil {
		t.Fatalf("%s: it did not fail", where)
	}
	if after := s.traces(t); after != before {
		t.Errorf("%s: %v\nbefore:\n%s\nafter:\n%s", where, err, before, after)
	}
}

func TestACreationThatFailsAnywhereLeavesNothing(t *testing.T) {
	s := open(t)
	for _, where := range []string{"POST /api/v1/hosts", "POST /api/v1/host-groups", "POST /api/v1/volumes", "POST /api/v1/connections",
		"RescanAllHba@last", "QueryVmfsDatastoreCreateOptions", "CreateVmfsDatastore", "RescanVmfs@last", "SetMultipathLunPolicy@last", "ExecuteSoap@last"} {
		s.broken(t, where, func() error { return s.Create(t.Context(), New{Name: "new", Cluster: vsim.Cluster, Bytes: gib}) })
	}
	s.create(t, "new", gib)
	for _, where := range []string{"POST /api/v1/volumes", "POST /api/v1/connections", "RescanAllHba@last", "ResignatureUnresolvedVmfsVolume_Task",
		"RescanVmfs@last", "Rename_Task", "SetMultipathLunPolicy"} {
		s.broken(t, where, func() error {
			return s.CloneDatastore(t.Context(), Clone{Source: "new", Name: "copy", Cluster: vsim.Cluster})
		})
	}
	for _, where := range []string{"UnmountVmfsVolume@last", "DetachScsiLun@last", "DELETE /api/v1/connections", "DELETE /api/v1/volumes"} {
		s.broken(t, where, func() error { return s.Delete(t.Context(), "new") })
	}
}

// registerTasks makes the kinds of tasks known, as the extension does, which imports this package.
func (s *fixture) registerTasks(t *testing.T) {
	t.Helper()
	manager, err := object.GetExtensionManager(s.VCenter.Client.Client)
	if err != nil {
		t.Fatal(err)
	}
	made := types.Extension{Key: catalogue.Key, Company: "test", Version: "1", Description: &types.Description{Label: "test", Summary: "test"}}
	for id := range Tasks {
		made.TaskList = append(made.TaskList, types.ExtensionTaskTypeInfo{TaskID: id})
	}
	if err := manager.Register(t.Context(), made); err != nil {
		t.Fatal(err)
	}
}

// cancelled does a job, cancels its task in vCenter when a step begins, and returns the job's error with vCenter's.
func (s *fixture) cancelled(t *testing.T, kind string, step int, do func() error) (failure, refused error) {
	t.Helper()
	s.Progress = func(it job.Progress) {
		if it.Number != step || it.State != job.Begins {
			return
		}
		for _, task := range s.v.Tasks() {
			if task.DescriptionId == kind && task.State == types.TaskInfoStateRunning {
				_, refused = methods.CancelTask(t.Context(), s.VCenter.Client.Client, &types.CancelTask{This: task.Task})
			}
		}
	}
	defer func() { s.Progress = nil }()
	failure = do()
	return failure, refused
}

func TestACancelledTaskIsUndoneAndSaysSo(t *testing.T) {
	s := open(t)
	s.registerTasks(t)
	s.create(t, "kept", gib)
	creation := func() error { return s.Create(t.Context(), New{Name: "new", Cluster: vsim.Cluster, Bytes: gib}) }
	deletion := func() error { return s.Delete(t.Context(), "kept") }
	for _, it := range []struct {
		kind  string
		steps int
		do    func() error
	}{{taskCreate, 7, creation}, {taskDelete, 4, deletion}} {
		for step := 1; step <= it.steps; step++ {
			before := s.traces(t)
			failure, refused := s.cancelled(t, it.kind, step, it.do)
			if refused != nil || !errors.Is(failure, job.ErrCancelled) || !strings.Contains(failure.Error(), "everything before it was undone") {
				t.Fatalf("%s, step %d: %v, %v", it.kind, step, failure, refused)
			}
			if after := s.traces(t); after != before {
				t.Errorf("%s, step %d\nbefore:\n%s\nafter:\n%s", it.kind, step, before, after)
			}
		}
	}
	cancelled := 0
	for _, task := range s.v.Tasks() {
		if task.Cancelled && task.Error != nil {
			if _, is := task.Error.Fault.(*types.RequestCanceled); is && task.State == types.TaskInfoStateError {
				cancelled++
			}
		}
	}
	if cancelled != 11 {
		t.Errorf("%d tasks ended as cancelled", cancelled)
	}
	// What can't be undone is not offered to be cancelled, and continues.
	failure, refused := s.cancelled(t, taskGrow, 2, func() error { return s.Grow(t.Context(), "kept", 2*gib) })
	if failure != nil || refused == nil {
		t.Error(failure, refused)
	}
	if it := s.mapped(t, "kept"); it.Capacity != 2*gib {
		t.Errorf("%d", it.Capacity)
	}
}

func TestAGrowthThatFailsSaysWhatStays(t *testing.T) {
	s := open(t)
	s.create(t, "new", gib)
	s.v.BreakOnce("ExpandVmfsDatastore", "")
	err := s.Grow(t.Context(), "new", 2*gib)
	if err == nil || !strings.Contains(err.Error(), "2GiB now") {
		t.Fatal(err)
	}
	if err := s.Grow(t.Context(), "new", 2*gib); err != nil {
		t.Fatal(err)
	}
	if it := s.mapped(t, "new"); it.Capacity != 2*gib {
		t.Errorf("%d", it.Capacity)
	}
}

func TestADatastoreInUseIsNotDestroyed(t *testing.T) {
	s := open(t)
	s.create(t, "busy", gib)
	it := s.mapped(t, "busy")
	refuse := func(want string) {
		t.Helper()
		before := s.traces(t)
		if err := s.Delete(t.Context(), "busy"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if after := s.traces(t); after != before {
			t.Errorf("before:\n%s\nafter:\n%s", before, after)
		}
	}
	stranger := array.NewHost{Name: "stranger", Initiators: []string{"iqn.2001-04.org.example:stranger"}}
	if err := array.Done(s.Array.CreateHost(t.Context(), stranger)); err != nil {
		t.Fatal(err)
	}
	connection := array.NewConnection{Volume: it.Volume.ID, Host: nullable.NewNullableWithValue("stranger")}
	if err := array.Done(s.Array.CreateConnection(t.Context(), connection)); err != nil {
		t.Fatal(err)
	}
	refuse("stranger")
	if err := array.Done(s.Array.DeleteConnection(t.Context(), it.Volume.ID, "stranger")); err != nil {
		t.Fatal(err)
	}
	machine := s.v.Machines()[0]
	s.v.Place(machine, it.Ref)
	refuse(machine.Name)
	s.v.Map().Get(it.Ref).(*simulator.Datastore).Vm = nil
	s.v.Hosts[1].System.Runtime.ConnectionState = "disconnected"
	refuse("disconnected")
}

func TestDatastoresOfAnotherArrayAndNamesThatAreTakenAreRefused(t *testing.T) {
	s := open(t)
	s.create(t, "ours", gib)
	if err := s.Create(t.Context(), New{Name: "ours", Cluster: vsim.Cluster, Bytes: gib}); err == nil || !strings.Contains(err.Error(), "already") {
		t.Error(err)
	}
	if err := s.Create(t.Context(), New{Name: "a/b", Cluster: vsim.Cluster, Bytes: gib}); err == nil {
		t.Error("a wrong name was accepted")
	}
	// A second array in the same vCenter does not know the volume.
	other := rig.Start(t)
	second := &Manager{VCenter: s.VCenter, Array: other.API}
	for _, do := range []func() error{
		func() error { return second.Delete(t.Context(), "ours") },
		func() error { return second.Grow(t.Context(), "ours", 2*gib) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "no volume of the array") {
			t.Error(err)
		}
	}
	if all, err := second.List(t.Context(), true); err != nil || len(all) != 1 || all[0].Volume != nil {
		t.Error(all, err)
	}
	if err := s.Delete(t.Context(), "nothing"); err == nil {
		t.Error("a datastore that is not there was deleted")
	}
}

func TestAHostGroupWithOthersIsRefused(t *testing.T) {
	s := open(t)
	s.create(t, "first", gib)
	stranger := array.NewHost{Name: "stranger", Initiators: []string{"iqn.2001-04.org.example:stranger"}}
	if err := array.Done(s.Array.CreateHost(t.Context(), stranger)); err != nil {
		t.Fatal(err)
	}
	group, err := array.Decode[array.HostGroup](s.Array.ShowHostGroup(t.Context(), vsim.Cluster))
	if err != nil {
		t.Fatal(err)
	}
	hosts := append(slices.Clone(group.Hosts), "stranger")
	if err := array.Done(s.Array.ChangeHostGroup(t.Context(), vsim.Cluster, array.HostGroupChange{Hosts: nullable.NewNullableWithValue(hosts)})); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), New{Name: "second", Cluster: vsim.Cluster, Bytes: gib}); err == nil || !strings.Contains(err.Error(), "stranger") {
		t.Error(err)
	}
}

func TestWhoCopiesADiskIsExplained(t *testing.T) {
	s := open(t)
	s.create(t, "from", gib)
	s.create(t, "to", gib)
	machine := s.v.Machines()[0]
	s.v.Place(machine, s.mapped(t, "from").Ref)
	explain := func(format string) string {
		t.Helper()
		copies, err := s.ExplainCopy(t.Context(), machine.Name, "to", format)
		if err != nil || len(copies) == 0 {
			t.Fatal(copies, err)
		}
		return strings.Join(copies[0].FallBacks, "; ")
	}
	if why := explain(""); why != "" {
		t.Error(why)
	}
	machine.Snapshot = &types.VirtualMachineSnapshotInfo{}
	if why := explain(""); !strings.Contains(why, "snapshots") {
		t.Error(why)
	}
	if _, err := s.ExplainCopy(t.Context(), machine.Name, "nowhere", ""); err == nil {
		t.Error("a datastore that is not there was accepted")
	}
}

func TestNamesThatALabelHasNoRoomForAreAnEllipsis(t *testing.T) {
	if got := listed([]string{"a", "b"}); got != "a, b" {
		t.Error(got)
	}
	var many []string
	for range 40 {
		many = append(many, "machine-of-a-team")
	}
	if got := listed(many); len(got) > labelBytes || !strings.HasSuffix(got, ", …") {
		t.Error(got)
	}
	if got := listed([]string{strings.Repeat("x", 300)}); got != "…" {
		t.Error(got)
	}
	if listed(nil) != "" {
		t.Error("no names are no label")
	}
}
