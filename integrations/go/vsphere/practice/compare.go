package practice

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Verdict is the outcome of a comparison.
type Verdict string

const (
	// Good: as recommended.
	Good Verdict = "ok"
	// Deviates: not as recommended.
	Deviates Verdict = "deviates"
	// Advice is for people to decide; it is no deviation.
	Advice Verdict = "advice"
	// Unknown: it could not be read.
	Unknown Verdict = "unknown"
)

// Finding is one setting of one host, and of one device if it has devices.
type Finding struct {
	Host    string `json:"host"`
	Setting string `json:"setting"`
	Title   string `json:"title"`
	// Object is the device or virtual machine; empty: the host.
	Object      string   `json:"object,omitempty"`
	Current     string   `json:"current"`
	Recommended string   `json:"recommended"`
	Verdict     Verdict  `json:"verdict"`
	Severity    Severity `json:"severity"`
	Why         string   `json:"why"`
	Reboot      bool     `json:"reboot"`
	Optional    bool     `json:"optional"`
	// Fixable: `apply` can change it.
	Fixable bool `json:"fixable"`
}

// Compare returns every setting of a host.
func Compare(state State, want Want) []Finding {
	if state.Unreadable != "" {
		return []Finding{{Host: state.Name, Setting: "host", Title: "Host", Current: state.Unreadable, Recommended: "readable",
			Verdict: Unknown, Severity: Critical, Why: "Nothing of this host was compared."}}
	}
	var found []Finding
	for _, setting := range Table {
		found = append(found, compare(setting, state, want)...)
	}
	return found
}

func (s Setting) finding(state State, object, current string, verdict Verdict) Finding {
	return Finding{Host: state.Name, Setting: s.ID, Title: s.Title, Object: object, Current: current, Recommended: s.Recommended,
		Verdict: verdict, Severity: s.Severity, Why: s.Why, Reboot: s.Reboot, Optional: s.Optional, Fixable: s.Changeable()}
}

// judged compares a value with the table.
func (s Setting) judged(state State, object, current string) Finding {
	switch {
	case current == "":
		return s.finding(state, object, "not known", Unknown)
	case s.Suits(current):
		return s.finding(state, object, current, Good)
	}
	return s.finding(state, object, current, Deviates)
}

func compare(setting Setting, state State, want Want) []Finding {
	single := func(current string, good bool) []Finding {
		verdict := Deviates
		if good {
			verdict = Good
		}
		return []Finding{setting.finding(state, "", current, verdict)}
	}
	switch setting.Kind {
	case Option:
		if value, has := state.Options[setting.Key]; has {
			return []Finding{setting.judged(state, "", value)}
		}
		return nil
	case Module:
		if parameters, has := state.Modules[setting.Driver]; has {
			value := parameters[setting.Key]
			if value == "" {
				value = setting.Default
			}
			return []Finding{setting.judged(state, "", value)}
		}
		return nil
	case SATPRule:
		return single(satpCurrent(state.SATPRules))
	case VAAIRule:
		return single(vaaiCurrent(state.VAAIRules))
	case Software:
		return single(map[bool]string{true: "on", false: "off"}[state.ISCSI != nil], state.ISCSI != nil)
	case Discovery, CHAP, ISCSI:
		return compareISCSI(setting, state, want)
	case PathPolicy, PathSwitch, Outstanding:
		return compareDevices(setting, state)
	}
	return compareManual(setting, state)
}

// Ours reports whether a rule is for devices of the array.
func (c SATPClaim) Ours() bool { return strings.TrimSpace(c.Vendor) == Vendor }

// Right reports whether the rule is as recommended.
func (c SATPClaim) Right() bool {
	model := strings.TrimSpace(c.Model)
	return c.Ours() && (model == "" || model == Product) && c.SATP == SATP && c.PSP == RoundRobin && iopsOption(c.PSPOptions)
}

// iopsOption accepts what the setting of the path switch accepts.
func iopsOption(options string) bool {
	setting, _ := Find(IDPathSwitch)
	for _, option := range strings.Split(options, ",") {
		if value, is := strings.CutPrefix(strings.TrimSpace(option), "iops="); is {
			return setting.Suits(value)
		}
	}
	return false
}

func satpCurrent(rules []SATPClaim) (string, bool) {
	var others []string
	for _, rule := range rules {
		if rule.Right() {
			return strings.Join([]string{rule.SATP, rule.PSP, rule.PSPOptions}, " "), true
		}
		if rule.Ours() {
			others = append(others, strings.TrimSpace(strings.Join([]string{rule.SATP, rule.PSP, rule.PSPOptions}, " ")))
		}
	}
	if others == nil {
		return "none", false
	}
	return strings.Join(others, "; "), false
}

// Ours reports whether a rule is for devices of the array.
func (c VAAIClaim) Ours() bool { return strings.TrimSpace(c.Vendor) == Vendor }

// Right reports whether the rule is as recommended and in force.
func (c VAAIClaim) Right() bool {
	return c.Ours() && c.Plugin == VAAIPlugin && c.ArrayValues && c.TransferKiB == strconv.Itoa(TransferKiB) && c.Loaded
}

func vaaiCurrent(rules []VAAIClaim) (string, bool) {
	current := "none"
	for _, rule := range rules {
		if rule.Right() {
			return rule.Plugin + " " + rule.TransferKiB + " KiB", true
		}
		if rule.Ours() {
			current = rule.Plugin + " " + rule.TransferKiB + " KiB"
			if !rule.ArrayValues {
				current += ", array's values not used"
			}
			if !rule.Loaded {
				current += ", not loaded"
			}
		}
	}
	return current, false
}

func compareISCSI(setting Setting, state State, want Want) []Finding {
	adapter := state.ISCSI
	if adapter == nil {
		adapter = &Adapter{}
	}
	switch setting.Kind {
	case Discovery:
		if len(want.Portals) == 0 {
			return nil
		}
		missing := MissingPortals(*adapter, want.Portals)
		setting.Recommended = strings.Join(want.Portals, ", ")
		if len(missing) == 0 {
			return []Finding{setting.finding(state, "", setting.Recommended, Good)}
		}
		return []Finding{setting.finding(state, "", "missing: "+strings.Join(missing, ", "), Deviates)}
	case CHAP:
		if want.CHAPUser == "" {
			return nil
		}
		setting.Recommended = want.CHAPUser
		current := adapter.CHAPUser
		if current == "" {
			current = "none"
		}
		return []Finding{setting.judged(state, "", current)}
	}
	if state.ISCSI == nil {
		return []Finding{setting.finding(state, "", "no software iSCSI", Deviates)}
	}
	return []Finding{setting.judged(state, "", adapter.Options[setting.Key])}
}

// MissingPortals are those that an adapter does not ask for targets.
func MissingPortals(adapter Adapter, portals []string) []string {
	var missing []string
	for _, portal := range portals {
		if !slices.Contains(adapter.SendTargets, portal) {
			missing = append(missing, portal)
		}
	}
	return missing
}

func compareDevices(setting Setting, state State) []Finding {
	var found []Finding
	for _, device := range state.Devices {
		switch setting.Kind {
		case PathPolicy:
			found = append(found, setting.judged(state, device.Name, device.Policy))
		case PathSwitch:
			// With another policy there is nothing to switch: the policy is the deviation.
			if device.Policy == RoundRobin {
				found = append(found, setting.judged(state, device.Name, device.Switch))
			} else {
				found = append(found, setting.finding(state, device.Name, "not round robin", Deviates))
			}
		case Outstanding:
			found = append(found, setting.judged(state, device.Name, device.Outstanding))
		}
	}
	return found
}

// offloads are the primitives of VAAI as esxcli names them.
var offloads = []string{"ATS", "Clone", "Zero", "Delete"}

func compareManual(setting Setting, state State) []Finding {
	var found []Finding
	switch setting.ID {
	case IDUnmap:
		found = append(found, setting.finding(state, "", "-", Advice))
	case IDDisks:
		for _, disk := range state.Disks {
			verdict := Advice
			if disk.Format == EagerZeroed {
				verdict = Good
			}
			found = append(found, setting.finding(state, disk.Machine+" "+disk.Label, disk.Format, verdict))
		}
	case IDPaths:
		for _, device := range state.Devices {
			verdict := Good
			if device.Paths < MinPaths {
				verdict = Deviates
			}
			found = append(found, setting.finding(state, device.Name, strconv.Itoa(device.Paths), verdict))
		}
	case IDOffload:
		for _, device := range state.Devices {
			found = append(found, offload(setting, state, device))
		}
	}
	return found
}

func offload(setting Setting, state State, device DeviceState) Finding {
	if device.Offload == nil {
		return setting.finding(state, device.Name, "not known", Unknown)
	}
	var missing []string
	for _, primitive := range offloads {
		if device.Offload[primitive] != "supported" {
			missing = append(missing, fmt.Sprintf("%s %s", primitive, device.Offload[primitive]))
		}
	}
	if missing == nil {
		return setting.finding(state, device.Name, "all supported", Good)
	}
	return setting.finding(state, device.Name, strings.Join(missing, ", "), Deviates)
}

// Formats of virtual disks.
const (
	EagerZeroed = "eager-zeroed"
	LazyZeroed  = "lazy-zeroed"
	Thin        = "thin"
)

// Uneven returns settings of devices that differ among hosts of a cluster, even where each value is acceptable.
func Uneven(findings []Finding) []Finding {
	type place struct{ setting, object string }
	values := map[place]map[string][]string{}
	first := map[place]Finding{}
	for _, finding := range findings {
		setting, known := Find(finding.Setting)
		if !known || setting.Scope != Device || !setting.Changeable() || finding.Verdict == Unknown {
			continue
		}
		at := place{finding.Setting, finding.Object}
		if values[at] == nil {
			values[at], first[at] = map[string][]string{}, finding
		}
		values[at][finding.Current] = append(values[at][finding.Current], finding.Host)
	}
	var uneven []Finding
	for at, hosts := range values {
		if len(hosts) < 2 {
			continue
		}
		var said []string
		for value, names := range hosts {
			said = append(said, value+" on "+strings.Join(names, ", "))
		}
		sort.Strings(said)
		finding := first[at]
		finding.Host, finding.Title = "cluster", finding.Title+", equal on all hosts"
		finding.Current, finding.Verdict, finding.Fixable = strings.Join(said, "; "), Deviates, false
		uneven = append(uneven, finding)
	}
	sort.Slice(uneven, func(a, b int) bool {
		return uneven[a].Setting+uneven[a].Object < uneven[b].Setting+uneven[b].Object
	})
	return uneven
}
