package plane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	failures "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	options "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/restmapper"
)

const (
	chartFolder = "../ashlar-csi"
	// chartNamespace is where the charts are installed.
	chartNamespace = "storage"
	// snapshotter has the snapshot controller with its roles, and the client module the definitions of its objects.
	snapshotter       = "github.com/kubernetes-csi/external-snapshotter/v8"
	snapshotterClient = "github.com/kubernetes-csi/external-snapshotter/client/v8"
	// metadata is the sidecar of changed blocks, which is built in a module of its own: it is made for earlier versions of others.
	// Its client module has the definition of its object.
	metadata       = "github.com/kubernetes-csi/external-snapshot-metadata"
	metadataClient = "github.com/kubernetes-csi/external-snapshot-metadata/client"
	metadataFolder = "sidecar"
	// loopback is the address of all pods, and mountPoint where programs in pods look for their service account.
	loopback   = "127.0.0.1"
	mountPoint = "/run/secrets/kubernetes.io/serviceaccount"
	// yamlBuffer is what the reader of YAML looks at to tell it from JSON, in bytes.
	yamlBuffer = 4096
)

// module returns the folder and the version of a module that the programs are built from.
func module(t testing.TB, path string) (folder, version string) {
	t.Helper()
	return moduleOf(t, ".", path)
}

// moduleOf does the same for a program that is built in a module of its own.
func moduleOf(t testing.TB, of, path string) (folder, version string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", path)
	command.Dir = of
	out, err := command.Output()
	words := strings.Fields(string(out))
	if err != nil || len(words) != 2 {
		t.Fatalf("module %s: %v, %s", path, err, out)
	}
	return words[0], words[1]
}

// apply creates the objects of a text in YAML, in its order.
func (c *cluster) apply(t testing.TB, text []byte) []*unstructured.Unstructured {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(c.api.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	var made []*unstructured.Unstructured
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), yamlBuffer)
	for {
		object := &unstructured.Unstructured{}
		if err := reader.Decode(object); errors.Is(err, io.EOF) {
			return made
		} else if err != nil {
			t.Fatal(err)
		}
		if object.GetKind() == "" {
			continue
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.resource(mapping, object.GetNamespace()).Create(t.Context(), object, options.CreateOptions{}); err != nil {
			t.Fatalf("%s %s: %v", kind.Kind, object.GetName(), err)
		}
		made = append(made, object)
	}
}

type creator interface {
	Create(context.Context, *unstructured.Unstructured, options.CreateOptions, ...string) (*unstructured.Unstructured, error)
}

func (c *cluster) resource(mapping *meta.RESTMapping, namespace string) creator {
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return c.dynamic.Resource(mapping.Resource)
	}
	if namespace == "" {
		namespace = core.NamespaceDefault
	}
	return c.dynamic.Resource(mapping.Resource).Namespace(namespace)
}

// startSnapshots defines the objects of snapshots and starts the snapshot controller, which a cluster has once.
func (c *cluster) startSnapshots(t testing.TB) {
	t.Helper()
	client, _ := module(t, snapshotterClient)
	definitions, err := filepath.Glob(filepath.Join(client, "config/crd/*.storage.k8s.io_*.yaml"))
	if err != nil || len(definitions) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, file := range definitions {
		c.applyFile(t, file)
	}
	for _, kind := range []string{"snapshot", "groupsnapshot"} {
		group := schema.GroupVersion{Group: kind + ".storage.k8s.io", Version: "v1"}
		await(t, "the definitions of snapshots", func(context.Context) error {
			_, err := c.api.Discovery().ServerResourcesForGroupVersion(group.String())
			return err
		})
	}
	folder, _ := module(t, snapshotter)
	c.applyFile(t, filepath.Join(folder, "deploy/kubernetes/snapshot-controller/rbac-snapshot-controller.yaml"))
	launch(t, c.folder, "snapshot-controller", program(t, "snapshot-controller"), nil,
		"--kubeconfig="+c.account(t, "kube-system", "snapshot-controller"),
		"--leader-election", "--leader-election-namespace=kube-system")
}

func (c *cluster) applyFile(t testing.TB, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c.apply(t, text)
}

// values are what a chart is installed with.
type values struct {
	Release string
	// Driver is the driver's name, URL where it finds the array's API, and Certificate what that shows.
	Driver, URL, Certificate string
	// Token is an API token of the array.
	Token string
	// Text has further values in YAML.
	Text string
	// Files have further secrets that are mounted, by name.
	Files map[string]string
}

// installed is a chart whose containers run as programs.
type installed struct {
	folder   string
	replicas []*replica
}

// replica is a pod of the chart's Deployment.
type replica struct {
	name       string
	containers map[string]*container
}

// container is a program of a pod, and how it is started.
type container struct {
	*process
	start func() *process
}

// kill ends all containers of a pod at once, as the loss of its node does.
func (r *replica) kill() {
	for _, each := range r.containers {
		each.kill()
	}
}

// install installs the chart, and runs the containers of its Deployment's pods as programs, with their own arguments and as the
// chart's service account.
func (c *cluster) install(t testing.TB, with values) *installed {
	t.Helper()
	made := &installed{folder: filepath.Join(c.folder, with.Release)}
	if err := os.Mkdir(made.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	// What the kubelet would mount from the secret.
	made.write(t, "tls.pem", with.Certificate)
	for name, text := range with.Files {
		made.write(t, name, text)
	}
	made.setToken(t, with.Token)
	made.write(t, "values.yaml", with.Text)
	words := []string{"template", with.Release, chartFolder, "--namespace", chartNamespace, "--kube-version", kubernetesVersion(t),
		"-f", filepath.Join(made.folder, "values.yaml"), "--set", "cluster=plane", "--set", "driver=" + with.Driver,
		"--set", "array.url=" + with.URL, "--set", "array.secret=" + with.Release, "--set", "sidecars.registry=localhost"}
	rendered, err := exec.CommandContext(t.Context(), needed(t, HelmVariable), words...).Output()
	if err != nil {
		t.Fatalf("helm: %v\n%s", err, stderr(err))
	}
	for _, object := range c.apply(t, rendered) {
		if object.GetKind() == "Deployment" {
			c.runPods(t, made, object.GetName())
		}
	}
	return made
}

func stderr(err error) []byte {
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.Stderr
	}
	return nil
}

func kubernetesVersion(t testing.TB) string {
	t.Helper()
	_, version := module(t, "k8s.io/kubernetes")
	return version
}

func (i *installed) write(t testing.TB, name, text string) {
	t.Helper()
	// As the kubelet does it, a reader sees the former content or the new one.
	path := filepath.Join(i.folder, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// setToken replaces the token of the array.
func (i *installed) setToken(t testing.TB, token string) {
	t.Helper()
	i.write(t, "token", token)
}

// runPods waits for the pods of a Deployment and runs their containers.
func (c *cluster) runPods(t testing.TB, in *installed, deployment string) {
	t.Helper()
	found, err := c.api.AppsV1().Deployments(chartNamespace).Get(t.Context(), deployment, options.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	selector := options.FormatLabelSelector(found.Spec.Selector)
	var pods *core.PodList
	await(t, "the pods of "+deployment, func(ctx context.Context) (err error) {
		if pods, err = c.api.CoreV1().Pods(chartNamespace).List(ctx, options.ListOptions{LabelSelector: selector}); err != nil {
			return err
		}
		if len(pods.Items) != int(*found.Spec.Replicas) {
			return not("there are %d", len(pods.Items))
		}
		return nil
	})
	for _, pod := range pods.Items {
		// All pods have the address of the machine.
		pod.Status.PodIP, pod.Status.PodIPs = loopback, []core.PodIP{{IP: loopback}}
		if _, err := c.api.CoreV1().Pods(chartNamespace).UpdateStatus(t.Context(), &pod, options.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		in.replicas = append(in.replicas, c.runPod(t, in, pod))
	}
}

// runPod runs the containers of a pod. They have the pod's name as host name: that is what sidecars call themselves when they
// elect a leader.
func (c *cluster) runPod(t testing.TB, in *installed, pod core.Pod) *replica {
	t.Helper()
	// A socket's path has at most 108 bytes, so the folder has a short name.
	folder, err := os.MkdirTemp(in.folder, "pod-")
	if err != nil {
		t.Fatal(err)
	}
	made := &replica{name: pod.Name, containers: map[string]*container{}}
	account := c.account(t, chartNamespace, pod.Spec.ServiceAccountName)
	for _, of := range pod.Spec.Containers {
		path, words := needed(t, DriverVariable), in.words(of, folder)
		variables := environment(t, pod, of)
		if sidecar := sidecarOf(t, of); sidecar == program(t, addonsSidecar) {
			path, words = sidecar, expanded(words, variables)
		} else if sidecar != "" {
			path, words = sidecar, append(words, "--kubeconfig="+account)
		}
		named, more := c.inPod(t, chartNamespace, pod.Spec.ServiceAccountName, pod.Name)
		named = append(append(named, path), words...)
		name := of.Name
		start := func() *process { return launch(t, folder, name, "unshare", append(variables, more...), named...) }
		made.containers[name] = &container{process: start(), start: start}
	}
	return made
}

// inPod returns the arguments of `unshare` for a program with a host name, and with a service account where programs in pods look for
// it, and the environment that says where kube-apiserver is.
func (c *cluster) inPod(t testing.TB, namespace, account, host string) (words, environment []string) {
	t.Helper()
	address, err := url.Parse(c.address)
	if err != nil {
		t.Fatal(err)
	}
	script := `hostname "$0" && mount -t tmpfs none /run && mkdir -p "$2" && cp "$1"/* "$2" && shift 2 && exec "$@"`
	return []string{"--user", "--map-root-user", "--uts", "--mount", "sh", "-c", script, host, c.mounted(t, namespace, account), mountPoint},
		[]string{"KUBERNETES_SERVICE_HOST=" + address.Hostname(), "KUBERNETES_SERVICE_PORT=" + address.Port()}
}

// expanded replaces references to variables in arguments, as the kubelet does.
func expanded(words, variables []string) []string {
	var made []string
	for _, word := range words {
		for _, variable := range variables {
			name, value, _ := strings.Cut(variable, "=")
			word = strings.ReplaceAll(word, "$("+name+")", value)
		}
		made = append(made, word)
	}
	return made
}

// words are the arguments of a container with paths of this machine instead of those of its mounts.
func (i *installed) words(container core.Container, folder string) []string {
	var words []string
	for _, word := range container.Args {
		word = strings.ReplaceAll(word, "/csi/csi.sock", filepath.Join(folder, "csi.sock"))
		for _, mount := range []string{"=/array/", "=/metadata/"} {
			word = strings.ReplaceAll(word, mount, "="+i.folder+"/")
		}
		words = append(words, word)
	}
	return words
}

// modules of the sidecars, whose versions are those of the images.
var modules = map[string]string{
	"csi-provisioner": "github.com/kubernetes-csi/external-provisioner/v6",
	"csi-attacher":    "github.com/kubernetes-csi/external-attacher/v4",
	"csi-resizer":     "github.com/kubernetes-csi/external-resizer/v2",
	"csi-snapshotter": snapshotter,

	"csi-snapshot-metadata": metadata,
	addonsSidecar:           addons,
}

// folders of those that are built in a module of their own.
var folders = map[string]string{metadata: metadataFolder, addons: addonsFolder}

// sidecarOf returns the program of a sidecar's container, and nothing for the driver's own. What is tested must be what the
// chart installs.
func sidecarOf(t testing.TB, container core.Container) string {
	t.Helper()
	image := regexp.MustCompile(`^localhost/([a-z-]+):(.+)$`).FindStringSubmatch(container.Image)
	if image == nil {
		return ""
	}
	path, known := modules[image[1]]
	if !known {
		t.Fatalf("the chart has a sidecar %s, which is not built here", image[1])
	}
	of := folders[path]
	if of == "" {
		of = "."
	}
	if _, version := moduleOf(t, of, path); version != image[2] {
		t.Fatalf("the chart has %s %s, and %s is built here: change go.mod or values.yaml", image[1], image[2], version)
	}
	return program(t, image[1])
}

// environment is the container's environment, as far as it comes from fields of its pod.
func environment(t testing.TB, pod core.Pod, container core.Container) []string {
	t.Helper()
	fields := map[string]string{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID), "spec.nodeName": nodeOne.name,
	}
	var set []string
	for _, variable := range container.Env {
		value := variable.Value
		if variable.ValueFrom != nil {
			known := variable.ValueFrom.FieldRef != nil && fields[variable.ValueFrom.FieldRef.FieldPath] != ""
			if !known {
				t.Fatalf("%s: what %s comes from is not known here", container.Name, variable.Name)
			}
			value = fields[variable.ValueFrom.FieldRef.FieldPath]
		}
		set = append(set, fmt.Sprintf("%s=%s", variable.Name, value))
	}
	return set
}

// exists reports an error of a look-up that must find nothing.
func exists(err error) error {
	switch {
	case err == nil:
		return not("it is still there")
	case failures.IsNotFound(err):
		return nil
	default:
		return err
	}
}
