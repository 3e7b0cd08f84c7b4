package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ashlar/integrations/csi"
)

// Record is what was, or may have been, done for a volume on this host.
type Record struct {
	Volume      string     `json:"volume"`
	Device      csi.Device `json:"device"`
	StagingPath string     `json:"staging_path"`
	Block       bool       `json:"block"`
	// Targets are the paths at which it is published.
	Targets []string `json:"targets"`
}

func (r *Record) add(target string) bool {
	if slices.Contains(r.Targets, target) {
		return false
	}
	r.Targets = append(r.Targets, target)
	return true
}

func (r *Record) remove(target string) bool {
	at := slices.Index(r.Targets, target)
	if at < 0 {
		return false
	}
	r.Targets = slices.Delete(r.Targets, at, at+1)
	return true
}

// file is where the record of a volume is. A volume's id comes from outside: it must be a plain name.
func (h *Host) file(volume string) (string, error) {
	if volume == "" || strings.ContainsAny(volume, "/\\") || strings.HasPrefix(volume, ".") {
		return "", notFound("there is no volume %q", volume)
	}
	return filepath.Join(h.config.State, volume+".json"), nil
}

// load returns nil if there is no record.
func (h *Host) load(volume string) (*Record, error) {
	path, err := h.file(volume)
	if err != nil {
		return nil, err
	}
	h.records.Lock()
	defer h.records.Unlock()
	return read[Record](path)
}

func read[T any](path string) (*T, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found := new(T)
	if err := json.Unmarshal(text, found); err != nil {
		return nil, fmt.Errorf("%s can't be read: %w", path, err)
	}
	return found, nil
}

func (h *Host) save(record *Record) error {
	path, err := h.file(record.Volume)
	if err != nil {
		return err
	}
	h.records.Lock()
	defer h.records.Unlock()
	return write(path, record)
}

// write replaces a file as a whole.
func write(path string, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if _, err := file.Write(text); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

func (h *Host) forget(volume string) error {
	path, err := h.file(volume)
	if err != nil {
		return err
	}
	h.records.Lock()
	defer h.records.Unlock()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Logins are the sessions that the driver began, as `target portal`. Others are not its to end.
type Logins struct {
	Sessions []string `json:"sessions"`
}

// loginsFile is no volume's: ids of volumes do not begin with a dot.
const loginsFile = ".logins.json"

// changeLogins reads, changes and writes the list of sessions that are the driver's.
func (h *Host) changeLogins(change func(sessions []string) []string) error {
	h.records.Lock()
	defer h.records.Unlock()
	path := filepath.Join(h.config.State, loginsFile)
	logins, err := read[Logins](path)
	if err != nil {
		return err
	}
	if logins == nil {
		logins = &Logins{}
	}
	logins.Sessions = change(logins.Sessions)
	return write(path, logins)
}
