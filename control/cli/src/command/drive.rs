//! Drives, and work that takes long.

use super::{Shown, items, query};
use crate::client::Client;
use crate::show::{bytes, duration, facts, rows, text, yes};
use anyhow::{Result, bail, ensure};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// How often somebody who waits looks how far a job is.
const LOOK: Duration = Duration::from_millis(500);

/// Width of a progress bar.
const BAR: usize = 30;

#[derive(Clone, Subcommand)]
pub enum DriveVerb {
    /// All drives
    List,
    /// One drive
    Show {
        /// Its slot, or its path
        drive: String,
    },
    /// How what is stored is protected, and the last scrub
    Status,
    /// Make a drive a part of the array
    Add {
        /// A block device or file on the array's machine, such as /dev/disk/by-id/nvme-…
        path: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Place what a drive holds on the others, so that it can be taken away
    Evacuate {
        /// Its slot, or its path
        drive: String,
        /// Empty it even if fewer drives may fail without loss after that
        #[arg(long)]
        accept_reduced_protection: bool,
        /// Don't ask whether to go on
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        wait: Wait,
    },
    /// Add a drive, and empty the one whose place it takes
    Replace {
        /// The slot or path of the old one
        drive: String,
        /// Where the new one is
        #[arg(long, value_name = "PATH")]
        with: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Read and verify everything on the drives, and write again what is wrong
    Scrub {
        #[command(flatten)]
        wait: Wait,
    },
}

/// What of a new drive may be overwritten.
#[derive(Clone, Args)]
pub struct Consent {
    /// Overwrite a block device that is not blank: what it holds is destroyed
    #[arg(long)]
    force: bool,
    /// Overwrite a drive with the label of the Ashlar array with this identity: that array can't use it any more
    #[arg(long, value_name = "ID")]
    take_from_array: Option<String>,
}

impl Consent {
    fn body(&self, path: &str) -> Value {
        json!({ "path": path, "force": self.force, "take_from_array": self.take_from_array })
    }
}

/// Whether to wait for a job.
#[derive(Clone, Args)]
pub struct Wait {
    /// Wait until it is done, with a progress bar on a terminal
    #[arg(long)]
    wait: bool,
}

#[derive(Clone, Subcommand)]
pub enum JobVerb {
    /// Work that takes long, the newest last
    List {
        /// Only what is under way
        #[arg(long)]
        running: bool,
    },
    /// One job
    Show {
        /// The job
        id: String,
    },
    /// Wait until a job is done, with a progress bar on a terminal
    Wait {
        /// The job
        id: String,
    },
    /// End a job before it is done
    Cancel {
        /// The job
        id: String,
    },
}

impl DriveVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use DriveVerb::*;
        Ok(match self {
            List => (items(client.ask("GET", &["drives"], None)?), drives),
            Show { drive } => (client.ask("GET", &["drives", &drive], None)?, one),
            Status => (client.ask("GET", &["protection"], None)?, protection),
            Add { path, consent } => {
                let body = consent.body(&path);
                (client.ask("POST", &["drives"], Some(body))?, one)
            }
            Evacuate { drive, accept_reduced_protection, yes, wait } => {
                if accept_reduced_protection {
                    confirm_reduction(client, &drive, yes)?;
                }
                let body = json!({ "accept_reduced_protection": accept_reduced_protection });
                wait.for_job(client, client.ask("POST", &["drives", &drive, "evacuate"], Some(body))?)?
            }
            Replace { drive, with, consent } => {
                let body = consent.body(&with);
                (client.ask("POST", &["drives", &drive, "replace"], Some(body))?, one)
            }
            Scrub { wait } => wait.for_job(client, client.ask("POST", &["scrub"], None)?)?,
        })
    }
}

impl JobVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            JobVerb::List { running } => {
                let query = query(&[("filter", running.then_some("state=running"))]);
                (items(client.send("GET", &["jobs"], &query, None)?), jobs)
            }
            JobVerb::Show { id } => (client.ask("GET", &["jobs", &id], None)?, job),
            JobVerb::Wait { id } => (follow(client, &id)?, job),
            JobVerb::Cancel { id } => (client.ask("POST", &["jobs", &id, "cancel"], None)?, job),
        })
    }
}

impl Wait {
    fn for_job(&self, client: &Client, begun: Value) -> Result<Shown> {
        match begun["id"].as_str().filter(|_| self.wait) {
            Some(id) => Ok((follow(client, id)?, job)),
            None => Ok((begun, job)),
        }
    }
}

/// Says what an evacuation costs in protection, and asks whoever sits at a terminal whether to go on.
fn confirm_reduction(client: &Client, drive: &str, yes: bool) -> Result<()> {
    let known = client.ask("GET", &["drives", drive], None)?;
    let Some(warning) = known["evacuation_warning"].as_str() else { return Ok(()) };
    let (input, mut err) = (std::io::stdin(), std::io::stderr());
    writeln!(err, "Protection is reduced: {warning}.")?;
    if yes || !input.is_terminal() {
        return Ok(());
    }
    write!(err, "Type yes to go on: ").and_then(|()| err.flush())?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    ensure!(answer.trim() == "yes", "the drive is not emptied");
    Ok(())
}

/// Waits for the end of a job; an error when it failed.
fn follow(client: &Client, id: &str) -> Result<Value> {
    let mut err = std::io::stderr();
    let terminal = err.is_terminal();
    loop {
        let job = client.ask("GET", &["jobs", id], None)?;
        let running = job["state"] == "running";
        if terminal {
            // Nobody minds when there is nobody to see it.
            let _ =
                write!(err, "\r{}{}", bar(&job), if running { "" } else { "\n" }).and_then(|()| err.flush());
        }
        if job["state"] == "failed" {
            bail!("{}: {}", text(&job["description"]), text(&job["message"]));
        }
        if !running {
            return Ok(job);
        }
        std::thread::sleep(LOOK);
    }
}

fn bar(job: &Value) -> String {
    let full = (job["progress"].as_f64().unwrap_or(0.0) * BAR as f64) as usize;
    let full = full.min(BAR);
    format!("{} [{}{}] {}", text(&job["description"]), "#".repeat(full), "-".repeat(BAR - full), percent(job))
}

fn percent(job: &Value) -> String {
    format!("{:.0} %", job["progress"].as_f64().unwrap_or(0.0) * 100.0)
}

fn used(drive: &Value) -> String {
    format!("{} of {}", bytes(&drive["used"]), bytes(&drive["size"]))
}

fn one(drive: &Value) -> String {
    let health = &drive["health"];
    let unit = |field: &str, unit: &str| match &health[field] {
        Value::Null => text(&Value::Null),
        value => format!("{} {unit}", text(value)),
    };
    let named = |fields: &[&str]| {
        let known: Vec<&str> = fields.iter().filter_map(|field| health[*field].as_str()).collect();
        if known.is_empty() { text(&Value::Null) } else { known.join(", ") }
    };
    facts(&[
        ("Slot", text(&drive["slot"])),
        ("Path", text(&drive["path"])),
        ("Standing", standing(drive)),
        ("Slow", yes(&drive["slow"])),
        ("Used", used(drive)),
        ("Journal", yes(&drive["journal"])),
        ("Written", bytes(&drive["written_bytes"])),
        ("Read", bytes(&drive["read_bytes"])),
        ("Failed reads", text(&drive["read_errors"])),
        ("Slow reads", text(&drive["slow_reads"])),
        ("Bad pages", text(&drive["bad_pages"])),
        ("Identity", text(&drive["id"])),
        ("Model", named(&["model", "serial", "firmware"])),
        ("Health", text(&health["verdict"])),
        ("Temperature", unit("temperature_celsius", "°C")),
        ("Worn", unit("used_percent", "%")),
        ("Spare left", unit("spare_percent", "%")),
        ("On for", unit("power_on_hours", "h")),
        ("Media errors", text(&health["media_errors"])),
        ("Written in its life", bytes(&health["lifetime_written_bytes"])),
        ("Read in its life", bytes(&health["lifetime_read_bytes"])),
    ])
}

/// What the drive tells of itself, shortly.
fn health(drive: &Value) -> String {
    let health = &drive["health"];
    let worn = health["used_percent"].as_u64().map(|used| format!(", {used} % worn"));
    text(&health["verdict"]) + &worn.unwrap_or_default()
}

fn standing(drive: &Value) -> String {
    text(&drive["state"]).replace('_', " ")
}

fn drives(answer: &Value) -> String {
    let headers =
        ["SLOT", "PATH", "STANDING", "USED", "JOURNAL", "WRITTEN", "ERRORS", "SLOW", "BAD PAGES", "HEALTH"];
    rows(&headers, answer, |it| {
        vec![
            text(&it["slot"]),
            text(&it["path"]),
            standing(it),
            used(it),
            yes(&it["journal"]),
            bytes(&it["written_bytes"]),
            text(&it["read_errors"]),
            text(&it["slow_reads"]) + if it["slow"] == true { " (now)" } else { "" },
            text(&it["bad_pages"]),
            health(it),
        ]
    })
}

fn protection(answer: &Value) -> String {
    let scrub = &answer["scrub"];
    let found = || {
        let wrong = format!("{} wrong pages, {} repaired", text(&scrub["errors"]), text(&scrub["repaired"]));
        format!("{}, {wrong}, {} lost", bytes(&scrub["bytes"]), text(&scrub["lost"]))
    };
    let last = match (scrub["started"].as_str(), scrub["ended"].as_str()) {
        (None, _) => "never".into(),
        (Some(started), None) => format!("under way since {started}: {}", found()),
        (Some(_), Some(ended)) if scrub["cancelled"] == true => format!("cancelled {ended}: {}", found()),
        (Some(started), Some(ended)) => {
            let took = duration(scrub["seconds"].as_u64().unwrap_or(0));
            format!("begun {started}, finished {ended} after {took}: {}", found())
        }
    };
    facts(&[
        (
            "Tolerates",
            format!(
                "{} more drives to fail, of {} promised",
                text(&answer["tolerates"]),
                text(&answer["promises"])
            ),
        ),
        (
            "At risk",
            format!("{} of {} segments", text(&answer["segments_at_risk"]), text(&answer["segments"])),
        ),
        ("Rebuilt", format!("{} segments since the start", text(&answer["rebuilt"]))),
        ("Repaired", format!("{} pages since the start", text(&answer["repaired"]))),
        ("Lost", format!("{} pages since the start", text(&answer["lost"]))),
        ("Strays", strays(answer)),
        ("Scrub", last),
        ("Next scrub", text(&answer["next_scrub"])),
    ])
}

/// Drives that hold another state of the array.
fn strays(answer: &Value) -> String {
    let paths: Vec<String> = answer["former_members"].as_array().into_iter().flatten().map(text).collect();
    if paths.is_empty() { "none".into() } else { paths.join(", ") }
}

/// One job.
fn job(job: &Value) -> String {
    facts(&[
        ("Job", text(&job["id"])),
        ("What", text(&job["description"])),
        ("State", text(&job["state"])),
        ("Progress", percent(job)),
        ("Result", text(&job["message"])),
        ("By", text(&job["user"])),
        ("Started", text(&job["started"])),
        ("Ended", text(&job["ended"])),
    ])
}

/// All jobs.
fn jobs(answer: &Value) -> String {
    rows(&["ID", "WHAT", "STATE", "PROGRESS", "BY", "STARTED", "ENDED"], answer, |it| {
        vec![
            text(&it["id"]),
            text(&it["description"]),
            text(&it["state"]),
            percent(it),
            text(&it["user"]),
            text(&it["started"]),
            text(&it["ended"]),
        ]
    })
}
