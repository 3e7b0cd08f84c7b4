package logs

import (
	"encoding/base32"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestThePackFollowsTheFormatAndTheRulesForPacks(t *testing.T) {
	text, err := Pack()
	if err != nil {
		t.Fatal(err)
	}
	var pack struct {
		Fields []struct{ DisplayName, InternalName, Constraints, RegexValue string } `json:"extractedFields"`
		Alerts []struct{ ChartQuery string }                                         `json:"alerts"`
		Parts  []struct {
			Views []struct {
				Name string
				Rows []struct {
					Widgets []struct{ ChartQuery, ChartOptions string }
				}
			}
		} `json:"dashboardSections"`
	}
	if err := json.Unmarshal(text, &pack); err != nil {
		t.Fatal(err)
	}
	views := pack.Parts[0].Views
	if len(pack.Fields) < 20 || len(pack.Alerts) < 5 || len(views) < 3 || views[0].Name != "Overview" {
		t.Error("fewer fields, alerts or dashboards than the rules ask for")
	}
	known := map[string]bool{}
	for _, it := range pack.Fields {
		known[it.InternalName] = true
		padded := strings.ToUpper(strings.ReplaceAll(it.InternalName, "0", "="))
		if plain, err := base32.StdEncoding.DecodeString(padded); err != nil || string(plain) != "@@16_org.ashlar.array"+it.DisplayName {
			t.Errorf("%s: %q %v", it.DisplayName, plain, err)
		}
		if !strings.Contains(it.Constraints, "@32473") {
			t.Errorf("%s would run on every message", it.DisplayName)
		}
	}
	queries := []string{}
	for _, it := range pack.Alerts {
		queries = append(queries, it.ChartQuery)
	}
	for _, view := range views {
		count := 0
		for _, row := range view.Rows {
			count += len(row.Widgets)
			if len(row.Widgets) > 3 {
				t.Errorf("%s has a row with %d widgets", view.Name, len(row.Widgets))
			}
			for _, it := range row.Widgets {
				queries = append(queries, it.ChartQuery)
			}
		}
		if count < 3 || count > 6 {
			t.Errorf("%s has %d widgets", view.Name, count)
		}
	}
	for _, query := range queries {
		var parsed struct {
			FieldConstraints []struct{ InternalName string }
			GroupByFields    []struct{ InternalName string }
		}
		if err := json.Unmarshal([]byte(query), &parsed); err != nil {
			t.Fatal(err)
		}
		for _, it := range append(parsed.FieldConstraints, parsed.GroupByFields...) {
			if !known[it.InternalName] {
				t.Errorf("a query uses %s, which is no field", it.InternalName)
			}
		}
	}
}

func TestTheFilesInTheDocumentationAreCurrent(t *testing.T) {
	for name, make := range Files {
		want, err := make()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile("../../../../docs/monitoring/" + name); err != nil || string(got) != string(want) {
			t.Errorf("docs/monitoring/%s is out of date: `cargo xtask integrations --write` (%v)", name, err)
		}
	}
}
