package script

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vmware/govmomi/cli/esx"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/rollout"
	"ashlar/integrations/vsphere/vcenter"
	"ashlar/integrations/vsphere/vsim"
)

// esxcliHost names the host for which the test's own program is its esxcli.
const esxcliHost = "VSIM_ESXCLI_HOST"

func TestMain(m *testing.M) {
	if host := os.Getenv(esxcliHost); host != "" {
		if err := esxcli(context.Background(), host, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// esxcli is the program of that name on a simulated host: it prints objects in blocks, as the real one does.
func esxcli(ctx context.Context, host string, words []string) error {
	client, err := vcenter.Connect(ctx, vcenter.Access{Address: os.Getenv("VSIM_ADDRESS"), User: vsim.User, Password: vsim.Password,
		Thumbprint: os.Getenv("VSIM_THUMBPRINT")})
	if err != nil {
		return err
	}
	defer client.Close()
	executor, err := esx.NewExecutor(ctx, client.Client.Client, types.ManagedObjectReference{Type: "HostSystem", Value: host})
	if err != nil {
		return err
	}
	for at, word := range words {
		// A flag has no value in the shell, and one in the API.
		if strings.HasPrefix(word, "--") && !strings.Contains(word, "=") {
			words[at] += "=true"
		}
	}
	response, err := executor.Run(ctx, words)
	if err != nil {
		return err
	}
	for _, row := range response.Values {
		if adapter := row.Value("Adapter"); adapter != "" {
			fmt.Println(adapter, row.Value("Driver"), row.Value("State"))
			continue
		}
		fmt.Println(row.Value("Device"))
		for name, values := range row {
			fmt.Printf("   %s: %s\n", name, strings.Join(values, " "))
		}
	}
	return nil
}

var want = practice.Want{Portals: []string{"10.0.0.1:3260"}}

func start(t *testing.T) (*vsim.VCenter, *vcenter.Client) {
	t.Helper()
	v := vsim.Start(t, 3)
	for _, host := range v.Hosts {
		host.Connect(vsim.Unit{Name: "naa.6a1b2c3d000000000000000000000001", Bytes: 1 << 30})
		host.Options["DataMover.HardwareAcceleratedMove"] = 0
	}
	client, err := vcenter.Connect(t.Context(), vcenter.Access{Address: v.Address, User: vsim.User, Password: vsim.Password, Thumbprint: v.Thumbprint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return v, client
}

// clean requires that a check finds nothing to do.
func clean(t *testing.T, client *vcenter.Client) {
	t.Helper()
	report, err := rollout.Check(t.Context(), client, vcenter.Scope{Cluster: vsim.Cluster}, want)
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range report.Findings {
		if finding.Verdict == practice.Deviates && !finding.Optional {
			t.Errorf("%s %s: %s, not %s", finding.Host, finding.Setting, finding.Current, finding.Recommended)
		}
	}
}

func written(t *testing.T, language string, settings ...string) string {
	t.Helper()
	text, err := Write(Request{Language: language, Want: want, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "settings")
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTheShellScriptMakesEveryHostCleanAndCanRunAgain(t *testing.T) {
	v, client := start(t)
	script := written(t, Shell)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	program := fmt.Sprintf("#!/bin/sh\nexec %q \"$@\"\n", self)
	if err := os.WriteFile(filepath.Join(bin, "esxcli"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, host := range v.Hosts {
			run := exec.CommandContext(t.Context(), "sh", script)
			run.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), esxcliHost+"="+host.System.Self.Value,
				"VSIM_ADDRESS="+v.Address, "VSIM_THUMBPRINT="+v.Thumbprint)
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	clean(t, client)
	if rules := v.Hosts[0].Rules; len(rules) != 1 || rules[0].Model != practice.Product {
		t.Errorf("%+v", rules)
	}
}

// pythonVariable names a Python with pyvmomi.
const pythonVariable = "PYVMOMI"

func TestThePythonScriptMakesEveryHostCleanAndCanRunAgain(t *testing.T) {
	interpreter := os.Getenv(pythonVariable)
	if interpreter == "" {
		t.Skipf("%s names no Python with pyvmomi; `cargo xtask integrations vsphere` installs it", pythonVariable)
	}
	v, client := start(t)
	run := func(words ...string) string {
		words = append([]string{written(t, Python), "--vcenter", v.Address, "--user", vsim.User, "--thumbprint", v.Thumbprint,
			"--cluster", vsim.Cluster}, words...)
		command := exec.CommandContext(t.Context(), interpreter, words...)
		command.Env = append(os.Environ(), "VSPHERE_PASSWORD="+vsim.Password)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if out := run(); strings.Count(out, "would be changed") != 3 || v.Hosts[0].Options["Disk.SchedQuantum"] != 8 {
		t.Errorf("without --yes: %s", out)
	}
	run("--yes")
	run("--yes")
	clean(t, client)
}

// grammarVariable names a Python with the grammar of PowerShell. No PowerShell that could run PowerCLI can be had.
const grammarVariable = "POWERSHELL_GRAMMAR"

// powerShellParser ends with 1 and the place of the first error if its input is not PowerShell.
const powerShellParser = `
import sys, tree_sitter_powershell
from tree_sitter import Language, Parser
def first(node):
    if node.type == "ERROR" or node.is_missing:
        return node
    return next(filter(None, map(first, node.children)), None)
tree = Parser(Language(tree_sitter_powershell.language())).parse(sys.stdin.buffer.read())
wrong = first(tree.root_node)
if wrong is not None:
    sys.exit(f"line {wrong.start_point[0] + 1}: {wrong.text.decode()!r}")
`

func TestThePowerCLIScriptIsPowerShell(t *testing.T) {
	interpreter := os.Getenv(grammarVariable)
	if interpreter == "" {
		t.Skipf("%s names no Python with the grammar; `cargo xtask integrations vsphere` installs it", grammarVariable)
	}
	parse := func(text string) error {
		command := exec.CommandContext(t.Context(), interpreter, "-c", powerShellParser)
		command.Stdin = strings.NewReader(text)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	requests := []Request{{Language: PowerCLI}, {Language: PowerCLI, Want: want},
		{Language: PowerCLI, Want: practice.Want{Portals: []string{"10.9.8.7:3260", "[fd00::1]:3260"}, CHAPUser: "it's $(x) `n \"y\""}}}
	for _, setting := range practice.Table {
		if setting.Changeable() {
			requests = append(requests, Request{Language: PowerCLI, Settings: []string{setting.ID}, Want: requests[2].Want})
		}
	}
	for _, request := range requests {
		text, err := Write(request)
		if err != nil {
			t.Fatal(err)
		}
		// This grammar, unlike PowerShell, takes the 2 at the end of the name of a parameter for a redirection.
		text = strings.ReplaceAll(text, "Get-EsxCli -VMHost $VMHost -V2\n", "Get-EsxCli -VMHost $VMHost -V\n")
		if err := parse(text); err != nil {
			t.Errorf("%v: %v", request.Settings, err)
		}
		// A parser that accepts everything shows nothing.
		if parse(strings.TrimSuffix(strings.TrimSpace(text), "}")) == nil {
			t.Errorf("%v: a script without its last brace was accepted", request.Settings)
		}
	}
}

func TestEverySettingIsInEveryScript(t *testing.T) {
	for language := range templates {
		for _, setting := range practice.Table {
			if !setting.Changeable() {
				continue
			}
			text, err := Write(Request{Language: language, Settings: []string{setting.ID},
				Want: practice.Want{Portals: []string{"10.9.8.7:3260"}, CHAPUser: "someone"}})
			if err != nil {
				t.Fatal(err)
			}
			words := map[practice.Kind][]string{practice.SATPRule: {"satp", practice.SATP}, practice.VAAIRule: {practice.VAAIPlugin},
				practice.Discovery: {"10.9.8.7"}, practice.CHAP: {"someone"}, practice.Software: {"oftware"}}[setting.Kind]
			if words == nil {
				words = []string{setting.Recommended}
				if setting.Kind == practice.PathPolicy && language == PowerCLI {
					words = []string{"RoundRobin"}
				}
			}
			if slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) }) {
				t.Errorf("%s: %s has not %v", language, setting.ID, words)
			}
		}
	}
	for _, wrong := range []Request{{Language: "perl"}, {Language: Shell, Settings: []string{"none"}}, {Language: Shell, Settings: []string{practice.IDPaths}}} {
		if _, err := Write(wrong); err == nil {
			t.Errorf("%+v was accepted", wrong)
		}
	}
}

func TestASecretIsInNoScriptAndNamesAreQuoted(t *testing.T) {
	text, err := Write(Request{Language: Shell, Want: practice.Want{CHAPUser: "it's; reboot", Portals: []string{"$(reboot):3260"}}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, `'it'\''s; reboot'`) || !strings.Contains(text, "'$(reboot):3260'") {
		t.Error(text)
	}
}
