//! The drivers and plug-ins of `integrations/`, tested against a real daemon. The programs that they are written for are
//! needed here only: a part whose programs are missing is left out.

mod ansible;
pub mod cinder;
mod dialect;
pub mod go;
mod plane;
mod proxmox;
mod windows;

use crate::shell::{installed, root, test_binaries};
use crate::test::Tally;
use anyhow::{Context, Result, bail};
use std::path::Path;

/// What to test.
#[derive(clap::Args)]
pub struct Args {
    /// Only this part, such as `proxmox`; everything without one
    part: Option<String>,
    /// Write what is generated: the Go client, dashboards for logs, and the documentation of the Terraform provider
    #[arg(long)]
    write: bool,
}

/// A part of the integrations.
struct Part {
    name: &'static str,
    /// Programs without which it is left out.
    needs: &'static [&'static str],
    /// Everything, with the folder that has the daemon. May install what it needs under `target/`.
    long: fn(&Path) -> Result<Tally>,
    /// What takes seconds and installs nothing.
    short: fn(&Path) -> Result<Tally>,
}

const PARTS: &[Part] = &[
    Part { name: "csi", needs: &["go"], long: go::csi, short: go::csi_short },
    Part {
        name: "plane",
        needs: &["go", "nice", "unshare", "qemu-io"],
        long: plane::long,
        short: plane::short,
    },
    Part { name: "terraform", needs: &["go"], long: go::terraform, short: go::terraform_short },
    Part { name: "vsphere", needs: &["go"], long: go::vsphere, short: go::vsphere_short },
    Part { name: "sra", needs: &["go", "xmllint", "qemu-io"], long: go::sra, short: go::sra_short },
    Part { name: "forklift", needs: &["go", "qemu-io"], long: go::forklift, short: go::forklift },
    Part { name: "freeze", needs: &["go"], long: go::freeze, short: go::freeze },
    Part { name: "ucs", needs: &["go", "curl", "jq", "qemu-io"], long: go::ucs, short: go::ucs },
    Part { name: "windows", needs: &["python3"], long: windows::long, short: windows::short },
    Part { name: "proxmox", needs: &["perl", "prove", "qemu-io"], long: proxmox::test, short: proxmox::test },
    Part { name: "cinder", needs: &["python3", "qemu-io"], long: cinder::long, short: cinder::short },
    Part {
        name: "dialect",
        needs: &["go", "python3", "qemu-io"],
        long: dialect::long,
        short: dialect::short,
    },
    Part { name: "ansible", needs: &["python3", "git"], long: ansible::long, short: ansible::short },
];

/// Tests the parts in full.
pub fn run(args: &Args) -> Result<()> {
    if args.write {
        return go::write();
    }
    let wanted = |part: &&Part| args.part.as_deref().is_none_or(|name| name == part.name);
    if !PARTS.iter().any(|part| wanted(&part)) {
        let names: Vec<_> = PARTS.iter().map(|part| part.name).collect();
        bail!("there is no such part; there are: {}", names.join(", "));
    }
    let tally = test(PARTS.iter().filter(wanted).map(|part| (part, part.long)))?;
    tally.failures.iter().for_each(|it| println!("FAILED: {it}"));
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
    match tally.failed {
        0 => Ok(()),
        failed => bail!("{failed} failed"),
    }
}

/// What `cargo xtask test` runs.
pub fn short() -> Result<Tally> {
    test(PARTS.iter().map(|part| (part, part.short)))
}

fn test<'a>(parts: impl Iterator<Item = (&'a Part, fn(&Path) -> Result<Tally>)>) -> Result<Tally> {
    let programs = test_binaries()?;
    let mut all = Tally::default();
    for (part, run) in parts {
        if let Some(missing) = part.needs.iter().find(|program| !installed(program)) {
            all.add(&left_out(part.name, &format!("{missing} is not installed")));
            continue;
        }
        match run(&programs) {
            Ok(tally) => {
                all.add(&tally);
                all.failures.extend(tally.failures);
            }
            Err(error) => {
                all.failed += 1;
                all.failures.push(format!("{}: {error:#}", part.name));
            }
        }
    }
    Ok(all)
}

/// A part that is not tested, with the reason.
fn left_out(name: &str, reason: &str) -> Tally {
    println!("{name}: left out, {reason}");
    Tally { skipped: 1, ..Tally::default() }
}

/// The folder of a part.
fn folder(part: &str) -> std::path::PathBuf {
    root().join("integrations").join(part)
}

/// The number after a word in a text, such as 37 in `Ran 37 tests`; the last one if there are several.
fn number_after(text: &str, word: &str) -> Result<usize> {
    let after = text.rsplit_once(word).map(|(_, rest)| rest);
    let digits: String = after.unwrap_or_default().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().with_context(|| format!("the summary has no number after {word:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_have_numbers() {
        assert_eq!(number_after("Ran 1 test\nRan 37 tests in 2 s", "Ran ").expect("a number"), 37);
        assert_eq!(number_after("Files=7, Tests=48, 2 s", "Tests=").expect("a number"), 48);
        assert!(number_after("nothing", "Ran ").is_err());
    }
}
