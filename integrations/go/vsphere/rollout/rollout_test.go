package rollout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/esxi"
	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/vcenter"
	"ashlar/integrations/vsphere/vsim"
)

const (
	first  = "naa.6a1b2c3d000000000000000000000001"
	second = "naa.6a1b2c3d000000000000000000000002"
	gib    = 1 << 30
)

var (
	cluster = vcenter.Scope{Cluster: vsim.Cluster}
	portals = []string{"10.0.0.1:3260", "10.0.1.1:3260"}
	with    = esxi.Change{Want: practice.Want{Portals: portals, CHAPUser: "esxi"}, CHAPSecret: "twelve-letters"}
)

func access(v *vsim.VCenter) vcenter.Access {
	return vcenter.Access{Address: v.Address, User: vsim.User, Password: vsim.Password, Thumbprint: v.Thumbprint}
}

func connect(t *testing.T, v *vsim.VCenter) *vcenter.Client {
	t.Helper()
	client, err := vcenter.Connect(t.Context(), access(v))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// planted is a cluster of three hosts that deviate in everything that a host can deviate in.
func planted(t *testing.T) (*vsim.VCenter, *vcenter.Client) {
	t.Helper()
	v := vsim.Start(t, 3)
	for _, host := range v.Hosts {
		host.Connect(vsim.Unit{Name: first, Bytes: gib})
		host.Connect(vsim.Unit{Name: second, Bytes: gib})
		host.Plant()
	}
	v.Hosts[1].Devices[0].Outstanding = 64
	v.Hosts[2].Devices[1].Paths = 2
	v.Hosts[2].Devices[1].Offload = "unsupported"
	v.Hosts[2].Publish()
	return v, connect(t, v)
}

func check(t *testing.T, client *vcenter.Client) Report {
	t.Helper()
	report, err := Check(t.Context(), client, cluster, with.Want)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// deviating are the settings of a host that deviate.
func deviating(report Report, host string) map[string]bool {
	found := map[string]bool{}
	for _, finding := range report.Findings {
		if finding.Host == host && finding.Verdict == practice.Deviates {
			found[finding.Setting] = true
		}
	}
	return found
}

func TestEveryPlantedDeviationIsFoundFixedAndThenGone(t *testing.T) {
	v, client := planted(t)
	report := check(t, client)
	for _, host := range v.Hosts {
		found := deviating(report, host.System.Name)
		for _, setting := range practice.Table {
			// The depth of Emulex queues is right by default, and manual settings were planted on one host.
			want := setting.Changeable() && setting.ID != "emulex-queue-depth" ||
				host == v.Hosts[2] && (setting.ID == practice.IDPaths || setting.ID == practice.IDOffload)
			if found[setting.ID] != want {
				t.Errorf("%s %s: deviates %t, want %t", host.System.Name, setting.ID, found[setting.ID], want)
			}
		}
	}
	if !deviating(report, "cluster")[practice.IDOutstanding] {
		t.Error("a cluster whose hosts differ was not noticed")
	}
	if report.Exit() != ExitDeviates {
		t.Errorf("exit code %d", report.Exit())
	}

	v.Hosts[2].Devices[1].Paths, v.Hosts[2].Devices[1].Offload = 4, "supported"
	v.Hosts[2].Publish()
	writes := v.Calls("UpdateOptions")
	dry, err := Apply(t.Context(), client, cluster, Plan{Change: with, DryRun: true})
	if err != nil || v.Calls("UpdateOptions") != writes || len(dry.Changes) == 0 || dry.Changes[0].Outcome != Planned {
		t.Fatalf("a dry run changed something, or said nothing: %v %v", err, dry.Changes)
	}
	applied, err := Apply(t.Context(), client, cluster, Plan{Change: with})
	if err != nil {
		t.Fatal(err)
	}
	if len(applied.Changes) != len(dry.Changes) {
		t.Errorf("%d changes, and the dry run had %d", len(applied.Changes), len(dry.Changes))
	}
	after := check(t, client)
	if after.Deviations() != 0 || after.Exit() != ExitClean {
		var out bytes.Buffer
		_ = after.Write(&out, Table, false)
		t.Errorf("still deviating:\n%s", out.String())
	}
	if v.Hosts[0].Modules["qlnativefc"] != "" {
		t.Error("an optional setting was changed without being named")
	}
	// Two is as good as one, but not beside it.
	v.Hosts[1].Devices[0].Switch = 2
	if report := check(t, client); !deviating(report, v.Hosts[1].System.Name)[practice.IDPathSwitch] || deviating(report, v.Hosts[0].System.Name)[practice.IDPathSwitch] {
		t.Error("hosts of one cluster differ, and the one that is not as recommended does not deviate")
	}
	if _, err := Apply(t.Context(), client, cluster, Plan{Change: with}); err != nil || v.Hosts[1].Devices[0].Switch != 1 || check(t, client).Exit() != ExitClean {
		t.Error("hosts of one cluster still differ", err)
	}
	again, err := Apply(t.Context(), client, cluster, Plan{Change: with})
	if err != nil || len(again.Changes) != 0 {
		t.Errorf("the second apply changed %v (%v)", again.Changes, err)
	}
}

func TestASettingThatIsNamedIsTheOnlyOneChanged(t *testing.T) {
	v, client := planted(t)
	host := vcenter.Scope{Host: v.Hosts[0].System.Name}
	report, err := Apply(t.Context(), client, host, Plan{Change: with, Settings: []string{"qlogic-queue-depth"}})
	if err != nil || len(report.Changes) != 1 || !report.Changes[0].Reboot {
		t.Fatal(report.Changes, err)
	}
	if got := v.Hosts[0].Modules["qlnativefc"]; got != "ql2xmaxqdepth=400" {
		t.Errorf("parameters %q", got)
	}
	// Another parameter of the driver stays.
	v.Hosts[0].Modules["lpfc"] = "lpfc_log_verbose=1 lpfc_lun_queue_depth=8"
	if _, err = Apply(t.Context(), client, host, Plan{Change: with, Settings: []string{"emulex-queue-depth"}}); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(v.Hosts[0].Modules["lpfc"])
	slices.Sort(words)
	if fmt.Sprint(words) != "[lpfc_log_verbose=1 lpfc_lun_queue_depth=128]" {
		t.Errorf("parameters %v", words)
	}
	if v.Hosts[0].Options["Disk.SchedQuantum"] != 8 || v.Hosts[1].Modules["qlnativefc"] != "" {
		t.Error("something else was changed")
	}
	for _, wrong := range []string{"no-such", practice.IDPaths} {
		if _, err := Apply(t.Context(), client, host, Plan{Settings: []string{wrong}}); err == nil {
			t.Errorf("%s was accepted", wrong)
		}
	}
}

func TestPermissionDeniedOnOneHostStopsThereAndSaysWhatWasDone(t *testing.T) {
	v, client := planted(t)
	v.Deny(v.Hosts[1].System.Name, true)
	report, err := Apply(t.Context(), client, cluster, Plan{Change: with})
	if err == nil || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), v.Hosts[1].System.Name) {
		t.Fatal(err)
	}
	outcomes := map[string]map[Outcome]int{}
	for _, step := range report.Changes {
		if outcomes[step.Host] == nil {
			outcomes[step.Host] = map[Outcome]int{}
		}
		outcomes[step.Host][step.Outcome]++
	}
	if done := outcomes[v.Hosts[0].System.Name]; len(done) != 1 || done[Changed] == 0 {
		t.Errorf("first host: %v", done)
	}
	if done := outcomes[v.Hosts[1].System.Name]; done[Changed] != 0 || done[Failed] != 1 || done[NotDone] == 0 {
		t.Errorf("second host: %v", done)
	}
	if done := outcomes[v.Hosts[2].System.Name]; len(done) != 1 || done[NotDone] == 0 {
		t.Errorf("third host: %v", done)
	}
	if v.Hosts[2].Options["Disk.SchedQuantum"] != 8 {
		t.Error("the third host was changed")
	}
	// With --keep-going the third one is.
	if _, err = Apply(t.Context(), client, cluster, Plan{Change: with, KeepGoing: true}); err == nil || v.Hosts[2].Options["Disk.SchedQuantum"] != 64 {
		t.Error("the third host was not changed", err)
	}
}

func TestAHalfAppliedChangeIsNamed(t *testing.T) {
	v, client := planted(t)
	v.Break("UpdateOptions", v.Hosts[0].System.Name)
	report, err := Apply(t.Context(), client, vcenter.Scope{Host: v.Hosts[0].System.Name}, Plan{Change: with})
	if err == nil {
		t.Fatal("no error")
	}
	count := map[Outcome]int{}
	for _, step := range report.Changes {
		count[step.Outcome]++
	}
	if count[Changed] == 0 || count[Failed] != 1 || count[NotDone] == 0 {
		t.Errorf("%v", report.Changes)
	}
	if v.Hosts[0].Devices[0].PSP != practice.RoundRobin || v.Hosts[0].Options["Disk.SchedQuantum"] != 8 {
		t.Error("the report does not fit what was done")
	}
	v.Mend("UpdateOptions")
	if _, err := Apply(t.Context(), client, cluster, Plan{Change: with}); err != nil {
		t.Error("a second run does not finish it:", err)
	}
}

func TestHostsInMaintenanceAndDisconnectedAreNamed(t *testing.T) {
	v, client := planted(t)
	v.Hosts[0].System.Runtime.InMaintenanceMode = true
	v.Hosts[1].System.Runtime.ConnectionState = types.HostSystemConnectionStateDisconnected
	report := check(t, client)
	if len(report.Unread) != 1 || !strings.Contains(report.Unread[0], "disconnected") || report.Exit() != ExitUnknown {
		t.Error(report.Unread, report.Exit())
	}
	if len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "maintenance") {
		t.Error(report.Notes)
	}
	if _, err := Apply(t.Context(), client, cluster, Plan{Change: with}); err != nil {
		t.Error(err)
	}
	if v.Hosts[1].Options["Disk.SchedQuantum"] != 8 || v.Hosts[2].Options["Disk.SchedQuantum"] != 64 {
		t.Error("wrong hosts were changed")
	}
	if v.Hosts[0].Options["Disk.SchedQuantum"] != 64 {
		t.Error("a host in maintenance mode was left out")
	}
}

func TestAnExpiredSessionIsNamedAndNothingIsReportedAsClean(t *testing.T) {
	v, client := planted(t)
	v.Expire()
	_, err := Check(t.Context(), client, cluster, with.Want)
	if err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("%v", err)
	}
	if err := client.LogIn(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(t, client)
}

func TestReportsHaveTheSameContentInEveryFormat(t *testing.T) {
	_, client := planted(t)
	report := check(t, client)
	for _, format := range []string{Table, JSON, HTML} {
		var out bytes.Buffer
		if err := report.Write(&out, format, true); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"sched-quantum", "16384", second, "not round robin"} {
			if !strings.Contains(out.String(), word) {
				t.Errorf("%s has no %q", format, word)
			}
		}
		if format == JSON && !json.Valid(out.Bytes()) {
			t.Error("no JSON")
		}
	}
	if err := report.Write(&bytes.Buffer{}, "pdf", true); err == nil {
		t.Error("a wrong format was accepted")
	}
}
