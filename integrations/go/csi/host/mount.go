package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/mount-utils"

	"ashlar/integrations/csi"
)

// mounts reads what is mounted in the host's namespace.
func (h *Host) mounts() ([]mount.MountInfo, error) {
	return mount.ParseMountInfo(h.path("proc/1/mountinfo"))
}

// mountsAt returns what is mounted at a path, the last on top.
func (h *Host) mountsAt(path string) ([]mount.MountInfo, error) {
	all, err := h.mounts()
	if err != nil {
		return nil, err
	}
	var found []mount.MountInfo
	for _, entry := range all {
		if entry.MountPoint == filepath.Clean(path) {
			found = append(found, entry)
		}
	}
	return found, nil
}

// mountsOf returns where a disk or map is mounted.
func (h *Host) mountsOf(block string) ([]mount.MountInfo, error) {
	all, err := h.mounts()
	if err != nil {
		return nil, err
	}
	var found []mount.MountInfo
	for _, entry := range all {
		if device := text(block, "dev"); device != "" && number(entry) == device {
			found = append(found, entry)
		}
	}
	return found, nil
}

// number is a mount's device as `major:minor`, as sysfs writes it.
func number(entry mount.MountInfo) string { return fmt.Sprintf("%d:%d", entry.Major, entry.Minor) }

// unmount takes away everything that is mounted at a path.
func (h *Host) unmount(ctx context.Context, path string) error {
	mounted, err := h.mountsAt(path)
	if err != nil {
		return err
	}
	for range mounted {
		if _, err := h.run(ctx, nil, "umount", path); err != nil {
			return err
		}
	}
	return nil
}

// bind mounts a file system's folder, or a device's file, at the target.
func (h *Host) bind(ctx context.Context, source string, volume csi.Published) error {
	mounted, err := h.mountsAt(volume.Target)
	if err != nil || len(mounted) > 0 {
		return err
	}
	if volume.Access.Block {
		if err := os.MkdirAll(filepath.Dir(volume.Target), 0o750); err != nil {
			return err
		}
		file, err := os.OpenFile(volume.Target, os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
	} else if err := os.MkdirAll(volume.Target, 0o750); err != nil {
		return err
	}
	if _, err := h.run(ctx, nil, "mount", "--bind", source, volume.Target); err != nil {
		return err
	}
	if !volume.Access.ReadOnly || volume.Access.Block {
		return nil
	}
	if _, err := h.run(ctx, nil, "mount", "-o", "remount,bind,ro", volume.Target); err != nil {
		// A workload that asked for read-only must not get more.
		if _, undo := h.run(ctx, nil, "umount", volume.Target); undo != nil {
			return fmt.Errorf("%w; and it stays mounted: %w", err, undo)
		}
		return err
	}
	return nil
}
