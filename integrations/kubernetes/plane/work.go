package plane

import (
	"context"
	"strings"
	"testing"

	snapshot "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// workNamespace has the claims and pods of the tests.
const workNamespace = "work"

// claim creates a PersistentVolumeClaim, as a change of it says.
func (c *cluster) claim(t testing.TB, name, class, size string, changes ...func(*core.PersistentVolumeClaim)) {
	t.Helper()
	made := &core.PersistentVolumeClaim{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: core.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []core.PersistentVolumeAccessMode{core.ReadWriteOnce},
			Resources:        core.VolumeResourceRequirements{Requests: core.ResourceList{core.ResourceStorage: resource.MustParse(size)}},
		},
	}
	for _, change := range changes {
		change(made)
	}
	if _, err := c.api.CoreV1().PersistentVolumeClaims(workNamespace).Create(t.Context(), made, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// from makes a claim one for a copy: of a claim, or of a VolumeSnapshot.
func from(kind, name string) func(*core.PersistentVolumeClaim) {
	source := &core.TypedLocalObjectReference{Kind: kind, Name: name}
	if kind == "VolumeSnapshot" {
		group := snapshot.GroupName
		source.APIGroup = &group
	}
	return func(claim *core.PersistentVolumeClaim) { claim.Spec.DataSource = source }
}

// show returns a claim.
func (c *cluster) show(ctx context.Context, claim string) (*core.PersistentVolumeClaim, error) {
	return c.api.CoreV1().PersistentVolumeClaims(workNamespace).Get(ctx, claim, meta.GetOptions{})
}

// bound waits until a claim is bound, and returns its volume.
func (c *cluster) bound(t testing.TB, claim string) *core.PersistentVolume {
	t.Helper()
	var volume *core.PersistentVolume
	await(t, "claim "+claim+" to be bound", func(ctx context.Context) error {
		found, err := c.show(ctx, claim)
		if err != nil {
			return err
		}
		if found.Status.Phase != core.ClaimBound {
			return not("it is %s; %v", found.Status.Phase, c.events(ctx, claim))
		}
		volume, err = c.api.CoreV1().PersistentVolumes().Get(ctx, found.Spec.VolumeName, meta.GetOptions{})
		return err
	})
	return volume
}

// events returns the messages of the events of an object.
func (c *cluster) events(ctx context.Context, object string) []string {
	selector := fields.OneTermEqualSelector("involvedObject.name", object).String()
	list, err := c.api.CoreV1().Events(workNamespace).List(ctx, meta.ListOptions{FieldSelector: selector})
	if err != nil {
		return []string{err.Error()}
	}
	var messages []string
	for _, event := range list.Items {
		messages = append(messages, event.Reason+": "+event.Message)
	}
	return messages
}

// event waits until an event of an object has a text.
func (c *cluster) event(t testing.TB, object, text string) {
	t.Helper()
	await(t, "an event of "+object+" with "+text, func(ctx context.Context) error {
		messages := c.events(ctx, object)
		for _, message := range messages {
			if strings.Contains(message, text) {
				return nil
			}
		}
		return not("there are %q", messages)
	})
}

// pod creates a pod on a node that uses claims. Nothing runs it: the attach-detach controller attaches its volumes.
func (c *cluster) pod(t testing.TB, on machine, name string, claims ...string) {
	t.Helper()
	made := &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec:       core.PodSpec{NodeName: on.name, Containers: []core.Container{{Name: "main", Image: "none"}}},
	}
	for _, claim := range claims {
		made.Spec.Volumes = append(made.Spec.Volumes, core.Volume{Name: claim, VolumeSource: core.VolumeSource{
			PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	await(t, "pod "+name, func(ctx context.Context) error {
		// The namespace's service account comes a moment after the namespace.
		_, err := c.api.CoreV1().Pods(workNamespace).Create(ctx, made, meta.CreateOptions{})
		return err
	})
}

// endPod deletes a pod as the kubelet does when its containers have ended.
func (c *cluster) endPod(t testing.TB, name string) {
	t.Helper()
	now := int64(0)
	if err := c.api.CoreV1().Pods(workNamespace).Delete(t.Context(), name, meta.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
}

// attached waits until a volume is attached to a node, and returns what the node gets to find the device.
func (c *cluster) attached(t testing.TB, to machine, volume *core.PersistentVolume) map[string]string {
	t.Helper()
	var known map[string]string
	await(t, volume.Name+" to be attached", func(ctx context.Context) error {
		found := c.attachment(ctx, volume.Name, to.name)
		if found == nil {
			return not("no VolumeAttachment was made")
		}
		if !found.Status.Attached {
			return not("%+v", found.Status)
		}
		known = found.Status.AttachmentMetadata
		return nil
	})
	return known
}

// detached waits until a volume is no longer attached to a node.
func (c *cluster) detached(t testing.TB, from machine, volume *core.PersistentVolume) {
	t.Helper()
	await(t, volume.Name+" to be detached", func(ctx context.Context) error {
		if found := c.attachment(ctx, volume.Name, from.name); found != nil {
			return not("%+v; %+v", found.Spec, found.Status)
		}
		return nil
	})
}

func (c *cluster) attachment(ctx context.Context, volume, node string) *storage.VolumeAttachment {
	list, err := c.api.StorageV1().VolumeAttachments().List(ctx, meta.ListOptions{})
	if err != nil {
		return &storage.VolumeAttachment{Status: storage.VolumeAttachmentStatus{AttachError: &storage.VolumeError{Message: err.Error()}}}
	}
	for _, found := range list.Items {
		if name := found.Spec.Source.PersistentVolumeName; name != nil && *name == volume && found.Spec.NodeName == node {
			return &found
		}
	}
	return nil
}

// snapshot takes a snapshot of a claim and waits until it can be used.
func (c *cluster) snapshot(t testing.TB, name, claim, class string) *snapshot.VolumeSnapshot {
	t.Helper()
	c.takeSnapshot(t, name, claim, class)
	return c.ready(t, name)
}

// takeSnapshot asks for a snapshot of a claim.
func (c *cluster) takeSnapshot(t testing.TB, name, claim, class string) {
	t.Helper()
	made := &snapshot.VolumeSnapshot{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Spec: snapshot.VolumeSnapshotSpec{
			VolumeSnapshotClassName: &class,
			Source:                  snapshot.VolumeSnapshotSource{PersistentVolumeClaimName: &claim},
		},
	}
	client := c.snapshots.SnapshotV1().VolumeSnapshots(workNamespace)
	if _, err := client.Create(t.Context(), made, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ready waits until a VolumeSnapshot can be used.
func (c *cluster) ready(t testing.TB, name string) *snapshot.VolumeSnapshot {
	t.Helper()
	var found *snapshot.VolumeSnapshot
	await(t, "VolumeSnapshot "+name, func(ctx context.Context) (err error) {
		found, err = c.snapshots.SnapshotV1().VolumeSnapshots(workNamespace).Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return err
		}
		if found.Status == nil || found.Status.ReadyToUse == nil || !*found.Status.ReadyToUse {
			return not("%+v; %v", found.Status, c.events(ctx, name))
		}
		return nil
	})
	return found
}

// dropClaims deletes claims.
func (c *cluster) dropClaims(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := c.api.CoreV1().PersistentVolumeClaims(workNamespace).Delete(t.Context(), name, meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// left returns an error that names what the cluster still has of volumes.
func (c *cluster) left(ctx context.Context) error {
	volumes, err := c.api.CoreV1().PersistentVolumes().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for _, found := range volumes.Items {
		return not("PersistentVolume %s is %s: %s", found.Name, found.Status.Phase, found.Status.Message)
	}
	contents, err := c.snapshots.SnapshotV1().VolumeSnapshotContents().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for _, found := range contents.Items {
		return not("VolumeSnapshotContent %s: %+v", found.Name, found.Status)
	}
	groups, err := c.snapshots.GroupsnapshotV1().VolumeGroupSnapshotContents().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for _, found := range groups.Items {
		return not("VolumeGroupSnapshotContent %s: %+v", found.Name, found.Status)
	}
	attachments, err := c.api.StorageV1().VolumeAttachments().List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	for _, found := range attachments.Items {
		return not("VolumeAttachment %s: %+v", found.Name, found.Status)
	}
	return nil
}
