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
        "{} (deduplication {}, compression {}); {} with thin provisioning",
        times(&ratio["data"]),
        times(&ratio["deduplication"]),
        times(&ratio["compression"]),
        times(&ratio["total"]),
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
        ("Up", duration(answer["uptime_seconds"].as_u64().unwrap_or(0))),
        ("Volumes", text(&answer["volumes"])),
        ("Hosts", format!("{}, with {} sessions", text(&answer["hosts"]), text(&answer["sessions"]))),
        ("Provisioned", bytes(&space["provisioned"])),
        ("Mapped", bytes(&space["mapped"])),
        ("Unique", bytes(&space["unique"])),
        ("Physical", format!("{}, and {} of metadata", bytes(&space["physical"]), bytes(&space["metadata"]))),
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
        ("Identity", text(&answer["naa"])),
        ("Created", text(&answer["created"])),
        ("Connections", connected(answer, "host")),
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
    ])
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
    let (volume, host, lun) = (text(&answer["volume"]), text(&answer["host"]), text(&answer["lun"]));
    format!("host {host} sees volume {volume} as LUN {lun}\n")
}

/// All connections.
pub fn connections(answer: &Value) -> String {
    rows(&["VOLUME", "HOST", "LUN"], answer, |it| {
        vec![text(&it["volume"]), text(&it["host"]), text(&it["lun"])]
    })
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

/// The recycle bin.
pub fn bin(answer: &Value) -> String {
    rows(&["NAME", "SIZE", "MAPPED", "DELETED", "ERADICATED AFTER", "ID"], answer, |it| {
        vec![
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
    format!("host {} no longer sees volume {}\n", text(&it["host"]), text(&it["volume"]))
}

fn facts(facts: &[(&str, String)]) -> String {
    let mut table = plain();
    for (name, value) in facts {
        table.add_row([*name, value]);
    }
    finish(&table)
}

fn rows(headers: &[&str], answer: &Value, row: impl Fn(&Value) -> Vec<String>) -> String {
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

fn text(value: &Value) -> String {
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

fn bytes(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".into(), |bytes| ByteSize(bytes).display().iec().to_string())
}

fn exact(value: &Value) -> String {
    format!("{} ({} bytes)", bytes(value), text(value))
}

fn times(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |ratio| format!("{ratio:.1} : 1"))
}

fn duration(seconds: u64) -> String {
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
