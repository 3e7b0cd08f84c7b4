package datastore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oapi-codegen/nullable"

	"ashlar/integrations/array"
	"ashlar/integrations/vsphere/esxi"
	"ashlar/integrations/vsphere/job"
)

// membership is what the array knows of a cluster's hosts.
type membership struct {
	// names on the array by initiator; empty: there is no such host yet.
	hosts map[string]array.Host
	group string
	// made are what this job created, to be undone.
	made      []string
	madeGroup bool
	added     []string
	before    []string
}

// groupStep makes sure that the array has the hosts of a cluster in one host group, so that a volume has one LUN on all.
func (m *Manager) groupStep(cluster string, hosts []*esxi.Host, into *membership) job.Step {
	return job.Step{
		Name: "find or create the hosts and the host group on the array",
		Do:   func(ctx context.Context) error { return m.ensureGroup(ctx, cluster, hosts, into) },
		Undo: func(ctx context.Context) error { return m.undoGroup(ctx, into) },
	}
}

func (m *Manager) ensureGroup(ctx context.Context, cluster string, hosts []*esxi.Host, into *membership) error {
	into.hosts = map[string]array.Host{}
	var groups []string
	for _, host := range hosts {
		adapter := host.ISCSI()
		if adapter == nil {
			return fmt.Errorf("host %s has no software iSCSI adapter: `ashlar-vsphere apply --settings iscsi-software,iscsi-discovery` adds it", host.Name)
		}
		known, err := m.ensureHost(ctx, host.Name, adapter.IScsiName, into)
		if err != nil {
			return err
		}
		into.hosts[adapter.IScsiName] = known
		if group, err := known.HostGroup.Get(); err == nil && !slices.Contains(groups, group) {
			groups = append(groups, group)
		}
	}
	if len(groups) > 1 {
		return fmt.Errorf("the hosts of cluster %s are in several host groups of the array (%s), so that a volume would have several LUNs: put them into one",
			cluster, strings.Join(groups, ", "))
	}
	if len(groups) == 0 {
		return m.createGroup(ctx, cluster, into)
	}
	into.group = groups[0]
	return m.completeGroup(ctx, cluster, into)
}

func (m *Manager) ensureHost(ctx context.Context, name, initiator string, into *membership) (array.Host, error) {
	found, err := m.Array.HostOf(ctx, strings.ToLower(initiator))
	if err != nil {
		return array.Host{}, err
	}
	if found != nil {
		return *found, nil
	}
	labels := map[string]string{LabelHost: name}
	made, err := array.Decode[array.Host](m.Array.CreateHost(ctx, array.NewHost{
		Name: hostName(name), Initiators: []string{initiator}, Labels: &labels}))
	if err == nil {
		into.made = append(into.made, made.ID)
	}
	return made, err
}

// maxName is the array's limit of a name in characters.
const maxName = 63

// hostName is a name of vSphere as the array takes it.
func hostName(name string) string {
	clean := strings.Map(func(letter rune) rune {
		if letter >= 'a' && letter <= 'z' || letter >= 'A' && letter <= 'Z' || letter >= '0' && letter <= '9' || strings.ContainsRune("-_.", letter) {
			return letter
		}
		return '-'
	}, name)
	return strings.TrimLeft(clean, "-_.")[:min(len(strings.TrimLeft(clean, "-_.")), maxName)]
}

func (m *Manager) createGroup(ctx context.Context, cluster string, into *membership) error {
	names := into.names()
	made, err := array.Decode[array.HostGroup](m.Array.CreateHostGroup(ctx, array.NewHostGroup{
		Name: hostName(cluster), Hosts: nullable.NewNullableWithValue(names)}))
	if err == nil {
		into.group, into.madeGroup = made.Name, true
	}
	return err
}

func (m *membership) names() []string {
	var names []string
	for _, host := range m.hosts {
		names = append(names, host.Name)
	}
	slices.Sort(names)
	return names
}

// completeGroup adds hosts that the group lacks, and refuses a group with others: they would see the volume.
func (m *Manager) completeGroup(ctx context.Context, cluster string, into *membership) error {
	group, err := array.Decode[array.HostGroup](m.Array.ShowHostGroup(ctx, into.group))
	if err != nil {
		return err
	}
	names := into.names()
	var strangers []string
	for _, name := range group.Hosts {
		if !slices.Contains(names, name) {
			strangers = append(strangers, name)
		}
	}
	if strangers != nil {
		return fmt.Errorf("host group %s also has %s, which are not in cluster %s and would see the volume: take them out of the group",
			into.group, strings.Join(strangers, ", "), cluster)
	}
	for _, name := range names {
		if !slices.Contains(group.Hosts, name) {
			into.added = append(into.added, name)
		}
	}
	if into.added == nil {
		return nil
	}
	into.before = group.Hosts
	return array.Done(m.Array.ChangeHostGroup(ctx, into.group, array.HostGroupChange{Hosts: nullable.NewNullableWithValue(names)}))
}

func (m *Manager) undoGroup(ctx context.Context, into *membership) error {
	var failures []error
	gone := func(err error) {
		if err = array.Unless(array.NotFound, err); err != nil {
			failures = append(failures, err)
		}
	}
	switch {
	case into.madeGroup:
		gone(array.Done(m.Array.DeleteHostGroup(ctx, into.group)))
	case into.added != nil:
		gone(array.Done(m.Array.ChangeHostGroup(ctx, into.group, array.HostGroupChange{Hosts: nullable.NewNullableWithValue(into.before)})))
	}
	for _, host := range into.made {
		gone(array.Done(m.Array.DeleteHost(ctx, host)))
	}
	return errors.Join(failures...)
}
