package k2

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

const (
	// peerPatience bounds a request to another array whose loss is no obstacle.
	peerPatience = 10 * time.Second
	// pollInterval of a failover that waits for the last point.
	pollInterval = 200 * time.Millisecond
)

func changeSession(c *call, id int64, sent body) (object, error) {
	if err := c.mayChangeSessions(); err != nil {
		return nil, err
	}
	it, err := c.session(id)
	if err != nil {
		return nil, err
	}
	if sent.has("rpo") {
		if err := c.changeRpo(it, sent); err != nil {
			return nil, err
		}
	}
	for field := range sent {
		if field != "rpo" && field != "state" {
			return nil, fail(http.StatusBadRequest, "%s of a replication session can't be changed", field)
		}
	}
	if sent.has("state") {
		wanted, err := sent.text("state")
		if err != nil {
			return nil, err
		}
		steps := map[string]func(*call, *session) error{
			stateInSync: intoSync, stateSuspended: suspend, stateIdle: makeIdle, stateFailedOver: failOver,
		}
		step := steps[wanted]
		if step == nil {
			return nil, fail(http.StatusBadRequest, "%q is no state of a replication session", wanted)
		}
		if err := step(c, it); err != nil {
			return nil, err
		}
	}
	c.changed()
	if it, err = c.session(id); err != nil {
		return nil, err
	}
	return it.object(), nil
}

func (c *call) changeRpo(it *session, sent body) error {
	rpo, err := sent.number("rpo")
	if err != nil {
		return err
	}
	if it.of != nil {
		change := array.ReplicationChange{RpoSeconds: nullable.NewNullableWithValue(rpo)}
		if err := array.Done(c.api.ChangeReplication(c, it.of.Name, change)); err != nil {
			return err
		}
	}
	return c.label(it.group, map[string]string{labelRpo: strconv.FormatInt(rpo, 10)})
}

// intoSync begins the replication, takes it up again, or reverses it after a failover: then the other array becomes the target
// and loses what was written there since.
func intoSync(c *call, it *session) error {
	other, err := c.otherSide(it)
	if err != nil {
		return err
	}
	switch {
	case it.isPromoted():
		err = c.reverse(it, other)
	case it.of == nil && !it.isReplica():
		err = c.begin(it, other)
	default:
		err = c.hold(it, other, false)
	}
	if err != nil {
		return err
	}
	return c.note(it, other, labelHeld, "")
}

// note sets a label on both arrays.
func (c *call) note(it *session, other *otherSide, key, value string) error {
	if err := other.label(c, map[string]string{key: value}); err != nil {
		return err
	}
	return c.label(it.group, map[string]string{key: value})
}

// begin creates the replication. Repeated, it finds the one that it made.
func (c *call) begin(it *session, other *otherSide) error {
	rpo, err := strconv.ParseInt(it.label(labelRpo), 10, 64)
	if err != nil {
		return fail(http.StatusBadRequest, "replication session %s has no rpo: set one", it.name())
	}
	name, _, err := nameOf(it.name())
	if err != nil {
		return err
	}
	made, err := array.Decode[array.Replication](c.api.CreateReplication(c, array.NewReplication{
		Name: name, Group: nullable.NewNullableWithValue(it.group.of.ID), RemoteArray: other.RemoteArray, RpoSeconds: rpo,
	}))
	if err != nil {
		return err
	}
	return c.note(it, other, labelID, made.ID)
}

// hold pauses or resumes the source, on whichever array it is.
func (c *call) hold(it *session, other *otherSide, paused bool) error {
	api, of := c.api, it.of
	if it.role() == array.ReplicationTarget {
		found, err := other.replication(c, it.label(labelID))
		if err != nil {
			return err
		}
		api, of = other.api, found
	}
	if of == nil || of.Role != array.ReplicationSource {
		return nil
	}
	if paused {
		return array.Done(api.PauseReplication(c, of.Name))
	}
	return array.Done(api.ResumeReplication(c, of.Name))
}

func suspend(c *call, it *session) error { return c.halt(it, stateSuspended) }

func makeIdle(c *call, it *session) error { return c.halt(it, stateIdle) }

// halt pauses the replication and keeps the state for both arrays. After a failover it works without the other array, which may
// be lost: nothing is transferred then in any case.
func (c *call) halt(it *session, state string) error {
	if it.isPromoted() {
		if state != stateIdle {
			return fail(http.StatusBadRequest, "replication session %s is failed over: it can be in_sync or idle next", it.name())
		}
		return c.label(it.group, map[string]string{labelHeld: state})
	}
	other, err := c.otherSide(it)
	if err != nil {
		return err
	}
	if err := c.hold(it, other, true); err != nil {
		return err
	}
	return c.note(it, other, labelHeld, state)
}

// failOver promotes this array. A source that responds is demoted and its last point awaited, so that nothing is lost. If it
// does not, or the arrays have no connection, what was written after the newest complete point is lost.
func failOver(c *call, it *session) error {
	if it.role() != array.ReplicationTarget {
		return fail(http.StatusBadRequest, "this array is the source of replication session %s: fail over on the other one", it.name())
	}
	if it.of == nil {
		return fail(http.StatusBadRequest, "replication session %s has no complete point here yet", it.name())
	}
	of := *it.of
	if !it.isPromoted() {
		responds, err := c.demoteSource(it)
		if err != nil {
			return err
		}
		force := !responds
		if force {
			c.log.Warn("the source was not demoted: what was written after the newest point is lost", "session", it.name())
		}
		of, err = array.Decode[array.Replication](c.api.PromoteReplication(c, of.Name, array.ReplicationPromotion{Force: &force}))
		if err != nil {
			return err
		}
	}
	if !it.isReplica() {
		return nil
	}
	return c.nameReplicas(it, of)
}

// demoteSource asks the other array to stop, and waits until this one has its last point. It reports whether the other array
// responds; a failure that an administrator has to correct is an error, as going on would lose what is not lost yet.
func (c *call) demoteSource(it *session) (bool, error) {
	_, known, err := c.remotes()
	if err != nil {
		return false, err
	}
	for _, each := range known {
		if each.Serial == it.label(labelArray) && each.Link.State == array.LinkDisconnected {
			return false, nil
		}
	}
	err = c.askToDemote(it)
	if array.IsKind(err, array.Forbidden, array.Unauthorized, array.Skew) {
		return false, fmt.Errorf("the source can't be demoted, correct the token of the peer: %w", err)
	}
	if err != nil {
		c.log.Warn("the source can't be demoted", "session", it.name(), "reason", err)
		return false, nil
	}
	end := time.Now().Add(c.config.FailoverPatience)
	for {
		now, err := array.Decode[array.Replication](c.api.ShowReplication(c, it.of.Name))
		if err != nil || now.Progress.State == array.ReplicationDemoted {
			return true, err
		}
		if time.Now().After(end) {
			// Clients repeat what has this word.
			return true, fail(http.StatusBadRequest, "MC_ERR_INPROGRESS: the last point of replication session %s is still being transferred", it.name())
		}
		select {
		case <-c.Done():
			return true, c.Err()
		case <-time.After(pollInterval):
		}
	}
}

func (c *call) askToDemote(it *session) error {
	ctx, cancel := context.WithTimeout(c, peerPatience)
	defer cancel()
	asking := *c
	asking.Context = ctx
	other, err := asking.otherSide(it)
	if err != nil {
		return err
	}
	source, err := other.replication(&asking, it.label(labelID))
	if err != nil {
		return err
	}
	if source == nil || source.Role != array.ReplicationSource {
		return fail(http.StatusBadRequest, "array %s is not the source of replication session %s", other.RemoteArray, it.name())
	}
	return array.Done(other.api.DemoteReplication(ctx, source.Name, array.ReplicationDemotion{}))
}

// nameReplicas gives promoted volumes the names that clients have for them.
func (c *call) nameReplicas(it *session, of array.Replication) error {
	for _, each := range of.Volumes {
		own, name := array.Value(each.PromotedID), it.label(labelVolume+each.ID)
		if own == "" || name == "" {
			continue
		}
		labels := map[string]string{labelName: name, labelGroup: it.group.of.ID}
		if err := array.Done(c.api.ChangeVolume(c, own, array.VolumeChange{Labels: merged(labels)})); err != nil {
			return err
		}
	}
	return nil
}

// reverse makes this array, which was promoted, the source. What its volumes are called has to be in labels by then.
func (c *call) reverse(it *session, other *otherSide) error {
	if it.isReplica() {
		if err := c.nameReplicas(it, *it.of); err != nil {
			return err
		}
	}
	source, err := other.replication(c, it.label(labelID))
	if err != nil {
		return err
	}
	if source != nil && source.Role == array.ReplicationSource && source.Progress.State != array.ReplicationDemoted {
		force := true
		if err := array.Done(other.api.DemoteReplication(c, source.Name, array.ReplicationDemotion{Force: &force})); err != nil {
			return err
		}
	}
	return array.Done(c.api.ReverseReplication(c, it.of.Name))
}

// transferPoint asks for a point of a session.
func (c *call) transferPoint(sent body) (object, error) {
	in, err := sent.refOf("replication_session", pathSessions)
	if err != nil {
		return nil, err
	}
	it, err := c.session(in)
	if err != nil {
		return nil, err
	}
	if it.of == nil || it.role() != array.ReplicationSource {
		return nil, fail(http.StatusBadRequest, "this array is not the source of replication session %s", it.name())
	}
	generation := array.Value(it.of.Progress.LastPoint)
	if err := c.label(it.group, map[string]string{labelGeneration: strconv.FormatInt(generation, 10)}); err != nil {
		return nil, err
	}
	if err := array.Done(c.api.SyncReplication(c, it.of.Name)); err != nil {
		return nil, err
	}
	made := snapshotObject(&snapshot{id: number("point", it.of.ID), group: it.group.id, name: it.name()})
	made["generation_number"], made["replication_session"] = generation, refTo(pathSessions, it.id())
	return made, nil
}
