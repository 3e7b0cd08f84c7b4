//! Changes, lists, metrics and starts with a number of volumes.

use super::{DOCUMENT_VOLUMES, Rig, VOLUME_BYTES, volume};
use anyhow::{Context, Result};
use serde_json::json;
use std::time::Instant;

/// Number of operations for the mean.
const CHANGES: usize = 200;
const READS: usize = 20;
/// Number of concurrent clients, and of volumes that each creates.
const CLIENTS: usize = 8;
const OF_CLIENT: usize = 50;
/// Number of volumes of one request.
const BULK: usize = 1000;
/// Numbers of volumes for the measurement of changes.
const SIZES: [usize; 4] = [100, 1000, 5000, 10_000];
/// Numbers of volumes for the measurement of starts.
const STARTED: [usize; 4] = [1000, 5000, 10_000, 16_400];

/// One array that grows to 16,400 volumes.
pub fn volumes(rig: &mut Rig) -> Result<()> {
    let mut count = 0;
    for size in STARTED.iter().chain(&SIZES).copied().collect::<std::collections::BTreeSet<_>>() {
        if size - count > 2 * DOCUMENT_VOLUMES {
            import(rig, &mut count)?;
        }
        rig.import_volumes(count..size, 0)?;
        count = size;
        if SIZES.contains(&size) {
            creation(rig, size)?;
        }
        if size == 10_000 {
            connection(rig)?;
            lists(rig)?;
            bulk(rig)?;
        }
        if STARTED.contains(&size) {
            let used = rig.restart()?.as_secs_f64();
            let aim = if size <= 10_000 { "≤ 0.5 s" } else { "" };
            rig.report(
                format!("start with {size} volumes: CPU until it serves"),
                format!("{used:.2} s"),
                aim,
            );
        }
    }
    Ok(())
}

fn import(rig: &mut Rig, count: &mut usize) -> Result<()> {
    let begun = Instant::now();
    let used = rig.used(|rig| rig.import_volumes(*count..*count + DOCUMENT_VOLUMES, 0))?.as_secs_f64();
    let taken = begun.elapsed().as_secs_f64();
    let name = format!("import of {DOCUMENT_VOLUMES} volumes beside {count}: CPU (by the clock)");
    *count += DOCUMENT_VOLUMES;
    rig.report(name, format!("{used:.2} s ({taken:.2} s)"), "≤ 2 s");
    Ok(())
}

/// Creates volumes one by one, and deletes them afterwards to restore their number.
fn creation(rig: &mut Rig, there: usize) -> Result<()> {
    let alone = rig.used_each(CHANGES, |rig, number| rig.create(&format!("new{number}"), None))?;
    let begun = Instant::now();
    let together = rig.used(|rig| {
        std::thread::scope(|scope| {
            let clients: Vec<_> =
                (0..CLIENTS).map(|number| scope.spawn(move || create_some(rig, number))).collect();
            clients.into_iter().try_for_each(|it| it.join().ok().context("a client panicked")?)
        })
    })?;
    let rate = (CLIENTS * OF_CLIENT) as f64 / begun.elapsed().as_secs_f64();
    let together = together.as_secs_f64() * 1e3 / (CLIENTS * OF_CLIENT) as f64;
    let value = format!("{alone:.2} · {together:.2} ms ({rate:.0} a second)");
    let name =
        format!("create a volume beside {there}, 1 · {CLIENTS} clients: CPU (rate of {CLIENTS} clients)");
    rig.report(name, value, "≤ 0.5 ms");
    let names = (0..CHANGES).map(|number| format!("new{number}")).chain(
        (0..CLIENTS).flat_map(|client| (0..OF_CLIENT).map(move |number| format!("of{client}-{number}"))),
    );
    for name in names {
        rig.api.text("DELETE", &format!("/api/v1/volumes/{name}?eradicate=true"), "")?;
    }
    Ok(())
}

fn create_some(rig: &Rig, client: usize) -> Result<()> {
    let api = rig.array.api()?;
    for number in 0..OF_CLIENT {
        let new = json!({ "name": format!("of{client}-{number}"), "size": VOLUME_BYTES });
        api.ask("POST", "volumes", &new.to_string())?;
    }
    Ok(())
}

fn connection(rig: &mut Rig) -> Result<()> {
    rig.array.add_host("one", "iqn.2001-04.org.example:one")?;
    let connected = rig.used_each(CHANGES, |rig, number| {
        rig.post("connections", &json!({ "volume": volume(number), "host": "one" })).map(drop)
    })?;
    let disconnected = rig.used_each(CHANGES, |rig, number| {
        let path = format!("/api/v1/connections/{}/one", volume(number));
        rig.api.text("DELETE", &path, "").map(drop)
    })?;
    let value = format!("{connected:.2} · {disconnected:.2} ms");
    rig.report("connect · disconnect a volume beside 10000: CPU".into(), value, "≤ 1 ms");
    Ok(())
}

fn lists(rig: &mut Rig) -> Result<()> {
    for query in ["limit=50", "fields=name&limit=50"] {
        let path = format!("/api/v1/volumes?{query}");
        let used = rig.used_each(READS * 10, |rig, _| rig.api.text("GET", &path, "").map(drop))?;
        rig.report(
            format!("`GET /volumes?{query}` at 10000 volumes: CPU"),
            format!("{used:.2} ms"),
            "≤ 1 ms",
        );
    }
    let mut bytes = 0;
    let used = rig.used_each(READS, |rig, _| {
        bytes = rig.api.text("GET", "/metrics", "")?.len();
        Ok(())
    })?;
    let value = format!("{used:.1} ms, {:.2} MB", bytes as f64 / 1e6);
    rig.report("`/metrics` at 10000 volumes: CPU, bytes before gzip".into(), value, "≤ 50 ms, ≤ 2 MB");
    Ok(())
}

/// Volumes that one request creates; they are deleted after it.
fn bulk(rig: &mut Rig) -> Result<()> {
    let new = json!({ "numbered": { "pattern": "bulk####", "count": BULK }, "size": VOLUME_BYTES });
    let used = rig.used(|rig| rig.post("bulk/volumes", &new).map(drop))?.as_secs_f64();
    let name = format!("create {BULK} volumes by one request beside 10000: CPU (volumes for a second of it)");
    rig.report(name, format!("{used:.2} s ({:.0})", BULK as f64 / used), "≥ 1000 a second");
    for number in 1..=BULK {
        rig.api.text("DELETE", &format!("/api/v1/volumes/bulk{number:04}?eradicate=true"), "")?;
    }
    Ok(())
}

/// The same number of groups, with limits and quotas, and 5,000 volumes in them.
pub fn groups(rig: &mut Rig) -> Result<()> {
    let mut there = 0;
    for count in [200, 400] {
        let group = |number: usize| {
            let limits =
                json!({ "iops": 100_000, "iops_burst": null, "bandwidth": null, "bandwidth_burst": null });
            json!({ "name": format!("g{number:03}"), "hard_quota": 1u64 << 40, "limits": limits })
        };
        rig.import("volume_groups", (there..count).map(group).collect())?;
        if there == 0 {
            rig.import_volumes(0..5000, count)?;
        }
        there = count;
        let created = rig.used_each(CHANGES, |rig, number| {
            rig.create(&format!("new{count}-{number}"), Some(&format!("g{:03}", number % count)))
        })?;
        let name = format!("{count} groups with limits and quotas, 5000 volumes: create in one, CPU");
        rig.report(name, format!("{created:.2} ms"), "≤ 1 ms");
        let used = rig.restart()?.as_secs_f64();
        let name = format!("{count} groups with limits and quotas, 5000 volumes: start, CPU");
        rig.report(name, format!("{used:.2} s"), "≤ 0.5 s");
    }
    Ok(())
}
