package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oapi-codegen/nullable"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/types"

	"ashlar/integrations/vsphere/catalogue"
	"ashlar/integrations/vsphere/vcenter"
)

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func nullableText(text string) nullable.Nullable[string] { return nullable.NewNullableWithValue(text) }

func registered(t *testing.T, client *vcenter.Client) *types.Extension {
	t.Helper()
	manager, err := object.GetExtensionManager(client.Client.Client)
	if err != nil {
		t.Fatal(err)
	}
	found, err := manager.Find(t.Context(), catalogue.Key)
	if err != nil || found == nil {
		t.Fatal(found, err)
	}
	return found
}

func TestTokensOfArraysAreSealedForTheirEntry(t *testing.T) {
	folder := t.TempDir()
	file, keyFile := filepath.Join(folder, "c.json"), filepath.Join(folder, "key")
	key, err := EnsureKey(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := EnsureKey(keyFile); err != nil || again != key {
		t.Fatal("another key", err)
	}
	config, err := ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	entry := Entry{Name: "rack1", URL: "https://10.0.0.1:8080"}
	if err := config.Add(key, entry, "a-secret-token"); err != nil {
		t.Fatal(err)
	}
	if err := config.Write(file); err != nil {
		t.Fatal(err)
	}
	if text := string(read(t, file)); strings.Contains(text, "a-secret-token") {
		t.Error(text)
	}
	for _, it := range []string{file, keyFile} {
		about, err := os.Stat(it)
		if err != nil || about.Mode().Perm() != privateMode {
			t.Error(it, about, err)
		}
	}
	config, err = ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	access, err := config.Arrays[0].access(key)
	if err != nil || access.Token != "a-secret-token" || access.URL != entry.URL {
		t.Error(access, err)
	}
	moved := config.Arrays[0]
	moved.URL = "https://10.6.6.6:8080"
	if _, err := moved.access(key); err == nil {
		t.Error("the token is sent to an address that was changed in the file")
	}
	if _, err := config.Arrays[0].access(Key{}); err == nil {
		t.Error("another key opens it")
	}
	t.Setenv("CREDENTIALS_DIRECTORY", folder)
	if err := os.Rename(keyFile, filepath.Join(folder, CredentialName)); err != nil {
		t.Fatal(err)
	}
	if credential, err := ReadKey(""); err != nil || credential != key {
		t.Error("the service's credential is not read", err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(file); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
}
