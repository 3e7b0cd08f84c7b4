package k2

// table has the resources that clients use. Fields that can be set without an effect here are those whose only value is what
// the array does anyway.
var table = []resource{
	{
		path: "/system/state", list: listState,
		fields: []string{"state", "rest_api_version", "iscsi_qualified_target_name", "system_name", "system_id", "system_version"},
	},
	{
		path: "/system/capacity", list: listCapacity,
		fields: []string{"total", "free", "allocated", "provisioned", "provisioned_volumes"},
	},
	{path: pathNetIPs, list: listNetIPs, fields: []string{"ip_address", "wan_port", "name"}},
	{path: "/system/fc_ports", list: listPorts, fields: []string{"pwwn", "enabled"}},
	{
		path: pathGroups, list: listGroups, create: createGroup, change: changeGroup, remove: removeGroup,
		fields:   []string{"name", "quota", "is_dedup", "is_default", "volumes_count", "volumes_provisioned_capacity"},
		settable: []string{"name", "quota", "is_dedup"},
	},
	{
		path: pathVolumes, list: listVolumes, create: createVolume, change: changeVolume, remove: removeVolume,
		fields:   []string{"name", "size", "volume_group", "description", "is_dedup", "scsi_sn", "replica"},
		settable: []string{"name", "size", "volume_group"},
	},
	{
		path: pathSnapshots, list: listSnapshots, create: createSnapshot, change: changeSnapshot, remove: removeSnapshot,
		fields: []string{
			"short_name", "name", "volume_group", "source", "retention_policy", "is_exposable", "is_auto_deleteable",
			"is_application_consistent", "creation_time", "generation_number", "replication_session", "description",
		},
		settable: []string{
			"short_name", "source", "retention_policy", "is_exposable", "is_auto_deleteable", "is_application_consistent",
			"replication_session",
		},
	},
	{path: pathVolsnaps, list: listVolsnaps, fields: []string{"name", "size", "snapshot"}},
	{
		path: pathPolicies, list: listPolicies,
		fields: []string{"name", "num_snapshots", "hours", "days", "weeks"},
	},
	{
		path: pathHosts, list: listHosts, create: createHost, change: changeHost, remove: removeHost,
		fields: []string{"name", "type", "host_group", "description"}, settable: []string{"name", "type"},
	},
	{path: pathHostGroups, list: listHostGroups, fields: []string{"name"}},
	{
		path: pathIqns, list: iqns.list, create: iqns.create, remove: iqns.remove,
		fields: []string{"iqn", "host"}, settable: []string{"iqn", "host"},
	},
	{
		path: pathPorts, list: fcPorts.list, create: fcPorts.create, remove: fcPorts.remove,
		fields: []string{"pwwn", "host"}, settable: []string{"pwwn", "host"},
	},
	{
		path: pathMappings, list: listMappings, create: createMapping, remove: removeMapping,
		fields: []string{"lun", "volume", "host", "host_group"}, settable: []string{"volume", "host", "lun"},
	},
	{path: pathPeers, list: listPeers, fields: []string{"name", "mgmt_host", "system_id", "mgmt_connectivity_state"}},
	{
		path: pathSessions, list: listSessions, create: createSession, change: changeSession, remove: removeSession,
		fields: []string{
			"name", "state", "current_role", "rpo", "local_volume_group", "replication_peer_k2array",
			"replication_peer_volume_group_name", "remote_replication_session_name", "auto_configure_peer_volumes",
			"generation_number", "current_snapshot_progress", "current_snapshot_id",
		},
		settable: []string{
			"name", "state", "rpo", "local_volume_group", "replication_peer_k2array", "replication_peer_volume_group_name",
			"remote_replication_session_name", "auto_configure_peer_volumes",
		},
	},
	{
		path: pathPeerVolumes, list: listPeerVolumes, create: createPeerVolume,
		fields:   []string{"name", "local_volume", "replication_session"},
		settable: []string{"name", "local_volume", "replication_session"},
	},
}
