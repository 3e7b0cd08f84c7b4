package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"ashlar/integrations/vsphere/extension"
	"ashlar/integrations/vsphere/rollout"
	"ashlar/integrations/vsphere/vcenter"
	"ashlar/integrations/vsphere/watch"
)

// inVCenter parses the options of a verb and does something in vCenter.
func inVCenter(ctx context.Context, given *options, words []string, do func(*vcenter.Client) error) (int, error) {
	given.vcenterOptions()
	if err := given.Parse(words); err != nil {
		return rollout.ExitFailed, err
	}
	client, err := given.connectVCenter(ctx)
	if err != nil {
		return rollout.ExitFailed, err
	}
	defer client.Close()
	return rollout.ExitClean, do(client)
}

func register(ctx context.Context, words []string) (int, error) {
	given := newOptions("register")
	address := given.String("plugin", "", "address of the plug-in's manifest, https://HOST:PORT/plugin.json; default: pages that are registered stay")
	certificate := given.String("plugin-certificate", "", "file with the certificate of the plug-in's server")
	emails := given.String("admin-email", "", "e-mail addresses of those who administrate the plug-in's server, with commas; default: those that are registered stay")
	return inVCenter(ctx, given, words, func(client *vcenter.Client) error {
		if *emails != "" && *address == "" {
			return errors.New("--admin-email belongs to the plug-in's server: give --plugin and --plugin-certificate, too")
		}
		var plugin *extension.Plugin
		if *address != "" {
			if *certificate == "" {
				return errors.New("vCenter has to know the certificate of the plug-in's server: --plugin-certificate")
			}
			read, err := os.ReadFile(*certificate)
			if err != nil {
				return fmt.Errorf("the certificate of the plug-in's server can't be read: %w", err)
			}
			plugin = &extension.Plugin{URL: *address, Certificate: read, AdminEmail: list(*emails)}
		}
		return extension.Register(ctx, client, plugin)
	})
}

func unregister(ctx context.Context, words []string) (int, error) {
	return inVCenter(ctx, newOptions("unregister"), words, func(client *vcenter.Client) error { return extension.Unregister(ctx, client) })
}

func role(ctx context.Context, words []string) (int, error) {
	given := newOptions("role")
	grant := given.String("grant", "", "user that gets the role on everything, such as VSPHERE.LOCAL\\ashlar")
	if len(words) > 0 && words[0] == "privileges" {
		fmt.Println(strings.Join(extension.Privileges, "\n"))
		return rollout.ExitClean, nil
	}
	return inVCenter(ctx, given, words, func(client *vcenter.Client) error { return extension.EnsureRole(ctx, client, *grant) })
}

// leastInterval keeps a mistyped interval from flooding array and vCenter.
const leastInterval = 5 * time.Second

func watchAlerts(ctx context.Context, words []string) (int, error) {
	given := newOptions("watch")
	given.arrayOptions()
	interval := given.Duration("interval", 30*time.Second, "time between comparisons; 5s at least")
	once := given.Bool("once", false, "compare once and end, for a timer")
	given.vcenterOptions()
	if err := given.Parse(words); err != nil {
		return rollout.ExitFailed, err
	}
	if *interval < leastInterval {
		return rollout.ExitFailed, fmt.Errorf("--interval is at least %s", leastInterval)
	}
	api, err := given.connectArray()
	if err != nil {
		return rollout.ExitFailed, err
	}
	if _, err := api.Check(ctx); err != nil {
		return rollout.ExitFailed, err
	}
	client, err := given.connectVCenter(ctx)
	if err != nil {
		return rollout.ExitFailed, err
	}
	defer client.Close()
	made := &watch.Watch{VCenter: client, Array: api, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if *once {
		return rollout.ExitClean, made.Step(ctx)
	}
	return rollout.ExitClean, made.Run(ctx, *interval)
}
