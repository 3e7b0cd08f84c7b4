package ucs

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

const (
	blade = "iqn.1992-08.com.cisco:ucs:blade-1"
	size  = "134217728"
)

// workflow runs the script and returns what it prints.
func workflow(t *testing.T, running *rig.Array, words ...string) (string, error) {
	t.Helper()
	for _, program := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	command := exec.CommandContext(t.Context(), "../../ucs/boot-lun.sh", words...)
	command.Env = append(os.Environ(), "ASHLAR_ARRAY="+running.Access.URL, "ASHLAR_TOKEN="+running.Access.Token,
		"ASHLAR_CERTIFICATE="+running.Access.CAFile)
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	return string(out) + said.String(), err
}

func must(t *testing.T, running *rig.Array, words ...string) string {
	t.Helper()
	out, err := workflow(t, running, words...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", words, err, out)
	}
	return out
}

// target is what `create` prints.
type target struct {
	Profile, Volume, NAA string
	LUN                  int
	Targets              []struct {
		IQN, Address string
		Port         int
	}
}

// boots writes as the blade does, at the first target that the workflow printed.
func boots(t *testing.T, out string) {
	t.Helper()
	var found target
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Targets) != 2 || found.LUN != 0 {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := exec.LookPath("qemu-io"); err != nil {
		t.Skip("qemu-io is not installed: `cargo xtask setup` brings it")
	}
	first := found.Targets[0]
	image := "driver=iscsi,transport=tcp,portal=" + first.Address + ":" + strconv.Itoa(first.Port) + ",target=" + first.IQN +
		",lun=0,initiator-name=" + blade
	if out, err := exec.CommandContext(t.Context(), "qemu-io", "--image-opts", image, "-c", "write -P 3 0 64K").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestABladeGetsItsBootLUNAndGivesItBack(t *testing.T) {
	running := rig.Start(t)
	out := must(t, running, "create", "blade-1", blade, size)
	boots(t, out)
	if again := must(t, running, "create", "blade-1", blade, size); again != out {
		t.Errorf("repeated it prints\n%s", again)
	}
	for range 2 {
		must(t, running, "delete", "blade-1", blade)
	}
	volumes, err := running.API.AllVolumes(t.Context(), "")
	hosts, failed := running.API.AllHosts(t.Context(), "")
	if err != nil || failed != nil || len(volumes) != 0 || len(hosts) != 0 {
		t.Errorf("left: %v, %v, %v, %v", volumes, hosts, err, failed)
	}
}

func TestABladeBootsFromACloneOfAnImage(t *testing.T) {
	running := rig.Start(t)
	golden := array.NewVolume{Name: "golden", Size: nullable.NewNullableWithValue[int64](128 << 20)}
	if _, err := array.Decode[array.Volume](running.API.CreateVolume(t.Context(), golden)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		boots(t, must(t, running, "create", "blade-1", blade, "--from", "golden"))
	}
}

func TestWhatBrokeOffIsCompletedOrTakenBack(t *testing.T) {
	running := rig.Start(t)
	// The initiator belongs to another host, so the second request fails after the first.
	other := array.NewHost{Name: "other", Initiators: []string{blade}}
	if _, err := array.Decode[array.Host](running.API.CreateHost(t.Context(), other)); err != nil {
		t.Fatal(err)
	}
	if out, err := workflow(t, running, "create", "blade-1", blade, size); err == nil || !strings.Contains(out, "POST /hosts") {
		t.Errorf("%v: %s", err, out)
	}
	must(t, running, "delete", "blade-1", blade)
	if volumes, err := running.API.AllVolumes(t.Context(), ""); err != nil || len(volumes) != 0 {
		t.Errorf("left: %v, %v", volumes, err)
	}
	if out, err := workflow(t, running, "create", "blade-1", blade, size); err == nil {
		t.Error(out)
	}
	if err := array.Done(running.API.DeleteHost(t.Context(), "other")); err != nil {
		t.Fatal(err)
	}
	boots(t, must(t, running, "create", "blade-1", blade, size))
}

func TestWhatTheWorkflowDidNotMakeIsNotTouched(t *testing.T) {
	running := rig.Start(t)
	made := array.NewVolume{Name: "boot-blade-1", Size: nullable.NewNullableWithValue[int64](128 << 20)}
	if _, err := array.Decode[array.Volume](running.API.CreateVolume(t.Context(), made)); err != nil {
		t.Fatal(err)
	}
	for _, verb := range [][]string{{"create", "blade-1", blade, size}, {"delete", "blade-1", blade}} {
		if out, err := workflow(t, running, verb...); err == nil || !strings.Contains(out, "was not made for server profile") {
			t.Errorf("%v: %s", err, out)
		}
	}
	if volumes, err := running.API.AllVolumes(t.Context(), ""); err != nil || len(volumes) != 1 {
		t.Errorf("%v, %v", volumes, err)
	}
	running.Stop()
	if out, err := workflow(t, running, "create", "blade-2", blade, size); err == nil || !strings.Contains(out, "can't be reached") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestWordsThatAreNotUnderstoodChangeNothing(t *testing.T) {
	running := rig.Start(t)
	must(t, running, "create", "blade-1", blade, size)
	for _, words := range [][]string{
		{"delete", "", blade}, {"delete", "blade-1?x=1", blade}, {"delete", "../hosts", blade}, {"delete", "blade-1", blade, "--dry-run"},
		{"create", "blade-2", blade}, {"create", "blade-2", blade, "--form", "golden"}, {"create", "blade-2", blade, size, "more"},
		{"own", "blade-1", blade}, {"remove", "blade-1", blade},
	} {
		if out, err := workflow(t, running, words...); err == nil {
			t.Errorf("%q: %s", words, out)
		}
	}
	volumes, err := running.API.AllVolumes(t.Context(), "")
	if err != nil || len(volumes) != 1 || volumes[0].Name != "boot-blade-1" {
		t.Errorf("%v, %v", volumes, err)
	}
}
