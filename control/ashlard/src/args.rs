//! The command line. Parts of the process do not know it: each has a configuration of its own, which is made here.

use crate::configuration::Configuration;
use crate::fibre_channel::target_port;
use crate::{portals, threads};
use clap::CommandFactory;
use fabric::token::Token;
use fabric::{link, listening};
use machine::{drives, key, memory, store};
use shelf::pool::Consent;
use std::net::SocketAddr;
use std::path::PathBuf;
use units::size;

/// The file with options that packages install.
pub const DEFAULT_FILE: &str = "/etc/ashlar/ashlar.toml";
/// Port of iSCSI (RFC 7143, 13.1).
const ISCSI_PORT: u16 = 3260;
/// Port of NVMe/TCP (NVM Express TCP Transport Specification, 3.1.1).
const NVME_PORT: u16 = 4420;
/// Port for other arrays.
const REPLICATION_PORT: u16 = 8444;
/// The port for other controllers of the array.
const LINK_PORT: u16 = 8445;
/// Port of the API.
const API_PORT: u16 = 8443;

/// The Ashlar array: volumes for iSCSI, NVMe/TCP and Fibre Channel hosts on the drives of this machine.
#[derive(clap::Parser)]
#[command(name = "ashlard", version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// File with options, which those of the command line override; see ashlar.toml(5)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data folder of this array: address and token of the API, secrets, history, and the drives if they are files
    #[arg(long, value_name = "DIR", required_unless_present = "openapi")]
    data: Option<PathBuf>,
    /// Block device or file of the array; may be given several times [default: files in DIR]
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub drive: Vec<PathBuf>,
    #[command(flatten)]
    rados: RadosArgs,
    /// Without --drive: number of files to create at the first start
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub drives: u16,
    /// Without --drive: size of each file, which takes space only as it fills
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size)]
    pub drive_size: u64,
    /// Replaced by `ashlard format`
    #[arg(long, hide = true)]
    pub format_force: bool,
    /// At the first start: encrypt everything on the drives; by default with a new key in DIR/drives.key
    #[arg(long)]
    pub encrypt: bool,
    #[command(flatten)]
    pub key: KeyArgs,
    /// Name of the array at the first start
    #[arg(long, default_value = "ashlar")]
    pub name: String,
    /// Portals: addresses to listen on for iSCSI, with port 3260 unless another is given; port 0 takes a free one
    #[arg(long, value_name = "ADDR[:PORT]", value_delimiter = ',', required_unless_present = "openapi",
        value_parser = |text: &str| transport::listen_address(text, ISCSI_PORT))]
    pub iscsi: Vec<SocketAddr>,
    /// Portals for NVMe/TCP: addresses to listen on, with port 4420 unless another is given; on port 8009 only discovery is
    /// served [default: NVMe/TCP is off]
    #[arg(long, value_name = "ADDR[:PORT]", value_delimiter = ',', value_parser = |text: &str| transport::listen_address(text, NVME_PORT))]
    pub nvme: Vec<SocketAddr>,
    /// Preview: target ports for Fibre Channel hosts, by the WWPN of an adapter of this machine in target mode; after @ what it
    /// belongs to in the kernel's target core: qla2xxx, efct, fc or loopback [default: Fibre Channel is off]
    #[arg(long, value_name = "WWPN[@FABRIC]", value_delimiter = ',', value_parser = target_port,
        conflicts_with = "controller")]
    pub fc: Vec<tcmu::TargetPort>,
    /// Address to listen on for the API and the browser, with port 8443 unless another is given; port 0 takes a free one
    #[arg(long, value_name = "ADDR[:PORT]", default_value = "127.0.0.1:8443",
        value_parser = |text: &str| transport::listen_address(text, API_PORT))]
    pub api: SocketAddr,
    /// Address to listen on for other arrays, with port 8444 unless another is given; port 0 takes a free one [default: other
    /// arrays can't connect]
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = |text: &str| transport::listen_address(text, REPLICATION_PORT))]
    pub replication: Option<SocketAddr>,
    /// No plain HTTP on a loopback address; other addresses have only HTTPS anyway
    #[arg(long)]
    tls_only: bool,
    /// Threads for iSCSI and NVMe/TCP [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Memory for written data before data reduction [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    write_memory: Option<u64>,
    /// Memory for the read cache [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    read_memory: Option<u64>,
    /// Memory for the deduplication index, used as it fills [default: 2 % of the capacity, at most a quarter of the
    /// machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    index_memory: Option<u64>,
    /// Memory for maps of volumes [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    map_memory: Option<u64>,
    /// Print the description of the API (OpenAPI 3.1) and do nothing else
    #[arg(long)]
    pub openapi: bool,
}

/// Where in Ceph the array is; the folder remembers it.
#[derive(clap::Args)]
pub struct RadosArgs {
    /// Store the array in Ceph instead of on drives: a replicated pool, or one for the journal and another, perhaps
    /// erasure-coded, for data
    #[arg(long = "rados", value_name = "POOL[,DATA_POOL]", conflicts_with = "drive")]
    pub pools: Option<String>,
    /// Configuration file of the Ceph cluster [default: /etc/ceph/ceph.conf]
    #[arg(long, value_name = "PATH")]
    pub ceph_conf: Option<String>,
    /// User in Ceph, without `client.` [default: ashlar]
    #[arg(long, value_name = "NAME")]
    pub ceph_id: Option<String>,
    /// Namespace of the array in its pools; each array has its own [default: ashlar]
    #[arg(long, value_name = "NAME", requires = "pools")]
    pub rados_namespace: Option<String>,
    /// Open the array with this identity, although this folder is not the one that it was made with. An `ashlard` that
    /// has it open stops
    #[arg(long, value_name = "ID", value_parser = identity, requires = "pools")]
    pub rados_array: Option<u128>,
    /// Space that the array may take of its pool, before replication; by default it grows with the pool
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub rados_capacity: Option<u64>,
    /// This is one of several controllers that share the array, in Ceph or on drives that two servers see: its number. One of
    /// them serves hosts, and another takes over when it fails
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    pub controller: Option<u16>,
    /// Address to listen on for the other controllers, with port 8445 unless another is given; port 0 takes a free one. With
    /// it hosts are served by this controller also while another one is the home [default: hosts are served by the home only]
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = |text: &str| transport::listen_address(text, LINK_PORT))]
    pub link: Option<SocketAddr>,
    /// At the first start: join the array of other controllers by a token that `ashlar controller add` has printed; the folder
    /// then has all that later starts need, except for the drives, if two servers share these
    #[arg(long, value_name = "TOKEN", conflicts_with = "pools", value_parser = Token::parse)]
    pub join: Option<Token>,
}

/// Commands besides serving.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Verify everything on the drives of a stopped array, and change nothing unless --repair is given; exit code 0 only if
    /// there is no defect, or none is left
    Check(Check),
    /// Format drives as a new array; data on them are overwritten only with --force or --take-from-array
    Format(Box<Format>),
    /// Change or destroy the key of a stopped array, without rewriting data
    Key(Key),
    /// Predict the data reduction of files or devices, by policy, without an array
    ReductionReport(ReductionReport),
    /// Devices for Fibre Channel hosts that arrays have, or left, in the kernel of this machine
    #[command(subcommand)]
    FibreChannel(FibreChannelCommand),
    /// The file with options
    Config(Config),
    /// Print the catalogue of log messages
    #[command(hide = true)]
    Messages {
        /// As JSON, not as Markdown
        #[arg(long)]
        json: bool,
    },
    /// Write man pages
    #[command(hide = true)]
    Manual {
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Print shell completions
    #[command(hide = true)]
    Completion { shell: clap_complete::Shell },
    /// The health of the drive whose path is on standard input, as smartctl reports it; for the service ashlar-smart
    #[command(hide = true)]
    SmartHelper,
}

/// Commands on devices in the kernel.
#[derive(clap::Subcommand)]
pub enum FibreChannelCommand {
    /// List the devices of all arrays, and whether a process serves them
    List,
    /// Remove the devices of an array that does not run, with their paths to hosts. Commands of hosts that wait in them end with
    /// BUSY
    Remove {
        /// Serial number of the array, as the list shows it
        #[arg(value_name = "SERIAL")]
        serial: String,
    },
}

/// Arguments of `config`.
#[derive(clap::Args)]
pub struct Config {
    #[command(subcommand)]
    pub what: ConfigCommand,
}

/// Commands on the file with options.
#[derive(clap::Subcommand)]
pub enum ConfigCommand {
    /// Check a file with options, and whether the drives, files and addresses that it names exist; changes nothing
    Check {
        #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
        file: PathBuf,
    },
}

/// Arguments of `reduction-report`.
#[derive(clap::Args)]
pub struct ReductionReport {
    /// Files or block devices, read only; each counts as a volume
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Memory for the deduplication index [default: as the data need, at most a quarter of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub index_memory: Option<u64>,
}

/// Output formats.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    Table,
    Json,
}

/// Arguments of `check`.
#[derive(clap::Args)]
pub struct Check {
    /// File with options of the array, such as /etc/ashlar/ashlar.toml: its folder, drives and key are used
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of the array
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Block device or file of the array; may be given several times [default: files in DIR]
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub drive: Vec<PathBuf>,
    /// Make contradicting maps and reference counts consistent. Blocks that can't be recovered are listed and marked as
    /// lost: hosts get a medium error until they write them again. A sound array is not changed
    #[arg(long)]
    pub repair: bool,
    /// With --repair: write without asking
    #[arg(long, requires = "repair")]
    pub yes: bool,
    /// Maximum number of defects to print
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: usize,
    #[command(flatten)]
    pub key: KeyArgs,
}

/// Arguments of `format`.
#[derive(clap::Args)]
pub struct Format {
    /// Folder of the new array
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Block device or file of the array; may be given several times [default: files in DIR]
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub drive: Vec<PathBuf>,
    /// Encrypt everything on the drives; by default with a new key in DIR/drives.key
    #[arg(long)]
    pub encrypt: bool,
    #[command(flatten)]
    pub key: KeyArgs,
    /// Overwrite drives that are not blank, and destroy their data; never drives with a label of an Ashlar array
    #[arg(long)]
    pub force: bool,
    /// Overwrite drives of the Ashlar array with this identity, and destroy its data; may be given several times
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = identity)]
    pub take_from_array: Vec<u128>,
}

/// Key source of encrypted drives if it is not DIR/drives.key. A passphrase may also be in ASHLAR_PASSPHRASE.
#[derive(clap::Args, Clone)]
#[group(id = "source", multiple = true)]
pub struct KeyArgs {
    /// Key of encrypted drives: a file of 32 bytes, created at the first start if it does not exist
    #[arg(long, value_name = "PATH", conflicts_with_all = ["passphrase_file", "kmip"])]
    pub key_file: Option<PathBuf>,
    /// Key of encrypted drives: a file with a passphrase [or: ASHLAR_PASSPHRASE]
    #[arg(long, value_name = "PATH", conflicts_with = "kmip")]
    pub passphrase_file: Option<PathBuf>,
    /// Key of encrypted drives: on this KMIP server
    #[arg(long, value_name = "HOST[:PORT]", requires_all = ["kmip_cert", "kmip_key", "kmip_ca"])]
    pub kmip: Option<String>,
    /// Client certificate for the KMIP server, in PEM
    #[arg(long, value_name = "PATH", requires = "kmip")]
    pub kmip_cert: Option<PathBuf>,
    /// Key of that certificate, in PEM
    #[arg(long, value_name = "PATH", requires = "kmip")]
    pub kmip_key: Option<PathBuf>,
    /// Certificate authority of the KMIP server, in PEM
    #[arg(long, value_name = "PATH", requires = "kmip")]
    pub kmip_ca: Option<PathBuf>,
    /// At the first start: Unique Identifier of an AES key of 256 bits on the KMIP server
    #[arg(long, value_name = "ID", requires = "kmip")]
    pub kmip_id: Option<String>,
}

/// Arguments of `key`.
#[derive(clap::Args)]
pub struct Key {
    #[command(subcommand)]
    pub what: KeyCommand,
}

/// Commands on keys.
#[derive(clap::Subcommand)]
pub enum KeyCommand {
    /// Change the key that wraps the data key; by default to a new one in DIR/drives.key. Takes a moment, whatever the
    /// capacity
    Rotate(Box<Rotate>),
    /// Crypto-erase: destroy the wrapped keys on all drives, and DIR/drives.key. All data are lost
    Erase(Erase),
}

/// A stopped array.
#[derive(clap::Args)]
pub struct Stopped {
    /// Folder of the array
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Block device or file of the array; may be given several times [default: files in DIR]
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub drive: Vec<PathBuf>,
}

/// Arguments of `key rotate`.
#[derive(clap::Args)]
pub struct Rotate {
    #[command(flatten)]
    pub stopped: Stopped,
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub new: NewKey,
}

/// The new key.
#[derive(clap::Args)]
pub struct NewKey {
    /// New key: a file of 32 bytes, created if it does not exist
    #[arg(long, value_name = "PATH", conflicts_with_all = ["to_passphrase_file", "to_kmip_id"])]
    pub to_key_file: Option<PathBuf>,
    /// New key: a file with a passphrase of at least 12 characters
    #[arg(long, value_name = "PATH", conflicts_with = "to_kmip_id")]
    pub to_passphrase_file: Option<PathBuf>,
    /// New key: this one on the KMIP server
    #[arg(long, value_name = "ID", requires = "kmip")]
    pub to_kmip_id: Option<String>,
}

/// Arguments of `key erase`.
#[derive(clap::Args)]
pub struct Erase {
    #[command(flatten)]
    pub stopped: Stopped,
    /// Confirm that all data of the array are destroyed
    #[arg(long, required = true)]
    pub yes: bool,
}

impl Args {
    /// What each part is configured with.
    ///
    /// # Panics
    /// With `--openapi`, which has no folder.
    pub fn configuration(self) -> Configuration {
        let data = self.data.expect("required for everything but --openapi");
        let RadosArgs { pools, ceph_conf, ceph_id, rados_namespace, rados_array, rados_capacity, .. } =
            self.rados;
        Configuration {
            store: store::Config {
                data: data.clone(),
                drives: store::Drives { named: self.drive, files: self.drives, file_bytes: self.drive_size },
                rados: store::Rados {
                    pools,
                    conf: ceph_conf,
                    id: ceph_id,
                    namespace: rados_namespace,
                    array: rados_array,
                    capacity: rados_capacity,
                },
                encrypt: self.encrypt,
                key: self.key.configuration(),
            },
            controller: link::Config {
                number: self.rados.controller,
                listen: self.rados.link,
                join: self.rados.join,
            },
            hosts: portals::Config { iscsi: self.iscsi, nvme: self.nvme, fc: self.fc },
            api: listening::Config {
                data,
                array: self.name.clone(),
                address: self.api,
                tls_only: self.tls_only,
            },
            name: self.name,
            replication: self.replication,
            threads: threads::Config { number: self.threads },
            memory: memory::Config {
                write: self.write_memory,
                read: self.read_memory,
                index: self.index_memory,
                map: self.map_memory,
            },
            format_force: self.format_force,
        }
    }
}

impl KeyArgs {
    /// Where a key comes from.
    pub fn configuration(&self) -> key::Config {
        let Self { key_file, passphrase_file, kmip, kmip_cert, kmip_key, kmip_ca, kmip_id } = self.clone();
        key::Config { file: key_file, passphrase_file, kmip, kmip_cert, kmip_key, kmip_ca, kmip_id }
    }
}

impl NewKey {
    /// Where the key after a rotation comes from.
    pub fn configuration(self) -> key::Successor {
        let Self { to_key_file, to_passphrase_file, to_kmip_id } = self;
        key::Successor { file: to_key_file, passphrase_file: to_passphrase_file, kmip_id: to_kmip_id }
    }
}

impl Format {
    /// The array that is to be made.
    pub fn configuration(self) -> drives::Format {
        let Self { data, drive, encrypt, key, force, take_from_array } = self;
        let consent = Consent { foreign: force, arrays: take_from_array };
        drives::Format { data, drives: drive, encrypt, key: key.configuration(), consent }
    }
}

/// The command line, for its documents.
pub fn command() -> clap::Command {
    Args::command()
}

fn identity(text: &str) -> Result<u128, String> {
    let hex = Some(text).filter(|text| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let identity = hex.and_then(|text| u128::from_str_radix(text, 16).ok());
    identity.ok_or_else(|| "the identity of an array has 32 hex digits".into())
}

#[cfg(test)]
#[path = "args_test.rs"]
mod tests;
