//! Answers for people. The shapes are the API's; a field that is missing prints as a dash.

use bytesize::ByteSize;
use comfy_table::{Table, presets};
use serde_json::Value;

/// The array as a whole.
pub fn array(answer: &Value) -> String {
    let space = &answer["space"];
    let ratio = &answer["reduction"];
    let state = match answer["reason"].as_str() {
        Some(why) => format!("{}: {why}", text(&answer["state"])),
        None => text(&answer["state"]),
    };
    let reduction = format!(
        "{} (deduplication {}, compression {}); {} in total, with thin provisioning {}",
        times(&ratio["data"]),
        times(&ratio["deduplication"]),
        times(&ratio["compression"]),
        times(&ratio["total"]),
        times(&ratio["thin_provisioning"]),
    );
    facts(&[
        (
            "Array",
            format!(
                "{}, serial {}, version {}",
                text(&answer["name"]),
                text(&answer["serial"]),
                text(&answer["version"])
            ),
        ),
        ("State", state),
        ("Target", text(&answer["target_iqn"])),
        ("Portals", list(&answer["portals"])),
        ("Encryption", text(&answer["encryption"])),
        ("Up", duration(answer["uptime_seconds"].as_u64().unwrap_or(0))),
        ("Volumes", text(&answer["volumes"])),
        ("Hosts", format!("{}, with {} sessions", text(&answer["hosts"]), text(&answer["sessions"]))),
        ("Provisioned", bytes(&space["provisioned"])),
        ("Mapped", bytes(&space["mapped"])),
        ("Snapshots", format!("{} mapped", bytes(&space["snapshot"]))),
        ("Logical", bytes(&space["logical"])),
        ("Unique", format!("{}, and {} shared", bytes(&space["unique"]), bytes(&space["shared"]))),
        ("Physical", format!("{}, and {} of metadata", bytes(&space["physical"]), bytes(&space["metadata"]))),
        ("Reclaimable", bytes(&space["reclaimable"])),
        ("Free", format!("{} of {}", bytes(&space["free"]), bytes(&space["total"]))),
        ("Reduction", reduction),
    ])
}

/// One volume.
pub fn volume(answer: &Value) -> String {
    facts(&[
        ("Volume", text(&answer["name"])),
        ("Size", exact(&answer["size"])),
        ("Block size", text(&answer["block_size"])),
        ("Mapped", bytes(&answer["mapped"])),
        ("Group", text(&answer["group"])),
        ("Reduction", policy(&answer["policy_in_force"])),
        ("Limits", limits(&answer["limits"])),
        ("Read-only", yes(&answer["read_only"])),
        ("SCSI-2 reservations", yes(&answer["scsi2_reservations"])),
        ("Identity", text(&answer["naa"])),
        ("Created", text(&answer["created"])),
        ("Connections", connected(answer, "host")),
    ])
}

/// What volumes and their snapshots cost.
pub fn usage(answer: &Value) -> String {
    let snapshots = format!("{}, with {} mapped", text(&answer["snapshots"]), bytes(&answer["snapshot"]));
    let physical = format!("{}, and {} of metadata", bytes(&answer["physical"]), bytes(&answer["metadata"]));
    facts(&[
        ("Provisioned", bytes(&answer["provisioned"])),
        ("Mapped", format!("{}, of it {} zeros", bytes(&answer["mapped"]), bytes(&answer["zero"]))),
        ("Snapshots", snapshots),
        ("Shared", bytes(&answer["shared"])),
        ("Unique", bytes(&answer["unique"])),
        ("Physical", physical),
    ])
}

/// All volumes.
pub fn volumes(answer: &Value) -> String {
    rows(&["NAME", "SIZE", "BLOCK", "MAPPED", "IDENTITY", "CONNECTIONS"], answer, |it| {
        vec![
            text(&it["name"]),
            bytes(&it["size"]),
            text(&it["block_size"]),
            bytes(&it["mapped"]),
            text(&it["naa"]),
            connected(it, "host"),
        ]
    })
}

/// One host.
pub fn host(answer: &Value) -> String {
    facts(&[
        ("Host", text(&answer["name"])),
        ("Initiators", list(&answer["initiators"])),
        ("CHAP", chap(answer)),
        ("Created", text(&answer["created"])),
        ("Sessions", text(&answer["sessions"])),
        ("Connections", connected(answer, "volume")),
    ]) + &host_refusals(answer)
}

/// Why a host could not log in; nothing when it always could.
fn host_refusals(host: &Value) -> String {
    match host["refused_logins"].as_array() {
        Some(refused) if !refused.is_empty() => {
            format!("\nRefused log-ins\n{}", refused_logins(&host["refused_logins"]))
        }
        _ => String::new(),
    }
}

/// Refused log-ins.
pub fn refused_logins(answer: &Value) -> String {
    rows(&["LAST", "HOST", "INITIATOR", "ADDRESS", "PORTAL", "TIMES", "REASON"], answer, |it| {
        vec![
            text(&it["last"]),
            text(&it["host"]),
            text(&it["initiator"]),
            text(&it["address"]),
            text(&it["portal"]),
            text(&it["count"]),
            text(&it["reason"]),
        ]
    })
}

/// All hosts.
pub fn hosts(answer: &Value) -> String {
    rows(&["NAME", "INITIATORS", "CHAP", "SESSIONS", "CONNECTIONS"], answer, |it| {
        vec![
            text(&it["name"]),
            list(&it["initiators"]),
            chap(it),
            text(&it["sessions"]),
            connected(it, "volume"),
        ]
    })
}

/// One connection.
pub fn connection(answer: &Value) -> String {
    let (volume, lun) = (text(&answer["volume"]), text(&answer["lun"]));
    let read_only = if answer["read_only"] == true { ", read-only" } else { "" };
    format!("{} sees {volume} as LUN {lun}{read_only}\n", peer(answer))
}

/// All connections.
pub fn connections(answer: &Value) -> String {
    rows(&["VOLUME", "SEEN BY", "LUN", "READ-ONLY"], answer, |it| {
        vec![text(&it["volume"]), peer(it), text(&it["lun"]), yes(&it["read_only"])]
    })
}

/// What is set for the array as a whole.
pub fn settings(answer: &Value) -> String {
    facts(&[
        ("Name", text(&answer["name"])),
        ("Recycle bin", duration(answer["recycle_bin_seconds"].as_u64().unwrap_or(0))),
        ("UNMAP throttle", text(&answer["unmap_throttle"])),
        ("Scrub", scrub_every(answer["scrub_every_seconds"].as_u64())),
    ])
}

fn scrub_every(seconds: Option<u64>) -> String {
    match seconds {
        None => "-".into(),
        Some(0) => "only when asked for".into(),
        Some(seconds) => format!("{} after the last one", duration(seconds)),
    }
}

/// One volume group.
pub fn group(answer: &Value) -> String {
    let crossed = |quota: &str, crossed: &str| match answer[crossed].as_bool() {
        Some(true) => format!("{}, reached", bytes(&answer[quota])),
        _ => bytes(&answer[quota]),
    };
    facts(&[
        ("Volume group", text(&answer["name"])),
        ("Volumes", list(&answer["volumes"])),
        ("Provisioned", bytes(&answer["provisioned"])),
        ("Mapped", bytes(&answer["mapped"])),
        ("Soft quota", crossed("soft_quota", "soft_quota_crossed")),
        ("Hard quota", crossed("hard_quota", "hard_quota_reached")),
        ("Reduction", policy(&answer["policy"])),
        ("Limits", limits(&answer["limits"])),
        ("Created", text(&answer["created"])),
    ])
}

/// All volume groups.
pub fn groups(answer: &Value) -> String {
    rows(&["NAME", "VOLUMES", "PROVISIONED", "MAPPED", "SOFT QUOTA", "HARD QUOTA", "LIMITS"], answer, |it| {
        vec![
            text(&it["name"]),
            it["volumes"].as_array().map_or(0, Vec::len).to_string(),
            bytes(&it["provisioned"]),
            bytes(&it["mapped"]),
            bytes(&it["soft_quota"]),
            bytes(&it["hard_quota"]),
            limits(&it["limits"]),
        ]
    })
}

/// One host group.
pub fn host_group(answer: &Value) -> String {
    facts(&[
        ("Host group", text(&answer["name"])),
        ("Hosts", list(&answer["hosts"])),
        ("Connections", connected(answer, "volume")),
        ("Created", text(&answer["created"])),
    ])
}

/// All host groups.
pub fn host_groups(answer: &Value) -> String {
    rows(&["NAME", "HOSTS", "CONNECTIONS"], answer, |it| {
        vec![text(&it["name"]), list(&it["hosts"]), connected(it, "volume")]
    })
}

/// One snapshot.
pub fn snapshot(answer: &Value) -> String {
    facts(&[
        ("Snapshot", text(&answer["name"])),
        ("Of volume", text(&answer["source"])),
        ("Taken", text(&answer["created"])),
        ("By schedule", text(&answer["schedule"])),
        ("Locked until", text(&answer["retain_until"])),
        ("Writable", yes(&answer["writable"])),
        ("Size", exact(&answer["size"])),
        ("Mapped", bytes(&answer["mapped"])),
        ("Identity", text(&answer["naa"])),
        ("Connections", connected(answer, "host")),
    ])
}

/// A volume or a snapshot, whichever it is.
pub fn disk(answer: &Value) -> String {
    if answer.get("source").is_some() { snapshot(answer) } else { volume(answer) }
}

/// Snapshots.
pub fn snapshots(answer: &Value) -> String {
    let headers = ["NAME", "VOLUME", "TAKEN", "LOCKED UNTIL", "WRITABLE", "SIZE", "MAPPED", "CONNECTIONS"];
    rows(&headers, answer, |it| {
        vec![
            text(&it["name"]),
            text(&it["source"]),
            text(&it["created"]),
            text(&it["retain_until"]),
            yes(&it["writable"]),
            bytes(&it["size"]),
            bytes(&it["mapped"]),
            connected(it, "host"),
        ]
    })
}

/// What differs.
pub fn difference(answer: &Value) -> String {
    rows(&["OFFSET", "LENGTH", "DATA"], answer, |it| {
        vec![text(&it["offset"]), text(&it["length"]), yes(&it["mapped"])]
    })
}

/// One schedule.
pub fn schedule(answer: &Value) -> String {
    facts(&[
        ("Schedule", text(&answer["name"])),
        ("Of", subject(answer)),
        ("Rules", rules(answer)),
        ("Immutable for", duration(answer["immutable_seconds"].as_u64().unwrap_or(0))),
        ("Enabled", yes(&answer["enabled"])),
        ("Next", text(&answer["next"])),
        ("Last", text(&answer["last"])),
        ("Snapshots", text(&answer["snapshots"])),
    ])
}

/// All schedules.
pub fn schedules(answer: &Value) -> String {
    rows(&["NAME", "OF", "RULES", "ENABLED", "NEXT", "LAST", "SNAPSHOTS"], answer, |it| {
        vec![
            text(&it["name"]),
            subject(it),
            rules(it),
            yes(&it["enabled"]),
            text(&it["next"]),
            text(&it["last"]),
            text(&it["snapshots"]),
        ]
    })
}

/// Events.
pub fn events(answer: &Value) -> String {
    rows(&["TIME", "SEVERITY", "KIND", "MESSAGE"], answer, |it| {
        vec![text(&it["time"]), text(&it["severity"]), text(&it["kind"]), text(&it["message"])]
    })
}

/// The audit trail.
pub fn audit(answer: &Value) -> String {
    rows(&["TIME", "USER", "FROM", "OUTCOME", "REQUEST", "CHANGED"], answer, |it| {
        let outcome = match it["message"].as_str() {
            Some(why) => format!("{}: {why}", text(&it["outcome"])),
            None => text(&it["outcome"]),
        };
        let records = it["changes"].as_array().into_iter().flatten();
        let changed: Vec<_> = records.flat_map(changed_fields).collect();
        let (time, user, origin) = (text(&it["time"]), text(&it["user"]), text(&it["origin"]));
        vec![time, user, origin, outcome, text(&it["detail"]), dash(changed.join(", "))]
    })
}

/// The fields of a record that was there before and still is: what is new or gone is told by the request.
fn changed_fields(record: &Value) -> Vec<String> {
    if record["before"].is_null() || record["after"].is_null() {
        return Vec::new();
    }
    let one = |it: &Value| {
        let value = |value: &Value| match value {
            Value::Null => "none".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        format!("{} {} → {}", text(&it["field"]), value(&it["before"]), value(&it["after"]))
    };
    record["fields"].as_array().into_iter().flatten().map(one).collect()
}

fn subject(answer: &Value) -> String {
    match answer["group"].as_str() {
        Some(group) => format!("group {group}"),
        None => format!("volume {}", text(&answer["volume"])),
    }
}

fn rules(answer: &Value) -> String {
    let one = |it: &Value| format!("{} ({})", text(&it["when"]), text(&it["keep"]));
    dash(answer["rules"].as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join(", "))
}

/// Yes or no; a dash when it is not known.
pub fn yes(value: &Value) -> String {
    value.as_bool().map_or_else(|| "-".into(), |it| if it { "yes" } else { "no" }.into())
}

fn policy(value: &Value) -> String {
    let switch = |name: &str| {
        let on = value[name].as_bool()?;
        Some(format!("{name} {}", if on { "on" } else { "off" }))
    };
    let compression = value["compression"].as_str().map(|it| format!("compression {it}"));
    dash(
        [switch("dedup"), compression, switch("verify")].into_iter().flatten().collect::<Vec<_>>().join(", "),
    )
}

fn limits(value: &Value) -> String {
    let iops = value["iops"].as_u64().map(|iops| format!("{iops} IOPS"));
    let bandwidth = value["bandwidth"].as_u64().map(|_| format!("{}/s", bytes(&value["bandwidth"])));
    dash([iops, bandwidth].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

/// Something that is gone.
pub fn deleted(answer: &Value) -> String {
    let name = text(&answer["deleted"]);
    match answer["recycle_bin"].as_bool() {
        Some(true) => {
            format!("{name} is deleted; its space is taken until `ashlar recycle-bin eradicate {name}`\n")
        }
        _ => format!("{name} is deleted\n"),
    }
}

/// Saved state that is cleared.
pub fn cleared(answer: &Value) -> String {
    format!("{} has no reservations and takes writes again\n", text(&answer["cleared"]))
}

/// The recycle bin.
pub fn bin(answer: &Value) -> String {
    rows(&["KIND", "NAME", "SIZE", "MAPPED", "DELETED", "ERADICATED AFTER", "ID"], answer, |it| {
        vec![
            text(&it["kind"]),
            text(&it["name"]),
            bytes(&it["size"]),
            bytes(&it["mapped"]),
            text(&it["deleted"]),
            text(&it["eradicated_after"]),
            text(&it["id"]),
        ]
    })
}

/// A connection that is gone.
pub fn disconnected(answer: &Value) -> String {
    let it = &answer["disconnected"];
    format!("{} no longer sees {}\n", peer(it), text(&it["volume"]))
}

pub fn peer(answer: &Value) -> String {
    match answer["host"].as_str() {
        Some(host) => format!("host {host}"),
        None => format!("host group {}", text(&answer["host_group"])),
    }
}

/// Names and values, a line each.
pub fn facts(facts: &[(&str, String)]) -> String {
    let mut table = plain();
    for (name, value) in facts {
        table.add_row([*name, value]);
    }
    finish(&table)
}

/// A line for each item, below headers.
pub fn rows(headers: &[&str], answer: &Value, row: impl Fn(&Value) -> Vec<String>) -> String {
    let mut table = plain();
    table.set_header(headers);
    for item in answer.as_array().into_iter().flatten() {
        table.add_row(row(item));
    }
    finish(&table)
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

fn finish(table: &Table) -> String {
    table.lines().map(|line| line.trim().to_owned() + "\n").collect()
}

/// Hosts of a volume or volumes of a host, with LUNs.
fn connected(answer: &Value, other: &str) -> String {
    let name = |it: &Value| text(if it[other].is_null() { &it["host_group"] } else { &it[other] });
    let one = |it: &Value| format!("{} (LUN {})", name(it), text(&it["lun"]));
    let all: Vec<_> = answer["connections"].as_array().into_iter().flatten().map(one).collect();
    dash(all.join(", "))
}

fn chap(answer: &Value) -> String {
    match (answer["chap_user"].as_str(), answer["mutual_user"].as_str()) {
        (Some(user), Some(mutual)) => format!("{user}, mutual {mutual}"),
        (Some(user), None) => user.into(),
        _ => "-".into(),
    }
}

/// A value as it is; a dash when there is none.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn list(value: &Value) -> String {
    dash(value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join(", "))
}

fn dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

/// A number of bytes with a unit.
pub fn bytes(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".into(), |bytes| ByteSize(bytes).display().iec().to_string())
}

fn exact(value: &Value) -> String {
    format!("{} ({} bytes)", bytes(value), text(value))
}

/// A ratio.
pub fn times(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |ratio| format!("{ratio:.1} : 1"))
}

/// A stretch of time.
pub fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
#[path = "show_test.rs"]
mod tests;
