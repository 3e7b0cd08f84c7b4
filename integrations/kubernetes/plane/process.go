package plane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Names of variables: the folder of the Kubernetes programs, the CSI driver, and Helm.
const (
	ProgramsVariable = "PLANE"
	DriverVariable   = "ASHLAR_CSI"
	HelmVariable     = "HELM"
)

const (
	// patience is how long a condition is waited for. It bounds a test that fails; one that passes ends earlier.
	patience = 3 * time.Minute
	// tick is the time between two looks at a condition.
	tick = 200 * time.Millisecond
	// stopPatience is how long a program may take to end in good order.
	stopPatience = 20 * time.Second
	// shownLines of a log are shown after a failure.
	shownLines = 40
)

// process is a program that runs until the test ends.
type process struct {
	name, log string
	command   *exec.Cmd
	ended     chan struct{}
	wanted    atomic.Bool
}

// launch starts a program whose output goes to a file of the folder. It ends with the test, also if the test is killed.
// That it ends earlier by itself fails the test.
func launch(t testing.TB, folder, name, program string, environment []string, words ...string) *process {
	t.Helper()
	log, err := os.Create(filepath.Join(folder, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	started := &process{name: name, log: log.Name(), command: exec.Command(program, words...), ended: make(chan struct{})}
	started.command.Stdout, started.command.Stderr = log, log
	started.command.Env = append(os.Environ(), environment...)
	started.command.Dir = folder
	started.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := started.command.Start(); err != nil {
		t.Fatalf("%s can't be started: %v", name, err)
	}
	go func() {
		_ = started.command.Wait()
		close(started.ended)
	}()
	t.Cleanup(func() {
		early := started.over() && !started.wanted.Load()
		// What it says when the others have gone is no reason of anything.
		said := started.tail()
		started.stop()
		if early {
			t.Errorf("%s ended by itself: %v", name, started.command.ProcessState)
		}
		if t.Failed() {
			t.Logf("%s said last:\n%s", name, said)
		}
	})
	return started
}

func (p *process) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop ends it in good order, or kills it.
func (p *process) stop() {
	p.wanted.Store(true)
	_ = p.command.Process.Signal(syscall.SIGTERM)
	stuck := time.AfterFunc(stopPatience, func() { _ = p.command.Process.Kill() })
	defer stuck.Stop()
	<-p.ended
}

// kill ends it at once.
func (p *process) kill() {
	p.wanted.Store(true)
	_ = p.command.Process.Kill()
	<-p.ended
}

// tail is the end of its log.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-shownLines):], "\n")
}

// pending is why a condition does not hold yet.
type pending string

func (p pending) Error() string { return string(p) }

// not is a condition that does not hold yet.
func not(format string, arguments ...any) error { return pending(fmt.Sprintf(format, arguments...)) }

// await waits until a condition holds. Errors of the condition are why it does not hold yet; the last one is reported.
func await(t testing.TB, what string, holds func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), tick, patience, true, func(ctx context.Context) (bool, error) {
		err := holds(ctx)
		// A look that ran out of time says nothing about the condition.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("not within the time: %s: %v", what, last)
	}
}

// program returns the path of a Kubernetes program.
func program(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(needed(t, ProgramsVariable), name)
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// needed returns the value of a variable; the test is skipped without it.
func needed(t testing.TB, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Skipf("%s is not set: `cargo xtask integrations plane` does", name)
	}
	return value
}
