package sra_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
	"ashlar/integrations/sra"
)

// adapter is the program, built once.
var adapter string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "ashlar-sra-")
	if err != nil {
		panic(err)
	}
	adapter = filepath.Join(folder, "command")
	if out, err := exec.Command("go", "build", "-o", adapter, "ashlar/integrations/cmd/ashlar-sra").CombinedOutput(); err != nil {
		panic(fmt.Sprintf("the adapter can't be built: %v\n%s", err, out))
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	os.Exit(code)
}

// node is an element of a response.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Nodes   []node     `xml:",any"`
}

func (n node) attr(name string) string {
	for _, it := range n.Attrs {
		if it.Name.Local == name {
			return it.Value
		}
	}
	return ""
}

// all returns the elements at a path.
func (n node) all(path ...string) []node {
	found := []node{n}
	for _, name := range path {
		var next []node
		for _, it := range found {
			for _, inner := range it.Nodes {
				if inner.XMLName.Local == name {
					next = append(next, inner)
				}
			}
		}
		found = next
	}
	return found
}

func (n node) one(t *testing.T, path ...string) node {
	t.Helper()
	found := n.all(path...)
	if len(found) != 1 {
		t.Fatalf("%d elements %v instead of one in %+v", len(found), path, n)
	}
	return found[0]
}

// codes returns the codes of all errors in a response.
func (n node) codes() []string {
	var found []string
	if n.XMLName.Local == "Error" {
		found = append(found, n.attr("code"))
	}
	for _, inner := range n.Nodes {
		found = append(found, inner.codes()...)
	}
	return found
}

// site is an array as Site Recovery Manager knows it, and a host beside it.
type site struct {
	array       *rig.Array
	serial      string
	token       string
	fingerprint string
	initiator   string
}

func newSite(t *testing.T, running *rig.Array, initiator string) *site {
	t.Helper()
	about, err := array.Decode[array.Array](running.API.ShowArray(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := os.ReadFile(running.Access.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certificate)
	sum := sha256.Sum256(block.Bytes)
	return &site{running, about.Serial, running.Access.Token, hex.EncodeToString(sum[:]), initiator}
}

// accessGroup is the site's cluster with its only host, as commands name it.
func (s *site) accessGroup() string {
	return fmt.Sprintf(`<AccessGroups><AccessGroup id="domain-c1"><Initiator id=%q type="iSCSI"/><Initiator id="20:00:00:25" type="FC"/></AccessGroup></AccessGroups>`, s.initiator)
}

const toGroup = `<AccessGroups><AccessGroup id="domain-c1"/></AccessGroups>`

// send runs the adapter as Site Recovery Manager does: a process that reads a request, and writes valid files.
func (s *site) send(t *testing.T, name, parameters string) node {
	t.Helper()
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	url := strings.Replace(s.array.Access.URL, "http://", "https://", 1)
	request := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<Command xmlns=%q><Name>%s</Name><OutputFile>%s</OutputFile><StatusFile>%s</StatusFile><LogLevel>trivia</LogLevel>
<LogDirectory>%s</LogDirectory><Connections><Connection id="array"><Addresses><Address id="management">%s</Address></Addresses>
<Username>srm</Username><Password>%s</Password><Opaques><Opaque id="fingerprint">%s</Opaque></Opaques></Connection></Connections>
<%sParameters>%s</%sParameters></Command>`, sra.Namespace, name, file("out.xml"), file("status.xml"), folder, url, s.token, s.fingerprint,
		strings.ToUpper(name[:1])+name[1:], parameters, strings.ToUpper(name[:1])+name[1:])
	process := exec.CommandContext(t.Context(), adapter)
	process.Stdin = strings.NewReader(request)
	if out, err := process.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	valid(t, file("status.xml"))
	valid(t, file("out.xml"))
	log, err := os.ReadFile(file(sra.LogFile))
	if err != nil || bytes.Contains(log, []byte(s.token)) || !bytes.Contains(log, []byte("command="+name)) {
		t.Fatalf("the log (%v): %s", err, log)
	}
	status, err := os.ReadFile(file("status.xml"))
	if err != nil || !bytes.Contains(status, []byte(">100<")) {
		t.Fatalf("the last progress (%v): %s", err, status)
	}
	text, err := os.ReadFile(file("out.xml"))
	if err != nil {
		t.Fatal(err)
	}
	var response node
	if err := xml.Unmarshal(text, &response); err != nil {
		t.Fatal(err)
	}
	return response
}

// valid checks a file with the schema.
func valid(t *testing.T, file string) {
	t.Helper()
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Skip("xmllint is not installed")
	}
	out, err := exec.Command("xmllint", "--noout", "--nonet", "--schema", "testdata/sra.xsd", file).CombinedOutput()
	if err != nil {
		text, _ := os.ReadFile(file)
		t.Fatalf("%s\n%s", out, text)
	}
}

// done is send for a command that succeeds with everything.
func (s *site) done(t *testing.T, name, parameters string) node {
	t.Helper()
	response := s.send(t, name, parameters)
	if codes := response.codes(); len(codes) > 0 {
		t.Fatalf("%s: errors %v: %+v", name, codes, response)
	}
	return response.Nodes[0]
}

// refused is send for a command that has one error.
func (s *site) refused(t *testing.T, code int, name, parameters string) {
	t.Helper()
	response := s.send(t, name, parameters)
	if codes := response.codes(); len(codes) != 1 || codes[0] != fmt.Sprint(code) {
		t.Errorf("%s: errors %v instead of %d: %+v", name, codes, code, response)
	}
}

// pair is a protection of two volumes in one group, at first from one to two.
type pair struct {
	one, two *site
	// naa of the volumes of each site, once they are known.
	naa map[*site][]string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	for _, program := range []string{"xmllint", "qemu-io"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	first, second := rig.StartPair(t)
	made := &pair{one: newSite(t, first, "iqn.1998-01.com.vmware:one"), two: newSite(t, second, "iqn.1998-01.com.vmware:two"), naa: map[*site][]string{}}
	api := first.API
	must(t, array.Done(api.CreateGroup(t.Context(), array.NewGroup{Name: "app"})))
	must(t, array.Done(api.CreateHost(t.Context(), array.NewHost{Name: "esx-one", Initiators: []string{made.one.initiator}})))
	for _, name := range []string{"data", "log"} {
		volume, err := array.Decode[array.Volume](api.CreateVolume(t.Context(), array.NewVolume{Name: name, Size: nullable.NewNullableWithValue[int64](64 << 20),
			Group: nullable.NewNullableWithValue("app")}))
		must(t, err)
		made.naa[made.one] = append(made.naa[made.one], strings.TrimPrefix(volume.Naa, "naa."))
		must(t, array.Done(api.CreateConnection(t.Context(), array.NewConnection{Volume: name, Host: nullable.NewNullableWithValue("esx-one")})))
	}
	must(t, array.Done(api.CreateReplication(t.Context(), array.NewReplication{Name: "prod", RemoteArray: "second",
		Group: nullable.NewNullableWithValue("app"), RpoSeconds: 3600})))
	return made
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// io runs commands of qemu-io on a volume as the site's host sees it, and reports whether all succeeded.
func (s *site) io(t *testing.T, naa string, commands ...string) bool {
	t.Helper()
	host, err := s.array.API.HostOf(t.Context(), s.initiator)
	if err != nil || host == nil {
		t.Fatalf("no host: %v", err)
	}
	for _, connection := range host.Connections {
		if strings.TrimPrefix(connection.Naa, "naa.") != naa {
			continue
		}
		words := []string{"--image-opts", fmt.Sprintf("driver=iscsi,transport=tcp,portal=%s,target=%s,lun=%d,initiator-name=%s",
			s.array.Portals[0], s.array.Target, connection.Lun, s.initiator)}
		for _, command := range commands {
			words = append(words, "-c", command)
		}
		out, err := exec.Command("qemu-io", words...).CombinedOutput()
		return err == nil && !bytes.Contains(out, []byte("verification failed")) && !bytes.Contains(out, []byte("failed:"))
	}
	t.Fatalf("the host of %s does not see %s: %+v", s.serial, naa, host.Connections)
	return false
}

func write(pattern int) string { return fmt.Sprintf("write -P %d 0 64k", pattern) }
func read(pattern int) string  { return fmt.Sprintf("read -P %d 0 64k", pattern) }

// writeAll writes to every volume of a site, the way an application does.
func (p *pair) writeAll(t *testing.T, at *site, pattern int) {
	t.Helper()
	for _, naa := range p.naa[at] {
		if !at.io(t, naa, write(pattern)) {
			t.Fatalf("%s takes no writes", naa)
		}
	}
}

// reads checks that every volume has the pattern.
func (s *site) reads(t *testing.T, volumes []string, pattern int) {
	t.Helper()
	if len(volumes) != 2 {
		t.Fatalf("%d volumes", len(volumes))
	}
	for _, naa := range volumes {
		if !s.io(t, naa, read(pattern)) {
			t.Fatalf("%s does not have %d", naa, pattern)
		}
	}
}
