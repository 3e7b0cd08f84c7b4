package csi

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Handles of volumes and snapshots are the array's serial number and the object's permanent identifier,
// `3b498b8705f3f02c-4f0c…`: they survive renaming, and name the array that they are of. A group snapshot's has the hash of
// its name instead.

const (
	serialDigits = 16
	idDigits     = 32
	// groupDigits is the length of a volume group's identifier.
	groupDigits = 16
)

func handle(serial, id string) string { return serial + "-" + id }

// parseHandle returns the two parts of a handle; false if it is malformed.
func parseHandle(handle string) (serial, id string, well bool) {
	serial, id, found := strings.Cut(handle, "-")
	return serial, id, found && isHex(serial, serialDigits) && (isHex(id, idDigits) || isHex(id, groupDigits))
}

// resolve returns the identifier of a handle. One that is malformed is not found, and one of another array neither, unless this array
// has the promoted replica of that volume.
func (d *Driver) resolve(ctx context.Context, what, handle string) (string, error) {
	own, err := d.arraySerial(ctx)
	if err != nil {
		return "", err
	}
	serial, id, well := parseHandle(handle)
	if !well || len(id) != idDigits {
		return "", status.Errorf(codes.NotFound, "%s %q is none of this driver", what, handle)
	}
	if serial == own {
		return id, nil
	}
	replica, err := d.replicaOf(ctx, handle)
	if err != nil {
		return "", err
	}
	if replica == nil {
		return "", status.Errorf(codes.NotFound, "%s %s is on array %s, and this driver is set up for array %s: use the driver of that array, or promote the replica here",
			what, handle, serial, own)
	}
	return replica.ID, nil
}

func isHex(text string, digits int) bool {
	if len(text) != digits {
		return false
	}
	return strings.Trim(text, "0123456789abcdef") == ""
}

// nodeSeparator is in no name of a node or of an initiator.
const nodeSeparator = ";"

// NodeID is what a node is for a controller: its name and iSCSI initiator name.
type NodeID struct {
	Name, Initiator string
}

// maxNodeID is the specification's limit in bytes.
const maxNodeID = 256

func (n NodeID) String() string { return n.Name + nodeSeparator + n.Initiator }

func parseNodeID(text string) (NodeID, error) {
	name, initiator, found := strings.Cut(text, nodeSeparator)
	form := strings.HasPrefix(initiator, "iqn.") || strings.HasPrefix(initiator, "eui.") || strings.HasPrefix(initiator, "naa.")
	if !found || name == "" || !form {
		return NodeID{}, status.Errorf(codes.NotFound, "node %q is none of this driver: an id has the node's name and its iSCSI initiator name", text)
	}
	return NodeID{Name: name, Initiator: strings.ToLower(initiator)}, nil
}
