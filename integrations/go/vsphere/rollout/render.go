package rollout

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"

	"ashlar/integrations/vsphere/practice"
)

// Formats of a report.
const (
	Table = "table"
	JSON  = "json"
	HTML  = "html"
)

// Write writes a report. All: also what is as recommended.
func (r Report) Write(out io.Writer, format string, all bool) error {
	switch format {
	case JSON:
		lines := json.NewEncoder(out)
		lines.SetIndent("", "  ")
		return lines.Encode(r)
	case HTML:
		return page.Execute(out, map[string]any{"Report": r, "Shown": r.shown(all), "Deviations": r.Deviations()})
	case Table:
		return r.table(out, all)
	}
	return fmt.Errorf("there is no format %q: there are table, json and html", format)
}

func (r Report) shown(all bool) []practice.Finding {
	var shown []practice.Finding
	for _, finding := range r.Findings {
		if all || finding.Verdict == practice.Deviates || finding.Verdict == practice.Unknown {
			shown = append(shown, finding)
		}
	}
	return shown
}

func (r Report) table(out io.Writer, all bool) error {
	lines := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "HOST\tSETTING\tOBJECT\tCURRENT\tRECOMMENDED\tVERDICT\tSEVERITY\tREBOOT")
	explained := map[string]bool{}
	var why []string
	for _, it := range r.shown(all) {
		name, verdict := it.Setting, string(it.Verdict)
		if it.Optional && it.Verdict == practice.Deviates {
			verdict += " (optional)"
		}
		fmt.Fprintln(lines, strings.Join([]string{it.Host, name, dash(it.Object), it.Current, it.Recommended, verdict,
			string(it.Severity), yes(it.Reboot)}, "\t"))
		if it.Verdict != practice.Good && !explained[name] {
			explained[name] = true
			why = append(why, "  "+name+": "+it.Why)
		}
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	r.notes(out, why)
	return nil
}

func (r Report) notes(out io.Writer, why []string) {
	if len(why) > 0 {
		fmt.Fprintln(out, "\n"+strings.Join(why, "\n"))
	}
	for _, step := range r.Changes {
		fmt.Fprintln(out, step)
	}
	for _, note := range r.Notes {
		fmt.Fprintln(out, "note:", note)
	}
	for _, host := range r.Unread {
		fmt.Fprintln(out, "not read:", host)
	}
	fmt.Fprintf(out, "%s: %d hosts read, %d not read, %d deviations\n", r.Scope, len(r.Hosts), len(r.Unread), r.Deviations())
}

func (s Step) String() string {
	text := fmt.Sprintf("%s: %s %s: %s -> %s", s.Outcome, s.Host, strings.TrimSpace(s.Setting+" "+s.Object), s.From, s.To)
	if s.Reboot {
		text += ", in force after a reboot"
	}
	if s.Error != "" {
		text += ": " + s.Error
	}
	return text
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Best-practice check of {{.Report.Scope}}</title>
<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}th,td{text-align:left;padding:.3em .8em;border-bottom:1px solid #bbb;vertical-align:top}
.deviates{color:#a00}.unknown{color:#850}</style></head><body>
<h1>Best-practice check of {{.Report.Scope}}</h1>
<p>{{len .Report.Hosts}} hosts read, {{len .Report.Unread}} not read, {{.Deviations}} deviations.</p>
{{range .Report.Unread}}<p class="unknown">Not read: {{.}}</p>{{end}}{{range .Report.Notes}}<p>{{.}}</p>{{end}}
<table><thead><tr><th>Host</th><th>Setting</th><th>Object</th><th>Current</th><th>Recommended</th><th>Verdict</th><th>Severity</th><th>Reboot</th><th>Why</th></tr></thead><tbody>
{{range .Shown}}<tr><td>{{.Host}}</td><td>{{.Title}} ({{.Setting}})</td><td>{{.Object}}</td><td>{{.Current}}</td><td>{{.Recommended}}</td><td class="{{.Verdict}}">{{.Verdict}}{{if .Optional}} (optional){{end}}</td><td>{{.Severity}}</td><td>{{if .Reboot}}yes{{else}}no{{end}}</td><td>{{.Why}}</td></tr>
{{end}}</tbody></table>
{{if .Report.Changes}}<h2>Changes</h2><ul>{{range .Report.Changes}}<li>{{.}}</li>{{end}}</ul>{{end}}
</body></html>
`))
