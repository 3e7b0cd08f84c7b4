package sra

import (
	"context"
	"fmt"
	"time"

	"ashlar/integrations/array"
)

const (
	// transferErrorTimeout is how long a command waits although transfers fail: a lost connection may come back.
	transferErrorTimeout = time.Minute
	// promotionNoticeTimeout is how long a source is given to hear that its target was promoted.
	promotionNoticeTimeout = time.Minute
)

// prepareFailover ends the use of the source's volumes, and waits until the other array has everything: the failover that
// follows then loses nothing.
func prepareFailover(ctx context.Context, c *call) (any, error) {
	return c.each(ctx, func(ctx context.Context, group ConsistencyGroup) (outcome, error) {
		it, err := c.sourceOf(ctx, group.ID)
		if err != nil {
			return outcome{}, err
		}
		if it.Progress.State == array.ReplicationSplit {
			return outcome{}, fail(codeSplit, fmt.Sprintf("replication %q is split", it.Name))
		}
		if it, err = c.demote(ctx, it, false); err != nil {
			return outcome{}, err
		}
		return outcome{}, c.await(ctx, it)
	}), nil
}

func (c *call) demote(ctx context.Context, it array.Replication, force bool) (array.Replication, error) {
	return array.Decode[array.Replication](c.api.DemoteReplication(ctx, it.Name, array.ReplicationDemotion{Force: &force}))
}

// await waits until the last point of a source is complete on its target.
func (c *call) await(ctx context.Context, it array.Replication) error {
	var trouble time.Time
	for it.Progress.State != array.ReplicationDemoted {
		switch why := reason(it); {
		case why == "":
			trouble = time.Time{}
		case trouble.IsZero():
			trouble = time.Now()
		case time.Since(trouble) > transferErrorTimeout:
			return fail(codeLastPoint, why)
		}
		if err := pause(ctx); err != nil {
			return err
		}
		var err error
		if it, err = c.show(ctx, it); err != nil {
			return err
		}
	}
	return nil
}

// prepareReverseReplication makes the former source give way to the array that was recovered to. It loses what the other
// does not have, which only happens after a disaster.
func prepareReverseReplication(ctx context.Context, c *call) (any, error) {
	return c.each(ctx, func(ctx context.Context, group ConsistencyGroup) (outcome, error) {
		it, err := c.replication(ctx, group.ID)
		if err != nil || it.Role == target {
			// It was reversed already.
			return outcome{}, err
		}
		until := time.Now().Add(promotionNoticeTimeout)
		for asked := false; ; asked = true {
			switch it.Progress.State {
			case array.ReplicationDemoted, array.ReplicationDemoting:
				return outcome{}, nil
			case array.ReplicationSplit:
				_, err := c.demote(ctx, it, true)
				return outcome{}, err
			}
			if time.Now().After(until) {
				return outcome{}, fail(codeNotPromoted, fmt.Sprintf("replication %q is in the state %s", it.Name, it.Progress.State))
			}
			if !asked {
				// The target says that it was promoted when it is to get a point.
				// A refusal means that the state has changed since: perhaps it was reported.
				err := array.Done(c.api.SyncReplication(ctx, it.Name))
				if err = array.Unless(array.Precondition, err); err != nil {
					return outcome{}, err
				}
			}
			if err := pause(ctx); err != nil {
				return outcome{}, err
			}
			if it, err = c.show(ctx, it); err != nil {
				return outcome{}, err
			}
		}
	}), nil
}

// reverseReplication makes this array, which was recovered to, the source, and the former source its target.
func reverseReplication(ctx context.Context, c *call) (any, error) {
	hosts := &accessGroups{c: c}
	return c.each(ctx, func(ctx context.Context, group ConsistencyGroup) (outcome, error) {
		it, err := c.replication(ctx, group.ID)
		if err != nil {
			return outcome{}, err
		}
		if it.Role == target {
			if _, err := array.Decode[array.Replication](c.api.ReverseReplication(ctx, it.Name)); err != nil {
				return outcome{}, err
			}
		}
		for _, device := range group.Devices {
			if err := hosts.connect(ctx, device.ID, device.AccessGroups); err != nil {
				return outcome{}, err
			}
		}
		return outcome{}, nil
	}), nil
}

// restoreReplication takes the source into use again after a migration that came to nothing.
func restoreReplication(ctx context.Context, c *call) (any, error) {
	return c.each(ctx, func(ctx context.Context, group ConsistencyGroup) (outcome, error) {
		it, err := c.sourceOf(ctx, group.ID)
		if err != nil {
			return outcome{}, err
		}
		switch it.Progress.State {
		case array.ReplicationDemoted, array.ReplicationDemoting:
			force := true
			_, err = array.Decode[array.Replication](c.api.PromoteReplication(ctx, it.Name, array.ReplicationPromotion{Force: &force}))
		case array.ReplicationSplit:
			err = fail(codeSplit, fmt.Sprintf("replication %q is split", it.Name))
		}
		return outcome{}, err
	}), nil
}
