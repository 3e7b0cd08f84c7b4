// Package site is a running array with a simulated vCenter whose hosts see what the array connects to them, for tests.
package site

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"ashlar/integrations/array"
	"ashlar/integrations/rig"
	"ashlar/integrations/vsphere/vcenter"
	"ashlar/integrations/vsphere/vsim"
)

// Site is an array with a vCenter.
type Site struct {
	V      *vsim.VCenter
	Array  *rig.Array
	Client *vcenter.Client
}

// Start starts both, with three hosts whose iSCSI adapters are on, and ends them with the test.
func Start(t testing.TB) *Site {
	t.Helper()
	made := &Site{Array: rig.Start(t), V: vsim.Start(t, 3)}
	made.V.Units = func(initiator string) []vsim.Unit { return units(made.Array.API, initiator) }
	for _, host := range made.V.Hosts {
		host.EnableISCSI(true)
	}
	client, err := vcenter.Connect(t.Context(), vcenter.Access{Address: made.V.Address, User: vsim.User, Password: vsim.Password,
		Thumbprint: made.V.Thumbprint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	made.Client = client
	return made
}

func canonical(naa string) string { return "naa." + strings.TrimPrefix(strings.ToLower(naa), "naa.") }

// units are what the array shows to an initiator.
func units(api *array.API, initiator string) []vsim.Unit {
	ctx := context.Background()
	host, err := api.HostOf(ctx, initiator)
	if err != nil || host == nil {
		return nil
	}
	volumes, err := api.AllVolumes(ctx, "")
	if err != nil {
		return nil
	}
	names := map[string]string{}
	for _, volume := range volumes {
		names[volume.ID] = canonical(volume.Naa)
	}
	var shown []vsim.Unit
	for _, connection := range host.Connections {
		for _, volume := range volumes {
			if volume.ID == connection.VolumeID {
				source, _ := volume.SourceID.Get()
				if snapshot, err := array.Decode[array.Snapshot](api.ShowSnapshot(ctx, source)); source != "" && err == nil {
					source = snapshot.SourceID
				}
				shown = append(shown, vsim.Unit{Name: names[volume.ID], Bytes: volume.Size, CopyOf: names[source]})
			}
		}
	}
	return shown
}

// IO does what commands of qemu-io say on a LUN, as an initiator. The test is skipped without qemu-io.
func (s *Site) IO(t testing.TB, initiator string, lun int, commands ...string) {
	t.Helper()
	program, err := exec.LookPath("qemu-io")
	if err != nil {
		t.Skip("qemu-io is not installed")
	}
	words := []string{"--image-opts", "driver=iscsi,transport=tcp,portal=" + s.Array.Portals[0] + ",target=" + s.Array.Target +
		",lun=" + strconv.Itoa(lun) + ",initiator-name=" + initiator}
	for _, command := range commands {
		words = append(words, "-c", command)
	}
	if out, err := exec.CommandContext(t.Context(), program, words...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
