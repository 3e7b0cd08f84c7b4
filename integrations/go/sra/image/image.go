// Package image writes the packages of the Storage Replication Adapter: a plain folder, and an image for the appliance of Site
// Recovery Manager, without a container engine. The same program gives the same bytes.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	// folder of an adapter in the appliance, and its user there.
	folder = "srm/sra"
	userID = 1000
	// Media types (OCI image specification 1.1).
	layerType    = "application/vnd.oci.image.layer.v1.tar"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// wrapper is what Site Recovery Manager starts with Perl.
const wrapper = `#!/usr/bin/perl
use strict;
use warnings;
use FindBin;
exec {"$FindBin::Bin/command"} "command" or die "the adapter can't be started: $!\n";
`

const users = "root:x:0:0:root:/root:/sbin/nologin\nsrm:x:1000:1000:Site Recovery Manager:/srm/sra:/sbin/nologin\n"
const groups = "root:x:0:\nsrm:x:1000:\n"

// entry of the file system; without content it is a directory, or a link.
type entry struct {
	name    string
	mode    int64
	owner   int
	content []byte
	link    string
}

// Folder writes the plain form into a folder, which is created.
func Folder(program []byte, into string) error {
	if err := os.MkdirAll(filepath.Join(into, "conf"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(into, "command"), program, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(into, "command.pl"), []byte(wrapper), 0o755)
}

// Archive writes the image: an OCI layout in a .tar.gz, with the list of images that `docker load` reads as well.
func Archive(program []byte, version string, out io.Writer) error {
	layer, err := pack(files(program))
	if err != nil {
		return err
	}
	blobs := map[string][]byte{}
	add := func(content []byte) string {
		sum := sha256.Sum256(content)
		digest := hex.EncodeToString(sum[:])
		blobs[digest] = content
		return digest
	}
	layerSum := add(layer)
	config, err := json.Marshal(configuration(layerSum))
	if err != nil {
		return err
	}
	configSum := add(config)
	manifest, err := json.Marshal(object{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": descriptor(configType, configSum, config),
		"layers": []object{descriptor(layerType, layerSum, layer)},
	})
	if err != nil {
		return err
	}
	manifestSum := add(manifest)
	entries, err := layout(version, blobs, layerSum, configSum, manifestSum)
	if err != nil {
		return err
	}
	packed, err := pack(entries)
	if err != nil {
		return err
	}
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := compressed.Write(packed); err != nil {
		return err
	}
	return compressed.Close()
}

type object map[string]any

func descriptor(kind, digest string, content []byte) object {
	return object{"mediaType": kind, "digest": "sha256:" + digest, "size": len(content)}
}

// configuration of the image. Its layer is not compressed, so that digest and content are one.
func configuration(layer string) object {
	return object{
		"created": "1970-01-01T00:00:00Z", "architecture": "amd64", "os": "linux",
		"config": object{"User": "srm", "WorkingDir": "/" + folder, "Entrypoint": []string{"/" + folder + "/command"},
			"Env": []string{"PATH=/usr/bin"}},
		"rootfs":  object{"type": "layers", "diff_ids": []string{"sha256:" + layer}},
		"history": []object{{"created": "1970-01-01T00:00:00Z", "created_by": "ashlar-sra-package"}},
	}
}

// files of the image. There is no Perl: where the appliance starts it with command.pl, it starts the adapter.
func files(program []byte) []entry {
	return []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: []byte(groups)},
		{name: "etc/passwd", mode: 0o644, content: []byte(users)},
		{name: "srm/", mode: 0o755},
		{name: folder + "/", mode: 0o755, owner: userID},
		{name: folder + "/command", mode: 0o755, content: program},
		{name: folder + "/command.pl", mode: 0o755, content: []byte(wrapper)},
		{name: folder + "/conf/", mode: 0o755, owner: userID},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/perl", mode: 0o777, link: "/" + folder + "/command"},
	}
}

// layout returns the files of the archive.
func layout(version string, blobs map[string][]byte, layer, config, manifest string) ([]entry, error) {
	name := "ashlar/sra:" + version
	found := descriptor(manifestType, manifest, blobs[manifest])
	found["platform"] = object{"architecture": "amd64", "os": "linux"}
	found["annotations"] = object{"io.containerd.image.name": "docker.io/" + name, "org.opencontainers.image.ref.name": version}
	index, err := json.Marshal(object{"schemaVersion": 2, "mediaType": indexType, "manifests": []object{found}})
	if err != nil {
		return nil, err
	}
	images, err := json.Marshal([]object{{"Config": "blobs/sha256/" + config, "RepoTags": []string{name},
		"Layers": []string{"blobs/sha256/" + layer}}})
	if err != nil {
		return nil, err
	}
	entries := []entry{{name: "blobs/", mode: 0o755}, {name: "blobs/sha256/", mode: 0o755}}
	for _, digest := range []string{config, layer, manifest} {
		entries = append(entries, entry{name: "blobs/sha256/" + digest, mode: 0o644, content: blobs[digest]})
	}
	return append(entries,
		entry{name: "index.json", mode: 0o644, content: index},
		entry{name: "manifest.json", mode: 0o644, content: images},
		entry{name: "oci-layout", mode: 0o644, content: []byte(`{"imageLayoutVersion":"1.0.0"}`)}), nil
}

// pack writes files as a tar, without times.
func pack(entries []entry) ([]byte, error) {
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	for _, it := range entries {
		header := &tar.Header{Name: it.name, Mode: it.mode, Uid: it.owner, Gid: it.owner, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
			Typeflag: tar.TypeReg, Size: int64(len(it.content)), Linkname: it.link}
		switch {
		case it.link != "":
			header.Typeflag = tar.TypeSymlink
		case it.name[len(it.name)-1] == '/':
			header.Typeflag = tar.TypeDir
		}
		if err := out.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("%s: %w", it.name, err)
		}
		if _, err := out.Write(it.content); err != nil {
			return nil, fmt.Errorf("%s: %w", it.name, err)
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}
