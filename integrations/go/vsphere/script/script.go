// Package script writes the table of settings as scripts, for those who change hosts with their own tools.
package script

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/practice"
)

// Languages of scripts.
const (
	Shell    = "esxcli"
	PowerCLI = "powercli"
	Python   = "pyvmomi"
)

// Request is what a script is written for.
type Request struct {
	Language string
	practice.Want
	// Settings by id; none: all that are not optional.
	Settings []string
}

//go:embed shell.tmpl
var shell string

//go:embed powercli.tmpl
var powerCLI string

//go:embed pyvmomi.tmpl
var python string

var templates = map[string]*template.Template{
	Shell: parsed(Shell, shell), PowerCLI: parsed(PowerCLI, powerCLI), Python: parsed(Python, python),
}

func parsed(name, text string) *template.Template {
	return template.Must(template.New(name).Funcs(template.FuncMap{
		"path":   func(key string) string { return "/" + strings.Replace(key, ".", "/", 1) },
		"quoted": quoted,
		"double": func(text string) string { return `"` + strings.ReplaceAll(text, `"`, "`\"") + `"` },
		"python": func(text string) string { return fmt.Sprintf("%q", text) },
		"value":  func(option option) string { return option.value },
		"join":   strings.Join,
	}).Parse(text))
}

// quoted makes one word of a text for the shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// option is an option of esxcli.
type option struct{ Name, value string }

func split(options []string) []option {
	var made []option
	for _, text := range options {
		name, value, _ := strings.Cut(strings.TrimPrefix(text, "--"), "=")
		made = append(made, option{name, value})
	}
	return made
}

// Flag: the shell's form has no value.
func (o option) Flag() bool { return o.value == "true" }

// Parameter is the name of the option in vSphere's API.
func (o option) Parameter() string { return strings.ReplaceAll(o.Name, "-", "") }

type module struct {
	Driver   string
	Settings []practice.Setting
}

// content is what the templates read.
type content struct {
	Version, Vendor, Product string
	Portals                  []string
	CHAPUser                 string
	Options, ISCSI           []practice.Setting
	Modules                  []module
	SATP, VAAI               []option
	// Which of the settings are wanted, by kind.
	Software, Rule, Claim       bool
	Policy, Switch, Outstanding string
}

// Write returns a script.
func Write(request Request) (string, error) {
	form := templates[request.Language]
	if form == nil {
		return "", fmt.Errorf("there is no form %q: there are %s, %s and %s", request.Language, Shell, PowerCLI, Python)
	}
	for _, id := range request.Settings {
		if setting, known := practice.Find(id); !known || !setting.Changeable() {
			return "", fmt.Errorf("%q is no setting that a script can change: `ashlar-vsphere settings` lists them", id)
		}
	}
	var out strings.Builder
	err := form.Execute(&out, collect(request))
	return out.String(), err
}

func collect(request Request) content {
	made := content{Version: array.Version, Vendor: practice.Vendor, Product: practice.Product}
	for _, setting := range practice.Table {
		if len(request.Settings) == 0 && setting.Optional || len(request.Settings) > 0 && !slices.Contains(request.Settings, setting.ID) {
			continue
		}
		made.add(setting, request)
	}
	return made
}

func (c *content) add(setting practice.Setting, request Request) {
	switch setting.Kind {
	case practice.Option:
		c.Options = append(c.Options, setting)
	case practice.ISCSI:
		c.ISCSI = append(c.ISCSI, setting)
	case practice.Module:
		at := slices.IndexFunc(c.Modules, func(it module) bool { return it.Driver == setting.Driver })
		if at < 0 {
			c.Modules = append(c.Modules, module{Driver: setting.Driver})
			at = len(c.Modules) - 1
		}
		c.Modules[at].Settings = append(c.Modules[at].Settings, setting)
	case practice.SATPRule:
		c.Rule, c.SATP = true, split(practice.SATPRuleOptions())
	case practice.VAAIRule:
		c.Claim, c.VAAI = true, split(practice.VAAIRuleOptions(practice.VAAIRuleNumber))
	case practice.Software:
		c.Software = true
	case practice.Discovery:
		c.Portals = request.Portals
	case practice.CHAP:
		c.CHAPUser = request.CHAPUser
	case practice.PathPolicy:
		c.Policy = setting.Recommended
	case practice.PathSwitch:
		c.Switch = setting.Recommended
	case practice.Outstanding:
		c.Outstanding = setting.Recommended
	}
}

// Adapter reports whether the script needs the software iSCSI adapter.
func (c content) Adapter() bool {
	return c.Software || c.Portals != nil || c.CHAPUser != "" || c.ISCSI != nil
}

// Devices reports whether the script changes devices.
func (c content) Devices() bool { return c.Policy != "" || c.Switch != "" || c.Outstanding != "" }
