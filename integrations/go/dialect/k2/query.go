package k2

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// object is what a client is shown. Numbers are int64, other objects are refs.
type object map[string]any

// ref is a reference to an object. Searches find it by the alias, too.
type ref struct {
	Ref   string `json:"ref"`
	alias string
}

func refTo(path string, id int64) *ref { return &ref{Ref: path + "/" + strconv.FormatInt(id, 10)} }

// query is what a client searches.
type query struct {
	conditions    []condition
	limit, offset int
	sort          string
	descending    bool
	fields        []string
	// id is the only object that is asked for; 0: any.
	id int64
}

// condition of a query: one of the values must fit. A field has a dot for the reference of an object.
type condition struct {
	field, operator string
	values          []string
}

// operators by the end of a parameter's name. Without one it is equality.
var operators = map[string]func(found, wanted string) bool{
	"":         same,
	"m_eq":     same,
	"in":       same,
	"contains": strings.Contains,
	"gt":       func(found, wanted string) bool { return order(found, wanted) > 0 },
	"gte":      func(found, wanted string) bool { return order(found, wanted) >= 0 },
	"lt":       func(found, wanted string) bool { return order(found, wanted) < 0 },
	"lte":      func(found, wanted string) bool { return order(found, wanted) <= 0 },
}

func same(found, wanted string) bool { return found == wanted }

// order compares numbers as numbers.
func order(first, second string) int {
	one, err := strconv.ParseFloat(first, 64)
	other, err2 := strconv.ParseFloat(second, 64)
	if err == nil && err2 == nil {
		return cmp.Compare(one, other)
	}
	return strings.Compare(first, second)
}

func parseQuery(it *resource, parameters url.Values) (*query, error) {
	made := &query{limit: -1}
	for name, values := range parameters {
		if len(values) > 1 {
			return nil, fail(http.StatusBadRequest, "%s is given more than once", name)
		}
		value := values[0]
		var err error
		switch name {
		case "__limit":
			made.limit, err = count(name, value)
		case "__offset":
			made.offset, err = count(name, value)
		case "__sort":
			made.sort, made.descending = strings.CutPrefix(value, "-")
			err = it.knows(made.sort)
		case "__fields":
			made.fields = strings.Split(value, ",")
			for _, field := range made.fields {
				err = errors.Join(err, it.knows(field))
			}
		case "__pretty":
		default:
			var parsed condition
			parsed, err = parseCondition(it, name, value)
			made.conditions = append(made.conditions, parsed)
		}
		if err != nil {
			return nil, err
		}
	}
	return made, nil
}

func count(name, value string) (int, error) {
	number, err := strconv.Atoi(value)
	if err != nil || number < 0 {
		return 0, fail(http.StatusBadRequest, "%s is a count, not %q", name, value)
	}
	return number, nil
}

func parseCondition(it *resource, name, value string) (condition, error) {
	field, operator, several := strings.Cut(name, "__")
	if _, known := operators[operator]; !known || several && operator == "" {
		return condition{}, fail(http.StatusBadRequest, "%q is no way to search", name)
	}
	made := condition{field: field, operator: operator, values: []string{value}}
	switch operator {
	case "":
	case "m_eq", "in":
		made.values = made.values[:0]
		// A client writes a list as it prints one.
		for each := range strings.SplitSeq(strings.Trim(value, "[]()"), ",") {
			if one := strings.Trim(each, ` '"`); one != "" {
				made.values = append(made.values, one)
			}
		}
	default:
		// Everything contains an empty text, and comes after it.
		if value == "" {
			return condition{}, fail(http.StatusBadRequest, "%s has no value", name)
		}
	}
	return made, it.knows(field)
}

// knows refuses a field that the resource does not have: a search that is ignored would find everything.
func (r *resource) knows(field string) error {
	base, part, inside := strings.Cut(field, ".")
	if (base == "id" || slices.Contains(r.fields, base)) && (!inside || part == "id" || part == "ref") {
		return nil
	}
	return fail(http.StatusBadRequest, "%s has no field %q", r.path, field)
}

// check refuses fields that can't be set.
func (r *resource) check(sent body) error {
	for field := range sent {
		if !slices.Contains(r.settable, field) {
			return fail(http.StatusBadRequest, "%s has no field %q that can be set", r.path, field)
		}
	}
	return nil
}

// equal returns the value that a field must have.
func (q *query) equal(field string) (string, bool) {
	for _, each := range q.conditions {
		if each.field == field && each.operator == "" {
			return each.values[0], true
		}
	}
	return "", false
}

func (q *query) fits(it object) (bool, error) {
	for _, each := range q.conditions {
		fits := operators[each.operator]
		if err := each.check(it); err != nil {
			return false, err
		}
		found := slices.ContainsFunc(texts(it, each.field), func(found string) bool {
			return slices.ContainsFunc(each.values, func(wanted string) bool { return fits(found, plain(it, each.field, wanted)) })
		})
		if !found {
			return false, nil
		}
	}
	return true, nil
}

// check refuses an order between a number and what is none: as texts, 10485760 comes before 10GiB.
func (c condition) check(it object) error {
	_, isNumber := it[c.field].(int64)
	if !isNumber || !slices.Contains([]string{"gt", "gte", "lt", "lte"}, c.operator) {
		return nil
	}
	if wanted, err := strconv.ParseFloat(c.values[0], 64); err != nil || math.IsNaN(wanted) {
		return fail(http.StatusBadRequest, "%s is compared with a number, not %q", c.field, c.values[0])
	}
	return nil
}

// plain writes a wanted value as the object's is written: a client writes True, and addresses in upper case.
func plain(it object, field, wanted string) string {
	if _, flag := it[field].(bool); flag || field == "iqn" || field == "pwwn" {
		return strings.ToLower(wanted)
	}
	return wanted
}

// texts returns a field as texts to compare: a reference by each of its addresses.
func texts(it object, field string) []string {
	base, part, inside := strings.Cut(field, ".")
	value := it[base]
	if to, found := value.(*ref); found && to != nil {
		if inside && part == "id" {
			return []string{to.Ref[strings.LastIndexByte(to.Ref, '/')+1:]}
		}
		return []string{to.Ref, to.alias}
	}
	if value == nil {
		return []string{""}
	}
	return []string{fmt.Sprint(value)}
}

// page is the answer to a search.
func (q *query) page(all []object) (any, error) {
	hits := make([]object, 0, len(all))
	for _, each := range all {
		fits, err := q.fits(each)
		if err != nil {
			return nil, err
		}
		if fits {
			hits = append(hits, each)
		}
	}
	slices.SortStableFunc(hits, func(one, other object) int {
		by := q.sort
		if by == "" {
			by = "id"
		}
		order := order(texts(one, by)[0], texts(other, by)[0])
		if q.descending {
			return -order
		}
		return order
	})
	total := len(hits)
	hits = hits[min(q.offset, total):]
	if q.limit >= 0 {
		hits = hits[:min(q.limit, len(hits))]
	}
	for at := range hits {
		hits[at] = q.fieldsOf(hits[at])
	}
	limit := q.limit
	if limit < 0 {
		limit = len(hits)
	}
	return map[string]any{"hits": hits, "total": total, "limit": limit, "offset": q.offset}, nil
}

// fieldsOf returns the fields that are asked for, and always the identifier.
func (q *query) fieldsOf(it object) object {
	if len(q.fields) == 0 || it == nil {
		return it
	}
	some := object{"id": it["id"]}
	for _, field := range q.fields {
		if value, found := it[field]; found {
			some[field] = value
		}
	}
	return some
}

func fail(status int, text string, values ...any) error {
	return &failure{status: status, text: fmt.Sprintf(text, values...)}
}

func (b body) has(field string) bool {
	value, given := b[field]
	return given && string(value) != "null"
}

// text returns a field that must be there.
func (b body) text(field string) (string, error) {
	var value string
	if err := json.Unmarshal(b[field], &value); err != nil || value == "" {
		return "", fail(http.StatusBadRequest, "%s must be a text", field)
	}
	return value, nil
}

// number takes a number that is written as a text as well, as clients send what their configuration has.
func (b body) number(field string) (int64, error) {
	text := strings.Trim(string(b[field]), `"`)
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fail(http.StatusBadRequest, "%s must be a whole number", field)
	}
	return value, nil
}

// flag likewise; what is not sent is false.
func (b body) flag(field string) (bool, error) {
	if !b.has(field) {
		return false, nil
	}
	value, err := strconv.ParseBool(strings.Trim(string(b[field]), `"`))
	if err != nil {
		return false, fail(http.StatusBadRequest, "%s must be true or false", field)
	}
	return value, nil
}

// ref returns path and identifier of a referenced object.
func (b body) ref(field string) (path string, id int64, err error) {
	var value ref
	if err := json.Unmarshal(b[field], &value); err != nil {
		return "", 0, fail(http.StatusBadRequest, `%s must be a reference, {"ref": "/…/1"}`, field)
	}
	at := strings.LastIndexByte(value.Ref, '/')
	if at > 0 {
		id, err = strconv.ParseInt(value.Ref[at+1:], 10, 64)
	}
	if at <= 0 || err != nil {
		return "", 0, fail(http.StatusBadRequest, "%s: %q is no reference", field, value.Ref)
	}
	return value.Ref[:at], id, nil
}

// refOf returns the identifier of a referenced object, which must be of one kind.
func (b body) refOf(field, path string) (int64, error) {
	found, id, err := b.ref(field)
	if err == nil && found != path {
		err = fail(http.StatusBadRequest, "%s must be one of %s", field, path)
	}
	return id, err
}
