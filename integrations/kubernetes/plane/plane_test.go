package plane

import (
	"context"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ashlar/integrations/array"
)

const gib = 1 << 30

// Values of the two charts; the first one has the two replicas that are its default. The classes bind at once, but for one that waits for the node of a pod.
const (
	firstValues = `
location: room-1
storageClasses:
  - {name: first, volumeBindingMode: Immediate, secret: chap}
  - {name: first-late}
volumeSnapshotClasses:
  - {name: first}
volumeGroupSnapshotClasses:
  - {name: first}
volumeAttributesClasses:
  - {name: silver, parameters: {iops: "1000"}}
  - {name: gold, parameters: {iops: "20000", bandwidth: 1GiB}}
`
	secondValues = `
location: room-1
controller: {replicas: 1}
storageClasses:
  - {name: second, volumeBindingMode: Immediate}
volumeSnapshotClasses:
  - {name: second}
`
)

// plane is a control plane with two arrays, each of which has its own driver.
type plane struct {
	*cluster
	first, second *site
}

// TestPlane runs everything in one control plane: starting one takes longer than any of the tests.
func TestPlane(t *testing.T) {
	needed(t, DriverVariable)
	needed(t, HelmVariable)
	p := &plane{cluster: start(t)}
	p.startSnapshots(t)
	p.namespace(t, workNamespace)
	secrets(t, p.cluster)
	for _, node := range []machine{nodeOne, nodeTwo} {
		p.node(t, node, driverName("first"), driverName("second"))
	}
	text, files := p.startMetadata(t)
	p.first = newSite(t, p.cluster, "first", firstValues, nil)
	p.second = newSite(t, p.cluster, "second", secondValues+text, files)
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"VolumesAreClonedRestoredGrownAndDeleted", p.life},
		{"AttributesOfVolumesChangeWhileInUse", p.attributes},
		{"GroupSnapshotsAreOfOneMoment", p.groups},
		{"NodesShareWhatMayBeShared", p.modes},
		{"ALostNodeCanNotWriteWhenAnotherHasItsVolume", p.lostNode},
		{"LateBindingFollowsTheNode", p.lateBinding},
		{"ABackupProductGetsChangedBlocks", p.metadata},
		{"WhatOnlyOneSideKnowsIsFound", p.orphans},
		{"ALostResponseMakesNoSecondVolume", p.lostResponse},
		{"EachChangeWhoseResponseIsLostTakesEffectOnce", p.lostResponses},
		{"ARevokedTokenIsReplaced", p.revokedToken},
		{"AnArrayThatDiesIsWaitedForWhileAnotherServes", p.deadArray},
		// It ends half of the first driver's programs, so it is the last one.
		{"AReplicaTakesOver", p.lostReplica},
	} {
		passed := t.Run(test.name, func(t *testing.T) {
			test.run(t)
			p.nothingIsLeft(t)
		})
		if !passed {
			// What it left would fail the others.
			return
		}
	}
	p.rolesSuffice(t)
}

// nothingIsLeft waits until neither the cluster nor an array has anything of a test. What was deleted is in the recycle bin
// of the array.
func (p *plane) nothingIsLeft(t *testing.T) {
	t.Helper()
	await(t, "everything to be deleted", func(ctx context.Context) error {
		for _, left := range []func(context.Context) error{p.left, p.first.left, p.second.left} {
			if err := left(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// size checks the size of a PersistentVolume and of its volume on the array, in bytes.
func (p *plane) size(t *testing.T, volume *core.PersistentVolume, want int64) {
	t.Helper()
	capacity := volume.Spec.Capacity[core.ResourceStorage]
	if found := p.first.volume(t, volume); capacity.Value() != want || found.Size != want {
		t.Errorf("%s has %s, %d bytes on the array, and should have %d", volume.Name, capacity.String(), found.Size, want)
	}
}

func (p *plane) life(t *testing.T) {
	p.claim(t, "data", "first", "1Gi")
	data := p.bound(t, "data")
	p.size(t, data, gib)
	if labels := p.first.volume(t, data).Labels; labels["kubernetes.pvc"] != "data" || labels["kubernetes.namespace"] != workNamespace || labels["csi.cluster"] != "plane" {
		t.Errorf("%v", labels)
	}
	p.pod(t, nodeOne, "writer", "data")
	device := p.attached(t, nodeOne, data)
	nodeOne.disk(t, device, "write -P 1 0 64K")
	before := p.snapshot(t, "before", "data", "first")
	if size := before.Status.RestoreSize; size == nil || size.Value() != gib {
		t.Errorf("%+v", before.Status)
	}
	nodeOne.disk(t, device, "write -P 2 0 64K")

	// A clone that is larger than its source, and one of what was there before.
	p.claim(t, "clone", "first", "2Gi", from("PersistentVolumeClaim", "data"))
	p.claim(t, "restored", "first", "1Gi", from("VolumeSnapshot", "before"))
	clone, restored := p.bound(t, "clone"), p.bound(t, "restored")
	p.size(t, clone, 2*gib)
	p.size(t, restored, gib)
	p.pod(t, nodeOne, "reader", "clone", "restored")
	nodeOne.disk(t, p.attached(t, nodeOne, clone), "read -P 2 0 64K")
	nodeOne.disk(t, p.attached(t, nodeOne, restored), "read -P 1 0 64K")
	nodeOne.disk(t, device, "read -P 2 0 64K")

	p.ask(t, "data", "3Gi")
	p.grown(t, "data", "3Gi")
	p.size(t, p.bound(t, "data"), 3*gib)
	nodeOne.disk(t, device, "read -P 2 0 64K", "write -P 3 2G 64K")
	p.end(t, data)
}

// ask asks for another size of a claim.
func (p *plane) ask(t *testing.T, claim, size string) {
	t.Helper()
	claims := p.api.CoreV1().PersistentVolumeClaims(workNamespace)
	await(t, claim+" to be changed", func(ctx context.Context) error {
		found, err := p.show(ctx, claim)
		if err != nil {
			return err
		}
		found.Spec.Resources.Requests[core.ResourceStorage] = resource.MustParse(size)
		_, err = claims.Update(ctx, found, meta.UpdateOptions{})
		return err
	})
}

// grown waits for what is done without a kubelet: everything but the file system.
func (p *plane) grown(t *testing.T, claim, size string) {
	t.Helper()
	wanted := resource.MustParse(size)
	await(t, claim+" to grow", func(ctx context.Context) error {
		found, err := p.show(ctx, claim)
		if err != nil {
			return err
		}
		allocated := found.Status.AllocatedResources[core.ResourceStorage]
		status := found.Status.AllocatedResourceStatuses[core.ResourceStorage]
		if allocated.Cmp(wanted) != 0 || status != core.PersistentVolumeClaimNodeResizePending {
			return not("%+v; %v", found.Status, p.events(ctx, claim))
		}
		return nil
	})
}

// end deletes what the life of a volume made. The claim of a running pod outlives its deletion.
func (p *plane) end(t *testing.T, data *core.PersistentVolume) {
	t.Helper()
	p.dropClaims(t, "data")
	p.endPod(t, "reader")
	p.dropClaims(t, "clone", "restored")
	if err := p.snapshots.SnapshotV1().VolumeSnapshots(workNamespace).Delete(t.Context(), "before", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the others to be deleted", func(ctx context.Context) error {
		volumes, err := p.first.array.API.AllVolumes(ctx, "")
		if err != nil {
			return err
		}
		snapshots, err := p.first.array.API.AllSnapshots(ctx, "")
		if err != nil {
			return err
		}
		if len(volumes) != 1 || len(snapshots) != 0 {
			return not("%d volumes, %d snapshots", len(volumes), len(snapshots))
		}
		return nil
	})
	if found := p.first.volume(t, data); len(found.Connections) != 1 {
		t.Errorf("the claim of a running pod was deleted: %+v", found)
	}
	p.endPod(t, "writer")
	p.detached(t, nodeOne, data)
}

func (p *plane) attributes(t *testing.T) {
	class := "silver"
	p.claim(t, "fast", "first", "1Gi", func(claim *core.PersistentVolumeClaim) { claim.Spec.VolumeAttributesClassName = &class })
	volume := p.bound(t, "fast")
	if limits := p.first.volume(t, volume).Limits; array.Value(limits.Iops) != 1000 || array.Value(limits.Bandwidth) != 0 {
		t.Errorf("%+v", limits)
	}
	p.pod(t, nodeOne, "user", "fast")
	p.attached(t, nodeOne, volume)
	class = "gold"
	await(t, "the claim to be changed", func(ctx context.Context) error {
		found, err := p.show(ctx, "fast")
		if err != nil {
			return err
		}
		found.Spec.VolumeAttributesClassName = &class
		_, err = p.api.CoreV1().PersistentVolumeClaims(workNamespace).Update(ctx, found, meta.UpdateOptions{})
		return err
	})
	await(t, "the volume to be changed", func(ctx context.Context) error {
		found, err := p.show(ctx, "fast")
		if err != nil {
			return err
		}
		if now := found.Status.CurrentVolumeAttributesClassName; now == nil || *now != class {
			return not("%+v; %v", found.Status, p.events(ctx, "fast"))
		}
		return nil
	})
	if limits := p.first.volume(t, volume).Limits; array.Value(limits.Iops) != 20000 || array.Value(limits.Bandwidth) != gib {
		t.Errorf("%+v", limits)
	}
	p.endPod(t, "user")
	p.detached(t, nodeOne, volume)
	p.dropClaims(t, "fast")
}

func (p *plane) lateBinding(t *testing.T) {
	p.claim(t, "late", "first-late", "1Gi", func(claim *core.PersistentVolumeClaim) {
		// The scheduler's choice.
		claim.Annotations = map[string]string{"volume.kubernetes.io/selected-node": nodeOne.name}
	})
	volume := p.bound(t, "late")
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		t.Fatalf("%+v", volume.Spec)
	}
	terms := volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 1 || terms[0].MatchExpressions[0].Values[0] != location {
		t.Errorf("%+v", terms)
	}
	// What the scheduler compares with what pods ask for.
	await(t, "the capacity of the class", func(ctx context.Context) error {
		list, err := p.api.StorageV1().CSIStorageCapacities(chartNamespace).List(ctx, meta.ListOptions{})
		if err != nil {
			return err
		}
		for _, found := range list.Items {
			owned := len(found.OwnerReferences) == 1 && found.OwnerReferences[0].Kind == "Deployment"
			if found.StorageClassName == "first-late" && found.Capacity != nil && found.Capacity.Value() > gib && owned {
				return nil
			}
		}
		return not("%+v", list.Items)
	})
	p.dropClaims(t, "late")
}
