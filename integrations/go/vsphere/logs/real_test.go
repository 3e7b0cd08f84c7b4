package logs

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

// textsOfRealArrays are fields of texts whose values are compared in messages of a real array.
var textsOfRealArrays = []string{"ashlar_initiator", "ashlar_portal", "ashlar_refusal", "ashlar_login_user", "ashlar_scrub_bytes"}

// receiver is a syslog server: RFC 5424 over TCP with octet counting.
func receiver(t *testing.T) (port int, lines <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	received := make(chan string, 4096)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			reader := bufio.NewReader(connection)
			for {
				length, err := reader.ReadString(' ')
				if err != nil {
					break
				}
				count, err := strconv.Atoi(strings.TrimSpace(length))
				if err != nil {
					t.Errorf("%q is no length", length)
					break
				}
				frame := make([]byte, count)
				if _, err := io.ReadFull(reader, frame); err != nil {
					t.Errorf("a message broke off: %v", err)
					break
				}
				received <- string(frame)
			}
			_ = connection.Close()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, received
}

type object = map[string]any

// tried is an array with its messages.
type tried struct {
	*rig.Array
	t     *testing.T
	lines <-chan string
	seen  []string
	kinds map[string]bool
	// leaving is the path of the drive that is evacuated.
	leaving string
}

// try starts an array that sends everything.
func try(t *testing.T, options ...string) *tried {
	t.Helper()
	port, lines := receiver(t)
	it := &tried{Array: rig.Start(t, options...), t: t, lines: lines, kinds: map[string]bool{}}
	it.ask("POST", "notification-targets", object{"name": "logs", "severity": "info", "content": []string{"alerts", "events", "audit", "statistics"},
		"destination": object{"kind": "syslog", "host": "127.0.0.1", "port": port, "tls": false}})
	return it
}

// send makes a request, whatever comes of it.
func (a *tried) send(method, path string, body any) (int, []byte) {
	a.t.Helper()
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			a.t.Fatal(err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(a.t.Context(), method, a.API.URL+"/api/v1/"+path, content)
	if err != nil {
		a.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.API.Client.Client.Do(request)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return response.StatusCode, read
}

// ask makes a request that must succeed.
func (a *tried) ask(method, path string, body any) object {
	a.t.Helper()
	status, read := a.send(method, path, body)
	if status/100 != 2 {
		a.t.Fatalf("%s %s: %d %s", method, path, status, read)
	}
	var made object
	if len(read) > 0 {
		if err := json.Unmarshal(read, &made); err != nil {
			a.t.Fatalf("%s %s: %s", method, path, read)
		}
	}
	return made
}

// items of a list.
func (a *tried) items(path string) []object {
	a.t.Helper()
	var items []object
	for _, it := range a.ask("GET", path, nil)["items"].([]any) {
		items = append(items, it.(object))
	}
	return items
}

// until receives until there was a message of each kind: `event/volume.created`. The limit only ends a test that fails.
func (a *tried) until(kinds ...string) {
	a.t.Helper()
	limit := time.After(5 * time.Minute)
	for {
		missing := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool { return a.kinds[kind] })
		if len(missing) == 0 {
			return
		}
		select {
		case line := <-a.lines:
			a.note(line)
		case <-limit:
			a.t.Fatalf("no message came of: %s", strings.Join(missing, ", "))
		}
	}
}

// more receives one message.
func (a *tried) more() {
	a.t.Helper()
	select {
	case line := <-a.lines:
		a.note(line)
	case <-time.After(5 * time.Minute):
		a.t.Fatal("no message came")
	}
}

func (a *tried) note(line string) {
	a.t.Helper()
	of, _ := parse(a.t, line)
	a.seen = append(a.seen, line)
	a.kinds[string(of.class)+"/"+of.kind] = true
}

// portalOf is the number of the portal that an event ends with.
func portalOf(message string) string {
	_, after, _ := strings.Cut(message, " at portal ")
	number, _, _ := strings.Cut(after, ",")
	return number
}

func shown(value any) string {
	switch it := value.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatInt(int64(it), 10)
	default:
		return fmt.Sprint(it)
	}
}

// facts of the array's API about its events, alerts and audit log, by class and number.
func (a *tried) facts() map[string]object {
	all := map[string]object{}
	for class, path := range map[Class]string{events: "events", alerts: "alerts", audit: "audit"} {
		before := ""
		for {
			query := path + "?limit=200" + before
			items := a.items(query)
			for _, it := range items {
				all[string(class)+"/"+shown(it["id"])] = it
			}
			if class == alerts || len(items) < 200 {
				break
			}
			before = "&before=" + shown(items[len(items)-1]["id"])
		}
	}
	return all
}

// verify compares every message that was received with the API.
func (a *tried) verify(texts func(fact, string) map[string]string) {
	a.t.Helper()
	facts, serial := a.facts(), shown(a.ask("GET", "array", nil)["serial"])
	for _, line := range a.seen {
		of, message := parse(a.t, line)
		said := facts[string(of.class)+"/"+of.parameters["id"]]
		want := fact{class: of.class, kind: of.kind, parameters: map[string]string{"class": string(of.class), "serial": serial}}
		set := func(name string, value any) {
			if value != nil {
				want.parameters[name] = shown(value)
			}
		}
		switch of.class {
		case alerts:
			// The API has the severity and the text of now, and no transitions.
			set("event", of.parameters["event"])
			set("severity", of.parameters["severity"])
			set("kind", of.kind)
		case events:
			set("severity", said["severity"])
			set("kind", said["kind"])
			if message != said["message"] {
				a.t.Errorf("the text is %q, want %q", message, said["message"])
			}
		case audit:
			set("outcome", said["outcome"])
			set("user", said["user"])
			set("origin", said["origin"])
			set("action", said["action"])
			set("noun", said["noun"])
			set("name", said["object"])
		default:
			// Numbers are compared in the test that makes them.
			want.parameters = of.parameters
		}
		if of.class == alerts || of.class == events || of.class == audit {
			if said == nil && of.kind != "test" {
				a.t.Errorf("the API does not know: %s", line)
				continue
			}
			set("id", of.parameters["id"])
			if of.class != audit && of.kind != "test" {
				set("noun", said["noun"])
				set("name", said["name"])
			}
			if of.kind == "test" {
				want.parameters = of.parameters
			}
			if !maps.Equal(want.parameters, of.parameters) {
				a.t.Errorf("the parameters are %v, want %v", of.parameters, want.parameters)
			}
		}
		compare(a.t, line, want, texts(of, message))
	}
}

const mib = int64(1) << 20

// initiator performs commands of qemu-io as an initiator; they may fail.
func (a *tried) initiator(name string, lun int, commands ...string) error {
	program, err := exec.LookPath("qemu-io")
	if err != nil {
		a.t.Skip("qemu-io is not installed")
	}
	words := []string{"--image-opts", "driver=iscsi,transport=tcp,portal=" + a.Portals[0] + ",target=" + a.Target + ",lun=" +
		strconv.Itoa(lun) + ",discard=unmap,initiator-name=" + name}
	for _, command := range commands {
		words = append(words, "-c", command)
	}
	return exec.CommandContext(a.t.Context(), program, words...).Run()
}

const (
	known   = "iqn.1998-01.com.vmware:esx1"
	secured = "iqn.1998-01.com.vmware:esx2"
	unknown = "iqn.1998-01.com.vmware:nobody"
	// refused is a user who does not exist.
	refused = `nobody "x" [y] \ ü`
)

func TestEveryFieldIsRightInMessagesOfARealArray(t *testing.T) {
	a := try(t)
	a.ask("POST", "notification-targets/logs/test", nil)
	a.configure()
	a.serve()
	a.measure()
	a.administrate()
	a.until(provoked...)
	a.verify(func(of fact, message string) map[string]string {
		switch of.kind {
		case "host.logged-in", "host.logged-out":
			return map[string]string{"ashlar_initiator": known, "ashlar_portal": portalOf(message)}
		case "host.login-refused", "initiator.login-refused":
			name := map[string]string{"host.login-refused": secured, "initiator.login-refused": unknown}[of.kind]
			_, why, _ := strings.Cut(message, " was refused, ")
			why, _, _ = strings.Cut(why, ": "+name)
			return map[string]string{"ashlar_initiator": name, "ashlar_portal": portalOf(message), "ashlar_refusal": why}
		case "session.begun":
			return map[string]string{"ashlar_login_user": "ada"}
		case "session.refused":
			return map[string]string{"ashlar_login_user": refused}
		case "scrub.finished":
			digits := strings.FieldsFunc(message, func(letter rune) bool { return letter < '0' || letter > '9' })
			return map[string]string{"ashlar_scrub_bytes": digits[0]}
		case "drive.evacuating":
			if of.class == alerts {
				return map[string]string{"ashlar_drive_path": a.leaving}
			}
		case "host.one-path":
			return map[string]string{"ashlar_host_portals": "2"}
		}
		return nil
	})
}

// provoked are the kinds that [TestEveryFieldIsRightInMessagesOfARealArray] makes.
var provoked = []string{
	"alert/test", "alert/group.quota", "alert/notification.failing",
	"audit/audit.done", "audit/audit.refused", "performance/performance.array", "capacity/capacity.array",
	"event/volume.created", "event/volume.changed", "event/volume.resized", "event/volume.overwritten", "event/volume.connected",
	"event/volume.disconnected", "event/volume.deleted", "event/volume.restored", "event/volume.eradicated",
	"event/snapshot.created", "event/snapshot.changed", "event/snapshot.connected", "event/snapshot.disconnected",
	"event/snapshot.deleted", "event/snapshot.restored", "event/snapshot.eradicated",
	"event/group.created", "event/group.changed", "event/group.deleted", "event/group.soft-quota-crossed",
	"event/group.soft-quota-over", "event/group.hard-quota-reached", "event/group.hard-quota-over",
	"event/host.created", "event/host.changed", "event/host.deleted", "event/host-group.created", "event/host-group.changed",
	"event/host-group.deleted", "event/host.logged-in", "event/host.logged-out", "event/host.login-refused",
	"event/initiator.login-refused", "event/portal.added", "event/portal.removed",
	"event/schedule.created", "event/schedule.changed", "event/schedule.deleted",
	"event/drive.evacuating", "event/drive.evacuated", "event/drive.added", "event/scrub.started", "event/scrub.finished",
	"event/session.begun", "event/session.refused", "event/user.created", "event/user.changed", "event/user.deleted",
	"event/token.created", "event/token.deleted", "event/directory.created", "event/directory.changed", "event/directory.deleted",
	"event/notification.created", "event/notification.changed", "event/notification.deleted", "event/settings.changed",
}

// configure makes, changes and deletes what hosts use.
func (a *tried) configure() {
	t := a.t
	t.Helper()
	for _, name := range []string{"data", "other"} {
		a.ask("POST", "volumes", object{"name": name, "size": 16 * mib})
	}
	a.ask("PATCH", "volumes/data", object{"labels": object{"a": "b"}})
	a.ask("PATCH", "volumes/other", object{"size": 32 * mib})
	a.ask("POST", "snapshots", object{"volume": "other", "name": "copy"})
	a.ask("POST", "volumes/other/restore", object{"source": "copy", "keep_size": true})
	a.ask("PATCH", "snapshots/copy", object{"labels": object{"a": "b"}})
	a.ask("POST", "hosts", object{"name": "esx1", "initiators": []string{known}})
	chap := object{"user": "esx2", "secret": "a long secret of 16"}
	a.ask("POST", "hosts", object{"name": "esx2", "initiators": []string{secured}, "chap": chap})
	a.ask("PATCH", "hosts/esx2", object{"labels": object{"a": "b"}})
	a.ask("POST", "host-groups", object{"name": "cluster", "hosts": []string{"esx1"}})
	a.ask("PATCH", "host-groups/cluster", object{"hosts": []string{}})
	a.ask("DELETE", "host-groups/cluster", nil)
	a.ask("POST", "hosts", object{"name": "gone", "initiators": []string{"iqn.1998-01.com.vmware:gone"}})
	a.ask("DELETE", "hosts/gone", nil)
	a.ask("POST", "connections", object{"volume": "copy", "host": "esx1", "read_only": true})
	a.ask("DELETE", "connections/copy/esx1", nil)
	a.ask("POST", "schedules", object{"name": "daily", "volume": "other", "rules": []object{{"when": "0 3 * * *", "keep": 3}}})
	a.ask("PATCH", "schedules/daily", object{"enabled": false})
	a.ask("DELETE", "schedules/daily", nil)
	for _, path := range []string{"snapshots/copy", "volumes/other"} {
		a.ask("DELETE", path, nil)
		id := shown(a.items("recycle-bin")[0]["id"])
		a.ask("POST", "recycle-bin/"+id+"/restore", object{})
		a.ask("DELETE", path, nil)
		a.ask("DELETE", "recycle-bin/"+id, nil)
	}
	if status, _ := a.send("DELETE", "volumes/nothing", nil); status != http.StatusNotFound {
		t.Errorf("a volume that is not there was deleted: %d", status)
	}
}

// serve lets initiators log in, be refused, and cross quotas.
func (a *tried) serve() {
	t := a.t
	t.Helper()
	a.ask("POST", "groups", object{"name": "gone"})
	a.ask("DELETE", "groups/gone", nil)
	a.ask("POST", "groups", object{"name": "team", "soft_quota": mib})
	a.ask("PATCH", "volumes/data", object{"group": "team"})
	a.ask("POST", "connections", object{"volume": "data", "host": "esx1", "lun": 0})
	if err := a.initiator(known, 0, "write -P 7 0 4M", "write -z 8M 64k", "discard 2M 1M"); err != nil {
		t.Fatal(err)
	}
	a.until("event/group.soft-quota-crossed", "alert/group.quota")
	a.ask("PATCH", "groups/team", object{"hard_quota": 2 * mib})
	a.until("event/group.hard-quota-reached")
	a.ask("PATCH", "groups/team", object{"soft_quota": 12 * mib, "hard_quota": 14 * mib})
	a.until("event/group.soft-quota-over", "event/group.hard-quota-over")
	for _, name := range []string{unknown, secured} {
		if a.initiator(name, 0, "read 0 4k") == nil {
			t.Errorf("%s logged in", name)
		}
	}
	a.ask("DELETE", "connections/data/esx1", nil)
	a.ask("PATCH", "volumes/data", object{"group": nil})
}

// measure compares the statistics with the API and with what hosts did.
func (a *tried) measure() {
	a.t.Helper()
	offloads := map[string]int{"unmap": 0, "write_same": 0}
	same := false
	for at := 0; !same || offloads["unmap"] == 0 || offloads["write_same"] == 0; at++ {
		for len(a.seen) <= at {
			a.more()
		}
		of, _ := parse(a.t, a.seen[at])
		switch of.class {
		case capacity:
			space := a.ask("GET", "array", nil)["space"].(object)
			same = of.parameters["total_bytes"] == shown(space["total"]) && of.parameters["provisioned_bytes"] == shown(space["provisioned"])
		case performance:
			for name := range offloads {
				count, err := strconv.Atoi(of.parameters[name])
				if err != nil {
					a.t.Fatal(err)
				}
				offloads[name] += count
			}
		}
	}
}

// administrate changes the array itself.
func (a *tried) administrate() {
	t := a.t
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := socket.Addr().(*net.TCPAddr)
	_ = socket.Close()
	added := shown(a.ask("POST", "portals", object{"address": closed.String()})["number"])
	a.ask("DELETE", "portals/"+added, nil)
	a.ask("POST", "notification-targets", object{"name": "down", "content": []string{"audit"},
		"destination": object{"kind": "syslog", "host": "127.0.0.1", "port": closed.Port, "tls": false}})
	a.ask("PATCH", "notification-targets/down", object{"severity": "critical"})
	a.until("alert/notification.failing")
	a.ask("DELETE", "notification-targets/down", nil)
	a.ask("POST", "users", object{"name": "ada", "role": "viewer", "password": "a good password"})
	a.ask("PATCH", "users/ada", object{"role": "operator"})
	a.ask("POST", "session", object{"user": "ada", "password": "a good password"})
	if status, _ := a.send("POST", "session", object{"user": refused, "password": "a wrong password"}); status != http.StatusUnauthorized {
		t.Errorf("a log-in with a wrong password: %d", status)
	}
	a.ask("POST", "tokens", object{"name": "program", "user": "ada"})
	a.ask("DELETE", "tokens/program", nil)
	a.ask("DELETE", "users/ada", nil)
	ldap := object{"kind": "ldap", "server": "ldaps://127.0.0.1", "base": "dc=example"}
	a.ask("POST", "directories", object{"name": "corp", "settings": ldap})
	a.ask("PATCH", "directories/corp", object{"enabled": false})
	a.ask("DELETE", "directories/corp", nil)
	a.ask("PATCH", "settings", object{"recycle_bin_seconds": 3600})
	a.ask("POST", "scrub", nil)
	a.until("event/scrub.finished")
	drives := a.items("drives")
	last := drives[len(drives)-1]
	a.leaving = shown(last["path"])
	a.ask("POST", "drives/"+shown(last["slot"])+"/evacuate", nil)
	a.until("event/drive.evacuated")
	file := filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 1024*mib); err != nil {
		t.Fatal(err)
	}
	a.ask("POST", "drives", object{"path": file})
}

// TestMessagesAboutReplicationAreRight: a pair of arrays of which one is lost.
func TestMessagesAboutReplicationAreRight(t *testing.T) {
	a, other := try(t, "--replication", "127.0.0.1:0"), rig.Start(t, "--replication", "127.0.0.1:0")
	second := &tried{Array: other, t: t}
	a.ask("POST", "pairing-keys", nil)
	key := second.ask("POST", "pairing-keys", nil)["key"]
	a.ask("POST", "remote-arrays", object{"name": "second", "address": other.Replication, "key": key})
	a.ask("PATCH", "remote-arrays/second", object{"bandwidth_limit": 64 * mib})
	for _, name := range []string{"fast", "safe"} {
		a.ask("POST", "volumes", object{"name": name, "size": 16 * mib})
	}
	a.ask("POST", "replications", object{"name": "fast", "volume": "fast", "remote_array": "second", "rpo_seconds": 3600})
	a.ask("POST", "replications/fast/pause", nil)
	a.ask("POST", "replications/fast/resume", nil)
	a.ask("POST", "replications", object{"name": "safe", "volume": "safe", "remote_array": "second", "rpo_seconds": 3600, "mode": "sync",
		"on_link_loss": "continue"})
	a.until("event/replication.in-sync")
	// The first point is there before the array is lost.
	for shown(a.ask("GET", "replications/fast", nil)["progress"].(object)["lag_seconds"]) == "" {
		runtime.Gosched()
	}
	other.Kill()
	a.ask("PATCH", "replications/fast", object{"rpo_seconds": 5})
	a.until("event/remote-array.key-created", "event/remote-array.paired", "event/remote-array.changed", "event/remote-array.connected",
		"event/remote-array.disconnected", "event/replication.created", "event/replication.changed", "event/replication.paused",
		"event/replication.resumed", "event/replication.in-sync", "event/replication.out-of-sync", "alert/remote-array.disconnected",
		"alert/replication.out-of-sync", "alert/replication.rpo")
	a.ask("DELETE", "replications/fast", nil)
	a.until("event/replication.deleted")
	a.verify(func(of fact, message string) map[string]string {
		if of.kind != "replication.rpo" {
			return nil
		}
		_, lag, _ := strings.Cut(message, "the lag is ")
		lag, _, _ = strings.Cut(lag, " s")
		_, rpo, _ := strings.Cut(message, "its RPO of ")
		rpo, _, _ = strings.Cut(rpo, " s")
		if seconds, err := strconv.Atoi(lag); err != nil || seconds <= 5 && rpo == "5" {
			t.Errorf("the lag is %q, the RPO %q: %s", lag, rpo, message)
		}
		return map[string]string{"ashlar_replication_rpo_seconds": rpo, "ashlar_replication_lag_seconds": lag}
	})
}

// TestACertificateThatExpiresIsReported: soon after it was given to the array, and its end soon after another one was.
func TestACertificateThatExpiresIsReported(t *testing.T) {
	a := try(t)
	a.replaceCertificate(5)
	a.until("event/certificate.replaced", "alert/certificate.expiry")
	a.replaceCertificate(365)
	ended := func(line string) bool {
		return strings.Contains(line, `event="alert.closed" kind="certificate.expiry"`)
	}
	for !slices.ContainsFunc(a.seen, ended) {
		a.more()
	}
	a.verify(func(of fact, _ string) map[string]string {
		if of.kind == "certificate.expiry" {
			return map[string]string{"ashlar_certificate_days": "7"}
		}
		return nil
	})
}

// replaceCertificate gives the array a certificate for some days, and connects with it.
func (a *tried) replaceCertificate(days int) {
	t := a.t
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "array"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Duration(days) * 24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, of []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: of}))
	}
	a.ask("PUT", "certificate", object{"chain": block("CERTIFICATE", made), "key": block("PRIVATE KEY", private)})
	a.Access.CAFile, a.Access.CA = "", block("CERTIFICATE", made)
	if a.API, err = array.Connect(a.Access); err != nil {
		t.Fatal(err)
	}
}
