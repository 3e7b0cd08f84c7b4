package freeze

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

// The test's program is also the guard, the stand-in for virsh, and the process that is killed.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "virsh" {
		os.Exit(virsh(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		if err := Watch(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "take" {
		takeInProcess()
	}
	os.Exit(m.Run())
}

// agent stands for a guest agent, as QEMU connects it: one connection at a time, commands one after the other, and while file
// systems are frozen only those that write nothing.
type agent struct {
	t      *testing.T
	guest  Guest
	listen net.Listener

	lock   sync.Mutex
	frozen bool
	log    []string
	thawed chan struct{}
	// What goes wrong.
	disabled   string
	nothing    bool // there is no file system to freeze
	refuse     bool // freezing fails
	slow       bool // freezing lasts until its waiter is gone
	drop       int  // number of responses to a thaw that are lost
	stuck      int  // number of thaws that do nothing
	freezeEnds bool // the freeze ends by itself, as VSS does
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	// A socket's path has at most 108 bytes.
	folder, err := os.MkdirTemp("", "agent-")
	if err != nil {
		t.Fatal(err)
	}
	made := &agent{t: t, guest: Guest{Socket: filepath.Join(folder, "agent")}, thawed: make(chan struct{}, 100)}
	if made.listen, err = net.Listen("unix", made.guest.Socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = made.listen.Close()
		_ = os.RemoveAll(folder)
	})
	go func() {
		for {
			connection, err := made.listen.Accept()
			if err != nil {
				return
			}
			made.serve(connection)
			_ = connection.Close()
		}
	}()
	return made
}

func (a *agent) serve(connection net.Conn) {
	// What an earlier client did not wait for comes first.
	_, _ = connection.Write([]byte("{\"return\": 17}\n"))
	reader := bufio.NewReader(connection)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			return
		}
		var sent struct {
			Execute   string
			Arguments struct {
				ID          json.Number
				Mountpoints []string
			}
		}
		if err := json.Unmarshal(bytes.TrimLeft(line, "\xff"), &sent); err != nil {
			a.t.Errorf("%q: %v", line, err)
			return
		}
		if sent.Execute == commandSync {
			_, _ = fmt.Fprintf(connection, "\xff{\"return\": %s}\n", sent.Arguments.ID)
			continue
		}
		if a.slow && sent.Execute == commandFreeze {
			_, _ = reader.Peek(1)
		}
		answer, lost := a.perform(sent.Execute, sent.Arguments.Mountpoints)
		if lost {
			return
		}
		_, _ = fmt.Fprintln(connection, answer)
	}
}

func (a *agent) perform(command string, mounts []string) (answer string, lost bool) {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.log = append(a.log, strings.TrimSpace(command+" "+strings.Join(mounts, " ")))
	refused := `{"error": {"class": "GenericError", "desc": "it can't"}}`
	switch command {
	case commandInfo:
		var offered []map[string]any
		for _, name := range []string{commandStatus, commandFreeze, commandFreezeList, commandThaw} {
			offered = append(offered, map[string]any{"name": name, "enabled": name != a.disabled})
		}
		text, _ := json.Marshal(map[string]any{"return": map[string]any{"version": "7.2", "supported_commands": offered}})
		return string(text), false
	case commandStatus:
		return map[bool]string{false: `{"return": "thawed"}`, true: `{"return": "frozen"}`}[a.frozen], false
	case commandFreeze, commandFreezeList:
		switch {
		case a.refuse || a.frozen:
			return refused, false
		case a.nothing:
			return `{"return": 0}`, false
		}
		a.frozen = !a.freezeEnds
		return `{"return": 2}`, false
	case commandThaw:
		if a.stuck > 0 {
			a.stuck--
			return `{"return": 0}`, false
		}
		a.frozen = false
		a.thawed <- struct{}{}
		a.drop--
		return `{"return": 2}`, a.drop >= 0
	}
	return refused, false
}

func (a *agent) isFrozen() bool {
	a.lock.Lock()
	defer a.lock.Unlock()
	return a.frozen
}

// front is a way to an array that sees, delays and loses requests for snapshots.
type front struct {
	api    *array.API
	access array.Access
	before func() (pass bool) // of such a request; not passed: its connection ends
	after  func() (pass bool) // of its response
}

func newFront(t *testing.T, running *rig.Array) *front {
	t.Helper()
	target, err := url.Parse(running.Access.URL)
	if err != nil {
		t.Fatal(err)
	}
	made := &front{before: func() bool { return true }, after: func() bool { return true }}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // The array of this test.
	proxy.ModifyResponse = func(response *http.Response) error {
		if response.Request.Method == http.MethodPost && !made.after() {
			return errors.New("lost")
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodPost && !made.before() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(answer, request)
	}))
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	made.access = array.Access{URL: server.URL, Token: running.Access.Token, Program: "test"}
	if made.api, err = array.Connect(made.access); err != nil {
		t.Fatal(err)
	}
	return made
}

// lab is an array with two volumes, a way to it, and two guests.
type lab struct {
	array  *rig.Array
	front  *front
	guests []*agent
}

func newLab(t *testing.T, running *rig.Array) *lab {
	t.Helper()
	return &lab{array: running, front: newFront(t, running), guests: []*agent{newAgent(t), newAgent(t)}}
}

func start(t *testing.T) *rig.Array {
	t.Helper()
	running := rig.Start(t)
	for _, name := range []string{"data", "log"} {
		made := array.NewVolume{Name: name, Size: nullable.NewNullableWithValue[int64](64 << 20)}
		if _, err := array.Decode[array.Volume](running.API.CreateVolume(t.Context(), made)); err != nil {
			t.Fatal(err)
		}
	}
	return running
}

func (l *lab) request(t *testing.T) Request {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	made := Request{
		Volumes: []string{"data", "log"}, Suffix: "now", Limit: time.Minute, Patience: time.Minute, Again: time.Millisecond,
		Labels: map[string]string{"application": "shop"}, Guard: Spawn(time.Millisecond, own, "guard"),
	}
	for _, it := range l.guests {
		made.Guests = append(made.Guests, it.guest)
	}
	return made
}

func (l *lab) snapshots(t *testing.T) []array.Snapshot {
	t.Helper()
	all, err := l.array.API.AllSnapshots(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// nothingLeft fails if a guest is frozen or a snapshot exists.
func (l *lab) nothingLeft(t *testing.T) {
	t.Helper()
	for _, it := range l.guests {
		if it.isFrozen() {
			t.Error("a guest is frozen")
		}
	}
	if left := l.snapshots(t); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestSnapshotsAreTakenWhileAllGuestsAreFrozen(t *testing.T) {
	l := newLab(t, start(t))
	frozen := false
	l.front.before = func() bool {
		frozen = l.guests[0].isFrozen() && l.guests[1].isFrozen()
		return true
	}
	request := l.request(t)
	request.Mounts = []string{"/srv"}
	taken, err := Take(t.Context(), l.front.api, request)
	if err != nil {
		t.Fatal(err)
	}
	if !frozen {
		t.Error("the guests were not frozen when the array got the request")
	}
	if len(taken) != 2 || taken[0].Set != taken[1].Set || taken[0].Labels[LabelConsistency] != Frozen || taken[0].Labels["application"] != "shop" {
		t.Errorf("%+v", taken)
	}
	for _, it := range l.guests {
		if it.isFrozen() || !slices.Contains(it.log, commandFreezeList+" /srv") {
			t.Errorf("%v", it.log)
		}
	}
	// The same suffix again is refused before anything is frozen.
	before := len(l.guests[0].thawed)
	if _, err := Take(t.Context(), l.front.api, request); err == nil || !strings.Contains(err.Error(), "another suffix") || len(l.guests[0].thawed) != before {
		t.Error(err)
	}
}

func TestAfterAnyFailureGuestsAreThawedAndNoSnapshotIsLeft(t *testing.T) {
	running := start(t)
	cases := map[string]struct {
		wrong func(l *lab, request *Request, cancel func())
		says  string
	}{
		"freezing fails":              {func(l *lab, _ *Request, _ func()) { l.guests[1].refuse = true }, "was not frozen"},
		"nothing to freeze":           {func(l *lab, _ *Request, _ func()) { l.guests[1].nothing = true }, "no file system"},
		"the freeze ends by itself":   {func(l *lab, _ *Request, _ func()) { l.guests[1].freezeEnds = true }, "ended the freeze"},
		"freezing takes too long":     {func(l *lab, request *Request, _ func()) { l.guests[1].slow, request.Limit = true, time.Second }, "limit"},
		"the array is not reached":    {func(l *lab, _ *Request, _ func()) { l.front.before = func() bool { return false } }, "can't be reached"},
		"the response is lost":        {func(l *lab, _ *Request, _ func()) { l.front.after = once() }, ""},
		"every response is lost":      {func(l *lab, _ *Request, _ func()) { l.front.after = func() bool { return false } }, "can't be reached"},
		"the array hangs":             {func(l *lab, request *Request, _ func()) { l.hangs(request) }, "no snapshot"},
		"interrupted":                 {func(l *lab, _ *Request, cancel func()) { l.front.before = func() bool { cancel(); return true } }, "cancel"},
		"thawing takes some attempts": {func(l *lab, _ *Request, _ func()) { l.guests[0].stuck, l.guests[1].drop = 3, 3 }, ""},
		"a group that is not there":   {func(_ *lab, request *Request, _ func()) { request.Volumes, request.Group = nil, "none" }, "none"},
		"a volume that is not there":  {func(_ *lab, request *Request, _ func()) { request.Volumes = []string{"none"} }, "none"},
		"an agent that may not":       {func(l *lab, _ *Request, _ func()) { l.guests[1].disabled = commandThaw }, "does not offer"},
		"no agent":                    {func(l *lab, _ *Request, _ func()) { _ = l.guests[1].listen.Close() }, "socket"},
	}
	for name, it := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, running)
			request := l.request(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			it.wrong(l, &request, cancel)
			taken, err := Take(ctx, l.front.api, request)
			if it.says == "" {
				if err != nil || len(taken) != 2 {
					t.Errorf("%v, %+v", err, taken)
				}
				for _, snapshot := range taken {
					if err := array.Done(running.API.DeleteSnapshot(t.Context(), snapshot.ID, nil)); err != nil {
						t.Error(err)
					}
				}
			} else if err == nil || !strings.Contains(err.Error(), it.says) {
				t.Errorf("%v", err)
			}
			l.nothingLeft(t)
		})
	}
}

// once loses the first response only.
func once() func() bool {
	lost := false
	return func() bool {
		before := lost
		lost = true
		return before
	}
}

// hangs makes the array respond only when the waiter is gone.
func (l *lab) hangs(request *Request) {
	request.Limit = time.Second
	wait := make(chan struct{})
	end := sync.OnceFunc(func() { close(wait) })
	l.front.before = func() bool {
		<-wait
		return false
	}
	l.front.api.Client.RequestEditors = append(l.front.api.Client.RequestEditors, func(ctx context.Context, request *http.Request) error {
		if request.Method == http.MethodPost {
			context.AfterFunc(ctx, end)
		}
		return nil
	})
}

func TestAGuestThatIsFrozenByAnotherIsLeftAlone(t *testing.T) {
	l := newLab(t, start(t))
	l.guests[1].frozen = true
	if _, err := Take(t.Context(), l.front.api, l.request(t)); err == nil || !strings.Contains(err.Error(), "frozen already") {
		t.Error(err)
	}
	if !l.guests[1].isFrozen() {
		t.Error("it was thawed")
	}
}

// takeInProcess is what the process that is killed does.
func takeInProcess() {
	var task struct {
		Request Request
		Access  array.Access
	}
	task.Request.Guard = nil
	if err := json.NewDecoder(os.Stdin).Decode(&task); err != nil {
		panic(err)
	}
	api, err := array.Connect(task.Access)
	if err != nil {
		panic(err)
	}
	task.Request.Guard = Spawn(time.Millisecond, os.Args[0], "guard")
	_, err = Take(context.Background(), api, task.Request)
	panic(err)
}

func TestAGuestIsThawedWhenTheProcessThatFrozeItIsKilled(t *testing.T) {
	l := newLab(t, start(t))
	request := l.request(t)
	request.Guard = nil
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{"Request": withoutGuard(request), "Access": l.front.access})
	if err != nil {
		t.Fatal(err)
	}
	kill := make(chan func(), 1)
	l.front.before = func() bool {
		if !l.guests[0].isFrozen() || !l.guests[1].isFrozen() {
			t.Error("not frozen")
		}
		(<-kill)()
		return false
	}
	killed, ended := startProcess(t, own, text)
	kill <- func() { _ = killed.Kill() }
	for _, it := range l.guests {
		select {
		case <-it.thawed:
		case <-time.After(time.Minute):
			t.Fatal("it stays frozen")
		}
	}
	_, _ = killed.Wait()
	// The guard holds the other end until it is done.
	said, err := io.ReadAll(ended)
	if err != nil || len(said) > 0 {
		t.Errorf("%s, %v", said, err)
	}
	l.nothingLeft(t)
}

// withoutGuard is a request as JSON: a function has none.
func withoutGuard(request Request) map[string]any {
	return map[string]any{
		"Guests": request.Guests, "Volumes": request.Volumes, "Suffix": request.Suffix, "Limit": request.Limit,
		"Patience": request.Patience, "Again": request.Again,
	}
}

// startProcess returns the process, and what it and its guard say as errors.
func startProcess(t *testing.T, program string, input []byte) (*os.Process, io.Reader) {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	heard, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.StartProcess(program, []string{program, "take"}, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{reader, os.Stdout, said},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = reader.Close(), said.Close()
	if _, err := writer.Write(input); err != nil {
		t.Fatal(err)
	}
	_ = writer.Close()
	t.Cleanup(func() { _ = process.Kill() })
	return process, heard
}

// virsh stands for libvirt's program: it passes a command to the agent whose socket has the domain's name.
func virsh(words []string) int {
	at := slices.Index(words, "qemu-agent-command")
	if at < 0 || len(words) != at+5 || words[at+3] != "--timeout" || at > 0 && words[0] != "--connect" {
		fmt.Fprintln(os.Stderr, "error: unknown words", words)
		return 1
	}
	var sent struct {
		Execute   string
		Arguments any
	}
	if err := json.Unmarshal([]byte(words[at+2]), &sent); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	found, err := Guest{Socket: os.Getenv("AGENTS") + "/" + words[at+1]}.socket(context.Background(), sent.Execute, sent.Arguments)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: guest agent is not responding: QEMU guest agent is not connected:", err)
		return 1
	}
	fmt.Printf("{\"return\":%s}\n\n", found)
	return 0
}

func TestLibvirtPassesCommandsToTheAgent(t *testing.T) {
	l := newLab(t, start(t))
	folder := t.TempDir()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, filepath.Join(folder, "virsh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	t.Setenv("AGENTS", filepath.Dir(l.guests[0].guest.Socket))
	request := l.request(t)
	request.Guests = []Guest{{Domain: "agent", Connect: "qemu:///system"}}
	taken, err := Take(t.Context(), l.front.api, request)
	if err != nil || len(taken) != 2 || l.guests[0].isFrozen() || !slices.Contains(l.guests[0].log, commandFreeze) {
		t.Errorf("%v, %v", err, l.guests[0].log)
	}
	request.Guests, request.Suffix = []Guest{{Domain: "other"}}, "later"
	if _, err := Take(t.Context(), l.front.api, request); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Error(err)
	}
}

func TestAResponseThatIsNoneIsAnError(t *testing.T) {
	for _, text := range []string{"", "ok", `{"error": {"desc": "no"}}`} {
		if found, err := response([]byte(text)); err == nil {
			t.Errorf("%q is %s", text, found)
		}
	}
	if err := synchronize(io.Discard, bufio.NewReader(strings.NewReader("\xff{\"return\": 5}\n"))); err == nil {
		t.Error("a response to another one's request was accepted")
	}
}
