package plane

import (
	"context"
	"testing"

	group "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ashlar/integrations/array"
)

func (p *plane) groups(t *testing.T) {
	member := map[string]string{"app": "database"}
	belongs := func(claim *core.PersistentVolumeClaim) { claim.Labels = member }
	p.claim(t, "log", "first", "1Gi", belongs)
	p.claim(t, "tables", "first", "1Gi", belongs)
	p.claim(t, "other", "first", "1Gi")
	log, tables := p.bound(t, "log"), p.bound(t, "tables")
	p.bound(t, "other")
	p.pod(t, nodeOne, "database", "log", "tables")
	nodeOne.disk(t, p.attached(t, nodeOne, log), "write -P 4 0 64K")
	nodeOne.disk(t, p.attached(t, nodeOne, tables), "write -P 5 0 64K")

	class := "first"
	made := &group.VolumeGroupSnapshot{
		ObjectMeta: meta.ObjectMeta{Name: "nightly"},
		Spec: group.VolumeGroupSnapshotSpec{
			VolumeGroupSnapshotClassName: &class,
			Source:                       group.VolumeGroupSnapshotSource{Selector: &meta.LabelSelector{MatchLabels: member}},
		},
	}
	groups := p.snapshots.GroupsnapshotV1().VolumeGroupSnapshots(workNamespace)
	if _, err := groups.Create(t.Context(), made, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the group snapshot", func(ctx context.Context) error {
		found, err := groups.Get(ctx, "nightly", meta.GetOptions{})
		if err != nil {
			return err
		}
		if found.Status == nil || found.Status.ReadyToUse == nil || !*found.Status.ReadyToUse {
			return not("%+v; %v", found.Status, p.events(ctx, "nightly"))
		}
		return nil
	})
	p.members(t, p.first.volume(t, log).ID, p.first.volume(t, tables).ID)

	// Each member is a VolumeSnapshot that can be restored.
	of := p.memberOf(t, "tables")
	nodeOne.disk(t, p.attached(t, nodeOne, tables), "write -P 6 0 64K")
	p.claim(t, "tables-restored", "first", "1Gi", from("VolumeSnapshot", of))
	restored := p.bound(t, "tables-restored")
	p.pod(t, nodeOne, "reader", "tables-restored")
	nodeOne.disk(t, p.attached(t, nodeOne, restored), "read -P 5 0 64K")

	p.endPod(t, "database")
	p.endPod(t, "reader")
	if err := groups.Delete(t.Context(), "nightly", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.dropClaims(t, "log", "tables", "other", "tables-restored")
}

// members checks that the array has snapshots of these volumes alone, all of one moment.
func (p *plane) members(t *testing.T, volumes ...string) {
	t.Helper()
	found, err := p.first.array.API.AllSnapshots(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]array.Snapshot{}
	for _, snapshot := range found {
		of[snapshot.SourceID] = snapshot
	}
	for _, volume := range volumes {
		snapshot, taken := of[volume]
		if !taken || !snapshot.Created.Equal(found[0].Created) || snapshot.Labels["csi.group"] == "" {
			t.Errorf("%s: %+v", volume, snapshot)
		}
	}
	if len(found) != len(volumes) {
		t.Errorf("%d snapshots, want %d", len(found), len(volumes))
	}
}

// memberOf waits for the VolumeSnapshot of a claim that a group snapshot made, and returns its name.
func (p *plane) memberOf(t *testing.T, claim string) (name string) {
	t.Helper()
	await(t, "the member of "+claim, func(ctx context.Context) error {
		list, err := p.snapshots.SnapshotV1().VolumeSnapshots(workNamespace).List(ctx, meta.ListOptions{})
		if err != nil {
			return err
		}
		for _, found := range list.Items {
			if source := found.Spec.Source.PersistentVolumeClaimName; source != nil && *source == claim {
				name = found.Name
				return nil
			}
		}
		return not("%+v", list.Items)
	})
	p.ready(t, name)
	return name
}
