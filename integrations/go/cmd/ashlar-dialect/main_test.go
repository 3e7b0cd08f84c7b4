package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ashlar/integrations/rig"
	"ashlar/integrations/vsphere/plugin"
)

func TestTheServerShowsItsCertificateUntilItIsInterrupted(t *testing.T) {
	on, folder := rig.Start(t), t.TempDir()
	certificate, key := filepath.Join(folder, "pem"), filepath.Join(folder, "key")
	if _, err := plugin.EnsureCertificate(certificate, key, []string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	words := []string{"k2", "--listen", "127.0.0.1:0", "--array", on.Access.URL, "--array-certificate", on.Access.CAFile}
	if err := perform(t.Context(), words); err == nil {
		t.Error("it serves without a certificate")
	}
	said, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = out
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- perform(ctx, append(words, "--tls-certificate", certificate, "--tls-key", key))
		_ = out.Close()
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
	for token, wanted := range map[string]int{on.Access.Token: http.StatusOK, "wrong": http.StatusUnauthorized} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSpace(strings.TrimPrefix(line, "serving "))+"/api/v2", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth("admin", token)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != wanted || response.Header.Get("Server") != "" {
			t.Error(response.StatusCode, response.Header)
		}
		_ = response.Body.Close()
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
