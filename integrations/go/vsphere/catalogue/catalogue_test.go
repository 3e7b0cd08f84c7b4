package catalogue

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The sources of the array and its documentation name the kinds of alerts; none may be missing here.
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
	added := regexp.MustCompile(`add\(\s*(?:&mut )?found,\s*"([a-z.-]+)"`)
	count = 0
	// Any part of the management may raise alerts.
	err = filepath.WalkDir("../../../../control", func(path string, it fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".rs" || strings.HasSuffix(path, "_test.rs") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range added.FindAllStringSubmatch(string(source), -1) {
			count++
			if !known[found[1]] {
				t.Errorf("%s is raised in %s and has no category", found[1], path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 30 {
		t.Errorf("the array's conditions were not found: %d", count)
	}
}
