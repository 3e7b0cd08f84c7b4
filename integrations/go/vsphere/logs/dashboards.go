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

func kinds(wanted func(catalogue.Kind) bool) Condition {
	var names []string
	for _, kind := range catalogue.Kinds {
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

func most(name, of string) Widget {
	return Widget{Name: name, Function: "MAX", Field: of, Time: true, Chart: "area", Where: []Condition{{of, "EXISTS", ""}}}
}

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
	{"Capacity and quotas", []Widget{
		most("Space in use, %", "ashlar_space_percent"),
		most("Map pages in use, %", "ashlar_map_percent"),
		table("Volume groups at a quota", []string{"ashlar_volume_group", "ashlar_severity"}, opened, of(catalogue.Quota)),
		over("Alerts about space", "ashlar_kind", opened, of(catalogue.Space)),
		{Name: "Drives are full in, days", Function: "MIN", Field: "ashlar_full_in_days", Time: true, Chart: "area",
			Where: []Condition{{"ashlar_full_in_days", "EXISTS", ""}}},
	}},
	{"Protection and drives", []Widget{
		over("Alerts about protection", "ashlar_kind", opened, of(catalogue.Protection)),
		table("Drives", []string{"ashlar_drive", "ashlar_kind"}, opened, of(catalogue.Drives)),
		most("Wrong pages of a scrub", "ashlar_scrub_errors"),
		most("Lost pages of a scrub", "ashlar_scrub_lost"),
	}},
	{"Hosts, paths and volumes", []Widget{
		table("Hosts with path trouble", []string{"ashlar_host", "ashlar_kind"}, opened, of(catalogue.Paths)),
		over("Path alerts", "ashlar_host", opened, of(catalogue.Paths)),
		table("Volumes", []string{"ashlar_volume", "ashlar_kind"}, opened, of(catalogue.Volume)),
	}},
	{"Replication", []Widget{
		over("Alerts about replication", "ashlar_kind", opened, replication),
		most("Lag when an RPO was missed, s", "ashlar_replication_lag_seconds"),
		table("Replications", []string{"ashlar_replication", "ashlar_kind"}, opened, replication),
		table("Remote arrays that were disconnected", []string{"ashlar_remote_array"}, opened,
			Condition{"ashlar_kind", "EQUAL", "remote-array.disconnected"}),
		count("Split replications", opened, Condition{"ashlar_kind", "EQUAL", "replication.split"}),
	}},
	{"Security and management", []Widget{
		over("Alerts about management", "ashlar_kind", opened, of(catalogue.Management)),
		{Name: "Certificate expires in, days", Function: "MIN", Field: "ashlar_certificate_days", Time: true, Chart: "area",
			Where: []Condition{{"ashlar_certificate_days", "EXISTS", ""}}},
		table("Targets that can't be reached", []string{"ashlar_notification_target"}, opened),
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
	{"Ashlar: management needs attention", "Certificate, clock, secrets or history.", "`ashlar alert list` says what to do.",
		[]Condition{opened, of(catalogue.Management), {"ashlar_severity", "NOT_EQUAL", "info"}}},
}
