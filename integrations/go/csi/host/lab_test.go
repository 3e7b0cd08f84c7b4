package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ashlar/integrations/csi"
)

const (
	target    = "iqn.2026-11.io.ashlar:3b498b8705f3f02c"
	portalA   = "10.0.0.1:3260"
	portalB   = "10.0.1.1:3260"
	volumeNAA = "64ca2f4efa1c11d0aabbccddeeff0011"
	otherNAA  = "64ca2f4efa1c11d0aabbccddeeff0022"
	gib       = 1 << 30
)

// lun is what the array presents at a number.
type lun struct {
	naa   string
	bytes int64
}

// lab plays the kernel and the programs of a host: sysfs is a folder, and what is run and written is recorded.
type lab struct {
	t    *testing.T
	root string
	host *Host
	log  []string

	luns       map[int]lun
	multipathd bool
	// autoMap: multipathd makes maps without being asked.
	autoMap bool
	// results of programs that do not succeed, by a part of the command.
	results map[string]Result
	// database is the folder of open-iscsi's records.
	database string
	// down are portals that can't be reached.
	down  []string
	blkid Result
	next  int
}

func newLab(t *testing.T) *lab {
	l := &lab{
		t: t, root: t.TempDir(), multipathd: true, autoMap: true, database: "etc/iscsi",
		luns: map[int]lun{1: {volumeNAA, gib}}, results: map[string]Result{}, blkid: Result{Code: codeNothingFound},
	}
	l.put("etc/iscsi/initiatorname.iscsi", "## comment\nInitiatorName=iqn.2001-04.org.example:Node-1\n")
	l.put("proc/1/mountinfo", "22 1 8:1 / / rw - ext4 /dev/root rw\n")
	var err error
	l.host, err = New(Config{
		Name: "node-1", State: filepath.Join(l.root, "state"), Root: l.root, Multipath: MultipathAuto,
		Run: l.run, Write: l.write, Patience: 50 * time.Millisecond, Tick: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) at(parts ...string) string { return filepath.Join(append([]string{l.root}, parts...)...) }

func (l *lab) put(path, text string) {
	l.t.Helper()
	whole := l.at(path)
	if err := os.MkdirAll(filepath.Dir(whole), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(whole, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) link(to, path string) {
	l.t.Helper()
	_ = os.Remove(l.at(path))
	if err := os.MkdirAll(filepath.Dir(l.at(path)), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Symlink(to, l.at(path)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) number() int { l.next++; return l.next }

// session makes one as a log-in does.
func (l *lab) session(portal string) {
	n := l.number()
	address, port, _ := strings.Cut(portal, ":")
	class := fmt.Sprintf("sys/class/iscsi_session/session%d", n)
	l.put(class+"/targetname", target+"\n")
	l.put(class+"/state", "LOGGED_IN\n")
	device := fmt.Sprintf("sys/devices/platform/host%d/session%d", n, n)
	l.put(device+"/uevent", "")
	l.link(l.at(device), class+"/device")
	connection := fmt.Sprintf("sys/class/iscsi_connection/connection%d:0", n)
	l.put(connection+"/persistent_address", address)
	l.put(connection+"/persistent_port", port)
	l.put(fmt.Sprintf("sys/class/scsi_host/host%d/scan", n), "")
}

// disk makes the disk of a LUN by a session, as a scan does.
func (l *lab) disk(host, number int) {
	found, mapped := l.luns[number]
	scsi := fmt.Sprintf("sys/devices/platform/host%d/session%d/target%d:0:0/%d:0:0:%d", host, host, host, host, number)
	if _, err := os.Stat(l.at(scsi)); !mapped || err == nil {
		return
	}
	n := l.number()
	name := "sd" + strconv.Itoa(n)
	// As the kernel writes it.
	l.put(scsi+"/wwid", "naa."+strings.ToUpper(found.naa)+"\x00\x00\x00\x00\n")
	l.put(scsi+"/block/"+name+"/size", strconv.FormatInt(found.bytes/sectorBytes, 10)+"\n")
	l.put(scsi+"/block/"+name+"/dev", fmt.Sprintf("8:%d\n", n))
	l.link(l.at(scsi, "block", name), "sys/class/block/"+name)
	l.put("dev/"+name, strings.Repeat("\x00", 4096))
	if l.multipathd && l.autoMap {
		l.join(found, name)
	}
}

// join adds a path to the map of its WWID.
func (l *lab) join(of lun, name string) {
	folder := ""
	maps, _ := filepath.Glob(l.at("sys/block/dm-*"))
	for _, it := range maps {
		if text(it, "dm", "uuid") == "mpath-3"+of.naa {
			folder = strings.TrimPrefix(it, l.root+"/")
		}
	}
	if folder == "" {
		n := l.number()
		folder = fmt.Sprintf("sys/block/dm-%d", n)
		l.put(folder+"/dm/uuid", "mpath-3"+of.naa+"\n")
		l.put(folder+"/dm/name", fmt.Sprintf("mpath%d\n", n))
		l.put(folder+"/size", strconv.FormatInt(of.bytes/sectorBytes, 10))
		l.put(folder+"/dev", fmt.Sprintf("253:%d\n", n))
		l.link(l.at(folder), "sys/class/block/"+filepath.Base(folder))
		l.put("dev/"+filepath.Base(folder), strings.Repeat("\x00", 4096))
	}
	l.put(folder+"/slaves/"+name+"/dev", "8:0")
}

func (l *lab) write(path, what string) error {
	short := strings.TrimPrefix(path, l.root+"/sys/")
	l.log = append(l.log, fmt.Sprintf("echo %s > %s", what, short))
	folder := filepath.Dir(path)
	switch filepath.Base(path) {
	case "scan":
		host, _ := strconv.Atoi(strings.TrimPrefix(filepath.Base(folder), "host"))
		number, _ := strconv.Atoi(strings.TrimPrefix(what, "0 0 "))
		l.disk(host, number)
	case "rescan":
		disks, _ := filepath.Glob(filepath.Join(folder, "block", "*"))
		number, _ := strconv.Atoi(folder[strings.LastIndex(folder, ":")+1:])
		l.put(strings.TrimPrefix(disks[0], l.root+"/")+"/size", strconv.FormatInt(l.luns[number].bytes/sectorBytes, 10))
	case "delete":
		return os.RemoveAll(folder)
	}
	return nil
}

func (l *lab) run(_ context.Context, program string, arguments ...string) Result {
	line := program + " " + strings.Join(arguments, " ")
	for _, place := range []string{l.root + "/dev/", l.root + "/"} {
		line = strings.ReplaceAll(line, place, "")
	}
	l.log = append(l.log, line)
	for part, result := range l.results {
		if strings.Contains(line, part) {
			return result
		}
	}
	last := arguments[len(arguments)-1]
	switch {
	case program == "iscsiadm" && last == "--login":
		portal := arguments[5]
		if slices.Contains(l.down, portal) {
			return Result{Code: 8, Said: "connection timed out"}
		}
		l.session(portal)
	case program == "iscsiadm" && last == "new":
		address, port, _ := strings.Cut(arguments[5], ":")
		l.put(filepath.Join(l.database, "nodes", target, address+","+port+",1", "default"),
			"# BEGIN RECORD 2.1.9\nnode.name = "+target+"\nnode.session.auth.password = old\n# END RECORD\n")
	case program == "iscsiadm" && last == "--logout":
		l.end(arguments[5])
	case line == "multipathd show daemon" && !l.multipathd:
		return Result{Code: 1}
	case strings.HasPrefix(line, "multipathd add path"):
		for _, it := range l.luns {
			l.join(it, last)
		}
	case strings.HasPrefix(line, "multipathd resize map"):
		for _, it := range l.luns {
			if folder := l.host.mapOf(csi.Device{NAA: it.naa}); folder != "" {
				l.put(strings.TrimPrefix(folder, l.root+"/")+"/size", strconv.FormatInt(it.bytes/sectorBytes, 10))
			}
		}
	case strings.HasPrefix(line, "multipath -f"):
		_ = os.RemoveAll(l.host.mapOf(csi.Device{NAA: last[1:]}))
	case program == "blkid":
		return l.blkid
	case strings.HasPrefix(program, "mkfs."):
		l.blkid = Result{Out: "DEVNAME=/dev/x\nTYPE=" + strings.TrimPrefix(program, "mkfs.") + "\nUSAGE=filesystem\n"}
	case program == "mount" && !strings.Contains(line, "remount"):
		l.mount(arguments[len(arguments)-2], last)
	case program == "umount":
		l.unmount(last)
	}
	return Result{}
}

func (l *lab) mount(source, at string) {
	device := text(l.at("sys/class/block", filepath.Base(source)), "dev")
	if device == "" {
		for _, line := range strings.Split(text(l.at("proc/1/mountinfo")), "\n") {
			if fields := strings.Fields(line); fields[4] == source {
				device = fields[2]
			}
		}
	}
	line := fmt.Sprintf("%d 22 %s / %s rw - ext4 %s rw\n", 100+l.number(), device, at, source)
	l.put("proc/1/mountinfo", text(l.at("proc/1/mountinfo"))+"\n"+line)
}

func (l *lab) unmount(at string) {
	lines := strings.Split(text(l.at("proc/1/mountinfo")), "\n")
	for n := len(lines) - 1; n >= 0; n-- {
		if strings.Fields(lines[n])[4] == at {
			lines = slices.Delete(lines, n, n+1)
			break
		}
	}
	l.put("proc/1/mountinfo", strings.Join(lines, "\n")+"\n")
}

func (l *lab) end(portal string) {
	sessions, _ := l.host.sessionsOf(target)
	for _, it := range sessions {
		if it.portal == portal {
			number := strings.TrimPrefix(filepath.Base(it.device), "session")
			_ = os.RemoveAll(l.at("sys/class/iscsi_session/session" + number))
			_ = os.RemoveAll(filepath.Dir(it.device))
		}
	}
}

// staged is the request for the volume at LUN 1.
func (l *lab) staged() csi.Staged {
	return csi.Staged{
		Volume: "v1", StagingPath: l.at("staging"),
		Device: csi.Device{NAA: volumeNAA, Target: target, Portals: []string{portalA, portalB}, LUN: 1, Bytes: gib},
	}
}

func (l *lab) published() csi.Published {
	return csi.Published{Volume: "v1", StagingPath: l.at("staging"), Target: l.at("target")}
}

// did returns what was recorded since the last call.
func (l *lab) did() []string {
	did := l.log
	l.log = nil
	return did
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%v after\n%s", err, strings.Join(l.log, "\n"))
	}
}

// never fails if something of this kind was run or written.
func (l *lab) never(parts ...string) {
	l.t.Helper()
	for _, line := range l.log {
		for _, part := range parts {
			if strings.Contains(line, part) {
				l.t.Errorf("it did: %s", line)
			}
		}
	}
}
