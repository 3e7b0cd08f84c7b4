package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ashlar/integrations/rig"
	"ashlar/integrations/vsphere/plugin"
	"ashlar/integrations/vsphere/vsim"
)

func TestThePluginIsServedWithArraysOfItsConfigurationUntilItIsInterrupted(t *testing.T) {
	on, v, folder := rig.Start(t), vsim.Start(t, 1), t.TempDir()
	t.Setenv("VSPHERE_SERVER", v.Address)
	t.Setenv("VSPHERE_THUMBPRINT", v.Thumbprint)
	t.Setenv("ASHLAR_TOKEN", on.Access.Token)
	kept := []string{"--config", filepath.Join(folder, "arrays.json"), "--key-file", filepath.Join(folder, "key")}
	step := func(words ...string) string {
		t.Helper()
		text, _, err := run(t, append(words, kept...)...)
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return text
	}
	step("arrays", "add", "rack1", "--array", on.Access.URL, "--array-certificate", on.Access.CAFile)
	step("arrays", "add", "rack2", "--array", on.Access.URL, "--array-certificate", on.Access.CAFile)
	step("arrays", "remove", "rack2")
	if text := step("arrays", "list"); !strings.Contains(text, "rack1") || strings.Contains(text, "rack2") {
		t.Error(text)
	}
	t.Setenv("ASHLAR_TOKEN", "wrong")
	if _, _, err := run(t, append([]string{"arrays", "add", "rack3", "--array", on.Access.URL}, kept...)...); err == nil {
		t.Error("an array was added that refuses the token")
	}
	certificate := filepath.Join(folder, "plugin.pem")
	said, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = out
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := perform(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--name", "127.0.0.1", "--tls-certificate", certificate,
			"--tls-key", filepath.Join(folder, "plugin.key")}, kept...))
		_ = out.Close()
		ended <- err
	}()
	line, err := bufio.NewReader(said).ReadString('\n')
	os.Stdout = before
	if err != nil {
		t.Fatal(err, <-ended)
	}
	pem, err := os.ReadFile(certificate)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	response, err := client.Get(strings.TrimSpace(strings.TrimPrefix(line, "serving ")))
	if err != nil {
		t.Fatal(err)
	}
	var manifest map[string]any
	if err := json.NewDecoder(response.Body).Decode(&manifest); err != nil || len(manifest) != len(plugin.Manifest()) {
		t.Error(manifest, err)
	}
	_ = response.Body.Close()
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestVCentersAreAddedByTheirCertificateAndEachOnce(t *testing.T) {
	one, two := vsim.Start(t, 1), vsim.Start(t, 1)
	file := filepath.Join(t.TempDir(), "arrays.json")
	do := func(words ...string) (string, error) {
		t.Helper()
		text, _, err := run(t, append(append([]string{"vcenters"}, words...), "--config", file)...)
		return text, err
	}
	if _, err := do("add", one.Address, "--thumbprint", strings.Repeat("ab", 32)); err == nil || !strings.Contains(err.Error(), "not the pinned one") {
		t.Error(err)
	}
	if text, err := do("list"); err != nil || strings.Contains(text, one.Address) {
		t.Error("a vCenter with another certificate was added", text, err)
	}
	for _, it := range []*vsim.VCenter{one, two, one} {
		if _, err := do("add", it.Address, "--thumbprint", it.Thumbprint); err != nil {
			t.Fatal(err)
		}
	}
	text, err := do("list")
	if err != nil || strings.Count(text, one.ID()) != 1 || strings.Count(text, two.ID()) != 1 {
		t.Error(text, err)
	}
	if _, err := do("add", one.Address, "--thumbprint", one.Thumbprint, "--arrays", "rack9"); err == nil || !strings.Contains(err.Error(), "rack9") {
		t.Error(err)
	}
	if _, _, err := run(t, "serve", "--config", file, "--vcenter", one.Address); err == nil || !strings.Contains(err.Error(), "leave out --vcenter") {
		t.Error(err)
	}
	if _, err := do("remove", two.Address); err != nil {
		t.Error(err)
	}
	if _, err := do("remove", two.Address); err == nil || !strings.Contains(err.Error(), "has no vCenter") {
		t.Error(err)
	}
}
