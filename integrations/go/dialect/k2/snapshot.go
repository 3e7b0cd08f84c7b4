package k2

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

const (
	pathSnapshots = "/snapshots"
	pathVolsnaps  = "/volsnaps"
	pathPolicies  = "/retention_policies"
	// policyID and policyName are of the only retention policy. Clients look for this name.
	policyID   = 1
	policyName = "Best_Effort_Retention"
)

// snapshot is one as clients see it: of all volumes of a group at one moment. A view is a snapshot that hosts may write to; on
// the array its parts are clones.
type snapshot struct {
	id    int64
	name  string
	group int64
	set   string
	view  bool
	taken int64
	parts []part
}

// part is what one volume has in a snapshot.
type part struct {
	// permanent identifier and name of the snapshot or clone on the array.
	permanent, name string
	size            int64
}

func (p part) id() int64 { return number("volsnap", p.permanent) }

func (c *call) snapshots() ([]*snapshot, error) {
	of, err := c.allSnapshots()
	if err != nil {
		return nil, err
	}
	volumes, err := c.allVolumes()
	if err != nil {
		return nil, err
	}
	groups := map[string]int64{}
	for _, volume := range volumes {
		groups[volume.ID] = groupID(volume)
	}
	var all []*snapshot
	byID := map[int64]*snapshot{}
	add := func(it *snapshot, kind string, piece part) {
		it.id = number(kind, it.key())
		if byID[it.id] == nil {
			all, byID[it.id] = append(all, it), it
		}
		byID[it.id].parts = append(byID[it.id].parts, piece)
	}
	// Snapshots of deleted volumes are in no group.
	for _, each := range of {
		its := array.Value(each.Source)
		name := shown(strings.TrimPrefix(each.Name, its+"."), each.Labels)
		add(&snapshot{name: name, group: groups[each.SourceID], set: each.Set, taken: each.Created.Unix()},
			"snapshot", part{each.ID, each.Name, each.Size})
	}
	sets := map[string]int64{}
	for _, each := range all {
		sets[each.set] = each.group
	}
	for _, each := range volumes {
		if set := each.Labels[labelView]; set != "" {
			add(&snapshot{name: shown(each.Name, each.Labels), group: sets[set], set: set, view: true, taken: each.Created.Unix()},
				"view", part{each.ID, each.Name, each.Size})
		}
	}
	return all, nil
}

// key is what a snapshot is known by: several views of one snapshot have different names.
func (s *snapshot) key() string {
	if s.view {
		return s.set + " " + s.name
	}
	return fmt.Sprint(s.set, " ", s.group)
}

func (c *call) snapshot(id int64) (*snapshot, error) {
	all, err := c.snapshots()
	if err != nil {
		return nil, err
	}
	for _, each := range all {
		if each.id == id {
			return each, nil
		}
	}
	return nil, gone(pathSnapshots, id)
}

func listSnapshots(c *call, _ *query) ([]object, error) {
	all, err := c.snapshots()
	if err != nil {
		return nil, err
	}
	var made []object
	for _, each := range all {
		made = append(made, snapshotObject(each))
	}
	return made, nil
}

func snapshotObject(it *snapshot) object {
	var in *ref
	if it.group != 0 {
		in = refTo(pathGroups, it.group)
	}
	return object{
		"id": it.id, "short_name": it.name, "name": it.name, "volume_group": in, "source": in,
		"retention_policy": refTo(pathPolicies, policyID), "is_exposable": it.view, "is_auto_deleteable": false,
		"is_application_consistent": false, "creation_time": it.taken, "generation_number": int64(0),
		"replication_session": (*ref)(nil), "description": "",
	}
}

func createSnapshot(c *call, sent body) (object, error) {
	if sent.has("replication_session") {
		return c.transferPoint(sent)
	}
	name, err := sent.text("short_name")
	if err != nil {
		return nil, err
	}
	path, id, err := sent.ref("source")
	if err != nil {
		return nil, err
	}
	switch path {
	case pathGroups:
		return c.takeSnapshot(id, name)
	case pathSnapshots:
		return c.createView(id, name)
	}
	return nil, fail(http.StatusBadRequest, "source must be a volume group, or a snapshot for a view")
}

// takeSnapshot takes one of all volumes of a group at one moment. Repeated, it finds what it took.
func (c *call) takeSnapshot(id int64, name string) (object, error) {
	it, err := c.group(id)
	if err != nil {
		return nil, err
	}
	if len(it.members) == 0 {
		return nil, fail(http.StatusBadRequest, "volume group %s has no volumes", it.name)
	}
	suffix := name
	if !acceptedSuffix.MatchString(name) {
		suffix = hashedName + array.Hash(name)
	}
	if len(name) > maxLabel {
		return nil, fail(http.StatusBadRequest, "a name has at most %d bytes", maxLabel)
	}
	var of []array.SnapshotSource
	for _, volume := range it.members {
		of = append(of, array.SnapshotSource{Volume: volume.ID})
	}
	labels := named(&name)
	taken, err := array.Decode[array.Snapshots](c.api.CreateSnapshots(c, array.NewSnapshots{
		Sources: nullable.NewNullableWithValue(of), Suffix: nullable.NewNullableWithValue(suffix), Labels: &labels,
	}))
	if err != nil {
		return nil, err
	}
	made := &snapshot{name: name, group: it.id}
	for _, each := range taken.Items {
		made.set, made.taken = each.Set, each.Created.Unix()
	}
	made.id = number("snapshot", made.key())
	return snapshotObject(made), nil
}

// createView clones what a snapshot has, for hosts to use.
func (c *call) createView(id int64, name string) (object, error) {
	of, err := c.snapshot(id)
	if err != nil {
		return nil, err
	}
	if of.view {
		return nil, fail(http.StatusBadRequest, "snapshot %s is a view: make views of the snapshot that it was made of", of.name)
	}
	made := &snapshot{name: name, group: of.group, set: of.set, view: true}
	for at, each := range of.parts {
		whole := name
		if at > 0 {
			whole = fmt.Sprintf("%s.%d", name, at+1)
		}
		own, _, err := nameOf(whole)
		if err != nil {
			return nil, err
		}
		labels := map[string]string{labelView: of.set, labelName: name}
		clone, err := array.Decode[array.Volume](c.api.CreateVolume(c, array.NewVolume{
			Name: own, Source: nullable.NewNullableWithValue(each.permanent), Labels: &labels,
		}))
		if err != nil {
			return nil, err
		}
		made.taken = clone.Created.Unix()
	}
	made.id = number("view", made.key())
	return snapshotObject(made), nil
}

func changeSnapshot(c *call, id int64, sent body) (object, error) {
	it, err := c.snapshot(id)
	if err != nil {
		return nil, err
	}
	if sent.has("short_name") {
		if it.view {
			return nil, fail(http.StatusBadRequest, "a view can't be renamed")
		}
		if it.name, err = sent.text("short_name"); err != nil {
			return nil, err
		}
		labels := map[string]*string{labelName: &it.name}
		for _, each := range it.parts {
			change := array.SnapshotChange{Labels: nullable.NewNullableWithValue(labels)}
			if _, err := array.Decode[array.Snapshot](c.api.ChangeSnapshot(c, each.permanent, change)); err != nil {
				return nil, err
			}
		}
	}
	return snapshotObject(it), nil
}

// removeSnapshot moves every part to the recycle bin. Repeated after a failure, it does the rest.
func removeSnapshot(c *call, id int64) error {
	it, err := c.snapshot(id)
	if err != nil {
		return err
	}
	for _, each := range it.parts {
		if it.view {
			err = array.Done(c.api.DeleteVolume(c, each.permanent, &array.DeleteVolumeParams{}))
		} else {
			err = array.Done(c.api.DeleteSnapshot(c, each.permanent, &array.DeleteSnapshotParams{}))
		}
		if err := array.Unless(array.NotFound, err); err != nil {
			return err
		}
	}
	return nil
}

func listVolsnaps(c *call, _ *query) ([]object, error) {
	all, err := c.snapshots()
	if err != nil {
		return nil, err
	}
	var made []object
	for _, it := range all {
		for _, each := range it.parts {
			made = append(made, object{
				"id": each.id(), "name": each.name, "size": each.size / kib, "snapshot": refTo(pathSnapshots, it.id),
			})
		}
	}
	return made, nil
}

func listPolicies(c *call, _ *query) ([]object, error) {
	_, err := c.api.Check(c)
	return []object{{"id": int64(policyID), "name": policyName, "num_snapshots": int64(0), "hours": int64(0), "days": int64(0), "weeks": int64(0)}}, err
}
