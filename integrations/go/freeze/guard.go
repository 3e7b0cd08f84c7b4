package freeze

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// guarded is what a guard is started with: the first line of its standard input.
type guarded struct {
	Guests  []Guest       `json:"guests"`
	Longest time.Duration `json:"longest"`
	Again   time.Duration `json:"again"`
}

// released is the second line, if all is well. Anything else, such as the end of the input, means that the process that
// froze is gone.
const released = "released\n"

// graceful is how much longer than it should the process that froze may take before it is ended.
const graceful = 10 * time.Second

// guardPatience bounds how long a guard tries to thaw. A guest that has been destroyed since never responds.
const guardPatience = time.Hour

// Spawn returns what starts a guard: a program with words that make it call [Watch].
func Spawn(again time.Duration, program string, words ...string) func([]Guest, time.Duration) (func(), error) {
	return func(guests []Guest, longest time.Duration) (func(), error) {
		guard := exec.Command(program, words...)
		// Signals of the terminal are not for it.
		guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		guard.Stderr = os.Stderr
		input, err := guard.StdinPipe()
		if err != nil {
			return nil, err
		}
		ready, err := guard.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := guard.Start(); err != nil {
			return nil, err
		}
		err = json.NewEncoder(input).Encode(guarded{Guests: guests, Longest: longest, Again: again})
		if err == nil {
			_, err = io.ReadFull(ready, make([]byte, 1))
		}
		if err != nil {
			return nil, errors.Join(err, guard.Process.Kill(), guard.Wait())
		}
		return func() {
			_, _ = io.WriteString(input, released)
			_ = input.Close()
			_ = guard.Wait()
		}, nil
	}
}

// Watch is a guard: it waits until it is released, and thaws if the process that started it is gone, or takes so long that it
// must hang; that one is ended first, since it may have the agent's connection.
func Watch(input io.Reader, output io.Writer) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	parent := os.Getppid()
	lines := json.NewDecoder(input)
	var task guarded
	if err := lines.Decode(&task); err != nil {
		return fmt.Errorf("the guard was started without guests: %w", err)
	}
	end := make(chan bool, 1)
	go func() {
		rest, _ := io.ReadAll(io.MultiReader(lines.Buffered(), input))
		end <- len(rest) >= len(released) && string(rest[len(rest)-len(released):]) == released
	}()
	if _, err := output.Write([]byte{'\n'}); err != nil {
		return err
	}
	select {
	case well := <-end:
		if well {
			return nil
		}
	case <-time.After(task.Longest + graceful):
		_ = syscall.Kill(parent, syscall.SIGKILL)
	}
	ctx, cancel := context.WithTimeout(context.Background(), guardPatience)
	defer cancel()
	return Thaw(ctx, task.Guests, task.Again)
}
