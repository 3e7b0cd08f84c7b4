// Package flash serves the part of the REST interface 2 of Pure Storage FlashArray that volume drivers, playbooks and an exporter of
// metrics use, and translates it to the API of an Ashlar array, so that such clients need no change. It keeps no state of its own.
package flash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ashlar/integrations/admission"
	"ashlar/integrations/array"
	"ashlar/integrations/dialect"
)

const (
	// version of the interface, the only one: clients ask for more of newer ones.
	version = "2.26"
	prefix  = "/api/" + version + "/"
	// level is the version of the system that clients compare with what they need.
	level = "6.4.10"
	// loginHeader brings a client's token, sessionHeader what its further requests have. It is the token again, so that there
	// are no sessions to keep.
	loginHeader   = "api-token"
	sessionHeader = "x-auth-token"
)

// Server answers requests for one array.
type Server struct {
	log    *slog.Logger
	access dialect.Accesses
}

// New prepares a server. The access has no token: each client brings its own.
func New(access array.Access, log *slog.Logger) *Server {
	return &Server{log: log, access: dialect.Accesses{Of: access}}
}

// call is one request.
type call struct {
	context.Context
	api   *array.API
	query url.Values
	body  []byte
}

// object is what a client is shown.
type object map[string]any

// refused is an error that the client caused. Clients compare parts of the text.
type refused struct{ context, text string }

func (r *refused) Error() string { return r.text }

func (s *Server) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	content, err := s.answer(out, in)
	status := http.StatusOK
	if err != nil {
		var text string
		status, text = failure(err)
		about := ""
		var its *refused
		if errors.As(err, &its) {
			about = its.context
		}
		content = object{"errors": []object{{"context": about, "message": text}}}
		s.log.InfoContext(in.Context(), "refused", "method", in.Method, "path", in.URL.Path, "status", status, "problem", err)
	}
	out.Header().Set("Content-Type", "application/json")
	text, err := json.Marshal(content)
	if err != nil {
		status, text = http.StatusInternalServerError, nil
	}
	out.WriteHeader(status)
	_, _ = out.Write(text)
}

func (s *Server) answer(out http.ResponseWriter, in *http.Request) (any, error) {
	if in.URL.Path == "/api/api_version" {
		return object{"version": []string{version}}, nil
	}
	name, found := strings.CutPrefix(in.URL.Path, prefix)
	if !found {
		return nil, &refused{in.URL.Path, "There is nothing at this path: paths begin with " + prefix}
	}
	if in.Method == http.MethodPost && name == "logout" {
		return list(nil), nil
	}
	header := sessionHeader
	if in.Method == http.MethodPost && name == "login" {
		header = loginHeader
	}
	token := in.Header.Get(header)
	api, err := s.access.API(token)
	if err != nil {
		return nil, err
	}
	c := &call{Context: in.Context(), api: api}
	if c.query, err = url.ParseQuery(in.URL.RawQuery); err != nil {
		return nil, &refused{in.URL.RawQuery, "The parameters are not written as those of an address."}
	}
	if header == loginHeader {
		its, err := array.Decode[array.Session](api.ShowSession(c))
		if err != nil {
			return nil, err
		}
		if _, err := api.Check(c); err != nil {
			return nil, err
		}
		out.Header().Set(sessionHeader, token)
		return list([]object{{"username": its.User}}), nil
	}
	its, found := operations[in.Method+" "+name]
	if !found {
		return nil, &refused{name, fmt.Sprintf("%s %s is not supported by this array.", in.Method, name)}
	}
	if c.body, err = io.ReadAll(io.LimitReader(in.Body, admission.MaxBodyBytes+1)); err != nil {
		return nil, &refused{name, "The request broke off."}
	}
	if len(c.body) > admission.MaxBodyBytes {
		return nil, &refused{name, fmt.Sprintf("The request has more than %d bytes.", admission.MaxBodyBytes)}
	}
	if err := its.check(c, in.Method); err != nil {
		return nil, err
	}
	items, err := its.act(c)
	if err != nil {
		return nil, err
	}
	return c.page(items)
}

// page selects from a list what the query asks for.
func (c *call) page(items []object) (any, error) {
	if text := c.query.Get("filter"); text != "" {
		fits, denied, err := parseFilter(text)
		if err != nil {
			return nil, err
		}
		for _, field := range denied {
			base, _, _ := strings.Cut(field, ".")
			has := func(it object) bool { _, known := it[base]; return known }
			if len(items) > 0 && !slices.ContainsFunc(items, has) {
				return nil, &refused{"filter", fmt.Sprintf("There is no field %q.", field)}
			}
		}
		kept := []object{}
		for _, each := range items {
			if fits(each) {
				kept = append(kept, each)
			}
		}
		items = kept
	}
	total := len(items)
	offset, err := c.count("offset", 0)
	if err != nil {
		return nil, err
	}
	limit, err := c.count("limit", total)
	if err != nil {
		return nil, err
	}
	items = items[min(offset, total):]
	more := len(items) > limit
	answer := list(items[:min(limit, len(items))])
	answer["more_items_remaining"], answer["total_item_count"] = more, total
	return answer, nil
}

func (c *call) count(name string, otherwise int) (int, error) {
	text := c.query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return 0, &refused{name, "Invalid value."}
	}
	return number, nil
}

func list(items []object) object {
	if items == nil {
		items = []object{}
	}
	return object{"items": items, "continuation_token": nil, "more_items_remaining": false, "total_item_count": len(items)}
}

// names returns the values of a parameter; none if it is not given.
func (c *call) names(parameter string) []string {
	text := c.query.Get(parameter)
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// isAsked reports whether a parameter has a name, or is not given.
func (c *call) isAsked(parameter, name string) bool {
	wanted := c.names(parameter)
	return wanted == nil || slices.Contains(wanted, name)
}

// one returns the only value of a parameter.
func (c *call) one(parameter string) (string, error) {
	all := c.names(parameter)
	if len(all) != 1 {
		return "", &refused{parameter, "Exactly one name is needed."}
	}
	return all[0], nil
}

// read takes the body of a request. An unknown field is refused: a client would take it for done.
func (c *call) read(into any) error {
	if err := strictly(c.body, into); err != nil {
		return &refused{"body", fmt.Sprintf("The request is not supported: %v.", err)}
	}
	return nil
}

// strictly reads JSON that has no unknown fields.
func strictly(text []byte, into any) error {
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(into); err != nil {
		return err
	}
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON")
	}
	return nil
}

// named returns the only object that a request names, and takes what it sends of it.
func (c *call) named(into any) (string, error) {
	name, err := c.one("names")
	if err != nil {
		return "", err
	}
	return name, c.read(into)
}

// failure returns status and text of an error.
func failure(err error) (int, string) {
	var its *array.Error
	if !errors.As(err, &its) {
		return http.StatusBadRequest, err.Error()
	}
	switch its.Kind {
	case array.Unauthorized:
		return http.StatusUnauthorized, its.Detail
	case array.Forbidden:
		return http.StatusForbidden, its.Detail
	case array.Unreachable, "standby":
		return http.StatusServiceUnavailable, its.Detail
	case "too_many":
		return http.StatusTooManyRequests, its.Detail
	}
	return http.StatusBadRequest, its.Detail
}

// about names the object of an error in the words that clients compare.
func about(noun, name string, err error) error {
	switch {
	case array.IsKind(err, array.NotFound):
		return &refused{name, noun + " does not exist."}
	case array.IsKind(err, array.Conflict, array.Differs):
		return &refused{name, noun + " already exists: " + err.Error()}
	}
	return err
}
