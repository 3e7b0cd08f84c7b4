package logs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// fact is what a message is about: from the array's API, or from a parser of RFC 5424 that has nothing to do with the fields.
type fact struct {
	class Class
	kind  string
	// parameters are those of structured data without escapes, that of the first element included.
	parameters map[string]string
}

var header = regexp.MustCompile(`^<\d{1,3}>1 \S+ \S+ ashlar - (\S+) (\[.*)$`)

// parse reads a message of the array.
func parse(t *testing.T, line string) (fact, string) {
	t.Helper()
	found := header.FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("no message of an array: %s", line)
	}
	made, rest := fact{kind: found[1], parameters: map[string]string{}}, found[2]
	for strings.HasPrefix(rest, "[") {
		space := strings.IndexByte(rest, ' ')
		element := rest[1:space]
		rest = rest[space:]
		for rest[0] == ' ' {
			name, after, _ := strings.Cut(rest[1:], `="`)
			var value strings.Builder
			at := 0
			for after[at] != '"' {
				if after[at] == '\\' {
					at++
				}
				value.WriteByte(after[at])
				at++
			}
			made.parameters[name] = value.String()
			rest = after[at+1:]
		}
		if rest[0] != ']' {
			t.Fatalf("the element %s does not end: %s", element, line)
		}
		rest = rest[1:]
		if made.parameters["class"] != "" && element != searchTerm {
			if element != made.parameters["class"]+"@32473" {
				t.Errorf("the class is %q in %s", made.parameters["class"], element)
			}
		}
	}
	made.class = Class(made.parameters["class"])
	return made, strings.TrimPrefix(strings.TrimPrefix(rest, " "), "\uFEFF")
}

var escape = regexp.MustCompile(`\\(["\\\]])`)

// extract applies a field to a message.
func extract(it Field, line string) (string, bool) {
	found := regexp.MustCompile(it.Expression()).FindStringSubmatch(line)
	if found == nil {
		return "", false
	}
	return escape.ReplaceAllString(found[1], "$1"), true
}

// parameter names the parameter of structured data that a field has; text fields have none.
func (f Field) parameter() string {
	if name, ok := map[string]string{"ashlar_alert": "id", "ashlar_event_number": "id", "ashlar_entry": "id", "ashlar_object_kind": "noun",
		"ashlar_object": "name"}[f.Name]; ok {
		return name
	}
	if f.Kinds != nil || f.Name == "ashlar_category" || strings.Contains(f.Pre, ` noun="`) {
		return ""
	}
	return strings.TrimPrefix(f.Name, "ashlar_")
}

// expected is the value that a field must have in a message, if structured data have it.
func (f Field) expected(of fact) (value string, has bool) {
	if f.Classes != nil && !slices.Contains(f.Classes, of.class) {
		return "", false
	}
	if f.Name == "ashlar_category" {
		value, _, _ = strings.Cut(of.parameters["kind"], ".")
		return value, value != ""
	}
	if _, noun, ok := strings.Cut(f.Pre, ` noun="`); ok && strings.Contains(noun, `" name="`) {
		noun, _, _ = strings.Cut(noun, `"`)
		if of.parameters["noun"] != noun {
			return "", false
		}
		return of.parameters["name"], true
	}
	value, has = of.parameters[f.parameter()]
	return value, has
}

// compare applies every field to a message. Values of the text are given by the names of the fields.
func compare(t *testing.T, line string, of fact, texts map[string]string) {
	t.Helper()
	for _, it := range Fields {
		got, matches := extract(it, line)
		want, has := it.expected(of)
		if it.Kinds != nil {
			want, has = "", false
			if slices.Contains(it.Classes, of.class) {
				want, has = texts[it.Name]
			}
		}
		if matches != has || got != want {
			t.Errorf("%s is %q (%v), want %q (%v): %s", it.Name, got, matches, want, has, line)
		}
	}
}
