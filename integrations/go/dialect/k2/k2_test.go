package k2

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

var shapes = &resource{path: "/shapes", fields: []string{"name", "size", "flag", "iqn", "in"}}

func shape(name string, size int64, flag bool, in *ref) object {
	return object{"id": size, "name": name, "size": size, "flag": flag, "iqn": "iqn.a", "in": in}
}

func TestASearchFindsWhatFits(t *testing.T) {
	to := refTo("/volsnaps", 7)
	to.alias = "/snapshots/5"
	all := []object{shape("a", 9, true, to), shape("b", 10, false, nil), shape("ab", 100, false, refTo("/volumes", 7))}
	for asked, wanted := range map[string]string{
		"":                          "a b ab",
		"name=a":                    "a",
		"name__contains=b":          "b ab",
		"name__in=a,ab":             "a ab",
		"name__in=['a', 'ab']":      "a ab",
		"size__gt=9":                "b ab",
		"size__lte=10":              "a b",
		"flag=True":                 "a",
		"iqn=IQN.A&name=b":          "b",
		"in.ref=/volsnaps/7":        "a",
		"in.ref=/snapshots/5":       "a",
		"in.ref__m_eq=/volumes/7":   "ab",
		"in.id=7":                   "a ab",
		"in=None":                   "",
		"__sort=-size":              "ab b a",
		"__sort=name":               "a ab b",
		"__limit=1&__offset=1":      "b",
		"__offset=7":                "",
		"name=a&size=10":            "",
		"name__contains=b&id__gt=9": "b ab",
		"in.id__in=[]":              "",
	} {
		values, err := url.ParseQuery(strings.ReplaceAll(asked, " ", "%20"))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parseQuery(shapes, values)
		if err != nil {
			t.Errorf("%s: %v", asked, err)
			continue
		}
		var names []string
		page, err := parsed.page(all)
		if err != nil {
			t.Errorf("%s: %v", asked, err)
			continue
		}
		for _, hit := range page.(map[string]any)["hits"].([]object) {
			names = append(names, hit["name"].(string))
		}
		if found := strings.Join(names, " "); found != wanted {
			t.Errorf("%s: found %q, wanted %q", asked, found, wanted)
		}
	}
	for _, asked := range []string{"size__lt=10GiB", "size__gte=abc", "id__lte=", "size__gt=NaN", "size__lt=None"} {
		values, _ := url.ParseQuery(asked)
		parsed, err := parseQuery(shapes, values)
		if err == nil {
			_, err = parsed.page(all)
		}
		if statusOf(err) != http.StatusBadRequest {
			t.Errorf("%s: %v", asked, err)
		}
	}
	for _, asked := range []string{"colour=red", "name__like=a", "name__=a", "__limit=-1", "__limit=x", "__sort=colour", "__what=1",
		"__fields=colour", "name__contains=", "name__gte=", "size=9&size=10", "name.first=a", "in.name=a",
	} {
		values, _ := url.ParseQuery(asked)
		if _, err := parseQuery(shapes, values); statusOf(err) != http.StatusBadRequest {
			t.Errorf("%s: %v", asked, err)
		}
	}
}

func TestNamesThatTheArrayRefusesAreHashed(t *testing.T) {
	for _, name := range []string{"cv-1", "A.b_c", strings.Repeat("x", 63)} {
		if own, label, err := nameOf(name); own != name || label != nil || err != nil {
			t.Error(name, own, err)
		}
	}
	for _, name := range []string{"", "_a", "a b", "a/b", strings.Repeat("x", 64), "\u00e4"} {
		own, label, err := nameOf(name)
		if err != nil || label == nil || *label != name || !accepted.MatchString(own) {
			t.Errorf("%q: %q %v", name, own, err)
		}
	}
	if _, _, err := nameOf(strings.Repeat("x", 256)); err == nil {
		t.Error("a name that fits in no label")
	}
}

// What a client sees of a session, by what the array has.
func TestStatesOfSessions(t *testing.T) {
	type labels = map[string]string
	begun := labels{labelID: "1"}
	replica := labels{labelID: "1", labelSide: replicaSide}
	source, target := array.ReplicationSource, array.ReplicationTarget
	for _, it := range []struct {
		labels labels
		role   array.ReplicationRole
		state  array.ReplicationState
		wanted string
	}{
		{labels{}, "", "", stateIdle},
		{replica, "", "", stateInSync},
		{begun, source, array.ReplicationIdle, stateInSync},
		{begun, source, array.ReplicationNoSpace, stateInSync},
		{begun, source, array.ReplicationPaused, stateSuspended},
		{begun, source, array.ReplicationDemoted, stateSuspended},
		{begun, source, array.ReplicationSplit, stateSuspended},
		{replica, target, array.ReplicationDemoted, stateInSync},
		{replica, target, array.ReplicationPromoted, stateFailedOver},
		{replica, target, array.ReplicationSplit, stateFailedOver},
		{begun, target, array.ReplicationPromoting, stateFailedOver},
		{labels{labelID: "1", labelHeld: stateIdle}, source, array.ReplicationPaused, stateIdle},
	} {
		s := &session{group: &group{of: &array.Group{Labels: it.labels}}}
		if it.role != "" {
			s.of = &array.Replication{Role: it.role, Progress: array.ReplicationProgress{State: it.state}}
		}
		if found := s.state(); found != it.wanted {
			t.Errorf("%+v: %s", it, found)
		}
	}
}

// Clients repeat what has a status of 500 or more for ten minutes.
func TestOnlyAnArrayThatIsAwayIsWaitedFor(t *testing.T) {
	for kind, wanted := range map[string]int{
		array.Unreachable: 503, "standby": 503, array.NotFound: 404, array.Conflict: 409, array.Differs: 409, array.Forbidden: 403,
		array.Unauthorized: 401, array.Precondition: 400, array.Failed: 400, array.Skew: 400, "too_many": 429,
	} {
		if found := statusOf(&array.Error{Kind: kind}); found != wanted {
			t.Errorf("%s: %d", kind, found)
		}
	}
	if statusOf(errors.New("anything")) != 400 {
		t.Error("an error without a kind is repeated")
	}
}

// client speaks to a server for an array.
type client struct {
	*testing.T
	server *Server
	token  string
}

func (c *client) ask(method, path string, sent any, wanted int) map[string]any {
	c.Helper()
	text, err := json.Marshal(sent)
	if err != nil {
		c.Fatal(err)
	}
	in := httptest.NewRequest(method, prefix+path, bytes.NewReader(text))
	in.SetBasicAuth("anybody", c.token)
	out := httptest.NewRecorder()
	c.server.ServeHTTP(out, in)
	read, _ := io.ReadAll(out.Body)
	if out.Code != wanted {
		c.Fatalf("%s %s: %d %s", method, path, out.Code, read)
	}
	var content map[string]any
	if len(read) > 0 {
		if err := json.Unmarshal(read, &content); err != nil {
			c.Fatal(err)
		}
	}
	return content
}

func to(path string, it map[string]any) map[string]string {
	return map[string]string{"ref": refTo(path, int64(it["id"].(float64))).Ref}
}

func start(t *testing.T) *client {
	on := rig.Start(t)
	access := on.Access
	access.Token = ""
	server, err := New(Config{Array: access}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, server, on.Access.Token}
}

// A group of several volumes: its snapshot is one, of one moment, and so is a view of it.
func TestASnapshotOfAGroup(t *testing.T) {
	c := start(t)
	group := c.ask("POST", pathGroups, map[string]any{"name": "g", "quota": 4096, "is_dedup": "False"}, 201)
	if group["quota"] != 4096.0 || group["is_dedup"] != false {
		t.Error(group)
	}
	var volumes []map[string]any
	for _, name := range []string{"one", "two"} {
		volumes = append(volumes, c.ask("POST", pathVolumes, map[string]any{"name": name, "size": 1024, "volume_group": to(pathGroups, group)}, 201))
	}
	taken := c.ask("POST", pathSnapshots, map[string]any{"short_name": "s", "source": to(pathGroups, group)}, 201)
	view := c.ask("POST", pathSnapshots, map[string]any{"short_name": "v", "source": to(pathSnapshots, taken), "is_exposable": true}, 201)
	again := c.ask("POST", pathSnapshots, map[string]any{"short_name": "v", "source": to(pathSnapshots, taken), "is_exposable": true}, 201)
	if view["id"] != again["id"] || view["is_exposable"] != true || taken["is_exposable"] != false {
		t.Error(taken, view, again)
	}
	for _, it := range []map[string]any{taken, view} {
		parts := c.ask("GET", pathVolsnaps+"?snapshot.ref="+to(pathSnapshots, it)["ref"], nil, 200)
		if parts["total"] != 2.0 {
			t.Error(parts)
		}
	}
	if seen := c.ask("GET", pathVolumes+"?volume_group.ref="+to(pathGroups, group)["ref"], nil, 200); seen["total"] != 2.0 {
		t.Error("views are no volumes of the group", seen)
	}
	host := c.ask("POST", pathHosts, map[string]any{"name": "h"}, 201)
	c.ask("POST", pathIqns, map[string]any{"iqn": "iqn.2026-01.test:h", "host": to(pathHosts, host)}, 201)
	c.ask("POST", pathMappings, map[string]any{"volume": to(pathSnapshots, view), "host": to(pathHosts, host)}, 400)
	part := c.ask("GET", pathVolsnaps+"?snapshot.ref="+to(pathSnapshots, view)["ref"], nil, 200)["hits"].([]any)[0].(map[string]any)
	mapping := c.ask("POST", pathMappings, map[string]any{"volume": to(pathVolsnaps, part), "host": to(pathHosts, host)}, 201)
	if mapping["lun"] != 1.0 {
		t.Error(mapping)
	}
	gone := func(path string, it map[string]any, wanted int) { c.ask("DELETE", to(path, it)["ref"], nil, wanted) }
	gone(pathSnapshots, view, 400)
	gone(pathHosts, host, 400)
	gone(pathMappings, mapping, 200)
	for _, it := range []map[string]any{view, taken} {
		gone(pathSnapshots, it, 200)
		gone(pathSnapshots, it, 404)
	}
	gone(pathGroups, group, 400)
	for _, it := range volumes {
		gone(pathVolumes, it, 200)
	}
	gone(pathGroups, group, 200)
	gone(pathHosts, host, 200)
	if bin := c.ask("GET", pathVolumes, nil, 200); bin["total"] != 1.0 {
		t.Error("only the volume that stands for the array is left", bin)
	}
	c.ask("DELETE", "/volumes/1", nil, 400)
}

func TestRequestsThatAreWrong(t *testing.T) {
	c := start(t)
	c.ask("PUT", pathVolumes, nil, 405)
	c.ask("POST", "/system/state", nil, 405)
	c.ask("POST", "", nil, 405)
	c.ask("GET", "/volumes/x", nil, 404)
	c.ask("POST", pathVolumes, []string{"a"}, 400)
	c.ask("POST", pathVolumes, map[string]any{"name": "v", "size": 1}, 400)
	c.ask("POST", pathVolumes, map[string]any{"name": "v", "size": -1, "volume_group": map[string]string{"ref": "/volume_groups/1"}}, 400)
	c.ask("POST", pathVolumes, map[string]any{"name": "v", "size": 1024, "volume_group": map[string]string{"ref": "nothing"}}, 400)
	c.ask("POST", pathVolumes, map[string]any{"name": "v", "size": 1024, "volume_group": map[string]string{"ref": "/volume_groups/1"}}, 404)
	c.ask("POST", pathHosts, map[string]any{"name": strings.Repeat("x", 256)}, 400)
	if fields := c.ask("GET", pathVolumes+"?name__like=a", nil, 400); !strings.Contains(fields["error_msg"].(string), "name__like") {
		t.Error(fields)
	}
	// Nothing of a request is ignored.
	group := c.ask("POST", pathGroups, map[string]any{"name": "g"}, 201)
	its := to(pathGroups, group)["ref"]
	for _, method := range []string{"PATCH", "DELETE"} {
		c.ask(method, its+"?name=other", map[string]any{}, 400)
		c.ask(method, pathGroups+bulkSuffix+"?name=other", []map[string]any{{"id": group["id"]}}, 400)
		c.ask(method, pathGroups+bulkSuffix, []map[string]any{{"id": group["id"], "colour": "red"}}, 400)
	}
	c.ask("POST", pathGroups+"?name=other", map[string]any{"name": "h"}, 400)
	c.ask("GET", its+"?name=other", nil, 400)
	if all := c.ask("GET", pathGroups+"?name=g", nil, 200); all["total"] != 1.0 {
		t.Error(all)
	}
	c.token = "a\nb"
	c.ask("GET", "", nil, 401)
}

func TestEveryFieldThatIsShownCanBeSearched(t *testing.T) {
	c := start(t)
	c.ask("POST", pathGroups, map[string]any{"name": "g"}, 201)
	for path, it := range c.server.resources {
		for _, hit := range c.ask("GET", path, nil, 200)["hits"].([]any) {
			for field := range hit.(map[string]any) {
				if field != "id" && !slices.Contains(it.fields, field) {
					t.Errorf("%s: %s", path, field)
				}
			}
		}
	}
}
