// Package plane tests the CSI driver in a Kubernetes control plane without nodes: etcd, kube-apiserver and
// kube-controller-manager, the snapshot controller, and the sidecars as the Helm chart starts them, all of them built from
// their own modules, on loopback.
//
// What a kubelet would do is missing: staging and mounting. `cargo xtask guest csi` has that part.
package plane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	snapshots "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	auth "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Ports are taken below those that the kernel gives to connections, so that no connection has one at the same time.
const (
	firstPort = 20000
	portCount = 10000
)

// controllers of kube-controller-manager: those that have to do with volumes, and those that make pods of the chart's
// Deployment. No node answers here, so the controllers that evict from such nodes are left out.
var controllers = []string{
	"persistentvolume-binder-controller", "persistentvolume-attach-detach-controller", "persistentvolume-expander-controller",
	"persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller",
	"volumeattributesclass-protection-controller", "deployment-controller", "replicaset-controller",
	"garbage-collector-controller", "namespace-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller",
}

// cluster is a control plane.
type cluster struct {
	folder    string
	authority *authority
	address   string

	config    *rest.Config
	api       *kubernetes.Clientset
	snapshots *snapshots.Clientset
	dynamic   *dynamic.DynamicClient
}

// start starts a control plane in a folder of its own, and ends it with the test.
func start(t testing.TB) *cluster {
	t.Helper()
	needed(t, ProgramsVariable)
	folder, err := os.MkdirTemp("", "plane-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	c := &cluster{folder: folder, authority: newAuthority(t, folder)}
	c.authority.issue(t, "etcd", "etcd")
	c.authority.issue(t, "apiserver", "kube-apiserver")
	c.authority.issue(t, "accounts", "accounts")
	c.authority.issue(t, "admin", "admin", "system:masters")
	c.authority.issue(t, "manager", "system:kube-controller-manager")
	ports := freePorts(t, 3)
	c.startEtcd(t, ports[0], ports[1])
	c.startServer(t, ports[0], ports[2])
	c.connect(t)
	c.startManager(t)
	return c
}

// freePorts returns free ports of loopback.
func freePorts(t testing.TB, count int) []int {
	t.Helper()
	var ports []int
	for range portCount {
		port := firstPort + rand.IntN(portCount)
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil || slices.Contains(ports, port) {
			continue
		}
		_ = listener.Close()
		if ports = append(ports, port); len(ports) == count {
			return ports
		}
	}
	t.Fatal("no port of loopback is free")
	return nil
}

func (c *cluster) startEtcd(t testing.TB, clients, peers int) {
	t.Helper()
	client, peer := fmt.Sprintf("https://127.0.0.1:%d", clients), fmt.Sprintf("http://127.0.0.1:%d", peers)
	// The module's last element without the version names what `go build` makes of it.
	launch(t, c.folder, "etcd", program(t, "server"), nil,
		"--data-dir="+filepath.Join(c.folder, "etcd"), "--name=plane", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=plane="+peer,
		"--client-cert-auth", "--trusted-ca-file="+c.authority.path("ca.pem"),
		"--cert-file="+c.authority.path("etcd.pem"), "--key-file="+c.authority.path("etcd-key.pem"))
}

func (c *cluster) startServer(t testing.TB, etcd, port int) {
	t.Helper()
	c.address = fmt.Sprintf("https://127.0.0.1:%d", port)
	path := c.authority.path
	launch(t, c.folder, "kube-apiserver", program(t, "kube-apiserver"), nil,
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", etcd), "--etcd-cafile="+path("ca.pem"),
		"--etcd-certfile="+path("apiserver.pem"), "--etcd-keyfile="+path("apiserver-key.pem"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/24",
		"--tls-cert-file="+path("apiserver.pem"), "--tls-private-key-file="+path("apiserver-key.pem"),
		"--client-ca-file="+path("ca.pem"), "--cert-dir="+c.folder,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+path("accounts-pub.pem"), "--service-account-signing-key-file="+path("accounts-key.pem"),
		"--authorization-mode=Node,RBAC", "--allow-privileged", "--profiling=false",
		"--audit-policy-file="+c.writePolicy(t), "--audit-log-path="+c.auditLog())
}

// connect makes clients of the administrator and waits until the API is ready.
func (c *cluster) connect(t testing.TB) {
	t.Helper()
	path := c.kubeconfig(t, "admin", &clientcmdapi.AuthInfo{
		ClientCertificate: c.authority.path("admin.pem"), ClientKey: c.authority.path("admin-key.pem"),
	})
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		t.Fatal(err)
	}
	// The test itself is not to be held up by its client.
	c.config.QPS = -1
	if c.api, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	if c.snapshots, err = snapshots.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	await(t, "kube-apiserver", func(ctx context.Context) error {
		return c.api.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (c *cluster) startManager(t testing.TB) {
	t.Helper()
	path := c.kubeconfig(t, "manager", &clientcmdapi.AuthInfo{
		ClientCertificate: c.authority.path("manager.pem"), ClientKey: c.authority.path("manager-key.pem"),
	})
	launch(t, c.folder, "kube-controller-manager", program(t, "kube-controller-manager"), nil,
		"--kubeconfig="+path, "--leader-elect=false", "--secure-port=0", "--use-service-account-credentials",
		"--service-account-private-key-file="+c.authority.path("accounts-key.pem"), "--root-ca-file="+c.authority.path("ca.pem"),
		"--flex-volume-plugin-dir="+filepath.Join(c.folder, "flex"), "--controllers="+strings.Join(controllers, ","))
}

// kubeconfig writes `NAME.conf` for a user of the cluster and returns its path.
func (c *cluster) kubeconfig(t testing.TB, name string, user *clientcmdapi.AuthInfo) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["plane"] = &clientcmdapi.Cluster{Server: c.address, CertificateAuthority: c.authority.path("ca.pem")}
	config.AuthInfos[name] = user
	config.Contexts["plane"] = &clientcmdapi.Context{Cluster: "plane", AuthInfo: name}
	config.CurrentContext = "plane"
	path := filepath.Join(c.folder, name+".conf")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// account writes a kubeconfig with a token of a service account: what it may do is what its roles say.
func (c *cluster) account(t testing.TB, namespace, name string) string {
	t.Helper()
	return c.kubeconfig(t, namespace+"-"+name, &clientcmdapi.AuthInfo{Token: c.token(t, namespace, name)})
}

func (c *cluster) token(t testing.TB, namespace, name string) string {
	t.Helper()
	token, err := c.api.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, &auth.TokenRequest{}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}

// mounted writes a folder with a service account as the kubelet mounts it into pods.
func (c *cluster) mounted(t testing.TB, namespace, name string) string {
	t.Helper()
	authority, err := os.ReadFile(c.authority.path("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp(c.folder, "account-")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"ca.crt": string(authority), "namespace": namespace, "token": c.token(t, namespace, name)} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// namespace creates a namespace.
func (c *cluster) namespace(t testing.TB, name string) {
	t.Helper()
	made := &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: name}}
	if _, err := c.api.CoreV1().Namespaces().Create(t.Context(), made, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// node makes a node known on which the drivers run, as the kubelet does when they register there.
func (c *cluster) node(t testing.TB, of machine, drivers ...string) {
	t.Helper()
	labels := map[string]string{}
	var registered []storage.CSINodeDriver
	for _, driver := range drivers {
		key := "topology." + driver + "/array"
		labels[key] = location
		registered = append(registered, storage.CSINodeDriver{Name: driver, NodeID: of.name + ";" + of.initiator, TopologyKeys: []string{key}})
	}
	// The attach-detach controller leaves nodes alone that do not ask for it.
	managed := map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: of.name, Labels: labels, Annotations: managed}}
	created, err := c.api.CoreV1().Nodes().Create(t.Context(), node, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner := meta.OwnerReference{APIVersion: "v1", Kind: "Node", Name: of.name, UID: created.UID}
	info := &storage.CSINode{ObjectMeta: meta.ObjectMeta{Name: of.name, OwnerReferences: []meta.OwnerReference{owner}}, Spec: storage.CSINodeSpec{Drivers: registered}}
	if _, err := c.api.StorageV1().CSINodes().Create(t.Context(), info, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
