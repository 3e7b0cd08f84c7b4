// Package rig starts arrays for tests: `ashlard` with drives that are files, in a folder of the test's own.
package rig

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

// Variable names the daemon's program. Tests that need an array are skipped without it.
const Variable = "ASHLARD"

// Array is a running array.
type Array struct {
	API    *array.API
	Access array.Access
	// Target is its iSCSI name, Portals its addresses.
	Target  string
	Portals []string
	// Replication is where it listens for other arrays; empty if it does not.
	Replication string

	data    string
	listen  []string
	process *exec.Cmd
}

// Start starts an array and ends it with the test. Options of the daemon can be added.
func Start(t testing.TB, options ...string) *Array {
	t.Helper()
	program := os.Getenv(Variable)
	if program == "" {
		t.Skipf("%s does not name the daemon; `cargo xtask integrations` sets it", Variable)
	}
	// The sockets of drivers lie there too, and a socket's path has at most 108 bytes.
	data, err := os.MkdirTemp("", "ashlar-")
	if err != nil {
		t.Fatal(err)
	}
	anywhere := []string{"--iscsi", "127.0.0.1:0,127.0.0.1:0", "--api", "127.0.0.1:0"}
	running := &Array{data: data, listen: append(anywhere, options...)}
	t.Cleanup(func() {
		running.Stop()
		_ = os.RemoveAll(data)
	})
	if err := running.start(program); err != nil {
		t.Fatal(err)
	}
	return running
}

// StartPair starts two arrays, each of which has the other as a remote array: the names are `second` and `first`.
func StartPair(t testing.TB) (first, second *Array) {
	t.Helper()
	first, second = Start(t, "--replication", "127.0.0.1:0"), Start(t, "--replication", "127.0.0.1:0")
	name := "second"
	key, err := array.Decode[array.PairingKey](second.API.CreatePairingKey(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	pair := array.NewRemoteArray{Address: second.Replication, Key: key.Key, Name: nullable.NewNullableWithValue(name)}
	if _, err := array.Decode[array.RemoteArray](first.API.PairRemoteArray(t.Context(), pair)); err != nil {
		t.Fatal(err)
	}
	return first, second
}

// Kill ends the array as a loss of power does. [Array.Restart] starts it again.
func (a *Array) Kill() {
	_ = a.process.Process.Kill()
	_ = a.process.Wait()
}

// Restart starts an array that was killed or stopped, at the addresses that it had.
func (a *Array) Restart(t testing.TB) {
	t.Helper()
	api := strings.TrimPrefix(strings.TrimPrefix(a.Access.URL, "https://"), "http://")
	a.listen = []string{"--iscsi", strings.Join(a.Portals, ","), "--api", api}
	if a.Replication != "" {
		a.listen = append(a.listen, "--replication", a.Replication)
	}
	if err := a.start(os.Getenv(Variable)); err != nil {
		t.Fatal(err)
	}
}

func (a *Array) start(program string) error {
	words := []string{"--data", a.data, "--drives", "4", "--drive-size", "1GiB", "--threads", "1"}
	a.process = exec.Command(program, append(words, a.listen...)...)
	a.process.Env = append(os.Environ(), "RUST_LOG=error")
	a.process.Stderr = os.Stderr
	// An array does not outlive a test that was killed.
	a.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := a.process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := a.process.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("ashlard ended before it was ready: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	var ready struct {
		API     string   `json:"api"`
		Target  string   `json:"target_iqn"`
		Portals []string `json:"portals"`
		Arrays  string   `json:"replication"`
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		return fmt.Errorf("ashlard's first line is %q: %w", line, err)
	}
	read, err := os.ReadFile(filepath.Join(a.data, "api.json"))
	if err != nil {
		return err
	}
	var access struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(read, &access); err != nil {
		return err
	}
	a.Target, a.Portals, a.Replication = ready.Target, ready.Portals, ready.Arrays
	a.Access = array.Access{
		URL: ready.API, Token: access.Token, CAFile: filepath.Join(a.data, "tls.pem"), Program: "test",
	}
	a.API, err = array.Connect(a.Access)
	return err
}

// Stop ends the array in good order.
func (a *Array) Stop() {
	if a.process == nil || a.process.Process == nil || a.process.ProcessState != nil {
		return
	}
	_ = a.process.Process.Signal(syscall.SIGTERM)
	stuck := time.AfterFunc(time.Minute, func() { _ = a.process.Process.Kill() })
	defer stuck.Stop()
	_ = a.process.Wait()
}

// Folder is the array's data folder; tests put their own files beside it.
func (a *Array) Folder() string { return a.data }
