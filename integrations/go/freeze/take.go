// Package freeze takes snapshots of volumes while the file systems of the virtual machines that use them are frozen: the QEMU
// guest agent freezes, the array takes the snapshots of all volumes at one moment, the agent thaws. In Windows the agent
// freezes by VSS, so that applications take part; in Linux by hooks of the agent.
//
// A frozen guest can't write at all, so thawing comes before everything else: it is done after any failure, for every guest
// that may be frozen, and by a process of its own if this one is killed. A snapshot that is not known to have been taken
// while all were frozen is deleted again.
package freeze

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

// Labels of the snapshots.
const (
	// LabelConsistency is [Unverified] until all guests were seen frozen after the snapshot was taken, then [Frozen].
	LabelConsistency = "consistency"
	Unverified       = "unverified"
	Frozen           = "frozen"
)

// Request is what to take a snapshot of.
type Request struct {
	// Guests to freeze.
	Guests []Guest
	// Mounts are mount points in the guests; none: all file systems.
	Mounts []string
	// Volumes, or the Group whose volumes are meant.
	Volumes []string
	Group   string
	// Suffix of the snapshots' names after the volume's name and a dot.
	Suffix string
	// Labels of the snapshots besides [LabelConsistency].
	Labels map[string]string
	// Limit bounds the time from freezing to the end of the snapshot. VSS ends a freeze after ten seconds.
	Limit time.Duration
	// Patience bounds how long thawing is tried.
	Patience time.Duration
	// Again is the time between two attempts to thaw.
	Again time.Duration
	// Guard starts what thaws if this process is killed. What it returns ends it.
	Guard func(guests []Guest, longest time.Duration) (release func(), err error)
}

// Default times.
const (
	DefaultLimit    = 10 * time.Second
	DefaultPatience = 2 * time.Minute
	DefaultAgain    = time.Second
)

// Take takes the snapshots. After an error there are none, or the error says which ones may be there; and all guests are
// thawed, or the error says which ones may not be.
func Take(ctx context.Context, api *array.API, request Request) ([]array.Snapshot, error) {
	if err := ready(ctx, api, request); err != nil {
		return nil, err
	}
	release, err := request.Guard(request.Guests, request.Limit+request.Patience)
	if err != nil {
		return nil, fmt.Errorf("nothing was frozen: the process that would thaw can't be started: %w", err)
	}
	wanted := &order{NewSnapshots: request.snapshots(), key: uuid.NewString()}
	taken, err := whileFrozen(ctx, api, request, wanted)
	thawed := thaw(ctx, request)
	if thawed == nil {
		// Otherwise the guard retries.
		release()
	}
	if err = errors.Join(err, thawed); err != nil {
		return nil, errors.Join(err, discard(ctx, api, request, wanted))
	}
	return verified(ctx, api, taken)
}

// order is the request to the array.
type order struct {
	array.NewSnapshots
	key string
	// sent: the array may have got it.
	sent bool
}

func (r Request) snapshots() array.NewSnapshots {
	labels := map[string]string{}
	maps.Copy(labels, r.Labels)
	labels[LabelConsistency] = Unverified
	wanted := array.NewSnapshots{Suffix: nullable.NewNullableWithValue(r.Suffix), Labels: &labels}
	if r.Group != "" {
		wanted.Group = nullable.NewNullableWithValue(r.Group)
		return wanted
	}
	var sources []array.SnapshotSource
	for _, volume := range r.Volumes {
		sources = append(sources, array.SnapshotSource{Volume: volume})
	}
	wanted.Sources = nullable.NewNullableWithValue(sources)
	return wanted
}

// ready finds what would fail while the guests are frozen.
func ready(ctx context.Context, api *array.API, request Request) error {
	if len(request.Guests) == 0 {
		return errors.New("no guest to freeze")
	}
	if (len(request.Volumes) == 0) == (request.Group == "") {
		return errors.New("name volumes, or one group")
	}
	ctx, cancel := context.WithTimeout(ctx, request.Limit)
	defer cancel()
	if _, err := api.Check(ctx); err != nil {
		return err
	}
	volumes := request.Volumes
	if request.Group != "" {
		if _, err := array.Decode[array.Group](api.ShowGroup(ctx, request.Group)); err != nil {
			return err
		}
	}
	for _, name := range volumes {
		volume, err := array.Decode[array.Volume](api.ShowVolume(ctx, name))
		if err != nil {
			return err
		}
		if _, err := array.Decode[array.Snapshot](api.ShowSnapshot(ctx, volume.Name+"."+request.Suffix)); err == nil {
			return fmt.Errorf("snapshot %s.%s exists: choose another suffix", volume.Name, request.Suffix)
		} else if !array.IsKind(err, array.NotFound) {
			return err
		}
	}
	for _, guest := range request.Guests {
		if err := guest.ready(ctx); err != nil {
			return fmt.Errorf("guest %s: %w", guest.Name(), err)
		}
	}
	return nil
}

// whileFrozen freezes all guests, takes the snapshots, and makes sure that all are still frozen then.
func whileFrozen(ctx context.Context, api *array.API, request Request, wanted *order) ([]array.Snapshot, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, request.Limit, fmt.Errorf("the limit of %v is over", request.Limit))
	defer cancel()
	for _, guest := range request.Guests {
		if err := guest.freeze(ctx, request.Mounts); err != nil {
			return nil, fmt.Errorf("guest %s was not frozen: %w", guest.Name(), err)
		}
	}
	wanted.sent = true
	made, isNew, err := array.Made[array.Snapshots](api.CreateSnapshots(ctx, wanted.NewSnapshots, array.Once(wanted.key)))
	if err != nil {
		return nil, fmt.Errorf("the array took no snapshot: %w", err)
	}
	if !isNew {
		return nil, fmt.Errorf("the array has snapshots with the suffix %s already: choose another one", request.Suffix)
	}
	for _, guest := range request.Guests {
		frozen, err := guest.frozen(ctx)
		if err != nil {
			return nil, fmt.Errorf("guest %s may not have been frozen when the snapshot was taken: %w", guest.Name(), err)
		}
		if !frozen {
			return nil, fmt.Errorf("guest %s ended the freeze before the snapshot was taken", guest.Name())
		}
	}
	return made.Items, nil
}

// thaw thaws all guests at once, whatever happened before: one that does not respond must not hold up another.
func thaw(ctx context.Context, request Request) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), request.Patience)
	defer cancel()
	return Thaw(ctx, request.Guests, request.Again)
}

// Thaw thaws guests until all are, or the context ends.
func Thaw(ctx context.Context, guests []Guest, again time.Duration) error {
	results := make(chan error)
	for _, guest := range guests {
		go func() {
			err := guest.thaw(ctx, again)
			if err != nil {
				err = fmt.Errorf("GUEST %s MAY STILL BE FROZEN: thaw it with `ashlar-freeze thaw`, or reset it: %w", guest.Name(), err)
			}
			results <- err
		}()
	}
	var failures []error
	for range guests {
		failures = append(failures, <-results)
	}
	return errors.Join(failures...)
}

// discard moves to the recycle bin what was taken and is not verified. The request is sent once more: after its response
// the first one, which may still have been under way, takes no snapshot any more.
func discard(ctx context.Context, api *array.API, request Request, wanted *order) error {
	if !wanted.sent {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), request.Patience)
	defer cancel()
	_, err := array.Decode[array.Snapshots](api.CreateSnapshots(ctx, wanted.NewSnapshots, array.Once(wanted.key)))
	if !array.IsKind(err, array.Unreachable) {
		// The array refused it, and so has taken none.
		err = nil
	}
	left, listed := api.AllSnapshots(ctx, array.LabelQuery(map[string]string{LabelConsistency: Unverified}))
	err = errors.Join(err, listed)
	for _, snapshot := range left {
		if strings.HasSuffix(snapshot.Name, "."+request.Suffix) {
			err = errors.Join(err, array.Unless(array.NotFound, array.Done(api.DeleteSnapshot(ctx, snapshot.ID, nil))))
		}
	}
	if err != nil {
		return fmt.Errorf("snapshots with the suffix %s may be left, and must not be used: %w", request.Suffix, err)
	}
	return nil
}

// verified changes the label of snapshots that are good.
func verified(ctx context.Context, api *array.API, taken []array.Snapshot) ([]array.Snapshot, error) {
	frozen := Frozen
	labels := nullable.NewNullableWithValue(map[string]*string{LabelConsistency: &frozen})
	for at := range taken {
		changed, err := array.Decode[array.Snapshot](api.ChangeSnapshot(context.WithoutCancel(ctx), taken[at].ID, array.SnapshotChange{Labels: labels}))
		if err != nil {
			return nil, fmt.Errorf("snapshot %s is good, but its label could not be set: %w", taken[at].Name, err)
		}
		taken[at] = changed
	}
	return taken, nil
}
