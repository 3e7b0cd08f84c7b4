package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ashlar/integrations/sra/image"
)

// unpack returns the files of a tar.
func unpack(t *testing.T, packed io.Reader) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	contents, headers := map[string][]byte{}, map[string]*tar.Header{}
	for in := tar.NewReader(packed); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return contents, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		contents[header.Name], headers[header.Name] = content, header
	}
}

type descriptor struct {
	Digest string
	Size   int
}

// blob returns what a descriptor describes, and checks that it does.
func blob(t *testing.T, files map[string][]byte, it descriptor) []byte {
	t.Helper()
	algorithm, digest, _ := strings.Cut(it.Digest, ":")
	content, there := files["blobs/"+algorithm+"/"+digest]
	sum := sha256.Sum256(content)
	if !there || hex.EncodeToString(sum[:]) != digest || len(content) != it.Size {
		t.Fatalf("%+v: %t, %d bytes", it, there, len(content))
	}
	return content
}

func parse(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// build builds the adapter.
func build(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "command")
	command := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, "ashlar/integrations/cmd/ashlar-sra")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func archive(t *testing.T, program []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	if err := image.Archive(program, "1.2.3", &packed); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

func TestTheImageIsAnOCILayoutWithTheAdapter(t *testing.T) {
	program := build(t)
	packed := archive(t, program)
	if !bytes.Equal(packed, archive(t, program)) || !bytes.Equal(program, build(t)) {
		t.Error("the same sources give other bytes")
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	files, _ := unpack(t, plain)
	var layout struct{ ImageLayoutVersion string }
	parse(t, files["oci-layout"], &layout)
	var index struct{ Manifests []descriptor }
	parse(t, files["index.json"], &index)
	if layout.ImageLayoutVersion != "1.0.0" || len(index.Manifests) != 1 {
		t.Fatalf("%+v %+v", layout, index)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	parse(t, blob(t, files, index.Manifests[0]), &manifest)
	var config struct {
		OS, Architecture string
		Config           struct {
			User, WorkingDir string
			Entrypoint       []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	parse(t, blob(t, files, manifest.Config), &config)
	if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != manifest.Layers[0].Digest || config.Config.User != "srm" {
		t.Fatalf("%+v %+v", manifest, config)
	}
	var loaded []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	parse(t, files["manifest.json"], &loaded)
	if len(loaded) != 1 || loaded[0].RepoTags[0] != "ashlar/sra:1.2.3" || files[loaded[0].Config] == nil || files[loaded[0].Layers[0]] == nil {
		t.Fatalf("%+v", loaded)
	}

	contents, headers := unpack(t, bytes.NewReader(blob(t, files, manifest.Layers[0])))
	if !bytes.Equal(contents[strings.TrimPrefix(config.Config.Entrypoint[0], "/")], program) {
		t.Error("the entry point is not the adapter")
	}
	if headers["srm/sra/conf/"].Uid != 1000 || !strings.Contains(string(contents["etc/passwd"]), "srm:x:1000:") {
		t.Errorf("%+v", headers["srm/sra/conf/"])
	}
	if headers["usr/bin/perl"].Linkname != "/srm/sra/command" {
		t.Errorf("%+v", headers["usr/bin/perl"])
	}
}

func TestThePlainFolderIsStartedByPerl(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not installed")
	}
	folder := filepath.Join(t.TempDir(), "with a space")
	if err := image.Folder(build(t), folder); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out.xml")
	process := exec.Command("perl", filepath.Join(folder, "command.pl"))
	process.Stdin = strings.NewReader(`<Command xmlns="http://www.vmware.com/srm/sra/v2"><Name>queryInfo</Name><OutputFile>` + out + `</OutputFile></Command>`)
	if said, err := process.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if text, err := os.ReadFile(out); err != nil || !bytes.Contains(text, []byte("<AdapterInfo>")) {
		t.Errorf("%v: %s", err, text)
	}
}
