package logs

import (
	"bufio"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
	"ashlar/integrations/vsphere/site"
)

// receiver is a syslog server: RFC 5424 over TCP with octet counting.
func receiver(t *testing.T) (port int32, lines <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	received := make(chan string, 64)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			reader := bufio.NewReader(connection)
			if length, err := reader.ReadString(' '); err == nil {
				count, _ := strconv.Atoi(strings.TrimSpace(length))
				frame := make([]byte, count)
				if _, err := io.ReadFull(reader, frame); err == nil {
					received <- string(frame)
				}
			}
			_ = connection.Close()
		}
	}()
	return int32(listener.Addr().(*net.TCPAddr).Port), received
}

// next returns the next line with a text in it. The array tries three times to reach another before it raises an alert; the
// limit only ends a test that fails.
func next(t *testing.T, lines <-chan string, with string) string {
	t.Helper()
	limit := time.After(5 * time.Minute)
	for {
		select {
		case line := <-lines:
			if strings.Contains(line, with) {
				return line
			}
		case <-limit:
			t.Fatalf("no line with %q came", with)
		}
	}
}

func value(t *testing.T, name, line string) string {
	t.Helper()
	found := regexp.MustCompile(field(name).Expression()).FindStringSubmatch(line)
	if found == nil {
		t.Errorf("%s does not match %s", name, line)
		return ""
	}
	return found[1]
}

func want(t *testing.T, line string, values map[string]string) {
	t.Helper()
	for name, want := range values {
		if got := value(t, name, line); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

const mib = int64(1) << 20

// group is a volume group with a soft quota whose volume the site's first host may write to.
func group(t *testing.T, at *site.Site, name string) {
	t.Helper()
	api := at.Array.API
	initiator := at.V.Hosts[0].Initiator()
	made := array.NewGroup{Name: name, SoftQuota: nullable.NewNullableWithValue(mib)}
	volume := array.NewVolume{Name: "data", Size: nullable.NewNullableWithValue(16 * mib), Group: nullable.NewNullableWithValue(name)}
	for _, err := range []error{
		array.Done(api.CreateGroup(t.Context(), made)),
		array.Done(api.CreateVolume(t.Context(), volume)),
		array.Done(api.CreateHost(t.Context(), array.NewHost{Name: "esx", Initiators: []string{initiator}})),
		array.Done(api.CreateConnection(t.Context(), array.NewConnection{Volume: "data", Host: nullable.NewNullableWithValue("esx")})),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	at.IO(t, initiator, 0, "write -P 7 0 4M")
}

// subscribe makes an array send its alerts, and returns the lines.
func subscribe(t *testing.T, api *array.API) <-chan string {
	t.Helper()
	port, lines := receiver(t)
	var destination array.Destination
	if err := destination.FromDestination1(array.Destination1{Kind: "syslog", Host: "127.0.0.1", Port: port}); err != nil {
		t.Fatal(err)
	}
	least := array.SeverityInfo
	target := array.NewNotificationTarget{Name: "logs", Destination: destination, Severity: &least}
	if err := array.Done(api.CreateNotificationTarget(t.Context(), target)); err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestFieldsAreRightInLinesOfARealArray(t *testing.T) {
	at := site.Start(t)
	api := at.Array.API
	lines := subscribe(t, api)
	status, err := array.Decode[array.Status](api.ShowStatus(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if err := array.Done(api.TestNotificationTarget(t.Context(), "logs")); err != nil {
		t.Fatal(err)
	}
	want(t, next(t, lines, `event="test"`), map[string]string{"ashlar_event": "test", "ashlar_serial": status.ID, "ashlar_alert": "0"})

	group(t, at, "team")
	crossed := next(t, lines, "group.quota")
	want(t, crossed, map[string]string{"ashlar_event": "alert.opened", "ashlar_kind": "group.quota", "ashlar_category": "group",
		"ashlar_severity": "warning", "ashlar_serial": status.ID, "ashlar_object_kind": "volume group", "ashlar_object": "team",
		"ashlar_volume_group": "team"})
	number := value(t, "ashlar_alert", crossed)
	change := array.GroupChange{SoftQuota: nullable.NewNullableWithValue(12 * mib)}
	if err := array.Done(api.ChangeGroup(t.Context(), "team", change)); err != nil {
		t.Fatal(err)
	}
	want(t, next(t, lines, "alert.closed"), map[string]string{"ashlar_event": "alert.closed", "ashlar_alert": number})

	for _, it := range Fields {
		expression := regexp.MustCompile(it.Expression())
		if it.Kind != "" && it.Kind != "group.quota" && expression.MatchString(crossed) {
			t.Errorf("%s matches a line of another kind: %s", it.Name, crossed)
		}
		if foreign := "<14>1 2026-01-01T00:00:00Z esx1 vobd - - - [id=\"5\"] lost access to volume"; expression.MatchString(foreign) {
			t.Errorf("%s matches a line of another product", it.Name)
		}
	}
}

func TestALostRemoteArrayIsInALineOfARealArray(t *testing.T) {
	first, second := rig.StartPair(t)
	lines := subscribe(t, first.API)
	second.Kill()
	want(t, next(t, lines, "remote-array.disconnected"), map[string]string{"ashlar_event": "alert.opened", "ashlar_remote_array": "second",
		"ashlar_category": "remote-array", "ashlar_object_kind": "remote array"})
}

// What can't be provoked in a test: the header is the array's, the message is the source's with values.
var examples = map[string]struct{ noun, name, message, want string }{
	"ashlar_volume":                  {"volume", "db", "can't be understood, so no host can write to it", "db"},
	"ashlar_host":                    {"host", "esx1", "host \"esx1\" is logged in at one of 2 portals: it loses its volumes with that path", "esx1"},
	"ashlar_host_portals":            {"host", "esx1", "host \"esx1\" is logged in at one of 2 portals: it loses its volumes with that path", "2"},
	"ashlar_notification_target":     {"notification target", "mail", "deliveries to the notification target \"mail\" fail: test it", "mail"},
	"ashlar_replication":             {"replication", "db", "replication \"db\" misses its RPO of 60 s: the lag is 300 s", "db"},
	"ashlar_replication_rpo_seconds": {"replication", "db", "replication \"db\" misses its RPO of 60 s: the lag is 300 s", "60"},
	"ashlar_replication_lag_seconds": {"replication", "db", "replication \"db\" misses its RPO of 60 s: the lag is 300 s", "300"},
	"ashlar_drive":                   {"drive", "3", "is being evacuated", "3"},
	"ashlar_drive_path":              {"drive", "3", "the drive of slot 3 (/dev/x) is being evacuated", "/dev/x"},
	"ashlar_space_percent":           {"", "", "80 % of the drives' space is in use: delete or unmap what is not needed", "80"},
	"ashlar_map_percent":             {"", "", "95 % of the map pages that memory allows are in use", "95"},
	"ashlar_full_in_days":            {"", "", "by the trend of the last month the drives are full in less than 7 days: add drives", "7"},
	"ashlar_certificate_days":        {"", "", "the certificate expires in less than 30 days: replace it", "30"},
	"ashlar_scrub_errors":            {"", "", "the last scrub found 12 pages that were not what had been written: 10 were written again, 2 are lost", "12"},
	"ashlar_scrub_repaired":          {"", "", "the last scrub found 12 pages that were not what had been written: 10 were written again, 2 are lost", "10"},
	"ashlar_scrub_lost":              {"", "", "the last scrub found 12 pages that were not what had been written: 10 were written again, 2 are lost", "2"},
	"ashlar_contradictions":          {"", "", "metadata on the drives contradict each other in 3 places (a)", "3"},
}

func TestFieldsFitTheMessagesOfTheSources(t *testing.T) {
	var sources strings.Builder
	for _, file := range []string{"array/src/condition.rs", "array/src/alert_source.rs", "array/src/service/notifier.rs", "array/src/service/replica_conditions.rs"} {
		read, err := os.ReadFile("../../../../control/" + file)
		if err != nil {
			t.Fatal(err)
		}
		sources.Write(read)
	}
	plain := regexp.MustCompile(`\\?\s+`).ReplaceAllString(sources.String(), " ")
	placeholder := regexp.MustCompile(`\d+|\\?"[a-z0-9]+\\?"|/dev/x`)
	provoked := map[string]bool{"": true, "group.quota": true, "remote-array.disconnected": true}
	for _, it := range Fields {
		example, has := examples[it.Name]
		if has == provoked[it.Kind] {
			t.Errorf("%s needs exactly one kind of proof", it.Name)
		}
		if !has {
			continue
		}
		data := `[alert@32473 id="3" event="alert.opened" kind="` + it.Kind + `" severity="warning" serial="0123456789abcdef"`
		if example.noun != "" {
			data += fmt.Sprintf(` noun="%s" name="%s"`, example.noun, example.name)
		}
		want(t, "<28>1 2026-11-24T00:00:00Z array ashlar - "+it.Kind+" "+data+"] "+example.message, map[string]string{it.Name: example.want})
		for _, part := range placeholder.Split(example.message, -1) {
			if part = strings.TrimSpace(strings.Trim(part, " ()a")); !strings.Contains(plain, part) {
				t.Errorf("%s: the array's sources have no message with %q", it.Name, part)
			}
		}
	}
}

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
		if !strings.Contains(it.Constraints, searchTerm) {
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
