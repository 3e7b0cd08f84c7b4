//! Several controllers of an array in a real Ceph cluster, which is made for the run: the home is killed, stopped and frozen
//! under load, and the other takes over.

use crate::bench::programs_of;
use crate::ceph::with_cluster;
use crate::conformance::programs;
use crate::shell::target_dir;
use anyhow::{Result, ensure};
use lab::array::Programs;
use lab::ceph::{Ceph, Pools};
use lab::check::Amount;
use lab::command::checked;
use lab::cut_network::CutNetwork;
use lab::forwarding::{Addresses, Away, Cut, Handover, Move, Upgrade};
use lab::takeover::{self, Fault};
use lab::{check, crash, forwarding};
use std::panic::resume_unwind;
use std::path::Path;
use std::time::Duration;

/// How much.
#[derive(clap::Args)]
pub struct Args {
    /// Check the pauses that hosts see against what the design allows
    #[arg(long)]
    check: bool,
    /// Kills of the home; there are half as many stops, and a fifth as many freezes
    #[arg(long, default_value_t = 10)]
    takeovers: u64,
    /// Only these rounds
    #[arg(long, value_enum)]
    only: Option<Rounds>,
    /// The earlier program of the upgrade: a folder with ashlard, or a commit, which is built [default: the program itself]
    #[arg(long, value_name = "DIR|COMMIT")]
    upgrade_from: Option<String>,
    /// Handovers to the new program and back, while the other controller runs the earlier one
    #[arg(long, default_value_t = 2)]
    turns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Rounds {
    /// The home is killed, stopped and frozen, and the other controller serves no hosts before
    Takeovers,
    /// Both controllers serve hosts, and one is killed or frozen
    Forwarding,
    /// Both serve hosts, one is killed, and one order has to explain what hosts saw: the block checker
    Hosts,
    /// Both serve hosts, and get another program one after the other
    Upgrade,
    /// Both serve hosts by addresses that move, and one is killed or stopped
    Moving,
    /// Both serve hosts, and the link between them is cut; needs root
    Cut,
}

/// Commands before each kill of the block checker, at most.
const CHECKED_COMMANDS: u64 = 4000;
/// Longest pause that a host may see, and the longest in the middle of many kills.
const MAX_PAUSE: Duration = Duration::from_secs(10);
const MAX_MEDIAN: Duration = Duration::from_secs(6);
/// Longest pause that a host may see when the array is handed over. Programs without optimization take longer.
const MAX_HANDOVER: Duration = Duration::from_secs(1);

/// Runs everything.
pub fn run(args: &Args) -> Result<()> {
    let wanted = |rounds| args.only.is_none_or(|only| only == rounds);
    if wanted(Rounds::Cut) {
        cut(args)?;
    }
    if wanted(Rounds::Moving) {
        moving(args)?;
    }
    if matches!(args.only, Some(Rounds::Cut | Rounds::Moving)) {
        return Ok(());
    }
    with_cluster("cluster", |ceph| {
        if wanted(Rounds::Takeovers) {
            takeovers(ceph, args)?;
        }
        if wanted(Rounds::Forwarding) {
            forwarding(ceph, args)?;
        }
        if wanted(Rounds::Hosts) {
            hosts(ceph, args)?;
        }
        if wanted(Rounds::Upgrade) {
            upgrade(ceph, args)?;
        }
        Ok(())
    })
}

/// A namespace of its own for a run.
fn place(ceph: &Ceph, name: &str) -> Pools {
    let namespace = format!("{name}-{:x}", crash::new_seed());
    Pools { conf: ceph.conf(), pools: "meta".into(), namespace, encrypt: false }
}

fn takeovers(ceph: &Ceph, args: &Args) -> Result<()> {
    let programs = programs()?;
    let kills = args.takeovers;
    for (fault, times) in
        [(Fault::Kill, kills), (Fault::Stop, kills.div_ceil(2)), (Fault::Freeze, kills.div_ceil(5))]
    {
        let place = place(ceph, &format!("takeover-{fault:?}"));
        let report = takeover::run(&programs, &target_dir(), &place, (fault, times))?;
        let (median, longest) = (report.median(), report.longest());
        println!(
            "{fault:?}, {times} times: pause of the host {} ms in the middle, {} ms at most; {} writes acknowledged, {} \
             blocks compared; 0 lost, 0 stale",
            median.as_millis(),
            longest.as_millis(),
            report.acknowledged,
            report.verified
        );
        if args.check {
            ensure!(longest < MAX_PAUSE, "a host waited for more than {} s", MAX_PAUSE.as_secs());
            ensure!(median < MAX_MEDIAN, "hosts wait for more than {} s", MAX_MEDIAN.as_secs());
        }
    }
    Ok(())
}

/// Both controllers serve hosts, and one of them is killed or frozen.
fn forwarding(ceph: &Ceph, args: &Args) -> Result<()> {
    use forwarding::Fault::{FreezeFront, FreezeHome, KillFront, KillHome};
    let programs = programs()?;
    let kills = args.takeovers;
    let few = kills.div_ceil(5);
    for (fault, times) in
        [(KillHome, kills.div_ceil(2)), (FreezeHome, few), (KillFront, few), (FreezeFront, few)]
    {
        let place = place(ceph, &format!("forwarding-{fault:?}"));
        let report = forwarding::run(&programs, &target_dir(), &place, (fault, times))?;
        let (median, longest) = (report.median(), report.longest());
        println!(
            "both serve, {fault:?}, {times} times: pause of the host {} ms in the middle, {} ms at most; {} writes \
             acknowledged, {} blocks compared by both; 0 lost, 0 late",
            median.as_millis(),
            longest.as_millis(),
            report.acknowledged,
            report.verified
        );
        let lab::takeover::Report { counted, crossed, refused, .. } = report;
        if counted > 0 {
            println!(
                "    {counted} steps of counters by COMPARE AND WRITE, each once: of those under way when the home died the next \
                 one acknowledged {crossed} and refused {refused}"
            );
        }
        if args.check {
            ensure!(longest < MAX_PAUSE, "a host waited for more than {} s", MAX_PAUSE.as_secs());
        }
    }
    Ok(())
}

/// Both controllers serve hosts, one of them is killed, and one order has to explain what the hosts saw. With a stale cache
/// planted on every path none may.
fn hosts(ceph: &Ceph, args: &Args) -> Result<()> {
    let seed = crash::new_seed();
    for plant in [false, true] {
        let rounds = if plant { 1 } else { args.takeovers };
        println!("block checker, {rounds} kills of either, seed {seed}");
        let amount = Amount { seed, rounds, answers: CHECKED_COMMANDS, reservations: true, plant };
        checked(check::on_pair(&programs()?, &target_dir(), &place(ceph, "hosts"), amount), amount)?;
    }
    Ok(())
}

/// Both controllers serve hosts, and get another program one after the other.
fn upgrade(ceph: &Ceph, args: &Args) -> Result<()> {
    let new = programs()?;
    let old = args.upgrade_from.as_deref().map(|from| earlier(from, &new)).transpose()?;
    let upgrade = Upgrade { from: old.as_ref().unwrap_or(&new), to: &new, turns: args.turns };
    let found = forwarding::upgrade(&target_dir(), &place(ceph, "upgrade"), &upgrade)?;
    for handover in &found.handovers {
        let Handover { is_new, pause, slowest, path_back, busy, attentions, aborted, unanswered } = handover;
        let [former, next] = is_new.map(|is_new| if is_new { "new" } else { "old" });
        println!(
            "handover, {former} to {next} program: pause of the host {} ms, slowest command by the next home {} ms, both paths \
             after {} ms; {busy} BUSY, {attentions} unit attentions, {aborted} aborted, {unanswered} without an answer by the \
             former home",
            pause.as_millis(),
            slowest.as_millis(),
            path_back.as_millis()
        );
    }
    let [before, after] = found.formats;
    println!(
        "upgrade of both controllers, format {before} to {after}: {} writes acknowledged, {} blocks compared, {} steps of counters \
         by COMPARE AND WRITE; 0 lost, 0 stale",
        found.acknowledged, found.verified, found.counted
    );
    let is_slow = found.handovers.iter().any(|it| it.pause >= MAX_HANDOVER);
    ensure!(!(args.check && is_slow), "a host waited for more than {} s", MAX_HANDOVER.as_secs());
    Ok(())
}

/// Both controllers serve hosts by addresses that move, and one of them is away. In a network of their own the addresses come and go.
fn moving(args: &Args) -> Result<()> {
    let programs = programs()?;
    let run = || {
        let made = CutNetwork::enter().and_then(|it| it.add_interface(Addresses::INTERFACE).map(|()| it));
        let (addresses, network) = match made {
            Ok(network) => (Addresses::ON_INTERFACE, Some(network)),
            Err(reason) => {
                println!("addresses that move are of loopback, and the link is not cut: {reason:#}");
                (Addresses::LOOPBACK, None)
            }
        };
        with_cluster("cluster-moving", |ceph| move_portals(ceph, args, &programs, (addresses, network)))
    };
    on_a_thread(run)
}

fn move_portals(
    ceph: &Ceph,
    args: &Args,
    programs: &Programs,
    (addresses, network): (Addresses, Option<CutNetwork>),
) -> Result<()> {
    let run = (addresses, network, args.takeovers.div_ceil(3));
    let found = forwarding::moving(programs, &target_dir(), &place(ceph, "moving"), run)?;
    for Move { away, moved, back } in &found.moves {
        println!(
            "{away:?}: the host is logged in by the same address after {} ms, and {} ms after the controller could serve again, there",
            moved.as_millis(),
            back.as_millis()
        );
        if args.check && *away != Away::CutLink {
            ensure!(*moved < MAX_PAUSE, "a host waited for more than {} s", MAX_PAUSE.as_secs());
        }
    }
    println!(
        "portals moved {} times and back: {} writes acknowledged, {} blocks compared, {} steps of counters by COMPARE AND WRITE; 0 \
         lost, 0 stale",
        found.moves.len(),
        found.acknowledged,
        found.verified,
        found.counted
    );
    Ok(())
}

/// The programs in a folder, or of a commit. A folder without ashlar is administered by the new one.
fn earlier(from: &str, new: &Programs) -> Result<Programs> {
    let ashlard = Path::new(from).join("ashlard");
    if !ashlard.exists() {
        return programs_of(from);
    }
    let ashlar = Some(Path::new(from).join("ashlar")).filter(|path| path.exists());
    Ok(Programs { ashlard: ashlard.canonicalize()?, ashlar: ashlar.unwrap_or_else(|| new.ashlar.clone()) })
}

/// Both controllers serve hosts, and the link between them is cut. They, their Ceph and the host have a network of their own.
fn cut(args: &Args) -> Result<()> {
    let programs = programs()?;
    let run = || {
        let mut network = match CutNetwork::enter() {
            Ok(network) => network,
            Err(reason) => {
                println!("cut of the link: skipped: {reason:#}");
                return Ok(());
            }
        };
        with_cluster("cluster-cut", |ceph| cut_links(ceph, args, &programs, &mut network))
    };
    on_a_thread(run)
}

/// Runs what enters a network of its own: that is the network of a thread.
fn on_a_thread(run: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

fn cut_links(ceph: &Ceph, args: &Args, programs: &Programs, network: &mut CutNetwork) -> Result<()> {
    let times = args.takeovers.div_ceil(10);
    let found = forwarding::cut(programs, &target_dir(), &place(ceph, "cut"), (network, times))?;
    for Cut { direction, is_given_up, pause, slowest, busy, path_back } in &found.cuts {
        let host = if *is_given_up { "gives the path up" } else { "waits" };
        let back = path_back.map(|time| format!(", a response {} ms after the mend", time.as_millis()));
        println!(
            "link cut, {direction:?}, host {host}: pause by the home {} ms; by the front end {} ms for the slowest command, {busy} \
             BUSY{}",
            pause.as_millis(),
            slowest.as_millis(),
            back.unwrap_or_default()
        );
        if args.check {
            ensure!(*pause < MAX_PAUSE, "a host waited for more than {} s", MAX_PAUSE.as_secs());
        }
    }
    println!(
        "links cut {} times: {} writes acknowledged, {} blocks compared, {} steps of counters by COMPARE AND WRITE; 0 lost, 0 stale",
        found.cuts.len(),
        found.acknowledged,
        found.verified,
        found.counted
    );
    Ok(())
}
