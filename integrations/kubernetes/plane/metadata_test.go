package plane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubernetes-csi/external-snapshot-metadata/pkg/iterator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// startMetadata defines the object of the service of changed blocks and the role of its clients, and returns the values and files of a
// chart that has the service.
func (c *cluster) startMetadata(t *testing.T) (text string, files map[string]string) {
	t.Helper()
	client, _ := module(t, metadataClient)
	c.applyFile(t, filepath.Join(client, "config/crd/cbt.storage.k8s.io_snapshotmetadataservices.yaml"))
	folder, _ := module(t, metadata)
	c.applyFile(t, filepath.Join(folder, "deploy/snapshot-metadata-client-cluster-role.yaml"))
	await(t, "the definition of the service", func(ctx context.Context) error {
		_, err := c.api.Discovery().ServerResourcesForGroupVersion("cbt.storage.k8s.io/v1beta1")
		return err
	})
	c.authority.issue(t, "metadata", "metadata")
	read := func(name string) string {
		text, err := os.ReadFile(c.authority.path(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ports := freePorts(t, 2)
	text = fmt.Sprintf("snapshotMetadata: {enabled: true, secret: metadata, address: \"127.0.0.1:%d\", port: %d, healthPort: %d, caCert: %q}\n",
		ports[0], ports[0], ports[1], read("ca.pem"))
	return text, map[string]string{"tls.crt": read("metadata.pem"), "tls.key": read("metadata-key.pem")}
}

// metadata asks for the changed blocks of snapshots as a backup product does: with a token of its own, at the address and with the
// certificate that the cluster has.
func (p *plane) metadata(t *testing.T) {
	p.claim(t, "tracked", "second", "1Gi")
	volume := p.bound(t, "tracked")
	p.pod(t, nodeOne, "writer", "tracked")
	device := p.attached(t, nodeOne, volume)
	nodeOne.disk(t, device, "write -P 1 0 64K", "write -P 2 512M 4K")
	p.snapshot(t, "base", "tracked", "second")
	nodeOne.disk(t, device, "write -P 3 1M 8K", "discard 512M 4K")
	p.snapshot(t, "later", "tracked", "second")

	may, mayNot := p.client(t, "backup", true), p.client(t, "stranger", false)
	for _, want := range []struct {
		of      iterator.Args
		extents string
	}{
		{iterator.Args{SnapshotName: "base"}, "0+65536 536870912+4096"},
		{iterator.Args{SnapshotName: "later"}, "0+65536 1048576+8192"},
		{iterator.Args{SnapshotName: "later", PrevSnapshotName: "base"}, "1048576+8192 536870912+4096"},
		{iterator.Args{SnapshotName: "later", PrevSnapshotName: "base", MaxResults: 1, StartingOffset: 1056768}, "536870912+4096"},
	} {
		if got, err := may(want.of); err != nil || got != want.extents {
			t.Errorf("%+v: %q (%v), want %q", want.of, got, err, want.extents)
		}
	}
	if got, err := mayNot(iterator.Args{SnapshotName: "later", CSIDriver: p.second.driver}); status.Convert(err).Code() != codes.PermissionDenied {
		t.Errorf("a user without the role gets %q, %v", got, err)
	}
	if got, err := may(iterator.Args{SnapshotName: "none"}); err == nil {
		t.Errorf("a snapshot that is none has %q", got)
	}
	for _, name := range []string{"base", "later"} {
		if err := p.snapshots.SnapshotV1().VolumeSnapshots(workNamespace).Delete(t.Context(), name, meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.endPod(t, "writer")
	p.dropClaims(t, "tracked")
}

// client makes a service account with the role of clients, or one that may only find the service and ask for tokens, and returns what a
// backup product calls.
func (p *plane) client(t *testing.T, name string, allowed bool) func(iterator.Args) (string, error) {
	t.Helper()
	account := &core.ServiceAccount{ObjectMeta: meta.ObjectMeta{Name: name}}
	if _, err := p.api.CoreV1().ServiceAccounts(workNamespace).Create(t.Context(), account, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	role := "external-snapshot-metadata-client-runner"
	if !allowed {
		role = "token-only"
		made := &rbac.ClusterRole{ObjectMeta: meta.ObjectMeta{Name: role}, Rules: []rbac.PolicyRule{
			{APIGroups: []string{"cbt.storage.k8s.io"}, Resources: []string{"snapshotmetadataservices"}, Verbs: []string{"get", "list"}},
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
		}}
		if _, err := p.api.RbacV1().ClusterRoles().Create(t.Context(), made, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	binding := &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: name},
		Subjects:   []rbac.Subject{{Kind: "ServiceAccount", Namespace: workNamespace, Name: name}},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: role},
	}
	if _, err := p.api.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", p.account(t, workNamespace, name))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := iterator.BuildClients(config)
	if err != nil {
		t.Fatal(err)
	}
	return func(of iterator.Args) (string, error) {
		var found extents
		of.Clients, of.Emitter, of.Namespace, of.SANamespace, of.SAName = clients, &found, workNamespace, workNamespace, name
		err := iterator.GetSnapshotMetadata(t.Context(), of)
		return strings.Join(found, " "), err
	}
}

// extents are what a backup product gets.
type extents []string

// SnapshotMetadataIteratorRecord is called for each message.
func (e *extents) SnapshotMetadataIteratorRecord(_ int, message iterator.IteratorMetadata) error {
	if message.VolumeCapacityBytes != gib {
		return fmt.Errorf("the capacity is %d bytes", message.VolumeCapacityBytes)
	}
	for _, it := range message.BlockMetadata {
		*e = append(*e, fmt.Sprintf("%d+%d", it.ByteOffset, it.SizeBytes))
	}
	return nil
}

// SnapshotMetadataIteratorDone is called at the end.
func (e *extents) SnapshotMetadataIteratorDone(int) error { return nil }
