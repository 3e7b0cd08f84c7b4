package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileIsReadOnlyIfOthersCanNot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o600: "", 0o400: "", 0o640: "chmod 600", 0o604: "chmod 600", 0o620: "chmod 600"} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		read, err := Read(file)
		if want == "" && (err != nil || string(read) != "sesame\n") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%o: %q %v", mode, read, err)
		}
	}
	if _, err := Read(filepath.Dir(file)); err == nil || !strings.Contains(err.Error(), "is no file") {
		t.Error(err)
	}
	if _, err := Read(file + "s"); !os.IsNotExist(err) {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	if err := os.Chown(file, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file); err == nil || !strings.Contains(err.Error(), "another user") {
		t.Error(err)
	}
}

func TestACredentialIsThatOfTheService(t *testing.T) {
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if _, given, err := Credential("password"); given || err != nil {
		t.Error(given, err)
	}
	folder := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", folder)
	if _, given, err := Credential("password"); given || err != nil {
		t.Error(given, err)
	}
	// systemd gives the service's user access by an access control list, which shows as a permission of the group.
	if err := os.WriteFile(filepath.Join(folder, "password"), []byte("sesame"), 0o440); err != nil {
		t.Fatal(err)
	}
	if content, given, err := Credential("password"); !given || err != nil || string(content) != "sesame" {
		t.Error(string(content), given, err)
	}
}
