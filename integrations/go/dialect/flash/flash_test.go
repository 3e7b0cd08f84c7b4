package flash

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"ashlar/integrations/rig"
)

func TestFilters(t *testing.T) {
	it := object{
		"name": "CT0.ETH1", "iqns": []string{"iqn.1993-08.org.debian:01:a", "iqn.b"}, "is_local": true, "status": "ready",
		"eth": object{"subtype": "physical"}, "size": int64(7), "none": nil,
	}
	for text, wanted := range map[string]bool{
		"iqns='iqn.b' and is_local":     true,
		"iqns='IQN.B' and not is_local": false,
		"iqns='iqn'":                    false,
		"name='CT0.*'":                  true,
		"name='CT1.*'":                  false,
		"name=CT0.ETH1":                 true,
		"name='*/x'":                    false,
		"eth.subtype='lacp_bond' or eth.subtype='vif'":            false,
		"eth.subtype='vif' or eth.subtype='physical' and size=7":  true,
		"eth.subtype='physical' and size=8 or status = \"ready\"": true,
		"status!='ready'":   false,
		"none='x'":          false,
		"not none":          true,
		"name='CT?.ETH1'":   false,
		"name='[C]T0.ETH1'": false,
	} {
		fits, _, err := parseFilter(text)
		if err != nil || fits(it) != wanted {
			t.Error(text, err)
		}
	}
	for text, wanted := range map[string]string{
		"colour='red' and not is_local":      "is_local",
		"colour!='red' or name='a'":          "colour",
		"not not colour and size=7":          "colour",
		"not eth.subtype='vif' and name='x'": "eth.subtype",
		"name='a' and is_local and size=7":   "",
	} {
		if _, denied, err := parseFilter(text); err != nil || strings.Join(denied, ",") != wanted {
			t.Error(text, denied, err)
		}
	}
	for _, text := range []string{"name=", "name!=", "name= and size=7", "", "name='a", "name=='a' x", "(name='a')", "name='a' and", "name>3"} {
		if _, _, err := parseFilter(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

type client struct {
	*testing.T
	server *Server
	token  string
}

func (c *client) ask(method, path, sent string, wanted int) (map[string]any, string) {
	c.Helper()
	in := httptest.NewRequest(method, path, strings.NewReader(sent))
	in.Header.Set(sessionHeader, c.token)
	in.Header.Set(loginHeader, c.token)
	out := httptest.NewRecorder()
	c.server.ServeHTTP(out, in)
	text, _ := io.ReadAll(out.Body)
	var content map[string]any
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&content); err != nil || out.Code != wanted {
		c.Fatalf("%s %s: %d %s", method, path, out.Code, text)
	}
	return content, out.Header().Get(sessionHeader)
}

// initiators are set after a host was made, and may all be taken away.
func (c *client) initiators() {
	c.Helper()
	c.ask("POST", prefix+"hosts?names=bare", `{"personality":"esxi"}`, 200)
	for _, wanted := range []string{"[]", `["iqn.2026-01.test:one"]`, "[]"} {
		c.ask("PATCH", prefix+"hosts?names=bare", `{"iqns":`+wanted+`}`, 200)
		page, _ := c.ask("GET", prefix+"hosts?names=bare", "", 200)
		found, _ := json.Marshal(page["items"].([]any)[0].(map[string]any)["iqns"])
		if string(found) != wanted {
			c.Errorf("%s instead of %s", found, wanted)
		}
	}
	c.ask("DELETE", prefix+"hosts?names=bare", "", 200)
}

// TestEveryListIsAnswered asks for all lists, as exporters of metrics do, of an array with one of each object, and for those of an
// object that is not there.
func TestEveryListIsAnswered(t *testing.T) {
	on := rig.Start(t)
	access := on.Access
	access.Token = ""
	c := &client{t, New(access, slog.New(slog.DiscardHandler)), on.Access.Token}
	for _, made := range []struct{ path, sent string }{
		{"volume-groups?names=g", `{"qos":{"iops_limit":7000}}`}, {"volumes?names=g/a", `{"provisioned":1048576}`},
		{"hosts?names=h", `{"iqns":["iqn.2026-01.test:h"]}`}, {"host-groups?names=k", ""},
		{"host-groups/hosts?group_names=k&member_names=h", ""}, {"connections?volume_names=g/a&host_group_names=k", `{"lun":7}`},
		{"protection-groups?names=p", ""}, {"protection-groups/volumes?group_names=p&member_names=g/a", ""},
		{"protection-group-snapshots?source_names=p", `{"suffix":"s"}`},
	} {
		c.ask("POST", prefix+made.path, made.sent, 200)
	}
	items := func(name string) []any {
		page, _ := c.ask("GET", prefix+name, "", 200)
		return page["items"].([]any)
	}
	for operation := range operations {
		if name, is := strings.CutPrefix(operation, "GET "); is {
			items(name)
		}
	}
	for name, wanted := range map[string]string{
		"volumes/performance": "g/a", "hosts/performance": "h", "host-groups/performance": "k", "volume-groups/performance": "g",
		"protection-group-snapshots": "p.s", "volume-snapshots": "p.s.g/a",
	} {
		found := items(name)
		if len(found) != 1 || found[0].(map[string]any)["name"] != wanted {
			t.Errorf("%s: %v", name, found)
		}
		if name != "volume-snapshots" {
			if content, _ := c.ask("GET", prefix+name+"?names=none", "", 400); content["errors"] == nil {
				t.Errorf("%s: something that is not there", name)
			}
		}
	}
	its := items("connections?host_names=h")[0].(map[string]any)
	for field, wanted := range map[string]string{"volume": "g/a", "host": "h", "host_group": "k"} {
		if found := its[field].(map[string]any)["name"]; found != wanted {
			t.Errorf("the %s of the connection is %v", field, found)
		}
	}
	if its["lun"] != 7.0 {
		t.Errorf("the LUN is %v", its["lun"])
	}
}

// What a request has and its operation does not understand is refused, for every operation: ignored, it would mean everything.
func TestNothingIsIgnored(t *testing.T) {
	on := rig.Start(t)
	access := on.Access
	access.Token = ""
	c := &client{t, New(access, slog.New(slog.DiscardHandler)), on.Access.Token}
	c.ask("POST", prefix+"volumes?names=a", `{"provisioned":1048576}`, 200)
	c.ask("POST", prefix+"volume-groups?names=g", `{"qos":{}}`, 200)
	c.ask("PATCH", prefix+"volumes?names=a", `{"volume_group":{"name":"g"}}`, 200)
	tried := 0
	for operation, its := range operations {
		method, name, _ := strings.Cut(operation, " ")
		if its.takes == anything {
			continue
		}
		queries := []string{"colour=red", "ids=1", "name=a", "context_names=other", "continuation_token=x", "%zz=1"}
		if method == "GET" {
			queries = append(queries, "limit=", "filter=", "limit=1&limit=2", "sort=name", "total_item_count=maybe")
		} else {
			queries = append(queries, "filter=name='a'", "limit=1")
		}
		for _, parameter := range strings.Fields(its.takes) {
			queries = append(queries, parameter+"=", parameter+"=a&"+parameter+"=b")
			if slices.Contains(flags, parameter) {
				queries = append(queries, parameter+"=1", parameter+"=yes")
			}
			if strings.HasSuffix(parameter, "names") {
				queries = append(queries, parameter+"=a,", parameter+"=,")
			}
		}
		for _, query := range queries {
			c.ask(method, prefix+name+"?"+query, "", 400)
			tried++
		}
		if method != "GET" {
			c.ask(method, prefix+name, `{"colour":"red"}`, 400)
			c.ask(method, prefix+name, "", 400)
			c.ask(method, prefix+name+"?names=a&group_names=g&volume_names=a&resource_names=a&source_names=a", "{} {}", 400)
		}
	}
	if tried < 500 {
		t.Error("only", tried)
	}
	for path, sent := range map[string]string{
		"volumes?names=a":       `{"volume_group":{"id":"1"}}`,
		"volumes?names=g/a":     `{"volume_group":{}}`,
		"volumes?names=g/a ":    `{"qos":{"iops_limit":{}}}`,
		"volumes?names=g/a,":    `{"destroyed":true}`,
		"volumes?names=g%2Fa":   `{"destroyed":true,"name":"b"}`,
		"volume-groups?names=g": `{"destroyed":false}`,
	} {
		c.ask("PATCH", prefix+strings.ReplaceAll(path, " ", "%20"), sent, 400)
	}
	for path, sent := range map[string]string{
		"volumes?names=b":       `{"provisioned":1048576,"subtype":"protocol_endpoint"}`,
		"hosts?names=b":         `{"iqns":["iqn.2026-01.test:b"],"host_group":{"name":"k"}}`,
		"volume-groups?names=b": `{"qos":{},"destroyed":true}`,
		"connections?volume_names=a&host_names=h&host_group_names=g": ``,
	} {
		c.ask("POST", prefix+path, sent, 400)
	}
	seen, _ := c.ask("GET", prefix+"volumes?destroyed=False", "", 200)
	if found := seen["items"].([]any); len(found) != 1 || found[0].(map[string]any)["name"] != "g/a" {
		t.Error(seen)
	}
}

func TestRequestsThatAreWrong(t *testing.T) {
	on := rig.Start(t)
	access := on.Access
	access.Token = ""
	c := &client{t, New(access, slog.New(slog.DiscardHandler)), on.Access.Token}
	says := func(method, path, sent, text string) {
		t.Helper()
		content, _ := c.ask(method, path, sent, 400)
		if message := content["errors"].([]any)[0].(map[string]any)["message"].(string); !strings.Contains(message, text) {
			t.Errorf("%s %s: %s", method, path, message)
		}
	}
	if _, session := c.ask("POST", prefix+"login", "", 200); session != c.token {
		t.Error("a client has no session after its login")
	}
	says("GET", "/api/2.99/volumes", "", "nothing at this path")
	says("GET", prefix+"kmip", "", "not supported")
	says("GET", prefix+"volumes?names=a", "", "does not exist")
	says("GET", prefix+"volumes?names=", "", "name is empty")
	says("GET", prefix+"connections?host_names=a,", "", "name is empty")
	says("GET", prefix+"pods?names=a", "", "does not exist")
	says("GET", prefix+"protection-groups?names=a", "", "does not exist")
	says("POST", prefix+"protection-groups/volumes?group_names=p&member_names=a", "", "does not exist")
	says("POST", prefix+"protection-group-snapshots?source_names=p", `{"suffix":"s"}`, "does not exist")
	c.ask("POST", prefix+"protection-groups?names=p", "", 200)
	says("POST", prefix+"protection-groups?names=p", "", "already exists")
	says("POST", prefix+"protection-group-snapshots?source_names=p", `{"suffix":"s"}`, "no volumes")
	says("PATCH", prefix+"protection-groups?names=p", `{"replication_schedule":{"enabled":true}}`, "ashlar replication create")
	says("PATCH", prefix+"protection-groups?names=p", `{"snapshot_schedule":{"frequency":1}}`, "frequency")
	says("PATCH", prefix+"protection-group-snapshots?names=p.s", `{"destroyed":true}`, "does not exist")
	if page, _ := c.ask("GET", prefix+"volume-groups", "", 200); page["total_item_count"] != 0.0 {
		t.Error("a protection group is no volume group", page)
	}
	c.ask("PATCH", prefix+"protection-groups?names=p", `{"destroyed":true}`, 200)
	says("GET", prefix+"volumes?filter=name%3E3", "", "filter")
	says("GET", prefix+"volumes?limit=x", "", "Invalid")
	says("POST", prefix+"volumes?names=a", `{"provisioned":1048576,"colour":"red"}`, "colour")
	says("POST", prefix+"volumes?names=a", `{}`, "size or a source")
	says("POST", prefix+"volumes", `{"provisioned":1048576}`, "name is needed")
	says("POST", prefix+"volumes?names=c&add_to_protection_group_names=p", `{"provisioned":1048576}`, "does not exist")
	says("POST", prefix+"volumes?names=g/a", `{"provisioned":1048576}`, "does not exist")
	says("POST", prefix+"volumes?names=a", `{"provisioned":1048576,"qos":{"iops_limit":-1}}`, "")
	c.ask("POST", prefix+"volumes?names=a", `{"provisioned":1048576}`, 200)
	says("POST", prefix+"volumes?names=a", `{"provisioned":1048576}`, "already exists")
	c.ask("POST", prefix+"volume-snapshots?source_names=a", `{"suffix":"s"}`, 200)
	says("POST", prefix+"volume-snapshots?source_names=a", `{"suffix":"s"}`, "already exists")
	c.ask("PATCH", prefix+"volume-snapshots?names=a.s", `{"destroyed":true}`, 200)
	c.ask("GET", prefix+"volume-snapshots?names=a.s&destroyed=true", "", 200)
	c.ask("PATCH", prefix+"volume-snapshots?names=a.s", `{"destroyed":false}`, 200)
	says("PATCH", prefix+"volume-snapshots?names=a.s", `{"destroyed":false}`, "is not destroyed")
	says("GET", prefix+"volumes?names=g/a&destroyed=false", "", "does not exist")
	// None is made if one can't be.
	says("POST", prefix+"volumes?names=b,a", `{"provisioned":1048576}`, "already exists")
	says("GET", prefix+"volumes?names=b&destroyed=false", "", "does not exist")
	says("POST", prefix+"hosts?names=g,h,g", `{}`, "already exists")
	says("GET", prefix+"hosts?names=g", "", "Host does not exist.")
	says("POST", prefix+"connections?volume_names=a&host_names=h", "", "Host does not exist.")
	c.ask("POST", prefix+"hosts?names=h", `{"iqns":["iqn.2026-01.test:h"]}`, 200)
	says("POST", prefix+"hosts?names=h", `{"iqns":["iqn.2026-01.test:h"]}`, "already exists")
	c.ask("POST", prefix+"connections?volume_names=a&host_names=h", "", 200)
	says("DELETE", prefix+"hosts?names=h", "", "cannot be deleted due to existing connections")
	says("POST", prefix+"connections?volume_names=a&host_names=h", "", "already exists")
	says("POST", prefix+"connections?volume_names=a&host_group_names=g", "", "Host group does not exist.")
	c.initiators()
	says("PATCH", prefix+"volumes?names=a", `{"destroyed":true}`, "")
	says("DELETE", prefix+"volumes?names=a", "", "is not destroyed")
	says("DELETE", prefix+"volumes?names=z", "", "does not exist")
	// What was made and refused afterwards is in the recycle bin.
	for query, wanted := range map[string]float64{"destroyed=false": 1, "destroyed=true": 2, "limit=1": 3, "filter=destroyed": 2} {
		page, _ := c.ask("GET", prefix+"volumes?"+query, "", 200)
		if page["total_item_count"] != wanted || page["more_items_remaining"] != (query == "limit=1") {
			t.Error(query, page)
		}
	}
	c.token = "wrong"
	c.ask("POST", prefix+"login", "", 401)
	c.ask("GET", prefix+"volumes", "", 401)
}
