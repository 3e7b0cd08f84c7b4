package sra

import (
	"context"
	"fmt"
	"strconv"

	"ashlar/integrations/array"
)

// each performs an action for every consistency group of the command. Volumes outside of groups are not replicated.
func (c *call) each(ctx context.Context, act func(context.Context, ConsistencyGroup) (outcome, error)) results {
	made := results{XMLName: named(upper(c.command.Name) + "Results")}
	all := len(c.in.ConsistencyGroups)
	if all > 0 {
		made.ConsistencyGroups = &outcomes{}
	}
	for done, group := range c.in.ConsistencyGroups {
		c.status.part(done, all)
		it, err := act(ctx, group)
		it.XMLName, it.ID = named("ConsistencyGroup"), group.ID
		switch {
		case err != nil:
			c.log.Error("failed", "group", group.ID, "problem", err)
			it.DeviceSync, it.Success, it.Error = nil, nil, failure(err)
		case it.DeviceSync == nil:
			it.Success = &Empty{}
		}
		made.ConsistencyGroups.Items = append(made.ConsistencyGroups.Items, it)
	}
	made.SourceDevices = single("SourceDevice", c.in.SourceDevices)
	made.Devices = single("Device", c.in.Devices)
	return made
}

func single(element string, devices []Device) *outcomes {
	if len(devices) == 0 {
		return nil
	}
	made := &outcomes{}
	for _, device := range devices {
		made.Items = append(made.Items, outcome{XMLName: named(element), ID: device.ID, Error: failure(notSingle(device.ID))})
	}
	return made
}

func notSingle(id string) error {
	return fail(codeSingleDevice, fmt.Sprintf("volume %s is not replicated by itself, but with its consistency group", id))
}

// syncOnce asks for a point. The identifier of the transfer is the newest point before it, so that the point is recognized
// when it is complete.
func syncOnce(ctx context.Context, c *call) (any, error) {
	return c.each(ctx, func(ctx context.Context, group ConsistencyGroup) (outcome, error) {
		before, err := c.sourceOf(ctx, group.ID)
		if err != nil {
			return outcome{}, err
		}
		last := strconv.FormatInt(int64(array.Value(before.Progress.LastPoint)), 10)
		switch before.Progress.State {
		case array.ReplicationDemoting, array.ReplicationDemoted:
			// The last point is on its way already, and nothing is written after it.
			sync, err := progress(before, last)
			return outcome{DeviceSync: sync}, err
		case array.ReplicationSplit:
			return outcome{}, fail(codeSplit, fmt.Sprintf("replication %q is split", before.Name))
		case array.ReplicationPaused:
			return outcome{}, fail(codeTransfer, reason(before))
		}
		if _, err = array.Decode[array.Replication](c.api.SyncReplication(ctx, before.Name)); err != nil {
			return outcome{}, err
		}
		none := 0
		return outcome{DeviceSync: &deviceSync{ID: last, Status: inProgress, Progress: &none}}, nil
	}), nil
}

const (
	inProgress = "inProgress"
	complete   = "complete"
)

func querySyncStatus(ctx context.Context, c *call) (any, error) {
	made := c.each(ctx, func(ctx context.Context, group ConsistencyGroup) (outcome, error) {
		it, err := c.sourceOf(ctx, group.ID)
		if err != nil {
			return outcome{}, err
		}
		sync, err := progress(it, group.SyncID)
		return outcome{DeviceSync: sync}, err
	})
	if len(c.in.TargetGroups) > 0 {
		made.TargetGroups = &targetsDone{}
	}
	for _, group := range c.in.TargetGroups {
		err := fail(codeNotSource, "the progress of a transfer is asked for on the source")
		made.TargetGroups.TargetGroup = append(made.TargetGroups.TargetGroup, targetGroup{Key: group.Key, Error: failure(err)})
	}
	return made, nil
}

// progress of the transfer that began after the point with the number.
func progress(it array.Replication, since string) (*deviceSync, error) {
	before, err := strconv.ParseInt(since, 10, 64)
	if err != nil {
		return nil, fail(codeRequest, fmt.Sprintf("%q is no transfer that this adapter began", since))
	}
	newest := int64(array.Value(it.Progress.LastPoint))
	state := it.Progress.State
	isWhole := state == array.ReplicationIdle || state == array.InSync
	switch {
	case state == array.ReplicationDemoted, isWhole && newest > before:
		return &deviceSync{ID: since, Status: complete}, nil
	case state == array.ReplicationSplit:
		return nil, fail(codeSplit, fmt.Sprintf("replication %q is split", it.Name))
	case state == array.ReplicationSyncing, isWhole, reason(it) == "":
		none := 0
		return &deviceSync{ID: since, Status: inProgress, Progress: &none}, nil
	}
	return nil, fail(codeTransfer, reason(it))
}

func upper(name string) string {
	return string(name[0]-'a'+'A') + name[1:]
}
