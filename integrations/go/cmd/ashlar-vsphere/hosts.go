package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/esxi"
	"ashlar/integrations/vsphere/practice"
	"ashlar/integrations/vsphere/rollout"
	"ashlar/integrations/vsphere/script"
	"ashlar/integrations/vsphere/vcenter"
)

// hostOptions are those of verbs that are about hosts.
type hostOptions struct {
	*options
	scope          vcenter.Scope
	format         string
	all            bool
	portals        string
	chap, chapFile string
}

func newHostOptions(name string) *hostOptions {
	made := &hostOptions{options: newOptions(name)}
	made.vcenterOptions()
	made.arrayOptions()
	made.scopeOptions(&made.scope)
	made.StringVar(&made.format, "format", rollout.Table, "table, json or html")
	made.BoolVar(&made.all, "all", false, "show also what is as recommended")
	made.StringVar(&made.portals, "portals", "", "portals that hosts must discover, ADDRESS:PORT with commas; default: those of --array if it is given")
	made.StringVar(&made.chap, "chap-user", "", "CHAP user that hosts must present; compared only if given")
	made.StringVar(&made.chapFile, "chap-secret-file", "", "file with the CHAP secret, for apply")
	return made
}

func (o *options) scopeOptions(scope *vcenter.Scope) {
	o.StringVar(&scope.Host, "host", "", "one host, by name or path")
	o.StringVar(&scope.Cluster, "cluster", "", "all hosts of a cluster")
	o.StringVar(&scope.Datacenter, "datacenter", "", "all hosts of a datacenter")
}

// change is what hosts are compared with besides the table.
func (o *hostOptions) change(ctx context.Context) (esxi.Change, error) {
	made := esxi.Change{Want: practice.Want{Portals: list(o.portals), CHAPUser: o.chap}}
	if o.chapFile != "" {
		secret, err := os.ReadFile(o.chapFile)
		if err != nil {
			return made, fmt.Errorf("the CHAP secret can't be read: %w", err)
		}
		made.CHAPSecret = strings.TrimRight(string(secret), "\r\n")
	}
	if o.array.URL == "" || made.Portals != nil {
		return made, nil
	}
	api, err := o.connectArray()
	if err != nil {
		return made, err
	}
	about, err := array.Decode[array.Array](api.ShowArray(ctx))
	made.Portals = practice.Reachable(about.Portals, api.URL)
	return made, err
}

// parse reads the command line, and returns what hosts are compared with.
func (o *hostOptions) parse(ctx context.Context, words []string) (esxi.Change, error) {
	if err := o.Parse(words); err != nil {
		return esxi.Change{}, err
	}
	return o.change(ctx)
}

// begin reads the command line and connects to the vCenter.
func (o *hostOptions) begin(ctx context.Context, words []string) (esxi.Change, *vcenter.Client, error) {
	with, err := o.parse(ctx, words)
	if err != nil {
		return with, nil, err
	}
	client, err := o.connectVCenter(ctx)
	return with, client, err
}

func check(ctx context.Context, words []string) (int, error) {
	given := newHostOptions("check")
	with, client, err := given.begin(ctx, words)
	if err != nil {
		return rollout.ExitFailed, err
	}
	defer client.Close()
	report, err := rollout.Check(ctx, client, given.scope, with.Want)
	if err != nil {
		return rollout.ExitFailed, err
	}
	return report.Exit(), report.Write(os.Stdout, given.format, given.all)
}

func apply(ctx context.Context, words []string) (int, error) {
	given := newHostOptions("apply")
	named := given.String("settings", "", "only these settings, with commas; default: all that deviate and are not optional")
	sure := given.Bool("yes", false, "change the hosts; without it the changes are only listed")
	keep := given.Bool("keep-going", false, "go on with the next host if one fails")
	with, client, err := given.begin(ctx, words)
	if err != nil {
		return rollout.ExitFailed, err
	}
	defer client.Close()
	plan := rollout.Plan{Change: with, Settings: list(*named), DryRun: !*sure, KeepGoing: *keep,
		Progress: func(step rollout.Step) { fmt.Fprintln(os.Stderr, step) }}
	report, failure := rollout.Apply(ctx, client, given.scope, plan)
	if report.Scope == "" {
		return rollout.ExitFailed, failure
	}
	return report.Exit(), errors.Join(failure, report.Write(os.Stdout, given.format, given.all))
}

func settings(context.Context, []string) (int, error) {
	lines := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "SETTING\tSCOPE\tDEFAULT\tRECOMMENDED\tSEVERITY\tREBOOT\tWHY")
	for _, it := range practice.Table {
		reboot := "no"
		if it.Reboot {
			reboot = "yes"
		}
		fmt.Fprintln(lines, strings.Join([]string{it.ID, string(it.Scope), it.Default, it.Recommended, string(it.Severity), reboot, it.Why}, "\t"))
	}
	return rollout.ExitClean, lines.Flush()
}

func writeScript(ctx context.Context, words []string) (int, error) {
	given := newHostOptions("script")
	language := given.String("language", script.Shell, "esxcli (for the shell of a host), powercli or pyvmomi")
	named := given.String("settings", "", "only these settings, with commas; default: all that are not optional")
	with, err := given.parse(ctx, words)
	if err != nil {
		return rollout.ExitFailed, err
	}
	text, err := script.Write(script.Request{Language: *language, Want: with.Want, Settings: list(*named)})
	if err != nil {
		return rollout.ExitFailed, err
	}
	fmt.Print(text)
	return rollout.ExitClean, nil
}
