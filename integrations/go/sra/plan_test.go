package sra_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ashlar/integrations/array"
)

// arrays are the parameters that name both arrays.
func arrays(at, peer *site) string {
	return fmt.Sprintf("<ArrayId>%s</ArrayId><PeerArrayId>%s</PeerArrayId>", at.serial, peer.serial)
}

// protected is what discovery shows of a replication.
type protected struct {
	id, key string
	devices []string
	keys    []string
}

func sourceGroups(id string) string {
	return fmt.Sprintf("<ConsistencyGroups><ConsistencyGroup id=%q/></ConsistencyGroups>", id)
}

// targetGroups names all devices, which the site's hosts are to get.
func (p protected) targetGroups(at *site) string {
	var devices strings.Builder
	for _, key := range p.keys {
		fmt.Fprintf(&devices, "<TargetDevice key=%q>%s</TargetDevice>", key, toGroup)
	}
	return fmt.Sprintf("<ArrayId>%s</ArrayId>%s<TargetGroups><TargetGroup key=%q isolationRequired=\"false\"><TargetDevices>%s</TargetDevices></TargetGroup></TargetGroups>",
		at.serial, at.accessGroup(), p.key, devices.String())
}

// discover runs the discovery on both sites and checks that they agree about one replication.
func discover(t *testing.T, from, to *site) protected {
	t.Helper()
	for _, it := range [][2]*site{{from, to}, {to, from}} {
		shown := it[0].done(t, "discoverArrays", "").one(t, "Array")
		if shown.attr("id") != it[0].serial || shown.one(t, "PeerArrays", "PeerArray").attr("id") != it[1].serial {
			t.Fatalf("%+v", shown)
		}
	}
	group := from.done(t, "discoverDevices", arrays(from, to)).one(t, "ConsistencyGroups", "ConsistencyGroup")
	found := protected{id: group.attr("id"), key: group.one(t, "TargetGroup").attr("key")}
	for _, device := range group.all("SourceDevices", "SourceDevice") {
		found.devices = append(found.devices, device.attr("id"))
		found.keys = append(found.keys, device.one(t, "TargetDevice").attr("key"))
	}
	other := to.done(t, "discoverDevices", arrays(to, from)).one(t, "TargetGroups", "TargetGroup")
	var keys []string
	for _, device := range other.all("TargetDevices", "TargetDevice") {
		keys = append(keys, device.attr("key"))
	}
	if other.attr("key") != found.key || !slices.Equal(keys, found.keys) || len(keys) != 2 {
		t.Fatalf("the arrays do not agree: %+v %+v", found, other)
	}
	return found
}

// identities returns the devices of the hosts, as an element has them.
func identities(devices []node) []string {
	var found []string
	for _, device := range devices {
		for _, it := range device.all("Identity", "Wwn") {
			found = append(found, it.Text)
		}
	}
	return found
}

// synchronize begins a transfer and asks until it is complete.
func synchronize(t *testing.T, from, to *site, id string) {
	t.Helper()
	parameters := arrays(from, to)
	it := from.done(t, "syncOnce", parameters+sourceGroups(id)).one(t, "ConsistencyGroups", "ConsistencyGroup", "DeviceSync")
	for until := time.Now().Add(2 * time.Minute); it.attr("status") != "complete"; {
		if time.Now().After(until) {
			t.Fatalf("not complete: %+v", it)
		}
		asked := fmt.Sprintf("<ConsistencyGroups><ConsistencyGroup id=%q syncId=%q/></ConsistencyGroups>", id, it.attr("id"))
		it = from.done(t, "querySyncStatus", parameters+asked).one(t, "ConsistencyGroups", "ConsistencyGroup", "DeviceSync")
	}
}

// id of the only replication, before discovery: the target does not know its volumes before the first transfer.
func (p *pair) id(t *testing.T) string {
	t.Helper()
	it, err := array.Decode[array.Replication](p.one.array.API.ShowReplication(t.Context(), "prod"))
	must(t, err)
	return it.ID
}

// recover runs the failover twice, with the same outcome, and returns the devices of the hosts.
func (p *pair) recover(t *testing.T, at *site, it protected) []string {
	t.Helper()
	at.done(t, "checkFailover", it.targetGroups(at))
	var found []string
	for range 2 {
		group := at.done(t, "failover", it.targetGroups(at)).one(t, "TargetGroups", "TargetGroup")
		devices := group.all("TargetDevices", "TargetDevice")
		for _, device := range devices {
			if device.attr("state") != "read-write" || device.attr("id") == "" || len(device.all("RecoveryPoint", "Time")) != 1 {
				t.Fatalf("%+v", device)
			}
		}
		now := identities(devices)
		if found != nil && !slices.Equal(found, now) {
			t.Fatalf("a repeated failover has other devices: %v %v", found, now)
		}
		found = now
	}
	p.naa[at] = found
	return found
}

// migrate is a planned migration: nothing that was written is lost.
func (p *pair) migrate(t *testing.T, from, to *site, it protected, pattern int) {
	t.Helper()
	synchronize(t, from, to, it.id)
	p.writeAll(t, from, pattern)
	for range 2 {
		from.done(t, "prepareFailover", arrays(from, to)+sourceGroups(it.id))
	}
	if from.io(t, p.naa[from][0], write(pattern+1)) {
		t.Fatal("the source takes writes after the preparation")
	}
	group := from.done(t, "discoverDevices", arrays(from, to)).one(t, "ConsistencyGroups", "ConsistencyGroup")
	for _, device := range group.all("SourceDevices", "SourceDevice") {
		if device.attr("state") != "read-only" || len(device.all("Identity")) != 0 {
			t.Fatalf("%+v", device)
		}
	}
	synchronize(t, from, to, it.id)
	to.reads(t, p.recover(t, to, it), pattern)
}

// reprotect protects what was recovered at one site by the other.
func (p *pair) reprotect(t *testing.T, from, to *site, id string) protected {
	t.Helper()
	for range 2 {
		to.done(t, "prepareReverseReplication", arrays(to, from)+sourceGroups(id))
	}
	shown := from.done(t, "discoverDevices", arrays(from, to)).one(t, "TargetGroups", "TargetGroup")
	var devices strings.Builder
	for _, device := range shown.all("TargetDevices", "TargetDevice") {
		fmt.Fprintf(&devices, "<Device id=%q>%s</Device>", device.attr("id"), toGroup)
	}
	group := fmt.Sprintf("<ConsistencyGroups><ConsistencyGroup id=%q><Devices>%s</Devices></ConsistencyGroup></ConsistencyGroups>", id, devices.String())
	for range 2 {
		from.done(t, "reverseReplication", arrays(from, to)+from.accessGroup()+group)
	}
	synchronize(t, from, to, id)
	return discover(t, from, to)
}

func TestATestLeavesTheProtectionAsItIs(t *testing.T) {
	p := newPair(t)
	p.writeAll(t, p.one, 1)
	synchronize(t, p.one, p.two, p.id(t))
	it := discover(t, p.one, p.two)
	shown := p.one.done(t, "discoverDevices", arrays(p.one, p.two)).one(t, "ConsistencyGroups", "ConsistencyGroup")
	if found := identities(shown.all("SourceDevices", "SourceDevice")); !slices.Equal(found, p.naa[p.one]) {
		t.Errorf("devices %v, hosts see %v", found, p.naa[p.one])
	}
	p.writeAll(t, p.one, 2)
	synchronize(t, p.one, p.two, it.id)
	p.two.done(t, "checkTestFailoverStart", it.targetGroups(p.two))
	var clones []string
	for range 2 {
		group := p.two.done(t, "testFailoverStart", it.targetGroups(p.two)).one(t, "TargetGroups", "TargetGroup")
		var snapshots []node
		for _, device := range group.all("TargetDevices", "TargetDevice") {
			snapshots = append(snapshots, device.one(t, "Snapshot"))
		}
		now := identities(snapshots)
		if clones != nil && !slices.Equal(clones, now) {
			t.Fatalf("a repeated command has other clones: %v %v", clones, now)
		}
		clones = now
	}
	p.two.reads(t, clones, 2)
	p.naa[p.two] = clones
	p.writeAll(t, p.two, 3)

	// Discovery shows the clones and their point, also when a newer one is complete.
	shown = p.two.done(t, "discoverDevices", arrays(p.two, p.one))
	before := shown.all("TargetGroups", "TargetGroup", "TargetDevices", "TargetDevice", "Snapshot", "RecoveryPoint")
	p.writeAll(t, p.one, 4)
	synchronize(t, p.one, p.two, it.id)
	shown = p.two.done(t, "discoverDevices", arrays(p.two, p.one))
	after := shown.all("TargetGroups", "TargetGroup", "TargetDevices", "TargetDevice", "Snapshot", "RecoveryPoint")
	if len(after) != 2 || before[0].attr("id") != after[0].attr("id") {
		t.Errorf("%+v %+v", before, after)
	}
	for range 2 {
		p.two.done(t, "testFailoverStop", it.targetGroups(p.two))
	}
	if left, err := p.two.array.API.AllVolumes(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("%v: %+v", err, left)
	}
	p.one.reads(t, p.naa[p.one], 4)
	// The protection continues.
	p.writeAll(t, p.one, 5)
	synchronize(t, p.one, p.two, it.id)
	p.two.done(t, "testFailoverStart", it.targetGroups(p.two))
}

func TestTheSettingsOfTargetsAreAskedFor(t *testing.T) {
	p := newPair(t)
	synchronize(t, p.one, p.two, p.id(t))
	it := discover(t, p.one, p.two)
	keys := func(answer node) []string {
		var found []string
		for _, device := range answer.all("TargetGroups", "TargetGroup", "TargetDevices", "TargetDevice") {
			found = append(found, device.attr("key"))
		}
		return found
	}
	all := p.two.done(t, "queryReplicationSettings", arrays(p.two, p.one))
	if got := all.one(t, "TargetGroups", "TargetGroup").attr("key"); got != it.key || !slices.Equal(keys(all), it.keys) {
		t.Errorf("%+v", all)
	}
	asked := func(key string) string {
		return arrays(p.two, p.one) + fmt.Sprintf("<TargetGroups><TargetGroup key=%q/></TargetGroups>", key)
	}
	if one := p.two.done(t, "queryReplicationSettings", asked(it.key)); !slices.Equal(keys(one), it.keys) {
		t.Errorf("%+v", one)
	}
	// The source has no targets, and no device is replicated without its group.
	if none := p.one.done(t, "queryReplicationSettings", arrays(p.one, p.two)); len(none.Nodes) != 0 {
		t.Errorf("%+v", none)
	}
	p.two.refused(t, 401, "queryReplicationSettings", asked("nothing"))
	single := arrays(p.two, p.one) + fmt.Sprintf("<TargetDevices><TargetDevice key=%q/></TargetDevices>", it.keys[0])
	p.two.refused(t, 411, "queryReplicationSettings", single)
}

func TestAPlannedMigrationLosesNothingAndComesBack(t *testing.T) {
	p := newPair(t)
	home := p.naa[p.one]
	p.writeAll(t, p.one, 1)
	synchronize(t, p.one, p.two, p.id(t))
	it := discover(t, p.one, p.two)

	// A migration that is given up: the source continues.
	p.one.done(t, "prepareFailover", arrays(p.one, p.two)+sourceGroups(it.id))
	for range 2 {
		p.one.done(t, "restoreReplication", arrays(p.one, p.two)+sourceGroups(it.id))
	}
	p.writeAll(t, p.one, 2)

	p.migrate(t, p.one, p.two, it, 10)
	back := p.reprotect(t, p.two, p.one, it.id)
	if back.key == it.key {
		t.Errorf("the key stayed: %s", back.key)
	}
	p.migrate(t, p.two, p.one, back, 20)
	if !slices.Equal(p.naa[p.one], home) {
		t.Errorf("the volumes at home were %v, and are %v", home, p.naa[p.one])
	}
	again := p.reprotect(t, p.one, p.two, it.id)
	p.migrate(t, p.one, p.two, again, 30)
}

func TestADisasterLosesWhatWasNotTransferred(t *testing.T) {
	p := newPair(t)
	p.writeAll(t, p.one, 1)
	synchronize(t, p.one, p.two, p.id(t))
	it := discover(t, p.one, p.two)
	p.writeAll(t, p.one, 2)
	p.one.array.Kill()
	p.one.refused(t, 201, "prepareFailover", arrays(p.one, p.two)+sourceGroups(it.id))
	p.two.reads(t, p.recover(t, p.two, it), 1)
	p.writeAll(t, p.two, 3)

	p.one.array.Restart(t)
	p.one.reads(t, p.naa[p.one], 2)
	back := p.reprotect(t, p.two, p.one, it.id)
	if p.one.io(t, p.naa[p.one][0], write(9)) {
		t.Error("both arrays take writes")
	}
	p.migrate(t, p.two, p.one, back, 20)
	p.writeAll(t, p.one, 21)
}
