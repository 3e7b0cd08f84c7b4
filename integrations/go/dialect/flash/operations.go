package flash

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"ashlar/integrations/array"
)

// operation answers a request with the objects of a list.
type operation struct {
	act func(*call) ([]object, error)
	// takes are the parameters that the request may have; a list has those of its page as well.
	takes string
	// reads is set if the request has a body.
	reads bool
}

// pageParameters are those of every list.
const pageParameters = " filter limit offset total_item_count"

// window selects samples of a time. The newest one is the answer, whatever it selects.
const window = " start_time end_time resolution"

// flags are the parameters that are true or false.
var flags = []string{
	"destroyed", "resource_destroyed", "overwrite", "replicate", "replicate_now", "apply_retention", "allow_throttle",
	"with_default_protection", "total_item_count", "replication_snapshot",
}

// operations by method and path.
var operations = map[string]operation{
	"GET arrays":                           {(*call).arrays, "", false},
	"GET arrays/space":                     {(*call).space, window, false},
	"GET arrays/performance":               {(*call).performance, window, false},
	"GET controllers":                      {(*call).controllers, "", false},
	"GET hardware":                         {(*call).hardware, "names", false},
	"GET drives":                           {(*call).drives, "names", false},
	"GET ports":                            {(*call).ports, "names", false},
	"GET network-interfaces":               {(*call).interfaces, "names", false},
	"GET alerts":                           {(*call).alerts, "", false},
	"GET admins":                           {(*call).admins, "", false},
	"GET admins/settings":                  {(*call).adminSettings, "", false},
	"GET alert-watchers":                   {(*call).watchers, "", false},
	"GET smtp-servers":                     {(*call).mailServers, "", false},
	"GET snmp-agents":                      {(*call).snmpAgents, "", false},
	"GET snmp-managers":                    {(*call).snmpManagers, "", false},
	"GET syslog-servers":                   {(*call).syslogServers, "", false},
	"GET smi-s":                            {(*call).smis, "", false},
	"GET subscriptions":                    {(*call).subscriptions, "", false},
	"GET support":                          {(*call).support, "", false},
	"GET array-connections":                {(*call).arrayConnections, "names", false},
	"GET array-connections/connection-key": {(*call).connectionKey, anything, false},
	"GET protection-groups":                {(*call).protections, "names destroyed", false},
	"POST protection-groups":               {(*call).createProtection, "names", false},
	"PATCH protection-groups":              {(*call).changeProtection, "names", true},
	"DELETE protection-groups":             {(*call).eradicateGroup, "names", false},
	"GET protection-groups/volumes":        {(*call).memberships, "group_names member_names", false},
	"POST protection-groups/volumes":       {(*call).addMembers, "group_names member_names", false},
	"DELETE protection-groups/volumes":     {(*call).removeMembers, "group_names member_names", false},
	"GET volumes/protection-groups":        {(*call).memberships, "group_names member_names", false},
	"POST volumes/protection-groups":       {(*call).addMembers, "group_names member_names", false},
	"DELETE volumes/protection-groups":     {(*call).removeMembers, "group_names member_names", false},
	"GET protection-group-snapshots":       {(*call).protected, "names source_names destroyed", false},
	"POST protection-group-snapshots":      {(*call).protect, "source_names replicate replicate_now apply_retention allow_throttle", true},
	"PATCH protection-group-snapshots":     {(*call).changeProtected, "names", true},
	"DELETE protection-group-snapshots":    {(*call).eradicateProtected, "names", false},
	"GET volumes":                          {(*call).volumes, "names destroyed", false},
	"POST volumes":                         {(*call).createVolumes, "names overwrite add_to_protection_group_names with_default_protection", true},
	"PATCH volumes":                        {(*call).changeVolumes, "names add_to_protection_group_names remove_from_protection_group_names", true},
	"DELETE volumes":                       {(*call).eradicateVolume, "names", false},
	"GET volumes/performance":              {(*call).volumesPerformance, "names destroyed" + window, false},
	"GET volumes/tags":                     {(*call).tags, "resource_names resource_destroyed namespaces", false},
	"PUT volumes/tags/batch":               {(*call).setTags, "resource_names", true},
	"DELETE volumes/tags":                  {(*call).removeTags, "resource_names keys namespaces", false},
	"GET volume-snapshots":                 {(*call).snapshots, "names destroyed", false},
	"POST volume-snapshots":                {(*call).createSnapshot, "source_names allow_throttle", true},
	"PATCH volume-snapshots":               {(*call).changeSnapshot, "names replication_snapshot", true},
	"DELETE volume-snapshots":              {(*call).eradicateSnapshot, "names replication_snapshot", false},
	"GET volume-groups":                    {(*call).groups, "names destroyed", false},
	"POST volume-groups":                   {(*call).createGroup, "names", true},
	"PATCH volume-groups":                  {(*call).changeGroup, "names", true},
	"DELETE volume-groups":                 {(*call).eradicateGroup, "names", false},
	"GET volume-groups/volumes":            {(*call).groupMembers, "group_names", false},
	"GET volume-groups/performance":        {(*call).groupsPerformance, "names" + window, false},
	"GET hosts":                            {(*call).hosts, "names", false},
	"POST hosts":                           {(*call).createHosts, "names", true},
	"PATCH hosts":                          {(*call).changeHosts, "names", true},
	"DELETE hosts":                         {(*call).deleteHosts, "names", false},
	"GET hosts/performance":                {(*call).hostsPerformance, "names" + window, false},
	"GET host-groups":                      {(*call).hostGroups, "names", false},
	"POST host-groups":                     {(*call).createHostGroups, "names", false},
	"PATCH host-groups":                    {(*call).changeHostGroup, "names", true},
	"DELETE host-groups":                   {(*call).deleteHostGroups, "names", false},
	"GET host-groups/hosts":                {(*call).hostMemberships, "group_names member_names", false},
	"POST host-groups/hosts":               {(*call).addHosts, "group_names member_names", false},
	"DELETE host-groups/hosts":             {(*call).removeHosts, "group_names member_names", false},
	"GET host-groups/performance":          {(*call).hostGroupsPerformance, "names" + window, false},
	"GET connections":                      {(*call).connections, "volume_names host_names host_group_names", false},
	"POST connections":                     {(*call).connect, "volume_names host_names host_group_names", true},
	"DELETE connections":                   {(*call).disconnect, "volume_names host_names host_group_names", false},
}

// anything stands for all parameters: a list that is always empty has the same answer to all of them.
const anything = "*"

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
		operations["GET "+name] = operation{act: (*call).nothing, takes: anything}
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

// check refuses what a request has and its operation does not understand: what is ignored would mean everything.
func (o operation) check(c *call, method string) error {
	takes := o.takes
	if method == http.MethodGet {
		takes += pageParameters
	}
	known := strings.Fields(takes)
	for parameter, given := range c.query {
		switch {
		case o.takes != anything && !slices.Contains(known, parameter):
			return &refused{parameter, fmt.Sprintf("The parameter %q is not supported here.", parameter)}
		case len(given) > 1:
			return &refused{parameter, "The parameter is given more than once."}
		case given[0] == "":
			return &refused{parameter, "The parameter has no value: a name is empty."}
		case strings.HasSuffix(parameter, "names") || parameter == "keys":
			if slices.Contains(strings.Split(given[0], ","), "") {
				return &refused{parameter, "A name is empty."}
			}
		case slices.Contains(flags, parameter):
			// Clients write True as well.
			if given[0] = strings.ToLower(given[0]); given[0] != "true" && given[0] != "false" {
				return &refused{parameter, "The value is true or false."}
			}
		}
	}
	if sent := strings.TrimSpace(string(c.body)); !o.reads && sent != "" && sent != "{}" && sent != "null" {
		return &refused{"body", "The request is not supported: it has no fields."}
	}
	return nil
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
