package sra

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ashlar/integrations/array"
)

const (
	// heartbeat is how often the progress is written again: Site Recovery Manager ends a command that is silent for minutes.
	heartbeat = 20 * time.Second
	// maxDuration bounds a command.
	maxDuration = 30 * time.Minute
	// LogFile in the log directory is appended to.
	LogFile = "ashlar-sra.log"
	// fileMode of what is written: requests and responses name hosts and volumes.
	fileMode = 0o640
)

// call is a command being performed.
type call struct {
	command *Command
	in      *Parameters
	log     *slog.Logger
	status  *status
	api     *array.API
	serial  string
}

// handler performs a command and returns its result element.
type handler func(ctx context.Context, c *call) (any, error)

// verb is a command.
type verb struct {
	name string
	// where Site Recovery Manager runs it if both sites could; empty if there is no choice.
	where  string
	needs  bool
	handle handler
}

// verbs returns all commands.
func verbs() []verb {
	return []verb{
		{"queryStrings", "", false, queryStrings},
		{"queryInfo", "", false, queryInfo},
		{"queryErrorDefinitions", "", false, queryErrorDefinitions},
		{"queryCapabilities", "", false, queryCapabilities},
		{"queryConnectionParameters", "", false, queryConnectionParameters},
		{"discoverArrays", "", true, discoverArrays},
		{"discoverDevices", "", true, discoverDevices},
		{"syncOnce", "source", true, syncOnce},
		{"querySyncStatus", "", true, querySyncStatus},
		{"checkTestFailoverStart", "", true, checkTestFailoverStart},
		{"testFailoverStart", "", true, testFailoverStart},
		{"testFailoverStop", "", true, testFailoverStop},
		{"prepareFailover", "", true, prepareFailover},
		{"checkFailover", "", true, checkFailover},
		{"failover", "", true, failover},
		{"prepareReverseReplication", "", true, prepareReverseReplication},
		{"reverseReplication", "source", true, reverseReplication},
		{"restoreReplication", "source", true, restoreReplication},
		{settingsCommand, "", true, queryReplicationSettings},
	}
}

// Run performs the command on standard input. An error is one that could not be written to a response.
func Run(ctx context.Context, in io.Reader, errors io.Writer) error {
	command, err := Read(in)
	if err != nil {
		return err
	}
	log, done := openLog(command, errors)
	defer done()
	ctx, stop := context.WithTimeout(ctx, maxDuration)
	defer stop()
	status := newStatus(command.StatusFile, log)
	begun := time.Now()
	result, err := perform(ctx, &call{command: command, in: command.parameters(), log: log, status: status})
	response := Response{Namespace: command.XMLName.Space}
	if err != nil {
		response.Error = failure(err)
		log.Error("refused", "code", response.Error.Code, "problem", err)
	} else {
		response.Results = []any{result}
	}
	status.end()
	log.Info("done", "seconds", time.Since(begun).Seconds())
	text, err := xml.MarshalIndent(response, "", "  ")
	if err != nil {
		return fmt.Errorf("the response can't be written as XML: %w", err)
	}
	log.Debug("response", "xml", string(text))
	return os.WriteFile(command.OutputFile, append([]byte(xml.Header), text...), fileMode)
}

func perform(ctx context.Context, c *call) (any, error) {
	for _, known := range verbs() {
		if known.name != c.command.Name {
			continue
		}
		if known.needs {
			if err := c.connect(ctx); err != nil {
				return nil, err
			}
		}
		return known.handle(ctx, c)
	}
	return nil, fail(codeUnknown, fmt.Sprintf("there is no command %q", c.command.Name))
}

// connect connects to the array, and makes sure that it is the one that the command is about.
func (c *call) connect(ctx context.Context) error {
	if len(c.command.Connections) != 1 {
		return fail(codeConnection, fmt.Sprintf("the command has %d connections instead of one", len(c.command.Connections)))
	}
	entered := c.command.Connections[0]
	url, fingerprint := field(entered.Addresses, addressID), field(entered.Opaques, fingerprintID)
	if url == "" || entered.Password == "" || fingerprint == "" {
		return fail(codeConnection, "the address, the token or the fingerprint of the certificate is missing")
	}
	if !strings.HasPrefix(url, "https://") {
		return fail(codeConnection, fmt.Sprintf("%q is no address of an array: write it as https://HOST:PORT", url))
	}
	program := "ashlar-sra/" + array.Version
	api, err := array.Connect(array.Access{URL: url, Token: strings.TrimSpace(entered.Password), Fingerprint: fingerprint, Program: program})
	if err != nil {
		return fail(codeConnection, err.Error())
	}
	if _, err := api.Check(ctx); err != nil {
		return err
	}
	about, err := array.Decode[array.Array](api.ShowArray(ctx))
	if err != nil {
		return err
	}
	c.api, c.serial = api, about.Serial
	if wanted := c.in.ArrayID; wanted != "" && wanted != about.Serial {
		return fail(codeWrongArray, fmt.Sprintf("the array at %s has the serial number %s, not %s", url, about.Serial, wanted))
	}
	return nil
}

func field(values []Value, id string) string {
	for _, value := range values {
		if value.ID == id {
			return strings.TrimSpace(value.Text)
		}
	}
	return ""
}

// status is the file with the progress, written again and again so that the command counts as alive.
type status struct {
	file    string
	log     *slog.Logger
	mutex   sync.Mutex
	percent int
	over    chan struct{}
	ended   sync.WaitGroup
}

func newStatus(file string, log *slog.Logger) *status {
	made := &status{file: strings.TrimSpace(file), log: log, over: make(chan struct{})}
	made.write()
	made.ended.Go(func() {
		ticks := time.NewTicker(heartbeat)
		defer ticks.Stop()
		for {
			select {
			case <-made.over:
				return
			case <-ticks.C:
				made.write()
			}
		}
	})
	return made
}

// part reports how many of all objects are done.
func (s *status) part(done, all int) {
	s.mutex.Lock()
	s.percent = done * 100 / max(all, 1)
	s.mutex.Unlock()
	s.write()
}

func (s *status) end() {
	close(s.over)
	s.ended.Wait()
	s.part(1, 1)
}

func (s *status) write() {
	if s.file == "" {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	text := fmt.Sprintf("%s<ProgressUpdate xmlns=%q>%d</ProgressUpdate>\n", xml.Header, Namespace, s.percent)
	if err := os.WriteFile(s.file, []byte(text), fileMode); err != nil {
		s.log.Warn("the progress can't be written", "problem", err)
	}
}

// openLog opens the log of the command; without a directory it is the error output. Passwords are in no record.
func openLog(command *Command, errors io.Writer) (*slog.Logger, func()) {
	out, done := errors, func() {}
	var refused error
	if directory := strings.TrimSpace(command.LogDirectory); directory != "" {
		file, err := os.OpenFile(filepath.Join(directory, LogFile), os.O_APPEND|os.O_CREATE|os.O_WRONLY, fileMode)
		if refused = err; err == nil {
			out, done = file, func() { _ = file.Close() }
		}
	}
	level := slog.LevelInfo
	switch strings.ToLower(strings.TrimSpace(command.LogLevel)) {
	case "error":
		level = slog.LevelError
	case "warning":
		level = slog.LevelWarn
	case "verbose", "trivia":
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})).With("command", command.Name)
	if refused != nil {
		log.Warn("the log file can't be opened", "problem", refused)
	}
	log.Info("begun", "version", array.Version)
	return log, done
}

var errStopped = errors.New("the command was ended before it was done: repeat it")

// pause waits before the array is asked again; an error says that the command was ended.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return errStopped
	case <-time.After(pollInterval):
		return nil
	}
}

// pollInterval is how often the state of a replication is asked for while a command waits for it.
const pollInterval = 500 * time.Millisecond
