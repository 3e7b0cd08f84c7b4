package logs

import (
	"encoding/json"
	"fmt"
	"strings"
)

// stream selects the array's messages in Loki, whatever labels the collector gave them besides.
const stream = `{job=~"$job"} |= ` + "`" + searchTerm + "`"

// expression is the query of a widget in LogQL.
func (w Widget) expression() string {
	used := map[string]bool{}
	query := stream
	use := func(name string) {
		if !used[name] {
			used[name] = true
			it := field(name)
			query += fmt.Sprintf(" | regexp `%s(?P<%s>%s)%s`", it.Pre, name, it.Value, it.Post)
		}
	}
	for _, it := range w.Where {
		use(it.Field)
		switch it.Operator {
		case "EQUAL":
			query += fmt.Sprintf(" | %s=`%s`", it.Field, it.Value)
		case "NOT_EQUAL":
			query += fmt.Sprintf(" | %s!=`%s`", it.Field, it.Value)
		case "MATCH":
			query += fmt.Sprintf(" | %s=~`%s`", it.Field, it.Value)
		case "EXISTS":
			query += fmt.Sprintf(" | %s!=``", it.Field)
		}
	}
	for _, name := range w.By {
		use(name)
	}
	by := ""
	if len(w.By) > 0 {
		by = " by (" + strings.Join(w.By, ", ") + ")"
	}
	if w.Function == "COUNT" {
		period := "$__range"
		if w.Time {
			period = "$__interval"
		}
		return fmt.Sprintf("sum%s (count_over_time(%s [%s]))", by, query, period)
	}
	use(w.Field)
	function := map[string]string{"MAX": "max", "MIN": "min", "AVG": "avg", "SUM": "sum"}[w.Function]
	return fmt.Sprintf("%s%s (%s_over_time(%s | unwrap %s [$__interval]))", function, by, function, query, w.Field)
}

var panels = map[string]string{"number": "stat", "pie": "piechart", "column": "timeseries", "area": "timeseries", "table": "table"}

// Grafana is the dashboard for Grafana over Loki.
func Grafana() ([]byte, error) {
	const width, height, columns = 8, 8, 3
	source := document{"type": "loki", "uid": "${datasource}"}
	made := []document{}
	y, id := 0, 0
	for _, dashboard := range Dashboards {
		id++
		made = append(made, document{"id": id, "type": "row", "title": dashboard.Name, "collapsed": false,
			"gridPos": document{"x": 0, "y": y, "w": width * columns, "h": 1}, "panels": []document{}})
		y++
		for at, it := range dashboard.Widgets {
			id++
			target := document{"refId": "A", "datasource": source, "expr": it.expression(), "queryType": "range"}
			if !it.Time {
				target["queryType"] = "instant"
			}
			made = append(made, document{"id": id, "type": panels[it.Chart], "title": it.Name, "description": it.Info, "datasource": source,
				"gridPos": document{"x": at % columns * width, "y": y + at/columns*height, "w": width, "h": height}, "targets": []document{target},
				"fieldConfig": document{"defaults": document{}, "overrides": []document{}}, "options": document{}})
		}
		y += (len(dashboard.Widgets) + columns - 1) / columns * height
	}
	text, err := json.MarshalIndent(document{
		"title": "Ashlar logs (Loki)", "uid": "ashlar-logs", "tags": []string{"ashlar"}, "schemaVersion": 39, "version": 1, "editable": false,
		"time": document{"from": "now-24h", "to": "now"}, "panels": made,
		"templating": document{"list": []document{
			{"name": "datasource", "type": "datasource", "query": "loki", "label": "Data source"},
			{"name": "job", "type": "query", "label": "Job", "datasource": source, "query": "label_values(job)", "includeAll": true,
				"multi": true, "refresh": 2, "allValue": ".+"},
		}},
	}, "", "  ")
	return append(text, '\n'), err
}

// Files are what is generated, by name.
var Files = map[string]func() ([]byte, error){"ashlar.vlcp": Pack, "grafana-logs.json": Grafana}
