package flash

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// predicate is what a filter says of an object.
type predicate func(object) bool

// parseFilter reads `field='value'` with `*` for any characters, flags such as `is_local`, and `not`, `and`, `or` of them.
// It returns the fields as well that a condition denies: an object without such a field fits, whatever is meant.
func parseFilter(text string) (fits predicate, denied []string, err error) {
	p := &parser{rest: text}
	fits, err = p.either()
	if err == nil && strings.TrimSpace(p.rest) != "" {
		err = p.wrong()
	}
	return fits, p.denied, err
}

type parser struct {
	rest   string
	denied []string
	// denies is set within a `not`.
	denies bool
}

func (p *parser) wrong() error {
	return &refused{"filter", fmt.Sprintf("The filter is not supported at %q.", p.rest)}
}

// word takes a keyword if it is next.
func (p *parser) word(wanted string) bool {
	rest := strings.TrimLeft(p.rest, " ")
	after, found := strings.CutPrefix(rest, wanted)
	if !found || after != "" && after[0] != ' ' && after[0] != '(' {
		return false
	}
	p.rest = after
	return true
}

func (p *parser) either() (predicate, error) {
	made, err := p.both()
	for err == nil && p.word("or") {
		var next predicate
		if next, err = p.both(); err == nil {
			first := made
			made = func(it object) bool { return first(it) || next(it) }
		}
	}
	return made, err
}

func (p *parser) both() (predicate, error) {
	made, err := p.term()
	for err == nil && p.word("and") {
		var next predicate
		if next, err = p.term(); err == nil {
			first := made
			made = func(it object) bool { return first(it) && next(it) }
		}
	}
	return made, err
}

func (p *parser) term() (predicate, error) {
	if p.word("not") {
		before := p.denies
		p.denies = true
		inner, err := p.term()
		p.denies = before
		return func(it object) bool { return !inner(it) }, err
	}
	p.rest = strings.TrimLeft(p.rest, " ")
	end := strings.IndexFunc(p.rest, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz_.", r) })
	if end < 0 {
		end = len(p.rest)
	}
	field := p.rest[:end]
	if field == "" {
		return nil, p.wrong()
	}
	p.rest = p.rest[end:]
	operator := ""
	for _, known := range []string{"!=", "="} {
		if after, found := strings.CutPrefix(strings.TrimLeft(p.rest, " "), known); found {
			operator, p.rest = known, strings.TrimLeft(after, " ")
			break
		}
	}
	if p.denies || operator == "!=" {
		p.denied = append(p.denied, field)
	}
	if operator == "" {
		return func(it object) bool { return slices.Contains(values(it, field), "true") }, nil
	}
	value, err := p.value()
	return func(it object) bool {
		found := slices.ContainsFunc(values(it, field), func(each string) bool { return matches(value, each) })
		return found == (operator == "=")
	}, err
}

func (p *parser) value() (string, error) {
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		end := strings.IndexByte(p.rest+" ", ' ')
		value := p.rest[:end]
		if value == "" {
			return "", p.wrong()
		}
		p.rest = p.rest[end:]
		return value, nil
	}
	value, after, found := strings.Cut(p.rest[1:], p.rest[:1])
	if !found {
		return "", p.wrong()
	}
	p.rest = after
	return value, nil
}

// matches compares without regard to case, as names are; only `*` has a meaning of its own.
func matches(pattern, text string) bool {
	escaped := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `?`, `\?`).Replace(strings.ToLower(pattern))
	// A slash is a character like others here.
	plain := strings.NewReplacer("/", "\x00")
	found, err := path.Match(plain.Replace(escaped), plain.Replace(strings.ToLower(text)))
	return err == nil && found
}

// values returns a field, a list's elements or what is inside of an object, as texts.
func values(it object, field string) []string {
	base, inner, inside := strings.Cut(field, ".")
	switch value := it[base].(type) {
	case nil:
		return nil
	case []string:
		return value
	case object:
		if inside {
			return values(value, inner)
		}
		return nil
	default:
		return []string{fmt.Sprint(value)}
	}
}
