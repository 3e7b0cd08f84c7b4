package sra

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
)

// labelHost marks hosts that the adapter created.
const labelHost = "sra.host"

// accessGroups are the hosts of the command's access groups, each found or created once.
type accessGroups struct {
	c     *call
	hosts map[string][]array.Host
}

// hostsOf returns the hosts of an access group. Several initiators may be of one host.
func (g *accessGroups) hostsOf(ctx context.Context, id string) ([]array.Host, error) {
	if known, there := g.hosts[id]; there {
		return known, nil
	}
	names, err := g.initiators(id)
	if err != nil {
		return nil, err
	}
	var hosts []array.Host
	for _, name := range names {
		host, err := g.host(ctx, name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(hosts, func(it array.Host) bool { return it.ID == host.ID }) {
			hosts = append(hosts, host)
		}
	}
	if g.hosts == nil {
		g.hosts = map[string][]array.Host{}
	}
	g.hosts[id] = hosts
	return hosts, nil
}

// initiators returns the names of the iSCSI initiators of an access group.
func (g *accessGroups) initiators(id string) ([]string, error) {
	var names []string
	for _, group := range g.c.in.AccessGroups {
		if group.ID != id {
			continue
		}
		for _, it := range group.Initiators {
			if strings.EqualFold(it.Type, "iSCSI") {
				names = append(names, strings.ToLower(strings.TrimSpace(it.ID)))
			}
		}
	}
	if len(names) == 0 {
		return nil, fail(codeInitiators, fmt.Sprintf("access group %q has no iSCSI initiator", id))
	}
	return names, nil
}

func (g *accessGroups) host(ctx context.Context, initiator string) (array.Host, error) {
	found, err := g.c.api.HostOf(ctx, initiator)
	if err != nil {
		return array.Host{}, err
	}
	if found != nil {
		return *found, nil
	}
	labels := map[string]string{labelHost: "1"}
	made, err := array.Decode[array.Host](g.c.api.CreateHost(ctx, array.NewHost{
		Name: "srm-" + array.Hash(initiator)[:16], Initiators: []string{initiator}, Labels: &labels,
	}))
	if array.IsKind(err, array.Conflict) {
		// The command for another array pair may have been faster.
		if found, again := g.c.api.HostOf(ctx, initiator); again == nil && found != nil {
			return *found, nil
		}
	}
	return made, err
}

// connect connects a volume to the hosts of access groups; to those that have it already it stays connected.
func (g *accessGroups) connect(ctx context.Context, volume string, to []Reference) error {
	for _, reference := range to {
		hosts, err := g.hostsOf(ctx, reference.ID)
		if err != nil {
			return err
		}
		for _, host := range hosts {
			if err := g.attach(ctx, volume, host); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *accessGroups) attach(ctx context.Context, volume string, host array.Host) error {
	shown, err := array.Decode[array.Volume](g.c.api.ShowVolume(ctx, volume))
	if err != nil {
		return err
	}
	for _, connection := range shown.Connections {
		own := array.Value(connection.HostID) == host.ID
		inherited := array.Value(connection.HostGroupID) != "" && array.Value(connection.HostGroupID) == array.Value(host.HostGroupID)
		if (own || inherited) && !connection.ReadOnly {
			return nil
		}
	}
	_, err = array.Decode[array.Attachment](g.c.api.CreateConnection(ctx, array.NewConnection{
		Volume: volume, Host: nullable.NewNullableWithValue(host.ID), MinLun: nullable.NewNullableWithValue[int32](1),
	}))
	if err == nil {
		g.c.log.Info("connected", "volume", shown.Name, "host", host.Name)
	}
	return err
}

// disconnect removes all connections of a volume.
func (c *call) disconnect(ctx context.Context, volume string) error {
	shown, err := array.Decode[array.Volume](c.api.ShowVolume(ctx, volume))
	if array.IsKind(err, array.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, connection := range shown.Connections {
		var err error
		if host := array.Value(connection.HostID); host != "" {
			err = array.Done(c.api.DeleteConnection(ctx, volume, host))
		} else {
			err = array.Done(c.api.DeleteHostGroupConnection(ctx, volume, array.Value(connection.HostGroupID)))
		}
		if err = array.Unless(array.NotFound, err); err != nil {
			return err
		}
	}
	return nil
}
