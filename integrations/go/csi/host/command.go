package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// Result is what came of a program.
type Result struct {
	// Out is its output, Said what it wrote as errors.
	Out, Said string
	// Code is its exit code.
	Code int
	// Err is set if it was not started or did not end by itself.
	Err error
}

// Runner starts programs of the host.
type Runner func(ctx context.Context, program string, arguments ...string) Result

// reapDelay is how long a killed program's output is waited for. One in the kernel can't be killed; it must not hold up
// the call that started it.
const reapDelay = 5 * time.Second

// Programs returns a runner with further words before each program, such as those that enter the host's namespaces.
func Programs(before ...string) Runner {
	return func(ctx context.Context, program string, arguments ...string) Result {
		words := append(append(append([]string{}, before...), program), arguments...)
		command := exec.CommandContext(ctx, words[0], words[1:]...)
		command.WaitDelay = reapDelay
		var out, said bytes.Buffer
		command.Stdout, command.Stderr = &out, &said
		err := command.Run()
		result := Result{Out: out.String(), Said: strings.TrimSpace(said.String())}
		var ended *exec.ExitError
		switch {
		case errors.As(err, &ended) && ended.Exited():
			result.Code = ended.ExitCode()
		case err != nil:
			result.Err = fmt.Errorf("%s: %w", program, err)
		}
		klog.V(4).InfoS("ran", "program", program, "arguments", hidden(arguments), "code", result.Code, "err", result.Err)
		return result
	}
}

// hidden leaves out the values of settings that are secrets.
func hidden(arguments []string) []string {
	shown := append([]string{}, arguments...)
	for at := range shown {
		if at >= 2 && shown[at-1] == "-v" && strings.Contains(shown[at-2], "password") {
			shown[at] = "…"
		}
	}
	return shown
}

// run runs a program that must end with one of the codes; 0 if none is given.
func (h *Host) run(ctx context.Context, codes []int, program string, arguments ...string) (Result, error) {
	result := h.config.Run(ctx, program, arguments...)
	if result.Err != nil {
		return result, result.Err
	}
	if result.Code == 0 {
		return result, nil
	}
	for _, code := range codes {
		if result.Code == code {
			return result, nil
		}
	}
	said := result.Said
	if said == "" {
		said = strings.TrimSpace(result.Out)
	}
	return result, fmt.Errorf("%s %s ended with %d: %s", program, strings.Join(hidden(arguments), " "), result.Code, said)
}

// await looks until it sees what it looks for, its patience ends, or an error comes.
func (h *Host) await(ctx context.Context, patience time.Duration, look func() (bool, error)) (bool, error) {
	deadline := time.Now().Add(patience)
	for {
		seen, err := look()
		if seen || err != nil {
			return seen, err
		}
		if time.Now().After(deadline) {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(h.config.Tick):
		}
	}
}
