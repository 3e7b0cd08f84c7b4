package plane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

const (
	// location is the topology segment of the nodes, which reach both arrays.
	location = "room-1"
	// chapUser and chapSecret are what nodes log in to the first array with.
	chapUser, chapSecret = "kubernetes", "a-secret-of-tests"
	chapName             = "chap"
	tokenName            = "kubernetes"
)

// site is an array with its driver in the cluster. Its release, classes and driver have its name.
type site struct {
	name, driver string
	array        *rig.Array
	relay        *relay
	chart        *installed
}

// newSite starts an array and installs the chart for it, with values and files. What the driver sends passes a relay.
func newSite(t testing.TB, c *cluster, name, text string, files map[string]string) *site {
	t.Helper()
	return siteOf(t, c, rig.Start(t), name, text, files)
}

// siteOf installs the chart for an array that is there.
func siteOf(t testing.TB, c *cluster, of *rig.Array, name, text string, files map[string]string) *site {
	t.Helper()
	made := &site{name: name, driver: driverName(name), array: of}
	made.relay = newRelay(t, c.authority, made.array)
	trusted, err := os.ReadFile(c.authority.path("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	made.chart = c.install(t, values{
		Release: name, Driver: made.driver, URL: made.relay.url(), Certificate: string(trusted), Token: made.newToken(t), Text: text,
		Files: files,
	})
	return made
}

func driverName(site string) string { return site + ".csi.ashlar.io" }

// newToken creates the driver's token on the array.
func (s *site) newToken(t testing.TB) string {
	t.Helper()
	token, err := array.Decode[array.APIToken](s.array.API.CreateToken(t.Context(), array.NewToken{
		Name: tokenName, Role: nullable.NewNullableWithValue(array.RoleOperator),
	}))
	if err != nil {
		t.Fatal(err)
	}
	return array.Value(token.Secret)
}

// revokeToken deletes it. Drivers have no use for that call, so their client does not have it.
func (s *site) revokeToken(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, s.array.Access.URL+"/api/v1/tokens/"+tokenName, nil)
	if err != nil {
		return err
	}
	return array.Done(s.array.API.Client.Client.Do(request))
}

// volume returns the array's volume of a PersistentVolume.
func (s *site) volume(t testing.TB, of *core.PersistentVolume) array.Volume {
	t.Helper()
	if of.Spec.CSI == nil || of.Spec.CSI.Driver != s.driver {
		t.Fatalf("%s is none of %s: %+v", of.Name, s.driver, of.Spec.PersistentVolumeSource)
	}
	_, id, _ := strings.Cut(of.Spec.CSI.VolumeHandle, "-")
	volume, err := array.Decode[array.Volume](s.array.API.ShowVolume(t.Context(), id))
	if err != nil {
		t.Fatal(err)
	}
	return volume
}

// volumesOf returns the array's volumes that were made for a claim.
func (s *site) volumesOf(t testing.TB, claim string) []array.Volume {
	t.Helper()
	found, err := s.array.API.AllVolumes(t.Context(), array.LabelQuery(map[string]string{"kubernetes.pvc": claim}))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// left returns an error that names what the array has: volumes, snapshots and connections.
func (s *site) left(ctx context.Context) error {
	volumes, err := s.array.API.AllVolumes(ctx, "")
	if err != nil {
		return err
	}
	snapshots, err := s.array.API.AllSnapshots(ctx, "")
	if err != nil {
		return err
	}
	hosts, err := s.array.API.AllHosts(ctx, "")
	if err != nil {
		return err
	}
	var names []string
	for _, volume := range volumes {
		names = append(names, "volume "+volume.Name)
	}
	for _, snapshot := range snapshots {
		names = append(names, "snapshot "+snapshot.Name)
	}
	for _, host := range hosts {
		for _, connection := range host.Connections {
			names = append(names, fmt.Sprintf("connection of %s to %s", connection.Volume, host.Name))
		}
	}
	if len(names) > 0 {
		return not("array %s has %s", s.name, strings.Join(names, ", "))
	}
	return nil
}

// machine is a node of the cluster that nothing runs on. What its kernel would do on a device is done by qemu-io.
type machine struct {
	name, initiator string
}

// The nodes of the cluster.
var (
	nodeOne = machine{"node-1", "iqn.2001-04.org.example:node-1"}
	nodeTwo = machine{"node-2", "iqn.2001-04.org.example:node-2"}
)

// disk does what commands of qemu-io say on an attached volume.
func (m machine) disk(t testing.TB, attached map[string]string, commands ...string) {
	t.Helper()
	if out, err := m.io(t, attached, commands); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// look does the same on a device that may only be read.
func (m machine) look(t testing.TB, attached map[string]string, commands ...string) {
	t.Helper()
	if out, err := m.io(t, attached, commands, "--read-only"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// refused does what must fail.
func (m machine) refused(t testing.TB, attached map[string]string, command, why string) {
	t.Helper()
	if out, err := m.io(t, attached, []string{command}); err == nil || !strings.Contains(out, why) {
		t.Errorf("%s on %s: %v, want %q in\n%s", command, m.name, err, why, out)
	}
}

func (m machine) io(t testing.TB, attached map[string]string, commands []string, options ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("qemu-io")
	if err != nil {
		t.Fatal("qemu-io is not installed: `cargo xtask setup` brings it")
	}
	portal, _, _ := strings.Cut(attached["portals"], ",")
	image := fmt.Sprintf("driver=iscsi,transport=tcp,portal=%s,target=%s,lun=%s,initiator-name=%s,user=%s,password-secret=chap",
		portal, attached["targetIQN"], attached["lun"], m.initiator, chapUser)
	words := []string{"--object", "secret,id=chap,data=" + chapSecret, "--image-opts", image}
	words = append(words, options...)
	for _, command := range commands {
		words = append(words, "-c", command)
	}
	out, err := exec.CommandContext(t.Context(), program, words...).CombinedOutput()
	if err == nil && strings.Contains(string(out), "Pattern verification failed") {
		err = errors.New("other data")
	}
	return string(out), err
}

// secrets creates the chart's namespace with the CHAP user of its class.
func secrets(t testing.TB, c *cluster) {
	t.Helper()
	c.namespace(t, chartNamespace)
	made := &core.Secret{
		ObjectMeta: meta.ObjectMeta{Name: chapName},
		StringData: map[string]string{"chapUser": chapUser, "chapSecret": chapSecret},
	}
	if _, err := c.api.CoreV1().Secrets(chartNamespace).Create(t.Context(), made, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
