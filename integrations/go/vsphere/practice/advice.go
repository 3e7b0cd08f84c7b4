package practice

import "fmt"

// Limits of the UNMAP block count.
const (
	unmapFullPercent       = 75
	unmapFullBlocks        = 200
	unmapFreeDivisor       = 100
	bytesOfMB        int64 = 1 << 20
)

// UnmapBlocks returns how many blocks of 1 MB one pass of `esxcli storage vmfs unmap` takes: at most 1 % of the free
// megabytes, and 200 on a datastore of which three quarters are in use. Sizes are in bytes. The smallest is 1.
func UnmapBlocks(capacity, free int64) int64 {
	if capacity <= 0 || (capacity-free)*100 >= capacity*unmapFullPercent {
		return unmapFullBlocks
	}
	return max(free/bytesOfMB/unmapFreeDivisor, 1)
}

// Copy is a copy or move of a virtual disk, as far as hardware acceleration depends on it.
type Copy struct {
	// Label names the disk.
	Label string
	// SourceBlock and TargetBlock are the block sizes of the file systems in KiB; 0: not VMFS.
	SourceBlock, TargetBlock int
	// SourceRDM: the disk is a raw device mapping; TargetFile: it becomes a file.
	SourceRDM, TargetFile bool
	// SourceFormat and TargetFormat of the disk.
	SourceFormat, TargetFormat string
	Snapshots                  bool
	// SourceArray and TargetArray identify arrays; empty: none of ours.
	SourceArray, TargetArray string
}

// FallBacks returns why the host copies the data itself instead of asking the array; none: the array copies.
func FallBacks(it Copy) []string {
	var why []string
	add := func(holds bool, format string, values ...any) {
		if holds {
			why = append(why, fmt.Sprintf(format, values...))
		}
	}
	add(it.SourceArray == "" || it.TargetArray == "", "source or destination is on no array of ours: XCOPY works within one array")
	add(it.SourceArray != "" && it.TargetArray != "" && it.SourceArray != it.TargetArray,
		"source and destination are on different arrays: XCOPY works within one array")
	add(it.SourceBlock != it.TargetBlock && it.SourceBlock != 0 && it.TargetBlock != 0,
		"the file systems have blocks of %d KiB and %d KiB: create the destination with the same block size", it.SourceBlock, it.TargetBlock)
	add(it.SourceRDM && it.TargetFile, "a raw device mapping becomes a file: copy the volume on the array instead")
	add(it.SourceFormat == EagerZeroed && it.TargetFormat == Thin, "an eager-zeroed disk becomes thin: keep the format")
	add(it.Snapshots, "the virtual machine has snapshots: delete or consolidate them first")
	return why
}
