package csi

import (
	"context"
	"slices"
	"strings"

	"github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ashlar/integrations/array"
)

// A replicated volume goes by one handle in both clusters: that of the array where it was made. The array that is promoted makes
// another volume, which has the handle as a label; so a PersistentVolume can be the same in both clusters.
const (
	// labelReplica has the handle of the volume that this one is a promoted replica of.
	labelReplica = "csi.replica"
	// labelReplication has the permanent identifier of a replication, which is the same on both arrays and in both directions.
	labelReplication = "csi.replication"
	// labelDiverged is set on the volumes of an array that was demoted although it had writes that the other one has not.
	labelDiverged = "csi.diverged"
)

// protected is the volume or volume group of a request for replication.
type protected struct {
	handle string
	// serial and id are those of the array where it was made.
	serial, id string
	isGroup    bool
	// volume and group are what there is on this array: one of them, or none before the promotion.
	volume *array.Volume
	group  *array.Group
	// of is its replication; nil if there is none.
	of *array.Replication
	// locked: it is the source, and hosts can't write to it.
	locked bool
	// api has the token that the request came with.
	api *array.API
}

func (p *protected) what() string {
	if p.isGroup {
		return "volume group"
	}
	return "volume"
}

// labels are those of the volume or group on this array.
func (p *protected) labels() map[string]string {
	switch {
	case p.volume != nil:
		return p.volume.Labels
	case p.group != nil:
		return p.group.Labels
	}
	return nil
}

// replicationName ends the names of replications that drivers make. It is the same for both clusters.
func replicationName(handle string) string { return array.Hash("replication " + handle) }

// isMade reports whether a driver made the replication.
func (p *protected) isMade() bool {
	return p.of != nil && strings.HasSuffix(p.of.Name, "-"+replicationName(p.handle))
}

// replicaOf returns the volume on this array that was promoted for a handle of another one.
func (d *Driver) replicaOf(ctx context.Context, handle string) (*array.Volume, error) {
	found, err := d.api.AllVolumes(ctx, array.LabelQuery(map[string]string{labelReplica: handle}))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	if len(found) > 1 {
		return nil, status.Errorf(codes.FailedPrecondition, "%d volumes have the label %s=%s, among them %s and %s: take it from all but one",
			len(found), labelReplica, handle, found[0].Name, found[1].Name)
	}
	return &found[0], nil
}

// handleOf returns the handle of a volume: of a replica, that of the volume that it was promoted for.
func handleOf(serial string, volume array.Volume) string {
	if replica := volume.Labels[labelReplica]; replica != "" {
		return replica
	}
	return handle(serial, volume.ID)
}

// ofHandle is a volume as a request names it.
func ofHandle(handle string) *replication.ReplicationSource {
	return &replication.ReplicationSource{Type: &replication.ReplicationSource_Volume{
		Volume: &replication.ReplicationSource_VolumeSource{VolumeId: handle},
	}}
}

func ofGroup(handle string) *replication.ReplicationSource {
	return &replication.ReplicationSource{Type: &replication.ReplicationSource_Volumegroup{
		Volumegroup: &replication.ReplicationSource_VolumeGroupSource{VolumeGroupId: handle},
	}}
}

// protect finds what a request is about. Something that is neither on this array nor replicated to it is not found.
func (d *Driver) protect(ctx context.Context, source *replication.ReplicationSource, wanted string, secrets map[string]string) (*protected, error) {
	p := &protected{api: d.authorized(secrets)}
	switch {
	case source.GetVolume() != nil:
		p.handle = source.GetVolume().GetVolumeId()
	case source.GetVolumegroup() != nil:
		p.handle, p.isGroup = source.GetVolumegroup().GetVolumeGroupId(), true
	}
	if p.handle == "" {
		return nil, invalid("no volume or volume group")
	}
	var well bool
	p.serial, p.id, well = parseHandle(p.handle)
	if !well || (len(p.id) == groupDigits) != p.isGroup {
		return nil, status.Errorf(codes.NotFound, "%s %q is none of this driver", p.what(), p.handle)
	}
	own, err := d.arraySerial(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.findHere(ctx, p, own); err != nil {
		return nil, err
	}
	if err := p.findReplication(ctx, own, wanted); err != nil {
		return nil, err
	}
	if p.volume == nil && p.group == nil && p.of == nil {
		return nil, status.Errorf(codes.NotFound, "%s %s is neither on array %s nor replicated to it", p.what(), p.handle, own)
	}
	return p, nil
}

// findHere finds the volume or group on this array.
func (d *Driver) findHere(ctx context.Context, p *protected, own string) error {
	if p.isGroup {
		return d.findGroup(ctx, p, own)
	}
	if p.serial != own {
		replica, err := d.replicaOf(ctx, p.handle)
		p.volume = replica
		return err
	}
	volume, err := array.Decode[array.Volume](d.api.ShowVolume(ctx, p.id))
	if err == nil {
		p.volume = &volume
	}
	return array.Unless(array.NotFound, err)
}

func (d *Driver) findGroup(ctx context.Context, p *protected, own string) error {
	if p.serial == own {
		group, err := array.Decode[array.Group](d.api.ShowGroup(ctx, p.id))
		if err == nil {
			p.group = &group
		}
		return array.Unless(array.NotFound, err)
	}
	replica, err := d.groupWith(ctx, map[string]string{labelReplica: p.handle})
	p.group = replica
	return err
}

// groupWith returns a volume group with labels; nil if there is none.
func (d *Driver) groupWith(ctx context.Context, labels map[string]string) (*array.Group, error) {
	found, err := d.api.AllGroups(ctx, array.LabelQuery(labels))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// findReplication finds the replication: the one that its label names, or one that names it.
func (p *protected) findReplication(ctx context.Context, own, wanted string) error {
	all, err := p.api.AllReplications(ctx)
	if err != nil {
		return err
	}
	remotes, err := remoteArrays(ctx, p.api)
	if err != nil {
		return err
	}
	serials := map[string]string{}
	for _, it := range remotes {
		serials[it.Name] = it.Serial
	}
	var found []array.Replication
	for _, it := range all {
		if label := p.labels()[labelReplication]; label != "" && label == it.ID {
			found = []array.Replication{it}
			break
		}
		if p.isIn(it, serials[it.RemoteArray]) {
			found = append(found, it)
		}
	}
	if wanted != "" {
		found = slices.DeleteFunc(found, func(it array.Replication) bool { return it.ID != wanted && it.Name != wanted })
		if len(found) == 0 {
			return status.Errorf(codes.FailedPrecondition, "array %s has no replication %q of %s %s", own, wanted, p.what(), p.handle)
		}
	}
	if len(found) > 1 {
		return status.Errorf(codes.FailedPrecondition, "%s %s has several replications, among them %s and %s: name one as replicationHandle",
			p.what(), p.handle, found[0].Name, found[1].Name)
	}
	if len(found) == 1 {
		p.of = &found[0]
	}
	return p.look(ctx)
}

// look finds out whether a source takes writes. Its state says so unless it is that the transfer of the last point fails, or is paused.
func (p *protected) look(ctx context.Context) error {
	if p.of == nil || p.of.Role != array.ReplicationSource {
		return nil
	}
	switch p.of.Progress.State {
	case array.ReplicationDemoting, array.ReplicationDemoted:
		p.locked = true
	case array.ReplicationFailed, array.ReplicationNoSpace, array.ReplicationPaused:
		if len(p.of.Volumes) == 0 {
			return nil
		}
		volume, err := array.Decode[array.Volume](p.api.ShowVolume(ctx, p.of.Volumes[0].ID))
		p.locked = volume.ReadOnly
		return err
	default:
		p.locked = false
	}
	return nil
}

// isIn reports whether a replication is of the volume or group. remote is the serial number of its other array.
func (p *protected) isIn(of array.Replication, remote string) bool {
	isGroup := array.Value(of.Group) != ""
	if isGroup != p.isGroup {
		return false
	}
	if isGroup {
		if p.group != nil && of.Role == array.ReplicationSource {
			return array.Value(of.Group) == p.group.Name
		}
		// A target knows the group by its name alone.
		return strings.HasSuffix(of.Name, "-"+replicationName(p.handle))
	}
	for _, volume := range of.Volumes {
		switch {
		case of.Role == array.ReplicationSource:
			if p.volume != nil && volume.ID == p.volume.ID {
				return true
			}
		case p.volume != nil && array.Value(volume.PromotedID) == p.volume.ID, remote == p.serial && volume.ID == p.id:
			return true
		}
	}
	return false
}

// change sets and removes labels of the volume or group; nothing is sent if it has them.
func (p *protected) change(ctx context.Context, labels map[string]string) error {
	changes := map[string]*string{}
	for key, value := range labels {
		if p.labels()[key] == value {
			continue
		}
		changes[key] = nil
		if value != "" {
			changes[key] = &value
		}
	}
	if len(changes) == 0 {
		return nil
	}
	var err error
	switch {
	case p.volume != nil:
		*p.volume, err = array.Decode[array.Volume](p.api.ChangeVolume(ctx, p.volume.ID, array.VolumeChange{Labels: &changes}))
	case p.group != nil:
		*p.group, err = array.Decode[array.Group](p.api.ChangeGroup(ctx, p.group.ID, array.GroupChange{Labels: &changes}))
	}
	return err
}

// note keeps the replication's identifier with the volume or group: after a reversal nothing else leads from one to the other.
func (p *protected) note(ctx context.Context) error {
	if p.of == nil {
		return nil
	}
	return p.change(ctx, map[string]string{labelReplication: p.of.ID})
}

// isPromoted reports whether this array is a target that has volumes of its own.
func isPromoted(of *array.Replication) bool {
	return of.Role == array.ReplicationTarget &&
		(of.Progress.State == array.ReplicationPromoted || of.Progress.State == array.ReplicationSplit)
}

// isPrimary reports whether hosts may write to the volumes of this array.
func (p *protected) isPrimary() bool {
	if p.of.Role == array.ReplicationTarget {
		return isPromoted(p.of)
	}
	return !p.locked
}

// reload reads the replication again.
func (p *protected) reload(ctx context.Context) error {
	now, err := array.Decode[array.Replication](p.api.ShowReplication(ctx, p.of.ID))
	if err != nil {
		return err
	}
	p.of = &now
	return p.look(ctx)
}
