// Package rollout compares hosts with the table of settings and changes them, one host after the other.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vmware/govmomi/vim25/mo"

	"ashlar/integrations/vsphere/esxi"
	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/vcenter"
)

// Report is the outcome of a check.
type Report struct {
	Scope string `json:"scope"`
	// Hosts that were read, and those that were not.
	Hosts  []string `json:"hosts"`
	Unread []string `json:"unread"`
	// Notes name what is unusual about hosts, such as maintenance mode.
	Notes    []string           `json:"notes"`
	Findings []practice.Finding `json:"findings"`
	// Changes are what `apply` did or would do.
	Changes []Step `json:"changes,omitempty"`
}

// Exit codes, for automation.
const (
	ExitClean    = 0
	ExitFailed   = 1
	ExitDeviates = 2
	ExitUnknown  = 3
)

// Deviations counts settings that are not as recommended. Optional ones and what people decide are left out.
func (r Report) Deviations() int {
	count := 0
	for _, finding := range r.Findings {
		if finding.Verdict == practice.Deviates && !finding.Optional {
			count++
		}
	}
	return count
}

// Exit is the exit code of a check: a host that was not read weighs more than a deviation, as anything may be wrong there.
func (r Report) Exit() int {
	unknown := func(finding practice.Finding) bool { return finding.Verdict == practice.Unknown }
	switch {
	case len(r.Unread) > 0 || slices.ContainsFunc(r.Findings, unknown):
		return ExitUnknown
	case r.Deviations() > 0:
		return ExitDeviates
	}
	return ExitClean
}

// read is a host with what was read of it.
type read struct {
	host     *esxi.Host
	state    practice.State
	findings []practice.Finding
}

func readAll(ctx context.Context, client *vcenter.Client, hosts []mo.HostSystem, want practice.Want) ([]read, error) {
	var all []read
	for _, found := range hosts {
		host := esxi.New(client.Client.Client, found)
		state := host.Read(ctx)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if active, err := client.SessionManager.SessionIsActive(ctx); state.Unreadable != "" && err == nil && !active || vcenter.IsExpired(err) {
			return nil, errors.New("the session with vCenter has expired while hosts were read: run it again")
		}
		all = append(all, read{host, state, practice.Compare(state, want)})
	}
	even(all)
	return all, nil
}

// even makes deviations of values that are acceptable and differ from those of other hosts of the cluster: a machine that
// moves must not change speed.
func even(all []read) {
	for _, findings := range byCluster(all) {
		for _, uneven := range practice.Uneven(findings) {
			for _, it := range all {
				for at := range it.findings {
					finding := &it.findings[at]
					if finding.Setting == uneven.Setting && finding.Object == uneven.Object && finding.Current != finding.Recommended {
						finding.Verdict = practice.Deviates
					}
				}
			}
		}
	}
}

// byCluster are the findings of the hosts of each cluster.
func byCluster(all []read) map[string][]practice.Finding {
	clusters := map[string][]practice.Finding{}
	for _, it := range all {
		if it.host.Parent != nil {
			clusters[it.host.Parent.Value] = append(clusters[it.host.Parent.Value], it.findings...)
		}
	}
	return clusters
}

// Check compares the hosts of a part of the inventory with the table.
func Check(ctx context.Context, client *vcenter.Client, scope vcenter.Scope, want practice.Want) (Report, error) {
	hosts, err := client.Hosts(ctx, scope)
	if err != nil {
		return Report{}, err
	}
	all, err := readAll(ctx, client, hosts, want)
	if err != nil {
		return Report{}, err
	}
	return report(scope, all), nil
}

func report(scope vcenter.Scope, all []read) Report {
	made := Report{Scope: scope.String(), Unread: []string{}, Notes: []string{}}
	for _, it := range all {
		if it.state.Unreadable != "" {
			made.Unread = append(made.Unread, it.state.Name+": "+it.state.Unreadable)
		} else {
			made.Hosts = append(made.Hosts, it.state.Name)
		}
		if it.state.Maintenance {
			made.Notes = append(made.Notes, it.state.Name+" is in maintenance mode")
		}
		made.Findings = append(made.Findings, it.findings...)
	}
	clusters := byCluster(all)
	names := make([]string, 0, len(clusters))
	for name := range clusters {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		made.Findings = append(made.Findings, practice.Uneven(clusters[name])...)
	}
	return made
}

// Plan is what to change.
type Plan struct {
	esxi.Change
	// Settings by id; none: every deviation that is not optional.
	Settings []string
	// DryRun: nothing is changed, and the steps are what would be.
	DryRun bool
	// KeepGoing: a host that fails does not keep the next ones from being changed.
	KeepGoing bool
	// Progress receives each step; may be nil.
	Progress func(Step)
}

// Outcome of a step.
type Outcome string

const (
	Planned Outcome = "planned"
	Changed Outcome = "changed"
	Failed  Outcome = "failed"
	// NotDone: an earlier step failed.
	NotDone Outcome = "not done"
)

// Step is one change of one host.
type Step struct {
	Host    string  `json:"host"`
	Setting string  `json:"setting"`
	Object  string  `json:"object,omitempty"`
	From    string  `json:"from"`
	To      string  `json:"to"`
	Reboot  bool    `json:"reboot"`
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
}

// Apply changes hosts one after the other. A host is changed setting by setting and read again before the next one begins;
// after a failure the report says of each step whether it was done.
func Apply(ctx context.Context, client *vcenter.Client, scope vcenter.Scope, plan Plan) (Report, error) {
	if err := known(plan.Settings); err != nil {
		return Report{}, err
	}
	hosts, err := client.Hosts(ctx, scope)
	if err != nil {
		return Report{}, err
	}
	all, err := readAll(ctx, client, hosts, plan.Want)
	if err != nil {
		return Report{}, err
	}
	var steps []Step
	var stopped error
	for at := range all {
		made, err := plan.host(ctx, &all[at], stopped != nil)
		steps = append(steps, made...)
		if err != nil && stopped == nil && !plan.KeepGoing {
			stopped = err
		}
	}
	made := report(scope, all)
	made.Changes = steps
	var failed []string
	for _, step := range steps {
		if step.Outcome == Failed {
			failed = append(failed, fmt.Sprintf("%s %s: %s", step.Host, step.Setting, step.Error))
		}
	}
	if failed == nil {
		return made, nil
	}
	return made, fmt.Errorf("not everything was changed; the report says what was. %s", strings.Join(failed, "; "))
}

func known(settings []string) error {
	for _, id := range settings {
		setting, is := practice.Find(id)
		if !is {
			return fmt.Errorf("there is no setting %q: `ashlar-vsphere settings` lists them", id)
		}
		if !setting.Changeable() {
			return fmt.Errorf("%s can't be changed by this program: %s", id, setting.Why)
		}
	}
	return nil
}

// host changes one host. What was read of it is read again afterwards.
func (p Plan) host(ctx context.Context, it *read, stopped bool) ([]Step, error) {
	var steps []Step
	var failure error
	for _, finding := range it.findings {
		if finding.Verdict != practice.Deviates || !finding.Fixable || !p.wants(finding) {
			continue
		}
		step := Step{Host: finding.Host, Setting: finding.Setting, Object: finding.Object, From: finding.Current,
			To: finding.Recommended, Reboot: finding.Reboot, Outcome: Planned}
		switch {
		case p.DryRun:
		case stopped || failure != nil:
			step.Outcome = NotDone
		default:
			if err := it.host.Apply(ctx, finding, it.state, p.Change); err != nil {
				failure = err
				step.Outcome, step.Error = Failed, err.Error()
			} else {
				step.Outcome = Changed
			}
		}
		if p.Progress != nil {
			p.Progress(step)
		}
		steps = append(steps, step)
	}
	if p.DryRun || stopped || len(steps) == 0 {
		return steps, nil
	}
	return p.verify(ctx, it, steps, failure)
}

// verify reads a host again: a change that vCenter accepted and that the host does not show is a failure.
func (p Plan) verify(ctx context.Context, it *read, steps []Step, failure error) ([]Step, error) {
	if err := it.host.Refresh(ctx); err != nil {
		return steps, errors.Join(failure, err)
	}
	it.state = it.host.Read(ctx)
	it.findings = practice.Compare(it.state, p.Want)
	for at := range steps {
		step := &steps[at]
		if step.Outcome != Changed || step.Reboot {
			continue
		}
		for _, finding := range it.findings {
			if finding.Setting == step.Setting && finding.Object == step.Object && finding.Verdict != practice.Good {
				step.Outcome = Failed
				step.Error = "the host accepted the change and still shows " + finding.Current
				failure = errors.Join(failure, errors.New(step.Error))
			}
		}
	}
	return steps, failure
}

func (p Plan) wants(finding practice.Finding) bool {
	if len(p.Settings) == 0 {
		return !finding.Optional
	}
	return slices.Contains(p.Settings, finding.Setting)
}
