package sra

import (
	"context"
	"fmt"
	"strings"

	"ashlar/integrations/array"
)

// Roles and states of replications.
const (
	source = array.ReplicationSource
	target = array.ReplicationTarget
)

// peer returns the name of the peer array on this one.
func (c *call) peer(ctx context.Context) (string, error) {
	remotes, err := c.remotes(ctx)
	if err != nil {
		return "", err
	}
	for _, remote := range remotes {
		if remote.Serial == c.in.PeerArrayID {
			return remote.Name, nil
		}
	}
	return "", fail(codeNotPaired, fmt.Sprintf("array %s is not paired with array %s", c.serial, c.in.PeerArrayID))
}

func (c *call) remotes(ctx context.Context) ([]array.RemoteArray, error) {
	return array.All(func(limit, offset int) ([]array.RemoteArray, int, error) {
		found, err := array.Decode[array.RemoteArrays](c.api.ListRemoteArrays(ctx, &array.ListRemoteArraysParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
}

// replication returns the one with the identifier, by which both arrays know it.
func (c *call) replication(ctx context.Context, id string) (array.Replication, error) {
	all, err := c.api.AllReplications(ctx)
	if err != nil {
		return array.Replication{}, err
	}
	for _, it := range all {
		if it.ID == id {
			return it, nil
		}
	}
	return array.Replication{}, fail(codeNoGroup, fmt.Sprintf("array %s has no replication with the identifier %q", c.serial, id))
}

// show returns a replication as it is now.
func (c *call) show(ctx context.Context, it array.Replication) (array.Replication, error) {
	return array.Decode[array.Replication](c.api.ShowReplication(ctx, it.Name))
}

// sourceOf returns a replication of which this array must be the source.
func (c *call) sourceOf(ctx context.Context, id string) (array.Replication, error) {
	it, err := c.replication(ctx, id)
	if err == nil && it.Role != source {
		err = fail(codeNotSource, fmt.Sprintf("array %s is the target of replication %q", c.serial, it.Name))
	}
	return it, err
}

// targetOf returns the replication with the key of a target group, of which this array must be the target.
func (c *call) targetOf(ctx context.Context, key string) (array.Replication, error) {
	serial, id, found := strings.Cut(key, ":")
	if !found || serial != c.serial {
		return array.Replication{}, fail(codeNoGroup, fmt.Sprintf("target group %q is not of array %s", key, c.serial))
	}
	it, err := c.replication(ctx, id)
	if err == nil && it.Role != target {
		err = fail(codeNotTarget, fmt.Sprintf("array %s is the source of replication %q", c.serial, it.Name))
	}
	return it, err
}

// keyOf is the key by which a source's group or volume and the target's are one: equal on both arrays, and never used again
// after the direction was reversed.
func keyOf(targetSerial, id string) string { return targetSerial + ":" + id }

// pointOf returns the newest complete point; nil if there is none.
func pointOf(it array.Replication) *recoveryPoint {
	number, err := it.Progress.LastPoint.Get()
	taken, never := it.Progress.LastPointTaken.Get()
	if err != nil || never != nil {
		return nil
	}
	return &recoveryPoint{ID: fmt.Sprint(number), Time: utc(taken)}
}

// reason is why nothing is transferred now; empty if it is.
func reason(it array.Replication) string {
	switch it.Progress.State {
	case array.ReplicationPaused, array.ReplicationNoSpace, array.ReplicationFailed:
	default:
		if array.Value(it.Progress.Problem) == "" {
			return ""
		}
	}
	text := fmt.Sprintf("replication %q is in the state %s", it.Name, it.Progress.State)
	if why := array.Value(it.Progress.Problem); why != "" {
		text += ": " + why
	}
	return text
}

// volumes returns this array's volumes by identifier.
func (c *call) volumes(ctx context.Context) (map[string]array.Volume, error) {
	all, err := c.api.AllVolumes(ctx, "")
	if err != nil {
		return nil, err
	}
	known := make(map[string]array.Volume, len(all))
	for _, volume := range all {
		known[volume.ID] = volume
	}
	return known, nil
}

// wwn is a volume's identifier as ESXi shows it after `naa.`.
func wwn(volume array.Volume) *identity {
	return &identity{Wwn: strings.ToLower(strings.TrimPrefix(volume.Naa, "naa."))}
}
