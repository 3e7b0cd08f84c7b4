// Package k2 serves the REST interface v2 that clients of Kaminario K2 arrays speak, and translates it to the API of an
// Ashlar array, so that such clients need no change. It keeps no state of its own: what the array has no field for is in
// labels there.
package k2

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ashlar/integrations/admission"
	"ashlar/integrations/array"
	"ashlar/integrations/dialect"
)

const (
	// prefix of all paths.
	prefix = "/api/v2"
	// restVersion is the version of the interface that is reported: clients refuse older ones than 2.2.0.
	restVersion = "2.2.0"
	// bulkSuffix makes a path one for several objects at once.
	bulkSuffix = "/__bulk"
)

// Config of a server.
type Config struct {
	// Array is the access to the array without a token: each request brings its own.
	Array array.Access
	// Peers are the arrays that this one replicates to, or from.
	Peers []Peer
	// FailoverPatience is how long a failover waits for the last point of a source that responds.
	FailoverPatience time.Duration
}

// Server answers requests for one array.
type Server struct {
	config    Config
	log       *slog.Logger
	resources map[string]*resource
	access    dialect.Accesses
	peers     []*peer
	pending   pendingHosts
	known     knownIDs
}

// New prepares a server.
func New(config Config, log *slog.Logger) (*Server, error) {
	made := &Server{config: config, log: log, resources: map[string]*resource{}}
	made.access.Of = config.Array
	for _, it := range config.Peers {
		connected, err := connectPeer(it)
		if err != nil {
			return nil, err
		}
		made.peers = append(made.peers, connected)
	}
	for at := range table {
		made.resources[table[at].path] = &table[at]
	}
	return made, nil
}

// call is one request.
type call struct {
	context.Context
	*Server
	api *array.API
	// view of the array, read at most once.
	seen view
}

// body is what a client sends.
type body map[string]json.RawMessage

// resource is a collection of objects. A nil function is not allowed.
type resource struct {
	path string
	// fields are those that can be searched by, settable those that a request may have.
	fields, settable []string
	list             func(*call, *query) ([]object, error)
	create           func(*call, body) (object, error)
	change           func(*call, int64, body) (object, error)
	remove           func(*call, int64) error
}

func (s *Server) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	content, status, err := s.answer(in)
	if err != nil {
		status = statusOf(err)
		content = map[string]any{"error_msg": err.Error()}
		level := slog.LevelInfo
		if status >= http.StatusInternalServerError {
			level = slog.LevelError
		}
		s.log.Log(in.Context(), level, "refused", "method", in.Method, "path", in.URL.Path, "status", status, "problem", err)
	}
	if status == http.StatusUnauthorized {
		out.Header().Set("WWW-Authenticate", `Basic realm="array"`)
	}
	// A client compares the whole type.
	out.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(content)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error_msg":"the response can't be written"}`)
	}
	if content == nil {
		text = nil
	}
	out.WriteHeader(status)
	_, _ = out.Write(text)
}

// answer returns the content of the response; nil for none.
func (s *Server) answer(in *http.Request) (any, int, error) {
	// The password is a token; the user's name is free, since a token has an owner.
	_, token, _ := in.BasicAuth()
	api, err := s.access.API(token)
	if err != nil {
		return nil, 0, err
	}
	c := &call{Context: in.Context(), Server: s, api: api}
	path, found := strings.CutPrefix(in.URL.Path, prefix)
	if !found {
		return nil, 0, fail(http.StatusNotFound, "there is nothing at %s: paths begin with %s", in.URL.Path, prefix)
	}
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		if in.Method != http.MethodGet {
			return nil, 0, notAllowed(in.Method, prefix)
		}
		// Here a client learns whether its credentials are right.
		if _, err := api.Check(c); err != nil {
			return nil, 0, err
		}
		return s.discovery(), http.StatusOK, nil
	}
	if it := s.resources[strings.TrimSuffix(path, bulkSuffix)]; it != nil {
		if it.path != path {
			return c.bulk(it, in)
		}
		return c.collection(it, in)
	}
	if at := strings.LastIndexByte(path, '/'); at >= 0 {
		id, err := strconv.ParseInt(path[at+1:], 10, 64)
		if it := s.resources[path[:at]]; it != nil && err == nil {
			return c.single(it, id, in)
		}
	}
	return nil, 0, fail(http.StatusNotFound, "there is no resource %s", path)
}

func (s *Server) discovery() any {
	resources := map[string]any{}
	for path := range s.resources {
		resources[strings.TrimPrefix(path, "/")] = map[string]string{"url": path}
	}
	return map[string]any{"resources": resources}
}

func (c *call) collection(it *resource, in *http.Request) (any, int, error) {
	if err := searchesNothing(in); err != nil {
		return nil, 0, err
	}
	switch {
	case in.Method == http.MethodGet:
		asked, err := parseQuery(it, in.URL.Query())
		if err != nil {
			return nil, 0, err
		}
		all, err := it.list(c, asked)
		if err != nil {
			return nil, 0, err
		}
		page, err := asked.page(all)
		return page, http.StatusOK, err
	case in.Method == http.MethodPost && it.create != nil:
		var sent body
		if err := read(in, &sent); err != nil {
			return nil, 0, err
		}
		made, err := c.create(it, sent)
		return made, http.StatusCreated, err
	}
	return nil, 0, notAllowed(in.Method, it.path)
}

func (c *call) create(it *resource, sent body) (object, error) {
	if err := it.check(sent); err != nil {
		return nil, err
	}
	return it.create(c, sent)
}

func (c *call) change(it *resource, id int64, sent body) (object, error) {
	if err := it.check(sent); err != nil {
		return nil, err
	}
	return it.change(c, id, sent)
}

// searchesNothing refuses what only a search has: a change of one object would ignore it.
func searchesNothing(in *http.Request) error {
	asked, err := url.ParseQuery(in.URL.RawQuery)
	if err != nil {
		return fail(http.StatusBadRequest, "the parameters of the address can't be read: %v", err)
	}
	for name := range asked {
		if in.Method != http.MethodGet && name != "__pretty" {
			return fail(http.StatusBadRequest, "%s has no meaning for %s", name, in.Method)
		}
	}
	return nil
}

func (c *call) single(it *resource, id int64, in *http.Request) (any, int, error) {
	if err := searchesNothing(in); err != nil {
		return nil, 0, err
	}
	switch {
	case in.Method == http.MethodGet:
		asked, err := parseQuery(it, in.URL.Query())
		if err == nil && len(asked.conditions) > 0 {
			err = fail(http.StatusBadRequest, "%s is one object, which can't be searched", in.URL.Path)
		}
		if err != nil {
			return nil, 0, err
		}
		found, err := c.find(it, id)
		return asked.fieldsOf(found), http.StatusOK, err
	case in.Method == http.MethodPatch && it.change != nil:
		var sent body
		if err := read(in, &sent); err != nil {
			return nil, 0, err
		}
		changed, err := c.change(it, id, sent)
		return changed, http.StatusOK, err
	case in.Method == http.MethodDelete && it.remove != nil:
		return nil, http.StatusOK, it.remove(c, id)
	}
	return nil, 0, notAllowed(in.Method, it.path)
}

// bulk does the same with several objects, one after the other: the first that fails ends it, and what was done stays.
func (c *call) bulk(it *resource, in *http.Request) (any, int, error) {
	var sent []body
	if err := searchesNothing(in); err != nil {
		return nil, 0, err
	}
	if err := read(in, &sent); err != nil {
		return nil, 0, err
	}
	done := []object{}
	for _, each := range sent {
		made, err := c.one(it, in.Method, each)
		if err != nil {
			return nil, 0, err
		}
		if made != nil {
			done = append(done, made)
		}
		c.seen = view{}
	}
	return map[string]any{"hits": done, "total": len(done), "limit": len(done), "offset": 0}, http.StatusOK, nil
}

func (c *call) one(it *resource, method string, sent body) (object, error) {
	if method == http.MethodPost && it.create != nil {
		return c.create(it, sent)
	}
	id, err := sent.number("id")
	if err != nil {
		return nil, err
	}
	switch {
	case method == http.MethodPatch && it.change != nil:
		delete(sent, "id")
		return c.change(it, id, sent)
	case method == http.MethodDelete && it.remove != nil:
		// A client sends the object as it was shown.
		for field := range sent {
			if err := it.knows(field); err != nil {
				return nil, err
			}
		}
		return nil, it.remove(c, id)
	}
	return nil, notAllowed(method, it.path+bulkSuffix)
}

// find returns the object with an identifier.
func (c *call) find(it *resource, id int64) (object, error) {
	all, err := it.list(c, &query{id: id})
	if err != nil {
		return nil, err
	}
	for _, each := range all {
		if each["id"] == id {
			return each, nil
		}
	}
	return nil, gone(it.path, id)
}

func read(in *http.Request, into any) error {
	text, err := io.ReadAll(io.LimitReader(in.Body, admission.MaxBodyBytes+1))
	if err != nil {
		return fail(http.StatusBadRequest, "the request broke off: %v", err)
	}
	if len(text) > admission.MaxBodyBytes {
		return fail(http.StatusRequestEntityTooLarge, "the request has more than %d bytes", admission.MaxBodyBytes)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fail(http.StatusBadRequest, "the request is no JSON of the expected form: %v", err)
	}
	return nil
}

// failure is an error with its HTTP status.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

func notAllowed(method, path string) error {
	return fail(http.StatusMethodNotAllowed, "%s is not possible for %s", method, path)
}

func gone(path string, id int64) error {
	return fail(http.StatusNotFound, "there is no %s/%d", path, id)
}

// statusOf returns the status of an error. Clients repeat what has a status of 500 or more for minutes, so that only an array
// that can't be reached has one.
func statusOf(err error) int {
	var own *failure
	if errors.As(err, &own) {
		return own.status
	}
	var refused *array.Error
	if !errors.As(err, &refused) {
		return http.StatusBadRequest
	}
	switch refused.Kind {
	case array.Unreachable, "standby":
		return http.StatusServiceUnavailable
	case array.Unauthorized:
		return http.StatusUnauthorized
	case array.Forbidden:
		return http.StatusForbidden
	case array.NotFound:
		return http.StatusNotFound
	case array.Conflict, array.Differs:
		return http.StatusConflict
	case "too_many":
		return http.StatusTooManyRequests
	}
	return http.StatusBadRequest
}
