//! Sessions of hosts: the cost of connecting a volume to a host group, the memory of each session, and the effect of
//! API clients on writes.

use super::{Rig, volume};
use crate::array::Api;
use crate::initiator::{Connection, Names};
use crate::load::{self, Content, Direction, INITIATOR, Load, Measure, Order, Until};
use crate::stats::{Latencies, middle};
use crate::strangers::resident_bytes;
use crate::target::Target;
use anyhow::{Context, Result, anyhow};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HOSTS: usize = 64;
/// Sessions of each host.
const GROUP_SESSIONS: usize = 4;
const IDLE_SESSIONS: usize = 8;
/// Number of connections for the mean.
const CONNECTIONS: usize = 10;
const API_CLIENTS: usize = 50;
/// Pause of each client between two requests: light clients.
const API_PAUSE: Duration = Duration::from_millis(50);
const ROUNDS: usize = 5;
const LOAD_TIME: Duration = Duration::from_secs(3);
const SPAN: u64 = 32 << 20;

fn iqn(host: usize) -> String {
    format!("iqn.2001-04.org.example:h{host}")
}

/// Creates hosts h0 to h63, all in the group `all`.
fn add_hosts(rig: &Rig) -> Result<()> {
    let host = |number| json!({ "name": format!("h{number}"), "initiators": [iqn(number)] });
    rig.import("hosts", (0..HOSTS).map(host).collect())?;
    let names: Vec<_> = (0..HOSTS).map(|number| format!("h{number}")).collect();
    rig.import("host_groups", vec![json!({ "name": "all", "hosts": names })])
}

/// Idle sessions of every host.
fn log_in(rig: &Rig, of_each: usize, lun: u16) -> Result<Vec<Connection>> {
    let portal = *rig.array.portals().first().context("a portal")?;
    let one = |host: usize, session: usize| {
        let names = Names { portal, initiator: &iqn(host), target: rig.array.iqn() };
        Connection::login(names, u16::try_from(session)?, lun, vec![0; 512].into())
    };
    (0..HOSTS)
        .flat_map(|host| (0..of_each).map(move |session| (host, session)))
        .map(|(h, s)| one(h, s))
        .collect()
}

fn connect(rig: &Rig, number: usize) -> Result<()> {
    rig.post("connections", &json!({ "volume": volume(number), "host_group": "all" })).map(drop)
}

/// Connects volumes to a group of 64 hosts with 256 sessions.
pub fn host_group(rig: &mut Rig) -> Result<()> {
    rig.import_volumes(0..300, 0)?;
    add_hosts(rig)?;
    connect(rig, 0)?;
    let _sessions = log_in(rig, GROUP_SESSIONS, 0)?;
    let mut there = 1;
    for luns in [10, 50, 100, 200] {
        (there..luns).try_for_each(|number| connect(rig, number))?;
        let used = rig.used_each(CONNECTIONS, |rig, number| connect(rig, luns + number))?;
        there = luns + CONNECTIONS;
        let name = format!("connect a volume to {HOSTS} hosts with 256 sessions, {luns} LUNs there: CPU");
        rig.report(name, format!("{used:.1} ms"), "≤ 20 ms");
    }
    let alone = waits(rig.array.api()?, "alone", || {
        std::thread::sleep(Duration::from_secs(1));
        Ok(())
    })?;
    let beside = waits(rig.array.api()?, "beside", || {
        (there..there + 80).try_for_each(|number| connect(rig, number))
    })?;
    let name = "create a volume, alone · while volumes are connected to that group: median wait".into();
    rig.report(name, format!("{alone:.1} · {beside:.1} ms"), "unaffected");
    Ok(())
}

/// Median time for the creation of a volume during an action, in ms.
fn waits(api: Api, prefix: &str, act: impl FnOnce() -> Result<()>) -> Result<f64> {
    let is_over = AtomicBool::new(false);
    let waits: Result<Latencies> = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut waits = Latencies::default();
            while !is_over.load(Ordering::Relaxed) {
                let (begun, name) = (Instant::now(), format!("{prefix}{}", waits.count()));
                api.ask(
                    "POST",
                    "volumes",
                    &json!({ "name": name, "size": super::VOLUME_BYTES }).to_string(),
                )?;
                waits.record(begun.elapsed());
            }
            Ok(waits)
        });
        let done = act();
        is_over.store(true, Ordering::Relaxed);
        let waits = other.join().unwrap_or_else(|_| Err(anyhow!("a client panicked")));
        done.and(waits)
    });
    Ok(waits?.at(0.5) / 1e3)
}

/// Memory of idle sessions, and writes during API requests.
pub fn sessions(rig: &mut Rig) -> Result<()> {
    rig.import_volumes(0..10, 0)?;
    add_hosts(rig)?;
    connect(rig, 0)?;
    // Exclude shared allocations of the first sessions.
    drop(log_in(rig, 1, 0)?);
    let before = resident_bytes(rig.array.pid()?)?;
    let sessions = log_in(rig, IDLE_SESSIONS, 0)?;
    let each = (resident_bytes(rig.array.pid()?)? - before) as f64 / sessions.len() as f64 / 1024.0;
    let name = format!("memory of an idle session, of {}", sessions.len());
    rig.report(name, format!("{each:.0} KiB"), "≤ 64 KiB");
    drop(sessions);
    beside_clients(rig)
}

fn beside_clients(rig: &mut Rig) -> Result<()> {
    rig.array.add_host("load", INITIATOR)?;
    rig.post("connections", &json!({ "volume": volume(1), "host": "load" }))?;
    let load = Load {
        direction: Direction::Write,
        order: Order::Random,
        bytes: 4096,
        depth: 8,
        sessions: 1,
        content: Content::Half,
        span: SPAN,
    };
    let measure = |rig: &Rig| load::run(&rig.array, 0, load, Until::Time(LOAD_TIME));
    let mut pairs = Vec::new();
    for _ in 0..ROUNDS {
        let alone = measure(rig)?;
        pairs.push((alone, while_asked(rig, || measure(rig))?));
    }
    let of = |value: fn(&Measure, &Measure) -> f64| {
        middle(pairs.iter().map(|(alone, beside)| value(alone, beside))).context("no rounds")
    };
    let iops = of(|alone, beside| beside.iops / alone.iops)?;
    let longest = of(|alone, beside| beside.max_us / alone.max_us)?;
    let name = format!("4K writes at depth 8 beside {API_CLIENTS} clients of the API: IOPS, × alone");
    rig.report(name, format!("{:.2} ({:.2}–{:.2})", iops.median, iops.low, iops.high), "≥ 0.9");
    let name = format!("4K writes at depth 8 beside {API_CLIENTS} clients of the API: longest wait, × alone");
    rig.report(name, format!("{:.1} ({:.1}–{:.1})", longest.median, longest.low, longest.high), "≤ 2");
    Ok(())
}

/// Runs an action while API clients send small requests.
fn while_asked<T>(rig: &Rig, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let (is_over, api) = (AtomicBool::new(false), rig.array.api()?);
    std::thread::scope(|scope| {
        let ask = || -> Result<()> {
            // Clients are elsewhere: they take no time from the load, and do not interrupt it. Where it is not allowed, they compete
            // with it.
            let parameters = libc::sched_param { sched_priority: 0 };
            // SAFETY: changes the scheduling policy of the calling thread, and reads the parameters only during the call.
            let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) };
            while !is_over.load(Ordering::Relaxed) {
                api.text("GET", "/api/v1/volumes/v00000", "")?;
                std::thread::sleep(API_PAUSE);
            }
            Ok(())
        };
        let clients: Vec<_> = (0..API_CLIENTS).map(|_| scope.spawn(ask)).collect();
        let done = act();
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap_or_else(|_| Err(anyhow!("a client panicked")))?;
        }
        done
    })
}
