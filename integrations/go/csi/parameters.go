package csi

import (
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/size"
)

// Keys of a volume's parameters. Those of the second group can be changed later, by a VolumeAttributesClass.
const (
	paramGroup     = "group"
	paramBlockSize = "blockSize"

	paramIOPS           = "iops"
	paramIOPSBurst      = "iopsBurst"
	paramBandwidth      = "bandwidth"
	paramBandwidthBurst = "bandwidthBurst"
	paramDedup          = "dedup"
	paramCompression    = "compression"
)

// Values that take a setting back.
const (
	unlimited = "unlimited"
	inherited = "inherit"
)

// sidecarPrefix begins parameters that come from sidecars.
const sidecarPrefix = "csi.storage.k8s.io/"

// Parameters with which the provisioner names what a volume is for, and the labels that they become.
var purposes = map[string]string{
	sidecarPrefix + "pv/name":                    "kubernetes.pv",
	sidecarPrefix + "pvc/name":                   "kubernetes.pvc",
	sidecarPrefix + "pvc/namespace":              "kubernetes.namespace",
	sidecarPrefix + "volumesnapshot/name":        "kubernetes.volumesnapshot",
	sidecarPrefix + "volumesnapshot/namespace":   "kubernetes.namespace",
	sidecarPrefix + "volumesnapshotcontent/name": "kubernetes.volumesnapshotcontent",
}

// fixed are the parameters that a volume is created with.
type fixed struct {
	group     string
	blockSize int32
	labels    map[string]string
}

// settings read what can be changed later. What is not given is not changed.
type settings struct {
	limits *array.LimitsChange
	policy *array.PolicyChange
}

func (s settings) given() bool { return s.limits != nil || s.policy != nil }

// parse splits parameters into those that are fixed and those that can be changed; both may be given at creation.
func parse(parameters, mutable map[string]string) (fixed, settings, error) {
	made := fixed{labels: map[string]string{}}
	var set settings
	for key, value := range parameters {
		switch label, purpose := purposes[key]; {
		case purpose:
			made.labels[label] = value
		case strings.HasPrefix(key, sidecarPrefix):
			// A newer sidecar says more.
		case key == paramGroup:
			made.group = value
		case key == paramBlockSize:
			if value != "512" && value != "4096" {
				return made, set, invalid("%s is %q: it can be 512 or 4096", key, value)
			}
			bytes, _ := strconv.ParseInt(value, 10, 32)
			made.blockSize = int32(bytes)
		default:
			if err := set.add(key, value); err != nil {
				return made, set, err
			}
		}
	}
	for key, value := range mutable {
		if err := set.add(key, value); err != nil {
			return made, set, err
		}
	}
	return made, set, nil
}

func (s *settings) add(key, value string) error {
	switch key {
	case paramIOPS, paramIOPSBurst:
		number, err := limit(key, value, func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) })
		if err != nil {
			return err
		}
		s.limit(key, number)
	case paramBandwidth, paramBandwidthBurst:
		number, err := limit(key, value, size.Parse)
		if err != nil {
			return err
		}
		s.limit(key, number)
	case paramDedup:
		if value == inherited {
			s.policies().Dedup = nullable.NewNullNullable[bool]()
			return nil
		}
		on, err := strconv.ParseBool(value)
		if err != nil {
			return invalid("%s is %q: it can be true, false or %s", key, value, inherited)
		}
		s.policies().Dedup = nullable.NewNullableWithValue(on)
	case paramCompression:
		level := array.Compression(value)
		if value == inherited {
			s.policies().Compression = nullable.NewNullNullable[array.Compression]()
			return nil
		}
		if !level.Valid() {
			return invalid("%s is %q: it can be off, fast, high, adaptive or %s", key, value, inherited)
		}
		s.policies().Compression = nullable.NewNullableWithValue(level)
	default:
		return invalid("there is no parameter %q: there are %s", key, strings.Join([]string{paramGroup, paramBlockSize,
			paramIOPS, paramIOPSBurst, paramBandwidth, paramBandwidthBurst, paramDedup, paramCompression}, ", "))
	}
	return nil
}

func limit(key, value string, read func(string) (int64, error)) (nullable.Nullable[int64], error) {
	if value == unlimited {
		return nullable.NewNullNullable[int64](), nil
	}
	number, err := read(value)
	if err != nil || number < 1 {
		return nil, invalid("%s is %q: it must be a positive number, or %s", key, value, unlimited)
	}
	return nullable.NewNullableWithValue(number), nil
}

func (s *settings) limit(key string, number nullable.Nullable[int64]) {
	if s.limits == nil {
		s.limits = &array.LimitsChange{}
	}
	switch key {
	case paramIOPS:
		s.limits.Iops = number
	case paramIOPSBurst:
		s.limits.IopsBurst = number
	case paramBandwidth:
		s.limits.Bandwidth = number
	case paramBandwidthBurst:
		s.limits.BandwidthBurst = number
	}
}

func (s *settings) policies() *array.PolicyChange {
	if s.policy == nil {
		s.policy = &array.PolicyChange{}
	}
	return s.policy
}

// fileSystems that nodes make and mount. The first is the usual one.
var fileSystems = []string{"ext4", "xfs"}

// modes that a driver can offer for a file system. More than one writing node needs a cluster file system, which a node
// does not make: for that a workload takes the volume as a block device.
var mountModes = map[csi.VolumeCapability_AccessMode_Mode]bool{
	csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER:        true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER: true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:  true,
	csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:   true,
	csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY:    true,
}

// unsupported says why a capability can't be had; empty: it can.
func unsupported(capability *csi.VolumeCapability) string {
	mode := capability.GetAccessMode().GetMode()
	switch {
	case mode == csi.VolumeCapability_AccessMode_UNKNOWN:
		return "a capability has no access mode"
	case capability.GetBlock() != nil:
		return ""
	case capability.GetMount() == nil:
		return "a capability is neither for a block device nor for a mount"
	case !mountModes[mode]:
		return "several nodes can't write one file system: use volumeMode Block for access mode " + mode.String()
	}
	kind := capability.GetMount().GetFsType()
	if kind == "" {
		return ""
	}
	for _, known := range fileSystems {
		if kind == known {
			return ""
		}
	}
	return "there is no file system " + strconv.Quote(kind) + ": there are " + strings.Join(fileSystems, ", ")
}

// capable refuses capabilities that can't be had.
func capable(capabilities ...*csi.VolumeCapability) error {
	if len(capabilities) == 0 {
		return invalid("no volume capability")
	}
	for _, capability := range capabilities {
		if capability == nil {
			return invalid("no volume capability")
		}
		if why := unsupported(capability); why != "" {
			return invalid("%s", why)
		}
	}
	return nil
}

// oneNode reports whether only one node at a time may have the volume.
func oneNode(mode csi.VolumeCapability_AccessMode_Mode) bool {
	switch mode {
	case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
		csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		return true
	}
	return false
}
