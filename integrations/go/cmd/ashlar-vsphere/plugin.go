package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"text/tabwriter"

	"ashlar/integrations/admission"
	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/plugin"
	"ashlar/integrations/vsphere/rollout"
)

// pluginOptions are those of the plug-in's server and of its configuration.
type pluginOptions struct {
	*options
	config, key string
}

func newPluginOptions(name string) *pluginOptions {
	made := &pluginOptions{options: newOptions(name)}
	made.StringVar(&made.config, "config", "ashlar-vsphere.json", "file with the arrays, whose tokens are sealed")
	made.StringVar(&made.key, "key-file", "", "file with the key that seals them; default: the service's credential "+plugin.CredentialName)
	return made
}

func serve(ctx context.Context, words []string) (int, error) {
	given := newPluginOptions("serve")
	given.StringVar(&given.vcenter.Address, "vcenter", os.Getenv("VSPHERE_SERVER"), "address of the only vCenter; of several, see \"vcenters add\" [or: VSPHERE_SERVER]")
	given.StringVar(&given.vcenter.Thumbprint, "thumbprint", os.Getenv("VSPHERE_THUMBPRINT"), "SHA-256 of vCenter's certificate, the only one to accept [or: VSPHERE_THUMBPRINT]")
	given.StringVar(&given.vcenter.CAFile, "vcenter-certificate", "", "certificates to trust if no thumbprint is given")
	listen := given.String("listen", ":9443", "address to listen on")
	certificate := given.String("tls-certificate", "ashlar-vsphere.pem", "file with the certificate to show; made if it is not there")
	secret := given.String("tls-key", "ashlar-vsphere-tls.key", "file with its private key; made with it")
	names := given.String("name", "", "names and addresses in a certificate that is made, with commas; default: that of this machine")
	if err := given.Parse(words); err != nil {
		return rollout.ExitFailed, err
	}
	config, err := plugin.ReadConfig(given.config)
	if err != nil {
		return rollout.ExitFailed, err
	}
	switch {
	case given.vcenter.Address == "" && len(config.VCenters) == 0:
		return rollout.ExitFailed, fmt.Errorf("no vCenter: --vcenter, or `ashlar-vsphere vcenters add` for those in %s", given.config)
	case given.vcenter.Address != "" && len(config.VCenters) > 0:
		return rollout.ExitFailed, fmt.Errorf("%s has vCenters: add %s there with `ashlar-vsphere vcenters add`, and leave out --vcenter", given.config, given.vcenter.Address)
	}
	if len(config.Arrays) == 0 {
		return rollout.ExitFailed, fmt.Errorf("%s has no arrays: `ashlar-vsphere arrays add` adds one", given.config)
	}
	key, err := plugin.ReadKey(given.key)
	if err != nil {
		return rollout.ExitFailed, err
	}
	served, err := plugin.Arrays(config, key)
	if err != nil {
		return rollout.ExitFailed, err
	}
	centers, err := config.Centers(served)
	if err != nil {
		return rollout.ExitFailed, err
	}
	if len(centers) == 0 {
		centers = []plugin.Center{{Access: given.vcenter, Arrays: served}}
	}
	show, err := plugin.EnsureCertificate(*certificate, *secret, list(*names))
	if err != nil {
		return rollout.ExitFailed, err
	}
	socket, err := net.Listen("tcp", *listen)
	if err != nil {
		return rollout.ExitFailed, err
	}
	// The address counts if the port was left to the system.
	fmt.Println("serving https://" + socket.Addr().String() + "/plugin.json")
	log := slog.New(admission.Log(slog.NewTextHandler(os.Stderr, nil)))
	log.Info("serving", "address", socket.Addr().String(), "vcenters", len(centers), "arrays", len(served))
	return rollout.ExitClean, plugin.New(centers, log).Run(ctx, socket, show)
}

func arrays(ctx context.Context, words []string) (int, error) {
	if len(words) == 0 || words[0] != "list" && words[0] != "add" && words[0] != "remove" {
		return rollout.ExitFailed, errors.New("which verb? arrays list, arrays add NAME --array URL --token-file FILE, arrays remove NAME")
	}
	verb, rest := words[0], words[1:]
	name := ""
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		name, rest = rest[0], rest[1:]
	}
	given := newPluginOptions("arrays " + verb)
	given.arrayOptions()
	if err := given.Parse(rest); err != nil {
		return rollout.ExitFailed, err
	}
	config, err := plugin.ReadConfig(given.config)
	if err != nil {
		return rollout.ExitFailed, err
	}
	switch {
	case verb == "list":
		lines := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(lines, "NAME\tADDRESS")
		for _, it := range config.Arrays {
			fmt.Fprintln(lines, it.Name+"\t"+it.URL)
		}
		return rollout.ExitClean, lines.Flush()
	case name == "":
		return rollout.ExitFailed, fmt.Errorf("which array? arrays %s NAME", verb)
	case verb == "remove":
		if !config.Remove(name) {
			return rollout.ExitFailed, fmt.Errorf("%s has no array %q", given.config, name)
		}
		return rollout.ExitClean, config.Write(given.config)
	}
	return rollout.ExitClean, given.add(ctx, config, name)
}

// add tries the array's address and token before it keeps them.
func (o *pluginOptions) add(ctx context.Context, config plugin.Config, name string) error {
	token := os.Getenv("ASHLAR_TOKEN")
	if o.array.TokenFile != "" {
		read, err := os.ReadFile(o.array.TokenFile)
		if err != nil {
			return fmt.Errorf("the API token can't be read: %w", err)
		}
		token = strings.TrimSpace(string(read))
	}
	entry := plugin.Entry{Name: name, URL: strings.TrimRight(o.array.URL, "/")}
	if o.array.CAFile != "" {
		read, err := os.ReadFile(o.array.CAFile)
		if err != nil {
			return fmt.Errorf("the certificates to trust can't be read: %w", err)
		}
		entry.Certificate = string(read)
	}
	api, err := array.Connect(array.Access{URL: entry.URL, Token: token, CA: entry.Certificate, Program: o.array.Program})
	if err != nil {
		return err
	}
	if _, err := api.Check(ctx); err != nil {
		return err
	}
	if entry.OnBehalf, err = plugin.ActsForUsers(ctx, array.Access{URL: entry.URL, Token: token, CA: entry.Certificate, Program: o.array.Program}); err != nil {
		return err
	}
	if !entry.OnBehalf {
		fmt.Fprintf(os.Stderr, "The audit log of %s will name the token only: `ashlar token create NAME --role operator --on-behalf` makes one with which it also names users of vCenter.\n", name)
	}
	key, err := plugin.EnsureKey(o.key)
	if err != nil {
		return err
	}
	if err := config.Add(key, entry, token); err != nil {
		return err
	}
	return config.Write(o.config)
}
