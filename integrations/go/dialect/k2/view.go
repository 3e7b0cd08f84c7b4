package k2

import (
	"ashlar/integrations/array"
)

// view is what one request has read of the array.
type view struct {
	volumes      []array.Volume
	groups       []array.Group
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
	return once(&c.seen.groups, func() ([]array.Group, error) { return groupsOf(c, c.api, "") })
}

func groupsOf(c *call, api *array.API, label string) ([]array.Group, error) {
	return array.All(func(limit, offset int) ([]array.Group, int, error) {
		asked := &array.ListGroupsParams{Limit: &limit, Offset: &offset}
		if label != "" {
			asked.Label = &label
		}
		found, err := array.Decode[array.Groups](api.ListGroups(c, asked))
		return found.Items, found.Total, err
	})
}

func (c *call) allReplications() ([]array.Replication, error) {
	return once(&c.seen.replications, func() ([]array.Replication, error) { return replicationsOf(c, c.api) })
}

func replicationsOf(c *call, api *array.API) ([]array.Replication, error) {
	return array.All(func(limit, offset int) ([]array.Replication, int, error) {
		found, err := array.Decode[array.Replications](api.ListReplications(c, &array.ListReplicationsParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
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
	return number("own group", volume.ID)
}

// isView reports whether clients see a volume as a snapshot.
func isView(volume array.Volume) bool { return volume.Labels[labelView] != "" }

func (c *call) groups() ([]*group, error) {
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
	add := func(it *group) {
		all, byID[it.id] = append(all, it), it
	}
	for at := range of {
		add(&group{id: number("group", of[at].ID), name: shown(of[at].Name, of[at].Labels), of: &of[at]})
	}
	for _, volume := range volumes {
		if isView(volume) {
			continue
		}
		id := groupID(volume)
		if byID[id] == nil {
			add(&group{id: id, name: shown(volume.Name, volume.Labels)})
		}
		byID[id].members = append(byID[id].members, volume)
	}
	return all, nil
}

func (c *call) group(id int64) (*group, error) {
	all, err := c.groups()
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

// labelsOf returns labels of the array's group; none if there is no group.
func (g *group) labels() map[string]string {
	if g.of == nil {
		return nil
	}
	return g.of.Labels
}
