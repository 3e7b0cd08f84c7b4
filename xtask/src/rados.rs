//! Arrays in a real Ceph cluster, which is made for the run: the contract of the store, takeovers and damage through librados,
//! kills of `ashlard` under load, a storage daemon that dies, and a cluster that gets full.

use crate::ceph::{OSD_BYTES, OSDS, with_cluster};
use crate::conformance::programs;
use crate::shell::{cargo, exec, target_dir};
use crate::test::Tally;
use anyhow::{Context, Result};
use lab::array::Programs;
use lab::ceph::{self, Ceph, Pools};
use lab::crash;
use lab::full::{self, Cause};
use lab::scratch::Scratch;

/// How much.
#[derive(clap::Args)]
pub struct Args {
    /// Seeds of takeovers
    #[arg(long, default_value_t = 10)]
    seeds: u64,
    /// Kills of the array under load, half of them on an erasure-coded pool and encrypted
    #[arg(long, default_value_t = 10)]
    kills: u64,
    /// Only the tests of the store, without an array
    #[arg(long)]
    store: bool,
}

/// Runs everything.
pub fn run(args: &Args) -> Result<()> {
    with_cluster("rados", |ceph| {
        store(ceph, "real_", args.seeds)?;
        if args.store { Ok(()) } else { arrays(ceph, args) }
    })
}

/// The tests of the store whose names begin so.
fn store(ceph: &Ceph, names: &str, seeds: u64) -> Result<()> {
    let mut tests = cargo(&["test", "--quiet", "-p", "rados", "--test", "rados", "--", "--ignored", names]);
    tests.env("ASHLAR_CEPH_CONF", ceph.conf()).env("ASHLAR_SEEDS", seeds.to_string());
    exec(&mut tests)
}

fn arrays(ceph: &mut Ceph, args: &Args) -> Result<()> {
    let programs = programs()?;
    for cause in [Cause::Quota, Cause::Osds] {
        let report =
            full::run(&programs, &target_dir(), ceph, cause).with_context(|| format!("{cause:?} full"))?;
        println!(
            "full by {cause:?}: {} MiB acknowledged, then 07/27/07; longest answer {} ms; 0 lost; unmap, restart and \
             writes afterwards work",
            report.written,
            report.longest.as_millis()
        );
    }
    for (pools, encrypt, kills) in
        [("meta", false, args.kills.div_ceil(2)), ("meta,erasure", true, args.kills / 2)]
    {
        kill(&programs, ceph, (pools, encrypt), kills)?;
    }
    ceph.kill_osd(OSDS - 1)?;
    println!("an OSD is killed: the cluster continues with two of three");
    kill(&programs, ceph, ("meta", false), 2)
}

/// Kills of an array in a namespace of its own.
fn kill(programs: &Programs, ceph: &Ceph, (pools, encrypt): (&str, bool), kills: u64) -> Result<()> {
    let seed = crash::new_seed();
    let namespace = format!("crash-{seed:x}");
    let place = Pools { conf: ceph.conf(), pools: pools.into(), namespace, encrypt };
    let options = crash::Options { cycles: kills, store: place.arguments(), seed };
    let report = crash::run(programs, &target_dir(), options)?;
    println!(
        "{} kills of an array in {pools}: {} operations acknowledged, {} unanswered, {} blocks compared; 0 lost, 0 torn; \
         slowest start {} ms",
        report.cycles,
        report.acknowledged,
        report.unanswered,
        report.verified,
        report.slowest_start.as_millis()
    );
    Ok(())
}

/// What `cargo xtask test` runs where Ceph is installed: that librados does what the model says.
pub fn short() -> Result<Tally> {
    if let Some(reason) = ceph::missing() {
        println!("rados: skipped: {reason}");
        return Ok(Tally { skipped: 1, ..Tally::default() });
    }
    let scratch = Scratch::new(&target_dir(), "ceph-short")?;
    let ceph = Ceph::start(scratch.path(), OSDS, OSD_BYTES)?;
    store(&ceph, "real_operations", 1)?;
    store(&ceph, "real_takeovers", 2)?;
    Ok(Tally { passed: 2, ..Tally::default() })
}
