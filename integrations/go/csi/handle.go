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
)

func handle(serial, id string) string { return serial + "-" + id }

// resolve returns the identifier of a handle. One that is malformed or of another array is not found.
func (d *Driver) resolve(ctx context.Context, what, handle string) (string, error) {
	own, err := d.arraySerial(ctx)
	if err != nil {
		return "", err
	}
	serial, id, found := strings.Cut(handle, "-")
	if !found || !isHex(serial, serialDigits) || !isHex(id, idDigits) {
		return "", status.Errorf(codes.NotFound, "%s %q is none of this driver", what, handle)
	}
	if serial != own {
		return "", status.Errorf(codes.NotFound, "%s %s is on array %s, and this driver is set up for array %s: use the driver of that array",
			what, handle, serial, own)
	}
	return id, nil
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
