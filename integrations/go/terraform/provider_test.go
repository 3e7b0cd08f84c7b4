package terraform

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
)

// acceptance runs steps of configurations by the real program against an array.
func acceptance(t *testing.T, steps func(running *rig.Array) []resource.TestStep) {
	t.Helper()
	program, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("terraform is not installed")
	}
	running := rig.Start(t)
	t.Setenv("TF_ACC", "1")
	t.Setenv("TF_ACC_TERRAFORM_PATH", program)
	t.Setenv("ASHLAR_ARRAY", running.Access.URL)
	t.Setenv("ASHLAR_TOKEN", running.Access.Token)
	t.Setenv("ASHLAR_CERTIFICATE", running.Access.CAFile)
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: map[string]func() (tfprotov6.ProviderServer, error){
			"ashlar": providerserver.NewProtocol6WithError(New()),
		},
		Steps: steps(running),
	})
}

// unchanged is a step whose configuration must make no plan.
func unchanged(config string) resource.TestStep {
	return resource.TestStep{Config: config, ConfigPlanChecks: resource.ConfigPlanChecks{
		PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
	}}
}

func refused(config, why string) resource.TestStep {
	// Terraform breaks lines of errors where it likes.
	pattern := strings.Join(strings.Fields(regexp.QuoteMeta(why)), `\s+(│\s+)?`)
	return resource.TestStep{Config: config, ExpectError: regexp.MustCompile(pattern)}
}

// updated checks that the resource is changed in place.
func updated(address string) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, plancheck.ResourceActionUpdate)}}
}

// on checks what the array has.
func on[T any](t *testing.T, show func() (T, error), check func(T) error) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		found, err := show()
		if err != nil {
			return err
		}
		return check(found)
	}
}

const volumeA = "ashlar_volume.a"

func TestAVolume(t *testing.T) {
	config := func(lines string) string {
		return "resource \"ashlar_volume\" \"a\" {\n" + lines + "\n}"
	}
	free := "\ndeletion_protection = false"
	acceptance(t, func(running *rig.Array) []resource.TestStep {
		show := func(name string) func() (array.Volume, error) {
			return func() (array.Volume, error) {
				return array.Decode[array.Volume](running.API.ShowVolume(t.Context(), name))
			}
		}
		return []resource.TestStep{
			refused(config(`name = "a"`+"\n"+`size = "2 parsecs"`), "is not a size"),
			{
				Config: config("name = \"a\"\nsize = \"1GiB\"\nlabels = {team = \"db\"}\nlimits = {iops = 100, bandwidth = \"10MiB\"}"),
				Check: resource.ComposeTestCheckFunc(
					resource.TestMatchResourceAttr(volumeA, "id", regexp.MustCompile("^[0-9a-f]{32}$")),
					resource.TestCheckResourceAttr(volumeA, "size", "1GiB"),
					resource.TestCheckResourceAttr(volumeA, "block_size", "512"),
					on(t, show("a"), func(volume array.Volume) error {
						if bandwidth, err := volume.Limits.Bandwidth.Get(); err != nil || bandwidth != 10<<20 || volume.Labels["team"] != "db" {
							return fmt.Errorf("%+v", volume)
						}
						return nil
					}),
				),
			},
			// The same size in other words.
			unchanged(config("name = \"a\"\nsize = \"1024 MiB\"\nlabels = {team = \"db\"}\nlimits = {iops = 100, bandwidth = \"10485760\"}")),
			{
				Config:           config("name = \"renamed\"\nsize = \"2GiB\"\nread_only = true\npolicy = {compression = \"high\"}"),
				ConfigPlanChecks: updated(volumeA),
				Check: on(t, show("renamed"), func(volume array.Volume) error {
					if volume.Size != 2<<30 || !volume.ReadOnly || len(volume.Labels) != 0 || !volume.Limits.Iops.IsNull() {
						return fmt.Errorf("%+v", volume)
					}
					return nil
				}),
			},
			refused(config("name = \"renamed\"\nsize = \"1GiB\""), "would destroy the data after the new end"),
			{Config: config("name = \"renamed\"\nsize = \"1GiB\"\nallow_shrink = true"), ConfigPlanChecks: updated(volumeA)},
			// A change on the array is changed back.
			{
				PreConfig: func() {
					change := array.VolumeChange{Name: nullable.NewNullableWithValue("drifted")}
					if err := array.Done(running.API.ChangeVolume(t.Context(), "renamed", change)); err != nil {
						t.Error(err)
					}
				},
				Config: config("name = \"renamed\"\nsize = \"1GiB\"\nallow_shrink = true"), ConfigPlanChecks: updated(volumeA),
			},
			{ResourceName: volumeA, ImportState: true, ImportStateId: "renamed", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"deletion_protection", "eradicate", "allow_shrink"}},
			{ResourceName: volumeA, ImportState: true, ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"deletion_protection", "eradicate", "allow_shrink"}},
			{Config: config("name = \"renamed\"\nsize = \"1GiB\""), Destroy: true, ExpectError: regexp.MustCompile("deletion_protection")},
			{Config: config("name = \"renamed\"\nsize = \"1GiB\"" + free)},
			{
				Config: "# nothing", Check: on(t, func() (array.RecycleBin, error) {
					return array.Decode[array.RecycleBin](running.API.ListRecycleBin(t.Context(), nil))
				}, func(bin array.RecycleBin) error {
					if len(bin.Items) != 1 {
						return fmt.Errorf("%+v", bin)
					}
					return nil
				}),
			},
		}
	})
}

func TestAVolumeThatExistsIsNotTakenOver(t *testing.T) {
	config := "resource \"ashlar_volume\" \"a\" {\nname = \"a\"\nsize = \"1GiB\"\ndeletion_protection = false\n}"
	acceptance(t, func(running *rig.Array) []resource.TestStep {
		made := array.NewVolume{Name: "a", Size: nullable.NewNullableWithValue[int64](1 << 30)}
		if err := array.Done(running.API.CreateVolume(t.Context(), made)); err != nil {
			t.Fatal(err)
		}
		return []resource.TestStep{
			refused(config, "it exists already"),
			{Config: "import {\nto = ashlar_volume.a\nid = \"a\"\n}\n" + config},
			// A volume that is gone is planned again.
			{PreConfig: func() {
				if err := array.Done(running.API.DeleteVolume(t.Context(), "a", nil)); err != nil {
					t.Error(err)
				}
			}, Config: config, ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{
				plancheck.ExpectResourceAction(volumeA, plancheck.ResourceActionCreate)}}},
		}
	})
}

func TestSnapshotsClonesSchedulesAndGroups(t *testing.T) {
	base := `
resource "ashlar_group" "g" {
  name       = "databases"
  soft_quota = "1TiB"
  limits     = { iops = 5000 }
}
resource "ashlar_volume" "a" {
  name                = "a"
  size                = "1GiB"
  group               = ashlar_group.g.name
  deletion_protection = false
}
resource "ashlar_volume_snapshot" "s" {
  volume = ashlar_volume.a.id
  name   = "a.before-upgrade"
  labels = { why = "upgrade" }
}
resource "ashlar_schedule" "nightly" {
  name              = "nightly"
  group             = ashlar_group.g.id
  rules             = [{ when = "daily", keep = %d }]
  immutable_seconds = 3600
}
resource "ashlar_volume" "clone" {
  name                = "clone"
  source              = ashlar_volume_snapshot.s.id
  size                = "3GiB"
  deletion_protection = false
}
data "ashlar_volume" "a" { name = ashlar_volume.a.name }
data "ashlar_volume_snapshot" "s" { name = ashlar_volume_snapshot.s.id }
data "ashlar_group" "g" { name = ashlar_group.g.name }
data "ashlar_schedule" "n" { name = ashlar_schedule.nightly.name }
data "ashlar_array" "this" {}
`
	acceptance(t, func(*rig.Array) []resource.TestStep {
		return []resource.TestStep{
			{Config: fmt.Sprintf(base, 7), Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttr("ashlar_volume.clone", "size", "3GiB"),
				resource.TestCheckResourceAttrPair("data.ashlar_volume.a", "id", volumeA, "id"),
				resource.TestCheckResourceAttrPair("data.ashlar_volume_snapshot.s", "volume", volumeA, "name"),
				resource.TestCheckResourceAttr("data.ashlar_group.g", "limits.iops", "5000"),
				resource.TestCheckResourceAttr("data.ashlar_schedule.n", "rules.0.keep", "7"),
				resource.TestMatchResourceAttr("data.ashlar_array.this", "id", regexp.MustCompile("^[0-9a-f]{16}$")),
			)},
			unchanged(fmt.Sprintf(base, 7)),
			{Config: fmt.Sprintf(base, 14), ConfigPlanChecks: updated("ashlar_schedule.nightly")},
			{ResourceName: "ashlar_volume_snapshot.s", ImportState: true, ImportStateId: "a.before-upgrade", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"deletion_protection", "eradicate", "volume"}},
			{ResourceName: "ashlar_schedule.nightly", ImportState: true, ImportStateId: "nightly", ImportStateVerify: true, ImportStateVerifyIgnore: []string{"group"}},
			{ResourceName: "ashlar_group.g", ImportState: true, ImportStateId: "databases", ImportStateVerify: true},
		}
	})
}

// Secrets of DH-HMAC-CHAP: 32 bytes and their CRC-32 in base64, as nvme-cli makes them.
var dhchapSecrets = [2]string{dhchapSecret(1), dhchapSecret(2)}

func dhchapSecret(seed byte) string {
	key := bytes.Repeat([]byte{seed}, 32)
	return base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint32(key, crc32.ChecksumIEEE(key)))
}

func TestHostsAndConnections(t *testing.T) {
	config := func(secretVersion int, more string) string {
		controllerSecret := "null"
		if secretVersion > 1 {
			controllerSecret = strconv.Quote("DHHC-1:00:" + dhchapSecrets[1] + ":")
		}
		return fmt.Sprintf(`
resource "ashlar_host" "h" {
  name       = "esx-1"
  initiators = ["iqn.2001-04.org.example:esx-1"]
  chap       = { user = "alice", secret = "alice-secret-%d", secret_version = %d }
}
resource "ashlar_host" "i" {
  name       = "esx-2"
  initiators = ["iqn.2001-04.org.example:esx-2", "iqn.2001-04.org.example:esx-2b"]
}
resource "ashlar_host" "n" {
  name   = "nvme-1"
  nqns   = ["nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001"]
  wwpns  = ["21:00:00:24:ff:31:4c:48"]
  dhchap = {
    secret            = "DHHC-1:00:%s:"
    controller_secret = %s
    mutual            = %t
    secret_version    = %d
  }
}
resource "ashlar_host_group" "g" {
  name  = "cluster"
  hosts = [ashlar_host.i.name]
}
resource "ashlar_volume" "a" {
  name                = "a"
  size                = "1GiB"
  deletion_protection = false
}
resource "ashlar_connection" "host" {
  volume = ashlar_volume.a.id
  host   = ashlar_host.h.id
}
resource "ashlar_connection" "group" {
  volume     = ashlar_volume.a.id
  host_group = ashlar_host_group.g.name
  lun        = 42
}
data "ashlar_host" "h" { name = ashlar_host.h.name }
data "ashlar_host_group" "g" { name = ashlar_host_group.g.name }
%s`, secretVersion, secretVersion, dhchapSecrets[0], controllerSecret, secretVersion > 1, secretVersion, more)
	}
	acceptance(t, func(running *rig.Array) []resource.TestStep {
		return []resource.TestStep{
			refused(`resource "ashlar_host" "h" {
name = "x"
initiators = ["iqn.2001-04.org.example:ESX"]
}`, "capitals"),
			refused(`resource "ashlar_host" "h" {
name = "x"
wwpns = ["21000024FF314C48"]
}`, "as the array does"),
			refused(`resource "ashlar_host" "h" { name = "x" }`, "initiator"),
			{Config: config(1, ""), Check: resource.ComposeTestCheckFunc(
				resource.TestCheckResourceAttr("ashlar_connection.host", "lun", "1"),
				resource.TestCheckResourceAttr("ashlar_connection.group", "lun", "42"),
				resource.TestCheckResourceAttr("ashlar_connection.host", "target_iqn", running.Target),
				resource.TestCheckResourceAttr("ashlar_connection.host", "portals.0", running.Portals[0]),
				resource.TestCheckNoResourceAttr("ashlar_host.h", "chap.secret"),
				resource.TestCheckResourceAttr("data.ashlar_host_group.g", "hosts.#", "1"),
				on(t, func() (array.Host, error) {
					return array.Decode[array.Host](running.API.ShowHost(t.Context(), "esx-1"))
				}, func(host array.Host) error {
					if user, err := host.ChapUser.Get(); err != nil || user != "alice" {
						return fmt.Errorf("CHAP user %q", user)
					}
					return nil
				}),
			)},
			unchanged(config(1, "")),
			{Config: config(2, ""), ConfigPlanChecks: updated("ashlar_host.h"), Check: on(t, func() (array.Host, error) {
				return array.Decode[array.Host](running.API.ShowHost(t.Context(), "nvme-1"))
			}, func(host array.Host) error {
				if !host.Dhchap || !host.DhchapController || len(host.Initiators) != 0 || len(host.Nqns) != 1 || len(host.Wwpns) != 1 {
					return fmt.Errorf("the array has %+v", host)
				}
				return nil
			})},
			unchanged(config(2, "")),
			{ResourceName: "ashlar_host.n", ImportState: true, ImportStateId: "nvme-1", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"dhchap.secret_version"}},
			{ResourceName: "ashlar_connection.host", ImportState: true, ImportStateId: "a/esx-1", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"volume", "host"}},
			{ResourceName: "ashlar_connection.group", ImportState: true, ImportStateId: "a/host-groups/cluster", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"volume"}},
			{ResourceName: "ashlar_host.h", ImportState: true, ImportStateId: "esx-1", ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"chap.secret_version"}},
		}
	})
}

func TestTheProviderSaysWhyTheArrayCanNotBeUsed(t *testing.T) {
	acceptance(t, func(running *rig.Array) []resource.TestStep {
		provider := "provider \"ashlar\" {\n%s\n}\ndata \"ashlar_array\" \"this\" {}"
		return []resource.TestStep{
			refused(fmt.Sprintf(provider, `token = "ashlar_revoked"`), "ashlar token create"),
			refused(fmt.Sprintf(provider, `url = "https://127.0.0.1:1"`), "can't be reached"),
			refused(fmt.Sprintf(provider, `url = "array.example.com"`), "is no address of an array"),
		}
	})
}
