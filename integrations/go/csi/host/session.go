package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ashlar/integrations/csi"
)

// Exit codes of iscsiadm (8): ISCSI_ERR_SESS_EXISTS, ISCSI_ERR_LOGIN_AUTH_FAILED, ISCSI_ERR_NO_OBJS_FOUND.
const (
	codeSessionExists = 15
	codeNoAccess      = 24
	codeNoObjects     = 21
)

// Settings of the node records that the driver makes.
const (
	// A path that lost its connection reports errors to multipath after this many seconds.
	timeoutMultipath = "15"
	// Without multipath, I/O waits through a restart of the array.
	timeoutSingle = "120"
)

// session is a logged-in iSCSI session, as sysfs has it.
type session struct {
	portal string
	// device is the folder of the session's devices; scanner is the file that scans the SCSI host.
	device, scanner string
}

// sessionsOf returns the sessions of a target that are logged in.
func (h *Host) sessionsOf(target string) ([]session, error) {
	folders, err := filepath.Glob(h.path("sys/class/iscsi_session/session*"))
	if err != nil {
		return nil, err
	}
	var found []session
	for _, folder := range folders {
		if text(folder, "targetname") != target || text(folder, "state") != "LOGGED_IN" {
			continue
		}
		// …/hostN/sessionM
		device, err := filepath.EvalSymlinks(filepath.Join(folder, "device"))
		if err != nil {
			continue
		}
		number := strings.TrimPrefix(filepath.Base(folder), "session")
		connection := h.path("sys/class/iscsi_connection/connection" + number + ":0")
		found = append(found, session{
			portal:  net.JoinHostPort(text(connection, "persistent_address"), text(connection, "persistent_port")),
			device:  device,
			scanner: h.path("sys/class/scsi_host", filepath.Base(filepath.Dir(device)), "scan"),
		})
	}
	return found, nil
}

// text reads a file of sysfs; empty if there is none.
func text(parts ...string) string {
	read, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(read))
}

// scan makes the kernel look for one LUN.
func (h *Host) scan(session session, lun int) error {
	if err := h.config.Write(session.scanner, fmt.Sprintf("0 0 %d", lun)); err != nil {
		return fmt.Errorf("LUN %d of portal %s can't be scanned: %w", lun, session.portal, err)
	}
	return nil
}

// luns returns the folders of the devices of a session.
func (s session) luns() []string {
	folders, _ := filepath.Glob(filepath.Join(s.device, "target*", "*:*:*:*"))
	return folders
}

// path returns the SCSI disk of a LUN; empty if there is none.
func (s session) path(lun int) *path {
	for _, folder := range s.luns() {
		if !strings.HasSuffix(filepath.Base(folder), ":"+strconv.Itoa(lun)) {
			continue
		}
		disks, _ := filepath.Glob(filepath.Join(folder, "block", "*"))
		if len(disks) == 1 {
			return &path{scsi: folder, block: disks[0], portal: s.portal}
		}
	}
	return nil
}

// login makes sure that there are sessions with the portals of a device. One that can't be reached is tolerated if
// another one can.
func (h *Host) login(ctx context.Context, record *Record, chap csi.CHAP) ([]session, error) {
	device := record.Device
	present, err := h.sessionsOf(device.Target)
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, portal := range device.Portals {
		if slices.ContainsFunc(present, func(it session) bool { return it.portal == portal }) {
			continue
		}
		if err := h.loginPortal(ctx, device.Target, portal, chap); err != nil {
			failures = append(failures, err)
		}
	}
	if present, err = h.sessionsOf(device.Target); err != nil {
		return nil, err
	}
	if len(present) == 0 {
		return nil, fmt.Errorf("no portal of %s can be logged in to: %w", device.Target, errors.Join(failures...))
	}
	return present, nil
}

func (h *Host) loginPortal(ctx context.Context, target, portal string, chap csi.CHAP) error {
	node := []string{"-m", "node", "-T", target, "-p", portal}
	if _, err := h.run(ctx, nil, "iscsiadm", append(node, "-o", "new")...); err != nil {
		return err
	}
	settings := [][2]string{
		// The driver, and not the host's start, logs in.
		{"node.startup", "manual"},
		{"node.session.initial_login_retry_max", "1"},
		{"node.session.timeo.replacement_timeout", timeoutSingle},
	}
	if h.config.Multipath != MultipathOff {
		settings[2][1] = timeoutMultipath
	}
	var secrets [][2]string
	if chap.User != "" {
		settings = append(settings, [2]string{"node.session.auth.authmethod", "CHAP"})
		secrets = append(secrets, [2]string{"node.session.auth.username", chap.User}, [2]string{"node.session.auth.password", chap.Secret})
	}
	if chap.MutualUser != "" {
		secrets = append(secrets, [2]string{"node.session.auth.username_in", chap.MutualUser},
			[2]string{"node.session.auth.password_in", chap.MutualSecret})
	}
	for _, setting := range settings {
		if _, err := h.run(ctx, nil, "iscsiadm", append(node, "-o", "update", "-n", setting[0], "-v", setting[1])...); err != nil {
			return err
		}
	}
	if len(secrets) > 0 {
		if err := h.setSecrets(target, portal, secrets); err != nil {
			return err
		}
	}
	own := target + " " + portal
	err := h.changeLogins(func(sessions []string) []string {
		if slices.Contains(sessions, own) {
			return sessions
		}
		return append(sessions, own)
	})
	if err != nil {
		return err
	}
	result, err := h.run(ctx, []int{codeSessionExists}, "iscsiadm", append(node, "--login")...)
	if result.Code == codeNoAccess {
		return fmt.Errorf("portal %s refuses the log-in: are the CHAP secrets of the host on the array and of the StorageClass the same? (%w)", portal, err)
	}
	return err
}

// logout ends sessions of the driver with a target that have no LUN left, and removes their node records.
func (h *Host) logout(ctx context.Context, target string) error {
	present, err := h.sessionsOf(target)
	if err != nil {
		return err
	}
	var own []string
	err = h.changeLogins(func(sessions []string) []string {
		own = slices.Clone(sessions)
		return sessions
	})
	if err != nil {
		return err
	}
	for _, session := range present {
		mark := target + " " + session.portal
		if !slices.Contains(own, mark) || len(session.luns()) > 0 {
			continue
		}
		node := []string{"-m", "node", "-T", target, "-p", session.portal}
		if _, err := h.run(ctx, []int{codeNoObjects}, "iscsiadm", append(node, "--logout")...); err != nil {
			return err
		}
		if _, err := h.run(ctx, []int{codeNoObjects}, "iscsiadm", append(node, "-o", "delete")...); err != nil {
			return err
		}
		err := h.changeLogins(func(sessions []string) []string {
			return slices.DeleteFunc(sessions, func(it string) bool { return it == mark })
		})
		if err != nil {
			return err
		}
	}
	return nil
}
