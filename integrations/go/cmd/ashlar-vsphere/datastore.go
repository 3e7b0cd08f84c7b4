package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"ashlar/integrations/size"
	"ashlar/integrations/vsphere/datastore"
	"ashlar/integrations/vsphere/job"
	"ashlar/integrations/vsphere/rollout"
)

// datastoreVerb is a word after `datastore`.
type datastoreVerb struct {
	name, about string
	run         func(ctx context.Context, given *datastoreOptions) error
}

type datastoreOptions struct {
	*options
	manager *datastore.Manager
	// name is the first word after the verb.
	name                                                    string
	cluster, bytes, volume, group, source, snapshot, target string
	format                                                  string
	sure                                                    bool
}

var datastoreVerbs = []datastoreVerb{
	{"list", "datastores and the volumes that they are on", listDatastores},
	{"create", "create NAME --cluster C --size 2TiB: volume, connections, format, mount, path policy", createDatastore},
	{"grow", "grow NAME --size 4TiB", growDatastore},
	{"delete", "delete NAME --yes: unmount it, and move its volume to the array's recycle bin", deleteDatastore},
	{"clone", "clone NAME --source DATASTORE [--snapshot S] --cluster C: mount a copy with a signature of its own", cloneDatastore},
	{"resignature", "resignature NAME --volume V --cluster C: mount a volume that has the copy of a datastore", resignatureDatastore},
	{"unmap", "unmap NAME: give unused blocks back, with the right block count", unmapDatastore},
}

func datastores(ctx context.Context, words []string) (int, error) {
	for _, known := range datastoreVerbs {
		if len(words) == 0 || words[0] != known.name {
			continue
		}
		given := &datastoreOptions{options: newOptions("datastore " + known.name)}
		words = words[1:]
		if known.name != "list" {
			if len(words) == 0 || strings.HasPrefix(words[0], "-") && !strings.HasPrefix(words[0], "-h") && words[0] != "--help" {
				return rollout.ExitFailed, fmt.Errorf("which datastore? %s", known.about)
			}
			if !strings.HasPrefix(words[0], "-") {
				given.name, words = words[0], words[1:]
			}
		}
		given.define()
		if err := given.Parse(words); err != nil {
			return rollout.ExitFailed, err
		}
		if given.NArg() > 0 {
			return rollout.ExitFailed, fmt.Errorf("%q is not expected here", given.Arg(0))
		}
		return rollout.ExitClean, given.perform(ctx, known)
	}
	for _, known := range datastoreVerbs {
		fmt.Fprintf(os.Stderr, "  ashlar-vsphere datastore %-12s %s\n", known.name, known.about)
	}
	return rollout.ExitFailed, errors.New("there is no such verb")
}

func (o *datastoreOptions) define() {
	o.vcenterOptions()
	o.arrayOptions()
	o.StringVar(&o.cluster, "cluster", "", "cluster whose hosts mount it")
	o.StringVar(&o.bytes, "size", "", "size of the volume, such as 2TiB")
	o.StringVar(&o.volume, "volume", "", "name of the volume; default: that of the datastore")
	o.StringVar(&o.group, "group", "", "volume group on the array")
	o.StringVar(&o.source, "source", "", "datastore to clone")
	o.StringVar(&o.snapshot, "snapshot", "", "snapshot of its volume to clone; default: its content now")
	o.StringVar(&o.target, "to", "", "destination datastore")
	o.StringVar(&o.format, "format", "", "format of the copy: thin, lazy-zeroed or eager-zeroed; default: unchanged")
	o.BoolVar(&o.sure, "yes", false, "delete without asking")
}

func (o *datastoreOptions) perform(ctx context.Context, verb datastoreVerb) error {
	api, err := o.connectArray()
	if err != nil {
		return err
	}
	client, err := o.connectVCenter(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	o.manager = &datastore.Manager{VCenter: client, Array: api, Progress: func(it job.Progress) { fmt.Fprintln(os.Stderr, it) }}
	return verb.run(ctx, o)
}

func listDatastores(ctx context.Context, given *datastoreOptions) error {
	found, err := given.manager.List(ctx, true)
	if err != nil {
		return err
	}
	machines, err := given.manager.Machines(ctx, found)
	if err != nil {
		return err
	}
	lines := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(lines, "DATASTORE\tCAPACITY\tFREE\tDEVICE\tVOLUME\tVIRTUAL MACHINES")
	for _, it := range found {
		volume := "not on this array"
		if it.Volume != nil {
			volume = it.Volume.Name
		}
		fmt.Fprintln(lines, strings.Join([]string{it.Name, size.Format(it.Capacity), size.Format(it.Free), it.Device, volume,
			strings.Join(machines[it.Ref], ", ")}, "\t"))
	}
	return lines.Flush()
}

func createDatastore(ctx context.Context, given *datastoreOptions) error {
	bytes, err := size.Parse(given.bytes)
	if err != nil {
		return fmt.Errorf("--size: %w", err)
	}
	return given.manager.Create(ctx, datastore.New{Name: given.name, Cluster: given.cluster, Bytes: bytes, Volume: given.volume, Group: given.group})
}

func growDatastore(ctx context.Context, given *datastoreOptions) error {
	bytes, err := size.Parse(given.bytes)
	if err != nil {
		return fmt.Errorf("--size: %w", err)
	}
	return given.manager.Grow(ctx, given.name, bytes)
}

func deleteDatastore(ctx context.Context, given *datastoreOptions) error {
	if !given.sure {
		return fmt.Errorf("this takes datastore %s from every host and moves its volume to the array's recycle bin: say --yes", given.name)
	}
	return given.manager.Delete(ctx, given.name)
}

func cloneDatastore(ctx context.Context, given *datastoreOptions) error {
	return given.manager.CloneDatastore(ctx, datastore.Clone{Source: given.source, Snapshot: given.snapshot, Name: given.name, Cluster: given.cluster})
}

func resignatureDatastore(ctx context.Context, given *datastoreOptions) error {
	return given.manager.Resignature(ctx, given.volume, given.name, given.cluster)
}

func unmapDatastore(ctx context.Context, given *datastoreOptions) error {
	_, err := given.manager.Unmap(ctx, given.name)
	return err
}

// xcopy explains of each disk of a virtual machine who would copy it.
func xcopy(ctx context.Context, words []string) (int, error) {
	if len(words) == 0 || strings.HasPrefix(words[0], "-") {
		return rollout.ExitFailed, errors.New("which virtual machine? xcopy MACHINE --to DATASTORE")
	}
	given := &datastoreOptions{options: newOptions("xcopy"), name: words[0]}
	given.define()
	if err := given.Parse(words[1:]); err != nil {
		return rollout.ExitFailed, err
	}
	return rollout.ExitClean, given.perform(ctx, datastoreVerb{run: func(ctx context.Context, given *datastoreOptions) error {
		copies, err := given.manager.ExplainCopy(ctx, given.name, given.target, given.format)
		for _, it := range copies {
			if it.FallBacks == nil {
				fmt.Printf("%s: copied by the array\n", it.Disk)
				continue
			}
			fmt.Printf("%s: copied by the host: %s\n", it.Disk, strings.Join(it.FallBacks, "; "))
		}
		return err
	}})
}
