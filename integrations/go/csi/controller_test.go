package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/oapi-codegen/nullable"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

const gib = 1 << 30

func capability(block bool, mode csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability {
	made := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
	if block {
		made.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		made.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}
	}
	return made
}

var (
	mounted = capability(false, csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
	shared  = capability(true, csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
)

// driver is one with an array for the calls of a test.
func driver(t *testing.T, running *rig.Array) *Driver {
	t.Helper()
	made, err := New(Config{Driver: DriverName, Cluster: "test", Prefix: "csi"}, running.API, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// got is for calls that must succeed: got(t)(call) is awkward for a generic, so the test comes last.
func got[T any](response T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return response
	}
}

func create(t *testing.T, d *Driver, request *csi.CreateVolumeRequest) *csi.Volume {
	t.Helper()
	if request.VolumeCapabilities == nil {
		request.VolumeCapabilities = []*csi.VolumeCapability{mounted}
	}
	return got(d.CreateVolume(t.Context(), request))(t).GetVolume()
}

func want(t *testing.T, code codes.Code, err error) {
	t.Helper()
	if got := status.Code(coded(err)); err == nil || got != code {
		t.Errorf("%v (%v), want %v", err, got, code)
	}
}

func sized(bytes int64) *csi.CapacityRange { return &csi.CapacityRange{RequiredBytes: bytes} }

func fromVolume(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
}

func fromSnapshot(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
}

func idOf(handle string) string { _, id, _ := strings.Cut(handle, "-"); return id }

func node(number int) string {
	return fmt.Sprintf("node-%d;iqn.2001-04.org.example:node-%d", number, number)
}

func publish(d *Driver, volume string, to int, of *csi.VolumeCapability) (*csi.ControllerPublishVolumeResponse, error) {
	return d.ControllerPublishVolume(context.Background(), &csi.ControllerPublishVolumeRequest{
		VolumeId: volume, NodeId: node(to), VolumeCapability: of,
	})
}

func TestAVolumeSurvivesRenamingAndIsNeverEradicated(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	request := &csi.CreateVolumeRequest{Name: "pvc-1", CapacityRange: sized(gib),
		Parameters: map[string]string{"csi.storage.k8s.io/pvc/name": "data", "csi.storage.k8s.io/newer": "ignored", "iops": "100"}}
	volume := create(t, d, request)
	found := got(array.Decode[array.Volume](running.API.ShowVolume(t.Context(), idOf(volume.GetVolumeId()))))(t)
	if found.Labels["kubernetes.pvc"] != "data" || found.Labels[labelName] != "pvc-1" || array.Value(found.Limits.Iops) != 100 {
		t.Errorf("%+v", found)
	}
	change := array.VolumeChange{Name: nullable.NewNullableWithValue("renamed")}
	got(array.Decode[array.Volume](running.API.ChangeVolume(t.Context(), found.ID, change)))(t)
	if again := create(t, d, request); again.GetVolumeId() != volume.GetVolumeId() {
		t.Error("it was created twice")
	}
	for range 2 {
		got(d.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: volume.GetVolumeId()}))(t)
	}
	bin := got(array.Decode[array.RecycleBin](running.API.ListRecycleBin(t.Context(), nil)))(t)
	if len(bin.Items) != 1 || bin.Items[0].ID != found.ID {
		t.Errorf("the recycle bin has %+v", bin.Items)
	}
}

func TestWhatTheDriverDidNotMakeIsLeftAlone(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	serial := got(d.arraySerial(t.Context()))(t)
	made := array.NewVolume{Name: "database", Size: nullable.NewNullableWithValue[int64](gib)}
	volume := got(array.Decode[array.Volume](running.API.CreateVolume(t.Context(), made)))(t)
	_, err := d.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: handle(serial, volume.ID)})
	want(t, codes.FailedPrecondition, err)
	// It can be used, though: a PersistentVolume made by hand names it.
	got(publish(d, handle(serial, volume.ID), 1, mounted))(t)
	_, err = d.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: handle("0123456789abcdef", volume.ID)})
	if err != nil {
		t.Error(err)
	}
	if list := got(d.ListVolumes(t.Context(), &csi.ListVolumesRequest{}))(t); len(list.GetEntries()) != 0 {
		t.Error(list)
	}
	// Another cluster's volumes are others.
	other := got(New(Config{Driver: DriverName, Cluster: "other", Prefix: "csi2"}, running.API, nil))(t)
	theirs := create(t, other, &csi.CreateVolumeRequest{Name: "pvc-1"})
	_, err = d.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: theirs.GetVolumeId()})
	want(t, codes.FailedPrecondition, err)
	ours := create(t, d, &csi.CreateVolumeRequest{Name: "pvc-1"})
	if ours.GetVolumeId() == theirs.GetVolumeId() {
		t.Error("two clusters share a volume")
	}
}

func TestClonesAreGrownAndFinishedByARepetition(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	source := create(t, d, &csi.CreateVolumeRequest{Name: "source", CapacityRange: sized(gib)})
	clone := &csi.CreateVolumeRequest{Name: "clone", CapacityRange: sized(3 * gib), VolumeContentSource: fromVolume(source.GetVolumeId())}
	made := create(t, d, clone)
	if made.GetCapacityBytes() != 3*gib || made.GetVolumeContext()[contextClone] == "" {
		t.Error(made)
	}
	// As it would be had the driver been ended between the two steps.
	change := array.VolumeChange{Size: nullable.NewNullableWithValue[int64](gib), Shrink: new(bool)}
	*change.Shrink = true
	got(array.Decode[array.Volume](running.API.ChangeVolume(t.Context(), idOf(made.GetVolumeId()), change)))(t)
	if again := create(t, d, clone); again.GetVolumeId() != made.GetVolumeId() || again.GetCapacityBytes() != 3*gib {
		t.Error(again)
	}
	_, err := d.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "clone", CapacityRange: sized(3 * gib), VolumeCapabilities: []*csi.VolumeCapability{mounted}})
	want(t, codes.AlreadyExists, err)
	clone.CapacityRange = sized(5 * gib)
	_, err = d.CreateVolume(t.Context(), clone)
	want(t, codes.AlreadyExists, err)
	_, err = d.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "small", VolumeContentSource: fromVolume(made.GetVolumeId()),
		CapacityRange: &csi.CapacityRange{LimitBytes: gib}, VolumeCapabilities: []*csi.VolumeCapability{mounted}})
	want(t, codes.OutOfRange, err)
	// A source can go before its clones.
	got(d.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: source.GetVolumeId()}))(t)
}

func TestAVolumeIsForOneNodeUnlessItIsShared(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	one := create(t, d, &csi.CreateVolumeRequest{Name: "one"}).GetVolumeId()
	first := got(publish(d, one, 1, mounted))(t).GetPublishContext()
	if again := got(publish(d, one, 1, mounted))(t).GetPublishContext(); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Errorf("%v, then %v", first, again)
	}
	if first[publishLUN] != "1" || first[publishTarget] != running.Target || first[publishPortals] != strings.Join(running.Portals, ",") {
		t.Error(first)
	}
	_, err := publish(d, one, 2, mounted)
	want(t, codes.FailedPrecondition, err)
	_, err = d.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: one})
	want(t, codes.FailedPrecondition, err)
	// The fence: afterwards the other node may have it.
	for range 2 {
		got(d.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: one, NodeId: node(1)}))(t)
	}
	got(publish(d, one, 2, mounted))(t)

	block := &csi.CreateVolumeRequest{Name: "shared", VolumeCapabilities: []*csi.VolumeCapability{shared}}
	both := create(t, d, block).GetVolumeId()
	got(publish(d, both, 1, shared))(t)
	got(publish(d, both, 2, shared))(t)
	list := got(d.ListVolumes(t.Context(), &csi.ListVolumesRequest{}))(t)
	at := slices.IndexFunc(list.GetEntries(), func(it *csi.ListVolumesResponse_Entry) bool { return it.GetVolume().GetVolumeId() == both })
	nodes := list.GetEntries()[at].GetStatus().GetPublishedNodeIds()
	slices.Sort(nodes)
	if !slices.Equal(nodes, []string{node(1), node(2)}) {
		t.Error(nodes)
	}
	got(d.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: both}))(t)
	// A file system can't be shared by writers.
	_, err = d.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "wrong", VolumeCapabilities: []*csi.VolumeCapability{
		capability(false, csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)}})
	want(t, codes.InvalidArgument, err)
}

func TestChapOfNodesComesFromTheSecret(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	volume := create(t, d, &csi.CreateVolumeRequest{Name: "secret"}).GetVolumeId()
	request := &csi.ControllerPublishVolumeRequest{VolumeId: volume, NodeId: node(1), VolumeCapability: mounted,
		Secrets: map[string]string{secretUser: "alice", secretSecret: "alice-secret-1"}}
	if context := got(d.ControllerPublishVolume(t.Context(), request))(t).GetPublishContext(); context[publishCHAP] != "true" {
		t.Error(context)
	}
	request.Secrets[secretMutualUser] = "array"
	_, err := d.ControllerPublishVolume(t.Context(), request)
	want(t, codes.InvalidArgument, err)
}

func TestGroupSnapshotsAreOfOneMoment(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	var volumes []string
	for _, name := range []string{"a", "b", "c"} {
		volumes = append(volumes, create(t, d, &csi.CreateVolumeRequest{Name: name}).GetVolumeId())
	}
	request := &csi.CreateVolumeGroupSnapshotRequest{Name: "set", SourceVolumeIds: volumes[:2]}
	made := got(d.CreateVolumeGroupSnapshot(t.Context(), request))(t).GetGroupSnapshot()
	again := got(d.CreateVolumeGroupSnapshot(t.Context(), request))(t).GetGroupSnapshot()
	if len(made.GetSnapshots()) != 2 || again.GetGroupSnapshotId() != made.GetGroupSnapshotId() || len(again.GetSnapshots()) != 2 {
		t.Error(made, again)
	}
	var sets []string
	for _, member := range made.GetSnapshots() {
		snapshot := got(array.Decode[array.Snapshot](running.API.ShowSnapshot(t.Context(), idOf(member.GetSnapshotId()))))(t)
		sets = append(sets, snapshot.Set)
		if member.GetGroupSnapshotId() != made.GetGroupSnapshotId() {
			t.Error(member)
		}
	}
	if sets[0] != sets[1] {
		t.Errorf("sets %v", sets)
	}
	_, err := d.CreateVolumeGroupSnapshot(t.Context(), &csi.CreateVolumeGroupSnapshotRequest{Name: "set", SourceVolumeIds: volumes})
	want(t, codes.AlreadyExists, err)
	restored := create(t, d, &csi.CreateVolumeRequest{Name: "restored", VolumeContentSource: fromSnapshot(made.GetSnapshots()[0].GetSnapshotId())})
	if restored.GetCapacityBytes() != defaultVolume {
		t.Error(restored)
	}
	for range 2 {
		got(d.DeleteVolumeGroupSnapshot(t.Context(), &csi.DeleteVolumeGroupSnapshotRequest{GroupSnapshotId: made.GetGroupSnapshotId()}))(t)
	}
	_, err = d.GetVolumeGroupSnapshot(t.Context(), &csi.GetVolumeGroupSnapshotRequest{GroupSnapshotId: made.GetGroupSnapshotId()})
	want(t, codes.NotFound, err)
}

func TestARetainedSnapshotIsNotDeleted(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	volume := create(t, d, &csi.CreateVolumeRequest{Name: "a"}).GetVolumeId()
	made := got(d.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "kept", SourceVolumeId: volume,
		Parameters: map[string]string{paramRetain: "72h"}}))(t).GetSnapshot()
	_, err := d.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: made.GetSnapshotId()})
	want(t, codes.FailedPrecondition, err)
	_, err = d.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "n", SourceVolumeId: volume, Parameters: map[string]string{paramRetain: "-1h"}})
	want(t, codes.InvalidArgument, err)
}

// write writes a pattern as a host does, by a client that is not ours.
func write(t *testing.T, context map[string]string, commands ...string) {
	t.Helper()
	if _, err := exec.LookPath("qemu-io"); err != nil {
		t.Skip("qemu-io is not installed: `cargo xtask setup` brings it")
	}
	portal, _, _ := strings.Cut(context[publishPortals], ",")
	image := fmt.Sprintf("driver=iscsi,transport=tcp,portal=%s,target=%s,lun=%s,initiator-name=iqn.2001-04.org.example:node-1",
		portal, context[publishTarget], context[publishLUN])
	words := []string{"--image-opts", image}
	for _, command := range commands {
		words = append(words, "-c", command)
	}
	if out, err := exec.CommandContext(t.Context(), "qemu-io", words...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestChangedBlocksAreStreamed(t *testing.T) {
	running := rig.Start(t)
	d, endpoint := serve(t, running, newFakeNode())
	volume := create(t, d, &csi.CreateVolumeRequest{Name: "a", CapacityRange: sized(gib)}).GetVolumeId()
	context := got(publish(d, volume, 1, mounted))(t).GetPublishContext()
	snapshot := func(name string) string {
		return got(d.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: volume}))(t).GetSnapshot().GetSnapshotId()
	}
	write(t, context, "write -P 1 0 64K", "write -P 2 512M 4K")
	first := snapshot("first")
	write(t, context, "write -P 3 1M 8K", "discard 512M 4K")
	second := snapshot("second")

	connection := got(grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() { _ = connection.Close() }()
	client := csi.NewSnapshotMetadataClient(connection)
	allocated := func(request *csi.GetMetadataAllocatedRequest) (string, error) {
		return extents(client.GetMetadataAllocated(t.Context(), request))
	}
	delta := func(request *csi.GetMetadataDeltaRequest) (string, error) {
		return extents(client.GetMetadataDelta(t.Context(), request))
	}
	all, err := allocated(&csi.GetMetadataAllocatedRequest{SnapshotId: first})
	if err != nil || all != "0+65536 536870912+4096" {
		t.Errorf("%q, %v", all, err)
	}
	// One extent a message, and from the middle.
	part, err := allocated(&csi.GetMetadataAllocatedRequest{SnapshotId: first, MaxResults: 1, StartingOffset: 65536})
	if err != nil || part != "536870912+4096" {
		t.Errorf("%q, %v", part, err)
	}
	changed, err := delta(&csi.GetMetadataDeltaRequest{BaseSnapshotId: first, TargetSnapshotId: second, MaxResults: 1})
	if err != nil || changed != "1048576+8192 536870912+4096" {
		t.Errorf("%q, %v", changed, err)
	}
	other := create(t, d, &csi.CreateVolumeRequest{Name: "b"}).GetVolumeId()
	foreign := got(d.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "of b", SourceVolumeId: other}))(t).GetSnapshot().GetSnapshotId()
	_, err = delta(&csi.GetMetadataDeltaRequest{BaseSnapshotId: foreign, TargetSnapshotId: second})
	want(t, codes.InvalidArgument, err)
	_, err = allocated(&csi.GetMetadataAllocatedRequest{SnapshotId: first, StartingOffset: gib})
	want(t, codes.OutOfRange, err)
	_, err = allocated(&csi.GetMetadataAllocatedRequest{SnapshotId: "none"})
	want(t, codes.NotFound, err)
}

// extents reads a stream to its end and checks what every message must have.
func extents[M interface {
	GetVolumeCapacityBytes() int64
	GetBlockMetadata() []*csi.BlockMetadata
}](stream interface{ Recv() (M, error) }, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var all []string
	for {
		message, err := stream.Recv()
		if err != nil {
			if err.Error() == "EOF" {
				return strings.Join(all, " "), nil
			}
			return "", err
		}
		if message.GetVolumeCapacityBytes() != gib {
			return "", fmt.Errorf("capacity %d", message.GetVolumeCapacityBytes())
		}
		for _, extent := range message.GetBlockMetadata() {
			all = append(all, fmt.Sprintf("%d+%d", extent.GetByteOffset(), extent.GetSizeBytes()))
		}
	}
}

func TestOrphansAreListedAndRecycledOnRequest(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	known := create(t, d, &csi.CreateVolumeRequest{Name: "known"}).GetVolumeId()
	used := create(t, d, &csi.CreateVolumeRequest{Name: "used"}).GetVolumeId()
	got(publish(d, used, 1, mounted))(t)
	lost := create(t, d, &csi.CreateVolumeRequest{Name: "lost"}).GetVolumeId()
	snapshot := got(d.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: known}))(t).GetSnapshot().GetSnapshotId()
	list := func(handles ...string) string {
		var items []map[string]any
		for _, handle := range handles {
			items = append(items, map[string]any{"kind": "PersistentVolume", "spec": map[string]any{"csi": map[string]any{"volumeHandle": handle}}})
		}
		text, _ := json.Marshal(map[string]any{"items": items})
		return string(text)
	}
	compared := got(d.Compare(t.Context(), strings.NewReader(list(known)), 0))(t)
	orphans := compared.Orphans
	var found []string
	for _, orphan := range orphans {
		found = append(found, orphan.Handle)
	}
	if !slices.Equal(found, []string{lost, snapshot}) {
		t.Errorf("%+v", orphans)
	}
	if len(compared.Missing) > 0 {
		t.Errorf("%+v", compared.Missing)
	}
	if young := got(d.Compare(t.Context(), strings.NewReader(list(known)), time.Hour))(t).Orphans; len(young) > 0 {
		t.Error(young)
	}
	// A list that is none must not make everything an orphan.
	for _, wrong := range []string{`{"items":[]}`, `{}`, `no list`} {
		if _, err := d.Compare(t.Context(), strings.NewReader(wrong), 0); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
	if err := d.Recycle(t.Context(), orphans); err != nil {
		t.Error(err)
	}
	bin := got(array.Decode[array.RecycleBin](running.API.ListRecycleBin(t.Context(), nil)))(t)
	if len(bin.Items) != 2 {
		t.Error(bin.Items)
	}
}

func TestObjectsWhoseVolumeIsGoneAreListed(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	serial := got(d.arraySerial(t.Context()))(t)
	made := create(t, d, &csi.CreateVolumeRequest{Name: "there"}).GetVolumeId()
	// A volume of an operator, which a PersistentVolume made by hand names.
	byHand := array.NewVolume{Name: "database", Size: nullable.NewNullableWithValue[int64](gib)}
	theirs := handle(serial, got(array.Decode[array.Volume](running.API.CreateVolume(t.Context(), byHand)))(t).ID)
	lost := handle(serial, strings.Repeat("a", idDigits))
	volume := func(name, driver, handle, more string) string {
		return fmt.Sprintf(`{"kind":"PersistentVolume","metadata":{"name":%q%s},"spec":{"claimRef":{"namespace":"work","name":"c-%s"},"csi":{"driver":%q,"volumeHandle":%q}}}`, name, more, name, driver, handle)
	}
	content := func(name, driver, source, status string) string {
		return fmt.Sprintf(`{"kind":"VolumeSnapshotContent","metadata":{"name":%q},"spec":{"driver":%q,"volumeSnapshotRef":{"namespace":"work","name":"s"},"source":{%s}},"status":{%s}}`, name, driver, source, status)
	}
	snapshot := got(d.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: made}))(t).GetSnapshot().GetSnapshotId()
	list := `{"items":[` + strings.Join([]string{
		volume("there", DriverName, made, ""), volume("by-hand", DriverName, theirs, ""), volume("lost", DriverName, lost, ""),
		volume("others", "other.example.com", lost, ""), volume("going", DriverName, lost, `,"deletionTimestamp":"2026-01-02T03:04:05Z"`),
		volume("malformed", DriverName, "vol-1", ""),
		content("there", DriverName, `"volumeHandle":"`+made+`"`, `"snapshotHandle":"`+snapshot+`"`), content("waiting", DriverName, "", ""),
		content("lost", DriverName, `"snapshotHandle":"`+lost+`"`, ""), content("others", "other.example.com", `"snapshotHandle":"`+lost+`"`, ""),
	}, ",") + `]}`
	compared := got(d.Compare(t.Context(), strings.NewReader(list), 0))(t)
	want := []Missing{
		{"missing volume", lost, "persistentvolume/lost", "work/c-lost"},
		{"missing volume", "vol-1", "persistentvolume/malformed", "work/c-malformed"},
		{"missing snapshot", lost, "volumesnapshotcontent/lost", "work/s"},
	}
	if !slices.Equal(compared.Missing, want) || len(compared.Orphans) > 0 {
		t.Errorf("%+v", compared)
	}
	// An array that does not answer has not lost anything.
	running.Stop()
	if found, err := d.Compare(t.Context(), strings.NewReader(list), 0); err == nil {
		t.Errorf("%+v", found)
	}
}

func TestTheReasonIsNamedWhenTheArrayCanNotBeUsed(t *testing.T) {
	running := rig.Start(t)
	connect := func(change func(*array.Access)) *Driver {
		access := running.Access
		change(&access)
		api := got(array.Connect(access))(t)
		return got(New(Config{Driver: DriverName, Cluster: "test", Prefix: "csi"}, api, nil))(t)
	}
	ask := func(d *Driver) error {
		_, err := d.CreateVolume(t.Context(), &csi.CreateVolumeRequest{Name: "a", VolumeCapabilities: []*csi.VolumeCapability{mounted}})
		return err
	}
	revoked := connect(func(access *array.Access) { access.Token = "ashlar_revoked" })
	err := ask(revoked)
	want(t, codes.Unauthenticated, err)
	if err == nil || !strings.Contains(err.Error(), "token create") {
		t.Error(err)
	}
	if ready := got(revoked.Probe(t.Context(), nil))(t); ready.GetReady().GetValue() {
		t.Error("it is ready")
	}

	newer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"api_version":1,"driver_api":{"min":7,"max":9},"id":"0123456789abcdef","name":"far","version":"9.1.0","state":"online","health":"ok","capacity":{}}`))
	}))
	defer newer.Close()
	err = ask(connect(func(access *array.Access) { access.URL = newer.URL }))
	want(t, codes.FailedPrecondition, err)
	for _, part := range []string{"9.1.0", array.Version, "7 to 9", "update this program"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}

	d := driver(t, running)
	if err := ask(d); err != nil {
		t.Fatal(err)
	}
	running.Stop()
	err = ask(d)
	want(t, codes.Unavailable, err)
	if err == nil || !strings.Contains(err.Error(), running.Access.URL) {
		t.Error(err)
	}
}

func TestPagesOfAList(t *testing.T) {
	running := rig.Start(t)
	d := driver(t, running)
	var all []string
	for at := range 5 {
		all = append(all, create(t, d, &csi.CreateVolumeRequest{Name: fmt.Sprint("v", at)}).GetVolumeId())
	}
	var listed []string
	for token := ""; ; {
		page := got(d.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 2, StartingToken: token}))(t)
		for _, entry := range page.GetEntries() {
			listed = append(listed, entry.GetVolume().GetVolumeId())
		}
		if token = page.GetNextToken(); token == "" {
			break
		}
	}
	slices.Sort(all)
	if !slices.Equal(all, listed) {
		t.Errorf("%v, want %v", listed, all)
	}
}
