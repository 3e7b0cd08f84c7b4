package plugin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/secret"
	"ashlar/integrations/vsphere/vcenter"
)

// Config is what the server keeps: the arrays, with their tokens sealed, and the vCenters. It has nothing of these but what is
// public, since the server acts there with the sessions of its users.
type Config struct {
	Arrays   []Entry       `json:"arrays"`
	VCenters []CenterEntry `json:"vcenters,omitempty"`
}

// CenterEntry is a vCenter.
type CenterEntry struct {
	Address string `json:"address"`
	// ID is the identifier that it had when it was added.
	ID string `json:"id"`
	// Thumbprint is the SHA-256 of the only certificate to accept; CertificateFile is used without one.
	Thumbprint      string `json:"thumbprint,omitempty"`
	CertificateFile string `json:"certificate_file,omitempty"`
	// Arrays are the names of those that its users see; none: all.
	Arrays []string `json:"arrays,omitempty"`
}

// Entry is an array.
type Entry struct {
	// Name in the pages; it need not be the array's own.
	Name string `json:"name"`
	URL  string `json:"url"`
	// Certificate is trusted besides those of the system, in PEM.
	Certificate string `json:"certificate,omitempty"`
	// Token is sealed with the key, for this name and this address: an entry that was changed can't be opened.
	Token string `json:"token"`
	// OnBehalf: the token may name the user that a request is made for, so that the array's audit log has the name.
	OnBehalf bool `json:"on_behalf,omitempty"`
}

// Key seals the tokens of arrays.
type Key [keyBytes]byte

const (
	keyBytes = 32
	// CredentialName is what the key is called among the credentials of a service of systemd.
	CredentialName = "ashlar-vsphere.key"
	// privateMode are the permissions of files with secrets.
	privateMode = 0o600
)

// ReadKey reads the key: from the file, or from the service's credentials if no file is named.
func ReadKey(file string) (Key, error) {
	var key Key
	var text []byte
	var err error
	if file != "" {
		text, err = secret.Read(file)
	} else {
		var given bool
		file = "the credential " + CredentialName
		if text, given, err = secret.Credential(CredentialName); err == nil && !given {
			return key, errors.New("no key of the configuration: --key-file, or the credential " + CredentialName + " of a service of systemd")
		}
	}
	if err != nil {
		return key, fmt.Errorf("the key of the configuration can't be read: %w", err)
	}
	made, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(made) != keyBytes {
		return key, fmt.Errorf("%s has no key: 64 hexadecimal digits", file)
	}
	copy(key[:], made)
	return key, nil
}

// EnsureKey reads the key, which is made and written if the file is not there.
func EnsureKey(file string) (Key, error) {
	if _, err := os.Stat(file); file == "" || !errors.Is(err, fs.ErrNotExist) {
		return ReadKey(file)
	}
	var key Key
	if _, err := rand.Read(key[:]); err != nil {
		return key, err
	}
	return key, write(file, []byte(hex.EncodeToString(key[:])+"\n"))
}

// write replaces a file at once, readable by its owner alone.
func write(file string, content []byte) error {
	made, err := os.CreateTemp(filepath.Dir(file), ".ashlar-vsphere-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(made.Name()) }()
	if err := made.Chmod(privateMode); err != nil {
		return err
	}
	if _, err := made.Write(content); err != nil {
		return err
	}
	if err := errors.Join(made.Sync(), made.Close()); err != nil {
		return err
	}
	return os.Rename(made.Name(), file)
}

// ReadConfig reads the configuration. A file that is not there is an empty one.
func ReadConfig(file string) (Config, error) {
	var made Config
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return made, nil
	}
	text, err := secret.Read(file)
	if err != nil {
		return made, fmt.Errorf("the configuration can't be read: %w", err)
	}
	if err := json.Unmarshal(text, &made); err != nil {
		return made, fmt.Errorf("%s is not a configuration of this program: %w", file, err)
	}
	return made, nil
}

// Write writes the configuration.
func (c Config) Write(file string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return write(file, append(text, '\n'))
}

// Add adds an array, or replaces the one with its name.
func (c *Config) Add(key Key, made Entry, token string) error {
	if made.Name == "" || strings.ContainsAny(made.Name, "/?#%") {
		return fmt.Errorf("%q is no name for an array: letters, digits, '-', '_' and '.'", made.Name)
	}
	sealed, err := key.seal(made.context(), token)
	if err != nil {
		return err
	}
	made.Token = sealed
	c.Remove(made.Name)
	c.Arrays = append(c.Arrays, made)
	slices.SortFunc(c.Arrays, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// Remove removes an array, and reports whether there was one with the name.
func (c *Config) Remove(name string) bool {
	before := len(c.Arrays)
	c.Arrays = slices.DeleteFunc(c.Arrays, func(it Entry) bool { return it.Name == name })
	return len(c.Arrays) < before
}

// ActsForUsers reports whether the token of an array may name users that it acts for.
func ActsForUsers(ctx context.Context, access array.Access) (bool, error) {
	access.OnBehalf = true
	api, err := array.Connect(access)
	if err != nil {
		return false, err
	}
	_, err = api.Check(array.OnBehalfOf(ctx, "ashlar-vsphere"))
	if array.IsKind(err, array.Forbidden) {
		return false, nil
	}
	return err == nil, err
}

// AddCenter adds a vCenter, or replaces the one with its address.
func (c *Config) AddCenter(made CenterEntry) error {
	for _, name := range made.Arrays {
		if !slices.ContainsFunc(c.Arrays, func(it Entry) bool { return it.Name == name }) {
			return fmt.Errorf("there is no array %q: `ashlar-vsphere arrays add` adds it", name)
		}
	}
	c.RemoveCenter(made.Address)
	for _, it := range c.VCenters {
		if it.ID == made.ID {
			return fmt.Errorf("vCenter %s is there as %s: remove that first", made.Address, it.Address)
		}
	}
	c.VCenters = append(c.VCenters, made)
	return nil
}

// RemoveCenter removes a vCenter, and reports whether there was one with the address.
func (c *Config) RemoveCenter(address string) bool {
	before := len(c.VCenters)
	c.VCenters = slices.DeleteFunc(c.VCenters, func(it CenterEntry) bool { return strings.EqualFold(it.Address, address) })
	return len(c.VCenters) < before
}

// Centers are the vCenters of the configuration, each with its arrays among all.
func (c *Config) Centers(all []Array) ([]Center, error) {
	var centers []Center
	for _, it := range c.VCenters {
		made := Center{Access: vcenter.Access{Address: it.Address, Thumbprint: it.Thumbprint, CAFile: it.CertificateFile}, ID: it.ID, Arrays: all}
		if it.ID == "" {
			return nil, fmt.Errorf("vCenter %s has no identifier: add it again with `ashlar-vsphere vcenters add`", it.Address)
		}
		if it.Arrays != nil {
			made.Arrays = slices.DeleteFunc(slices.Clone(all), func(one Array) bool { return !slices.Contains(it.Arrays, one.Name) })
			// An array that was removed since must not leave a vCenter with all of them, nor silently with fewer.
			if len(made.Arrays) != len(it.Arrays) {
				return nil, fmt.Errorf("vCenter %s names an array that is not configured (%s): add the array, or the vCenter again with `ashlar-vsphere vcenters add`",
					it.Address, strings.Join(it.Arrays, ", "))
			}
		}
		centers = append(centers, made)
	}
	return centers, nil
}

// context is what a sealed token is good for.
func (e Entry) context() string { return "ashlar-vsphere array\x00" + e.Name + "\x00" + e.URL }

// access opens the token.
func (e Entry) access(key Key) (array.Access, error) {
	token, err := key.open(e.context(), e.Token)
	if err != nil {
		return array.Access{}, fmt.Errorf("the token of array %s can't be opened: the key is another one, or the entry was changed; add the array again", e.Name)
	}
	return array.Access{URL: e.URL, Token: token, CA: e.Certificate, OnBehalf: e.OnBehalf, Program: "ashlar-vsphere/" + array.Version}, nil
}

func (k Key) cipher() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal encrypts a secret with AES-256-GCM for a context.
func (k Key) seal(context, secret string) (string, error) {
	sealer, err := k.cipher()
	if err != nil {
		return "", err
	}
	nonce := make([]byte, sealer.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return "", err
	}
	return hex.EncodeToString(sealer.Seal(nonce, nonce, []byte(secret), []byte(context))), nil
}

func (k Key) open(context, sealed string) (string, error) {
	opener, err := k.cipher()
	if err != nil {
		return "", err
	}
	bytes, err := hex.DecodeString(sealed)
	if err != nil || len(bytes) < opener.NonceSize() {
		return "", errors.New("no sealed secret")
	}
	secret, err := opener.Open(nil, bytes[:opener.NonceSize()], bytes[opener.NonceSize():], []byte(context))
	return string(secret), err
}
