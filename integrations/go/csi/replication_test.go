package csi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"github.com/oapi-codegen/nullable"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

// cluster is one with an array and a driver, whose own token is an operator's: what needs an administrator comes with secrets.
type cluster struct {
	*rig.Array
	t        *testing.T
	driver   *Driver
	identity identity.IdentityClient
	client   replication.ControllerClient
	groups   volumegroup.ControllerClient
	secrets  map[string]string
}

func newCluster(t *testing.T, name string, running *rig.Array) *cluster {
	t.Helper()
	token := got(array.Decode[array.APIToken](running.API.CreateToken(t.Context(), array.NewToken{Name: "csi", Role: nullable.NewNullableWithValue(array.RoleOperator)})))(t)
	access := running.Access
	access.Token = array.Value(token.Secret)
	api := got(array.Connect(access))(t)
	driver, endpoint := serveAs(t, Config{Driver: DriverName, Cluster: name, Prefix: "csi"}, api, running.Folder(), nil)
	connection := got(grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = connection.Close() })
	return &cluster{
		Array: running, t: t, driver: driver,
		identity: identity.NewIdentityClient(connection), client: replication.NewControllerClient(connection),
		groups:  volumegroup.NewControllerClient(connection),
		secrets: map[string]string{secretToken: running.Access.Token},
	}
}

// newClusters returns two, each of which has the other's array as its peer.
func newClusters(t *testing.T) (one, two *cluster) {
	t.Helper()
	first, second := rig.StartPair(t)
	one, two = newCluster(t, "one", first), newCluster(t, "two", second)
	one.peer(two)
	two.peer(one)
	return one, two
}

func (c *cluster) peer(other *cluster) {
	c.t.Helper()
	certificate := got(os.ReadFile(other.Access.CAFile))(c.t)
	c.secrets[secretPeerURL], c.secrets[secretPeerToken] = other.Access.URL, other.Access.Token
	c.secrets[secretPeerCertificate] = string(certificate)
}

// withoutPeer are the secrets of a class that knows this array only.
func (c *cluster) withoutPeer() map[string]string {
	return map[string]string{secretToken: c.secrets[secretToken]}
}

func (c *cluster) enable(of *replication.ReplicationSource, parameters map[string]string) error {
	_, err := c.client.EnableVolumeReplication(c.t.Context(), &replication.EnableVolumeReplicationRequest{ReplicationSource: of, Parameters: parameters, Secrets: c.secrets})
	return err
}

func (c *cluster) disable(of *replication.ReplicationSource, secrets map[string]string) error {
	_, err := c.client.DisableVolumeReplication(c.t.Context(), &replication.DisableVolumeReplicationRequest{ReplicationSource: of, Secrets: secrets})
	return err
}

func (c *cluster) promote(of *replication.ReplicationSource, force bool) error {
	_, err := c.client.PromoteVolume(c.t.Context(), &replication.PromoteVolumeRequest{ReplicationSource: of, Force: force, Secrets: c.secrets})
	return err
}

func (c *cluster) demote(of *replication.ReplicationSource, force bool) error {
	_, err := c.client.DemoteVolume(c.t.Context(), &replication.DemoteVolumeRequest{ReplicationSource: of, Force: force, Secrets: c.secrets})
	return err
}

func (c *cluster) resync(of *replication.ReplicationSource, force bool, secrets map[string]string) (bool, error) {
	response, err := c.client.ResyncVolume(c.t.Context(), &replication.ResyncVolumeRequest{ReplicationSource: of, Force: force, Secrets: secrets})
	return response.GetReady(), err
}

func (c *cluster) info(of *replication.ReplicationSource) (*replication.GetVolumeReplicationInfoResponse, error) {
	return c.client.GetVolumeReplicationInfo(c.t.Context(), &replication.GetVolumeReplicationInfoRequest{ReplicationSource: of, Secrets: c.secrets})
}

func (c *cluster) destination(of *replication.ReplicationSource) (*replication.ReplicationDestination, error) {
	response, err := c.client.GetReplicationDestinationInfo(c.t.Context(), &replication.GetReplicationDestinationInfoRequest{ReplicationSource: of, Secrets: c.secrets})
	return response.GetReplicationDestination(), err
}

// eventually repeats what may need a transfer first, as an orchestrator does.
func eventually(t *testing.T, what string, done func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		err := done()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func (c *cluster) healthy(of *replication.ReplicationSource) {
	c.t.Helper()
	eventually(c.t, "a healthy replication", func() error {
		info, err := c.info(of)
		if err == nil && info.GetStatus() != replication.GetVolumeReplicationInfoResponse_HEALTHY {
			err = fmt.Errorf("%+v", info)
		}
		return err
	})
}

func (c *cluster) synchronized(of *replication.ReplicationSource, force bool) {
	c.t.Helper()
	eventually(c.t, "a synchronized replica", func() error {
		ready, err := c.resync(of, force, c.secrets)
		if err == nil && !ready {
			err = fmt.Errorf("it is not ready")
		}
		return err
	})
}

// nodeIO connects a volume to a node of the cluster, does what words of qemu-io say, and disconnects it.
func (c *cluster) nodeIO(handle string, more ...string) error {
	c.t.Helper()
	if _, err := exec.LookPath("qemu-io"); err != nil {
		c.t.Skip("qemu-io is not installed: `cargo xtask setup` brings it")
	}
	response := got(publish(c.driver, handle, 1, mounted))(c.t)
	attached := response.GetPublishContext()
	portal, _, _ := strings.Cut(attached[publishPortals], ",")
	words := append(more, "--image-opts", fmt.Sprintf("driver=iscsi,transport=tcp,portal=%s,target=%s,lun=%s,initiator-name=iqn.2001-04.org.example:node-1",
		portal, attached[publishTarget], attached[publishLUN]))
	out, err := exec.CommandContext(c.t.Context(), "qemu-io", words...).CombinedOutput()
	got(c.driver.ControllerUnpublishVolume(c.t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: handle, NodeId: node(1)}))(c.t)
	if err != nil || bytes.Contains(out, []byte("verification failed")) || bytes.Contains(out, []byte("failed:")) {
		return fmt.Errorf("%v: %s", err, out)
	}
	return nil
}

func (c *cluster) writes(handle string, pattern int) {
	c.t.Helper()
	if err := c.nodeIO(handle, "-c", fmt.Sprintf("write -P %d 0 64k", pattern)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) reads(handle string, pattern int) {
	c.t.Helper()
	if err := c.nodeIO(handle, "-r", "-c", fmt.Sprintf("read -P %d 0 64k", pattern)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) replications() []array.Replication {
	c.t.Helper()
	return got(array.Decode[array.Replications](c.API.ListReplications(c.t.Context(), nil)))(c.t).Items
}

func (c *cluster) volumes() []array.Volume {
	c.t.Helper()
	return got(c.API.AllVolumes(c.t.Context(), ""))(c.t)
}

func (c *cluster) create(name string) string {
	c.t.Helper()
	return create(c.t, c.driver, &csi.CreateVolumeRequest{Name: name, CapacityRange: sized(64 << 20)}).GetVolumeId()
}

// hourly keeps points from being taken except when something asks for one.
var hourly = map[string]string{paramInterval: "1h", "replication.storage.openshift.io/replication-secret-name": "dr"}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPlannedFailoverAndItsReturnLoseNothing(t *testing.T) {
	one, two := newClusters(t)
	volume := one.create("data")
	of := ofHandle(volume)
	_, err := two.info(of)
	want(t, codes.NotFound, err)
	want(t, codes.FailedPrecondition, one.promote(of, false))
	one.writes(volume, 1)
	ok(t, one.enable(of, hourly), one.enable(of, hourly), one.promote(of, false))
	if made := one.replications(); len(made) != 1 || made[0].RpoSeconds != 3600 || made[0].Mode != array.Async {
		t.Fatalf("%+v", made)
	}
	eventually(t, "the destination", func() error {
		to, err := one.destination(of)
		if err == nil && to.GetVolume().GetVolumeId() != volume {
			t.Fatal(to)
		}
		return err
	})
	one.healthy(of)
	// The peer is there, and its volume takes writes.
	want(t, codes.FailedPrecondition, two.promote(of, false))
	_, err = one.resync(of, true, one.secrets)
	want(t, codes.FailedPrecondition, err)
	_, err = two.info(of)
	want(t, codes.FailedPrecondition, err)
	ok(t, two.enable(of, hourly), two.demote(of, false))

	// A PersistentVolume that was made there beforehand misses nothing.
	list := fmt.Sprintf(`{"items":[{"kind":"PersistentVolume","spec":{"csi":{"driver":%q,"volumeHandle":%q}}}]}`, DriverName, volume)
	if found := got(two.driver.Compare(t.Context(), strings.NewReader(list), 0))(t); len(found.Missing) > 0 {
		t.Errorf("%+v", found)
	}

	one.writes(volume, 2)
	ok(t, one.demote(of, false), one.demote(of, false))
	if err := one.nodeIO(volume, "-c", "write -P 9 0 64k"); err == nil {
		t.Error("a demoted volume takes writes")
	}
	if ready := got(one.resync(of, false, one.secrets))(t); ready {
		t.Error("it is ready before the other array was promoted")
	}
	eventually(t, "the promotion without force", func() error { return two.promote(of, false) })
	ok(t, two.promote(of, false), two.promote(of, true))
	two.reads(volume, 2)
	two.writes(volume, 3)
	if info := got(two.info(of))(t); info.GetStatus() != replication.GetVolumeReplicationInfoResponse_DEGRADED {
		t.Errorf("nothing is replicated, and it is %v", info)
	}
	entries := got(two.driver.ListVolumes(t.Context(), &csi.ListVolumesRequest{}))(t).GetEntries()
	if len(entries) != 1 || entries[0].GetVolume().GetVolumeId() != volume {
		t.Errorf("%+v", entries)
	}

	// Neither cluster's list makes the other's volume an orphan, by whichever handle it is known.
	for _, known := range []string{volume, "other"} {
		list := fmt.Sprintf(`{"items":[{"kind":"PersistentVolume","spec":{"csi":{"driver":%q,"volumeHandle":%q}}}]}`, DriverName, known)
		for _, c := range []*cluster{one, two} {
			found := got(c.driver.Compare(t.Context(), strings.NewReader(list), 0))(t)
			if len(found.Orphans) > 0 || len(found.Missing) > 0 != (known == "other") {
				t.Errorf("%+v", found)
			}
		}
	}

	one.synchronized(of, false)
	two.healthy(of)
	ok(t, two.enable(of, hourly), two.demote(of, false))
	eventually(t, "the promotion at home", func() error { return one.promote(of, false) })
	one.reads(volume, 3)
	two.synchronized(of, false)
	if a, b := one.volumes(), two.volumes(); len(a) != 1 || len(b) != 1 || handleOf("", a[0]) != "-"+idOf(volume) || handleOf("", b[0]) != volume {
		t.Errorf("%+v %+v", a, b)
	}

	// The target's part ends with the source's.
	ok(t, two.disable(of, two.secrets))
	if left := two.replications(); len(left) != 1 {
		t.Errorf("the target gave up: %+v", left)
	}
	ok(t, one.disable(of, one.secrets), one.disable(of, one.secrets), two.disable(of, two.secrets))
	if left := append(one.replications(), two.replications()...); len(left) != 0 {
		t.Errorf("%+v", left)
	}
	for _, c := range []*cluster{one, two} {
		got(c.driver.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: volume}))(t)
		if left := c.volumes(); len(left) != 0 {
			t.Errorf("%+v", left)
		}
	}
}

func TestAfterADisasterTheLoserIsDiscardedOnlyByForce(t *testing.T) {
	one, two := newClusters(t)
	volume := one.create("data")
	of := ofHandle(volume)
	one.writes(volume, 1)
	ok(t, one.enable(of, hourly))
	one.healthy(of)
	one.writes(volume, 2)
	one.Kill()
	want(t, codes.FailedPrecondition, two.promote(of, false))
	ok(t, two.promote(of, true), two.promote(of, false))
	two.reads(volume, 1)
	two.writes(volume, 3)
	_, err := one.info(of)
	want(t, codes.Unavailable, err)
	want(t, codes.FailedPrecondition, two.demote(of, false))
	want(t, codes.Unavailable, two.disable(of, two.secrets))

	one.Restart(t)
	eventually(t, "a split", func() error {
		// It hears of the promotion when it has something to say.
		_ = array.Done(one.API.SyncReplication(t.Context(), one.replications()[0].ID))
		info, err := one.info(of)
		if err == nil && info.GetStatus() != replication.GetVolumeReplicationInfoResponse_ERROR {
			err = fmt.Errorf("%+v", info)
		}
		return err
	})
	ok(t, one.demote(of, false), one.demote(of, false))
	_, err = one.resync(of, false, one.secrets)
	want(t, codes.FailedPrecondition, err)
	// What was written alone is there until then.
	one.reads(volume, 2)
	_, err = one.resync(of, true, one.withoutPeer())
	want(t, codes.FailedPrecondition, err)
	wrong := map[string]string{secretToken: one.secrets[secretToken], secretPeerURL: "http://127.0.0.1:1", secretPeerToken: one.Access.Token}
	_, err = one.resync(of, true, wrong)
	want(t, codes.Unavailable, err)
	wrong[secretPeerURL] = one.Access.URL
	_, err = one.resync(of, true, wrong)
	want(t, codes.InvalidArgument, err)
	one.synchronized(of, true)
	// The decision was carried out; the next resync needs no force.
	one.synchronized(of, false)
	two.healthy(of)
	ok(t, two.demote(of, false))
	eventually(t, "the promotion at home", func() error { return one.promote(of, false) })
	one.reads(volume, 3)
}

func TestADemotionIsNotDoneBeforeItsLastPointIs(t *testing.T) {
	one, two := newClusters(t)
	one.driver.demotePatience = 0
	volume := one.create("data")
	of := ofHandle(volume)
	one.writes(volume, 1)
	ok(t, one.enable(of, hourly))
	one.healthy(of)
	one.writes(volume, 2)
	two.Kill()
	for range 2 {
		want(t, codes.Aborted, one.demote(of, false))
	}
	if err := one.nodeIO(volume, "-c", "write -P 9 0 64k"); err == nil {
		t.Error("a volume that is being demoted takes writes")
	}
	_, err := one.resync(of, true, one.secrets)
	want(t, codes.Aborted, err)
	_, err = one.info(of)
	want(t, codes.FailedPrecondition, err)
	// Not even the orchestrator's habit of promoting by force what is refused without may lose it.
	ok(t, array.Done(one.API.PauseReplication(t.Context(), one.replications()[0].ID)))
	two.Restart(t)
	want(t, codes.Aborted, two.promote(of, false))
	ok(t, array.Done(one.API.ResumeReplication(t.Context(), one.replications()[0].ID)))
	eventually(t, "the demotion", func() error { return one.demote(of, false) })
	eventually(t, "the promotion without force", func() error { return two.promote(of, false) })
	two.reads(volume, 2)
}

func TestASourceThatWasDemotedIsPromotedAgain(t *testing.T) {
	one, two := newClusters(t)
	volume := one.create("data")
	of := ofHandle(volume)
	ok(t, one.enable(of, hourly))
	one.healthy(of)
	ok(t, one.demote(of, false))
	// Only the orchestrator knows that the other one was not promoted.
	want(t, codes.FailedPrecondition, one.promote(of, false))
	ok(t, one.promote(of, true), one.promote(of, false))
	one.writes(volume, 1)
	one.healthy(of)
	want(t, codes.FailedPrecondition, two.promote(of, false))
}

func TestASynchronousReplicaHasEverything(t *testing.T) {
	one, two := newClusters(t)
	volume := one.create("data")
	of := ofHandle(volume)
	ok(t, one.enable(of, hourly))
	mode := map[string]string{paramInterval: "30s", paramMode: "sync", paramOnLinkLoss: "stop", paramRemote: "second"}
	ok(t, one.enable(of, mode), one.enable(of, mode))
	if made := one.replications(); len(made) != 1 || made[0].RpoSeconds != 30 || made[0].Mode != array.Sync || array.Value(made[0].OnLinkLoss) != array.Stop {
		t.Fatalf("%+v", made)
	}
	eventually(t, "in sync", func() error {
		if state := one.replications()[0].Progress.State; state != array.InSync {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	before := time.Now().Add(-time.Second)
	one.writes(volume, 1)
	if info := got(one.info(of))(t); info.GetStatus() != replication.GetVolumeReplicationInfoResponse_HEALTHY || info.GetLastSyncTime().AsTime().Before(before) {
		t.Error(info)
	}
	two.synchronized(of, false)
	one.Kill()
	eventually(t, "the promotion by force", func() error { return two.promote(of, true) })
	two.reads(volume, 1)
}

func (c *cluster) group(name string, volumes ...string) (*volumegroup.VolumeGroup, error) {
	response, err := c.groups.CreateVolumeGroup(c.t.Context(), &volumegroup.CreateVolumeGroupRequest{Name: name, VolumeIds: volumes})
	return response.GetVolumeGroup(), err
}

func (c *cluster) modify(group string, volumes ...string) (*volumegroup.VolumeGroup, error) {
	response, err := c.groups.ModifyVolumeGroupMembership(c.t.Context(), &volumegroup.ModifyVolumeGroupMembershipRequest{VolumeGroupId: group, VolumeIds: volumes})
	return response.GetVolumeGroup(), err
}

func (c *cluster) ungroup(group string) error {
	_, err := c.groups.DeleteVolumeGroup(c.t.Context(), &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: group})
	return err
}

// have checks which volumes a group has.
func have(t *testing.T, group *volumegroup.VolumeGroup, volumes ...string) {
	t.Helper()
	var found []string
	for _, volume := range group.GetVolumes() {
		found = append(found, volume.GetVolumeId())
	}
	slices.Sort(found)
	if !slices.Equal(found, slices.Sorted(slices.Values(volumes))) {
		t.Errorf("the group has %v, want %v", found, volumes)
	}
}

func TestAVolumeIsInOneGroupAtMost(t *testing.T) {
	one := newCluster(t, "one", rig.Start(t))
	a, b, c := one.create("a"), one.create("b"), one.create("c")
	group := got(one.group("app", a, b))(t)
	have(t, group, a, b)
	if again := got(one.group("app", a, b))(t); again.GetVolumeGroupId() != group.GetVolumeGroupId() {
		t.Error("it was created twice")
	}
	_, err := one.group("other", b)
	want(t, codes.FailedPrecondition, err)
	_, err = one.group("other", "volume")
	want(t, codes.NotFound, err)
	_, err = one.group("")
	want(t, codes.InvalidArgument, err)
	_, err = one.groups.CreateVolumeGroup(t.Context(), &volumegroup.CreateVolumeGroupRequest{Name: "other", Parameters: map[string]string{"color": "red"}})
	want(t, codes.InvalidArgument, err)
	list := got(one.groups.ListVolumeGroups(t.Context(), &volumegroup.ListVolumeGroupsRequest{}))(t)
	if len(list.GetEntries()) != 1 {
		t.Errorf("a refused group was made: %+v", list)
	}
	have(t, list.GetEntries()[0].GetVolumeGroup(), a, b)
	have(t, got(one.modify(group.GetVolumeGroupId(), b, c))(t), b, c)
	have(t, got(one.modify(group.GetVolumeGroupId(), b, c))(t), b, c)
	other := got(one.group("other", a))(t)
	_, err = one.modify(other.GetVolumeGroupId(), a, c)
	want(t, codes.FailedPrecondition, err)
	have(t, got(one.groups.ControllerGetVolumeGroup(t.Context(), &volumegroup.ControllerGetVolumeGroupRequest{VolumeGroupId: other.GetVolumeGroupId()}))(t).GetVolumeGroup(), a)
	for _, id := range []string{"group", a, handle(strings.Repeat("0", serialDigits), strings.Repeat("0", groupDigits))} {
		_, err = one.modify(id, a)
		want(t, codes.NotFound, err)
		_, err = one.groups.ControllerGetVolumeGroup(t.Context(), &volumegroup.ControllerGetVolumeGroupRequest{VolumeGroupId: id})
		want(t, codes.NotFound, err)
		ok(t, one.ungroup(id))
	}
	want(t, codes.InvalidArgument, one.ungroup(""))
	// An operator's group is theirs; its volumes stay when ours goes.
	theirs := got(array.Decode[array.Group](one.API.CreateGroup(t.Context(), array.NewGroup{Name: "theirs"})))(t)
	serial := got(one.driver.arraySerial(t.Context()))(t)
	want(t, codes.FailedPrecondition, one.ungroup(handle(serial, theirs.ID)))
	ok(t, one.ungroup(group.GetVolumeGroupId()), one.ungroup(group.GetVolumeGroupId()))
	if left := one.volumes(); len(left) != 3 {
		t.Errorf("%+v", left)
	}
}

func TestAGroupIsReplicatedAsAWhole(t *testing.T) {
	one, two := newClusters(t)
	empty := got(one.group("empty"))(t)
	want(t, codes.FailedPrecondition, one.enable(ofGroup(empty.GetVolumeGroupId()), hourly))
	var volumes []string
	for at, name := range []string{"data", "log"} {
		volumes = append(volumes, one.create(name))
		one.writes(volumes[at], at+1)
	}
	group := got(one.group("app", volumes...))(t).GetVolumeGroupId()
	of := ofGroup(group)
	_, err := two.modify(group, volumes...)
	want(t, codes.NotFound, err)
	ok(t, one.enable(of, hourly), one.enable(of, hourly))
	want(t, codes.FailedPrecondition, one.enable(ofHandle(volumes[0]), hourly))
	want(t, codes.FailedPrecondition, one.promote(ofHandle(volumes[0]), true))
	one.healthy(of)
	known := got(one.destination(of))(t).GetVolumegroup()
	if len(known.GetVolumeIds()) != 2 || known.GetVolumeIds()[volumes[1]] != volumes[1] || known.GetVolumeGroupId() != of.GetVolumegroup().GetVolumeGroupId() {
		t.Error(known)
	}
	want(t, codes.FailedPrecondition, one.ungroup(group))
	_, err = one.modify(group)
	want(t, codes.FailedPrecondition, err)
	have(t, got(one.modify(group, volumes...))(t), volumes...)
	// The other cluster's group is there by its handle, although it has no volumes yet.
	have(t, got(two.modify(group, volumes...))(t), volumes...)
	ok(t, one.demote(of, false))
	eventually(t, "the promotion without force", func() error { return two.promote(of, false) })
	ok(t, two.promote(of, false))
	if there := got(two.modify(group, volumes...))(t); there.GetVolumeGroupId() != group {
		t.Error(there)
	} else {
		have(t, there, volumes...)
	}
	for at, volume := range volumes {
		two.reads(volume, at+1)
		two.writes(volume, at+3)
	}
	one.synchronized(of, false)
	two.healthy(of)
	// Whichever array says it, the handles are the same.
	if there := got(two.destination(of))(t).GetVolumegroup(); fmt.Sprint(there.GetVolumeIds()) != fmt.Sprint(known.GetVolumeIds()) {
		t.Errorf("%v, want %v", there, known)
	}
	late := two.create("late")
	two.writes(late, 7)
	have(t, got(two.modify(group, append(slices.Clone(volumes), late)...))(t), append(slices.Clone(volumes), late)...)
	ok(t, two.demote(of, false))
	eventually(t, "the promotion at home", func() error { return one.promote(of, false) })
	for at, volume := range append(slices.Clone(volumes), late) {
		one.reads(volume, []int{3, 4, 7}[at])
	}
	if all := one.volumes(); len(all) != 3 {
		t.Errorf("%+v", all)
	}
	two.synchronized(of, false)
	ok(t, one.disable(of, one.secrets), two.disable(of, two.secrets))
	if left := append(one.replications(), two.replications()...); len(left) != 0 {
		t.Errorf("%+v", left)
	}
	have(t, got(one.modify(group))(t))
	ok(t, one.ungroup(group), two.ungroup(group))
	if a, b := one.volumes(), two.volumes(); len(a) != 3 || len(b) != 3 {
		t.Errorf("%d and %d volumes", len(a), len(b))
	}
}

func TestHalfFinishedCallsAreFinished(t *testing.T) {
	one, two := newClusters(t)
	volume := one.create("data")
	of := ofHandle(volume)
	ok(t, one.enable(of, hourly))
	one.healthy(of)
	// The driver was ended before it had labelled the volume.
	none := map[string]*string{labelReplication: nil}
	ok(t, array.Done(one.API.ChangeVolume(t.Context(), idOf(volume), array.VolumeChange{Labels: &none})))
	ok(t, one.enable(of, hourly))
	if now := one.volumes()[0]; len(one.replications()) != 1 || now.Labels[labelReplication] != one.replications()[0].ID {
		t.Errorf("%+v", now)
	}
	one.writes(volume, 1)
	ok(t, one.demote(of, false))
	// The array did what it was asked for, or an administrator did it, and the driver heard nothing.
	force := true
	ok(t, array.Done(two.API.PromoteReplication(t.Context(), two.replications()[0].ID, array.ReplicationPromotion{Force: &force})))
	got(two.info(of))(t)
	_, err := publish(two.driver, volume, 1, mounted)
	want(t, codes.NotFound, err)
	ok(t, two.promote(of, false))
	two.reads(volume, 1)

	// The same, and the other cluster's resync comes first.
	none = map[string]*string{labelReplica: nil, labelReplication: nil}
	ok(t, array.Done(two.API.ChangeVolume(t.Context(), two.volumes()[0].ID, array.VolumeChange{Labels: &none})))
	one.synchronized(of, false)
	two.reads(volume, 1)
	ok(t, two.promote(of, false))

	// The other array's part was deleted, and this one's was not.
	ok(t, array.Done(one.API.DeleteReplication(t.Context(), one.replications()[0].ID)))
	ok(t, two.disable(of, two.secrets), two.disable(of, two.secrets), one.disable(of, one.secrets))
	if left := append(one.replications(), two.replications()...); len(left) != 0 {
		t.Errorf("%+v", left)
	}
}

func TestTheTargetEndsItsPartOnlyWhenTheSourceHas(t *testing.T) {
	one, two := newClusters(t)
	volume := one.create("data")
	of := ofHandle(volume)
	ok(t, one.enable(of, hourly))
	one.healthy(of)
	want(t, codes.FailedPrecondition, two.disable(of, two.withoutPeer()))
	ok(t, one.disable(of, one.withoutPeer()))
	if left := two.replications(); len(left) != 1 {
		t.Fatalf("%+v", left)
	}
	ok(t, two.disable(of, two.secrets))
	if left := two.replications(); len(left) != 0 {
		t.Errorf("%+v", left)
	}
	want(t, codes.NotFound, two.disable(of, two.secrets))
}

func TestReplicationsOfOthersAreUsedAndLeft(t *testing.T) {
	one, two := newClusters(t)
	volume := one.create("data")
	of := ofHandle(volume)
	ok(t, array.Done(one.API.CreateReplication(t.Context(), array.NewReplication{
		Name: "prod", Volume: nullable.NewNullableWithValue(idOf(volume)), RemoteArray: "second", RpoSeconds: 600})))
	ok(t, one.enable(of, hourly))
	if found := one.replications(); len(found) != 1 || found[0].RpoSeconds != 600 {
		t.Errorf("%+v", found)
	}
	one.healthy(of)
	want(t, codes.FailedPrecondition, one.disable(of, one.secrets))
	_, err := one.driver.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: volume})
	want(t, codes.FailedPrecondition, err)
	ok(t, one.demote(of, false))
	eventually(t, "the promotion without force", func() error { return two.promote(of, false) })
	two.writes(volume, 1)
}

func TestWrongRequestsForReplicationAreRefused(t *testing.T) {
	one, _ := newClusters(t)
	volume := one.create("data")
	of := ofHandle(volume)
	for _, parameters := range []map[string]string{
		{"interval": "1h"}, {paramInterval: "4s"}, {paramInterval: "8d"}, {paramInterval: "soon"}, {paramInterval: ""}, {paramMode: "semi"},
		{paramRemote: "third"}, {paramOnLinkLoss: "stop"}, {paramMode: "sync", paramOnLinkLoss: "panic"},
		{paramWitness: "third"}, {paramMode: "sync", paramOnLinkLoss: "continue", paramWitness: "third"},
	} {
		if err := one.enable(of, parameters); err == nil {
			t.Errorf("%v is accepted", parameters)
		} else {
			want(t, codes.InvalidArgument, err)
		}
	}
	serial := got(one.driver.arraySerial(t.Context()))(t)
	for code, sources := range map[codes.Code][]*replication.ReplicationSource{
		codes.InvalidArgument: {nil, {}, ofHandle(""), ofGroup("")},
		codes.NotFound: {ofHandle("volume"), ofGroup(volume), ofHandle(handle(serial, strings.Repeat("0", groupDigits))),
			ofHandle(handle(serial, strings.Repeat("0", idDigits))), ofGroup(handle(serial, strings.Repeat("0", groupDigits))),
			ofHandle(handle(strings.Repeat("0", serialDigits), idOf(volume)))},
	} {
		for _, source := range sources {
			_, resyncErr := one.resync(source, true, one.secrets)
			_, infoErr := one.info(source)
			_, destinationErr := one.destination(source)
			for at, err := range []error{one.enable(source, nil), one.disable(source, one.secrets), one.promote(source, true), one.demote(source, true),
				resyncErr, infoErr, destinationErr} {
				if err == nil {
					t.Errorf("call %d accepts %v", at, source)
				}
				want(t, code, err)
			}
		}
	}
	if made := one.replications(); len(made) != 0 {
		t.Fatalf("%+v", made)
	}
	for _, err := range []error{one.promote(of, true), one.demote(of, true)} {
		want(t, codes.FailedPrecondition, err)
	}
	_, err := one.info(of)
	want(t, codes.FailedPrecondition, err)
	_, err = one.destination(of)
	want(t, codes.FailedPrecondition, err)
	half := one.withoutPeer()
	half[secretPeerURL] = "https://127.0.0.1:1"
	want(t, codes.InvalidArgument, one.disable(of, half))
	_, err = one.client.EnableVolumeReplication(t.Context(), &replication.EnableVolumeReplicationRequest{ReplicationSource: of, ReplicationId: "other", Secrets: one.secrets})
	want(t, codes.FailedPrecondition, err)

	ok(t, one.enable(of, nil))
	if made := one.replications(); len(made) != 1 || made[0].RpoSeconds != defaultRPO {
		t.Errorf("%+v", made)
	}
	// An operator can create it; the rest needs the secret.
	one.healthy(of)
	one.secrets = nil
	err = one.demote(of, false)
	want(t, codes.PermissionDenied, err)
	if err == nil || !strings.Contains(err.Error(), secretToken) {
		t.Error(err)
	}
	one.secrets = map[string]string{secretToken: "ashlar_revoked"}
	want(t, codes.Unauthenticated, one.demote(of, false))
	if locked := one.volumes()[0].ReadOnly; locked {
		t.Error("a refused demotion made the volume read-only")
	}
}

func TestADriverSaysWhichAddonsItHas(t *testing.T) {
	one := newCluster(t, "one", rig.Start(t))
	about := got(one.identity.GetIdentity(t.Context(), &identity.GetIdentityRequest{}))(t)
	if about.GetName() != DriverName || about.GetVendorVersion() != array.Version {
		t.Error(about)
	}
	if said := got(one.identity.Probe(t.Context(), &identity.ProbeRequest{}))(t); !said.GetReady().GetValue() {
		t.Error("it is not ready")
	}
	controller := fmt.Sprint(got(one.identity.GetCapabilities(t.Context(), &identity.GetCapabilitiesRequest{}))(t))
	for part, there := range map[string]bool{"CONTROLLER_SERVICE": true, "VOLUME_REPLICATION": true, "GET_REPLICATION_DESTINATION_INFO": true, "MODIFY_VOLUME_GROUP": true, "NODE": false, "LINE": false} {
		if strings.Contains(controller, part) != there {
			t.Errorf("%s: %s", part, controller)
		}
	}
	one.Stop()
	if said := got(one.identity.Probe(t.Context(), &identity.ProbeRequest{}))(t); said.GetReady().GetValue() {
		t.Error("it is ready without its array")
	}
}

func TestSpaceIsReclaimedWhereTheVolumeIsMounted(t *testing.T) {
	running := rig.Start(t)
	node := newFakeNode()
	d, endpoint := serve(t, running, node)
	connection := got(grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() { _ = connection.Close() }()
	one := &cluster{Array: running, t: t, driver: d}
	volume := one.create("data")
	one.writes(volume, 1)
	controller := reclaimspace.NewReclaimSpaceControllerClient(connection)
	used := got(controller.ControllerReclaimSpace(t.Context(), &reclaimspace.ControllerReclaimSpaceRequest{VolumeId: volume}))(t)
	if used.GetPreUsage().GetUsageBytes() != 64<<10 || used.GetPostUsage().GetUsageBytes() != 64<<10 {
		t.Error(used)
	}
	_, err := controller.ControllerReclaimSpace(t.Context(), &reclaimspace.ControllerReclaimSpaceRequest{VolumeId: "volume"})
	want(t, codes.NotFound, err)

	trim := func(request *reclaimspace.NodeReclaimSpaceRequest) error {
		_, err := reclaimspace.NewReclaimSpaceNodeClient(connection).NodeReclaimSpace(t.Context(), request)
		return err
	}
	want(t, codes.NotFound, trim(&reclaimspace.NodeReclaimSpaceRequest{VolumeId: volume, StagingTargetPath: "/staging"}))
	ok(t, node.Stage(t.Context(), Staged{Volume: volume, StagingPath: "/staging"}))
	target, device := t.TempDir()+"/mount", t.TempDir()+"/device"
	ok(t, node.Publish(t.Context(), Published{Volume: volume, Target: target}))
	// As the sidecar asks, and as the specification says.
	ok(t, trim(&reclaimspace.NodeReclaimSpaceRequest{VolumeId: volume, StagingTargetPath: "/staging"}),
		trim(&reclaimspace.NodeReclaimSpaceRequest{VolumeId: volume, StagingTargetPath: "/staging", VolumePath: target}))
	if fmt.Sprint(node.trimmed) != fmt.Sprint([]string{"/staging", target}) {
		t.Error(node.trimmed)
	}
	ok(t, node.Publish(t.Context(), Published{Volume: volume, Target: device, Access: Access{Block: true}}))
	want(t, codes.Unimplemented, trim(&reclaimspace.NodeReclaimSpaceRequest{VolumeId: volume, VolumePath: device}))
	want(t, codes.InvalidArgument, trim(&reclaimspace.NodeReclaimSpaceRequest{VolumeId: volume}))
	want(t, codes.InvalidArgument, trim(&reclaimspace.NodeReclaimSpaceRequest{StagingTargetPath: "/staging"}))
	can := fmt.Sprint(got(identity.NewIdentityClient(connection).GetCapabilities(t.Context(), &identity.GetCapabilitiesRequest{}))(t))
	if !strings.Contains(can, "NODE_SERVICE") || !strings.Contains(can, "ONLINE") || strings.Contains(can, "OFFLINE") {
		t.Error(can)
	}
}

func TestSecretsOfReplicationAreNotLogged(t *testing.T) {
	request := &replication.PromoteVolumeRequest{ReplicationSource: ofHandle("volume"), Secrets: map[string]string{secretPeerToken: "ashlar_secret"}}
	if shown := protosanitizer.StripSecrets(request).String(); strings.Contains(shown, "ashlar_secret") || !strings.Contains(shown, "volume") {
		t.Error(shown)
	}
}
