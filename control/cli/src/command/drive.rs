//! Drives and background jobs.

use crate::ask::confirm;
use crate::client::{Answer, Client};
use crate::show::{self, Shown};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use client::api;
use client::schemas::{DriveState, Evacuation, Job, JobState, NewDrive};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Interval at which a job is polled.
const POLL: Duration = Duration::from_millis(500);

/// Width of a progress bar, in characters.
const BAR_CHARS: usize = 30;

#[derive(Clone, Subcommand)]
pub enum DriveVerb {
    /// List drives
    List,
    /// Show a drive
    Show {
        /// Slot or path
        drive: String,
    },
    /// Show the protection state and the last scrub
    Status,
    /// Add a drive to the array
    Add {
        /// Block device or file on the array's machine, such as /dev/disk/by-id/nvme-…
        path: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Evacuate a drive, so that it can be removed
    Evacuate {
        /// Slot or path
        drive: String,
        /// Evacuate even if fewer drive failures can be tolerated afterwards
        #[arg(long)]
        accept_reduced_protection: bool,
        /// Evacuate without confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        wait: Wait,
    },
    /// Replace a drive: add a new one and evacuate the old one
    Replace {
        /// Slot or path of the old drive
        drive: String,
        /// Path of the new drive
        #[arg(long, value_name = "PATH")]
        with: String,
        #[command(flatten)]
        consent: Consent,
        /// Replace without confirmation
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        wait: Wait,
    },
    /// Start a scrub: read and verify all data in use, and repair what is wrong
    Scrub {
        #[command(flatten)]
        wait: Wait,
    },
}

/// Consent to overwrite a drive.
#[derive(Clone, Args)]
pub struct Consent {
    /// Overwrite a block device that is not blank: its contents are destroyed
    #[arg(long)]
    force: bool,
    /// Overwrite a drive with the label of the Ashlar array with this identity, which can no longer use it
    #[arg(long, value_name = "ID")]
    take_from_array: Option<String>,
}

impl Consent {
    fn drive(self, path: String) -> NewDrive {
        NewDrive { path, force: Some(self.force), take_from_array: self.take_from_array }
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
    /// List background jobs, newest last
    List {
        /// Only running jobs
        #[arg(long)]
        running: bool,
    },
    /// Show a job
    Show {
        /// Job
        id: String,
    },
    /// Wait until a job is done, with a progress bar on a terminal
    Wait {
        /// Job
        id: String,
    },
    /// Cancel a job
    Cancel {
        /// Job
        id: String,
    },
}

impl DriveVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use DriveVerb::*;
        Ok(match self {
            List => client.call(api::list_drives(&api::ListDrives::default()))?.into(),
            Show { drive } => client.call(api::show_drive(&drive))?.into(),
            Status => client.call(api::show_protection())?.into(),
            Add { path, consent } => client.call(api::add_drive(&consent.drive(path)))?.into(),
            Evacuate { drive, accept_reduced_protection, yes, wait } => {
                confirm_evacuation(client, &drive, accept_reduced_protection, yes)?;
                let how = Evacuation { accept_reduced_protection: Some(accept_reduced_protection) };
                wait.follow(client, client.call(api::evacuate_drive(&drive, &how))?)?
            }
            Replace { drive, with, consent, yes, wait } => {
                let old = client.call(api::show_drive(&drive))?.read()?.slot;
                confirm(
                    yes,
                    &format!(
                        "{with} is taken into the array, and the drive of slot {old} leaves it and is wiped"
                    ),
                )?;
                let new = client.call(api::replace_drive(&drive, &consent.drive(with)))?;
                if wait.wait {
                    wait_for_evacuation(client, old)?;
                }
                new.into()
            }
            Scrub { wait } => wait.follow(client, client.call(api::start_scrub())?)?,
        })
    }
}

impl JobVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use JobVerb::*;
        Ok(match self {
            List { running } => {
                let filter = running.then(|| "state=running".to_owned());
                client.call(api::list_jobs(&api::ListJobs { filter, ..Default::default() }))?.into()
            }
            Show { id } => client.call(api::show_job(&id))?.into(),
            Wait { id } => follow(client, &id)?.into(),
            Cancel { id } => client.call(api::cancel_job(&id))?.into(),
        })
    }
}

impl Wait {
    fn follow(&self, client: &Client, started: Answer<Job>) -> Result<Shown> {
        if self.wait { Ok(follow(client, &started.read()?.id)?.into()) } else { Ok(started.into()) }
    }
}

/// Waits until a drive is evacuated, if a job is at it.
fn wait_for_evacuation(client: &Client, slot: u64) -> Result<()> {
    let filter = Some(format!("state=running,kind=evacuate,slot={slot}"));
    let jobs = client.call(api::list_jobs(&api::ListJobs { filter, ..Default::default() }))?.read()?;
    jobs.items.iter().try_for_each(|job| follow(client, &job.id).map(drop))
}

/// Asks before an evacuation, with what it costs: capacity, and protection if that is accepted, which is said in any case.
fn confirm_evacuation(
    client: &Client,
    drive: &str,
    accept_reduced_protection: bool,
    yes: bool,
) -> Result<()> {
    let leaving = client.call(api::show_drive(drive))?.read()?;
    let drives = client.call(api::list_drives(&api::ListDrives::default()))?.read()?.items;
    let raw: u64 = drives.iter().filter(|it| it.state == DriveState::Online).map(|it| it.size).sum();
    if let Some(warning) = leaving.evacuation_warning.filter(|_| accept_reduced_protection) {
        writeln!(std::io::stderr(), "Protection is reduced: {warning}.")?;
    }
    let (slot, left) = (leaving.slot, raw.saturating_sub(leaving.size));
    let (raw, left) = (show::bytes(raw), show::bytes(left));
    confirm(
        yes,
        &format!(
            "the drive of slot {slot} leaves the array and is wiped: {left} of raw capacity instead of {raw}"
        ),
    )
}

/// Waits for the end of a job; an error if it failed.
fn follow(client: &Client, id: &str) -> Result<Answer<Job>> {
    let mut err = std::io::stderr();
    let terminal = err.is_terminal();
    loop {
        let answer = client.call(api::show_job(id))?;
        let job = answer.read()?;
        let running = job.state == JobState::Running;
        if terminal {
            // A terminal that went away is no reason to stop waiting.
            let _ =
                write!(err, "\r{}{}", bar(&job), if running { "" } else { "\n" }).and_then(|()| err.flush());
        }
        if job.state == JobState::Failed {
            bail!("{}: {}", job.description, job.message.unwrap_or_default());
        }
        if !running {
            return Ok(answer);
        }
        std::thread::sleep(POLL);
    }
}

fn bar(job: &Job) -> String {
    let full = ((job.progress * BAR_CHARS as f64) as usize).min(BAR_CHARS);
    let (done, rest) = ("#".repeat(full), "-".repeat(BAR_CHARS - full));
    format!("{} [{done}{rest}] {:.0} %", job.description, job.progress * 100.0)
}
