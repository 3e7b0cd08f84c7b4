//! Strangers at every listener of the array: `lab::strangers`.

use crate::ceph::with_cluster;
use crate::conformance::programs;
use crate::integrations::go;
use crate::shell::{installed, target_dir};
use anyhow::Result;
use lab::ceph::Pools;
use lab::strangers::{Options, ServerPrograms, run as run_rows, run_controllers};
use std::time::Duration;

/// Which attacks at which listeners.
#[derive(clap::Args)]
pub struct Args {
    /// Only rows whose name, such as "API / idle", contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Each attack once, without measuring what a host waits
    #[arg(long, conflicts_with = "seconds")]
    short: bool,
    /// How long each attack is repeated while a host is measured
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Replays what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the rows; the first fault ends them. Those at the links of controllers need Ceph.
pub fn run(args: &Args) -> Result<()> {
    let time = (!args.short).then(|| Duration::from_secs(args.seconds));
    let servers = servers()?;
    let options = Options { only: args.only.clone(), time, seed: args.seed, servers };
    let programs = programs()?;
    run_rows(&programs, &target_dir(), &options)?;
    with_cluster("strangers", |ceph| {
        let (conf, pools, namespace) = (ceph.conf(), "meta".into(), "strangers".into());
        let place = Pools { conf, pools, namespace, encrypt: false };
        run_controllers(&programs, &target_dir(), &place, &options)
    })
}

/// The servers of `integrations/go`, where Go is installed.
fn servers() -> Result<Option<ServerPrograms>> {
    if let Some(missing) = ["go", "curl"].into_iter().find(|program| !installed(program)) {
        println!("strangers at the servers in Go: skipped: {missing} is not installed");
        return Ok(None);
    }
    let vsphere = go::build_vsphere()?;
    Ok(Some(ServerPrograms { dialect: go::build_dialect()?, vsphere }))
}

/// What `cargo xtask test` runs.
pub fn short() -> Result<()> {
    let options = Options { seed: 1, servers: servers()?, ..Options::default() };
    run_rows(&programs()?, &target_dir(), &options)
}
