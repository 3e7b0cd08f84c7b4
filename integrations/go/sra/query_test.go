package sra_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

// nowhere is a site without an array: what is asked about the adapter needs none.
func nowhere() *site {
	return &site{array: &rig.Array{Access: array.Access{URL: "https://127.0.0.1:1"}}, token: "secret-token", fingerprint: strings.Repeat("0", 64)}
}

// walk calls a function for every element.
func walk(n node, visit func(node)) {
	visit(n)
	for _, inner := range n.Nodes {
		walk(inner, visit)
	}
}

func TestEveryTextIsInTheStrings(t *testing.T) {
	at := nowhere()
	strings := map[string]string{}
	for _, it := range at.done(t, "queryStrings", "<Locale>en</Locale>").all("String") {
		strings[it.attr("id")] = it.Text
	}
	used := map[string]bool{}
	for _, name := range []string{"queryInfo", "queryCapabilities", "queryConnectionParameters", "queryErrorDefinitions"} {
		walk(at.done(t, name, ""), func(n node) {
			if id := n.attr("stringId"); id != "" {
				used[id] = true
				if strings[id] != n.Text || n.Text == "" {
					t.Errorf("%s: %q is %q, and %q in the strings", name, id, n.Text, strings[id])
				}
			}
		})
	}
	if len(used) != len(strings) {
		t.Errorf("%d strings, of which %d are used", len(strings), len(used))
	}
}

func TestEveryCommandThatIsOfferedIsThere(t *testing.T) {
	at := nowhere()
	offered := at.done(t, "queryCapabilities", "").all("Commands", "Command")
	if len(offered) < 18 {
		t.Errorf("%d commands", len(offered))
	}
	for _, it := range offered {
		name := it.attr("name")
		// Those that need the array get as far as its address.
		for _, code := range at.send(t, name, "").codes() {
			if code != "201" {
				t.Errorf("%s: error %s", name, code)
			}
		}
	}
	at.refused(t, 102, "formatEverything", "")
}

func TestWhatIsNoRequestIsAnExitCode(t *testing.T) {
	for _, text := range []string{"", "<Command/>", `<Command xmlns="http://www.vmware.com/srm/sra/v1"><Name>queryInfo</Name></Command>`,
		`<Command xmlns="http://www.vmware.com/srm/sra/v2"><Name>queryInfo</Name></Command>`} {
		process := exec.CommandContext(t.Context(), adapter)
		process.Stdin = bytes.NewBufferString(text)
		if out, err := process.CombinedOutput(); err == nil || !strings.Contains(string(out), "ashlar-sra: ") {
			t.Errorf("%q: %v, %s", text, err, out)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	p := newPair(t)
	defined := map[string]bool{}
	for _, it := range nowhere().done(t, "queryErrorDefinitions", "").all("ErrorDefinition") {
		defined[it.attr("code")] = true
	}
	refused := func(at *site, code int, name, parameters string) {
		t.Helper()
		if !defined[fmt.Sprint(code)] {
			t.Errorf("code %d is not defined", code)
		}
		at.refused(t, code, name, parameters)
	}
	changed := func(change func(*site)) *site {
		other := *p.one
		change(&other)
		return &other
	}
	wrong := changed(func(it *site) { it.fingerprint = strings.Repeat("ab", 32) })
	refused(wrong, 202, "discoverArrays", "")
	refused(changed(func(it *site) { it.fingerprint = "" }), 103, "discoverArrays", "")
	refused(changed(func(it *site) { it.fingerprint = "short" }), 103, "discoverArrays", "")
	refused(changed(func(it *site) { it.token = "ash_nothing" }), 203, "discoverArrays", "")
	stranger := &site{serial: "0000000000000000"}
	refused(p.one, 301, "discoverDevices", arrays(stranger, p.two))
	refused(p.one, 302, "discoverDevices", arrays(p.one, stranger))
	refused(p.one, 401, "syncOnce", arrays(p.one, p.two)+sourceGroups("0000000000000000"))
	refused(p.one, 411, "syncOnce", arrays(p.one, p.two)+`<SourceDevices><SourceDevice id="x"/></SourceDevices>`)

	synchronize(t, p.one, p.two, p.id(t))
	it := discover(t, p.one, p.two)
	refused(p.two, 403, "syncOnce", arrays(p.two, p.one)+sourceGroups(it.id))
	refused(p.one, 401, "failover", it.targetGroups(p.one))
	own := it
	own.key = p.one.serial + ":" + it.id
	refused(p.one, 404, "failover", own.targetGroups(p.one))
	foreign := it
	foreign.keys = []string{"nothing"}
	refused(p.two, 402, "checkFailover", foreign.targetGroups(p.two))
	fibre := strings.ReplaceAll(it.targetGroups(p.two), `type="iSCSI"`, `type="FC"`)
	refused(p.two, 409, "testFailoverStart", fibre)
	refused(p.one, 101, "querySyncStatus", arrays(p.one, p.two)+sourceGroups(it.id))

	// An operator may begin a test, and not fail over.
	made, err := array.Decode[array.APIToken](p.two.array.API.CreateToken(t.Context(), array.NewToken{Name: "srm",
		Role: nullable.NewNullableWithValue(array.RoleOperator)}))
	must(t, err)
	operator := *p.two
	operator.token = made.Secret.MustGet()
	operator.done(t, "testFailoverStart", it.targetGroups(&operator))
	p.two.done(t, "testFailoverStop", it.targetGroups(p.two))
	refused(&operator, 204, "failover", it.targetGroups(&operator))

	must(t, array.Done(p.one.array.API.PauseReplication(t.Context(), "prod")))
	refused(p.one, 408, "syncOnce", arrays(p.one, p.two)+sourceGroups(it.id))
}
