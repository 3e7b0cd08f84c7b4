// Command ashlar-csi is the CSI driver of an array: `controller` in one pod of a cluster, `node` on every node, and
// `orphans` for people who look for what was left on the array.
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

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"ashlar/integrations/array"
	"ashlar/integrations/csi"
	"ashlar/integrations/csi/host"
)

const usage = `ashlar-csi: CSI driver of an Ashlar array

Usage:
  ashlar-csi controller [OPTIONS]   controller services; one for a cluster
  ashlar-csi node [OPTIONS]         node services; one on every node
  ashlar-csi orphans [OPTIONS]      volumes and snapshots of this cluster on the array that the cluster does not know, and
                                    objects of the cluster whose volume or snapshot is not on the array;
                                    reads ` + "`kubectl get persistentvolumes,volumesnapshotcontents -o json`" + ` from standard input
  ashlar-csi version

` + "`ashlar-csi VERB -h`" + ` lists the options of a verb.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := perform(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "ashlar-csi:", err)
		os.Exit(1)
	}
}

func perform(ctx context.Context, words []string) error {
	verbs := map[string]func(context.Context, *flag.FlagSet, []string) error{
		"controller": controller, "node": node, "orphans": orphans,
	}
	if len(words) > 0 && words[0] == "version" {
		fmt.Println("ashlar-csi", array.Version)
		return nil
	}
	if len(words) > 0 && verbs[words[0]] != nil {
		flags := flag.NewFlagSet("ashlar-csi "+words[0], flag.ContinueOnError)
		klog.InitFlags(flags)
		return verbs[words[0]](ctx, flags, words[1:])
	}
	fmt.Fprint(os.Stderr, usage)
	return errors.New("there is no such verb")
}

// common are the options of every verb.
func common(flags *flag.FlagSet, config *csi.Config) {
	flags.StringVar(&config.Driver, "driver", csi.DriverName, "name of the driver; another one for each further array")
	flags.StringVar(&config.Location, "location", "", "topology segment of nodes that reach the array; empty: no topology")
	flags.Int64Var(&config.MaxVolumes, "max-volumes", 250, "volumes that a node takes; 0: not limited")
}

// arrayOptions are those of verbs that speak to the array.
func arrayOptions(flags *flag.FlagSet, config *csi.Config) *array.Access {
	access := &array.Access{Program: "ashlar-csi/" + array.Version}
	flags.StringVar(&access.URL, "array", os.Getenv("ASHLAR_ARRAY"), "address of the array's API, such as https://10.0.0.1:8080 [or: ASHLAR_ARRAY]")
	flags.StringVar(&access.TokenFile, "token-file", "", "file with an API token of an operator [or the token in ASHLAR_TOKEN]")
	flags.StringVar(&access.CAFile, "certificate", "", "certificates to trust: the array's tls.pem")
	flags.StringVar(&config.Cluster, "cluster", "", "name of this cluster: it distinguishes its volumes from those of other clusters on the array")
	flags.StringVar(&config.Prefix, "prefix", "csi", "beginning of names on the array")
	return access
}

func connect(access *array.Access) (*array.API, error) {
	if access.TokenFile == "" {
		access.Token = os.Getenv("ASHLAR_TOKEN")
	}
	return array.Connect(*access)
}

func controller(ctx context.Context, flags *flag.FlagSet, words []string) error {
	var config csi.Config
	common(flags, &config)
	access := arrayOptions(flags, &config)
	endpoint := flags.String("endpoint", "unix:///csi/csi.sock", "socket to serve")
	if err := flags.Parse(words); err != nil {
		return err
	}
	api, err := connect(access)
	if err != nil {
		return err
	}
	driver, err := csi.New(config, api, nil)
	if err != nil {
		return err
	}
	return driver.Serve(ctx, *endpoint)
}

func node(ctx context.Context, flags *flag.FlagSet, words []string) error {
	var config csi.Config
	common(flags, &config)
	endpoint := flags.String("endpoint", "unix:///csi/csi.sock", "socket to serve")
	name := flags.String("name", os.Getenv("NODE_NAME"), "name of the node [or: NODE_NAME]")
	state := flags.String("state", "/var/lib/kubelet/plugins/"+csi.DriverName+"/volumes", "folder for what was done for volumes")
	multipath := flags.String("multipath", string(host.MultipathAuto), "auto, required or off")
	enter := flags.String("enter", "", "words before each program of the host, such as `nsenter --target 1 --mount --`")
	patience := flags.Duration("patience", 30*time.Second, "how long devices are waited for")
	plugins := flags.String("register", "", "the kubelet's folder of plug-ins, in which the driver makes itself known")
	socket := flags.String("register-endpoint", "", "path of the served socket as the kubelet sees it")
	if err := flags.Parse(words); err != nil {
		return err
	}
	if *name == "" {
		return errors.New("a node needs its name: --name")
	}
	backend, err := host.New(host.Config{
		Name: *name, State: *state, Multipath: host.Multipath(*multipath), Run: host.Programs(strings.Fields(*enter)...),
		Patience: *patience, Tick: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	driver, err := csi.New(config, nil, backend)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return driver.Serve(ctx, *endpoint) })
	if *plugins != "" {
		registration := &csi.Registration{Driver: config.Driver, Endpoint: *socket}
		group.Go(func() error { return registration.Serve(ctx, *plugins) })
	}
	return group.Wait()
}

func orphans(ctx context.Context, flags *flag.FlagSet, words []string) error {
	var config csi.Config
	common(flags, &config)
	access := arrayOptions(flags, &config)
	age := flags.Duration("older-than", 24*time.Hour, "leave out what is younger")
	recycle := flags.Bool("recycle", false, "move what the cluster does not know to the array's recycle bin, from which it can be restored")
	if err := flags.Parse(words); err != nil {
		return err
	}
	api, err := connect(access)
	if err != nil {
		return err
	}
	driver, err := csi.New(config, api, nil)
	if err != nil {
		return err
	}
	found, err := driver.Compare(ctx, os.Stdin, *age)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(os.Stdout)
	for _, orphan := range found.Orphans {
		if err := lines.Encode(orphan); err != nil {
			return err
		}
	}
	for _, missing := range found.Missing {
		if err := lines.Encode(missing); err != nil {
			return err
		}
	}
	if *recycle {
		return driver.Recycle(ctx, found.Orphans)
	}
	return nil
}
