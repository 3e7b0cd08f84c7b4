//! `cargo xtask lab run`: the modelled workloads, and real programs whose figures stand beside them in one report.

use crate::conformance::release_programs;
use crate::shell::target_dir;
use crate::{bench, guest, vms};
use anyhow::{Context, Result};
use lab::command::RunArgs;
use lab::figures::Case;
use lab::spdk::Spdk;

/// What to run on what, and whether real programs are run as well.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    replay: RunArgs,
    /// Real programs in virtual machines, too; --all runs them without this
    #[arg(long, conflicts_with_all = ["no_guests", "quick", "target"])]
    guests: bool,
    /// --all without them
    #[arg(long)]
    no_guests: bool,
}

/// What is measured with real programs.
struct Real {
    name: &'static str,
    /// The row of the table of published workloads.
    row: Option<&'static str>,
    title: &'static str,
    needs: Needs,
    measure: fn(&Real) -> Result<Vec<Case>>,
}

/// What has to be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Guest,
    Spdk,
}

const REAL: &[Real] = &[
    Real {
        name: "raw",
        row: Some("G18"),
        title: "A raw disk against a file on a file system's disk",
        needs: Needs::Guest,
        measure: in_guest,
    },
    Real {
        name: "postgres",
        row: None,
        title: "PostgreSQL on the array and on tgt, and over four kills of the array",
        needs: Needs::Guest,
        measure: in_guest,
    },
    Real {
        name: "peers",
        row: None,
        title: "Beside LIO, LIO on dm-vdo, and tgt, in one guest",
        needs: Needs::Guest,
        measure: in_guest,
    },
    Real {
        name: "nvmet",
        row: None,
        title: "NVMe/TCP beside the kernel's own target, in one guest",
        needs: Needs::Guest,
        measure: in_guest,
    },
    Real {
        name: "vms",
        row: None,
        title: "Virtual machines on clones of one image, and over two kills of the array",
        needs: Needs::Guest,
        measure: |_| vms::measure(&vms::Args::default()).map(|case| vec![case]),
    },
    Real {
        name: "spdk",
        row: None,
        title: "Beside tgt and SPDK, on memory and on a file",
        needs: Needs::Spdk,
        measure: |real| bench::beside_spdk(real.heading()).map(|case| vec![case]),
    },
];

fn in_guest(real: &Real) -> Result<Vec<Case>> {
    guest::measure(real.name)
}

impl Real {
    fn heading(&self) -> Case {
        Case::new(self.name, self.row, self.title)
    }

    fn left_out(&self, why: &str) -> Case {
        eprintln!("{} is left out: {why}", self.name);
        Case { left_out: Some(why.to_owned()), ..self.heading() }
    }

    /// What came of it, if it is only that nothing did.
    fn cases(&self) -> Vec<Case> {
        eprintln!("{} {}", self.row.unwrap_or("–"), self.title);
        (self.measure)(self).unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", self.name);
            vec![Case { failed: Some(format!("{error:#}")), ..self.heading() }]
        })
    }
}

/// What a report says above the figures of something real, by its name.
pub fn heading(name: &str) -> Option<Case> {
    REAL.iter().find(|real| real.name == name).map(Real::heading)
}

/// Runs the real ones first, then the workloads, and writes one report.
pub fn run(args: Args) -> Result<()> {
    // What was measured before is not measured again.
    let handed: Vec<_> = args.replay.real()?.into_iter().map(|case| case.name).collect();
    let wanted: Vec<_> = match args.replay.all || args.guests {
        true => REAL.iter().filter(|real| !handed.iter().any(|name| name == real.name)).collect(),
        false => Vec::new(),
    };
    let why = args.without().map(str::to_owned);
    let mut no_guest = None;
    if why.is_none() && wanted.iter().any(|real| real.needs == Needs::Guest) {
        no_guest = guest::prepare().err().map(|error| format!("no guest can be made here: {error:#}"));
    }
    let lacks = |needs: Needs| match needs {
        Needs::Guest => no_guest.clone(),
        Needs::Spdk => (!Spdk::is_installed()).then(|| "spdk_tgt is not installed".to_owned()),
    };
    let folder = args.replay.out.join("real");
    let mut replay = args.replay;
    for real in wanted {
        let why = why.clone().or_else(|| lacks(real.needs));
        let cases = why.map_or_else(|| real.cases(), |why| vec![real.left_out(&why)]);
        std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
        let path = folder.join(format!("{}.figures", real.name));
        let text: String = cases.iter().map(Case::to_string).collect();
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
        replay.with.push(path);
    }
    replay.run(&target_dir(), release_programs)
}

impl Args {
    /// Why real programs are left out where all are to be run.
    fn without(&self) -> Option<&'static str> {
        if self.no_guests {
            return Some("--no-guests");
        }
        if self.replay.quick {
            return Some("--quick runs no virtual machines");
        }
        self.replay.target.is_some().then_some("it needs an array of its own, and --target names another one")
    }
}

#[cfg(test)]
#[path = "real_test.rs"]
mod tests;
