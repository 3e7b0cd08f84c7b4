package host

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ashlar/integrations/csi"
)

// loginOf are the commands of a log-in without CHAP.
func loginOf(portal string) []string {
	node := "iscsiadm -m node -T " + target + " -p " + portal
	return []string{
		node + " -o new",
		node + " -o update -n node.startup -v manual",
		node + " -o update -n node.session.initial_login_retry_max -v 1",
		node + " -o update -n node.session.timeo.replacement_timeout -v 15",
		node + " --login",
	}
}

func same(t *testing.T, got []string, want ...[]string) {
	t.Helper()
	if all := slices.Concat(want...); !slices.Equal(got, all) {
		t.Errorf("it did\n  %s\nand should do\n  %s", strings.Join(got, "\n  "), strings.Join(all, "\n  "))
	}
}

func TestTheLifeOfAFileSystem(t *testing.T) {
	l := newLab(t)
	l.must(l.host.Stage(t.Context(), l.staged()))
	same(t, l.did(), loginOf(portalA), loginOf(portalB), []string{
		"echo 0 0 1 > class/scsi_host/host1/scan",
		"echo 0 0 1 > class/scsi_host/host2/scan",
		"multipathd show daemon",
		"blkid -p -o export dm-4",
		"mkfs.ext4 -q -m 0 dm-4",
		"mount -t ext4 -o defaults dm-4 staging",
		"resize2fs dm-4",
	})
	l.must(l.host.Publish(t.Context(), l.published()))
	same(t, l.did(), []string{"mount --bind staging target"})

	l.luns[1] = lun{volumeNAA, 2 * gib}
	bytes, err := l.host.Expand(t.Context(), "v1", l.at("target"), 2*gib)
	l.must(err)
	if bytes != 2*gib {
		t.Errorf("%d bytes", bytes)
	}
	same(t, l.did(), []string{
		"echo 1 > devices/platform/host1/session1/target1:0:0/1:0:0:1/rescan",
		"echo 1 > devices/platform/host2/session2/target2:0:0/2:0:0:1/rescan",
		"multipathd resize map mpath4",
		"resize2fs dm-4",
	})
	l.must(l.host.Unpublish(t.Context(), "v1", l.at("target")))
	l.must(l.host.Unstage(t.Context(), "v1", l.at("staging")))
	node := "iscsiadm -m node -T " + target + " -p "
	same(t, l.did(), []string{
		"umount target",
		"umount staging",
		"blockdev --flushbufs dm-4",
		"multipath -f 3" + volumeNAA,
		"blockdev --flushbufs sd3",
		"echo 1 > devices/platform/host1/session1/target1:0:0/1:0:0:1/delete",
		"blockdev --flushbufs sd5",
		"echo 1 > devices/platform/host2/session2/target2:0:0/2:0:0:1/delete",
		node + portalA + " --logout", node + portalA + " -o delete",
		node + portalB + " --logout", node + portalB + " -o delete",
	})
	if _, err := os.Stat(l.at("target")); !os.IsNotExist(err) {
		t.Error("the target stays")
	}
}

func TestEveryCallCanBeRepeated(t *testing.T) {
	l := newLab(t)
	for range 3 {
		l.must(l.host.Stage(t.Context(), l.staged()))
	}
	if count := strings.Count(strings.Join(l.did(), "\n"), "mkfs"); count != 1 {
		t.Errorf("%d file systems were made", count)
	}
	for range 3 {
		l.must(l.host.Publish(t.Context(), l.published()))
	}
	same(t, l.did(), []string{"mount --bind staging target"})
	for range 3 {
		l.must(l.host.Unpublish(t.Context(), "v1", l.at("target")))
	}
	same(t, l.did(), []string{"umount target"})
	for range 3 {
		l.must(l.host.Unstage(t.Context(), "v1", l.at("staging")))
	}
	if count := strings.Count(strings.Join(l.did(), "\n"), "multipath -f"); count != 1 {
		t.Errorf("the map was removed %d times", count)
	}
}

func TestNothingIsFormattedThatMayHaveData(t *testing.T) {
	found := func(lines string) Result { return Result{Out: lines} }
	for name, change := range map[string]func(l *lab, volume *csi.Staged){
		"another file system": func(l *lab, volume *csi.Staged) {
			l.blkid, volume.Access.FileSystem = found("TYPE=ext4\n"), "xfs"
		},
		"a physical volume":     func(l *lab, _ *csi.Staged) { l.blkid = found("TYPE=LVM2_member\n") },
		"a partition table":     func(l *lab, _ *csi.Staged) { l.blkid = found("PTUUID=1\nPTTYPE=gpt\n") },
		"ambivalent signatures": func(l *lab, _ *csi.Staged) { l.blkid = Result{Code: 8, Said: "ambivalent"} },
		"an output of nothing":  func(l *lab, _ *csi.Staged) { l.blkid = found("DEVNAME=x\n") },
		"a read-only volume":    func(_ *lab, volume *csi.Staged) { volume.Device.ReadOnly = true },
		"a reader":              func(_ *lab, volume *csi.Staged) { volume.Access.ReadOnly = true },
		"a clone with data":     func(_ *lab, volume *csi.Staged) { volume.Device.Written, volume.Clone = true, true },
		"data without a signature": func(l *lab, volume *csi.Staged) {
			volume.Device.Written = true
			volume.StagingPath = l.at("s")
			l.multipathd = false
			l.put("dev/sd3", strings.Repeat("\x00", 4000)+"data")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			volume := l.staged()
			change(l, &volume)
			if name == "data without a signature" {
				// The disk is there before, so that its contents stay.
				l.session(portalA)
				l.session(portalB)
				l.disk(1, 1)
				l.put("dev/sd3", strings.Repeat("\x00", 4000)+"data")
			}
			if err := l.host.Stage(t.Context(), volume); !errors.Is(err, csi.ErrPrecondition) {
				t.Errorf("it says %v", err)
			}
			l.never("mkfs", "mount", "e2fsck", "wipefs")
		})
	}
}

func TestAnInterruptedMkfsIsRepeated(t *testing.T) {
	l := newLab(t)
	volume := l.staged()
	volume.Device.Written = true
	l.must(l.host.Stage(t.Context(), volume))
	if !slices.Contains(l.log, "mkfs.ext4 -q -m 0 dm-4") {
		t.Error(l.log)
	}
}

func TestAFileSystemIsCheckedAndNotMountedWithErrors(t *testing.T) {
	l := newLab(t)
	l.blkid = Result{Out: "TYPE=ext4\n"}
	l.results["e2fsck"] = Result{Code: 4, Said: "UNEXPECTED INCONSISTENCY"}
	err := l.host.Stage(t.Context(), l.staged())
	if !errors.Is(err, csi.ErrPrecondition) || !strings.Contains(err.Error(), "UNEXPECTED INCONSISTENCY") {
		t.Error(err)
	}
	l.never("mount", "mkfs")
	// What fsck repaired by itself is fine.
	l.results["e2fsck"] = Result{Code: codeErrorsCorrected}
	l.must(l.host.Stage(t.Context(), l.staged()))
}

func TestOptionsOfMounts(t *testing.T) {
	for _, row := range []struct {
		kind   string
		change func(*csi.Staged)
		want   string
	}{
		{ext4, func(*csi.Staged) {}, "defaults"},
		{ext4, func(v *csi.Staged) { v.Access.Options = []string{"noatime", "discard"} }, "noatime,discard"},
		{ext4, func(v *csi.Staged) { v.Device.ReadOnly = true }, "ro,noload"},
		{ext4, func(v *csi.Staged) { v.Access.ReadOnly = true }, "ro"},
		{xfs, func(*csi.Staged) {}, "nouuid"},
		{xfs, func(v *csi.Staged) { v.Device.ReadOnly = true }, "ro,norecovery,nouuid"},
	} {
		var volume csi.Staged
		row.change(&volume)
		if got := strings.Join(mountOptions(row.kind, volume), ","); got != row.want {
			t.Errorf("%s: %s, want %s", row.kind, got, row.want)
		}
	}
}

func TestADiskOfAnotherVolumeIsNeitherUsedNorRemoved(t *testing.T) {
	l := newLab(t)
	l.luns[1] = lun{otherNAA, gib}
	err := l.host.Stage(t.Context(), l.staged())
	if !errors.Is(err, csi.ErrPrecondition) || !strings.Contains(err.Error(), otherNAA) {
		t.Error(err)
	}
	l.never("mkfs", "mount", "delete", "multipath -f")
	l.must(l.host.Unstage(t.Context(), "v1", l.at("staging")))
	l.never("delete", "multipath -f", "--logout", "flushbufs")
}

func TestALunThatWasGivenToAnotherVolumeIsNotRemoved(t *testing.T) {
	l := newLab(t)
	l.must(l.host.Stage(t.Context(), l.staged()))
	l.did()
	// By the time of Unstage the first path shows another volume.
	disks, _ := filepath.Glob(l.at("sys/devices/platform/host1/session1/target*/*:1"))
	l.put(strings.TrimPrefix(disks[0], l.root+"/")+"/wwid", "naa."+otherNAA)
	l.must(l.host.Unstage(t.Context(), "v1", l.at("staging")))
	l.never("host1/session1/target1:0:0/1:0:0:1/delete")
	if !slices.Contains(l.log, "echo 1 > devices/platform/host2/session2/target2:0:0/2:0:0:1/delete") {
		t.Error(l.log)
	}
}

func TestADeviceInUseIsNotRemoved(t *testing.T) {
	l := newLab(t)
	l.must(l.host.Stage(t.Context(), l.staged()))
	l.did()
	l.put("sys/block/dm-4/holders/dm-9/dev", "253:9")
	if err := l.host.Unstage(t.Context(), "v1", l.at("staging")); !errors.Is(err, csi.ErrPrecondition) || !strings.Contains(err.Error(), "dm-9") {
		t.Error(err)
	}
	l.never("multipath -f", "delete", "--logout")
}

func TestAPublishedVolumeIsNotUnstaged(t *testing.T) {
	l := newLab(t)
	l.must(l.host.Stage(t.Context(), l.staged()))
	l.must(l.host.Publish(t.Context(), l.published()))
	l.did()
	if err := l.host.Unstage(t.Context(), "v1", l.at("staging")); !errors.Is(err, csi.ErrPrecondition) {
		t.Error(err)
	}
	l.never("umount", "multipath -f", "delete")
}

func TestAPortalThatIsDownIsTolerated(t *testing.T) {
	l := newLab(t)
	l.down = []string{portalA}
	l.must(l.host.Stage(t.Context(), l.staged()))
	l = newLab(t)
	l.down = []string{portalA, portalB}
	if err := l.host.Stage(t.Context(), l.staged()); err == nil || !strings.Contains(err.Error(), portalB) {
		t.Error(err)
	}
}

func TestSessionsOfOthersAndOfOtherVolumesStay(t *testing.T) {
	l := newLab(t)
	// An administrator has logged in to one portal.
	l.session(portalA)
	l.must(l.host.Stage(t.Context(), l.staged()))
	if slices.Contains(l.did(), loginOf(portalA)[4]) {
		t.Error("it logs in twice")
	}
	// Another volume is on the other session.
	l.luns[2] = lun{otherNAA, gib}
	l.disk(2, 2)
	l.must(l.host.Unstage(t.Context(), "v1", l.at("staging")))
	l.never("--logout")
}

func TestWithoutMultipathdOnePathIsUsed(t *testing.T) {
	l := newLab(t)
	l.multipathd = false
	l.must(l.host.Stage(t.Context(), l.staged()))
	if !slices.Contains(l.did(), "mkfs.ext4 -q -m 0 sd3") {
		t.Error("not the first path")
	}
	l = newLab(t)
	l.multipathd = false
	l.host.config.Multipath = MultipathRequired
	if err := l.host.Stage(t.Context(), l.staged()); !errors.Is(err, csi.ErrPrecondition) {
		t.Error(err)
	}
}

func TestAMapIsAskedForWhereMultipathdMakesNone(t *testing.T) {
	l := newLab(t)
	l.autoMap = false
	l.must(l.host.Stage(t.Context(), l.staged()))
	if did := l.did(); !slices.Contains(did, "multipath -a sd3") || !slices.Contains(did, "multipathd add path sd3") {
		t.Error(did)
	}
	l = newLab(t)
	l.autoMap = false
	l.results["multipathd add path"] = Result{Out: "blacklisted"}
	if err := l.host.Stage(t.Context(), l.staged()); !errors.Is(err, csi.ErrPrecondition) {
		t.Error(err)
	}
	l.never("mkfs", "mount")
}

func TestADiskThatIsTooSmallIsNotUsed(t *testing.T) {
	l := newLab(t)
	volume := l.staged()
	volume.Device.Bytes = 2 * gib
	if err := l.host.Stage(t.Context(), volume); err == nil || !strings.Contains(err.Error(), "should have") {
		t.Error(err)
	}
	l.never("mkfs", "mount")
}

func TestChapIsSetAndItsSecretsAreNotShown(t *testing.T) {
	l := newLab(t)
	volume := l.staged()
	volume.CHAP = csi.CHAP{User: "alice", Secret: "alice-secret-1", MutualUser: "array", MutualSecret: "array-secret-1"}
	l.must(l.host.Stage(t.Context(), volume))
	if !slices.Contains(l.log, "iscsiadm -m node -T "+target+" -p "+portalA+" -o update -n node.session.auth.authmethod -v CHAP") {
		t.Error("no CHAP")
	}
	want := "# BEGIN RECORD 2.1.9\nnode.name = " + target + "\nnode.session.auth.username = alice\n" +
		"node.session.auth.password = alice-secret-1\nnode.session.auth.username_in = array\n" +
		"node.session.auth.password_in = array-secret-1\n# END RECORD\n"
	for _, portal := range []string{"10.0.0.1,3260,1", "10.0.1.1,3260,1"} {
		file := l.at("etc/iscsi/nodes", target, portal, "default")
		info, err := os.Stat(file)
		l.must(err)
		if text, err := os.ReadFile(file); err != nil || string(text) != want || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %s", portal, info.Mode(), text)
		}
	}
	if left, err := filepath.Glob(l.at("etc/iscsi/.ashlar-*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	// Arguments are shown to every process of the host.
	for _, line := range l.log {
		if strings.Contains(line, "secret-1") {
			t.Error(line)
		}
	}
	l = newLab(t)
	l.database = "var/lib/iscsi"
	l.must(l.host.Stage(t.Context(), volume))
	l = newLab(t)
	l.database = "elsewhere"
	if err := l.host.Stage(t.Context(), volume); !errors.Is(err, csi.ErrPrecondition) || strings.Contains(err.Error(), "secret-1") {
		t.Error(err)
	}
	for _, wrong := range []string{"two\nlines-of-a-secret", " blank-at-the-end ", ""} {
		l, volume := newLab(t), volume
		volume.CHAP.Secret = wrong
		if err := l.host.Stage(t.Context(), volume); !errors.Is(err, csi.ErrPrecondition) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	l = newLab(t)
	l.results["--login"] = Result{Code: codeNoAccess, Said: "authorization failure"}
	if err := l.host.Stage(t.Context(), volume); err == nil || !strings.Contains(err.Error(), "CHAP secrets") {
		t.Error(err)
	}
}

func TestABlockDeviceIsPublishedAsAFile(t *testing.T) {
	l := newLab(t)
	volume, published := l.staged(), l.published()
	volume.Access.Block, published.Access.Block = true, true
	l.must(l.host.Stage(t.Context(), volume))
	l.never("blkid", "mkfs", "mount")
	l.did()
	l.must(l.host.Publish(t.Context(), published))
	same(t, l.did(), []string{"mount --bind dm-4 target"})
	stats, err := l.host.Stats(t.Context(), "v1", l.at("target"))
	l.must(err)
	if !stats.Block || stats.Bytes != gib {
		t.Error(stats)
	}
	l.luns[1] = lun{volumeNAA, 3 * gib}
	bytes, err := l.host.Expand(t.Context(), "v1", l.at("target"), 3*gib)
	l.must(err)
	if bytes != 3*gib {
		t.Error(bytes)
	}
	l.never("resize2fs", "xfs_growfs")
}

func TestPublishingKeepsToTheAccessMode(t *testing.T) {
	l := newLab(t)
	l.must(l.host.Stage(t.Context(), l.staged()))
	published := l.published()
	published.Access = csi.Access{OneWriter: true, ReadOnly: true}
	l.did()
	l.must(l.host.Publish(t.Context(), published))
	same(t, l.did(), []string{"mount --bind staging target", "mount -o remount,bind,ro target"})
	published.Target = l.at("second")
	if err := l.host.Publish(t.Context(), published); !errors.Is(err, csi.ErrPrecondition) {
		t.Error(err)
	}
}

func TestAReadOnlyMountThatFailsIsTakenBack(t *testing.T) {
	l := newLab(t)
	l.must(l.host.Stage(t.Context(), l.staged()))
	l.results["remount"] = Result{Code: 32}
	published := l.published()
	published.Access.ReadOnly = true
	if err := l.host.Publish(t.Context(), published); err == nil {
		t.Error("it was published")
	}
	if at, err := l.host.mountsAt(l.at("target")); err != nil || len(at) > 0 {
		t.Error("it stays mounted", err)
	}
}

func TestAFolderWithFilesIsNotRemoved(t *testing.T) {
	l := newLab(t)
	l.put("target/file", "foreign")
	if err := l.host.Unpublish(t.Context(), "v1", l.at("target")); err == nil {
		t.Error("it was removed")
	}
	if text(l.at("target/file")) == "" {
		t.Error("the file is gone")
	}
}

func TestWhatAFileSystemDoesNotUseIsUnmapped(t *testing.T) {
	l := newLab(t)
	if err := l.host.Trim(t.Context(), "v1", l.at("staging")); !errors.Is(err, csi.ErrNotFound) {
		t.Error(err)
	}
	l.must(l.host.Stage(t.Context(), l.staged()))
	l.must(l.host.Publish(t.Context(), l.published()))
	l.did()
	for _, path := range []string{"staging", "target"} {
		l.must(l.host.Trim(t.Context(), "v1", l.at(path)))
		same(t, l.did(), []string{"fstrim staging"})
	}
	if err := l.host.Trim(t.Context(), "v1", l.at("elsewhere")); !errors.Is(err, csi.ErrNotFound) {
		t.Error(err)
	}
	l.results["fstrim"] = Result{Code: 1, Said: "fstrim: staging: the discard operation is not supported"}
	if err := l.host.Trim(t.Context(), "v1", l.at("staging")); !errors.Is(err, csi.ErrUnsupported) {
		t.Error(err)
	}
	l.results["fstrim"] = Result{Code: 1, Said: "fstrim: staging: FITRIM ioctl failed: Input/output error"}
	if err := l.host.Trim(t.Context(), "v1", l.at("staging")); err == nil || errors.Is(err, csi.ErrUnsupported) {
		t.Error(err)
	}
}

func TestABlockDeviceAndAReaderAreNotTrimmed(t *testing.T) {
	for name, change := range map[string]func(*csi.Staged){
		"block": func(volume *csi.Staged) { volume.Access.Block = true },
		// A clone has a file system already: none is made on what is read-only.
		"reader": func(volume *csi.Staged) { volume.Device.ReadOnly = true },
	} {
		l := newLab(t)
		l.blkid = Result{Out: "TYPE=ext4\n"}
		volume := l.staged()
		change(&volume)
		l.must(l.host.Stage(t.Context(), volume))
		if err := l.host.Trim(t.Context(), "v1", l.at("staging")); !errors.Is(err, csi.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
		l.never("fstrim")
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	l := newLab(t)
	for name, call := range map[string]func() error{
		"publish": func() error { return l.host.Publish(t.Context(), l.published()) },
		"stats":   func() error { _, err := l.host.Stats(t.Context(), "v1", "/some/path"); return err },
		"expand":  func() error { _, err := l.host.Expand(t.Context(), "../v1", "/some/path", 1); return err },
	} {
		if err := call(); !errors.Is(err, csi.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Unstage of what was never staged has nothing to do.
	l.must(l.host.Unstage(t.Context(), "v1", l.at("staging")))
	l.never("iscsiadm", "multipath")
}

func TestADriverThatWasEndedWhileStagingGoesOn(t *testing.T) {
	l := newLab(t)
	l.results["mount"] = Result{Code: 32, Said: "killed"}
	if err := l.host.Stage(t.Context(), l.staged()); err == nil {
		t.Fatal("it was mounted")
	}
	// A new process on the same host.
	delete(l.results, "mount")
	again, err := New(l.host.config)
	l.must(err)
	l.did()
	l.must(again.Unstage(t.Context(), "v1", l.at("staging")))
	if did := l.did(); !slices.Contains(did, "multipath -f 3"+volumeNAA) || !strings.Contains(strings.Join(did, "\n"), "--logout") {
		t.Error(did)
	}
}

func TestTheInitiatorIsRead(t *testing.T) {
	l := newLab(t)
	id, err := l.host.Identity(t.Context())
	l.must(err)
	if id.String() != "node-1;iqn.2001-04.org.example:node-1" {
		t.Error(id)
	}
}
