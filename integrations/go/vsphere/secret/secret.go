// Package secret reads files with passwords, tokens and keys, which only their owner may read, and the credentials that
// systemd gives to a service.
package secret

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

const (
	// publicMode are the permissions that a file with a secret must not give.
	publicMode = 0o077
	// maxBytes is the longest secret; a certificate's key is shorter.
	maxBytes = 1 << 20
)

// Read returns the content of a file that is the user's own, or root's, and that others can't read.
func Read(file string) ([]byte, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = opened.Close() }()
	// What was opened is judged: the name may mean another file by now.
	about, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	if !about.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", file)
	}
	if about.Mode().Perm()&publicMode != 0 {
		return nil, fmt.Errorf("%s can be read by others: `chmod 600` it", file)
	}
	if system, ok := about.Sys().(*syscall.Stat_t); ok && system.Uid != 0 && int(system.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to another user, who can change it: `chown` it to the user of this program", file)
	}
	read, err := io.ReadAll(io.LimitReader(opened, maxBytes+1))
	if err == nil && len(read) > maxBytes {
		err = fmt.Errorf("%s is too long for a secret", file)
	}
	return read, err
}

// Credential returns a credential of the service that this program runs as (`LoadCredential`, `LoadCredentialEncrypted`), and
// whether there is one of this name. systemd lets no other user read it.
func Credential(name string) (content []byte, given bool, err error) {
	folder := os.Getenv("CREDENTIALS_DIRECTORY")
	if folder == "" {
		return nil, false, nil
	}
	content, err = os.ReadFile(filepath.Join(folder, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	return content, err == nil, err
}
