// Package host is the node back end on a Linux host: iSCSI sessions, SCSI devices, multipath maps, file systems and mounts.
//
// It follows what its peers learned the hard way. Only the LUN that is staged is scanned, never a whole session. A device
// is used or removed only after its identifier was read again. A file system is made only on a volume that is known to be
// empty. And what is done for a volume is written down first, so that it can be taken back after a crash.
package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ashlar/integrations/csi"
)

// Multipath says whether multipath maps are used.
type Multipath string

// Choices of [Multipath].
const (
	// MultipathAuto uses maps if multipathd runs.
	MultipathAuto Multipath = "auto"
	// MultipathRequired refuses to stage a volume without one.
	MultipathRequired Multipath = "required"
	// MultipathOff uses one path.
	MultipathOff Multipath = "off"
)

// Config is how the back end finds the host.
type Config struct {
	// Name of the node.
	Name string
	// State is a folder for what was done for volumes; it survives restarts of the driver, and goes with the host.
	State string
	// Root is put before /sys, /dev, /proc and /etc; empty on a real host.
	Root      string
	Multipath Multipath
	// Run starts programs of the host.
	Run Runner
	// Write writes to a file of sysfs; nil on a real host.
	Write func(path, text string) error
	// Patience is how long devices are waited for.
	Patience time.Duration
	// Tick is the time between two looks at a device.
	Tick time.Duration
}

// Host is the back end.
type Host struct {
	config Config
	// sessions is held for reading while a volume is attached, and for writing while sessions are ended: a session that
	// another volume is about to use has no LUN yet.
	sessions sync.RWMutex
	// records guards the files of [Config.State].
	records sync.Mutex
}

// New makes a back end.
func New(config Config) (*Host, error) {
	switch config.Multipath {
	case MultipathAuto, MultipathRequired, MultipathOff:
	default:
		return nil, fmt.Errorf("multipath can be %s, %s or %s, not %q", MultipathAuto, MultipathRequired, MultipathOff, config.Multipath)
	}
	if err := os.MkdirAll(config.State, 0o700); err != nil {
		return nil, err
	}
	if config.Write == nil {
		config.Write = func(path, text string) error { return os.WriteFile(path, []byte(text), 0) }
	}
	return &Host{config: config}, nil
}

func (h *Host) path(parts ...string) string {
	return filepath.Join(append([]string{h.config.Root, "/"}, parts...)...)
}

// precondition is an error that repeating does not mend.
func precondition(format string, arguments ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, arguments...), csi.ErrPrecondition)
}

func notFound(format string, arguments ...any) error {
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, arguments...), csi.ErrNotFound)
}

// Identity reads the initiator's name where open-iscsi has it.
func (h *Host) Identity(context.Context) (csi.NodeID, error) {
	path := h.path("etc/iscsi/initiatorname.iscsi")
	read, err := os.ReadFile(path)
	if err != nil {
		return csi.NodeID{}, precondition("the host has no iSCSI initiator: install open-iscsi (%v)", err)
	}
	for _, line := range strings.Split(string(read), "\n") {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "InitiatorName="); found {
			return csi.NodeID{Name: h.config.Name, Initiator: strings.ToLower(strings.TrimSpace(name))}, nil
		}
	}
	return csi.NodeID{}, precondition("%s has no InitiatorName", path)
}

// Stage logs in, finds the device, and mounts its file system.
func (h *Host) Stage(ctx context.Context, volume csi.Staged) error {
	record, err := h.load(volume.Volume)
	if err != nil {
		return err
	}
	if record == nil {
		record = &Record{Volume: volume.Volume, Block: volume.Access.Block}
	}
	record.Device, record.StagingPath = volume.Device, volume.StagingPath
	if err := h.save(record); err != nil {
		return err
	}
	device, err := h.attach(ctx, record, volume.CHAP)
	if err != nil || volume.Access.Block {
		return err
	}
	return h.mountFileSystem(ctx, volume, device)
}

// attach returns the device of a volume, as a path below /dev.
func (h *Host) attach(ctx context.Context, record *Record, chap csi.CHAP) (string, error) {
	h.sessions.RLock()
	defer h.sessions.RUnlock()
	sessions, err := h.login(ctx, record, chap)
	if err != nil {
		return "", err
	}
	for _, session := range sessions {
		if err := h.scan(session, record.Device.LUN); err != nil {
			return "", err
		}
	}
	paths, err := h.awaitPaths(ctx, record.Device, len(sessions))
	if err != nil {
		return "", err
	}
	return h.gather(ctx, record.Device, paths)
}

// Unstage unmounts, removes the device, and logs out if nothing else of the array is used.
func (h *Host) Unstage(ctx context.Context, volume, stagingPath string) error {
	record, err := h.load(volume)
	if err != nil {
		return err
	}
	if record != nil {
		for _, target := range record.Targets {
			mounted, err := h.mountsAt(target)
			if err != nil {
				return err
			}
			if len(mounted) > 0 {
				return precondition("volume %s is still published at %s", volume, target)
			}
		}
	}
	if err := h.unmount(ctx, stagingPath); err != nil {
		return err
	}
	if record == nil {
		// Never staged here, or unstaged before.
		return nil
	}
	if err := h.detach(ctx, record); err != nil {
		return err
	}
	return h.forget(volume)
}

// detach removes the map and the paths of a volume, and ends sessions that have no LUN left.
func (h *Host) detach(ctx context.Context, record *Record) error {
	if err := h.removeMap(ctx, record.Device); err != nil {
		return err
	}
	if err := h.removePaths(ctx, record.Device); err != nil {
		return err
	}
	// A volume that is being attached needs its sessions. They stay, and the last volume ends them.
	if !h.sessions.TryLock() {
		return nil
	}
	defer h.sessions.Unlock()
	return h.logout(ctx, record.Device.Target)
}

// Publish binds the staged file system, or the device, to the target.
func (h *Host) Publish(ctx context.Context, volume csi.Published) error {
	record, err := h.load(volume.Volume)
	if err != nil {
		return err
	}
	if record == nil {
		return notFound("volume %s is not staged here", volume.Volume)
	}
	if volume.Access.OneWriter {
		for _, target := range record.Targets {
			if target != volume.Target {
				return precondition("volume %s is for one workload, and is published at %s", volume.Volume, target)
			}
		}
	}
	source := volume.StagingPath
	if volume.Access.Block {
		if source, err = h.deviceOf(record.Device); err != nil {
			return err
		}
	} else if mounted, err := h.mountsAt(source); err != nil || len(mounted) == 0 {
		return notFound("volume %s is not mounted at %s (%v)", volume.Volume, source, err)
	}
	if record.add(volume.Target) {
		if err := h.save(record); err != nil {
			return err
		}
	}
	return h.bind(ctx, source, volume)
}

// Unpublish unmounts the target and removes it.
func (h *Host) Unpublish(ctx context.Context, volume, target string) error {
	if err := h.unmount(ctx, target); err != nil {
		return err
	}
	// Only what the driver made there: a folder with files is not removed.
	if err := os.Remove(target); err != nil && !os.IsNotExist(err) {
		return err
	}
	record, err := h.load(volume)
	if err != nil || record == nil {
		return err
	}
	if record.remove(target) {
		return h.save(record)
	}
	return nil
}
