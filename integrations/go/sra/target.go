package sra

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ashlar/integrations/array"
)

// Labels of the clones of a test: the point that they were made of.
const (
	labelPoint = "sra.point"
	labelTaken = "sra.taken"
)

// targets performs an action for every target group of the command.
func (c *call) targets(ctx context.Context, act func(context.Context, TargetGroup) (targetGroup, error)) results {
	made := results{XMLName: named(upper(c.command.Name) + "Results")}
	all := len(c.in.TargetGroups)
	if all > 0 {
		made.TargetGroups = &targetsDone{}
	}
	for done, group := range c.in.TargetGroups {
		c.status.part(done, all)
		it, err := act(ctx, group)
		if err != nil {
			c.log.Error("failed", "group", group.Key, "problem", err)
			it = targetGroup{Error: failure(err)}
		}
		it.Key = group.Key
		made.TargetGroups.TargetGroup = append(made.TargetGroups.TargetGroup, it)
	}
	if len(c.in.TargetDevices) > 0 {
		made.TargetDevices = &outcomes{}
	}
	for _, device := range c.in.TargetDevices {
		made.TargetDevices.Items = append(made.TargetDevices.Items,
			outcome{XMLName: named("TargetDevice"), Key: device.Key, Error: failure(notSingle(device.Key))})
	}
	return made
}

// checked is a target group without trouble so far: there is a point, and there are initiators for every volume.
func (c *call) checked(ctx context.Context, group TargetGroup, hosts *accessGroups) (array.Replication, error) {
	it, err := c.targetOf(ctx, group.Key)
	if err != nil {
		return it, err
	}
	if pointOf(it) == nil && !isPromoted(it) {
		return it, fail(codeNoPoint, fmt.Sprintf("replication %q has no complete point yet", it.Name))
	}
	for _, device := range group.Devices {
		if _, err := c.volumeOf(it, device); err != nil {
			return it, err
		}
		for _, reference := range device.AccessGroups {
			if _, err := hosts.initiators(reference.ID); err != nil {
				return it, err
			}
		}
	}
	return it, nil
}

// volumeOf returns the volume of a replication that has the key of a device.
func (c *call) volumeOf(it array.Replication, device TargetDevice) (array.ReplicatedVolume, error) {
	for _, volume := range it.Volumes {
		if keyOf(c.serial, volume.ID) == device.Key {
			return volume, nil
		}
	}
	return array.ReplicatedVolume{}, fail(codeNoDevice, fmt.Sprintf("replication %q has no volume with the key %q", it.Name, device.Key))
}

// devicesOf returns the devices that a target group of the command names; all volumes if it names none.
func (c *call) devicesOf(it array.Replication, group TargetGroup) []TargetDevice {
	if len(group.Devices) > 0 {
		return group.Devices
	}
	var all []TargetDevice
	for _, volume := range it.Volumes {
		all = append(all, TargetDevice{Key: keyOf(c.serial, volume.ID)})
	}
	return all
}

// devices describes the devices of a group, each by itself: the trouble of one is in its description.
func (c *call) devices(it array.Replication, group TargetGroup, made *targetGroup, describe func(TargetDevice) (targetDevice, error)) {
	for _, device := range c.devicesOf(it, group) {
		shown, err := describe(device)
		if err != nil {
			c.log.Error("failed", "device", device.Key, "problem", err)
			shown = targetDevice{Error: failure(err)}
		}
		shown.Key = device.Key
		made.add(shown)
	}
}

func testID(volume array.ReplicatedVolume) string     { return array.Value(volume.TestID) }
func promotedID(volume array.ReplicatedVolume) string { return array.Value(volume.PromotedID) }

// connected connects what a volume became on the target, its clone or its promoted volume, and returns it. What was done with
// the point is for the error.
func (c *call) connected(ctx context.Context, it array.Replication, device TargetDevice, hosts *accessGroups,
	done string, became func(array.ReplicatedVolume) string) (array.Volume, error) {
	volume, err := c.volumeOf(it, device)
	if err != nil {
		return array.Volume{}, err
	}
	id := became(volume)
	if id == "" {
		return array.Volume{}, fail(codeNoDevice, fmt.Sprintf("volume %q came into the group after the point that %s", volume.Name, done))
	}
	if err := hosts.connect(ctx, id, device.AccessGroups); err != nil {
		return array.Volume{}, err
	}
	return array.Decode[array.Volume](c.api.ShowVolume(ctx, id))
}

func checkTestFailoverStart(ctx context.Context, c *call) (any, error) { return c.check(ctx), nil }

func checkFailover(ctx context.Context, c *call) (any, error) { return c.check(ctx), nil }

func (c *call) check(ctx context.Context) results {
	hosts := &accessGroups{c: c}
	return c.targets(ctx, func(ctx context.Context, group TargetGroup) (targetGroup, error) {
		_, err := c.checked(ctx, group, hosts)
		return targetGroup{Success: &Empty{}}, err
	})
}

// testFailoverStart clones the newest point of each group and connects the clones. A repeated command finds those clones.
func testFailoverStart(ctx context.Context, c *call) (any, error) {
	hosts := &accessGroups{c: c}
	return c.targets(ctx, func(ctx context.Context, group TargetGroup) (targetGroup, error) {
		it, err := c.checked(ctx, group, hosts)
		if err != nil {
			return targetGroup{}, err
		}
		if it, err = c.startTest(ctx, it); err != nil {
			return targetGroup{}, err
		}
		var made targetGroup
		c.devices(it, group, &made, func(device TargetDevice) (targetDevice, error) {
			clone, err := c.connected(ctx, it, device, hosts, "is tested", testID)
			if err != nil {
				return targetDevice{}, err
			}
			return targetDevice{Snapshot: snapshotOf(clone, pointOf(it))}, nil
		})
		return made, nil
	}), nil
}

// startTest makes the clones, unless they are there. A start that was interrupted half-way is begun again.
func (c *call) startTest(ctx context.Context, it array.Replication) (array.Replication, error) {
	cloned := func(volume array.ReplicatedVolume) bool { return array.Value(volume.TestID) != "" }
	if slices.ContainsFunc(it.Volumes, cloned) {
		missing := slices.ContainsFunc(it.Volumes, func(volume array.ReplicatedVolume) bool { return !cloned(volume) })
		if !missing {
			return it, nil
		}
		if err := c.stopTest(ctx, it); err != nil {
			return it, err
		}
	}
	it, err := array.Decode[array.Replication](c.api.StartTestFailover(ctx, it.Name, array.NewTestFailover{}))
	if err != nil {
		return it, err
	}
	point := pointOf(it)
	if point == nil {
		return it, nil
	}
	labels := map[string]*string{labelPoint: &point.ID, labelTaken: &point.Time}
	for _, volume := range it.Volumes {
		if clone := array.Value(volume.TestID); clone != "" {
			if _, err := array.Decode[array.Volume](c.api.ChangeVolume(ctx, clone, array.VolumeChange{Labels: &labels})); err != nil {
				return it, err
			}
		}
	}
	return it, nil
}

// snapshotOf describes a clone. Its labels have its point; without them it is the newest one, or the time of its creation.
func snapshotOf(clone array.Volume, newest *recoveryPoint) *snapshot {
	point := &recoveryPoint{ID: clone.Labels[labelPoint], Time: clone.Labels[labelTaken]}
	if _, err := time.Parse(time.RFC3339, point.Time); err != nil || point.ID == "" {
		point = newest
	}
	if point == nil {
		point = &recoveryPoint{ID: clone.ID, Time: utc(clone.Created)}
	}
	return &snapshot{ID: clone.ID, Identity: wwn(clone), RecoveryPoint: point}
}

func testFailoverStop(ctx context.Context, c *call) (any, error) {
	return c.targets(ctx, func(ctx context.Context, group TargetGroup) (targetGroup, error) {
		it, err := c.targetOf(ctx, group.Key)
		if err != nil {
			return targetGroup{}, err
		}
		return targetGroup{Success: &Empty{}}, c.stopTest(ctx, it)
	}), nil
}

// stopTest disconnects the clones and deletes them. Without clones it does nothing.
func (c *call) stopTest(ctx context.Context, it array.Replication) error {
	for _, volume := range it.Volumes {
		if clone := array.Value(volume.TestID); clone != "" {
			if err := c.disconnect(ctx, clone); err != nil {
				return err
			}
		}
	}
	_, err := array.Decode[array.Replication](c.api.StopTestFailover(ctx, it.Name))
	return err
}

// failover promotes the newest point of each group and connects its volumes. After a preparation of the source nothing is
// lost, or the array would refuse; otherwise it is a disaster, and what was written after the point is lost.
func failover(ctx context.Context, c *call) (any, error) {
	hosts := &accessGroups{c: c}
	return c.targets(ctx, func(ctx context.Context, group TargetGroup) (targetGroup, error) {
		it, err := c.checked(ctx, group, hosts)
		if err != nil {
			return targetGroup{}, err
		}
		if it, err = c.promote(ctx, it); err != nil {
			return targetGroup{}, err
		}
		made := targetGroup{ID: it.ID, State: readWrite, Name: it.Name}
		c.devices(it, group, &made, func(device TargetDevice) (targetDevice, error) {
			own, err := c.connected(ctx, it, device, hosts, "was promoted", promotedID)
			if err != nil {
				return targetDevice{}, err
			}
			return targetDevice{ID: own.ID, State: readWrite, Name: own.Name, Identity: wwn(own), RecoveryPoint: pointOf(it)}, nil
		})
		return made, nil
	}), nil
}

func (c *call) promote(ctx context.Context, it array.Replication) (array.Replication, error) {
	if isPromoted(it) {
		return it, nil
	}
	promoted, err := array.Decode[array.Replication](c.api.PromoteReplication(ctx, it.Name, array.ReplicationPromotion{}))
	if !array.IsKind(err, array.Precondition) {
		return promoted, err
	}
	force := true
	c.log.Warn("the source was not demoted: what was written after the newest point is lost", "replication", it.Name, "reason", err)
	return array.Decode[array.Replication](c.api.PromoteReplication(ctx, it.Name, array.ReplicationPromotion{Force: &force}))
}
