package csi

import (
	"context"
	"time"

	"github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ashlar/integrations/array"
)

const (
	// demotePatience is how long a call waits for the last point of a demotion. The orchestrator comes again.
	demotePatience = 20 * time.Second
	// demotePoll is the time between two looks at it.
	demotePoll = 200 * time.Millisecond
)

// refusal gives an error of the array the code that CSI-Addons has for it: a state that does not permit the call is a failed
// precondition, whatever it is to the array.
func refusal(err error) error {
	if array.IsKind(err, array.Conflict, array.Differs, array.Precondition) {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if array.IsKind(err, array.Forbidden) {
		return status.Errorf(codes.PermissionDenied, "%v: the secret of the VolumeReplicationClass needs %s, an API token of an administrator", err, secretToken)
	}
	return err
}

func notReplicated(p *protected) error {
	return status.Errorf(codes.FailedPrecondition, "%s %s is not replicated: enable its replication first", p.what(), p.handle)
}

// begin finds what a call is about, and keeps other calls for it away until the call has ended.
func (a addons) begin(ctx context.Context, source *replication.ReplicationSource, wanted string, secrets map[string]string) (*protected, func(), error) {
	key := source.GetVolume().GetVolumeId() + source.GetVolumegroup().GetVolumeGroupId()
	leave, err := a.driver.busy.enter(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	p, err := a.driver.protect(ctx, source, wanted, secrets)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return p, leave, nil
}

// EnableVolumeReplication creates the replication of a volume or volume group, or gives an existing one what its class says. On the
// array that is the target there is nothing to do.
func (a addons) EnableVolumeReplication(ctx context.Context, request *replication.EnableVolumeReplicationRequest) (*replication.EnableVolumeReplicationResponse, error) {
	class, err := readClass(request.GetParameters())
	if err != nil {
		return nil, err
	}
	p, leave, err := a.begin(ctx, request.GetReplicationSource(), request.GetReplicationId(), request.GetSecrets())
	if err != nil {
		return nil, err
	}
	defer leave()
	done := &replication.EnableVolumeReplicationResponse{}
	if p.of == nil {
		if err := a.create(ctx, p, class); err != nil {
			return nil, refusal(err)
		}
		return done, p.note(ctx)
	}
	if p.of.Role == array.ReplicationSource {
		if class.remote != "" && class.remote != p.of.RemoteArray {
			return nil, status.Errorf(codes.FailedPrecondition, "replication %q goes to remote array %q, not %q: disable it first", p.of.Name, p.of.RemoteArray, class.remote)
		}
		if change, differs := class.changes(*p.of); differs && p.isMade() {
			if err := array.Done(p.api.ChangeReplication(ctx, p.of.ID, change)); err != nil {
				return nil, refusal(err)
			}
		}
	}
	return done, p.note(ctx)
}

func (a addons) create(ctx context.Context, p *protected, class class) error {
	if p.volume != nil && array.Value(p.volume.Group) != "" {
		group := array.Value(p.volume.Group)
		all, err := p.api.AllReplications(ctx)
		if err != nil {
			return err
		}
		for _, it := range all {
			if it.Role == array.ReplicationSource && array.Value(it.Group) == group {
				return status.Errorf(codes.FailedPrecondition, "volume %s is in volume group %q, which replication %q replicates as a whole", p.handle, group, it.Name)
			}
		}
	}
	remote, err := class.remoteArray(ctx, p.api)
	if err != nil {
		return err
	}
	name := a.driver.config.Prefix + "-" + replicationName(p.handle)
	made, err := array.Decode[array.Replication](p.api.CreateReplication(ctx, class.new(name, remote, *p)))
	if err == nil {
		p.of = &made
	}
	return err
}

// DisableVolumeReplication deletes the replication on this array, and on the other one if the secret has access to it. Volumes stay.
func (a addons) DisableVolumeReplication(ctx context.Context, request *replication.DisableVolumeReplicationRequest) (*replication.DisableVolumeReplicationResponse, error) {
	peer, err := peerAccess(request.GetSecrets())
	if err != nil {
		return nil, err
	}
	p, leave, err := a.begin(ctx, request.GetReplicationSource(), request.GetReplicationId(), request.GetSecrets())
	if err != nil {
		return nil, err
	}
	defer leave()
	done := &replication.DisableVolumeReplicationResponse{}
	if p.of == nil {
		return done, p.change(ctx, map[string]string{labelReplication: "", labelDiverged: ""})
	}
	if !p.isMade() {
		return nil, status.Errorf(codes.FailedPrecondition, "replication %q was not made by this driver, so it is not deleted: delete it on both arrays", p.of.Name)
	}
	there, err := p.atPeer(ctx, peer)
	if err != nil {
		return nil, err
	}
	switch {
	case p.of.Role == array.ReplicationTarget && !isPromoted(p.of) && there != nil && there.Role == array.ReplicationSource:
		// Its source continues: the replication ends when it is disabled there, and this array's part with it.
		return done, nil
	case p.of.Role == array.ReplicationTarget && !isPromoted(p.of) && peer == nil:
		return nil, status.Errorf(codes.FailedPrecondition, "this array is the target of replication %q: disable it at the source, with %s and %s in the secret; "+
			"or delete it on both arrays", p.of.Name, secretPeerURL, secretPeerToken)
	case there != nil && there.Role == array.ReplicationTarget && !isPromoted(there):
		// First, since nothing leads there once it is gone here.
		if err := array.Unless(array.NotFound, array.Done(peer.DeleteReplication(ctx, there.ID))); err != nil {
			return nil, refusal(err)
		}
	}
	if err := array.Unless(array.NotFound, array.Done(p.api.DeleteReplication(ctx, p.of.ID))); err != nil {
		return nil, refusal(err)
	}
	return done, p.change(ctx, map[string]string{labelReplication: "", labelDiverged: ""})
}

// PromoteVolume lets hosts write to the volume of this array: to the replica that it makes if it is the target, or again to the source
// that was demoted. Without force it is refused while writes would be lost.
func (a addons) PromoteVolume(ctx context.Context, request *replication.PromoteVolumeRequest) (*replication.PromoteVolumeResponse, error) {
	p, leave, err := a.begin(ctx, request.GetReplicationSource(), request.GetReplicationId(), request.GetSecrets())
	if err != nil {
		return nil, err
	}
	defer leave()
	if p.of == nil {
		return nil, notReplicated(p)
	}
	if !p.isPrimary() {
		if err := a.promote(ctx, p, request); err != nil {
			return nil, err
		}
	}
	if err := a.adopt(ctx, p); err != nil {
		return nil, err
	}
	return &replication.PromoteVolumeResponse{}, nil
}

func (a addons) promote(ctx context.Context, p *protected, request *replication.PromoteVolumeRequest) error {
	force := request.GetForce()
	if p.of.Role == array.ReplicationTarget && !force {
		if err := p.mayPromote(ctx, request.GetSecrets()); err != nil {
			return err
		}
	}
	now, err := array.Decode[array.Replication](p.api.PromoteReplication(ctx, p.of.ID, array.ReplicationPromotion{Force: &force}))
	if err != nil {
		return refusal(err)
	}
	p.of = &now
	return nil
}

// mayPromote refuses what would lose writes, as far as the other array says so; one that can't be reached says nothing. This array itself
// may not have heard yet that its source takes writes again. While the last point is under way the error is one that an orchestrator
// repeats: what is a failed precondition it promotes by force.
func (p *protected) mayPromote(ctx context.Context, secrets map[string]string) error {
	pending := status.Errorf(codes.Aborted, "the last point of replication %q is still being transferred", p.of.Name)
	peer, err := peerAccess(secrets)
	if err != nil {
		return err
	}
	if peer == nil {
		remote, err := array.Decode[array.RemoteArray](p.api.ShowRemoteArray(ctx, p.of.RemoteArray))
		if err == nil && p.of.Progress.State == array.ReplicationDemoting && remote.Link.State == array.LinkConnected {
			return pending
		}
		return err
	}
	there, err := p.atPeer(ctx, peer)
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		return nil
	}
	if err != nil || there == nil || there.Role != array.ReplicationSource {
		return err
	}
	theirs := protected{of: there, api: peer}
	if err := theirs.look(ctx); err != nil {
		return atOther(err)
	}
	switch {
	case !theirs.locked:
		return status.Errorf(codes.FailedPrecondition, "the source of replication %q takes writes, which this array would not have: demote it there, or promote with force", p.of.Name)
	case there.Progress.State != array.ReplicationDemoted:
		return pending
	}
	return nil
}

// adopt labels the volumes that a target was promoted with, so that they are found by the handles of those that they replace, now and
// after the direction is reversed.
func (a addons) adopt(ctx context.Context, p *protected) error {
	d := a.driver
	if p.of.Role == array.ReplicationTarget {
		own, err := d.arraySerial(ctx)
		if err != nil {
			return err
		}
		remote, err := array.Decode[array.RemoteArray](p.api.ShowRemoteArray(ctx, p.of.RemoteArray))
		if err != nil {
			return err
		}
		for _, volume := range p.of.Volumes {
			alias := handle(remote.Serial, volume.ID)
			if !p.isGroup {
				alias = p.handle
			}
			if err := d.adoptVolume(ctx, p, volume, alias, own); err != nil {
				return err
			}
		}
	}
	if err := p.note(ctx); err != nil {
		return err
	}
	return p.change(ctx, map[string]string{labelDiverged: ""})
}

func (d *Driver) adoptVolume(ctx context.Context, p *protected, of array.ReplicatedVolume, alias, own string) error {
	id := array.Value(of.PromotedID)
	if id == "" {
		return status.Errorf(codes.FailedPrecondition, "replication %q was promoted, and its volume %s is not there any more: look into the recycle bin", p.of.Name, of.Name)
	}
	volume, err := array.Decode[array.Volume](p.api.ShowVolume(ctx, id))
	if err != nil {
		return err
	}
	its := protected{handle: alias, volume: &volume, of: p.of, api: p.api}
	if !p.isGroup {
		p.volume = &volume
	} else if err := d.adoptGroup(ctx, p, volume, own); err != nil {
		return err
	}
	return its.keepHandle(ctx, d.own(nil))
}

// keepHandle gives a volume its handle as a label, with other labels, unless it is the volume that was made with the handle, or has one.
func (p *protected) keepHandle(ctx context.Context, labels map[string]string) error {
	_, made, _ := parseHandle(p.handle)
	if made == p.volume.ID || p.volume.Labels[labelRequest] != "" || p.volume.Labels[labelReplica] != "" {
		return p.note(ctx)
	}
	labels[labelReplica], labels[labelReplication] = p.handle, p.of.ID
	return p.change(ctx, labels)
}

// adoptGroup labels the group of a promoted volume, in the same way.
func (d *Driver) adoptGroup(ctx context.Context, p *protected, volume array.Volume, own string) error {
	if p.group != nil || array.Value(volume.GroupID) == "" {
		return nil
	}
	group, err := array.Decode[array.Group](p.api.ShowGroup(ctx, array.Value(volume.GroupID)))
	if err != nil {
		return err
	}
	p.group = &group
	if p.serial == own {
		return nil
	}
	return p.change(ctx, d.own(map[string]string{labelReplica: p.handle}))
}

// DemoteVolume ends writes to the volume of this array. It returns when the other array has every write that was acknowledged, so
// that nothing is lost if that is promoted next.
//
// If the other one has been promoted since, as after a disaster, what was written here since is kept in the volume until a resync
// discards it.
func (a addons) DemoteVolume(ctx context.Context, request *replication.DemoteVolumeRequest) (*replication.DemoteVolumeResponse, error) {
	p, leave, err := a.begin(ctx, request.GetReplicationSource(), request.GetReplicationId(), request.GetSecrets())
	if err != nil {
		return nil, err
	}
	defer leave()
	if p.of == nil {
		return nil, notReplicated(p)
	}
	if err := p.note(ctx); err != nil {
		return nil, err
	}
	done := &replication.DemoteVolumeResponse{}
	force := request.GetForce()
	if p.of.Role == array.ReplicationTarget {
		if !isPromoted(p.of) {
			return done, nil
		}
		if !force {
			return nil, status.Errorf(codes.FailedPrecondition, "what was written to the promoted replica of replication %q is on this array only: "+
				"resync the volume on the other array first, or demote with force", p.of.Name)
		}
	}
	if p.of.Role == array.ReplicationSource && p.of.Progress.State == array.ReplicationSplit {
		force = true
	}
	if force && p.isPrimary() {
		// First: a demotion whose label is missing would pass for one that loses nothing.
		if err := p.change(ctx, map[string]string{labelDiverged: "true"}); err != nil {
			return nil, err
		}
	}
	if p.of.Progress.State != array.ReplicationDemoted {
		now, err := array.Decode[array.Replication](p.api.DemoteReplication(ctx, p.of.ID, array.ReplicationDemotion{Force: &force}))
		if err != nil {
			return nil, refusal(err)
		}
		p.of = &now
	}
	if !force && p.of.Role == array.ReplicationSource {
		if err := a.awaitLastPoint(ctx, p, request.GetSecrets()); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// awaitLastPoint waits until the other array has the last point. If that takes too long the call is to be repeated. An array that was
// promoted before it heard of the demotion never takes the point: then there is nothing to wait for.
func (a addons) awaitLastPoint(ctx context.Context, p *protected, secrets map[string]string) error {
	peer, err := peerAccess(secrets)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(a.driver.demotePatience)
	for p.of.Progress.State != array.ReplicationDemoted {
		// One that does not respond may have been promoted as well; it is asked again.
		if there, err := p.atPeer(ctx, peer); err == nil && there != nil && isPromoted(there) {
			return p.change(ctx, map[string]string{labelDiverged: "true"})
		}
		if time.Now().After(deadline) {
			why := array.Value(p.of.Progress.Problem)
			if why == "" {
				why = "it takes its time"
			}
			return status.Errorf(codes.Aborted, "the last point of replication %q is not on array %q yet: %s", p.of.Name, p.of.RemoteArray, why)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(demotePoll):
		}
		if err := p.reload(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ResyncVolume makes the volume of this array, which was demoted, the replica of the other one, which was promoted. It is ready once
// this array has everything.
func (a addons) ResyncVolume(ctx context.Context, request *replication.ResyncVolumeRequest) (*replication.ResyncVolumeResponse, error) {
	peer, err := peerAccess(request.GetSecrets())
	if err != nil {
		return nil, err
	}
	p, leave, err := a.begin(ctx, request.GetReplicationSource(), request.GetReplicationId(), request.GetSecrets())
	if err != nil {
		return nil, err
	}
	defer leave()
	if p.of == nil {
		return nil, notReplicated(p)
	}
	if p.isPrimary() {
		return nil, status.Errorf(codes.FailedPrecondition, "%s %s is not demoted: demote it first", p.what(), p.handle)
	}
	if err := p.note(ctx); err != nil {
		return nil, err
	}
	if p.isSynchronized() {
		return &replication.ResyncVolumeResponse{Ready: true}, p.change(ctx, map[string]string{labelDiverged: ""})
	}
	return &replication.ResyncVolumeResponse{}, a.reverse(ctx, p, peer, request.GetForce())
}

// isSynchronized reports whether a target has the newest point of its source.
func (p *protected) isSynchronized() bool {
	state := p.of.Progress.State
	return p.of.Role == array.ReplicationTarget && !p.of.Progress.LastPoint.IsNull() &&
		(state == array.ReplicationIdle || state == array.InSync)
}

// reverse makes the other array the source if it was promoted. Otherwise there is nothing to do yet.
func (a addons) reverse(ctx context.Context, p *protected, peer *array.API, force bool) error {
	isSource := p.of.Role == array.ReplicationSource
	there, err := p.atPeer(ctx, peer)
	if pending := isSource && p.of.Progress.State != array.ReplicationDemoted; pending {
		if err != nil || there == nil || !isPromoted(there) {
			return status.Errorf(codes.Aborted, "the last point of replication %q is still being transferred", p.of.Name)
		}
		if err := p.change(ctx, map[string]string{labelDiverged: "true"}); err != nil {
			return err
		}
	}
	if isSource && p.labels()[labelDiverged] != "" && !force {
		return status.Errorf(codes.FailedPrecondition, "%s %s has writes that the other array has not: a resync with force discards them; clone it first if they are needed",
			p.what(), p.handle)
	}
	if err != nil {
		return err
	}
	if peer == nil {
		if !isSource {
			return nil
		}
		return status.Errorf(codes.FailedPrecondition, "the array that was promoted has to become the source: give the secret %s and %s, or run `ashlar replication reverse` there",
			secretPeerURL, secretPeerToken)
	}
	if there == nil {
		return status.Errorf(codes.FailedPrecondition, "the other array has no replication %q any more: disable it here, and enable it at the source", p.of.Name)
	}
	if !isPromoted(there) {
		return nil
	}
	theirs := protected{handle: p.handle, serial: p.serial, isGroup: p.isGroup, of: there, api: peer}
	if err := a.keepHandles(ctx, &theirs, p); err != nil {
		return err
	}
	if err := array.Done(peer.ReverseReplication(ctx, there.ID)); err != nil {
		return refusal(err)
	}
	return p.reload(ctx)
}

// keepHandles gives the volumes of the other array their handles, if it was promoted by an administrator: only now it is known which
// replaces which.
func (a addons) keepHandles(ctx context.Context, theirs, ours *protected) error {
	own, err := a.driver.arraySerial(ctx)
	if err != nil {
		return err
	}
	for _, of := range theirs.of.Volumes {
		id := array.Value(of.PromotedID)
		if id == "" {
			continue
		}
		volume, err := array.Decode[array.Volume](theirs.api.ShowVolume(ctx, id))
		if err != nil {
			return err
		}
		alias := handle(own, of.ID)
		if !ours.isGroup {
			alias = ours.handle
		}
		its := protected{handle: alias, volume: &volume, of: theirs.of, api: theirs.api}
		if err := its.keepHandle(ctx, map[string]string{}); err != nil {
			return err
		}
	}
	return nil
}

// atPeer returns the replication as the other array has it; nil if it has none, or there is no access to it.
func (p *protected) atPeer(ctx context.Context, peer *array.API) (*array.Replication, error) {
	if peer == nil {
		return nil, nil
	}
	found, err := peer.Check(ctx)
	if err != nil {
		return nil, atOther(err)
	}
	remote, err := array.Decode[array.RemoteArray](p.api.ShowRemoteArray(ctx, p.of.RemoteArray))
	if err != nil {
		return nil, err
	}
	if found.ID != remote.Serial {
		return nil, invalid("%s of the secret is array %s, and replication %q is with array %s", secretPeerURL, found.ID, p.of.Name, remote.Serial)
	}
	there, err := array.Decode[array.Replication](peer.ShowReplication(ctx, p.of.ID))
	if array.IsKind(err, array.NotFound) {
		return nil, nil
	}
	return &there, atOther(err)
}

// atOther says of which array an error is.
func atOther(err error) error {
	if err == nil {
		return nil
	}
	err = coded(err)
	return status.Errorf(status.Code(err), "the other array, by %s of the secret: %s", secretPeerURL, status.Convert(err).Message())
}
