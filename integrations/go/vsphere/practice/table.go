// Package practice is the table of settings of VMware hosts that are right for an array, and the rules that compare a host
// with it. It does no I/O: hosts are read and changed by package esxi, and scripts are written from the same table.
package practice

import "strconv"

// Names by which devices of an array are recognized (INQUIRY data).
const (
	Vendor  = "ASHLAR"
	Product = "ALL-FLASH ARRAY"
)

// Scope is what a setting belongs to.
type Scope string

const (
	// Host settings exist once on a host.
	Host Scope = "host"
	// Device settings exist for each volume on each host, and must be equal across a cluster.
	Device Scope = "volume and host"
	// Machine settings belong to virtual machines.
	Machine Scope = "virtual machine"
	// Command is for parameters of a command that an administrator gives.
	Command Scope = "command"
)

// Severity is how much a deviation matters.
type Severity string

const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

// Kind is where a setting is kept, which decides how it is read, changed and written in a script.
type Kind int

const (
	// Option is an advanced option of the host.
	Option Kind = iota
	// SATPRule is a claim rule of native multipathing.
	SATPRule
	// VAAIRule is a claim rule of the VAAI plug-ins.
	VAAIRule
	// PathPolicy is the path selection policy of a device that is claimed already.
	PathPolicy
	// PathSwitch is the number of I/Os after which round robin takes the next path.
	PathSwitch
	// Outstanding is the number of I/Os of a device with competing virtual machines.
	Outstanding
	// Module is a parameter of a driver; it takes effect after a reboot.
	Module
	// Software is the software iSCSI adapter being on.
	Software
	// Discovery is the dynamic discovery of the array's portals.
	Discovery
	// CHAP is the user that the host presents to the array.
	CHAP
	// ISCSI is an advanced option of the software iSCSI adapter.
	ISCSI
	// Manual settings are read and explained; a person changes them.
	Manual
)

// Setting is a row of the table.
type Setting struct {
	// ID is the name for commands and reports.
	ID    string
	Title string
	Scope Scope
	Kind  Kind
	// Key is the name of the option or parameter where it is kept, in vSphere's spelling.
	Key string
	// Driver is the kernel module of a Module; hosts without it have nothing to set.
	Driver string
	// Default of vSphere and the recommended value, as vSphere writes them.
	Default, Recommended string
	// Range is the inclusive range of numbers that are as good as the recommended value; zero: none.
	Range    [2]int64
	Why      string
	Severity Severity
	// Reboot: the host must be restarted after the change.
	Reboot bool
	// Optional settings are changed only if they are named, because they concern other arrays as well.
	Optional bool
}

// IDs that code refers to.
const (
	IDPathPolicy  = "path-policy"
	IDPathSwitch  = "path-switch"
	IDOutstanding = "outstanding-io"
	IDPaths       = "paths"
	IDOffload     = "vaai-support"
	IDDisks       = "virtual-disks"
	IDUnmap       = "unmap-block-count"
)

// Values of vSphere that the table and scripts use.
const (
	RoundRobin = "VMW_PSP_RR"
	SATP       = "VMW_SATP_ALUA"
	PSPOption  = "iops=1"
	VAAIPlugin = "VMW_VAAIP_T10"
	// VAAIRuleNumber is a free number of user rules: 101 to 65435.
	VAAIRuleNumber = 911
	// TransferKiB is the most that one EXTENDED COPY command moves.
	TransferKiB = 16384
	// MinPaths: two ports on each of two controllers.
	MinPaths = 4
)

const (
	copyWhy  = "The array copies, zeroes and locks by itself. Off, the host does the same through its own ports."
	queueWhy = "The value concerns every array on the adapter: change it only if this array is the main one."
)

// Table is every setting.
var Table = []Setting{
	{ID: "satp-rule", Title: "Claim rule for multipathing", Scope: Host, Kind: SATPRule, Default: "none",
		Recommended: SATP + " " + RoundRobin + " " + PSPOption, Severity: Critical,
		Why: "Devices of the array are claimed with round robin from the moment they appear. Without the rule each new volume begins with vSphere's default of 1000 I/Os for a path."},
	{ID: "vaai-rule", Title: "Claim rule for hardware acceleration", Scope: Host, Kind: VAAIRule, Default: "none",
		Recommended: VAAIPlugin + " " + strconv.Itoa(TransferKiB) + " KiB", Severity: Warning,
		Why: "EXTENDED COPY commands carry as much as the array says it can copy, instead of DataMover.MaxHWTransferSize. A clone then needs fewer commands."},
	{ID: IDPathPolicy, Title: "Path selection policy", Scope: Device, Kind: PathPolicy, Default: "VMW_PSP_FIXED",
		Recommended: RoundRobin, Severity: Critical,
		Why: "With a fixed or most recently used path one port does all the work and the others wait."},
	{ID: IDPathSwitch, Title: "I/Os before the next path", Scope: Device, Kind: PathSwitch, Default: "1000",
		Recommended: "1", Range: [2]int64{1, 2}, Severity: Warning,
		Why: "A thousand I/Os on one path fill its queue while other paths are idle, and a path that fails is noticed late."},
	{ID: IDOutstanding, Title: "Outstanding I/Os with competing virtual machines", Scope: Device, Kind: Outstanding,
		Key: "Disk.SchedNumReqOutstanding", Default: "32", Recommended: "256", Severity: Warning,
		Why: "As soon as two virtual machines share a volume the host sends no more than this many I/Os at once. It must be equal on all hosts of a cluster, or machines change speed when they move."},
	{ID: "sched-quantum", Title: "Consecutive I/Os of one virtual machine", Scope: Host, Kind: Option,
		Key: "Disk.SchedQuantum", Default: "8", Recommended: "64", Severity: Info,
		Why: "Sequential I/Os of one machine stay together; on flash a longer turn costs the others nothing they notice."},
	{ID: "vaai-move", Title: "Hardware accelerated copy (XCOPY)", Scope: Host, Kind: Option,
		Key: "DataMover.HardwareAcceleratedMove", Default: "1", Recommended: "1", Severity: Critical, Why: copyWhy},
	{ID: "vaai-init", Title: "Hardware accelerated zeroing (WRITE SAME)", Scope: Host, Kind: Option,
		Key: "DataMover.HardwareAcceleratedInit", Default: "1", Recommended: "1", Severity: Critical, Why: copyWhy},
	{ID: "vaai-locking", Title: "Hardware assisted locking (ATS)", Scope: Host, Kind: Option,
		Key: "VMFS3.HardwareAcceleratedLocking", Default: "1", Recommended: "1", Severity: Critical,
		Why: "Without ATS each change of metadata reserves the whole volume. Datastores that were created with ATS alone can't be mounted at all."},
	{ID: "ats-heartbeat", Title: "Heartbeat of VMFS by ATS", Scope: Host, Kind: Option,
		Key: "VMFS3.UseATSForHBOnVMFS5", Default: "1", Recommended: "1", Severity: Warning,
		Why: "All hosts must use the same kind of heartbeat, and the array supports ATS."},
	{ID: "block-delete", Title: "UNMAP from guests (ESXi 6.x, VMFS-5)", Scope: Host, Kind: Option,
		Key: "VMFS3.EnableBlockDelete", Default: "0", Recommended: "1", Severity: Info,
		Why: "What guests delete on thin disks is given back to the array."},
	{ID: "max-hw-transfer", Title: "Largest accelerated copy", Scope: Host, Kind: Option,
		Key: "DataMover.MaxHWTransferSize", Default: "4096", Recommended: strconv.Itoa(TransferKiB), Severity: Warning,
		Why: "In KiB. Larger copies need fewer commands; the array shares the blocks and moves no data."},
	{ID: IDUnmap, Title: "Blocks for each UNMAP pass (ESXi 5.5 and later, VMFS-5)", Scope: Command, Kind: Manual,
		Default: "200", Recommended: "1 % of free MB at most, rounded down; 200 if 75 % or more are in use", Severity: Info,
		Why: "`esxcli storage vmfs unmap` fills that much of the datastore with a temporary file in each pass. `ashlar-vsphere datastore unmap` computes it."},
	{ID: "qlogic-queue-depth", Title: "QLogic: queue depth of a LUN", Scope: Host, Kind: Module, Driver: "qlnativefc",
		Key: "ql2xmaxqdepth", Default: "64", Recommended: "400", Severity: Info, Reboot: true, Optional: true, Why: queueWhy},
	{ID: "qlogic-operation-mode", Title: "QLogic: interrupt mode", Scope: Host, Kind: Module, Driver: "qlnativefc",
		Key: "ql2xoperationmode", Default: "1", Recommended: "6", Severity: Info, Reboot: true, Optional: true, Why: queueWhy},
	{ID: "qlogic-interrupt-delay", Title: "QLogic: interrupt delay", Scope: Host, Kind: Module, Driver: "qlnativefc",
		Key: "ql2xintrdelaytimer", Default: "100", Recommended: "1", Severity: Info, Reboot: true, Optional: true, Why: queueWhy},
	{ID: "emulex-queue-depth", Title: "Emulex: queue depth of a LUN", Scope: Host, Kind: Module, Driver: "lpfc",
		Key: "lpfc_lun_queue_depth", Default: "30", Recommended: "128", Range: [2]int64{30, 128}, Severity: Info, Reboot: true, Optional: true,
		Why: "128 for transactions, 64 for analytics. " + queueWhy},
	{ID: "iscsi-software", Title: "Software iSCSI adapter", Scope: Host, Kind: Software, Default: "off", Recommended: "on",
		Severity: Critical, Why: "The host has no other adapter that reaches the array's portals."},
	{ID: "iscsi-discovery", Title: "Dynamic discovery of the array's portals", Scope: Host, Kind: Discovery, Default: "none",
		Recommended: "every portal", Severity: Critical,
		Why: "Portals of the array that are not among the host's send targets are paths that are missing."},
	{ID: "iscsi-chap", Title: "CHAP user of the host", Scope: Host, Kind: CHAP, Default: "none", Recommended: "as on the array",
		Severity: Warning, Why: "The array refuses the log-in of a host that must authenticate and does not."},
	{ID: "iscsi-delayed-ack", Title: "Delayed acknowledgement", Scope: Host, Kind: ISCSI, Key: "DelayedAck", Default: "true",
		Recommended: "false", Severity: Info,
		Why: "After a lost packet, delayed acknowledgements make reads wait for up to 200 ms at a time. A restart of the host or of its sessions is needed for those that exist."},
	{ID: "iscsi-login-timeout", Title: "Log-in time-out", Scope: Host, Kind: ISCSI, Key: "LoginTimeout", Default: "5",
		Recommended: "30", Range: [2]int64{30, 60}, Severity: Info,
		Why: "In seconds. With a short one many hosts that start together give up and begin again."},
	{ID: IDPaths, Title: "Paths of a volume", Scope: Device, Kind: Manual, Default: "-",
		Recommended: "at least 4", Severity: Warning,
		Why: "Two ports of the host to each of two controllers: one may fail while the other is being serviced. With ports in one subnet bind each VMkernel adapter to the software adapter (port binding); with ports in several subnets do not."},
	{ID: IDOffload, Title: "Hardware acceleration of a volume", Scope: Device, Kind: Manual, Default: "-",
		Recommended: "ATS, Clone, Zero, Delete supported", Severity: Warning,
		Why: "A primitive that is not supported was switched off on the host, or the volume was claimed by another plug-in: rescan, and look at the claim rules."},
	{ID: IDDisks, Title: "Format of virtual disks", Scope: Machine, Kind: Manual, Default: "lazy-zeroed or thin",
		Recommended: "eager-zeroed for databases", Severity: Info,
		Why: "The first write to a block of a thin or lazy-zeroed disk also zeroes it, which latency-critical databases notice. Zeros take no space on the array, so eager-zeroed disks cost nothing. Before vSphere 6 templates must not be thin: XCOPY does not work on them."},
}

// Find returns the setting with an id.
func Find(id string) (Setting, bool) {
	for _, setting := range Table {
		if setting.ID == id {
			return setting, true
		}
	}
	return Setting{}, false
}

// Changeable reports whether `apply` can change a setting.
func (s Setting) Changeable() bool { return s.Kind != Manual }

// Suits reports whether a value is as good as the recommended one.
func (s Setting) Suits(value string) bool {
	if value == s.Recommended {
		return true
	}
	number, err := strconv.ParseInt(value, 10, 64)
	return err == nil && s.Range[1] > 0 && number >= s.Range[0] && number <= s.Range[1]
}

// SATPRuleOptions are the options of `esxcli storage nmp satp rule add`.
func SATPRuleOptions() []string {
	return []string{"--satp=" + SATP, "--vendor=" + Vendor, "--model=" + Product, "--psp=" + RoundRobin, "--psp-option=" + PSPOption,
		"--description=Ashlar array"}
}

// VAAIRuleOptions are the options of `esxcli storage core claimrule add`.
func VAAIRuleOptions(number int) []string {
	return []string{"--claimrule-class=VAAI", "--rule=" + strconv.Itoa(number), "--type=vendor", "--vendor=" + Vendor,
		"--plugin=" + VAAIPlugin, "--xcopy-use-array-values=true", "--xcopy-max-transfer-size-kib=" + strconv.Itoa(TransferKiB)}
}
