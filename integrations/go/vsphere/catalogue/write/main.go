// Command write makes the Go form of the array's catalogue of messages: docs/monitoring/messages.json, which the array prints.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"strings"
)

func main() {
	if err := write(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

type kind struct{ ID, Category, Meaning string }

type parameter struct{ Name, Meaning string }

func write(words []string) error {
	if len(words) != 2 {
		return fmt.Errorf("usage: write CATALOGUE FILE")
	}
	text, err := os.ReadFile(words[0])
	if err != nil {
		return err
	}
	var catalogue struct {
		Alerts, Events, Others []kind
		Parameters             map[string][]parameter
	}
	if err := json.Unmarshal(text, &catalogue); err != nil {
		return err
	}
	var made bytes.Buffer
	fmt.Fprint(&made, "// Code generated from docs/monitoring/messages.json; DO NOT EDIT.\n\npackage catalogue\n")
	for _, list := range []struct {
		name, about string
		kinds       []kind
	}{{"Kinds", "are the kinds of alerts.", catalogue.Alerts}, {"Events", "are the kinds of events.", catalogue.Events},
		{"Others", "are messages that are neither alerts nor events.", catalogue.Others}} {
		fmt.Fprintf(&made, "\n// %s %s\nvar %s = []Kind{\n", list.name, list.about, list.name)
		for _, it := range list.kinds {
			fmt.Fprintf(&made, "{%q, %s, %q},\n", it.ID, strings.ToUpper(it.Category[:1])+it.Category[1:], it.Meaning)
		}
		fmt.Fprint(&made, "}\n")
	}
	for _, list := range []struct{ name, class string }{{"Performance", "performance"}, {"Capacity", "capacity"}} {
		fmt.Fprintf(&made, "\n// %s are the values of a message with %s.\nvar %s = []Value{\n", list.name, list.class, list.name)
		for _, it := range catalogue.Parameters[list.class] {
			fmt.Fprintf(&made, "{%q, %q},\n", it.Name, it.Meaning)
		}
		fmt.Fprint(&made, "}\n")
	}
	formatted, err := format.Source(made.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(words[1], formatted, 0o644)
}
