package plane

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"ashlar/integrations/array"
)

// orphans makes volumes and snapshots that one side has and the other has not, and lets `ashlar-csi orphans` find them.
func (p *plane) orphans(t *testing.T) {
	p.claim(t, "kept", "first", "1Gi")
	p.claim(t, "forgotten", "first", "1Gi")
	p.claim(t, "vanished", "first", "1Gi")
	p.claim(t, "elsewhere", "second", "1Gi")
	kept, forgotten, vanished := p.bound(t, "kept"), p.bound(t, "forgotten"), p.bound(t, "vanished")
	p.bound(t, "elsewhere")
	p.snapshot(t, "kept", "kept", "first")
	lost := p.forgetSnapshot(t, "kept")
	p.snapshot(t, "known", "kept", "first")
	p.forget(t, forgotten)
	if err := array.Done(p.first.array.API.DeleteVolume(t.Context(), p.first.volume(t, vanished).ID, nil)); err != nil {
		t.Fatal(err)
	}

	missing := "missing volume " + vanished.Spec.CSI.VolumeHandle + " persistentvolume/" + vanished.Name + " " + workNamespace + "/vanished"
	volume, snapshot := "volume "+forgotten.Spec.CSI.VolumeHandle, "snapshot "+lost
	p.finds(t, []string{volume, snapshot, missing}, "--older-than=0s")
	// What is young may be just being made.
	p.finds(t, []string{missing})
	p.finds(t, []string{volume, snapshot, missing}, "--older-than=0s", "--recycle")
	p.finds(t, []string{missing}, "--older-than=0s", "--recycle")
	// It can be had back.
	bin, err := array.Decode[array.RecycleBin](p.first.array.API.ListRecycleBin(t.Context(), nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, handle := range []string{forgotten.Spec.CSI.VolumeHandle, lost} {
		_, id, _ := strings.Cut(handle, "-")
		if !slices.ContainsFunc(bin.Items, func(it array.BinnedDisk) bool { return it.ID == id }) {
			t.Errorf("%s is not in the recycle bin: %+v", handle, bin.Items)
		}
	}
	p.first.volume(t, kept)
	if err := p.snapshots.SnapshotV1().VolumeSnapshots(workNamespace).Delete(t.Context(), "known", meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.dropClaims(t, "kept", "vanished", "elsewhere")
}

// forget makes the cluster lose a volume that the array keeps.
func (p *plane) forget(t *testing.T, volume *core.PersistentVolume) {
	t.Helper()
	retain := []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	volumes := p.api.CoreV1().PersistentVolumes()
	if _, err := volumes.Patch(t.Context(), volume.Name, types.MergePatchType, retain, meta.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	p.dropClaims(t, volume.Spec.ClaimRef.Name)
	await(t, volume.Name+" to be released", func(ctx context.Context) error {
		found, err := volumes.Get(ctx, volume.Name, meta.GetOptions{})
		if err != nil {
			return err
		}
		if found.Status.Phase != core.VolumeReleased {
			return not("it is %s", found.Status.Phase)
		}
		return nil
	})
	if err := volumes.Delete(t.Context(), volume.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, volume.Name+" to be gone", func(ctx context.Context) error {
		_, err := volumes.Get(ctx, volume.Name, meta.GetOptions{})
		return exists(err)
	})
}

// forgetSnapshot does the same with a VolumeSnapshot, and returns its handle.
func (p *plane) forgetSnapshot(t *testing.T, name string) string {
	t.Helper()
	name = *p.ready(t, name).Status.BoundVolumeSnapshotContentName
	contents := p.snapshots.SnapshotV1().VolumeSnapshotContents()
	retain := []byte(`{"spec":{"deletionPolicy":"Retain"}}`)
	found, err := contents.Patch(t.Context(), name, types.MergePatchType, retain, meta.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	snapshots := p.snapshots.SnapshotV1().VolumeSnapshots(workNamespace)
	if err := snapshots.Delete(t.Context(), found.Spec.VolumeSnapshotRef.Name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the VolumeSnapshot to be gone", func(ctx context.Context) error {
		_, err := snapshots.Get(ctx, found.Spec.VolumeSnapshotRef.Name, meta.GetOptions{})
		return exists(err)
	})
	if err := contents.Delete(t.Context(), name, meta.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, name+" to be gone", func(ctx context.Context) error {
		_, err := contents.Get(ctx, name, meta.GetOptions{})
		return exists(err)
	})
	return *found.Status.SnapshotHandle
}

// finds runs the verb with what kubectl would print, and compares what it lists.
func (p *plane) finds(t *testing.T, want []string, options ...string) {
	t.Helper()
	words := append([]string{"orphans", "--array=" + p.first.relay.url(), "--certificate=" + p.authority.path("ca.pem"),
		"--token-file=" + filepath.Join(p.first.chart.folder, "token"), "--cluster=plane", "--driver=" + p.first.driver}, options...)
	command := exec.CommandContext(t.Context(), needed(t, DriverVariable), words...)
	command.Stdin = strings.NewReader(p.printed(t))
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr(err))
	}
	var found []string
	for lines := json.NewDecoder(strings.NewReader(string(out))); lines.More(); {
		var it struct{ Kind, Handle, Object, Claim string }
		if err := lines.Decode(&it); err != nil {
			t.Fatal(err)
		}
		found = append(found, strings.TrimSpace(strings.Join([]string{it.Kind, it.Handle, it.Object, it.Claim}, " ")))
	}
	if !slices.Equal(found, want) {
		t.Errorf("%v finds\n%s\nand should find\n%s", options, strings.Join(found, "\n"), strings.Join(want, "\n"))
	}
}

// printed is what `kubectl get persistentvolumes,volumesnapshotcontents -o json` prints.
func (p *plane) printed(t *testing.T) string {
	t.Helper()
	var items []any
	volumes, err := p.api.CoreV1().PersistentVolumes().List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range volumes.Items {
		// Items of a list that was read by its type have none.
		it.TypeMeta = meta.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		items = append(items, it)
	}
	contents, err := p.snapshots.SnapshotV1().VolumeSnapshotContents().List(t.Context(), meta.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range contents.Items {
		it.TypeMeta = meta.TypeMeta{APIVersion: "snapshot.storage.k8s.io/v1", Kind: "VolumeSnapshotContent"}
		items = append(items, it)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(fmt.Errorf("the list: %w", err))
	}
	return string(text)
}
