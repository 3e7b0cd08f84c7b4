package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"ashlar/integrations/vsphere/plugin"
	"ashlar/integrations/vsphere/rollout"
	"ashlar/integrations/vsphere/vcenter"
)

// vcenters are those that the plug-in's server serves.
func vcenters(ctx context.Context, words []string) (int, error) {
	if len(words) == 0 || words[0] != "list" && words[0] != "add" && words[0] != "remove" {
		return rollout.ExitFailed, errors.New("which verb? vcenters list, vcenters add ADDRESS --thumbprint SHA256 [--arrays NAMES], vcenters remove ADDRESS")
	}
	verb, rest := words[0], words[1:]
	address := ""
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		address, rest = rest[0], rest[1:]
	}
	given := newOptions("vcenters " + verb)
	file := given.String("config", "ashlar-vsphere.json", "file with arrays and vCenters")
	given.StringVar(&given.vcenter.Thumbprint, "thumbprint", "", "SHA-256 of vCenter's certificate, the only one to accept")
	given.StringVar(&given.vcenter.CAFile, "vcenter-certificate", "", "certificates to trust if no thumbprint is given")
	shown := given.String("arrays", "", "names of the arrays that users of this vCenter see, with commas; default: all")
	if err := given.Parse(rest); err != nil {
		return rollout.ExitFailed, err
	}
	config, err := plugin.ReadConfig(*file)
	if err != nil {
		return rollout.ExitFailed, err
	}
	switch {
	case verb == "list":
		lines := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(lines, "ADDRESS\tIDENTIFIER\tARRAYS")
		for _, it := range config.VCenters {
			arrays := strings.Join(it.Arrays, ", ")
			if it.Arrays == nil {
				arrays = "all"
			}
			fmt.Fprintln(lines, it.Address+"\t"+it.ID+"\t"+arrays)
		}
		return rollout.ExitClean, lines.Flush()
	case address == "":
		return rollout.ExitFailed, fmt.Errorf("which vCenter? vcenters %s ADDRESS", verb)
	case verb == "remove":
		if !config.RemoveCenter(address) {
			return rollout.ExitFailed, fmt.Errorf("%s has no vCenter %q", *file, address)
		}
		return rollout.ExitClean, config.Write(*file)
	}
	made := plugin.CenterEntry{Address: address, Thumbprint: given.vcenter.Thumbprint, Arrays: list(*shown)}
	if given.vcenter.CAFile != "" {
		// The server may run in another folder.
		if made.CertificateFile, err = filepath.Abs(given.vcenter.CAFile); err != nil {
			return rollout.ExitFailed, err
		}
	}
	about, err := vcenter.About(ctx, vcenter.Access{Address: address, Thumbprint: made.Thumbprint, CAFile: made.CertificateFile})
	if err != nil {
		return rollout.ExitFailed, err
	}
	made.ID = about.InstanceUuid
	if err := config.AddCenter(made); err != nil {
		return rollout.ExitFailed, err
	}
	return rollout.ExitClean, config.Write(*file)
}
