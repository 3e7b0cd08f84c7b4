package logs

import (
	"strings"

	"ashlar/integrations/vsphere/catalogue"
)

// Condition limits what a widget or an alert counts. Operators are those of the content pack.
type Condition struct{ Field, Operator, Value string }

// Widget is a chart of a dashboard.
type Widget struct {
	Name, Info string
	// Function over a field: COUNT has none.
	Function, Field string
	// By are the fields that it is grouped by; Time: also by time.
	By    []string
	Time  bool
	Where []Condition
	// Chart is area, column, pie, number or table.
	Chart string
}

// Dashboard of both products.
type Dashboard struct {
	Name    string
	Widgets []Widget
}

// opened are messages with which something begins or gets worse.
var opened = Condition{"ashlar_event", "MATCH", "alert\\.(opened|worse)"}

func of(category catalogue.Category) Condition {
	return kinds(func(it catalogue.Kind) bool { return it.Category == category })
}

// replication are the kinds of alerts of replications and of the arrays that they go to.
var replication = kinds(func(it catalogue.Kind) bool {
	return strings.HasPrefix(it.Name, "replication.") || strings.HasPrefix(it.Name, "remote-array.")
})

// ofEvent are the kinds of events of a category.
func ofEvent(category catalogue.Category) Condition {
	return among(catalogue.Events, func(it catalogue.Kind) bool { return it.Category == category })
}

func kinds(wanted func(catalogue.Kind) bool) Condition { return among(catalogue.Kinds, wanted) }

func among(all []catalogue.Kind, wanted func(catalogue.Kind) bool) Condition {
	var names []string
	for _, kind := range all {
		if wanted(kind) {
			names = append(names, kind.Name)
		}
	}
	return Condition{"ashlar_kind", "MATCH", strings.Join(names, "|")}
}

func count(name string, where ...Condition) Widget {
	return Widget{Name: name, Function: "COUNT", Where: where, Chart: "number"}
}

func over(name, by string, where ...Condition) Widget {
	return Widget{Name: name, Function: "COUNT", By: []string{by}, Time: true, Where: where, Chart: "column"}
}

func share(name, by string, where ...Condition) Widget {
	return Widget{Name: name, Function: "COUNT", By: []string{by}, Where: where, Chart: "pie"}
}

// measured is a measured value over time, of each array.
func measured(name, function, of string) Widget {
	return Widget{Name: name, Function: function, Field: of, By: []string{"ashlar_serial"}, Time: true, Chart: "area", Where: []Condition{{of, "EXISTS", ""}}}
}

func most(name, of string) Widget { return measured(name, "MAX", of) }

func least(name, of string) Widget { return measured(name, "MIN", of) }

func average(name, of string) Widget { return measured(name, "AVG", of) }

func total(name, of string) Widget { return measured(name, "SUM", of) }

// is are messages of a class.
func is(class Class) Condition { return Condition{"ashlar_class", "EQUAL", string(class)} }

// events of a kind that begins with a word.
func about(words string) Condition { return Condition{"ashlar_kind", "MATCH", "(" + words + ")\\..*"} }

func table(name string, by []string, where ...Condition) Widget {
	return Widget{Name: name, Function: "COUNT", By: by, Where: where, Chart: "table"}
}

// Dashboards of the content pack and of Grafana.
var Dashboards = []Dashboard{
	{"Overview", []Widget{
		count("Critical alerts", opened, Condition{"ashlar_severity", "EQUAL", "critical"}),
		count("Warnings", opened, Condition{"ashlar_severity", "EQUAL", "warning"}),
		share("By kind", "ashlar_kind", opened),
		over("Over time", "ashlar_severity", opened),
		table("Arrays", []string{"ashlar_serial", "ashlar_severity"}, opened),
		over("Ended", "ashlar_kind", Condition{"ashlar_event", "EQUAL", "alert.closed"}),
	}},
	{"Performance", []Widget{
		average("Reads per second", "ashlar_read_iops"),
		average("Writes per second", "ashlar_write_iops"),
		average("Read latency, µs", "ashlar_read_latency_us"),
		average("Bytes read per second", "ashlar_read_bytes"),
		average("Bytes written per second", "ashlar_write_bytes"),
		average("Write latency, µs", "ashlar_write_latency_us"),
	}},
	{"Offloads (VAAI, ODX)", []Widget{
		total("ATS: COMPARE AND WRITE", "ashlar_ats"),
		total("XCOPY: EXTENDED COPY", "ashlar_xcopy"),
		total("Block zero: WRITE SAME", "ashlar_write_same"),
		total("UNMAP", "ashlar_unmap"),
		total("Bytes copied by sharing", "ashlar_shared_bytes"),
		total("Bytes copied by reading and writing", "ashlar_moved_bytes"),
	}},
	{"Capacity and quotas", []Widget{
		most("Space in use, %", "ashlar_used_percent"),
		average("Data reduction ratio, %", "ashlar_reduction_percent"),
		least("Free bytes", "ashlar_free_bytes"),
		table("Volume groups at a quota", []string{"ashlar_volume_group", "ashlar_severity"}, opened, of(catalogue.Quota)),
		over("Alerts about space", "ashlar_kind", opened, of(catalogue.Space)),
		least("Drives are full in, days", "ashlar_full_in_days"),
	}},
	{"Protection and drives", []Widget{
		over("Alerts about protection", "ashlar_kind", opened, of(catalogue.Protection)),
		table("Alerts about drives", []string{"ashlar_drive", "ashlar_kind"}, opened, of(catalogue.Drives)),
		table("Events of drives and scrubs", []string{"ashlar_kind", "ashlar_severity"}, is(events), about("drive|scrub|protection")),
		most("Wrong pages of a scrub", "ashlar_scrub_errors"),
		most("Lost pages of a scrub", "ashlar_scrub_lost"),
		over("Controllers", "ashlar_kind", is(events), about("controller")),
	}},
	{"Hosts, paths and volumes", []Widget{
		table("Hosts with path trouble", []string{"ashlar_host", "ashlar_kind"}, opened, of(catalogue.Paths)),
		over("Sessions that began and ended", "ashlar_kind", is(events), Condition{"ashlar_kind", "MATCH", "host\\.logged-(in|out)"}),
		table("Refused log-ins", []string{"ashlar_initiator", "ashlar_refusal"}, is(events), Condition{"ashlar_kind", "MATCH", "(host|initiator)\\.login-refused"}),
		over("Log-ins by portal", "ashlar_portal", is(events), Condition{"ashlar_kind", "EQUAL", "host.logged-in"}),
		table("Changes of hosts", []string{"ashlar_object", "ashlar_kind"}, is(events), about("host|host-group")),
		table("Changes of volumes and snapshots", []string{"ashlar_object", "ashlar_kind"}, is(events), about("volume|snapshot")),
	}},
	{"Replication", []Widget{
		over("Alerts about replication", "ashlar_kind", opened, replication),
		most("Lag when an RPO was missed, s", "ashlar_replication_lag_seconds"),
		table("Replications", []string{"ashlar_replication", "ashlar_kind"}, opened, replication),
		table("Remote arrays that were disconnected", []string{"ashlar_remote_array"}, opened,
			Condition{"ashlar_kind", "EQUAL", "remote-array.disconnected"}),
		count("Split replications", opened, Condition{"ashlar_kind", "EQUAL", "replication.split"}),
		over("Events of replications", "ashlar_kind", is(events), about("replication|remote-array")),
	}},
	{"Security and audit", []Widget{
		over("Changes by user", "ashlar_user", is(audit)),
		table("Refused changes", []string{"ashlar_user", "ashlar_action", "ashlar_origin"}, is(audit), Condition{"ashlar_outcome", "EQUAL", "refused"}),
		share("Changes by action", "ashlar_action", is(audit), Condition{"ashlar_outcome", "EQUAL", "done"}),
		table("Refused log-ins of users", []string{"ashlar_login_user"}, is(events), Condition{"ashlar_kind", "EQUAL", "session.refused"}),
		over("Log-ins of users", "ashlar_login_user", is(events), Condition{"ashlar_kind", "EQUAL", "session.begun"}),
		table("Users, tokens, keys, certificates", []string{"ashlar_kind", "ashlar_object"}, is(events), ofEvent(catalogue.Security)),
	}},
	{"Management", []Widget{
		over("Alerts about management", "ashlar_kind", opened, of(catalogue.Management)),
		least("Certificate expires in, days", "ashlar_certificate_days"),
		table("Targets that can't be reached", []string{"ashlar_notification_target"}, opened, Condition{"ashlar_kind", "EQUAL", "notification.failing"}),
		over("Events about management", "ashlar_kind", is(events), ofEvent(catalogue.Management)),
		most("Map pages in use, %", "ashlar_map_percent"),
	}},
}

// Alarm is an alert of the log product.
type Alarm struct {
	Name, Info, Remedy string
	Where              []Condition
}

// Alarms are raised by one message.
var Alarms = []Alarm{
	{"Ashlar: data are in danger", "An alert about protection is critical.", "`ashlar alert list`; replace drives that failed.",
		[]Condition{opened, of(catalogue.Protection), {"ashlar_severity", "EQUAL", "critical"}}},
	{"Ashlar: space runs out", "90 % of the space is in use, or less than a week is left.", "Unmap or delete what is not needed, or add drives.",
		[]Condition{opened, of(catalogue.Space), {"ashlar_severity", "EQUAL", "critical"}}},
	{"Ashlar: a quota was crossed", "A volume group is over its soft quota or at its hard quota.", "`ashlar group show NAME`; unmap, or raise the quota.",
		[]Condition{opened, of(catalogue.Quota)}},
	{"Ashlar: a drive needs attention", "A drive failed, is worn or slow.", "`ashlar drive list`; replace it.",
		[]Condition{opened, of(catalogue.Drives), {"ashlar_severity", "NOT_EQUAL", "info"}}},
	{"Ashlar: a host has one path", "One more failure takes its volumes away.", "Check the host's send targets and the network.",
		[]Condition{opened, {"ashlar_kind", "EQUAL", "host.one-path"}}},
	{"Ashlar: a replication is not as it should be", "An RPO is missed, the target has no space, or both arrays take writes.",
		"`ashlar replication show NAME`; its state says why.", []Condition{opened, kinds(func(it catalogue.Kind) bool {
			return strings.HasPrefix(it.Name, "replication.")
		})}},
	{"Ashlar: log-ins of users are refused", "An attacker may be guessing a password.", "The message has the user's name and the address.",
		[]Condition{is(events), {"ashlar_kind", "EQUAL", "session.refused"}}},
	{"Ashlar: management needs attention", "Certificate, clock, secrets or history.", "`ashlar alert list` says what to do.",
		[]Condition{opened, of(catalogue.Management), {"ashlar_severity", "NOT_EQUAL", "info"}}},
}
