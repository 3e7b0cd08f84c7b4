package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ashlar/integrations/csi"
)

// Kinds of file systems.
const (
	ext4 = "ext4"
	xfs  = "xfs"
)

// Exit codes of blkid (8) and fsck (8).
const (
	codeNothingFound    = 2
	codeErrorsCorrected = 1
)

// probeBytes are read at both ends of a device before a file system is made there.
const probeBytes = 1 << 20

// mountFileSystem mounts the file system of a device, which is made if the volume is empty.
func (h *Host) mountFileSystem(ctx context.Context, volume csi.Staged, device string) error {
	block, err := h.blockOf(volume.Device)
	if err != nil {
		return err
	}
	mounted, err := h.mountsAt(volume.StagingPath)
	if err != nil {
		return err
	}
	if len(mounted) > 0 {
		if number(mounted[0]) != text(block, "dev") {
			return precondition("something else, %s, is mounted at %s", mounted[0].Source, volume.StagingPath)
		}
		return h.grow(ctx, mounted[0].FsType, device, volume.StagingPath, volume.Device.ReadOnly)
	}
	kind, err := h.fileSystem(ctx, volume, device)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(volume.StagingPath, 0o750); err != nil {
		return err
	}
	options := mountOptions(kind, volume)
	if _, err := h.run(ctx, nil, "mount", "-t", kind, "-o", strings.Join(options, ","), device, volume.StagingPath); err != nil {
		return err
	}
	return h.grow(ctx, kind, device, volume.StagingPath, volume.Device.ReadOnly)
}

func mountOptions(kind string, volume csi.Staged) []string {
	options := slices.Clone(volume.Access.Options)
	switch {
	case volume.Device.ReadOnly && kind == ext4:
		// The journal of a snapshot can't be replayed where nothing can be written.
		options = append(options, "ro", "noload")
	case volume.Device.ReadOnly && kind == xfs:
		options = append(options, "ro", "norecovery")
	case volume.Access.ReadOnly:
		options = append(options, "ro")
	}
	if kind == xfs {
		// A clone has the identifier of its source's file system; the device's was verified.
		options = append(options, "nouuid")
	}
	if len(options) == 0 {
		options = []string{"defaults"}
	}
	return options
}

// fileSystem returns the kind of the file system of a device, checked or made.
func (h *Host) fileSystem(ctx context.Context, volume csi.Staged, device string) (string, error) {
	wanted := volume.Access.FileSystem
	found, err := h.signature(ctx, device)
	if err != nil {
		return "", err
	}
	switch {
	case found == "":
		if wanted == "" {
			wanted = ext4
		}
		return wanted, h.format(ctx, wanted, volume, device)
	case found != ext4 && found != xfs:
		return "", precondition("volume %s has %s, which is not mounted and not overwritten: use it with volumeMode Block", volume.Volume, found)
	case wanted != "" && found != wanted:
		return "", precondition("volume %s has %s, and the StorageClass asks for %s: nothing was overwritten", volume.Volume, found, wanted)
	case found == ext4 && !volume.Device.ReadOnly:
		return found, h.check(ctx, volume.Volume, device)
	}
	return found, nil
}

// signature names what is on a device; empty if blkid knows nothing that is there.
func (h *Host) signature(ctx context.Context, device string) (string, error) {
	result, err := h.run(ctx, []int{codeNothingFound}, "blkid", "-p", "-o", "export", device)
	if err != nil {
		return "", precondition("what is on %s can't be determined, so nothing is made there: %v", device, err)
	}
	if result.Code == codeNothingFound {
		return "", nil
	}
	kind := ""
	for _, line := range strings.Split(result.Out, "\n") {
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "TYPE":
			return value, nil
		case "PTTYPE":
			kind = "a partition table (" + value + ")"
		}
	}
	if kind == "" {
		return "", precondition("what is on %s can't be determined, so nothing is made there: blkid says %q", device, result.Out)
	}
	return kind, nil
}

// format makes a file system on a volume that was never written. One with data but without a signature is made into one
// only if it is no clone and both its ends are zeros: a mkfs that was interrupted leaves that.
func (h *Host) format(ctx context.Context, kind string, volume csi.Staged, device string) error {
	if volume.Device.ReadOnly || volume.Access.ReadOnly {
		return precondition("volume %s has no file system, and can't get one as it is read-only", volume.Volume)
	}
	if volume.Device.Written {
		if volume.Clone {
			return precondition("volume %s is a clone with data and without a file system: use it with volumeMode Block", volume.Volume)
		}
		empty, err := blank(device)
		if err != nil {
			return err
		}
		if !empty {
			return precondition("volume %s has data and no file system, so none is made: use it with volumeMode Block, or delete it", volume.Volume)
		}
	}
	if kind == xfs {
		_, err := h.run(ctx, nil, "mkfs.xfs", "-q", device)
		return err
	}
	_, err := h.run(ctx, nil, "mkfs.ext4", "-q", "-m", "0", device)
	return err
}

// blank reports whether both ends of a device are zeros.
func blank(device string) (bool, error) {
	file, err := os.Open(device)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	for _, at := range []int64{0, max(0, end-probeBytes)} {
		buffer := make([]byte, probeBytes)
		read, err := file.ReadAt(buffer, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if len(bytes.TrimLeft(buffer[:read], "\x00")) > 0 {
			return false, nil
		}
	}
	return true, nil
}

// check repairs what is safe to repair. More is left to people: the file system is not mounted.
func (h *Host) check(ctx context.Context, volume, device string) error {
	if _, err := h.run(ctx, []int{codeErrorsCorrected}, "e2fsck", "-p", device); err != nil {
		return precondition("the file system of volume %s has errors, and is not mounted: take a snapshot, then run e2fsck on %s (%v)", volume, device, err)
	}
	return nil
}

// grow makes a mounted file system as large as its device.
func (h *Host) grow(ctx context.Context, kind, device, at string, readOnly bool) error {
	if readOnly {
		return nil
	}
	if kind == xfs {
		_, err := h.run(ctx, nil, "xfs_growfs", at)
		return err
	}
	_, err := h.run(ctx, nil, "resize2fs", device)
	return err
}

// Stats returns the use of a volume where it is staged or published.
func (h *Host) Stats(_ context.Context, volume, at string) (csi.Stats, error) {
	record, err := h.usedAt(volume, at)
	if err != nil {
		return csi.Stats{}, err
	}
	if record.Block {
		block, err := h.blockOf(record.Device)
		return csi.Stats{Block: true, Bytes: bytesOf(block)}, err
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(at, &stat); err != nil {
		return csi.Stats{}, err
	}
	unit := stat.Bsize
	return csi.Stats{
		Bytes: int64(stat.Blocks) * unit, AvailableBytes: int64(stat.Bavail) * unit,
		UsedBytes: int64(stat.Blocks-stat.Bfree) * unit,
		Inodes:    int64(stat.Files), FreeInodes: int64(stat.Ffree), UsedInodes: int64(stat.Files - stat.Ffree),
	}, nil
}

// usedAt returns the record of a volume that is mounted at a path.
func (h *Host) usedAt(volume, at string) (*Record, error) {
	record, err := h.load(volume)
	if err != nil {
		return nil, err
	}
	if record == nil {
		return nil, notFound("volume %s is not staged here", volume)
	}
	if record.Block && at == record.StagingPath {
		return record, nil
	}
	if at != record.StagingPath && !slices.Contains(record.Targets, at) {
		return nil, notFound("volume %s is not at %s", volume, at)
	}
	mounted, err := h.mountsAt(at)
	if err != nil {
		return nil, err
	}
	if len(mounted) == 0 {
		return nil, notFound("nothing is mounted at %s", at)
	}
	return record, nil
}

// Expand makes paths, map and file system as large as the volume is now.
func (h *Host) Expand(ctx context.Context, volume, at string, required int64) (int64, error) {
	record, err := h.usedAt(volume, at)
	if err != nil {
		return 0, err
	}
	paths, err := h.pathsOf(record.Device)
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		if err := h.config.Write(filepath.Join(path.scsi, "rescan"), "1"); err != nil {
			return 0, err
		}
		if err := h.awaitSize(ctx, path, required); err != nil {
			return 0, err
		}
	}
	block, err := h.blockOf(record.Device)
	if err != nil {
		return 0, err
	}
	if folder := h.mapOf(record.Device); folder != "" && len(paths) > 0 {
		if err := h.awaitMapSize(ctx, folder, max(required, bytesOf(paths[0].block))); err != nil {
			return 0, err
		}
	}
	if !record.Block {
		mounted, err := h.mountsAt(record.StagingPath)
		if err != nil {
			return 0, err
		}
		if len(mounted) == 0 {
			return 0, notFound("volume %s is not mounted at %s", volume, record.StagingPath)
		}
		device, err := h.deviceOf(record.Device)
		if err != nil {
			return 0, err
		}
		if err := h.grow(ctx, mounted[0].FsType, device, record.StagingPath, record.Device.ReadOnly); err != nil {
			return 0, err
		}
	}
	return bytesOf(block), nil
}

// Trim unmaps what the mounted file system of a volume does not use, with fstrim (8).
func (h *Host) Trim(ctx context.Context, volume, at string) error {
	record, err := h.usedAt(volume, at)
	if err != nil {
		return err
	}
	if record.Block {
		return fmt.Errorf("volume %s is used as a block device, and what uses it unmaps what it does not need: %w", volume, csi.ErrUnsupported)
	}
	if record.Device.ReadOnly {
		return fmt.Errorf("volume %s is read-only: %w", volume, csi.ErrUnsupported)
	}
	result, err := h.run(ctx, nil, "fstrim", record.StagingPath)
	if strings.Contains(result.Said, "not supported") {
		return fmt.Errorf("%v: %w", err, csi.ErrUnsupported)
	}
	return err
}
