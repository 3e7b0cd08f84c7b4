package flash

import "ashlar/integrations/array"

// operation answers a request with the objects of a list.
type operation func(*call) ([]object, error)

// operations by method and path.
var operations = map[string]operation{
	"GET arrays":                           (*call).arrays,
	"GET arrays/space":                     (*call).space,
	"GET arrays/performance":               (*call).performance,
	"GET controllers":                      (*call).controllers,
	"GET hardware":                         (*call).hardware,
	"GET drives":                           (*call).drives,
	"GET ports":                            (*call).ports,
	"GET network-interfaces":               (*call).interfaces,
	"GET alerts":                           (*call).alerts,
	"GET admins":                           (*call).admins,
	"GET admins/settings":                  (*call).adminSettings,
	"GET alert-watchers":                   (*call).watchers,
	"GET smtp-servers":                     (*call).mailServers,
	"GET snmp-agents":                      (*call).snmpAgents,
	"GET snmp-managers":                    (*call).snmpManagers,
	"GET syslog-servers":                   (*call).syslogServers,
	"GET smi-s":                            (*call).smis,
	"GET subscriptions":                    (*call).subscriptions,
	"GET support":                          (*call).support,
	"GET array-connections":                (*call).arrayConnections,
	"GET array-connections/connection-key": (*call).connectionKey,
	"GET protection-groups":                (*call).protections,
	"POST protection-groups":               (*call).createProtection,
	"PATCH protection-groups":              (*call).changeProtection,
	"DELETE protection-groups":             (*call).eradicateGroup,
	"GET protection-groups/volumes":        (*call).memberships,
	"POST protection-groups/volumes":       (*call).addMembers,
	"DELETE protection-groups/volumes":     (*call).removeMembers,
	"GET volumes/protection-groups":        (*call).memberships,
	"POST volumes/protection-groups":       (*call).addMembers,
	"DELETE volumes/protection-groups":     (*call).removeMembers,
	"GET protection-group-snapshots":       (*call).protected,
	"POST protection-group-snapshots":      (*call).protect,
	"PATCH protection-group-snapshots":     (*call).changeProtected,
	"DELETE protection-group-snapshots":    (*call).eradicateProtected,
	"GET volumes":                          (*call).volumes,
	"POST volumes":                         (*call).createVolumes,
	"PATCH volumes":                        (*call).changeVolumes,
	"DELETE volumes":                       (*call).eradicateVolume,
	"GET volumes/performance":              (*call).volumesPerformance,
	"GET volumes/tags":                     (*call).tags,
	"PUT volumes/tags/batch":               (*call).setTags,
	"DELETE volumes/tags":                  (*call).removeTags,
	"GET volume-snapshots":                 (*call).snapshots,
	"POST volume-snapshots":                (*call).createSnapshot,
	"PATCH volume-snapshots":               (*call).changeSnapshot,
	"DELETE volume-snapshots":              (*call).eradicateSnapshot,
	"GET volume-groups":                    (*call).groups,
	"POST volume-groups":                   (*call).createGroup,
	"PATCH volume-groups":                  (*call).changeGroup,
	"DELETE volume-groups":                 (*call).eradicateGroup,
	"GET volume-groups/volumes":            (*call).groupMembers,
	"GET volume-groups/performance":        (*call).groupsPerformance,
	"GET hosts":                            (*call).hosts,
	"POST hosts":                           (*call).createHosts,
	"PATCH hosts":                          (*call).changeHosts,
	"DELETE hosts":                         (*call).deleteHosts,
	"GET hosts/performance":                (*call).hostsPerformance,
	"GET host-groups":                      (*call).hostGroups,
	"POST host-groups":                     (*call).createHostGroups,
	"PATCH host-groups":                    (*call).changeHostGroup,
	"DELETE host-groups":                   (*call).deleteHostGroups,
	"GET host-groups/hosts":                (*call).hostMemberships,
	"POST host-groups/hosts":               (*call).addHosts,
	"DELETE host-groups/hosts":             (*call).removeHosts,
	"GET host-groups/performance":          (*call).hostGroupsPerformance,
	"GET connections":                      (*call).connections,
	"POST connections":                     (*call).connect,
	"DELETE connections":                   (*call).disconnect,
}

// absent are lists of what an array does not have, or not under this name. They are empty: clients count them.
var absent = []string{
	"active-directory", "array-connections/path", "container-default-protections", "directories",
	"directories/performance", "directory-exports", "directory-services", "directory-services/roles", "directory-snapshots", "dns",
	"file-systems", "host-groups/protection-groups", "hosts/performance/balance", "hosts/tags", "maintenance-windows",
	"network-interfaces/neighbors", "network-interfaces/performance", "offloads", "pod-replica-links", "pod-replica-links/lag",
	"pod-replica-links/performance/replication", "pods", "pods/performance", "pods/performance/replication", "pods/tags",
	"policies/nfs", "policies/password", "policies/quota", "policies/smb", "policies/snapshot",
	"protection-group-snapshots/transfer", "protection-groups/host-groups", "protection-groups/hosts", "protection-groups/tags", "protection-groups/targets",
	"remote-protection-groups", "sso/saml2/idps", "subnets", "virtual-machine-snapshots", "virtual-machines", "volume-groups/tags",
	"volume-snapshots/tags",
}

func init() {
	for _, name := range absent {
		operations["GET "+name] = (*call).nothing
	}
}

// nothing is the list of what an array does not have.
func (c *call) nothing() ([]object, error) {
	if _, err := c.api.Check(c); err != nil {
		return nil, err
	}
	for _, name := range c.names("names") {
		return nil, &refused{name, "The object does not exist."}
	}
	return nil, nil
}

// each does the same for all names of a request, and ends with the first failure.
func (c *call) each(parameter string, act func(name string) (object, error)) ([]object, error) {
	names := c.names(parameter)
	if len(names) == 0 {
		return nil, &refused{parameter, "A name is needed."}
	}
	made := []object{}
	for _, name := range names {
		shown, err := act(name)
		if err != nil {
			return nil, err
		}
		if shown != nil {
			made = append(made, shown)
		}
	}
	return made, nil
}

// bin returns what is in the recycle bin of a kind, the oldest first.
func (c *call) bin(kind array.DiskKind) ([]array.BinnedDisk, error) {
	all, err := array.All(func(limit, offset int) ([]array.BinnedDisk, int, error) {
		found, err := array.Decode[array.RecycleBin](c.api.ListRecycleBin(c, &array.ListRecycleBinParams{Limit: &limit, Offset: &offset}))
		return found.Items, found.Total, err
	})
	kept := all[:0]
	for _, each := range all {
		if each.Kind == kind {
			kept = append(kept, each)
		}
	}
	return kept, err
}

// binned returns the newest in the recycle bin that has a name.
func (c *call) binned(kind array.DiskKind, noun, name string) (array.BinnedDisk, error) {
	bin, err := c.bin(kind)
	if err != nil {
		return array.BinnedDisk{}, err
	}
	for at := len(bin) - 1; at >= 0; at-- {
		if bin[at].Name == withoutGroup(name) {
			return bin[at], nil
		}
	}
	return array.BinnedDisk{}, &refused{name, noun + " does not exist."}
}

// restore takes the newest that has a name out of the recycle bin.
func (c *call) restore(kind array.DiskKind, noun, name string) error {
	its, err := c.binned(kind, noun, name)
	if err != nil {
		return err
	}
	return about(noun, name, array.Done(c.api.RestoreFromRecycleBin(c, its.ID, array.Restore{})))
}
