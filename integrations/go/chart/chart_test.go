// Package chart tests the Helm chart of the CSI driver: what it renders is read by the types of Kubernetes itself.
package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	groups "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	folder = "../../kubernetes/ashlar-csi"
	// kubernetes is the version that the chart is rendered for.
	kubernetes = "1.37.2"
)

// replicationClass is the type of CSI-Addons, whose module brings a Kubernetes operator with it.
type replicationClass struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Provisioner string            `json:"provisioner"`
		Parameters  map[string]string `json:"parameters"`
	} `json:"spec"`
}

// metadataService is the type of external-snapshot-metadata. The control plane has its definition.
type metadataService struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		Address  string `json:"address"`
		Audience string `json:"audience"`
		CACert   []byte `json:"caCert"`
	} `json:"spec"`
}

// kinds are the types of the objects that the chart has.
var kinds = map[string]func() any{
	"v1 Service":                                               func() any { return new(core.Service) },
	"v1 ServiceAccount":                                        func() any { return new(core.ServiceAccount) },
	"apps/v1 Deployment":                                       func() any { return new(apps.Deployment) },
	"apps/v1 DaemonSet":                                        func() any { return new(apps.DaemonSet) },
	"rbac.authorization.k8s.io/v1 ClusterRole":                 func() any { return new(rbac.ClusterRole) },
	"rbac.authorization.k8s.io/v1 ClusterRoleBinding":          func() any { return new(rbac.ClusterRoleBinding) },
	"rbac.authorization.k8s.io/v1 Role":                        func() any { return new(rbac.Role) },
	"rbac.authorization.k8s.io/v1 RoleBinding":                 func() any { return new(rbac.RoleBinding) },
	"storage.k8s.io/v1 CSIDriver":                              func() any { return new(storage.CSIDriver) },
	"storage.k8s.io/v1 StorageClass":                           func() any { return new(storage.StorageClass) },
	"storage.k8s.io/v1 VolumeAttributesClass":                  func() any { return new(storage.VolumeAttributesClass) },
	"snapshot.storage.k8s.io/v1 VolumeSnapshotClass":           func() any { return new(snapshots.VolumeSnapshotClass) },
	"groupsnapshot.storage.k8s.io/v1 VolumeGroupSnapshotClass": func() any { return new(groups.VolumeGroupSnapshotClass) },

	"replication.storage.openshift.io/v1alpha1 VolumeReplicationClass": func() any { return new(replicationClass) },
	"cbt.storage.k8s.io/v1beta1 SnapshotMetadataService":               func() any { return new(metadataService) },
}

func helm(t *testing.T, words ...string) (string, error) {
	t.Helper()
	program := os.Getenv("HELM")
	if program == "" {
		t.Skip("HELM does not name the program; `cargo xtask integrations csi` installs it")
	}
	out, err := exec.CommandContext(t.Context(), program, words...).CombinedOutput()
	return string(out), err
}

// render returns the objects that the chart has with the values of a file, by kind.
func render(t *testing.T, values string) map[string][]any {
	t.Helper()
	out, err := helm(t, "template", "test", folder, "--namespace", "storage", "--kube-version", kubernetes, "-f", filepath.Join(folder, "ci", values))
	if err != nil {
		t.Fatal(out)
	}
	objects := map[string][]any{}
	for _, text := range regexp.MustCompile(`(?m)^---$`).Split(out, -1) {
		var head meta.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if head.Kind == "" {
			continue
		}
		kind := head.APIVersion + " " + head.Kind
		make := kinds[kind]
		if make == nil {
			t.Fatalf("no type for %s", kind)
		}
		object := make()
		if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		objects[head.Kind] = append(objects[head.Kind], object)
	}
	return objects
}

func TestTheChartIsAccepted(t *testing.T) {
	for _, values := range []string{"full-values.yaml", "minimal-values.yaml"} {
		if out, err := helm(t, "lint", "--strict", folder, "--kube-version", kubernetes, "-f", filepath.Join(folder, "ci", values)); err != nil {
			t.Error(out)
		}
		objects := render(t, values)
		if len(objects["Deployment"]) != 1 || len(objects["DaemonSet"]) != 1 || len(objects["CSIDriver"]) != 1 {
			t.Errorf("%s: %v", values, objects)
		}
	}
}

func TestWhatIsNeededIsAskedFor(t *testing.T) {
	needed := []string{"cluster=c", "array.url=https://a", "array.secret=s", "sidecars.registry=r"}
	for at, one := range needed {
		words := []string{"template", "test", folder, "--kube-version", kubernetes}
		for _, set := range slices.Delete(slices.Clone(needed), at, at+1) {
			words = append(words, "--set", set)
		}
		name, _, _ := strings.Cut(one, "=")
		if out, err := helm(t, words...); err == nil || !strings.Contains(out, name+" is needed") {
			t.Errorf("without %s it says %s", name, out)
		}
	}
}

func TestPodsMayReadOnlyTheSecretsOfTheirClasses(t *testing.T) {
	secrets := map[string][]string{"test-ashlar-csi-controller": {"ashlar-chap", "ashlar-replication"}, "test-ashlar-csi-node": {"ashlar-chap"}}
	for _, object := range render(t, "full-values.yaml")["Role"] {
		role := object.(*rbac.Role)
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "secrets") && !slices.Equal(rule.ResourceNames, secrets[role.Name]) {
				t.Errorf("%s: %+v", role.Name, rule)
			}
		}
	}
	for _, object := range render(t, "full-values.yaml")["ClusterRole"] {
		for _, rule := range object.(*rbac.ClusterRole).Rules {
			if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "*") {
				t.Errorf("%+v", rule)
			}
		}
	}
}

func TestBackupProductsFindTheServiceOfTheDriver(t *testing.T) {
	objects := render(t, "full-values.yaml")
	if len(objects["SnapshotMetadataService"]) != 1 || len(objects["Service"]) != 1 {
		t.Fatalf("%+v", objects)
	}
	found, service := objects["SnapshotMetadataService"][0].(*metadataService), objects["Service"][0].(*core.Service)
	if found.Name != "csi.ashlar.io" || found.Spec.Audience != found.Name || string(found.Spec.CACert) != "-----BEGIN CERTIFICATE-----" ||
		found.Spec.Address != service.Name+"."+service.Namespace+":6443" {
		t.Errorf("%+v", found)
	}
	pod := objects["Deployment"][0].(*apps.Deployment).Spec.Template
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the service selects %s=%s, and pods have %v", key, value, pod.Labels)
		}
	}
	ports := 0
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			if port.ContainerPort == service.Spec.Ports[0].TargetPort.IntVal {
				ports++
			}
		}
	}
	if ports != 1 {
		t.Errorf("%d containers listen where the service leads", ports)
	}
	if left := render(t, "minimal-values.yaml"); len(left["Service"])+len(left["SnapshotMetadataService"]) != 0 {
		t.Errorf("%+v", left)
	}
}

func TestNodesHaveNoTokenWithoutAddons(t *testing.T) {
	for values, addons := range map[string]bool{"full-values.yaml": true, "minimal-values.yaml": false} {
		objects := render(t, values)
		pod := objects["DaemonSet"][0].(*apps.DaemonSet).Spec.Template.Spec
		if *pod.AutomountServiceAccountToken != addons || len(pod.Containers) > 1 != addons || len(objects["VolumeReplicationClass"]) > 0 != addons {
			t.Errorf("%s: %+v", values, pod)
		}
		if roles := len(objects["Role"]); roles > 1 != addons {
			t.Errorf("%s: %d roles", values, roles)
		}
	}
}

func TestTheArgumentsAreTheProgramsOwn(t *testing.T) {
	objects := render(t, "full-values.yaml")
	daemon := objects["DaemonSet"][0].(*apps.DaemonSet).Spec.Template.Spec.Containers[0].Args
	controller := objects["Deployment"][0].(*apps.Deployment).Spec.Template.Spec.Containers[0].Args
	program := filepath.Join(t.TempDir(), "ashlar-csi")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../cmd/ashlar-csi").CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	for _, words := range [][]string{daemon, controller} {
		known, _ := exec.CommandContext(t.Context(), program, words[0], "-h").CombinedOutput()
		for _, word := range words[1:] {
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if !regexp.MustCompile(`(?m)^  -` + name + `\b`).Match(known) {
				t.Errorf("%s has no option %s", words[0], word)
			}
		}
	}
}
