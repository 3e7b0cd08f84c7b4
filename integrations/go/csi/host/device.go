package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ashlar/integrations/csi"
)

const (
	// otherPaths is how long further paths are waited for once one is there.
	otherPaths = 5 * time.Second
	// mapPatience is how long multipathd has to make a map by itself.
	mapPatience = 3 * time.Second
	// sectorBytes is the unit of sysfs's sizes, whatever the logical block length.
	sectorBytes = 512
)

// path is a SCSI disk by one session.
type path struct {
	// scsi is the folder of the SCSI device, block that of the disk.
	scsi, block string
	portal      string
}

func (p path) name() string { return filepath.Base(p.block) }

// wwid reads the device's identifier now: the name string of VPD page 83h, in capital letters, which the kernel pads with null
// characters.
func (p path) wwid() string { return strings.ToLower(strings.TrimRight(text(p.scsi, "wwid"), "\x00 ")) }

func (p path) is(device csi.Device) bool { return p.wwid() == "naa."+device.NAA }

// bytesOf reads the size of a disk or map.
func bytesOf(block string) int64 {
	sectors, err := strconv.ParseInt(text(block, "size"), 10, 64)
	if err != nil {
		return 0
	}
	return sectors * sectorBytes
}

// pathsOf returns the paths of a device that are there. A LUN with another identifier is reported: it is a remnant of a
// volume that was taken from this host while it was in use.
func (h *Host) pathsOf(device csi.Device) ([]path, error) {
	sessions, err := h.sessionsOf(device.Target)
	if err != nil {
		return nil, err
	}
	var found []path
	for _, session := range sessions {
		path := session.path(device.LUN)
		if path == nil || path.wwid() == "" {
			continue
		}
		if !path.is(device) {
			return nil, precondition("LUN %d of portal %s is %s (%s), and should be naa.%s: that disk belongs to a volume that was taken from this host while in use; end what uses it, then `echo 1 > /sys/block/%s/device/delete`",
				device.LUN, session.portal, path.name(), path.wwid(), device.NAA, path.name())
		}
		found = append(found, *path)
	}
	return found, nil
}

// awaitPaths waits for the disks of a LUN: all of them, or, after a while, at least one.
func (h *Host) awaitPaths(ctx context.Context, device csi.Device, sessions int) ([]path, error) {
	var paths []path
	look := func() (bool, error) {
		var err error
		paths, err = h.pathsOf(device)
		return len(paths) == sessions, err
	}
	all, err := h.await(ctx, min(otherPaths, h.config.Patience), look)
	if err != nil {
		return nil, err
	}
	if !all && len(paths) == 0 {
		look := func() (bool, error) {
			var err error
			paths, err = h.pathsOf(device)
			return len(paths) > 0, err
		}
		if _, err := h.await(ctx, h.config.Patience, look); err != nil {
			return nil, err
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("LUN %d (naa.%s) of %s did not appear on this host within %s: is the volume connected to its initiator on the array?",
			device.LUN, device.NAA, device.Target, h.config.Patience)
	}
	for _, path := range paths {
		if err := h.awaitSize(ctx, path, device.Bytes); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// awaitSize makes the kernel read a disk's size again until it has at least this many bytes.
func (h *Host) awaitSize(ctx context.Context, path path, bytes int64) error {
	large, err := h.await(ctx, h.config.Patience, func() (bool, error) {
		if bytesOf(path.block) >= bytes {
			return true, nil
		}
		return false, h.config.Write(filepath.Join(path.scsi, "rescan"), "1")
	})
	if err == nil && !large {
		err = fmt.Errorf("disk %s (%s) has %d bytes on this host, and should have %d", path.name(), path.wwid(), bytesOf(path.block), bytes)
	}
	return err
}

// mapOf returns the folder of the multipath map of a device; empty if there is none.
func (h *Host) mapOf(device csi.Device) string {
	maps, _ := filepath.Glob(h.path("sys/block/dm-*"))
	for _, folder := range maps {
		// multipath's WWID of a NAA identifier is a 3 and its digits.
		if text(folder, "dm", "uuid") == "mpath-3"+device.NAA {
			return folder
		}
	}
	return ""
}

// gather returns the device over all paths.
func (h *Host) gather(ctx context.Context, device csi.Device, paths []path) (string, error) {
	if h.config.Multipath == MultipathOff {
		return h.node(paths[0].block), nil
	}
	if h.config.Run(ctx, "multipathd", "show", "daemon").Code != 0 && h.mapOf(device) == "" {
		if h.config.Multipath == MultipathRequired {
			return "", precondition("multipathd does not run on this host, and a multipath map is required")
		}
		return h.node(paths[0].block), nil
	}
	folder := ""
	look := func() (bool, error) {
		folder = h.mapOf(device)
		return folder != "", nil
	}
	made, err := h.await(ctx, min(mapPatience, h.config.Patience), look)
	if err != nil {
		return "", err
	}
	if !made {
		// By default multipathd leaves alone what it has not seen with two paths.
		if _, err := h.run(ctx, nil, "multipath", "-a", h.node(paths[0].block)); err != nil {
			return "", err
		}
		for _, path := range paths {
			if _, err := h.run(ctx, nil, "multipathd", "add", "path", path.name()); err != nil {
				return "", err
			}
		}
		if _, err := h.await(ctx, h.config.Patience, look); err != nil {
			return "", err
		}
	}
	if folder == "" {
		return "", precondition("multipathd runs and makes no map of naa.%s: is it in a blacklist? see docs/operating/hosts.md", device.NAA)
	}
	for _, path := range paths {
		if text(folder, "slaves", path.name(), "dev") == "" {
			// A map without all of its paths works.
			h.config.Run(ctx, "multipathd", "add", "path", path.name())
		}
	}
	return h.node(folder), h.awaitMapSize(ctx, folder, device.Bytes)
}

// awaitMapSize makes a map as large as its paths.
func (h *Host) awaitMapSize(ctx context.Context, folder string, bytes int64) error {
	if bytesOf(folder) >= bytes {
		return nil
	}
	name := text(folder, "dm", "name")
	if _, err := h.run(ctx, nil, "multipathd", "resize", "map", name); err != nil {
		return err
	}
	large, err := h.await(ctx, h.config.Patience, func() (bool, error) { return bytesOf(folder) >= bytes, nil })
	if err == nil && !large {
		err = fmt.Errorf("map %s has %d bytes, and should have %d", name, bytesOf(folder), bytes)
	}
	return err
}

// node is the device file of a disk or map.
func (h *Host) node(block string) string { return h.path("dev", filepath.Base(block)) }

// deviceOf returns the device of a volume that is attached: its map, or its only path.
func (h *Host) deviceOf(device csi.Device) (string, error) {
	if folder := h.mapOf(device); folder != "" {
		return h.node(folder), nil
	}
	paths, err := h.pathsOf(device)
	if err != nil {
		return "", err
	}
	if len(paths) == 0 {
		return "", notFound("naa.%s has no disk on this host", device.NAA)
	}
	return h.node(paths[0].block), nil
}

// blockOf is deviceOf as a folder of sysfs.
func (h *Host) blockOf(device csi.Device) (string, error) {
	node, err := h.deviceOf(device)
	return h.path("sys/class/block", filepath.Base(node)), err
}

// holders names what stands on a disk or map.
func holders(block string) []string {
	entries, err := os.ReadDir(filepath.Join(block, "holders"))
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// removeMap flushes a volume's map and removes it.
func (h *Host) removeMap(ctx context.Context, device csi.Device) error {
	folder := h.mapOf(device)
	if folder == "" {
		return nil
	}
	if err := h.unused(folder); err != nil {
		return err
	}
	if _, err := h.run(ctx, nil, "blockdev", "--flushbufs", h.node(folder)); err != nil {
		return err
	}
	// By its WWID: names of maps are given again.
	wwid := "3" + device.NAA
	var last error
	_, err := h.await(ctx, h.config.Patience, func() (bool, error) {
		if h.mapOf(device) == "" {
			return true, nil
		}
		// Fails while something, such as udev's probe, has it open.
		_, last = h.run(ctx, nil, "multipath", "-f", wwid)
		return last == nil && h.mapOf(device) == "", nil
	})
	if err != nil {
		return err
	}
	if h.mapOf(device) != "" {
		return fmt.Errorf("the map of naa.%s is in use and can't be removed: %w", device.NAA, last)
	}
	return nil
}

// unused refuses a disk or map that something stands on or that is mounted.
func (h *Host) unused(block string) error {
	if over := holders(block); len(over) > 0 {
		return precondition("%s is used by %s: remove that first", filepath.Base(block), strings.Join(over, ", "))
	}
	mounted, err := h.mountsOf(block)
	if err != nil {
		return err
	}
	if len(mounted) > 0 {
		return precondition("%s is mounted at %s", filepath.Base(block), mounted[0].MountPoint)
	}
	return nil
}

// removePaths removes the disks of a volume, each after its identifier was read again.
func (h *Host) removePaths(ctx context.Context, device csi.Device) error {
	sessions, err := h.sessionsOf(device.Target)
	if err != nil {
		return err
	}
	for _, session := range sessions {
		path := session.path(device.LUN)
		if path == nil || !path.is(device) {
			// Removed before, or the LUN of another volume by now.
			continue
		}
		if err := h.unused(path.block); err != nil {
			return err
		}
		if _, err := h.run(ctx, nil, "blockdev", "--flushbufs", h.node(path.block)); err != nil {
			return err
		}
		if !path.is(device) {
			continue
		}
		if err := h.config.Write(filepath.Join(path.scsi, "delete"), "1"); err != nil && !os.IsNotExist(err) {
			return err
		}
		gone, err := h.await(ctx, h.config.Patience, func() (bool, error) {
			_, err := os.Stat(path.scsi)
			return os.IsNotExist(err), nil
		})
		if err != nil {
			return err
		}
		if !gone {
			return fmt.Errorf("disk %s of portal %s can't be removed", path.name(), path.portal)
		}
	}
	return nil
}
