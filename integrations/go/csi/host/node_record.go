package host

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// databases are the folders in which open-iscsi keeps its records, by distribution.
var databases = []string{"etc/iscsi", "var/lib/iscsi"}

// recordsOf are files of open-iscsi's database with the record of a portal: one for each interface, of which `iscsiadm -o new` makes
// one named default.
func (h *Host) recordsOf(target, portal string) ([]string, error) {
	address, port, err := net.SplitHostPort(portal)
	if err != nil {
		return nil, err
	}
	var records []string
	for _, database := range databases {
		// After address and port comes the tag of the portal group, which a discovery knows and `-o new` does not.
		found, err := filepath.Glob(h.path(database, "nodes", target, address+","+port+",*"))
		if err != nil {
			return nil, err
		}
		for _, it := range found {
			info, err := os.Stat(it)
			if err != nil {
				return nil, err
			}
			if !info.IsDir() {
				records = append(records, it)
				continue
			}
			interfaces, err := os.ReadDir(it)
			if err != nil {
				return nil, err
			}
			for _, name := range interfaces {
				records = append(records, filepath.Join(it, name.Name()))
			}
		}
	}
	if len(records) == 0 {
		return nil, precondition("no record of %s at %s in /etc/iscsi/nodes or /var/lib/iscsi/nodes: the driver needs both folders of the host", target, portal)
	}
	return records, nil
}

// setSecrets writes settings into the records of a portal itself: arguments of iscsiadm can be read by every process of the host.
func (h *Host) setSecrets(target, portal string, settings [][2]string) error {
	for _, setting := range settings {
		if strings.ContainsAny(setting[1], "\r\n") || strings.TrimSpace(setting[1]) != setting[1] || setting[1] == "" {
			return precondition("%s can't be stored by open-iscsi: it is empty, or has a line end, or white space at an end", setting[0])
		}
	}
	records, err := h.recordsOf(target, portal)
	if err != nil {
		return err
	}
	for _, record := range records {
		old, err := os.ReadFile(record)
		if err != nil {
			return err
		}
		if err := replaceFile(record, withSettings(string(old), settings)); err != nil {
			return err
		}
	}
	return nil
}

// withSettings is a record with these settings, each once.
func withSettings(record string, settings [][2]string) string {
	var lines, ours []string
	for _, setting := range settings {
		ours = append(ours, setting[0]+" = "+setting[1])
	}
	isOurs := func(line string) bool {
		name, _, _ := strings.Cut(line, "=")
		for _, setting := range settings {
			if strings.TrimSpace(name) == setting[0] {
				return true
			}
		}
		return false
	}
	placed := false
	for _, line := range strings.Split(strings.TrimSuffix(record, "\n"), "\n") {
		// What follows the end of the record is not read.
		if !placed && strings.HasPrefix(line, "# END RECORD") {
			lines, placed = append(lines, ours...), true
		}
		if !isOurs(line) {
			lines = append(lines, line)
		}
	}
	if !placed {
		lines = append(lines, ours...)
	}
	return strings.Join(lines, "\n") + "\n"
}

// replaceFile replaces a record as a whole. The new one waits beside the folder of nodes, in which every file is a record.
func replaceFile(path, content string) error {
	database, _, found := strings.Cut(path, string(filepath.Separator)+"nodes"+string(filepath.Separator))
	if !found {
		return errors.New(path + " is no record of open-iscsi")
	}
	// It can be read by its owner alone.
	file, err := os.CreateTemp(database, ".ashlar-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
