// Package logs makes dashboards for the array's syslog messages: a content pack for VMware's log products (Log Insight,
// Aria Operations for Logs, VCF Operations for Logs) and a dashboard for Grafana over Loki.
package logs

//go:generate go run ./write ../../../../docs/monitoring

import (
	"encoding/base32"
	"fmt"
	"slices"
	"strings"

	"ashlar/integrations/vsphere/catalogue"
)

const (
	// namespace of the content pack.
	namespace = "org.ashlar.array"
	// searchTerm is in every message of the array, and in no other: its first SD-ID (RFC 5424 6.3.2).
	searchTerm = "ashlar@32473"
	// text of a parameter value, with RFC 5424's escapes.
	text = `(?:[^"\\\]]|\\.)*`
	// quoted is text in quotes in the text of a message.
	quoted = `(?:[^"\\]|\\.)*`
	// mark may stand before text that is not ASCII (RFC 5424 6.4).
	mark = `\x{FEFF}?`
)

// Class of messages, as they name it.
type Class string

const (
	alerts      Class = "alert"
	events      Class = "event"
	audit       Class = "audit"
	performance Class = "performance"
	capacity    Class = "capacity"
)

// Field is a value that is extracted from messages by a regular expression in three parts.
type Field struct {
	Name             string
	Pre, Value, Post string
	Info             string
	// Classes of messages that have it; none: every message.
	Classes []Class
	// Kinds of messages that have it, of these classes; none: all may have it.
	Kinds []string
}

// Fields of the array's messages.
var Fields = slices.Concat(common, objects, ofAlerts, ofEvents, ofAudit,
	values(performance, catalogue.Performance), values(capacity, catalogue.Capacity))

var (
	described = []Class{alerts, events}
	named     = []Class{alerts, events, audit}
)

var common = []Field{
	{"ashlar_class", `\[ashlar@32473 class="`, `[a-z]+`, `"`, "alert, event, audit, performance or capacity", nil, nil},
	{"ashlar_serial", ` serial="`, `[0-9a-f]{16}`, `"`, "serial number of the array", nil, nil},
	{"ashlar_kind", ` kind="`, text, `"`, "kind of the alert or event", described, nil},
	{"ashlar_category", ` kind="`, `[a-z-]+`, `[."]`, "first word of the kind", described, nil},
	{"ashlar_severity", ` severity="`, `[a-z]+`, `"`, "info, warning or critical", described, nil},
}

// nameOf is a field with the name of an object of one kind.
func nameOf(name, noun, info string) Field {
	return Field{name, ` noun="` + noun + `" name="`, text, `"`, info, named, nil}
}

var objects = []Field{
	{"ashlar_object_kind", ` noun="`, text, `"`, "kind of object concerned", named, nil},
	{"ashlar_object", ` name="`, text, `"`, "name of the object concerned", named, nil},
	nameOf("ashlar_volume", "volume", ""),
	nameOf("ashlar_volume_group", "volume group", ""),
	nameOf("ashlar_host", "host", ""),
	nameOf("ashlar_drive", "drive", "slot of the drive, or its path"),
	nameOf("ashlar_replication", "replication", ""),
	nameOf("ashlar_remote_array", "remote array", ""),
	nameOf("ashlar_notification_target", "notification target", ""),
}

var ofAlerts = []Field{
	{"ashlar_alert", `\[alert@32473 id="`, `\d+`, `"`, "number of the alert; one condition keeps it from beginning to end", []Class{alerts}, nil},
	{"ashlar_event", ` event="`, `[a-z.]+`, `"`, "alert.opened, alert.worse, alert.closed or test", []Class{alerts}, nil},
	{"ashlar_drive_path", `the drive of slot \d+ \(`, `[^)]+`, `\)`, "device or file of the drive", []Class{alerts}, []string{"drive.evacuating", "drive.slow", "drive.checksum-errors", "drive.failing", "drive.worn"}},
	{"ashlar_host_portals", `is logged in at one of `, `\d+`, ` portals`, "portals of the array", []Class{alerts}, []string{"host.one-path"}},
	{"ashlar_replication_rpo_seconds", `misses its RPO of `, `\d+`, ` s`, "recovery point objective", []Class{alerts}, []string{"replication.rpo"}},
	{"ashlar_replication_lag_seconds", `the lag is `, `\d+`, ` s`, "age of the newest point on the target", []Class{alerts}, []string{"replication.rpo"}},
	{"ashlar_space_percent", `\] `, `\d+`, ` % of the drives' space is in use`, "space in use", described, []string{"space.threshold", "space.threshold-crossed"}},
	{"ashlar_map_percent", `\] `, `\d+`, ` % of the map pages`, "map pages in use", []Class{alerts}, []string{"space.map"}},
	{"ashlar_full_in_days", `the drives are full in less than `, `\d+`, ` days`, "", []Class{alerts}, []string{"space.forecast"}},
	{"ashlar_certificate_days", `the certificate expires in less than `, `\d+`, ` days`, "", []Class{alerts}, []string{"certificate.expiry"}},
	{"ashlar_scrub_errors", `the last scrub found `, `\d+`, ` pages`, "wrong pages", []Class{alerts}, []string{"scrub.found"}},
	{"ashlar_scrub_repaired", `been written: `, `\d+`, ` were written again`, "repaired pages", []Class{alerts}, []string{"scrub.found"}},
	{"ashlar_scrub_lost", `were written again, `, `\d+`, ` are lost`, "lost pages", described, []string{"scrub.found", "scrub.finished"}},
	{"ashlar_contradictions", `contradict each other in `, `\d+`, ` places`, "", []Class{alerts}, []string{"metadata.contradiction"}},
}

// hostLogins are events about sessions of hosts.
var hostLogins = []string{"host.logged-in", "host.logged-out", "host.login-refused", "initiator.login-refused"}

var ofEvents = []Field{
	{"ashlar_event_number", `\[event@32473 id="`, `\d+`, `"`, "number of the event", []Class{events}, nil},
	{"ashlar_initiator", ` (?:logged in|logged out, .+?|was refused, .+?): `, `\S+`, ` from [0-9a-f.:]+ at portal `, "name of the initiator", []Class{events}, hostLogins},
	{"ashlar_portal", ` at portal `, `\d+`, ``, "number of the portal", []Class{events}, hostLogins},
	{"ashlar_refusal", ` was refused, `, `.+?`, `: (?:\S+|an initiator that gave no name) from [0-9a-f.:]+ at portal `, "why the log-in of an initiator was refused", []Class{events}, hostLogins[2:]},
	{"ashlar_login_user", `\] ` + mark + `(?:user|a log-in as) "`, quoted, `" (?:logged in )?from `, "user who logged in, or could not", []Class{events}, []string{"session.begun", "session.refused"}},
	{"ashlar_takeover_ms", ` took over from controller \d+, [^:]+, in `, `\d+`, ` ms`, "", []Class{events}, []string{"controller.takeover"}},
	{"ashlar_scrub_bytes", `the scrub (?:is finished|was cancelled): `, `\d+`, ` bytes read`, "", []Class{events}, []string{"scrub.finished"}},
}

var ofAudit = []Field{
	{"ashlar_entry", `\[audit@32473 id="`, `\d+`, `"`, "number of the entry of the audit log", []Class{audit}, nil},
	{"ashlar_outcome", ` outcome="`, `[a-z]+`, `"`, "done or refused", []Class{audit}, nil},
	{"ashlar_user", ` user="`, text, `"`, "user who asked for it", []Class{audit}, nil},
	{"ashlar_origin", ` origin="`, text, `"`, "address that the request came from", []Class{audit}, nil},
	{"ashlar_action", ` action="`, `\w+`, `"`, "what was asked for", []Class{audit}, nil},
}

// values are the fields of a message with statistics.
func values(class Class, of []catalogue.Value) []Field {
	var fields []Field
	for _, it := range of {
		fields = append(fields, Field{"ashlar_" + it.Name, ` ` + it.Name + `="`, `\d+`, `"`, it.Meaning, []Class{class}, nil})
	}
	return fields
}

// Expression is the regular expression of a field; its group is the value.
func (f Field) Expression() string { return f.Pre + "(" + f.Value + ")" + f.Post }

// terms find the messages that have the field by full text.
func (f Field) terms() string {
	if len(f.Classes) == 1 {
		return string(f.Classes[0]) + "@32473"
	}
	return searchTerm
}

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
