package logs

import (
	"encoding/json"
	"slices"

	"ashlar/integrations/array"
)

// document is a JSON object of the content pack.
type document = map[string]any

// inner is an object that the format keeps as text.
func inner(it any) string {
	made, err := json.Marshal(it)
	if err != nil {
		panic(err)
	}
	return string(made)
}

func (f Field) extracted() document {
	info := any(nil)
	if f.Info != "" {
		info = f.Info
	}
	return document{
		"displayName": f.Name, "preContext": f.Pre, "regexValue": f.Value, "postContext": f.Post, "internalName": f.internalName(),
		// Without search terms the expression would run on every message of every product.
		"constraints": inner(document{"searchTerms": f.terms()}), "info": info,
	}
}

// query of a widget or alarm. The times are placeholders: the product shows the period that the user chose.
func query(function, of string, by []string, overTime bool, where []Condition) string {
	used := []string{}
	use := func(name string) string {
		if !slices.Contains(used, name) {
			used = append(used, name)
		}
		return field(name).internalName()
	}
	constraints := []document{}
	for _, it := range where {
		constraints = append(constraints, document{"internalName": use(it.Field), "operator": it.Operator, "value": it.Value})
	}
	groups := []document{}
	for _, name := range by {
		groups = append(groups, document{"displayName": name, "internalName": use(name), "displayNamespace": namespace,
			"numericGroupByType": "EACH_VALUE", "numericGroupByValue": nil})
	}
	on := any(nil)
	if of != "" {
		on = document{"displayName": of, "internalName": use(of), "displayNamespace": namespace}
	}
	call := document{"label": title[function], "value": function, "requiresField": of != "", "numericOnly": of != ""}
	copies := []document{}
	for _, name := range used {
		copies = append(copies, field(name).extracted())
	}
	const day = 86_400_000
	return inner(document{
		"query": searchTerm, "startTimeMillis": 0, "endTimeMillis": day, "dateFilterPreset": "CUSTOM",
		"piqlFunctionGroups": []document{{"functions": []document{call}, "field": on}}, "piqlFunction": call, "piqlFunctionField": on,
		"shouldGroupByTime": overTime, "groupByFields": groups, "fieldConstraints": constraints, "supplementalConstraints": []document{},
		"constraintToggle": "ALL", "eventSortOrder": "DESC", "summarySortOrder": "DESC", "compareQueryOrderBy": "TREND",
		"compareQuerySortOrder": "DESC", "compareQueryOptions": nil, "messageViewType": "EVENTS", "extractedFields": copies,
	})
}

var title = map[string]string{"COUNT": "Count", "MAX": "Maximum", "MIN": "Minimum", "AVG": "Average", "SUM": "Sum"}

// rowWidgets is the most widgets of a row that the product's rules allow.
const rowWidgets = 3

func (d Dashboard) view() document {
	rows := []document{}
	for widgets := range slices.Chunk(d.Widgets, rowWidgets) {
		made := []document{}
		for _, it := range widgets {
			made = append(made, it.widget())
		}
		rows = append(rows, document{"widgets": made})
	}
	return document{"name": d.Name, "constraints": []document{}, "rows": rows}
}

func (w Widget) widget() document {
	kind, chart := "chart", any(w.Chart)
	switch w.Chart {
	case "table":
		kind, chart = "summary", nil
	case "column":
		chart = "column"
	}
	return document{"name": w.Name, "info": w.Info, "widgetType": kind, "chartType": chart, "chartOptions": inner(document{}),
		"chartQuery": query(w.Function, w.Field, w.By, w.Time, w.Where), "messageQuery": ""}
}

// Every five minutes the last five minutes are searched.
const searchMillis = 300_000

func (a Alarm) alarm() document {
	return document{"name": a.Name, "info": a.Info, "recommendation": a.Remedy, "alertType": "RATE_BASED",
		"chartQuery": query("COUNT", "", nil, true, a.Where), "messageQuery": "", "hitCount": 0.0, "hitOperator": "GREATER_THAN",
		"searchPeriod": searchMillis, "searchInterval": searchMillis}
}

// Pack is the content pack (`.vlcp`).
func Pack() ([]byte, error) {
	fields, alarms, views := []document{}, []document{}, []document{}
	for _, it := range Fields {
		fields = append(fields, it.extracted())
	}
	for _, it := range Alarms {
		alarms = append(alarms, it.alarm())
	}
	for _, it := range Dashboards {
		views = append(views, it.view())
	}
	made, err := json.MarshalIndent(document{
		"name": "Ashlar all-flash array", "namespace": namespace, "contentPackId": namespace, "framework": "#9c4", "version": "2.4",
		"contentVersion": array.Version, "author": "Ashlar", "url": "", "icon": icon,
		"info": "Alerts, events, audit log, performance and capacity of Ashlar arrays: dashboards, fields and alerts.",
		"instructions": "On each array: <code>ashlar notification create logs --syslog HOST:6514 --tls --severity info --content alerts,events,audit,statistics</code>. " +
			"Alerts of this pack are disabled until you enable them.",
		"extractedFields": fields, "queries": []document{}, "alerts": alarms,
		"dashboardSections": []document{{"views": views, "header": ""}}, "aliasFields": []document{}, "aliasRules": []document{},
	}, "", " ")
	return append(made, '\n'), err
}

// icon is one grey pixel.
const icon = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="
