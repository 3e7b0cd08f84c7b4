package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/rollout"
	"ashlar/integrations/vsphere/vsim"
)

// run performs a command and returns what it printed, with its exit code.
func run(t *testing.T, words ...string) (string, int, error) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = file
	code, failure := perform(t.Context(), words)
	os.Stdout = before
	_ = file.Close()
	text, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), code, failure
}

func planted(t *testing.T) *vsim.VCenter {
	t.Helper()
	v := vsim.Start(t, 2)
	for _, host := range v.Hosts {
		host.Connect(vsim.Unit{Name: "naa.6a1b2c3d000000000000000000000001", Bytes: 1 << 30})
		host.Plant()
	}
	t.Setenv("VSPHERE_SERVER", v.Address)
	t.Setenv("VSPHERE_USER", vsim.User)
	t.Setenv("VSPHERE_PASSWORD", vsim.Password)
	t.Setenv("VSPHERE_THUMBPRINT", v.Thumbprint)
	t.Setenv("ASHLAR_ARRAY", "")
	return v
}

func TestExitCodesSayWhatACheckFound(t *testing.T) {
	v := planted(t)
	cluster := []string{"--cluster", vsim.Cluster, "--portals", "10.0.0.1:3260"}
	step := func(want int, words ...string) string {
		t.Helper()
		text, code, err := run(t, append(words, cluster...)...)
		if code != want || err != nil {
			t.Fatalf("%v: exit code %d, want %d (%v)\n%s", words, code, want, err, text)
		}
		return text
	}
	step(rollout.ExitDeviates, "check")
	if text := step(rollout.ExitDeviates, "apply"); !strings.Contains(text, "planned: ") || v.Hosts[0].Options["Disk.SchedQuantum"] != 8 {
		t.Errorf("without --yes: %s", text)
	}
	step(rollout.ExitClean, "apply", "--yes")
	var report rollout.Report
	if err := json.Unmarshal([]byte(step(rollout.ExitClean, "check", "--format", "json")), &report); err != nil || len(report.Hosts) != 2 {
		t.Error(err, report.Hosts)
	}
	v.Hosts[1].System.Runtime.ConnectionState = "notResponding"
	if text := step(rollout.ExitUnknown, "check"); !strings.Contains(text, "not read: "+v.Hosts[1].System.Name) {
		t.Error(text)
	}
}

func TestWrongCommandsAreRefusedWithAReason(t *testing.T) {
	planted(t)
	for want, words := range map[string][]string{
		"no such verb":         {"destroy"},
		"say which hosts":      {"check"},
		"no HostSystem":        {"check", "--host", "unknown"},
		"no format":            {"check", "--cluster", vsim.Cluster, "--format", "pdf"},
		"no setting":           {"apply", "--cluster", vsim.Cluster, "--settings", "colour"},
		"which datastore":      {"datastore", "create", "--size", "1TiB"},
		"no API token":         {"datastore", "list", "--array", "https://127.0.0.1:1"},
		"which virtual":        {"xcopy"},
		"is not expected here": {"datastore", "delete", "name", "again"},
		"no form":              {"script", "--language", "perl"},
		"5s":                   {"watch", "--interval", "1s"},
		"no SHA-256":           {"register", "--thumbprint", "12:34"},
		"no address of a plug": {"register", "--plugin", "http://10.0.0.1", "--plugin-certificate", os.Args[0]},
		"--plugin-certificate": {"register", "--plugin", "https://10.0.0.1/plugin.json"},
		"no arrays":            {"serve", "--config", "none.json", "--key-file", "none.key"},
		"which verb":           {"arrays"},
	} {
		_, code, err := run(t, words...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", words, err, want)
		}
		if code == rollout.ExitDeviates {
			t.Errorf("%v: a failure looks like a deviation", words)
		}
	}
}

func TestAPortalOfEveryAddressIsThatOfTheAPI(t *testing.T) {
	got := practice.Reachable([]string{"0.0.0.0:3260", "[::]:3261", "10.0.0.1:3260"}, "https://array.example:8080")
	if want := []string{"array.example:3260", "array.example:3261", "10.0.0.1:3260"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
