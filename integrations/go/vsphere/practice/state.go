package practice

// State is what was read of a host.
type State struct {
	// Name in the inventory; Version of ESXi, such as 8.0.2.
	Name, Version string
	// Unreadable says why the host was not read; empty: it was.
	Unreadable string
	// Maintenance: nothing runs on it. It is read and changed like others.
	Maintenance bool
	// Options by key. One that this version does not have is not among them.
	Options map[string]string
	// Modules by name, with their parameters. Only drivers that the host has.
	Modules   map[string]map[string]string
	SATPRules []SATPClaim
	VAAIRules []VAAIClaim
	ISCSI     *Adapter
	Devices   []DeviceState
	Disks     []Disk
}

// SATPClaim is a user rule of native multipathing.
type SATPClaim struct{ SATP, Vendor, Model, PSP, PSPOptions string }

// VAAIClaim is a rule of the VAAI plug-ins. Loaded: it is in force, not only in the file.
type VAAIClaim struct {
	Number, Plugin, Vendor string
	ArrayValues            bool
	TransferKiB            string
	Loaded                 bool
}

// Adapter is the software iSCSI adapter.
type Adapter struct {
	// Device is its name, such as vmhba64; Name is the initiator's.
	Device, Name string
	SendTargets  []string
	CHAPUser     string
	// Options are its advanced options.
	Options map[string]string
}

// DeviceState is a volume of the array on a host.
type DeviceState struct {
	// Name is the canonical one: naa. and 32 digits.
	Name string
	// Key of the logical unit, by which its policy is set.
	Key         string
	Policy      string
	Switch      string
	Outstanding string
	Paths       int
	// Offload has the state of each VAAI primitive: ATS, Clone, Zero and Delete; nil if the host did not say.
	Offload map[string]string
}

// Disk is a virtual disk on a datastore of the array.
type Disk struct{ Machine, Label, Format string }

// Want is what a setting is compared with where it depends on the array and not on the table.
type Want struct {
	// Portals are the addresses with ports that hosts must discover; none: they are not compared.
	Portals []string
	// CHAPUser that hosts must present; empty: not compared.
	CHAPUser string
}
