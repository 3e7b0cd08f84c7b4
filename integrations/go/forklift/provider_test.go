package forklift

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

const (
	esxi  = "iqn.1998-01.com.vmware:esx-1"
	node  = "iqn.2001-04.org.example:node-1"
	group = "xcopy-host-12"
)

// site is an array with an ESXi host in a host group, a node of a cluster, and a volume that is connected to the node.
type site struct {
	*rig.Array
	esxi, node array.Host
	volume     array.Volume
	pv         PersistentVolume
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func start(t *testing.T) *site {
	t.Helper()
	made := &site{Array: rig.Start(t)}
	made.esxi, made.node = made.host(t, "esx-1", esxi), made.host(t, "node-1", node)
	hosts := nullable.NewNullableWithValue([]string{"esx-1"})
	must(array.Decode[array.HostGroup](made.API.CreateHostGroup(t.Context(), array.NewHostGroup{Name: "cluster", Hosts: hosts})))(t)
	made.volume = made.create(t, "pvc")
	made.connect(t, made.volume, made.node)
	status := must(made.API.Check(t.Context()))(t)
	made.pv = PersistentVolume{Name: "pv-1", VolumeHandle: status.ID + "-" + made.volume.ID}
	return made
}

func (s *site) host(t *testing.T, name, initiator string) array.Host {
	t.Helper()
	return must(array.Decode[array.Host](s.API.CreateHost(t.Context(), array.NewHost{Name: name, Initiators: []string{initiator}})))(t)
}

func (s *site) create(t *testing.T, name string) array.Volume {
	t.Helper()
	return must(array.Decode[array.Volume](s.API.CreateVolume(t.Context(), array.NewVolume{
		Name: name, Size: nullable.NewNullableWithValue[int64](64 << 20),
	})))(t)
}

func (s *site) connect(t *testing.T, volume array.Volume, host array.Host) {
	t.Helper()
	must(array.Decode[array.Attachment](s.API.CreateConnection(t.Context(), array.NewConnection{
		Volume: volume.ID, Host: nullable.NewNullableWithValue(host.ID),
	})))(t)
}

func (s *site) provider(t *testing.T) *Provider {
	t.Helper()
	ca := must(os.ReadFile(s.Access.CAFile))(t)
	return must(New(Config{Hostname: s.Access.URL, Token: s.Access.Token, CA: string(ca)}))(t)
}

// state is the volume as it is now.
func (s *site) state(t *testing.T) array.Volume {
	t.Helper()
	return must(array.Decode[array.Volume](s.API.ShowVolume(t.Context(), s.volume.ID)))(t)
}

// unchanged fails unless the volume is connected and labelled as it was before the migration.
func (s *site) unchanged(t *testing.T) {
	t.Helper()
	now := s.state(t)
	if len(now.Connections) != 1 || array.Value(now.Connections[0].HostID) != s.node.ID || len(now.Labels) != 0 {
		t.Fatalf("left: connections %+v, labels %v", now.Connections, now.Labels)
	}
}

// io does what commands of qemu-io say, as an initiator on its LUN of a volume.
func (s *site) io(t *testing.T, volume, initiator, host string, commands ...string) error {
	t.Helper()
	program, err := exec.LookPath("qemu-io")
	if err != nil {
		t.Skip("qemu-io is not installed: `cargo xtask setup` brings it")
	}
	attached, err := array.Decode[array.Attachment](s.API.ShowConnection(t.Context(), volume, host))
	if err != nil {
		return err
	}
	words := []string{"--image-opts", "driver=iscsi,transport=tcp,portal=" + s.Portals[0] + ",target=" + s.Target +
		",lun=" + strconv.Itoa(int(attached.Lun)) + ",initiator-name=" + initiator}
	for _, command := range commands {
		words = append(words, "-c", command)
	}
	out, err := exec.CommandContext(t.Context(), program, words...).CombinedOutput()
	if err != nil || bytes.Contains(out, []byte("Pattern verification failed")) {
		return errors.New(string(out))
	}
	return nil
}

// migrate calls what Forklift calls for one disk, in its order; `copied` is where ESXi clones.
func migrate(provider *Provider, pv PersistentVolume, copied func(LUN) error) (err error) {
	mapping, err := provider.EnsureClonnerIgroup(group, []string{esxi})
	if err != nil {
		return err
	}
	lun, err := provider.ResolvePVToLUN(pv)
	if err != nil {
		return err
	}
	groups, err := provider.CurrentMappedGroups(lun, mapping)
	if err != nil {
		return err
	}
	defer func() {
		failures := []error{err, provider.UnmapTarget(lun, mapping)}
		for _, group := range groups {
			_, again := provider.Map(group, lun, mapping)
			failures = append(failures, again)
		}
		err = errors.Join(failures...)
	}()
	if lun, err = provider.MapTarget(lun, mapping); err != nil {
		return err
	}
	return copied(lun)
}

func TestAMigrationConnectsTheHostOnlyForItsTime(t *testing.T) {
	s := start(t)
	provider := s.provider(t)
	err := migrate(provider, s.pv, func(lun LUN) error {
		if lun.NAA != s.volume.Naa || !strings.HasPrefix(lun.NAA, "naa.") || lun.IQN != s.Target {
			t.Errorf("%+v", lun)
		}
		return s.io(t, s.volume.ID, esxi, s.esxi.ID, "write -P 7 0 1M")
	})
	if err != nil {
		t.Fatal(err)
	}
	s.unchanged(t)
	if err := s.io(t, s.volume.ID, node, s.node.ID, "read -P 7 0 1M"); err != nil {
		t.Errorf("the node does not read what was cloned: %v", err)
	}
	if group := must(array.Decode[array.HostGroup](s.API.ShowHostGroup(t.Context(), "cluster")))(t); len(group.Hosts) != 1 {
		t.Errorf("the ESXi host is not in its group any more: %v", group.Hosts)
	}
	ports := must(provider.TargetPorts())(t)
	if len(ports) != 1 || ports[0] != s.Target {
		t.Errorf("target ports %v", ports)
	}
}

// failing refuses every request after the first ones, as a lost connection or a killed process does.
type failing struct {
	http.RoundTripper
	left int
}

func (f *failing) RoundTrip(request *http.Request) (*http.Response, error) {
	if f.left == 0 {
		return nil, errors.New("connection lost")
	}
	f.left--
	return f.RoundTripper.RoundTrip(request)
}

func TestAMigrationThatBrokeOffAnywhereLeavesNothingAfterTheNext(t *testing.T) {
	s := start(t)
	nothing := func(LUN) error { return nil }
	for requests := 0; ; requests++ {
		broken := s.provider(t)
		broken.api.http.Transport = &failing{RoundTripper: broken.api.http.Transport, left: requests}
		broken.api.delay = 0
		if err := migrate(broken, s.pv, nothing); err == nil {
			if requests < 5 {
				t.Errorf("a migration took only %d requests", requests)
			}
			break
		}
		if err := migrate(s.provider(t), s.pv, nothing); err != nil {
			t.Fatalf("after %d requests: %v", requests, err)
		}
		s.unchanged(t)
	}
}

func TestWhatAnOperatorConnectedStays(t *testing.T) {
	s := start(t)
	s.connect(t, s.volume, s.esxi)
	provider := s.provider(t)
	if err := migrate(provider, s.pv, func(LUN) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if now := s.state(t); len(now.Connections) != 2 {
		t.Errorf("connections %+v", now.Connections)
	}
	// The same through the host's group.
	if err := array.Done(s.API.DeleteConnection(t.Context(), s.volume.ID, s.esxi.ID)); err != nil {
		t.Fatal(err)
	}
	must(array.Decode[array.Attachment](s.API.CreateConnection(t.Context(), array.NewConnection{
		Volume: s.volume.ID, HostGroup: nullable.NewNullableWithValue("cluster"),
	})))(t)
	if err := migrate(provider, s.pv, func(LUN) error { return nil }); err != nil {
		t.Fatal(err)
	}
	now := s.state(t)
	if len(now.Connections) != 2 || len(now.Labels) != 0 {
		t.Errorf("connections %+v, labels %v", now.Connections, now.Labels)
	}
	mapping := must(provider.EnsureClonnerIgroup(group, []string{esxi}))(t)
	lun := must(provider.ResolvePVToLUN(s.pv))(t)
	groups := must(provider.CurrentMappedGroups(lun, mapping))(t)
	for _, group := range groups {
		if err := provider.UnMap(group, lun, mapping); err != nil {
			t.Fatal(err)
		}
	}
	if now := s.state(t); len(groups) != 2 || len(now.Connections) != 0 {
		t.Errorf("groups %v, connections %+v", groups, now.Connections)
	}
	for _, group := range groups {
		must(provider.Map(group, lun, mapping))(t)
	}
	if now := s.state(t); len(now.Connections) != 2 {
		t.Errorf("connections %+v", now.Connections)
	}
}

// disks is a vCenter that knows what disks lie on.
type disks map[string]*DiskBacking

func (d disks) GetVMDiskBacking(_ context.Context, _, disk string) (*DiskBacking, error) {
	if d[disk] == nil {
		return nil, errors.New("no such disk")
	}
	return d[disk], nil
}

func TestARawDeviceMappingIsCopiedByTheArray(t *testing.T) {
	s := start(t)
	provider := s.provider(t)
	source := s.create(t, "raw")
	s.connect(t, source, s.esxi)
	if err := s.io(t, source.ID, esxi, s.esxi.ID, "write -P 9 0 1M"); err != nil {
		t.Fatal(err)
	}
	digits := strings.TrimPrefix(source.Naa, "naa.")
	vsphere := disks{
		"naa":   {IsRDM: true, DeviceName: "/vmfs/devices/disks/" + source.Naa},
		"vml":   {IsRDM: true, DeviceName: "vml.0200010000" + digits + "566f6c756d65"},
		"other": {IsRDM: true, DeviceName: "naa." + strings.Repeat("6", 32)},
		"file":  {DeviceName: ""},
		"local": {IsRDM: true, DeviceName: "t10.ATA_disk"},
	}
	progress := make(chan uint64, 9)
	for _, disk := range []string{"naa", "vml"} {
		if err := s.io(t, s.volume.ID, node, s.node.ID, "write -P 1 0 1M"); err != nil {
			t.Fatal(err)
		}
		if err := provider.RDMCopy(vsphere, "vm-1", disk, s.pv, progress); err != nil {
			t.Fatal(err)
		}
		if err := s.io(t, s.volume.ID, node, s.node.ID, "read -P 9 0 1M"); err != nil {
			t.Errorf("%s: %v", disk, err)
		}
	}
	for _, disk := range []string{"other", "file", "local", "none"} {
		if err := provider.RDMCopy(vsphere, "vm-1", disk, s.pv, progress); err == nil {
			t.Errorf("%s was copied", disk)
		}
	}
	self := disks{"self": {IsRDM: true, DeviceName: s.volume.Naa}}
	if err := provider.RDMCopy(self, "vm-1", "self", s.pv, progress); err == nil {
		t.Error("a volume was copied onto itself")
	}
}

func TestWhatCanNotBeOffloadedSaysWhatToDo(t *testing.T) {
	s := start(t)
	provider := s.provider(t)
	for handle, part := range map[string]string{
		"pvc-0f3a": "csi.ashlar.io",
		strings.Repeat("0", 16) + "-" + s.volume.ID:       "must be of one array",
		provider.array.ID + "-" + strings.Repeat("0", 32): "pv-1",
	} {
		_, err := provider.ResolvePVToLUN(PersistentVolume{Name: "pv-1", VolumeHandle: handle})
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", handle, err)
		}
	}
	if _, err := provider.EnsureClonnerIgroup(group, []string{"iqn.1998-01.com.vmware:other"}); err == nil || !strings.Contains(err.Error(), "ashlar host create") {
		t.Error(err)
	}
	revoked := Config{Hostname: s.Access.URL, Token: "nothing", SkipVerification: true}
	if _, err := New(revoked); err == nil || !strings.Contains(err.Error(), "ashlar token create") {
		t.Error(err)
	}
	if _, err := New(Config{Hostname: s.Access.URL, Token: s.Access.Token}); err == nil && strings.HasPrefix(s.Access.URL, "https") {
		t.Error("an untrusted certificate was accepted")
	}
	s.Stop()
	if _, err := provider.ResolvePVToLUN(s.pv); err == nil || !strings.Contains(err.Error(), "can't be reached") {
		t.Error(err)
	}
}

func TestAnArrayOfAnotherAgeIsRefused(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(answer).Encode(map[string]any{"name": "old", "version": "9", "driver_api": map[string]int{"min": 2, "max": 3}})
	}))
	defer other.Close()
	if _, err := New(Config{Hostname: other.URL, Token: "t"}); err == nil || !strings.Contains(err.Error(), "2 to 3") {
		t.Error(err)
	}
	for _, config := range []Config{{Hostname: "a b", Token: "t"}, {Hostname: "array"}, {Hostname: "array", Token: "t", CA: "none"}, {Token: "t"}} {
		if _, err := newClient(config); err == nil {
			t.Errorf("%+v was accepted", config)
		}
	}
	if made := must(newClient(Config{Hostname: "10.0.0.1", Token: "t"}))(t); made.base != "https://10.0.0.1:8080" {
		t.Error(made.base)
	}
}

func TestAdaptersOfESXiAreFoundAsTheArrayWritesThem(t *testing.T) {
	known := host{Initiators: []string{esxi}, WWPNs: []string{"21:00:00:24:ff:00:00:01"}}
	adapters := []string{
		"IQN.1998-01.com.vmware:esx-1", "fc.2000002400000001:21000024ff000001", "iqn.other",
		"fc.21000024ff000001:2000002400000001",
	}
	var found []int
	for at, adapter := range adapters {
		if known.has(adapter) {
			found = append(found, at)
		}
	}
	if !slices.Equal(found, []int{0, 1}) {
		t.Errorf("found %v", found)
	}
}
