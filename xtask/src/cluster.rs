//! Several controllers of an array in a real Ceph cluster, which is made for the run: the home is killed, stopped and frozen
//! under load, and the other takes over.

use crate::ceph::with_cluster;
use crate::conformance::programs;
use crate::shell::target_dir;
use anyhow::{Result, ensure};
use lab::ceph::{Ceph, Pools};
use lab::takeover::{self, Fault};
use lab::{crash, forwarding};

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
    /// Only the rounds in which both controllers serve hosts
    #[arg(long)]
    forwarding: bool,
}

/// Longest pause that a host may see, and the longest in the middle of many kills.
const MAX_PAUSE: Duration = Duration::from_secs(10);
const MAX_MEDIAN: Duration = Duration::from_secs(6);

/// Runs everything.
pub fn run(args: &Args) -> Result<()> {
    with_cluster("cluster", |ceph| {
        if !args.forwarding {
            takeovers(ceph, args)?;
        }
        forwarding(ceph, args)
    })
}

fn takeovers(ceph: &Ceph, args: &Args) -> Result<()> {
    let programs = programs()?;
    let kills = args.takeovers;
    for (fault, times) in
        [(Fault::Kill, kills), (Fault::Stop, kills.div_ceil(2)), (Fault::Freeze, kills.div_ceil(5))]
    {
        let namespace = format!("takeover-{fault:?}-{:x}", crash::new_seed());
        let place = Pools { conf: ceph.conf(), pools: "meta".into(), namespace, encrypt: false };
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
        let namespace = format!("forwarding-{fault:?}-{:x}", crash::new_seed());
        let place = Pools { conf: ceph.conf(), pools: "meta".into(), namespace, encrypt: false };
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
