package plane

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ashlar/integrations/rig"
)

const (
	// addons has the controller and the sidecar of CSI-Addons, which are built in a module of their own.
	addons        = "github.com/csi-addons/kubernetes-csi-addons"
	addonsFolder  = "addons"
	addonsSidecar = "sidecar"
	// addonsNamespace and addonsAccount are where the controller's own manifests put it.
	addonsNamespace = "csi-addons-system"
	addonsAccount   = "csi-addons-controller-manager"
)

// startAddons defines the objects of CSI-Addons and starts its controller, which a cluster has once.
func (c *cluster) startAddons(t testing.TB) {
	t.Helper()
	folder, _ := moduleOf(t, addonsFolder, addons)
	definitions, err := filepath.Glob(filepath.Join(folder, "config/crd/bases/*.yaml"))
	if err != nil || len(definitions) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, file := range definitions {
		c.applyFile(t, file)
	}
	for _, group := range []string{"replication.storage.openshift.io/v1alpha1", "csiaddons.openshift.io/v1alpha1"} {
		await(t, "the definitions of CSI-Addons", func(context.Context) error {
			_, err := c.api.Discovery().ServerResourcesForGroupVersion(group)
			return err
		})
	}
	c.namespace(t, addonsNamespace)
	c.applyFile(t, filepath.Join(folder, "deploy/controller/rbac.yaml"))
	c.applyFile(t, filepath.Join(folder, "deploy/controller/csi-addons-config.yaml"))
	words, environment := c.inPod(t, addonsNamespace, addonsAccount, "csi-addons")
	words = append(words, program(t, "manager"), "--namespace="+addonsNamespace, "--health-probe-bind-address=0")
	launch(t, c.folder, "csi-addons", "unshare", environment, words...)
}

// replicationSecret has what a VolumeReplicationClass needs: tokens of administrators of both arrays, and access to the other one.
func (c *cluster) replicationSecret(t testing.TB, name string, own, peer *rig.Array) {
	t.Helper()
	certificate, err := os.ReadFile(peer.Access.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	made := &core.Secret{
		ObjectMeta: meta.ObjectMeta{Name: name},
		StringData: map[string]string{
			"token": own.Access.Token, "peerURL": peer.Access.URL, "peerToken": peer.Access.Token, "peerCertificate": string(certificate),
		},
	}
	if _, err := c.api.CoreV1().Secrets(chartNamespace).Create(t.Context(), made, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
