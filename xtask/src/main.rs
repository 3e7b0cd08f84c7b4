//! The one door to every chore of the project: `cargo xtask VERB`.

mod bench;
mod ceph;
mod ci;
mod cluster;
mod conformance;
mod coverage;
mod crash;
mod dashboard;
mod demo;
mod fuzz;
mod guest;
mod integrations;
mod mutants;
mod openapi;
mod package;
mod parity;
mod python;
mod rados;
mod real;
mod replication;
mod running;
mod schemathesis;
mod setup;
mod shell;
mod sim;
mod soak;
mod strangers;
mod test;
mod tidy;
mod vms;
mod web;

use anyhow::Result;
use clap::Parser;
use std::process::ExitCode;

/// Chores of the Ashlar project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Verb {
    /// Start an array in a folder, store a file system image on it, kill it, read it back
    Demo(demo::Args),
    /// Everything that must pass before a change lands
    Test(test::Args),
    /// What the continuous integration runs: `setup`, `test`, then simulated worlds with the seeds of the day
    Ci(ci::Args),
    /// Install the Debian packages that the other verbs use, or say which are missing
    Setup(setup::Args),
    /// libiscsi's test program against the array, family by family
    Conformance(conformance::Args),
    /// A real Linux initiator in a throw-away virtual machine against the array
    Guest(guest::Args),
    /// The drivers and plug-ins of `integrations/` against a real daemon
    Integrations(integrations::Args),
    /// Packages for Debian and for others, and an image for containers
    Package(package::Args),
    /// The array and tgt side by side, as ratios
    Bench(bench::Args),
    /// Workloads that arrays are judged by, through the model of a hypervisor host
    #[command(subcommand)]
    Lab(Lab),
    /// Arrays in a real Ceph cluster, made for the run: the store through librados, kills, a full cluster
    Rados(rados::Args),
    /// Two controllers of an array in a real Ceph cluster, made for the run: kills, stops and freezes of the home under load
    Cluster(cluster::Args),
    /// Seeded worlds of crashing drives around the real engine
    Sim(sim::Args),
    /// Rules that the compiler can't hold: edges, file lengths, walks, dependencies, licences
    Tidy,
    /// Compare the API description with the checked-in one
    Openapi(openapi::Args),
    /// Compare what can be asked for by HTTP, command line and browser with the checked-in table
    Parity(parity::Args),
    /// Made-up requests against the API of a real daemon
    Schemathesis(schemathesis::Args),
    /// Load the dashboards in the tree by Grafana's own library
    Dashboard,
    /// Build the web interface that the daemon embeds
    Web(web::Args),
    /// Kill -9 cycles of the running array under writes whose acknowledgements are recorded
    Crash(crash::Args),
    /// Two arrays that replicate a group, under kills of either and over a network that is cut and changes bits
    Replication(replication::Args),
    /// Strangers at every listener: idle, slow, flooding, lying and malformed clients beside known ones
    Strangers(strangers::Args),
    /// Fuzz every parser of outside bytes
    Fuzz(fuzz::Args),
    /// Faults planted in the sources, which tests have to find
    Mutants(mutants::Args),
    /// Long runs with fresh inputs: simulated worlds, kills and fuzzing for as long as wished
    Soak(soak::Args),
}

/// What the lab's own program can do, and what needs machines of this project.
#[derive(clap::Subcommand)]
enum Lab {
    /// The host model against an ideal array in memory, in virtual time: what is found must be what was calculated
    Calibrate,
    /// Replay published workloads, run real programs beside them, and write a report: published, measured, peer
    Run(real::Args),
    /// The workloads that there are
    List,
    /// Check what several hosts see of the same blocks by iSCSI and NVMe/TCP: one order of their commands must explain it
    Check(lab::command::CheckArgs),
    /// Virtual machines that boot at once from clones of one image, by QEMU's own initiator, and outlive the array's kills
    Vms(vms::Args),
}

fn main() -> ExitCode {
    match perform(Verb::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(verb: Verb) -> Result<()> {
    match verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Ci(args) => ci::run(&args),
        Verb::Setup(args) => setup::run(&args),
        Verb::Conformance(args) => conformance::run(&args),
        Verb::Guest(args) => guest::run(&args),
        Verb::Integrations(args) => integrations::run(&args),
        Verb::Package(args) => package::run(&args),
        Verb::Bench(args) => bench::run(&args),
        Verb::Lab(Lab::Vms(args)) => vms::run(&args),
        Verb::Lab(Lab::Run(args)) => real::run(args),
        Verb::Lab(Lab::Calibrate) => lab::command::calibrate(),
        Verb::Lab(Lab::List) => lab::command::list(),
        Verb::Lab(Lab::Check(args)) => args.run(&shell::target_dir(), conformance::programs),
        Verb::Rados(args) => rados::run(&args),
        Verb::Cluster(args) => cluster::run(&args),
        Verb::Sim(args) => sim::run(&args),
        Verb::Tidy => tidy::run(),
        Verb::Openapi(args) => openapi::run(&args),
        Verb::Parity(args) => parity::run(&args),
        Verb::Dashboard => dashboard::check(),
        Verb::Schemathesis(args) => schemathesis::run(&args),
        Verb::Web(args) => web::run(&args),
        Verb::Crash(args) => crash::run(&args),
        Verb::Replication(args) => replication::run(&args),
        Verb::Strangers(args) => strangers::run(&args),
        Verb::Fuzz(args) => fuzz::run(&args),
        Verb::Mutants(args) => mutants::run(&args),
        Verb::Soak(args) => soak::run(&args),
    }
}
