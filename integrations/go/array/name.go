package array

import (
	"crypto/sha256"
	"encoding/base32"
	"sort"
	"strings"
)

// Version of the programs of this module.
const Version = "0.1.0"

// hashLength is the number of characters kept of a hashed name: 130 bits, so that two names never meet.
const hashLength = 26

// Hash returns a name of any length as 26 lower-case letters and digits: base32 of its SHA-256. Drivers make names of
// volumes from it, which have at most 63 characters, and keep the whole name in a label.
func Hash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:hashLength]
}

// LabelQuery returns the `label` parameter of a list: objects that have all of the labels with these values.
func LabelQuery(labels map[string]string) string {
	keys := make([]string, 0, len(labels))
	for key := range labels {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	quote := strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	for at, key := range keys {
		keys[at] = key + "=" + quote.Replace(labels[key])
	}
	return strings.Join(keys, ",")
}

// Changes returns labels as a change that sets `now` and removes what else `before` has.
func Changes(before, now map[string]string) *map[string]*string {
	changes := make(map[string]*string, len(now))
	for key := range before {
		changes[key] = nil
	}
	for key, value := range now {
		changes[key] = &value
	}
	return &changes
}
