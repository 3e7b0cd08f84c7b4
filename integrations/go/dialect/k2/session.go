package k2

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

const (
	pathPeers       = "/replication/peer_k2arrays"
	pathSessions    = "/replication/sessions"
	pathPeerVolumes = "/replication/peer_volumes"
)

// Labels of a session, on a volume group of each array: the group of the volumes on the array where the session was made, and on
// the other one a group that stands for them. The replication itself begins when a client wants the session in sync.
const (
	// labelSession is the name of the session on this array, labelRemote on the other one.
	labelSession = "dialect.session"
	labelRemote  = "dialect.session.remote"
	// labelArray is the serial number of the other array, labelPeerGroup the volume group there.
	labelArray     = "dialect.session.array"
	labelPeerGroup = "dialect.session.group"
	labelRpo       = "dialect.session.rpo"
	// labelID is the permanent identifier of the replication, equal on both arrays; none before it begins.
	labelID = "dialect.session.id"
	// labelHeld is the state in which a client holds the session: idle or suspended.
	labelHeld = "dialect.session.held"
	// labelGeneration is the newest point at the time when a client asked for one more.
	labelGeneration = "dialect.session.generation"
	// labelSide is replica on the array that had no volumes of the session at first.
	labelSide = "dialect.session.side"
	// labelVolume begins labels with a volume's name on the other array, or on this one if it is the replica; its identifier
	// follows. labelSize has the size in KiB in the same way.
	labelVolume = "dialect.volume/"
	labelSize   = "dialect.size/"

	replicaSide = "replica"
)

// States of sessions.
const (
	stateIdle       = "idle"
	stateInSync     = "in_sync"
	stateSuspended  = "suspended"
	stateFailedOver = "failed_over"
)

// session of a volume group.
type session struct {
	// group without its members.
	group *group
	// of is the replication as this array has it; nil before it begins, on the target before the first transfer.
	of *array.Replication
}

func (s *session) label(key string) string { return s.group.labels()[key] }

func (s *session) name() string { return s.label(labelSession) }

func (s *session) id() int64 { return number("session", s.group.of.ID) }

func (s *session) isReplica() bool { return s.label(labelSide) == replicaSide }

func (s *session) role() array.ReplicationRole {
	switch {
	case s.of != nil:
		return s.of.Role
	case s.isReplica():
		return array.ReplicationTarget
	}
	return array.ReplicationSource
}

// isPromoted reports whether this array was promoted, so that its volumes take writes.
func (s *session) isPromoted() bool {
	if s.of == nil || s.of.Role != array.ReplicationTarget {
		return false
	}
	switch s.of.Progress.State {
	case array.ReplicationPromoting, array.ReplicationPromoted, array.ReplicationSplit:
		return true
	}
	return false
}

// isWhole reports that the target has everything that was to be transferred.
func isWhole(state array.ReplicationState) bool {
	return state == array.ReplicationIdle || state == array.InSync
}

func (s *session) state() string {
	switch {
	case s.label(labelHeld) != "":
		return s.label(labelHeld)
	case s.isPromoted():
		return stateFailedOver
	case s.label(labelID) == "":
		return stateIdle
	case s.of == nil:
		return stateInSync
	}
	switch s.of.Progress.State {
	case array.ReplicationPaused:
		return stateSuspended
	case array.ReplicationDemoting, array.ReplicationDemoted, array.ReplicationSplit:
		if s.of.Role == array.ReplicationSource {
			return stateSuspended
		}
	}
	return stateInSync
}

func (c *call) sessions() ([]*session, error) {
	groups, err := c.sessionGroups()
	if err != nil || len(groups) == 0 {
		return nil, err
	}
	replications, err := c.allReplications()
	if err != nil {
		return nil, err
	}
	var all []*session
	for at := range groups {
		it := &session{group: c.seenAs(&groups[at])}
		for at := range replications {
			if replications[at].ID == it.label(labelID) {
				it.of = &replications[at]
			}
		}
		all = append(all, it)
	}
	return all, nil
}

func (c *call) session(id int64) (*session, error) {
	all, err := c.sessions()
	if err != nil {
		return nil, err
	}
	for _, each := range all {
		if each.id() == id {
			return each, nil
		}
	}
	return nil, gone(pathSessions, id)
}

func listSessions(c *call, _ *query) ([]object, error) {
	all, err := c.sessions()
	if err != nil {
		return nil, err
	}
	var made []object
	for _, each := range all {
		made = append(made, each.object())
	}
	return made, nil
}

// object describes a session. A point that a client asked for is complete when a newer one than it knew is, and nothing is
// being transferred.
func (s *session) object() object {
	var newest, generation int64
	var transfer any
	progress := int64(100)
	if s.of != nil {
		newest = array.Value(s.of.Progress.LastPoint)
	}
	generation = newest
	if asked, err := strconv.ParseInt(s.label(labelGeneration), 10, 64); err == nil {
		generation = asked
		if s.of == nil || newest <= asked || !isWhole(s.of.Progress.State) {
			progress, transfer = 0, newest+1
		}
	}
	rpo, _ := strconv.ParseInt(s.label(labelRpo), 10, 64)
	if s.of != nil {
		rpo = s.of.RpoSeconds
	}
	return object{
		"id": s.id(), "name": s.name(), "state": s.state(), "current_role": string(s.role()), "rpo": rpo,
		"local_volume_group":                 refTo(pathGroups, s.group.id),
		"replication_peer_k2array":           refTo(pathPeers, number("array", s.label(labelArray))),
		"replication_peer_volume_group_name": s.label(labelPeerGroup), "remote_replication_session_name": s.label(labelRemote),
		"auto_configure_peer_volumes": false, "generation_number": generation, "current_snapshot_progress": progress,
		"current_snapshot_id": transfer,
	}
}

// remotes are the arrays that this one is paired with and whose server is configured, by serial number.
func (c *call) remotes() (map[string]*peer, []array.RemoteArray, error) {
	all, err := array.All(func(limit, offset int) ([]array.RemoteArray, int, error) {
		found, err := array.Decode[array.RemoteArrays](c.api.ListRemoteArrays(c, &array.ListRemoteArraysParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
	if err != nil {
		return nil, nil, err
	}
	served := map[string]*peer{}
	var known []array.RemoteArray
	for _, each := range all {
		for _, configured := range c.peers {
			if configured.RemoteArray == each.Name {
				served[each.Serial] = configured
				known = append(known, each)
			}
		}
	}
	return served, known, nil
}

func listPeers(c *call, _ *query) ([]object, error) {
	served, known, err := c.remotes()
	if err != nil {
		return nil, err
	}
	var made []object
	for _, each := range known {
		made = append(made, object{
			"id": number("array", each.Serial), "name": each.Name, "mgmt_host": served[each.Serial].ManagementHost,
			"system_id": each.Serial, "mgmt_connectivity_state": strings.ToUpper(string(each.Link.State)),
		})
	}
	return made, nil
}

// newSession is what a client wants of a new session.
type newSession struct {
	name, remote, peerGroup string
	rpo                     int64
	group                   *group
	array                   array.RemoteArray
	peer                    *peer
}

func (c *call) parseSession(sent body) (wanted newSession, err error) {
	if wanted.name, err = sent.text("name"); err != nil {
		return wanted, err
	}
	if wanted.remote, err = sent.text("remote_replication_session_name"); err != nil {
		return wanted, err
	}
	if wanted.peerGroup, err = sent.text("replication_peer_volume_group_name"); err != nil {
		return wanted, err
	}
	if wanted.rpo, err = sent.number("rpo"); err != nil {
		return wanted, err
	}
	if automatic, err := sent.flag("auto_configure_peer_volumes"); err != nil || automatic {
		return wanted, fail(http.StatusBadRequest, "auto_configure_peer_volumes can only be false: name the peer volumes")
	}
	other, err := sent.refOf("replication_peer_k2array", pathPeers)
	if err != nil {
		return wanted, err
	}
	served, known, err := c.remotes()
	if err != nil {
		return wanted, err
	}
	for _, each := range known {
		if number("array", each.Serial) == other {
			wanted.array, wanted.peer = each, served[each.Serial]
		}
	}
	if wanted.peer == nil {
		return wanted, gone(pathPeers, other)
	}
	in, err := sent.refOf("local_volume_group", pathGroups)
	if err != nil {
		return wanted, err
	}
	if wanted.group, err = c.group(in); err != nil {
		return wanted, err
	}
	wanted.group, err = c.real(wanted.group, nil)
	return wanted, err
}

// mayChangeSessions refuses clients that are no administrators: the token of a peer, which does the work on the other array, is
// one's, and has to do no more than the client may.
func (c *call) mayChangeSessions() error {
	its, err := array.Decode[array.Session](c.api.ShowSession(c))
	if err != nil || its.Role == array.RoleAdmin {
		return err
	}
	return fail(http.StatusForbidden, "replication sessions are changed with the role admin, and %s has the role %s", its.User, its.Role)
}

// createSession notes a session on both arrays: first on the other one, so that a session that is there is complete.
func createSession(c *call, sent body) (object, error) {
	if err := c.mayChangeSessions(); err != nil {
		return nil, err
	}
	wanted, err := c.parseSession(sent)
	if err != nil {
		return nil, err
	}
	all, err := c.sessions()
	if err != nil {
		return nil, err
	}
	for _, each := range all {
		same := each.group.id == wanted.group.id && each.name() == wanted.name
		if !same && (each.group.id == wanted.group.id || each.name() == wanted.name) {
			return nil, fail(http.StatusConflict, "volume group %s has the replication session %s", each.group.name, each.name())
		}
	}
	status, err := c.api.Check(c)
	if err != nil {
		return nil, err
	}
	name, label, err := nameOf(wanted.peerGroup)
	if err != nil {
		return nil, err
	}
	rpo := strconv.FormatInt(wanted.rpo, 10)
	labels := named(label)
	labels[labelSession], labels[labelRemote], labels[labelPeerGroup] = wanted.remote, wanted.name, wanted.group.name
	labels[labelArray], labels[labelRpo], labels[labelSide] = status.ID, rpo, replicaSide
	if err := array.Done(wanted.peer.api.CreateGroup(c, array.NewGroup{Name: name, Labels: &labels})); err != nil {
		return nil, fmt.Errorf("on array %s: %w", wanted.array.Name, err)
	}
	err = c.label(wanted.group, map[string]string{
		labelSession: wanted.name, labelRemote: wanted.remote, labelPeerGroup: wanted.peerGroup, labelRpo: rpo, labelArray: wanted.array.Serial,
	})
	if err != nil {
		return nil, err
	}
	it, err := c.session((&session{group: wanted.group}).id())
	if err != nil {
		return nil, err
	}
	return it.object(), nil
}

// label sets labels of the array's group; an empty value removes one.
func (c *call) label(it *group, labels map[string]string) error {
	defer c.changed()
	return array.Done(c.api.ChangeGroup(c, it.of.ID, array.GroupChange{Labels: merged(labels)}))
}

func merged(labels map[string]string) *map[string]*string {
	changes := map[string]*string{}
	for key, value := range labels {
		changes[key] = nil
		if value != "" {
			changes[key] = &value
		}
	}
	return &changes
}

// otherSide is the session's other end: its array, and the volume group there that has its labels.
type otherSide struct {
	*peer
	group string
}

func (c *call) otherSide(s *session) (*otherSide, error) {
	served, _, err := c.remotes()
	if err != nil {
		return nil, err
	}
	it := served[s.label(labelArray)]
	if it == nil {
		return nil, fail(http.StatusBadRequest, "array %s is not among the peers of this server, or not paired any more", s.label(labelArray))
	}
	groups, err := it.api.AllGroups(c, array.LabelQuery(map[string]string{labelSession: s.label(labelRemote)}))
	if err != nil {
		return nil, err
	}
	if len(groups) == 0 {
		return nil, &array.Error{Kind: array.NotFound, Detail: fmt.Sprintf("array %s has no session %s", it.RemoteArray, s.label(labelRemote))}
	}
	return &otherSide{peer: it, group: groups[0].ID}, nil
}

func (o *otherSide) label(c *call, labels map[string]string) error {
	return array.Done(o.api.ChangeGroup(c, o.group, array.GroupChange{Labels: merged(labels)}))
}

// replication returns it as the other array has it; nil if it is not there.
func (o *otherSide) replication(c *call, id string) (*array.Replication, error) {
	all, err := o.api.AllReplications(c)
	if err != nil {
		return nil, err
	}
	for at := range all {
		if all[at].ID == id {
			return &all[at], nil
		}
	}
	return nil, nil
}

func listPeerVolumes(c *call, _ *query) ([]object, error) {
	all, err := c.sessions()
	if err != nil {
		return nil, err
	}
	var made []object
	for _, it := range all {
		for key, name := range it.group.labels() {
			if volume, found := strings.CutPrefix(key, labelVolume); found && !it.isReplica() {
				made = append(made, peerVolumeObject(it, volume, name))
			}
		}
	}
	return made, nil
}

func peerVolumeObject(it *session, volume, name string) object {
	return object{
		"id": number("peer volume", volume), "name": name, "local_volume": refTo(pathVolumes, number("volume", volume)),
		"replication_session": refTo(pathSessions, it.id()),
	}
}

// createPeerVolume notes the name of a volume's replica on both arrays.
func createPeerVolume(c *call, sent body) (object, error) {
	if err := c.mayChangeSessions(); err != nil {
		return nil, err
	}
	name, err := sent.text("name")
	if err != nil {
		return nil, err
	}
	which, err := sent.refOf("local_volume", pathVolumes)
	if err != nil {
		return nil, err
	}
	volume, err := c.volume(which)
	if err != nil {
		return nil, err
	}
	in, err := sent.refOf("replication_session", pathSessions)
	if err != nil {
		return nil, err
	}
	it, err := c.session(in)
	if err != nil {
		return nil, err
	}
	if groupID(volume) != it.group.id || it.isReplica() {
		return nil, fail(http.StatusBadRequest, "volume %s is not of the replication session %s", volume.Name, it.name())
	}
	if len(name) > maxLabel {
		return nil, fail(http.StatusBadRequest, "a name has at most %d bytes", maxLabel)
	}
	other, err := c.otherSide(it)
	if err != nil {
		return nil, err
	}
	err = other.label(c, map[string]string{labelVolume + volume.ID: name, labelSize + volume.ID: strconv.FormatInt(volume.Size/kib, 10)})
	if err != nil {
		return nil, err
	}
	if err := c.label(it.group, map[string]string{labelVolume + volume.ID: name}); err != nil {
		return nil, err
	}
	return peerVolumeObject(it, volume.ID, name), nil
}

// own is what clients see of a volume that this array was promoted with.
type own struct{ name, group string }

// promoted returns what clients see of promoted volumes, by their permanent identifiers. Labels say it, or, if the array was
// promoted by another client, the replication.
func (c *call) promoted() (map[string]own, error) {
	groups, err := c.sessionGroups()
	if err != nil {
		return nil, err
	}
	known := map[string]own{}
	for _, each := range groups {
		if each.Labels[labelSide] != replicaSide {
			continue
		}
		replications, err := c.allReplications()
		if err != nil {
			return nil, err
		}
		for _, it := range replications {
			if it.ID != each.Labels[labelID] {
				continue
			}
			for _, volume := range it.Volumes {
				name, permanent := each.Labels[labelVolume+volume.ID], array.Value(volume.PromotedID)
				if name != "" && permanent != "" {
					known[permanent] = own{name, each.ID}
				}
			}
		}
	}
	return known, nil
}

// asSeen gives a volume the labels that clients see, if it has none.
func (o own) asSeen(volume array.Volume) array.Volume {
	if o.name != "" && volume.Labels[labelGroup] == "" {
		volume.Labels = map[string]string{labelName: o.name, labelGroup: o.group}
	}
	return volume
}

// taken returns group and name of the volumes that are no replicas any more.
func (c *call) taken() (map[own]bool, error) {
	labelled, err := c.api.AllVolumes(c, labelGroup)
	if err != nil {
		return nil, err
	}
	all, err := c.promoted()
	if err != nil {
		return nil, err
	}
	taken := map[own]bool{}
	for _, each := range labelled {
		taken[own{each.Labels[labelName], each.Labels[labelGroup]}] = true
	}
	for _, each := range all {
		taken[each] = true
	}
	return taken, nil
}

// replicas are volumes of which this array has points but no volume yet: clients expect to see them before a failover.
func (c *call) replicas() ([]object, error) {
	groups, err := c.sessionGroups()
	if err != nil {
		return nil, err
	}
	var made []object
	var taken map[own]bool
	for _, each := range groups {
		if each.Labels[labelSide] != replicaSide {
			continue
		}
		if taken == nil {
			if taken, err = c.taken(); err != nil {
				return nil, err
			}
		}
		for key, name := range each.Labels {
			volume, found := strings.CutPrefix(key, labelVolume)
			if !found || taken[own{name, each.ID}] {
				continue
			}
			size, _ := strconv.ParseInt(each.Labels[labelSize+volume], 10, 64)
			made = append(made, object{
				"id": number("replica", volume), "name": name, "size": size, "volume_group": refTo(pathGroups, number("group", each.ID)),
				"description": "", "is_dedup": true, "scsi_sn": "", "replica": true,
			})
		}
	}
	return made, nil
}

// removeSession deletes the replication on this array. The volumes stay; those that this array was promoted with come into the
// session's volume group. The labels go last, so that a session that was not deleted completely is still there.
func removeSession(c *call, id int64) error {
	if err := c.mayChangeSessions(); err != nil {
		return err
	}
	it, err := c.session(id)
	if err != nil {
		return err
	}
	if it.of != nil {
		if err := array.Unless(array.NotFound, array.Done(c.api.DeleteReplication(c, it.of.Name))); err != nil {
			return err
		}
	}
	if it.isReplica() {
		whole, err := c.group(it.group.id)
		if err != nil {
			return err
		}
		if err := c.adopt(whole); err != nil {
			return err
		}
	}
	labels := map[string]string{}
	for key := range it.group.labels() {
		if strings.HasPrefix(key, labelSession) || strings.HasPrefix(key, labelVolume) || strings.HasPrefix(key, labelSize) {
			labels[key] = ""
		}
	}
	return c.label(it.group, labels)
}

// adopt moves volumes into the group in which clients see them, and deletes the group that the promotion made for them.
func (c *call) adopt(into *group) error {
	for _, volume := range into.members {
		made := array.Value(volume.GroupID)
		if made == into.of.ID {
			continue
		}
		change := array.VolumeChange{Group: nullable.NewNullableWithValue(into.of.ID)}
		if err := array.Done(c.api.ChangeVolume(c, volume.ID, change)); err != nil {
			return err
		}
		if made == "" {
			continue
		}
		left, err := array.Decode[array.Group](c.api.ShowGroup(c, made))
		if err == nil && len(left.Volumes) == 0 && len(left.Labels) == 0 {
			err = array.Done(c.api.DeleteGroup(c, made))
		}
		if err := array.Unless(array.NotFound, err); err != nil {
			return err
		}
	}
	return nil
}
