//! Nouns and verbs of the command line.

mod access;
mod alert;
mod array;
mod bin;
mod config;
mod controller;
mod directory;
mod doctor;
mod drive;
mod group;
mod host;
mod key;
mod label;
mod notification;
mod outcome;
mod performance;
mod policy;
mod portal;
mod profile;
mod remote;
mod replication;
mod schedule;
mod snapshot;
mod top;
mod volume;

use crate::client::{CLEAR, Client, Location};
use crate::show::Shown;
use crate::{format, manual, show};
use ::client::api;
use anyhow::{Context, Result};
use clap::builder::{NonEmptyStringValueParser, ValueParser};
use clap::{Arg, ArgGroup, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::json;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::seconds;

/// Heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// Manage an Ashlar array.
#[derive(Parser)]
#[command(name = "ashlar", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    access: Access,
    /// Output format
    #[arg(short, long, global = true, value_enum, default_value_t = format::Format::Table, help_heading = GLOBAL)]
    output: format::Format,
    /// Repeat at this interval, such as 5s, until interrupted; only for commands that change nothing [default: 2s]
    #[arg(long, global = true, value_name = "TIME", num_args = 0..=1, require_equals = true,
        default_missing_value = "2s", value_parser = seconds, help_heading = GLOBAL)]
    watch: Option<u64>,
    #[command(flatten)]
    part: Part,
    #[command(subcommand)]
    noun: Noun,
}

/// Which part of a list, in which order.
#[derive(Args)]
struct Part {
    /// Only items of a list that meet conditions: a field as -o json names it, one of = != < <= > >=, and a value, such as
    /// name=web*,size>=10GiB; in text * matches anything. What is not understood is refused
    #[arg(long, global = true, value_name = "CONDITIONS", help_heading = GLOBAL)]
    filter: Option<String>,
    /// Sort a list by fields, descending with a leading -, such as -mapped,name
    #[arg(long, global = true, value_name = "FIELDS", allow_hyphen_values = true, help_heading = GLOBAL)]
    sort: Option<String>,
}

#[derive(Args)]
struct Access {
    /// Data folder of an array on this machine [env: ASHLAR_DATA] [default: /var/lib/ashlar]
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "array", help_heading = GLOBAL)]
    data: Option<PathBuf>,
    /// URL of the array's API, or its address: then https and port 8443 [env: ASHLAR_ARRAY]
    #[arg(long, global = true, value_name = "URL", help_heading = GLOBAL)]
    array: Option<String>,
    /// Token for --array [env: ASHLAR_TOKEN]
    #[arg(long, global = true, value_name = "TOKEN", help_heading = GLOBAL)]
    token: Option<String>,
    /// Profile created by `ashlar profile set` [env: ASHLAR_PROFILE]
    #[arg(long, global = true, value_name = "NAME", conflicts_with_all = ["data", "array"], help_heading = GLOBAL)]
    profile: Option<String>,
    /// File with the certificate of --array in PEM [default: certificates of the system] [env: ASHLAR_CERTIFICATE]
    #[arg(long, global = true, value_name = "FILE", help_heading = GLOBAL)]
    certificate: Option<PathBuf>,
}

#[derive(Clone, Subcommand)]
enum Noun {
    /// The array: status, settings
    #[command(subcommand)]
    Array(array::ArrayVerb),
    /// Configuration as one document: export and import
    #[command(subcommand)]
    Config(config::ConfigVerb),
    /// Controllers: state, addresses and takeovers
    #[command(subcommand)]
    Controller(controller::ControllerVerb),
    /// Portals of the array for hosts
    #[command(subcommand)]
    Portal(portal::PortalVerb),
    /// The store: drives, or pools in Ceph
    #[command(subcommand)]
    Store(controller::StoreVerb),
    /// Performance and capacity history
    #[command(subcommand, alias = "analysis")]
    Performance(performance::PerformanceVerb),
    /// Drives, protection state and scrubs
    #[command(subcommand)]
    Drive(drive::DriveVerb),
    /// Background jobs
    #[command(subcommand)]
    Job(drive::JobVerb),
    /// Encryption key of the drives
    #[command(subcommand)]
    Key(key::KeyVerb),
    /// Volumes and their connections to hosts
    #[command(subcommand)]
    Volume(volume::VolumeVerb),
    /// Volume groups: quotas, data reduction and QoS limits
    #[command(subcommand)]
    Group(group::GroupVerb),
    /// Snapshots
    #[command(subcommand)]
    Snapshot(snapshot::SnapshotVerb),
    /// Snapshot schedules and retention
    #[command(subcommand)]
    Schedule(schedule::ScheduleVerb),
    /// Recycle bin: deleted volumes and snapshots
    #[command(subcommand)]
    RecycleBin(bin::RecycleBinVerb),
    /// Hosts: iSCSI initiators and CHAP
    #[command(subcommand)]
    Host(host::HostVerb),
    /// Host groups
    #[command(subcommand)]
    HostGroup(group::HostGroupVerb),
    /// Connections of volumes and snapshots to hosts
    #[command(subcommand)]
    Connection(ConnectionVerb),
    /// Remote arrays: pairing with other arrays
    #[command(subcommand)]
    RemoteArray(remote::RemoteArrayVerb),
    /// Replications of volumes and volume groups to remote arrays
    #[command(subcommand)]
    Replication(replication::ReplicationVerb),
    /// Users and roles
    #[command(subcommand)]
    User(access::UserVerb),
    /// Identity providers (OpenID Connect) and LDAP directories
    #[command(subcommand)]
    Directory(directory::DirectoryVerb),
    /// API tokens
    #[command(subcommand)]
    Token(access::TokenVerb),
    /// TLS certificate of the API
    #[command(subcommand)]
    Certificate(access::CertificateVerb),
    /// Alerts
    #[command(subcommand)]
    Alert(alert::AlertVerb),
    /// Alert notification targets (e-mail, webhook, syslog, SNMP)
    #[command(subcommand)]
    Notification(notification::NotificationVerb),
    /// Events
    #[command(subcommand)]
    Event(array::EventVerb),
    /// Audit log
    #[command(subcommand)]
    Audit(array::AuditVerb),
    /// Examine the array and this server, and say what to do
    Doctor,
    /// Download a support bundle, which contains no secrets
    SupportBundle {
        /// File to write: tar, compressed with zstd
        #[arg(long, value_name = "FILE", default_value = "ashlar-support.tar.zst")]
        file: PathBuf,
    },
    /// Profiles: named arrays of this machine's configuration
    #[command(subcommand)]
    Profile(profile::ProfileVerb),
    /// Write man pages, or print the reference
    #[command(hide = true)]
    Manual {
        /// Folder of the man pages
        #[arg(default_value = "man")]
        folder: PathBuf,
        /// Print the reference in Markdown instead
        #[arg(long)]
        reference: bool,
    },
    /// Print shell completions
    Completion {
        /// Shell
        shell: clap_complete::Shell,
    },
}

#[derive(Clone, Subcommand)]
enum ConnectionVerb {
    /// List connections of volumes and snapshots to hosts and host groups
    List,
    /// Show a connection with everything to attach the volume: LUN, target, portals, CHAP
    #[command(group(ArgGroup::new("peer").required(true).args(["host", "host_group"])))]
    Show {
        /// Volume or snapshot
        volume: String,
        /// Host
        #[arg(long)]
        host: Option<String>,
        /// Host group
        #[arg(long)]
        host_group: Option<String>,
    },
}

impl ConnectionVerb {
    fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            ConnectionVerb::List => {
                client.call(api::list_connections(&api::ListConnections::default()))?.into()
            }
            ConnectionVerb::Show { volume, host: Some(host), .. } => {
                client.call(api::show_connection(&volume, &host))?.into()
            }
            ConnectionVerb::Show { volume, host: None, host_group } => {
                let group = host_group.unwrap_or_default();
                client.call(api::show_host_group_connection(&volume, &group))?.into()
            }
        })
    }
}

/// A command whose texts have at least one character: an empty one, as an unset variable of a script leaves it, names nothing.
fn without_empty_texts(command: clap::Command) -> clap::Command {
    let text = ValueParser::string().type_id();
    let strict = |argument: Arg| match argument.get_value_parser().type_id() == text {
        true => argument.value_parser(NonEmptyStringValueParser::new()),
        false => argument,
    };
    command.mut_args(strict).mut_subcommands(without_empty_texts)
}

impl Cli {
    /// The command line of this process. Ends the process if it is not understood.
    pub fn of_arguments() -> Self {
        let matches = without_empty_texts(Self::command()).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// Runs the command, and passes each result to `print`.
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
            print(&self.output.show(&verb.run()?)?);
            return Ok(());
        }
        let Access { data, array, token, certificate, profile } = self.access;
        let mut client = Client::find(Location { data, array, token, certificate, profile })?;
        client.take_part(self.part.filter, self.part.sort);
        if matches!(self.noun, Noun::Performance(performance::PerformanceVerb::Top)) {
            return top::run(&client);
        }
        let Some(pause) = self.watch else {
            let shown = self.noun.run(&client)?;
            print(&self.output.show(&shown)?);
            let count =
                shown.count().filter(|_| self.output.is_for_terminal() && std::io::stdout().is_terminal());
            count.iter().for_each(|count| eprintln!("{count}"));
            return Ok(());
        };
        client.only_read();
        loop {
            let shown = self.output.show(&self.noun.clone().run(&client)?)?;
            print(&if self.output.is_for_terminal() { format!("{}{shown}", CLEAR) } else { shown });
            std::thread::sleep(Duration::from_secs(pause.max(1)));
        }
    }
}

impl Noun {
    fn run(self, client: &Client) -> Result<Shown> {
        match self {
            Noun::Array(verb) => verb.run(client),
            Noun::Config(verb) => verb.run(client),
            Noun::Controller(verb) => verb.run(client),
            Noun::Portal(verb) => verb.run(client),
            Noun::Store(verb) => verb.run(client),
            Noun::Performance(verb) => verb.run(client),
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
            Noun::RemoteArray(verb) => verb.run(client),
            Noun::Replication(verb) => verb.run(client),
            Noun::User(verb) => verb.run(client),
            Noun::Directory(verb) => verb.run(client),
            Noun::Token(verb) => verb.run(client),
            Noun::Certificate(verb) => verb.run(client),
            Noun::Alert(verb) => verb.run(client),
            Noun::Notification(verb) => verb.run(client),
            Noun::Event(verb) => verb.run(client),
            Noun::Audit(verb) => verb.run(client),
            Noun::Doctor => doctor::run(client),
            Noun::SupportBundle { file } => support_bundle(client, &file),
            Noun::Profile(_) | Noun::Manual { .. } | Noun::Completion { .. } => {
                unreachable!("they need no array")
            }
        }
    }
}

fn support_bundle(client: &Client, file: &Path) -> Result<Shown> {
    let bundle = client.download(&api::download_support_bundle())?;
    std::fs::write(file, &bundle).with_context(|| format!("can't write {}", file.display()))?;
    let answer = json!({ "file": file, "bytes": bundle.len() });
    Ok(Shown::text(answer, |it| {
        format!("{} has {} bytes\n", show::text(it, "file"), show::text(it, "bytes"))
    }))
}

/// The option of the command on this command line that sets a field of the API.
pub fn option_of(field: &str) -> Option<String> {
    option_in(field, std::env::args().skip(1))
}

fn option_in(field: &str, words: impl Iterator<Item = String>) -> Option<String> {
    let mut command = &Cli::command();
    for word in words {
        command = command.find_subcommand(&word).unwrap_or(command);
    }
    let name = field.replace('_', "-");
    let mut options = command.get_arguments().filter_map(|it| it.get_long());
    // `recycle_bin_seconds` is --recycle-bin, and `initiators` is given by --initiator.
    let same =
        |option: &str| [option.to_owned(), format!("{option}s"), format!("{option}-seconds")].contains(&name);
    options.find(|option| same(option)).map(str::to_owned)
}

#[cfg(test)]
#[path = "command_test.rs"]
mod tests;
