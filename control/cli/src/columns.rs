//! Columns of lists, and texts of objects inside other objects, by schema of the API. See [`crate::show`].

/// Columns of a list.
pub const COLUMNS: &[(&str, &[&str])] = &[
    ("Alerts", &["id", "state", "severity", "opened", "Object={noun|array} {name}", "message"]),
    ("ApiTokens", &["name", "user", "role", "created", "expires"]),
    (
        "AuditTrail",
        &["time", "user", "origin", "Outcome={outcome}[: {message}]", "Request={detail}", "changes"],
    ),
    (
        "Busiest",
        &[
            "name",
            "IOPS={total.iops}",
            "Per s={total.bytes_per_second}",
            "Mean={total.latency_us.mean}",
            "P99={total.latency_us.p99}",
        ],
    ),
    (
        "Controllers",
        &[
            "number",
            "Machine={name}",
            "state",
            "drained",
            "since",
            "version",
            "API={api}",
            "portals",
            "Took over=[from {takeover.from} in {takeover.total_ms}]",
        ],
    ),
    (
        "Directories",
        &["name", "Kind={settings.kind}", "Server={settings.server}{settings.issuer}", "grants", "enabled"],
    ),
    (
        "Drives",
        &[
            "slot",
            "path",
            "state",
            "Used={used} of {size}",
            "journal",
            "Written={written_bytes}",
            "Errors={read_errors}",
            "slow_reads",
            "bad_pages",
            "Health={health.verdict}[, {health.used_percent} worn]",
        ],
    ),
    ("Events", &["time", "severity", "kind", "message"]),
    ("Groups", &["name", "volumes", "provisioned", "mapped", "soft_quota", "hard_quota", "limits"]),
    ("HostGroups", &["name", "hosts", "connections"]),
    ("Hosts", &["name", "initiators", "CHAP={chap_user}[, mutual {mutual_user}]", "sessions", "connections"]),
    ("ImportSteps", &["object", "action", "detail"]),
    ("Jobs", &["id", "description", "state", "progress", "user", "started", "ended"]),
    (
        "NotificationTargets",
        &[
            "name",
            "Kind={destination.kind}",
            "Destination={destination.url}{destination.to}[{destination.host}:{destination.port}]",
            "severity",
            "enabled",
            "delivered",
            "failing",
        ],
    ),
    (
        "Offloads",
        &[
            "primitive",
            "commands",
            "failures",
            "Bytes={bytes}",
            "Shared={shared_bytes}",
            "Copied={copied_bytes}",
            "Mean={latency_us.mean}",
            "P99={latency_us.p99}",
        ],
    ),
    (
        "Paths",
        &[
            "host",
            "initiator",
            "portal",
            "sessions",
            "share",
            "IOPS={total.iops}",
            "Per s={total.bytes_per_second}",
            "P99={total.latency_us.p99}",
        ],
    ),
    ("RecycleBin", &["kind", "name", "size", "mapped", "deleted", "eradicated_after", "id"]),
    ("RefusedLogins", &["last", "host", "initiator", "address", "portal", "count", "reason"]),
    (
        "RemoteArrays",
        &[
            "name",
            "address",
            "serial",
            "State={link.state}",
            "Round trip={link.rtt_us}",
            "Last contact={link.last}",
        ],
    ),
    (
        "Schedules",
        &["name", "Of=[volume {volume}][group {group}]", "rules", "enabled", "next", "last", "snapshots"],
    ),
    ("Sizes", &["Up to={bytes}", "reads", "writes"]),
    (
        "Snapshots",
        &[
            "name",
            "Volume={source}",
            "Taken={created}",
            "Locked until={retain_until}",
            "writable",
            "size",
            "mapped",
            "connections",
        ],
    ),
    ("Volumes", &["name", "size", "block_size", "mapped", "group", "naa", "connections"]),
];

/// Texts of objects in a list inside another object.
pub const TEXTS: &[(&str, &str)] = &[
    ("AuditChange", "{fields}"),
    ("AuditField", "{field} {before|none} → {after|none}"),
    ("Connection", "{volume} →[ {host}][ group {host_group}] (LUN {lun})"),
    ("Grant", "{group}={role}"),
    ("Portal", "{address} port {port} (group {group_tag})"),
    ("StorePool", "{name}: {stored} stored, {available} available"),
    ("RefusedLogin", "{last}: {reason}"),
    ("Rule", "{when} ({keep})"),
];
