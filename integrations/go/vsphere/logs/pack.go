package logs

import (
	"encoding/json"
	"slices"

	"ashlar/integrations/array"
)

// object is a JSON object of the content pack.
type object = map[string]any

// inner is an object that the format keeps as text.
func inner(it any) string {
	made, err := json.Marshal(it)
	if err != nil {
		panic(err)
	}
	return string(made)
}

func (f Field) extracted() object {
	info := any(nil)
	if f.Info != "" {
		info = f.Info
	}
	return object{
		"displayName": f.Name, "preContext": f.Pre, "regexValue": f.Value, "postContext": f.Post, "internalName": f.internalName(),
		// Without search terms the expression would run on every message of every product.
		"constraints": inner(object{"searchTerms": searchTerm}), "info": info,
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
	constraints := []object{}
	for _, it := range where {
		constraints = append(constraints, object{"internalName": use(it.Field), "operator": it.Operator, "value": it.Value})
	}
	groups := []object{}
	for _, name := range by {
		groups = append(groups, object{"displayName": name, "internalName": use(name), "displayNamespace": namespace,
			"numericGroupByType": "EACH_VALUE", "numericGroupByValue": nil})
	}
	on := any(nil)
	if of != "" {
		on = object{"displayName": of, "internalName": use(of), "displayNamespace": namespace}
	}
	call := object{"label": title[function], "value": function, "requiresField": of != "", "numericOnly": of != ""}
	copies := []object{}
	for _, name := range used {
		copies = append(copies, field(name).extracted())
	}
	const day = 86_400_000
	return inner(object{
		"query": searchTerm, "startTimeMillis": 0, "endTimeMillis": day, "dateFilterPreset": "CUSTOM",
		"piqlFunctionGroups": []object{{"functions": []object{call}, "field": on}}, "piqlFunction": call, "piqlFunctionField": on,
		"shouldGroupByTime": overTime, "groupByFields": groups, "fieldConstraints": constraints, "supplementalConstraints": []object{},
		"constraintToggle": "ALL", "eventSortOrder": "DESC", "summarySortOrder": "DESC", "compareQueryOrderBy": "TREND",
		"compareQuerySortOrder": "DESC", "compareQueryOptions": nil, "messageViewType": "EVENTS", "extractedFields": copies,
	})
}

var title = map[string]string{"COUNT": "Count", "MAX": "Maximum", "MIN": "Minimum"}

// rowWidgets is the most widgets of a row that the product's rules allow.
const rowWidgets = 3

func (d Dashboard) view() object {
	rows := []object{}
	for widgets := range slices.Chunk(d.Widgets, rowWidgets) {
		made := []object{}
		for _, it := range widgets {
			made = append(made, it.widget())
		}
		rows = append(rows, object{"widgets": made})
	}
	return object{"name": d.Name, "constraints": []object{}, "rows": rows}
}

func (w Widget) widget() object {
	kind, chart := "chart", any(w.Chart)
	switch w.Chart {
	case "table":
		kind, chart = "summary", nil
	case "column":
		chart = "column"
	}
	return object{"name": w.Name, "info": w.Info, "widgetType": kind, "chartType": chart, "chartOptions": inner(object{}),
		"chartQuery": query(w.Function, w.Field, w.By, w.Time, w.Where), "messageQuery": ""}
}

// Every five minutes the last five minutes are searched.
const searchMillis = 300_000

func (a Alarm) alarm() object {
	return object{"name": a.Name, "info": a.Info, "recommendation": a.Remedy, "alertType": "RATE_BASED",
		"chartQuery": query("COUNT", "", nil, true, a.Where), "messageQuery": "", "hitCount": 0.0, "hitOperator": "GREATER_THAN",
		"searchPeriod": searchMillis, "searchInterval": searchMillis}
}

// Pack is the content pack (`.vlcp`).
func Pack() ([]byte, error) {
	fields, alarms, views := []object{}, []object{}, []object{}
	for _, it := range Fields {
		fields = append(fields, it.extracted())
	}
	for _, it := range Alarms {
		alarms = append(alarms, it.alarm())
	}
	for _, it := range Dashboards {
		views = append(views, it.view())
	}
	made, err := json.MarshalIndent(object{
		"name": "Ashlar all-flash array", "namespace": namespace, "contentPackId": namespace, "framework": "#9c4", "version": "2.4",
		"contentVersion": array.Version, "author": "Ashlar", "url": "", "icon": icon,
		"info": "Alerts of Ashlar arrays: dashboards, fields and alerts.",
		"instructions": "On each array: <code>ashlar notification create logs --syslog HOST:6514 --tls --severity info</code>. " +
			"Alerts of this pack are disabled until you enable them.",
		"extractedFields": fields, "queries": []object{}, "alerts": alarms,
		"dashboardSections": []object{{"views": views, "header": ""}}, "aliasFields": []object{}, "aliasRules": []object{},
	}, "", " ")
	return append(made, '\n'), err
}

// icon is one grey pixel.
const icon = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="
