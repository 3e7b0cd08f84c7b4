package catalogue

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// The documentation names the kinds of alerts; a test of the array searches its sources.
func TestEveryKindOfAlertHasACategory(t *testing.T) {
	known := map[string]bool{}
	for _, kind := range Kinds {
		if known[kind.Name] || kind.Meaning == "" {
			t.Errorf("%+v", kind)
		}
		known[kind.Name] = true
		if !slices.ContainsFunc(Categories, func(it struct {
			Category Category
			Title    string
		}) bool {
			return it.Category == kind.Category
		}) {
			t.Errorf("%s has a category without a title", kind.Name)
		}
	}
	documented, err := os.ReadFile("../../../../docs/operating/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| ((?:`[a-z-]+\\.[a-z.-]+`(?:, )?)+) \\| [^|]+ \\| (?:critical|warning|info)[^|]*\\|$")
	name := regexp.MustCompile("`([a-z.-]+)`")
	count := 0
	for _, found := range row.FindAllStringSubmatch(string(documented), -1) {
		for _, kind := range name.FindAllStringSubmatch(found[1], -1) {
			count++
			if !known[kind[1]] {
				t.Errorf("%s is documented and has no category", kind[1])
			}
		}
	}
	if count < 20 {
		t.Errorf("the table of alerts was not found: %d kinds", count)
	}
}
