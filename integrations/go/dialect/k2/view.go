package k2

import (
	"slices"

	"ashlar/integrations/array"
)

// view is what one request has read of the array.
type view struct {
	volumes      []array.Volume
	groups       []array.Group
	ofSessions   []array.Group
	snapshots    []array.Snapshot
	replications []array.Replication
}

// once reads a list the first time.
func once[T any](kept *[]T, list func() ([]T, error)) ([]T, error) {
	if *kept == nil {
		all, err := list()
		if err != nil {
			return nil, err
		}
		*kept = append([]T{}, all...)
	}
	return *kept, nil
}

// changed forgets what was read, after a change.
func (c *call) changed() { c.seen = view{} }

func (c *call) allVolumes() ([]array.Volume, error) {
	return once(&c.seen.volumes, func() ([]array.Volume, error) {
		all, err := c.api.AllVolumes(c, "")
		if err != nil {
			return nil, err
		}
		promoted, err := c.promoted()
		for at := range all {
			all[at] = promoted[all[at].ID].asSeen(all[at])
		}
		return all, err
	})
}

func (c *call) allSnapshots() ([]array.Snapshot, error) {
	return once(&c.seen.snapshots, func() ([]array.Snapshot, error) { return c.api.AllSnapshots(c, "") })
}

func (c *call) allGroups() ([]array.Group, error) {
	return once(&c.seen.groups, func() ([]array.Group, error) { return c.api.AllGroups(c, "") })
}

// sessionGroups are the array's groups that have the labels of a replication session.
func (c *call) sessionGroups() ([]array.Group, error) {
	return once(&c.seen.ofSessions, func() ([]array.Group, error) { return c.api.AllGroups(c, labelSession) })
}

func (c *call) allReplications() ([]array.Replication, error) {
	return once(&c.seen.replications, func() ([]array.Replication, error) { return c.api.AllReplications(c) })
}

func (c *call) connections() ([]array.Connection, error) {
	return array.All(func(limit, offset int) ([]array.Connection, int, error) {
		found, err := array.Decode[array.Connections](c.api.ListConnections(c, &array.ListConnectionsParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
}

// group is a volume group as clients see it: one of the array, or that of a volume which is in none there. Every volume is in
// one.
type group struct {
	id   int64
	name string
	// of is the array's group; nil if there is none.
	of      *array.Group
	members []array.Volume
}

// groupID identifies the group of a volume.
func groupID(volume array.Volume) int64 {
	if own := volume.Labels[labelGroup]; own != "" {
		return number("group", own)
	}
	if its := array.Value(volume.GroupID); its != "" {
		return number("group", its)
	}
	return ownGroupID(volume)
}

// ownGroupID identifies the group that a volume has if it is in none of the array.
func ownGroupID(volume array.Volume) int64 { return number("own group", volume.ID) }

// volumeIDLength distinguishes identifiers of volumes from those of groups.
const volumeIDLength = 32

// isView reports whether clients see a volume as a snapshot.
func isView(volume array.Volume) bool { return volume.Labels[labelView] != "" }

// groups returns those that a search can find: it reads as few as it can.
func (c *call) groups(asked *query) ([]*group, error) {
	if permanent, known := c.known.get(asked.id); known {
		return c.groupNamed(nil, permanent)
	}
	wanted, given := asked.equal("name")
	if !given {
		return c.everyGroup()
	}
	labelled, err := c.api.AllGroups(c, array.LabelQuery(map[string]string{labelName: wanted}))
	if err != nil {
		return nil, err
	}
	var found []*group
	for _, each := range labelled {
		if found, err = c.withMembers(found, each); err != nil {
			return nil, err
		}
	}
	// The own group of a volume has its name, which may be a label.
	volumes, err := c.candidates(asked)
	if err != nil {
		return nil, err
	}
	for _, volume := range volumes {
		if groupID(volume) == ownGroupID(volume) && !isView(volume) {
			found = append(found, c.ownGroup(volume))
		}
	}
	if !accepted.MatchString(wanted) {
		return found, nil
	}
	return c.groupNamed(found, wanted)
}

// groupNamed adds a group, by its identifier or name on the array, unless it is gone or was found already. The identifier of a
// volume stands for the volume's own group.
func (c *call) groupNamed(found []*group, name string) ([]*group, error) {
	if len(name) == volumeIDLength {
		volume, err := array.Decode[array.Volume](c.api.ShowVolume(c, name))
		if err == nil && volume.ID == name {
			if groupID(volume) == ownGroupID(volume) {
				found = append(found, c.ownGroup(volume))
			}
			return found, nil
		}
		if err := array.Unless(array.NotFound, err); err != nil {
			return nil, err
		}
	}
	of, err := array.Decode[array.Group](c.api.ShowGroup(c, name))
	if array.IsKind(err, array.NotFound) {
		return found, nil
	}
	if err != nil || slices.ContainsFunc(found, func(it *group) bool { return it.of != nil && it.of.ID == of.ID }) {
		return found, err
	}
	return c.withMembers(found, of)
}

// manyMembers is how many members of a group are read one by one at most.
const manyMembers = 16

// withMembers adds a group of the array.
func (c *call) withMembers(found []*group, of array.Group) ([]*group, error) {
	it := c.seenAs(&of)
	if len(of.Volumes) > manyMembers {
		all, err := c.everyGroup()
		for _, each := range all {
			if each.id == it.id {
				it = each
			}
		}
		return append(found, it), err
	}
	promoted, err := c.promoted()
	if err != nil {
		return nil, err
	}
	volumes, err := c.api.AllVolumes(c, array.LabelQuery(map[string]string{labelGroup: of.ID}))
	if err != nil {
		return nil, err
	}
	for permanent, its := range promoted {
		if its.group == of.ID {
			if volumes, err = c.shownAs(volumes, permanent, promoted); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range of.Volumes {
		if volumes, err = c.shownAs(volumes, name, promoted); err != nil {
			return nil, err
		}
	}
	for _, volume := range volumes {
		if groupID(volume) == it.id && !isView(volume) {
			it.members = append(it.members, volume)
		}
	}
	return append(found, it), nil
}

func (c *call) seenAs(of *array.Group) *group {
	it := &group{id: number("group", of.ID), name: shown(of.Name, of.Labels), of: of}
	c.known.add(it.id, of.ID)
	return it
}

func (c *call) ownGroup(volume array.Volume) *group {
	it := &group{id: ownGroupID(volume), name: shown(volume.Name, volume.Labels), members: []array.Volume{volume}}
	c.known.add(it.id, volume.ID)
	return it
}

func (c *call) everyGroup() ([]*group, error) {
	of, err := c.allGroups()
	if err != nil {
		return nil, err
	}
	volumes, err := c.allVolumes()
	if err != nil {
		return nil, err
	}
	var all []*group
	byID := map[int64]*group{}
	for at := range of {
		it := c.seenAs(&of[at])
		all, byID[it.id] = append(all, it), it
	}
	for _, volume := range volumes {
		switch it := byID[groupID(volume)]; {
		case isView(volume):
		case it != nil:
			it.members = append(it.members, volume)
		case groupID(volume) == ownGroupID(volume):
			all = append(all, c.ownGroup(volume))
		}
	}
	return all, nil
}

func (c *call) group(id int64) (*group, error) {
	all, err := c.groups(&query{id: id})
	if err != nil {
		return nil, err
	}
	for _, each := range all {
		if each.id == id {
			return each, nil
		}
	}
	return nil, gone(pathGroups, id)
}

// labels returns labels of the array's group; none if there is no group.
func (g *group) labels() map[string]string {
	if g.of == nil {
		return nil
	}
	return g.of.Labels
}
