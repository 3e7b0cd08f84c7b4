package practice

import (
	"strings"
	"testing"
)

func TestTheTableIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, setting := range Table {
		if seen[setting.ID] || setting.ID == "" || setting.Title == "" || setting.Why == "" || setting.Severity == "" || setting.Default == "" {
			t.Errorf("%+v", setting)
		}
		seen[setting.ID] = true
		if !setting.Suits(setting.Recommended) {
			t.Errorf("%s does not accept what it recommends", setting.ID)
		}
		if (setting.Kind == Module) != setting.Reboot {
			t.Errorf("%s: parameters of drivers, and nothing else, need a reboot", setting.ID)
		}
	}
}

func TestUnmapTakesOnePercentOfWhatIsFree(t *testing.T) {
	const gib = int64(1) << 30
	for _, it := range []struct {
		capacity, free int64
		want           int64
	}{
		{1024 * gib, 512 * gib, 5242},
		{1024 * gib, 257 * gib, 2631},
		{1024 * gib, 256 * gib, 200},
		{1024 * gib, 0, 200},
		{100 * 1 << 20, 50 * 1 << 20, 1},
		{0, 0, 200},
	} {
		if got := UnmapBlocks(it.capacity, it.free); got != it.want {
			t.Errorf("%+v: %d", it, got)
		}
	}
}

func TestEachReasonOfAHostCopyIsNamed(t *testing.T) {
	good := Copy{SourceBlock: 1024, TargetBlock: 1024, SourceArray: "a", TargetArray: "a", SourceFormat: EagerZeroed, TargetFormat: EagerZeroed, TargetFile: true}
	if why := FallBacks(good); why != nil {
		t.Error(why)
	}
	for want, change := range map[string]func(*Copy){
		"blocks of":        func(it *Copy) { it.TargetBlock = 4096 },
		"raw device":       func(it *Copy) { it.SourceRDM = true },
		"becomes thin":     func(it *Copy) { it.TargetFormat = Thin },
		"snapshots":        func(it *Copy) { it.Snapshots = true },
		"different arrays": func(it *Copy) { it.TargetArray = "b" },
		"no array of ours": func(it *Copy) { it.TargetArray = "" },
	} {
		it := good
		change(&it)
		if why := FallBacks(it); len(why) != 1 || !strings.Contains(why[0], want) {
			t.Errorf("%s: %v", want, why)
		}
	}
}

func TestRulesAreRightOnlyAsAWhole(t *testing.T) {
	right := SATPClaim{SATP: SATP, Vendor: Vendor, PSP: RoundRobin, PSPOptions: "policy=iops,iops=2"}
	if !right.Right() {
		t.Error("a rule without a model and with two I/Os is as good")
	}
	for _, change := range []func(*SATPClaim){
		func(it *SATPClaim) { it.Vendor = "OTHER" }, func(it *SATPClaim) { it.Model = "OTHER" },
		func(it *SATPClaim) { it.PSP = "VMW_PSP_MRU" }, func(it *SATPClaim) { it.PSPOptions = "iops=3" },
		func(it *SATPClaim) { it.PSPOptions = "" }, func(it *SATPClaim) { it.SATP = "VMW_SATP_DEFAULT_AA" },
	} {
		it := right
		change(&it)
		if it.Right() {
			t.Errorf("%+v", it)
		}
	}
}
