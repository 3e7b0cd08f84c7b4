package k2

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"regexp"
	"sync"

	"ashlar/integrations/array"
)

// Labels on objects of the array, for what it has no field for.
const (
	// labelName is the name that clients see, if it is not the array's.
	labelName = "dialect.name"
	// labelType is the operating system that a client has given for a host.
	labelType = "dialect.type"
	// labelView marks a clone that clients see as a snapshot: its value is the snapshot set that it was made of.
	labelView = "dialect.view"
	// labelGroup is the volume group in which clients see a volume, if it is not the array's.
	labelGroup = "dialect.group"
)

const (
	// hashedName begins names on the array that stand for those that it does not accept.
	hashedName = "dialect-"
	// maxLabel is how long a label's value may be, in bytes.
	maxLabel = 255
	// idBits keep identifiers exact in programs whose numbers are of double precision.
	idBits = 52
)

var accepted = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// acceptedSuffix is what a snapshot's name may have after that of its volume.
var acceptedSuffix = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,120}$`)

// nameOf returns the name on the array for one that a client gives, and the label that keeps the latter: nil removes it.
func nameOf(wanted string) (name string, label *string, err error) {
	if accepted.MatchString(wanted) {
		return wanted, nil, nil
	}
	if len(wanted) > maxLabel {
		return "", nil, fail(http.StatusBadRequest, "a name has at most %d bytes", maxLabel)
	}
	return hashedName + array.Hash(wanted), &wanted, nil
}

// named returns labels of a new object with the given name.
func named(label *string) map[string]string {
	labels := map[string]string{}
	if label != nil {
		labels[labelName] = *label
	}
	return labels
}

// shown returns the name that clients see.
func shown(name string, labels map[string]string) string {
	if label := labels[labelName]; label != "" {
		return label
	}
	return name
}

// number returns the identifier of an object for clients, whose identifiers are numbers. It follows from something that the
// object keeps, so that it is the same after a restart.
func number(kind, permanent string) int64 {
	sum := sha256.Sum256([]byte(kind + "\x00" + permanent))
	return int64(binary.BigEndian.Uint64(sum[:8])>>(64-idBits)) | 1
}

// maxKnown bounds what is remembered of volumes.
const maxKnown = 1 << 16

// knownIDs remembers which volume has an identifier, so that not all of them have to be read for one.
type knownIDs struct {
	mutex sync.Mutex
	of    map[int64]string
}

func (k *knownIDs) add(id int64, permanent string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.of == nil || len(k.of) >= maxKnown {
		k.of = map[int64]string{}
	}
	k.of[id] = permanent
}

func (k *knownIDs) get(id int64) (string, bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	found, known := k.of[id]
	return found, known
}
