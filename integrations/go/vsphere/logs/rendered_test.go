package logs

import (
	"os"
	"slices"
	"strings"
	"testing"

	"ashlar/integrations/vsphere/catalogue"
)

// rendered are the values of texts in testdata/messages.txt, which a test of the array writes with its own code.
var rendered = map[string]map[string]string{
	"drive.evacuating":        {"ashlar_drive_path": "/dev/nvme3n1"},
	"drive.slow":              {"ashlar_drive_path": "/dev/nvme3n1"},
	"drive.checksum-errors":   {"ashlar_drive_path": "/dev/nvme3n1"},
	"drive.failing":           {"ashlar_drive_path": "/dev/nvme3n1"},
	"drive.worn":              {"ashlar_drive_path": "/dev/nvme3n1"},
	"host.one-path":           {"ashlar_host_portals": "2"},
	"replication.rpo":         {"ashlar_replication_rpo_seconds": "60", "ashlar_replication_lag_seconds": "301"},
	"space.threshold":         {"ashlar_space_percent": "90"},
	"space.map":               {"ashlar_map_percent": "97"},
	"space.forecast":          {"ashlar_full_in_days": "7"},
	"certificate.expiry":      {"ashlar_certificate_days": "7"},
	"scrub.found":             {"ashlar_scrub_errors": "12", "ashlar_scrub_repaired": "10", "ashlar_scrub_lost": "2"},
	"metadata.contradiction":  {"ashlar_contradictions": "3"},
	"space.threshold-crossed": {"ashlar_space_percent": "80"},
	"scrub.finished":          {"ashlar_scrub_lost": "2", "ashlar_scrub_bytes": "4096"},
	"controller.takeover":     {"ashlar_takeover_ms": "15"},
}

func TestEveryFieldIsRightInAMessageOfEveryKind(t *testing.T) {
	read, err := os.ReadFile("testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Class][]string{}
	for line := range strings.Lines(string(read)) {
		line = strings.TrimSuffix(line, "\n")
		of, text := parse(t, line)
		if text == "" || of.parameters["kind"] != of.kind {
			t.Errorf("%+v: %s", of, line)
		}
		seen[of.class] = append(seen[of.class], of.kind)
		compare(t, line, of, rendered[of.kind])
	}
	for class, kinds := range map[Class][]catalogue.Kind{alerts: catalogue.Kinds, events: catalogue.Events} {
		for _, kind := range kinds {
			if !slices.Contains(seen[class], kind.Name) {
				t.Errorf("no message of the %s %s", class, kind.Name)
			}
		}
	}
	// Fields of texts: each was in one of these messages, or is in one of a real array.
	for _, it := range Fields {
		for _, kind := range it.Kinds {
			_, here := rendered[kind][it.Name]
			if real := slices.Contains(textsOfRealArrays, it.Name); !here && !real {
				t.Errorf("%s was tried with no message of %s", it.Name, kind)
			}
		}
	}
}

func TestNoFieldMatchesMessagesOfOtherProducts(t *testing.T) {
	for _, it := range Fields {
		for _, foreign := range []string{
			`<14>1 2026-01-01T00:00:00Z esx1 vobd - - - [id="5"] lost access to volume`,
			`<14>1 2026-01-01T00:00:00Z other array - - [x@1 name="a" class="b"] 80 % of the space`,
		} {
			if value, matches := extract(it, foreign); matches && it.Name != "ashlar_object" {
				t.Errorf("%s is %q in a message of another product", it.Name, value)
			}
		}
	}
}
