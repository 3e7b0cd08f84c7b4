package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ashlar/integrations/array"
)

// maxResponseBytes bounds what is read of an array's response.
const maxResponseBytes = 64 << 20

// raw is a response of an array.
type raw struct {
	status int
	kind   string
	body   []byte
}

func (r *raw) write(out http.ResponseWriter) {
	if r.kind != "" {
		out.Header().Set("Content-Type", r.kind)
	}
	out.Header().Set("Cache-Control", "no-store")
	out.Header().Set("X-Content-Type-Options", "nosniff")
	out.WriteHeader(r.status)
	_, _ = out.Write(r.body)
}

// call is a request to the array's API that a page makes. Pages see the array through these and no others.
type call struct {
	method string
	// path after /api/v1, in its parts.
	path  []string
	query url.Values
	body  map[string]any
	place *place
	api   *array.API
	in    *request
	// keep selects items of a list; nil: all.
	keep func(item map[string]any) bool
}

// ofArray are what is about the whole array. It is shown to users who may see the root of the inventory.
var ofArray = []string{"array", "status", "alerts", "protection", "drives", "capacity", "volumes", "groups", "performance", "performance/offload",
	"performance/offload/history", "performance/top"}

// ofVolume are lists of measurements, of which a user of a datastore sees those of its volume.
var ofVolume = []string{"performance", "performance/offload", "performance/offload/history"}

// ask passes a request on to the array if it is about the object that the user has the privilege for.
func (s *Server) ask(in *request) (any, error) {
	on, err := in.center.array(in.PathValue("array"))
	if err != nil {
		return nil, err
	}
	it := &call{method: in.Method, path: strings.Split(in.PathValue("path"), "/"), query: in.URL.Query(), api: on.API, in: in}
	if in.Method == http.MethodPost || in.Method == http.MethodPatch {
		if err := decode(in.Body, &it.body); err != nil || it.body == nil {
			return nil, invalid("the request has no object in JSON")
		}
	}
	if in.on.ref.Type == "Datastore" {
		if it.place, err = s.locate(in); err != nil {
			return nil, err
		}
		if it.place.array != on {
			return nil, invalid(fmt.Sprintf("datastore %s is on array %s", it.place.name, it.place.array.Name))
		}
	}
	allowed, err := it.allowed()
	if err != nil {
		return nil, err
	}
	if !allowed {
		return nil, &refusal{http.StatusForbidden, "forbidden", "Not part of the plug-in",
			"the plug-in does not ask the array for this on behalf of its users: use the array's own interface"}
	}
	return it.send()
}

// decode reads JSON without rounding numbers.
func decode(in io.Reader, into any) error {
	reader := json.NewDecoder(in)
	reader.UseNumber()
	return reader.Decode(into)
}

// allowed reports whether the request is one of those that belong to the object.
func (c *call) allowed() (bool, error) {
	path := strings.Join(c.path, "/")
	switch {
	case c.in.on.root:
		return c.method == http.MethodGet && slices.Contains(ofArray, path), nil
	case c.in.on.ref.Type == "ClusterComputeResource":
		// The form of a new datastore offers groups.
		return c.method == http.MethodGet && path == "groups" && c.in.may.Manage, nil
	case c.place == nil:
		return false, nil
	case c.method == http.MethodGet:
		return c.read(path), nil
	}
	return c.change(path)
}

// own reports whether a name is that of the datastore's volume.
func (c *call) own(name string) bool { return name == c.place.volume.Name || name == c.place.volume.ID }

// fix replaces the name of the datastore's volume by its identifier, and reports whether it was that. If another volume takes
// the name in this moment, it is not followed.
func (c *call) fix(name *string) bool {
	if !c.own(*name) {
		return false
	}
	*name = c.place.volume.ID
	return true
}

// fixed is the same for the volume in a body.
func (c *call) fixed() bool {
	name, _ := c.body["volume"].(string)
	is := c.fix(&name)
	if is {
		c.body["volume"] = name
	}
	return is
}

func (c *call) read(path string) bool {
	switch {
	case len(c.path) == 2 && c.path[0] == "volumes", len(c.path) == 3 && c.path[0] == "volumes" && c.path[2] == "space":
		return c.fix(&c.path[1])
	case slices.Contains(ofVolume, path):
		return len(c.query["volume"]) == 1 && c.own(c.query.Get("volume")) && !c.query.Has("host") && !c.query.Has("group")
	case path == "snapshots":
		c.query = nil
		c.keep = func(item map[string]any) bool { return item["source_id"] == c.place.volume.ID }
		return true
	case path == "schedules":
		c.query = nil
		group, grouped := c.place.volume.Group.Get()
		c.keep = func(item map[string]any) bool {
			return item["volume"] == c.place.volume.Name || grouped == nil && item["group"] == group
		}
		return true
	}
	return false
}

// change allows snapshots, schedules, limits and policies of the one volume.
func (c *call) change(path string) (bool, error) {
	only := func(fields ...string) bool {
		for field := range c.body {
			if !slices.Contains(fields, field) {
				return false
			}
		}
		return true
	}
	// A parameter makes another change of it, such as a deletion without the recycle bin.
	if len(c.query) > 0 {
		return false, nil
	}
	switch {
	case c.method == http.MethodPost && path == "snapshots":
		return c.fixed() && only("volume", "suffix", "retain_until"), nil
	case c.method == http.MethodPost && path == "schedules":
		return c.fixed() && only("volume", "name", "rules", "immutable_seconds", "enabled"), nil
	case c.method == http.MethodPatch && len(c.path) == 2 && c.path[0] == "volumes":
		return c.fix(&c.path[1]) && only("limits", "policy"), nil
	case c.method == http.MethodDelete && len(c.path) == 2 && c.path[0] == "snapshots":
		found, err := array.Decode[array.Snapshot](c.api.ShowSnapshot(c.in.Context(), c.path[1]))
		c.path[1] = found.ID
		return err == nil && found.SourceID == c.place.volume.ID, err
	}
	return false, nil
}

// send sends what was examined, not what was received: a body that two readers understand differently becomes one of them.
func (c *call) send() (any, error) {
	parts := make([]string, len(c.path))
	for at, part := range c.path {
		parts[at] = url.PathEscape(part)
	}
	address := c.api.URL + "/api/v1/" + strings.Join(parts, "/")
	if len(c.query) > 0 {
		address += "?" + c.query.Encode()
	}
	var body io.Reader = http.NoBody
	if c.body != nil {
		text, err := json.Marshal(c.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(c.in.Context(), c.method, address, body)
	if err != nil {
		return nil, err
	}
	if c.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.api.Client.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponseBytes))
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusUnauthorized {
		return nil, &array.Error{Kind: array.Unauthorized, Status: response.StatusCode,
			Detail: "the array does not accept the plug-in's token any more: create one, and add the array again with `ashlar-vsphere arrays add`"}
	}
	made := &raw{response.StatusCode, response.Header.Get("Content-Type"), text}
	if c.keep != nil && response.StatusCode == http.StatusOK {
		made.body, err = c.selected(text)
	}
	return made, err
}

// selected leaves those items in a list that belong to the volume.
func (c *call) selected(text []byte) ([]byte, error) {
	var list map[string]any
	if err := decode(bytes.NewReader(text), &list); err != nil {
		return nil, err
	}
	all, _ := list["items"].([]any)
	kept := []any{}
	for _, it := range all {
		if item, is := it.(map[string]any); is && c.keep(item) {
			kept = append(kept, it)
		}
	}
	list["items"], list["total"] = kept, len(kept)
	return json.Marshal(list)
}
