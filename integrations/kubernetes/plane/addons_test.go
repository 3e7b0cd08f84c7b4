package plane

import (
	"context"
	"fmt"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	failures "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

// replicating are the values of a chart whose volumes are replicated to the other array.
const replicating = `
location: room-1
controller: {replicas: 1}
storageClasses:
  - {name: %[1]s, volumeBindingMode: Immediate, secret: chap}
volumeSnapshotClasses:
  - {name: %[1]s}
addons: {enabled: true, image: localhost/sidecar, controllerPort: %[2]d}
volumeReplicationClasses:
  - {name: %[1]s, secret: replication-%[1]s, parameters: {schedulingInterval: 1h}}
`

// groupClass is of groups of volumes; they have the parameters of the VolumeReplicationClass.
const groupClass = `
apiVersion: replication.storage.openshift.io/v1alpha1
kind: VolumeGroupReplicationClass
metadata: {name: first}
spec:
  provisioner: %[1]s
  parameters:
    replication.storage.openshift.io/group-replication-secret-name: replication-first
    replication.storage.openshift.io/group-replication-secret-namespace: %[2]s
---
apiVersion: replication.storage.openshift.io/v1alpha1
kind: VolumeGroupReplication
metadata: {name: database, namespace: %[3]s}
spec:
  volumeGroupReplicationClassName: first
  volumeReplicationClassName: first
  replicationState: primary
  autoResync: true
  source: {selector: {matchLabels: {app: database}}}
`

var (
	replicationKind = schema.GroupVersionResource{
		Group: "replication.storage.openshift.io", Version: "v1alpha1", Resource: "volumereplications",
	}
	groupKind = replicationKind.GroupVersion().WithResource("volumegroupreplications")
)

func (c *cluster) replications() dynamic.ResourceInterface { return c.of(replicationKind) }

func (c *cluster) of(kind schema.GroupVersionResource) dynamic.ResourceInterface {
	return c.dynamic.Resource(kind).Namespace(workNamespace)
}

// replicate creates the VolumeReplication of a claim.
func (c *cluster) replicate(t *testing.T, claim, class, state string) {
	t.Helper()
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": replicationKind.GroupVersion().String(), "kind": "VolumeReplication",
		"metadata": map[string]any{"name": claim},
		"spec": map[string]any{
			"volumeReplicationClass": class, "replicationState": state, "autoResync": true, "replicationHandle": "",
			"dataSource": map[string]any{"kind": "PersistentVolumeClaim", "name": claim},
		},
	}}
	if _, err := c.replications().Create(t.Context(), made, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// become asks for another state of a replication.
func (c *cluster) become(t *testing.T, claim, state string) {
	t.Helper()
	await(t, "the wanted state of "+claim, func(ctx context.Context) error {
		found, err := c.replications().Get(ctx, claim, meta.GetOptions{})
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(found.Object, state, "spec", "replicationState"); err != nil {
			return err
		}
		_, err = c.replications().Update(ctx, found, meta.UpdateOptions{})
		return err
	})
}

// reaches waits until a replication has a state, and conditions of these types are true for its present specification.
func (c *cluster) reaches(t *testing.T, claim, state string, conditions map[string]string) {
	t.Helper()
	c.reach(t, replicationKind, claim, state, conditions)
}

func (c *cluster) reach(t *testing.T, kind schema.GroupVersionResource, name, state string, conditions map[string]string) {
	t.Helper()
	await(t, name+" to be "+state, func(ctx context.Context) error {
		found, err := c.of(kind).Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return err
		}
		is, _, _ := unstructured.NestedString(found.Object, "status", "state")
		all, _, _ := unstructured.NestedSlice(found.Object, "status", "conditions")
		known := map[string]string{}
		for _, each := range all {
			if it, is := each.(map[string]any); is && it["observedGeneration"] == found.GetGeneration() {
				known[fmt.Sprint(it["type"])] = fmt.Sprint(it["status"])
			}
		}
		for condition, wanted := range conditions {
			if known[condition] != wanted {
				return not("it is %s, %+v", is, all)
			}
		}
		if is != state {
			return not("it is %s, %+v", is, all)
		}
		return nil
	})
}

// role waits until an array has a single replication, with a role.
func role(t *testing.T, of *rig.Array, wanted array.ReplicationRole, state array.ReplicationState) {
	t.Helper()
	await(t, fmt.Sprintf("a replication as %s, %s", wanted, state), func(ctx context.Context) error {
		all, err := of.API.AllReplications(ctx)
		if err != nil {
			return err
		}
		if len(all) != 1 || all[0].Role != wanted || all[0].Progress.State != state {
			return not("%+v", all)
		}
		return nil
	})
}

// TestReplication runs the controller and the sidecars of CSI-Addons: volumes are replicated from the array of one driver to that of
// the other, and change places.
func TestReplication(t *testing.T) {
	needed(t, DriverVariable)
	needed(t, HelmVariable)
	first, second := rig.StartPair(t)
	p := &plane{cluster: start(t)}
	p.startSnapshots(t)
	p.namespace(t, workNamespace)
	secrets(t, p.cluster)
	p.startAddons(t)
	for _, node := range []machine{nodeOne, nodeTwo} {
		p.node(t, node, driverName("first"), driverName("second"))
	}
	ports := freePorts(t, 2)
	p.replicationSecret(t, "replication-first", first, second)
	p.replicationSecret(t, "replication-second", second, first)
	p.first = siteOf(t, p.cluster, first, "first", fmt.Sprintf(replicating, "first", ports[0]), nil)
	p.second = siteOf(t, p.cluster, second, "second", fmt.Sprintf(replicating, "second", ports[1]), nil)

	p.claim(t, "data", "first", "1Gi")
	volume := p.bound(t, "data")
	p.writes(t, nodeOne, "data", volume, "write -P 1 0 64K")
	p.replicate(t, "data", "first", "primary")
	p.reaches(t, "data", "Primary", map[string]string{"Completed": "True"})
	role(t, first, array.ReplicationSource, array.ReplicationIdle)
	role(t, second, array.ReplicationTarget, array.ReplicationIdle)

	// The other site knows the volume by the handle that it has here.
	replica := p.replicaOf(t, volume)
	p.replicate(t, "replica", "second", "secondary")
	p.reaches(t, "replica", "Secondary", map[string]string{"Completed": "True"})

	// A planned failover, during which the sidecar is lost.
	p.first.lose(t, addonsContainer)
	p.become(t, "data", "secondary")
	p.first.regain(t, addonsContainer)
	p.reaches(t, "data", "Secondary", map[string]string{"Completed": "True"})
	p.become(t, "replica", "primary")
	p.second.lose(t, addonsContainer)
	p.second.regain(t, addonsContainer)
	p.reaches(t, "replica", "Primary", map[string]string{"Completed": "True"})
	p.writes(t, nodeTwo, "replica", replica, "read -P 1 0 64K", "write -P 2 0 64K")
	// The former source follows.
	role(t, first, array.ReplicationTarget, array.ReplicationIdle)
	role(t, second, array.ReplicationSource, array.ReplicationIdle)
	p.reaches(t, "data", "Secondary", map[string]string{"Resyncing": "False", "Degraded": "False"})

	// The return.
	p.become(t, "replica", "secondary")
	p.reaches(t, "replica", "Secondary", map[string]string{"Completed": "True"})
	p.become(t, "data", "primary")
	p.reaches(t, "data", "Primary", map[string]string{"Completed": "True"})
	p.writes(t, nodeOne, "data", volume, "read -P 2 0 64K")

	p.endReplication(t, replicationKind, "data")
	p.endReplication(t, replicationKind, "replica")
	p.noReplications(t)
	p.dropClaims(t, "data", "replica")
	p.replicatedGroup(t)
	p.rolesSuffice(t)
}

// noReplications checks that neither array has one.
func (p *plane) noReplications(t *testing.T) {
	t.Helper()
	for _, of := range []*site{p.first, p.second} {
		if all, err := of.array.API.AllReplications(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("replications are left: %+v, %v", all, err)
		}
	}
}

// replicatedGroup replicates the claims of a selector, and no others, as a whole.
func (p *plane) replicatedGroup(t *testing.T) {
	t.Helper()
	belongs := func(claim *core.PersistentVolumeClaim) { claim.Labels = map[string]string{"app": "database"} }
	p.claim(t, "log", "first", "1Gi", belongs)
	p.claim(t, "tables", "first", "1Gi", belongs)
	p.claim(t, "other", "first", "1Gi")
	wanted := []string{p.first.volume(t, p.bound(t, "log")).Name, p.first.volume(t, p.bound(t, "tables")).Name}
	p.bound(t, "other")
	slices.Sort(wanted)
	p.apply(t, fmt.Appendf(nil, groupClass, p.first.driver, chartNamespace, workNamespace))
	p.reach(t, groupKind, "database", "Primary", map[string]string{"Completed": "True"})
	role(t, p.first.array, array.ReplicationSource, array.ReplicationIdle)
	role(t, p.second.array, array.ReplicationTarget, array.ReplicationIdle)
	all, err := p.first.array.API.AllReplications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	group, err := array.Decode[array.Group](p.first.array.API.ShowGroup(t.Context(), array.Value(all[0].Group)))
	if err != nil {
		t.Fatal(err)
	}
	if found := slices.Sorted(slices.Values(group.Volumes)); !slices.Equal(found, wanted) {
		t.Errorf("the group has %v instead of %v", found, wanted)
	}
	p.endReplication(t, groupKind, "database")
	p.noReplications(t)
	p.dropClaims(t, "log", "tables", "other")
}

// addonsContainer is the name of the sidecar's container in the chart.
const addonsContainer = "csi-addons"

// lose ends a container of a site's pod as a crash does, and regain starts it again.
func (s *site) lose(t *testing.T, name string) {
	t.Helper()
	s.chart.replicas[0].containers[name].kill()
}

func (s *site) regain(t *testing.T, name string) {
	t.Helper()
	of := s.chart.replicas[0].containers[name]
	of.process = of.start()
}

// writes attaches the volume of a claim to a node, does what commands of qemu-io say, and detaches it.
func (p *plane) writes(t *testing.T, on machine, claim string, volume *core.PersistentVolume, commands ...string) {
	t.Helper()
	p.pod(t, on, "user", claim)
	on.disk(t, p.attached(t, on, volume), commands...)
	p.endPod(t, "user")
	p.detached(t, on, volume)
}

// replicaOf makes the PersistentVolume and the claim by which the second site uses the replica of a volume.
func (p *plane) replicaOf(t *testing.T, of *core.PersistentVolume) *core.PersistentVolume {
	t.Helper()
	made := of.DeepCopy()
	made.ObjectMeta = meta.ObjectMeta{Name: "replica"}
	made.Status = core.PersistentVolumeStatus{}
	made.Spec.CSI.Driver, made.Spec.StorageClassName = p.second.driver, "second"
	made.Spec.PersistentVolumeReclaimPolicy = core.PersistentVolumeReclaimRetain
	made.Spec.ClaimRef = &core.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: workNamespace, Name: "replica"}
	made.Spec.NodeAffinity = nil
	if _, err := p.api.CoreV1().PersistentVolumes().Create(t.Context(), made, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.claim(t, "replica", "second", "1Gi", func(claim *core.PersistentVolumeClaim) { claim.Spec.VolumeName = "replica" })
	return p.bound(t, "replica")
}

// endReplication deletes a VolumeReplication or that of a group, and waits until it has gone.
func (p *plane) endReplication(t *testing.T, kind schema.GroupVersionResource, name string) {
	t.Helper()
	if err := p.of(kind).Delete(t.Context(), name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the replication of "+name, func(ctx context.Context) error {
		_, err := p.of(kind).Get(ctx, name, meta.GetOptions{})
		if failures.IsNotFound(err) {
			return nil
		}
		return not("it is still there: %v", err)
	})
}
