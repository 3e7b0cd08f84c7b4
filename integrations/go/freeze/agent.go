package freeze

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Guest is a virtual machine with a QEMU guest agent.
type Guest struct {
	// Socket is the agent's Unix socket on the hypervisor, if QEMU serves it.
	Socket string `json:"socket,omitempty"`
	// Domain is the machine's name for libvirt, if that has the socket; Connect is the URI of virsh, empty: its default.
	Domain  string `json:"domain,omitempty"`
	Connect string `json:"connect,omitempty"`
}

// Name is how errors and labels call the guest.
func (g Guest) Name() string {
	if g.Domain != "" {
		return g.Domain
	}
	return g.Socket
}

// Commands of the agent.
const (
	commandInfo       = "guest-info"
	commandSync       = "guest-sync-delimited"
	commandStatus     = "guest-fsfreeze-status"
	commandFreeze     = "guest-fsfreeze-freeze"
	commandFreezeList = "guest-fsfreeze-freeze-list"
	commandThaw       = "guest-fsfreeze-thaw"
)

const (
	// delimiter comes before the response to guest-sync-delimited, and makes the agent drop half a request.
	delimiter = 0xFF
	// thawAttempt bounds one attempt to thaw.
	thawAttempt = 20 * time.Second
	// virshExtra is how much longer than the agent virsh may take.
	virshExtra = 5 * time.Second
)

// refusal is an error that the agent reported.
type refusal struct{ Class, Desc string }

func (r *refusal) Error() string { return "the guest agent refuses: " + r.Desc }

// run carries out one command. Its context's deadline bounds it; nothing that came earlier is taken for its response.
func (g Guest) run(ctx context.Context, command string, arguments any) (json.RawMessage, error) {
	if g.Domain != "" {
		return g.virsh(ctx, command, arguments)
	}
	found, err := g.socket(ctx, command, arguments)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("no response to %s within the time (%w); does qemu-guest-agent run in the guest?", command, context.Cause(ctx))
	}
	return found, err
}

func request(command string, arguments any) ([]byte, error) {
	return json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
	}{command, arguments})
}

func response(text []byte) (json.RawMessage, error) {
	var read struct {
		Return json.RawMessage `json:"return"`
		Error  *refusal        `json:"error"`
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return nil, fmt.Errorf("%q is no response of a guest agent: %w", bytes.TrimSpace(text), err)
	}
	if read.Error != nil {
		return nil, read.Error
	}
	return read.Return, nil
}

// socket speaks to the agent over a connection of its own: a command that came too late for an earlier caller must not be
// mixed up with this one, so both are brought in step first.
func (g Guest) socket(ctx context.Context, command string, arguments any) (json.RawMessage, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", g.Socket)
	if err != nil {
		return nil, fmt.Errorf("the socket of the guest agent: %w", err)
	}
	defer func() { _ = connection.Close() }()
	// A deadline in the past ends reading and writing.
	defer context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Unix(1, 0)) })()
	reader := bufio.NewReader(connection)
	if err := synchronize(connection, reader); err != nil {
		return nil, err
	}
	sent, err := request(command, arguments)
	if err != nil {
		return nil, err
	}
	if _, err := connection.Write(append(sent, '\n')); err != nil {
		return nil, err
	}
	line, err := reader.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	return response(line)
}

func synchronize(connection io.Writer, reader *bufio.Reader) error {
	id := rand.Int64N(1 << 52)
	sent, err := request(commandSync, map[string]int64{"id": id})
	if err != nil {
		return err
	}
	if _, err := connection.Write(append(append([]byte{delimiter}, sent...), '\n')); err != nil {
		return err
	}
	for {
		// What comes before the delimiter is for someone who has given up.
		if _, err := reader.ReadBytes(delimiter); err != nil {
			return err
		}
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return err
		}
		if returned, err := response(line); err == nil && string(returned) == strconv.FormatInt(id, 10) {
			return nil
		}
	}
}

// virsh lets libvirt speak to the agent.
func (g Guest) virsh(ctx context.Context, command string, arguments any) (json.RawMessage, error) {
	sent, err := request(command, arguments)
	if err != nil {
		return nil, err
	}
	var words []string
	if g.Connect != "" {
		words = append(words, "--connect", g.Connect)
	}
	words = append(words, "qemu-agent-command", g.Domain, string(sent))
	if deadline, found := ctx.Deadline(); found {
		// Not given, libvirt waits for five seconds only.
		words = append(words, "--timeout", strconv.Itoa(max(1, int(time.Until(deadline).Seconds()))))
	}
	program := exec.CommandContext(ctx, "virsh", words...)
	program.Cancel = func() error { return program.Process.Signal(os.Interrupt) }
	program.WaitDelay = virshExtra
	var said bytes.Buffer
	program.Stderr = &said
	out, err := program.Output()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return nil, fmt.Errorf("virsh: %s", strings.TrimSpace(said.String()))
	}
	if err != nil {
		return nil, fmt.Errorf("virsh: %w", err)
	}
	return response(out)
}

// ready refuses a guest that can't be frozen, or is frozen already.
func (g Guest) ready(ctx context.Context) error {
	text, err := g.run(ctx, commandInfo, nil)
	if err != nil {
		return err
	}
	var info struct {
		Commands []struct {
			Name    string `json:"name"`
			Enabled bool   `json:"enabled"`
		} `json:"supported_commands"`
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return err
	}
	enabled := map[string]bool{}
	for _, it := range info.Commands {
		enabled[it.Name] = it.Enabled
	}
	for _, needed := range []string{commandStatus, commandFreeze, commandThaw} {
		if !enabled[needed] {
			return fmt.Errorf("its agent does not offer %s: update it, or permit the command in its configuration", needed)
		}
	}
	frozen, err := g.frozen(ctx)
	if err == nil && frozen {
		err = errors.New("it is frozen already: another snapshot or backup is at work; if none is, thaw it with `ashlar-freeze thaw`")
	}
	return err
}

func (g Guest) frozen(ctx context.Context) (bool, error) {
	text, err := g.run(ctx, commandStatus, nil)
	return string(text) == `"frozen"`, err
}

// freeze freezes file systems, all without a list, and fails if there were none.
func (g Guest) freeze(ctx context.Context, mounts []string) error {
	command, arguments := commandFreeze, any(nil)
	if len(mounts) > 0 {
		command, arguments = commandFreezeList, map[string][]string{"mountpoints": mounts}
	}
	text, err := g.run(ctx, command, arguments)
	if err != nil {
		return err
	}
	if count, err := strconv.Atoi(string(text)); err != nil || count == 0 {
		return errors.New("it has frozen no file system: are they mounted?")
	}
	return nil
}

// thaw thaws until the agent says that nothing is frozen, or the context ends.
func (g Guest) thaw(ctx context.Context, again time.Duration) error {
	for {
		err := g.thawOnce(ctx)
		// Without a socket there is no QEMU any more, and so no guest that could be frozen.
		if err == nil || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(again):
		}
	}
}

// errFrozen: the agent thawed, and something is frozen.
var errFrozen = errors.New("its agent says that it is frozen")

func (g Guest) thawOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, thawAttempt, errors.New("its agent does not respond"))
	defer cancel()
	_, err := g.run(ctx, commandThaw, nil)
	frozen, unknown := g.frozen(ctx)
	if unknown != nil {
		return errors.Join(err, unknown)
	}
	if frozen {
		return errors.Join(err, errFrozen)
	}
	return nil
}
