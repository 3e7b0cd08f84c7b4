// Command ashlar-vsphere connects an array with a vCenter: it checks and changes settings of hosts, provisions datastores,
// and shows the array's alerts there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/rollout"
	"ashlar/integrations/vsphere/secret"
	"ashlar/integrations/vsphere/vcenter"
)

// verb is a word after the program's name.
type verb struct {
	name, about string
	run         func(ctx context.Context, words []string) (int, error)
}

var verbs = []verb{
	{"check", "compare hosts with the recommended settings; exit code 2 if they deviate, 3 if a host was not read", check},
	{"apply", "change hosts to the recommended settings; a dry run unless --yes is given", apply},
	{"script", "write the settings as a script: esxcli, powercli or pyvmomi", writeScript},
	{"datastore", "list, create, grow, delete, clone, resignature or unmap datastores", datastores},
	{"xcopy", "explain who copies the disks of a virtual machine to a datastore, the array or the host", xcopy},
	{"watch", "pass alerts of the array on to vCenter as events and alarms", watchAlerts},
	{"serve", "serve the plug-in of the vSphere Client: pages, and what they ask for", serve},
	{"arrays", "list, add or remove the arrays of the plug-in's server", arrays},
	{"vcenters", "list, add or remove the vCenters of the plug-in's server", vcenters},
	{"register", "add the extension and the alarms to vCenter, or bring them up to date; with --plugin its pages, too", register},
	{"unregister", "remove them again", unregister},
	{"role", "create the role with the privileges that are needed; `role privileges` lists them", role},
	{"settings", "list the settings with defaults, recommendations and reasons", settings},
	{"version", "show the version", version},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code, err := perform(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "ashlar-vsphere:", err)
	}
	os.Exit(code)
}

func perform(ctx context.Context, words []string) (int, error) {
	for _, known := range verbs {
		if len(words) > 0 && words[0] == known.name {
			code, err := known.run(ctx, words[1:])
			if err != nil {
				// A failure never looks like the outcome of a check.
				code = rollout.ExitFailed
			}
			return code, err
		}
	}
	fmt.Fprintln(os.Stderr, "ashlar-vsphere: an Ashlar array in VMware vSphere\n\nUsage: ashlar-vsphere VERB [OPTIONS]")
	for _, known := range verbs {
		fmt.Fprintf(os.Stderr, "  %-14s %s\n", known.name, known.about)
	}
	fmt.Fprintln(os.Stderr, "\n`ashlar-vsphere VERB -h` lists the options of a verb.")
	return rollout.ExitFailed, errors.New("there is no such verb")
}

// options are what verbs have in common.
type options struct {
	*flag.FlagSet
	vcenter vcenter.Access
	array   array.Access
}

func newOptions(name string) *options {
	made := &options{FlagSet: flag.NewFlagSet("ashlar-vsphere "+name, flag.ContinueOnError)}
	return made
}

func (o *options) vcenterOptions() {
	o.StringVar(&o.vcenter.Address, "vcenter", os.Getenv("VSPHERE_SERVER"), "address of the vCenter [or: VSPHERE_SERVER]")
	o.StringVar(&o.vcenter.User, "user", os.Getenv("VSPHERE_USER"), "user of the vCenter [or: VSPHERE_USER]")
	o.StringVar(&o.vcenter.PasswordFile, "password-file", "", "file with the password, readable by its owner alone [or: VSPHERE_PASSWORD, or the service's credential "+vcenter.CredentialName+"]")
	o.StringVar(&o.vcenter.Thumbprint, "thumbprint", os.Getenv("VSPHERE_THUMBPRINT"), "SHA-256 of vCenter's certificate, the only one to accept [or: VSPHERE_THUMBPRINT]")
	o.StringVar(&o.vcenter.CAFile, "vcenter-certificate", "", "certificates to trust if no thumbprint is given")
}

func (o *options) arrayOptions() {
	o.array.Program = "ashlar-vsphere/" + array.Version
	o.StringVar(&o.array.URL, "array", os.Getenv("ASHLAR_ARRAY"), "address of the array's API, such as https://10.0.0.1:8080 [or: ASHLAR_ARRAY]")
	o.StringVar(&o.array.TokenFile, "token-file", "", "file with an API token of an operator, readable by its owner alone [or: ASHLAR_TOKEN, or the service's credential "+tokenCredential+"]")
	o.StringVar(&o.array.CAFile, "array-certificate", "", "certificates to trust: the array's tls.pem")
}

func (o *options) connectVCenter(ctx context.Context) (*vcenter.Client, error) {
	if o.vcenter.Address == "" {
		return nil, errors.New("no vCenter: --vcenter")
	}
	o.vcenter.Password = os.Getenv("VSPHERE_PASSWORD")
	return vcenter.Connect(ctx, o.vcenter)
}

// tokenCredential is what the array's token is called among the credentials of a service of systemd.
const tokenCredential = "ashlar-vsphere.token"

func (o *options) connectArray() (*array.API, error) {
	if o.array.TokenFile != "" {
		if _, err := secret.Read(o.array.TokenFile); err != nil {
			return nil, fmt.Errorf("the API token can't be read: %w", err)
		}
		return array.Connect(o.array)
	}
	if o.array.Token = os.Getenv("ASHLAR_TOKEN"); o.array.Token == "" {
		token, _, err := secret.Credential(tokenCredential)
		if err != nil {
			return nil, fmt.Errorf("the API token can't be read: %w", err)
		}
		o.array.Token = strings.TrimSpace(string(token))
	}
	return array.Connect(o.array)
}

// list splits a value at commas.
func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func version(context.Context, []string) (int, error) {
	fmt.Println("ashlar-vsphere", array.Version)
	return rollout.ExitClean, nil
}
