//! Nouns and verbs, and the request that each makes.

mod access;
mod alert;
mod analysis;
mod array;
mod bin;
mod directory;
mod drive;
mod group;
mod host;
mod key;
mod notification;
mod performance;
mod policy;
mod profile;
mod schedule;
mod snapshot;
mod top;
mod volume;

use crate::client::{self, Client, Whereabouts};
use crate::size::size;
use crate::{format, manual, show};
use anyhow::{Context, Result};
use clap::{Args, CommandFactory, Parser, Subcommand};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Operates an Ashlar array.
#[derive(Parser)]
#[command(name = "ashlar", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    access: Access,
    /// How to print answers
    #[arg(short, long, global = true, value_enum, default_value_t = format::Format::Table)]
    output: format::Format,
    /// Ask again every so often, such as 5s, until interrupted; for what only reads [default: 2s]
    #[arg(long, global = true, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "2s", value_parser = seconds)]
    watch: Option<u64>,
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Args)]
struct Access {
    /// Folder of an array on this machine [env: ASHLAR_DATA] [default: /var/lib/ashlar]
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "array")]
    data: Option<PathBuf>,
    /// Address of the array's API, such as http://127.0.0.1:8080 [env: ASHLAR_ARRAY]
    #[arg(long, global = true, value_name = "URL")]
    array: Option<String>,
    /// Token for --array [env: ASHLAR_TOKEN]
    #[arg(long, global = true, value_name = "TOKEN")]
    token: Option<String>,
    /// An array that `ashlar profile set` made known [env: ASHLAR_PROFILE]
    #[arg(long, global = true, value_name = "NAME", conflicts_with_all = ["data", "array"])]
    profile: Option<String>,
    /// File with the certificate of --array in PEM; the system's when not given [env: ASHLAR_CERTIFICATE]
    #[arg(long, global = true, value_name = "FILE")]
    certificate: Option<PathBuf>,
}

#[derive(Clone, Subcommand)]
enum Noun {
    /// The array as a whole
    #[command(subcommand)]
    Array(array::ArrayVerb),
    /// What was asked for, how it went, and how the space was used
    #[command(subcommand)]
    Analysis(analysis::AnalysisVerb),
    /// Drives, and how they protect what is stored
    #[command(subcommand)]
    Drive(drive::DriveVerb),
    /// Work that takes long
    #[command(subcommand)]
    Job(drive::JobVerb),
    /// The key that encrypted drives are locked with
    #[command(subcommand)]
    Key(key::KeyVerb),
    /// Volumes, and who sees them
    #[command(subcommand)]
    Volume(volume::VolumeVerb),
    /// Volume groups: quotas, policies and limits in common
    #[command(subcommand)]
    Group(group::GroupVerb),
    /// Snapshots
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotVerb),
    /// When snapshots are taken, and how many are kept
    #[command(subcommand)]
    Schedule(schedule::ScheduleVerb),
    /// Volumes and snapshots that were deleted, until their space is given back
    #[command(subcommand)]
    RecycleBin(bin::BinVerb),
    /// Hosts: who may log in
    #[command(subcommand)]
    Host(host::HostVerb),
    /// Host groups: hosts that see the same
    #[command(subcommand)]
    HostGroup(group::HostGroupVerb),
    /// Who sees what
    #[command(subcommand)]
    Connection(ConnectionVerb),
    /// Who may operate the array
    #[command(subcommand)]
    User(access::UserVerb),
    /// Directories elsewhere whose people may log in: OpenID Connect, LDAP
    #[command(subcommand)]
    Directory(directory::DirectoryVerb),
    /// Secrets for programs that operate the array
    #[command(subcommand)]
    Token(access::TokenVerb),
    /// The certificate that the array shows
    #[command(subcommand)]
    Certificate(access::CertificateVerb),
    /// What needs attention
    #[command(subcommand)]
    Alert(alert::AlertVerb),
    /// Whom alerts are told elsewhere: webhooks, syslog, mail, SNMP
    #[command(subcommand)]
    Notification(notification::NotificationVerb),
    /// What happened
    #[command(subcommand)]
    Event(array::EventVerb),
    /// What operators did
    #[command(subcommand)]
    Audit(array::AuditVerb),
    /// Write what somebody who helps from afar needs to know into a file, without secrets
    SupportBundle {
        /// The file: tar, compressed with zstd
        #[arg(long, value_name = "FILE", default_value = "ashlar-support.tar.zst")]
        file: PathBuf,
    },
    /// Arrays that are known by a name on this machine
    #[command(subcommand)]
    Profile(profile::ProfileVerb),
    /// Write man pages, or print the reference
    #[command(hide = true)]
    Manual {
        /// Where to write man pages
        #[arg(default_value = "man")]
        folder: PathBuf,
        /// Print the reference in Markdown instead
        #[arg(long)]
        reference: bool,
    },
    /// Print what a shell needs to complete commands: bash, zsh, fish
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Subcommand)]
enum ConnectionVerb {
    /// Every connection of a volume or snapshot with a host or host group
    List,
}

impl ConnectionVerb {
    fn run(self, client: &Client) -> Result<Shown> {
        match self {
            ConnectionVerb::List => {
                Ok((items(client.ask("GET", &["connections"], None)?), show::connections))
            }
        }
    }
}

/// A time as people write it, in seconds: `90s`, `15m`, `12h`, `7d`, `4w`.
fn seconds(text: &str) -> Result<u64, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400), ("w", 7 * 86_400)];
    let (number, each) =
        units.iter().find_map(|(unit, each)| Some((text.strip_suffix(unit)?, *each))).unwrap_or(("", 1));
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each));
    seconds.ok_or_else(|| "write a number with a unit: s, m, h, d or w, such as 12h".into())
}

impl Cli {
    /// Does it, and gives each answer to `print`.
    pub fn run(self, mut print: impl FnMut(&str)) -> Result<()> {
        if let Noun::Completion { shell } = self.noun {
            clap_complete::generate(shell, &mut Self::command(), "ashlar", &mut std::io::stdout());
            return Ok(());
        }
        if let Noun::Manual { folder, reference } = &self.noun {
            match reference {
                true => print(&manual::reference(Self::command())),
                false => manual::man_pages(Self::command(), folder)?,
            }
            return Ok(());
        }
        if let Noun::Profile(verb) = self.noun {
            let (answer, table) = verb.run()?;
            print(&self.output.show(&answer, table)?);
            return Ok(());
        }
        let Access { data, array, token, certificate, profile } = self.access;
        let mut client = Client::find(Whereabouts { data, array, token, certificate, profile })?;
        if matches!(self.noun, Noun::Array(array::ArrayVerb::Top)) {
            return top::run(&client);
        }
        let Some(pause) = self.watch else {
            let (answer, table) = self.noun.run(&client)?;
            print(&self.output.show(&answer, table)?);
            return Ok(());
        };
        client.only_read();
        loop {
            let (answer, table) = self.noun.clone().run(&client)?;
            let shown = self.output.show(&answer, table)?;
            print(&if self.output.is_for_people() { format!("{}{shown}", client::CLEAR) } else { shown });
            std::thread::sleep(Duration::from_secs(pause.max(1)));
        }
    }
}

impl Noun {
    fn run(self, client: &Client) -> Result<Shown> {
        match self {
            Noun::Array(verb) => verb.run(client),
            Noun::Analysis(verb) => verb.run(client),
            Noun::Drive(verb) => verb.run(client),
            Noun::Job(verb) => verb.run(client),
            Noun::Key(verb) => verb.run(client),
            Noun::Volume(verb) => verb.run(client),
            Noun::Group(verb) => verb.run(client),
            Noun::Snapshot(verb) => verb.run(client),
            Noun::Schedule(verb) => verb.run(client),
            Noun::RecycleBin(verb) => verb.run(client),
            Noun::Host(verb) => verb.run(client),
            Noun::HostGroup(verb) => verb.run(client),
            Noun::Connection(verb) => verb.run(client),
            Noun::User(verb) => verb.run(client),
            Noun::Directory(verb) => verb.run(client),
            Noun::Token(verb) => verb.run(client),
            Noun::Certificate(verb) => verb.run(client),
            Noun::Alert(verb) => verb.run(client),
            Noun::Notification(verb) => verb.run(client),
            Noun::Event(verb) => verb.run(client),
            Noun::Audit(verb) => verb.run(client),
            Noun::SupportBundle { file } => support_bundle(client, &file),
            Noun::Profile(_) | Noun::Manual { .. } | Noun::Completion { .. } => {
                unreachable!("they ask no array")
            }
        }
    }
}

fn support_bundle(client: &Client, file: &Path) -> Result<Shown> {
    let bundle = client.download(&["support-bundle"])?;
    std::fs::write(file, &bundle).with_context(|| format!("can't write {}", file.display()))?;
    let answer = json!({ "file": file, "bytes": bundle.len() });
    Ok((answer, |it| format!("{} has {} bytes\n", show::text(&it["file"]), show::text(&it["bytes"]))))
}

/// An answer, and how people like to see it.
type Shown = (Value, fn(&Value) -> String);

/// A query with what is given, quoted; empty when nothing is.
fn query(fields: &[(&str, Option<&str>)]) -> String {
    let given = fields.iter().filter_map(|(name, value)| Some((name, client::quoted((*value)?))));
    let fields: Vec<_> = given.map(|(name, value)| format!("{name}={value}")).collect();
    if fields.is_empty() { String::new() } else { format!("?{}", fields.join("&")) }
}

/// The list in an answer that may one day come in pages.
fn items(mut answer: Value) -> Value {
    answer.get_mut("items").map_or(Value::Null, Value::take)
}

#[cfg(test)]
#[path = "command_test.rs"]
mod tests;
