// Package logs makes dashboards for the array's syslog messages: a content pack for VMware's log products (Log Insight,
// Aria Operations for Logs, VCF Operations for Logs) and a dashboard for Grafana over Loki.
package logs

//go:generate go run ./write ../../../../docs/monitoring

import (
	"encoding/base32"
	"fmt"
	"strings"
)

const (
	// namespace of the content pack.
	namespace = "org.ashlar.array"
	// searchTerm is in every message of the array, and in no other: its SD-ID (RFC 5424 6.3.2).
	searchTerm = "alert@32473"
	// text of a parameter value, with RFC 5424's escapes.
	text = `(?:[^"\\\]]|\\.)*`
)

// Field is a value that is extracted from messages by a regular expression in three parts.
type Field struct {
	Name             string
	Pre, Value, Post string
	Info             string
	// Kind is the kind of alerts whose messages have it; empty: all have.
	Kind string
}

// Fields of the array's messages.
var Fields = []Field{
	{"ashlar_alert", `alert@32473 id="`, `\d+`, `"`, "number of the alert; one condition keeps it from beginning to end", ""},
	{"ashlar_event", ` event="`, `[a-z.]+`, `"`, "alert.opened, alert.worse, alert.changed, alert.closed or test", ""},
	{"ashlar_kind", ` kind="`, text, `"`, "kind of the alert", ""},
	{"ashlar_category", ` kind="`, `[a-z-]+`, `[."]`, "first word of the kind", ""},
	{"ashlar_severity", ` severity="`, `[a-z]+`, `"`, "info, warning or critical", ""},
	{"ashlar_serial", ` serial="`, `[0-9a-f]{16}`, `"`, "serial number of the array", ""},
	{"ashlar_object_kind", ` noun="`, text, `"`, "what the alert is about", "group.quota"},
	{"ashlar_object", ` name="`, text, `"`, "name of what it is about", "group.quota"},
	{"ashlar_volume_group", ` noun="volume group" name="`, text, `"`, "", "group.quota"},
	{"ashlar_drive", ` noun="drive" name="`, text, `"`, "slot of the drive", "drive.evacuating"},
	{"ashlar_drive_path", `the drive of slot \d+ \(`, `[^)]+`, `\)`, "device or file of the drive", "drive.evacuating"},
	{"ashlar_volume", ` noun="volume" name="`, text, `"`, "", "volume.state-unreadable"},
	{"ashlar_host", ` noun="host" name="`, text, `"`, "", "host.one-path"},
	{"ashlar_host_portals", `is logged in at one of `, `\d+`, ` portals`, "portals of the array", "host.one-path"},
	{"ashlar_replication", ` noun="replication" name="`, text, `"`, "", "replication.rpo"},
	{"ashlar_replication_rpo_seconds", `misses its RPO of `, `\d+`, ` s`, "recovery point objective", "replication.rpo"},
	{"ashlar_replication_lag_seconds", `the lag is `, `\d+`, ` s`, "age of the newest point on the target", "replication.rpo"},
	{"ashlar_remote_array", ` noun="remote array" name="`, text, `"`, "", "remote-array.disconnected"},
	{"ashlar_notification_target", ` noun="notification target" name="`, text, `"`, "", "notification.failing"},
	{"ashlar_space_percent", `\] `, `\d+`, ` % of the drives' space`, "space in use", "space.threshold"},
	{"ashlar_map_percent", `\] `, `\d+`, ` % of the map pages`, "map pages in use", "space.map"},
	{"ashlar_full_in_days", `the drives are full in less than `, `\d+`, ` days`, "", "space.forecast"},
	{"ashlar_certificate_days", `the certificate expires in less than `, `\d+`, ` days`, "", "certificate.expiry"},
	{"ashlar_scrub_errors", `the last scrub found `, `\d+`, ` pages`, "wrong pages", "scrub.found"},
	{"ashlar_scrub_repaired", `: `, `\d+`, ` were written again`, "repaired pages", "scrub.found"},
	{"ashlar_scrub_lost", `were written again, `, `\d+`, ` are lost`, "lost pages", "scrub.found"},
	{"ashlar_contradictions", `contradict each other in `, `\d+`, ` places`, "", "metadata.contradiction"},
}

// Expression is the regular expression of a field; its group is the value.
func (f Field) Expression() string { return f.Pre + "(" + f.Value + ")" + f.Post }

// internalName of a field is its name space, with its length, and its name, in base32.
func (f Field) internalName() string {
	plain := fmt.Sprintf("@@%d_%s%s", len(namespace), namespace, f.Name)
	return strings.ReplaceAll(strings.ToLower(base32.StdEncoding.EncodeToString([]byte(plain))), "=", "0")
}

func field(name string) Field {
	for _, known := range Fields {
		if known.Name == name {
			return known
		}
	}
	panic("there is no field " + name)
}
