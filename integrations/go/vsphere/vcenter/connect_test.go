package vcenter_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ashlar/integrations/vsphere/vcenter"
	"ashlar/integrations/vsphere/vsim"
)

func TestOnlyThePinnedCertificateIsAccepted(t *testing.T) {
	v := vsim.Start(t, 1)
	access := vcenter.Access{Address: v.Address, User: vsim.User, Password: vsim.Password}
	for thumbprint, want := range map[string]string{
		"":                            "is not trusted",
		strings.Repeat("ab", 32):      "not the pinned one",
		"ab:cd":                       "no SHA-256 thumbprint",
		strings.ToUpper(v.Thumbprint): "",
		v.Thumbprint[:32] + "00" + v.Thumbprint[34:]: "not the pinned one",
	} {
		access.Thumbprint = thumbprint
		client, err := vcenter.Connect(t.Context(), access)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", thumbprint, err)
			} else {
				client.Close()
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", thumbprint, err, want)
		}
	}
}

func TestAPasswordThatOthersCanReadIsRefused(t *testing.T) {
	v := vsim.Start(t, 1)
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(vsim.Password+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	access := vcenter.Access{Address: v.Address, User: vsim.User, PasswordFile: file, Thumbprint: v.Thumbprint}
	if _, err := vcenter.Connect(t.Context(), access); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := vcenter.Connect(t.Context(), access)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
	// A service of systemd has it as a credential.
	folder := t.TempDir()
	t.Setenv("CREDENTIALS_DIRECTORY", folder)
	if err := os.WriteFile(filepath.Join(folder, vcenter.CredentialName), []byte(vsim.Password+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	access.PasswordFile = ""
	if client, err = vcenter.Connect(t.Context(), access); err != nil {
		t.Fatal(err)
	}
	client.Close()
	t.Setenv("CREDENTIALS_DIRECTORY", t.TempDir())
	access.PasswordFile, access.Password = "", ""
	if _, err := vcenter.Connect(t.Context(), access); err == nil {
		t.Error("no password was accepted")
	}
}

func TestNamesThatAreNotThereAndAddressesThatAreNoneAreNamed(t *testing.T) {
	v := vsim.Start(t, 1)
	client, err := vcenter.Connect(t.Context(), vcenter.Access{Address: v.Address, User: vsim.User, Password: vsim.Password, Thumbprint: v.Thumbprint})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, scope := range []vcenter.Scope{{Host: "unknown"}, {Cluster: "/DC0/host/nothing"}, {Datacenter: "DC9"}, {}} {
		if _, err := client.Hosts(t.Context(), scope); err == nil {
			t.Errorf("%+v was found", scope)
		}
	}
	for _, scope := range []vcenter.Scope{{Host: v.Hosts[0].System.Name}, {Cluster: "/DC0/host/DC0_C0"}, {Datacenter: vsim.Datacenter}} {
		if hosts, err := client.Hosts(t.Context(), scope); err != nil || len(hosts) != 1 {
			t.Errorf("%+v: %v", scope, err)
		}
	}
	for _, address := range []string{"", "://", "127.0.0.1:1"} {
		if _, err := vcenter.Connect(t.Context(), vcenter.Access{Address: address, User: "a", Password: "b"}); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
}
