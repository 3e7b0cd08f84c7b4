// Command ashlar-freeze takes snapshots while virtual machines are frozen by the QEMU guest agent.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"ashlar/integrations/array"
	"ashlar/integrations/freeze"
)

const usage = `ashlar-freeze: snapshots of volumes while the virtual machines that use them are frozen

Usage:
  ashlar-freeze snapshot [OPTIONS]  freeze guests, take the snapshots of all volumes at one moment, thaw
  ashlar-freeze thaw [OPTIONS]      thaw guests
  ashlar-freeze version

` + "`ashlar-freeze VERB -h`" + ` lists the options of a verb.
`

// guardVerb is for the process that thaws if the one that froze is killed.
const guardVerb = "guard"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	err := perform(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "ashlar-freeze:", err)
		os.Exit(1)
	}
}

func perform(ctx context.Context, words []string) error {
	if len(words) > 0 {
		flags := flag.NewFlagSet("ashlar-freeze "+words[0], flag.ContinueOnError)
		switch words[0] {
		case "snapshot":
			return snapshot(ctx, flags, words[1:])
		case "thaw":
			return thaw(ctx, flags, words[1:])
		case guardVerb:
			return freeze.Watch(os.Stdin, os.Stdout)
		case "version":
			fmt.Println("ashlar-freeze", array.Version)
			return nil
		}
	}
	fmt.Fprint(os.Stderr, usage)
	return errors.New("there is no such verb")
}

// list is an option that can be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

// guests are the options that name guests; they are read after flags were parsed.
func guests(flags *flag.FlagSet) func() []freeze.Guest {
	var sockets, domains list
	flags.Var(&sockets, "socket", "socket of a guest's agent on this hypervisor; repeatable")
	flags.Var(&domains, "domain", "guest of libvirt; repeatable")
	connect := flags.String("connect", "", "URI for virsh, such as qemu:///system; empty: its default")
	return func() []freeze.Guest {
		var all []freeze.Guest
		for _, socket := range sockets {
			all = append(all, freeze.Guest{Socket: socket})
		}
		for _, domain := range domains {
			all = append(all, freeze.Guest{Domain: domain, Connect: *connect})
		}
		return all
	}
}

func snapshot(ctx context.Context, flags *flag.FlagSet, words []string) error {
	request := freeze.Request{Again: freeze.DefaultAgain}
	access := array.Access{Program: "ashlar-freeze/" + array.Version}
	named := guests(flags)
	var volumes, mounts, labels list
	flags.StringVar(&access.URL, "array", os.Getenv("ASHLAR_ARRAY"), "address of the array's API, such as https://10.0.0.1:8080 [or: ASHLAR_ARRAY]")
	flags.StringVar(&access.TokenFile, "token-file", "", "file with an API token of an operator [or the token in ASHLAR_TOKEN]")
	flags.StringVar(&access.CAFile, "certificate", "", "certificates to trust: the array's tls.pem")
	flags.Var(&volumes, "volume", "volume; repeatable, all are taken at one moment")
	flags.StringVar(&request.Group, "group", "", "volume group, instead of volumes")
	flags.Var(&mounts, "mount", "freeze only what is mounted there in the guests; repeatable")
	flags.Var(&labels, "label", "KEY=VALUE for the snapshots; repeatable")
	flags.StringVar(&request.Suffix, "suffix", "", "of the snapshots' names after the volume's; default: frozen- and the time")
	flags.DurationVar(&request.Limit, "limit", freeze.DefaultLimit, "longest time that guests stay frozen before it is given up")
	flags.DurationVar(&request.Patience, "patience", freeze.DefaultPatience, "how long thawing is tried")
	if err := flags.Parse(words); err != nil {
		return err
	}
	if access.TokenFile == "" {
		access.Token = os.Getenv("ASHLAR_TOKEN")
	}
	request.Guests, request.Volumes, request.Mounts = named(), volumes, mounts
	request.Labels = map[string]string{}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		request.Labels[key] = value
	}
	if request.Suffix == "" {
		request.Suffix = "frozen-" + time.Now().UTC().Format("20060102T150405Z")
	}
	api, err := array.Connect(access)
	if err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	request.Guard = freeze.Spawn(request.Again, own, guardVerb)
	taken, err := freeze.Take(ctx, api, request)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(os.Stdout)
	for _, snapshot := range taken {
		if err := lines.Encode(snapshot); err != nil {
			return err
		}
	}
	return nil
}

func thaw(ctx context.Context, flags *flag.FlagSet, words []string) error {
	named := guests(flags)
	patience := flags.Duration("patience", freeze.DefaultPatience, "how long it is tried")
	if err := flags.Parse(words); err != nil {
		return err
	}
	all := named()
	if len(all) == 0 {
		return errors.New("no guest to thaw: name its --socket or --domain")
	}
	ctx, cancel := context.WithTimeout(ctx, *patience)
	defer cancel()
	return freeze.Thaw(ctx, all, freeze.DefaultAgain)
}
