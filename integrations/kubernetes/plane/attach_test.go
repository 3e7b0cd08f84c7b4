package plane

import (
	"context"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// modes checks that nodes share what may be shared, and that the array holds to what may only be read.
func (p *plane) modes(t *testing.T) {
	block := core.PersistentVolumeBlock
	p.claim(t, "shared", "first", "1Gi", func(claim *core.PersistentVolumeClaim) {
		claim.Spec.VolumeMode = &block
		claim.Spec.AccessModes = []core.PersistentVolumeAccessMode{core.ReadWriteMany}
	})
	shared := p.bound(t, "shared")
	p.pod(t, nodeOne, "migrated", "shared")
	p.pod(t, nodeTwo, "migrating", "shared")
	here, there := p.attached(t, nodeOne, shared), p.attached(t, nodeTwo, shared)
	for _, pod := range []string{"migrated", "migrating"} {
		// Both were attached at the same time.
		if messages := p.events(t.Context(), pod); strings.Contains(strings.Join(messages, " "), "FailedAttachVolume") {
			t.Errorf("%s: %q", pod, messages)
		}
	}
	nodeOne.disk(t, here, "write -P 1 0 64K")
	nodeTwo.disk(t, there, "read -P 1 0 64K", "write -P 2 0 64K")
	nodeOne.disk(t, here, "read -P 2 0 64K")
	p.endPod(t, "migrated")
	p.detached(t, nodeOne, shared)
	nodeTwo.disk(t, there, "write -P 3 0 64K")
	nodeOne.refused(t, here, "write -P 4 0 64K", "LUN")

	p.snapshot(t, "fixed", "shared", "first")
	p.claim(t, "library", "first", "1Gi", from("VolumeSnapshot", "fixed"), func(claim *core.PersistentVolumeClaim) {
		claim.Spec.VolumeMode = &block
		claim.Spec.AccessModes = []core.PersistentVolumeAccessMode{core.ReadOnlyMany}
	})
	library := p.bound(t, "library")
	p.pod(t, nodeOne, "reader", "library")
	p.pod(t, nodeTwo, "other-reader", "library")
	for _, node := range []machine{nodeOne, nodeTwo} {
		device := p.attached(t, node, library)
		node.refused(t, device, "write -P 5 0 64K", "write protected")
		node.look(t, device, "read -P 3 0 64K")
	}
	for _, pod := range []string{"migrating", "reader", "other-reader"} {
		p.endPod(t, pod)
	}
	if err := p.snapshots.SnapshotV1().VolumeSnapshots(workNamespace).Delete(t.Context(), "fixed", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.dropClaims(t, "shared", "library")
}

// lostNode loses a node whose volume is in use. Another one gets the volume only when an administrator has said that the node
// is off, and from then on the first one can't write.
func (p *plane) lostNode(t *testing.T) {
	p.claim(t, "moved", "first", "1Gi")
	volume := p.bound(t, "moved")
	p.pod(t, nodeOne, "old", "moved")
	before := p.attached(t, nodeOne, volume)
	nodeOne.disk(t, before, "write -P 1 0 64K")
	p.reports(t, nodeOne, core.UniqueVolumeName("kubernetes.io/csi/"+p.first.driver+"^"+volume.Spec.CSI.VolumeHandle))
	p.endPod(t, "old")
	p.pod(t, nodeTwo, "new", "moved")
	p.event(t, "new", "exclusively attached to one node")
	nodeOne.disk(t, before, "write -P 2 0 64K")

	off := core.Taint{Key: core.TaintNodeOutOfService, Value: "nodeshutdown", Effect: core.TaintEffectNoExecute}
	p.taint(t, nodeOne, off)
	after := p.attached(t, nodeTwo, volume)
	nodeOne.refused(t, before, "write -P 3 0 64K", "LUN")
	nodeTwo.disk(t, after, "read -P 2 0 64K", "write -P 4 0 64K")
	if found := p.first.volume(t, volume); len(found.Connections) != 1 {
		t.Errorf("%+v", found.Connections)
	}
	p.taint(t, nodeOne)
	p.reports(t, nodeOne)
	p.endPod(t, "new")
	p.dropClaims(t, "moved")
}

// reports says for a kubelet which volumes are mounted.
func (p *plane) reports(t *testing.T, node machine, volumes ...core.UniqueVolumeName) {
	t.Helper()
	await(t, "the status of "+node.name, func(ctx context.Context) error {
		found, err := p.api.CoreV1().Nodes().Get(ctx, node.name, meta.GetOptions{})
		if err != nil {
			return err
		}
		found.Status.VolumesInUse = volumes
		found.Status.Conditions = []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
		_, err = p.api.CoreV1().Nodes().UpdateStatus(ctx, found, meta.UpdateOptions{})
		return err
	})
}

// taint gives a node these taints and no others.
func (p *plane) taint(t *testing.T, node machine, taints ...core.Taint) {
	t.Helper()
	await(t, "the taints of "+node.name, func(ctx context.Context) error {
		found, err := p.api.CoreV1().Nodes().Get(ctx, node.name, meta.GetOptions{})
		if err != nil {
			return err
		}
		found.Spec.Taints = taints
		_, err = p.api.CoreV1().Nodes().Update(ctx, found, meta.UpdateOptions{})
		return err
	})
}
