//! The command line.

use crate::memory;
use bytesize::ByteSize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The Ashlar array: volumes for iSCSI hosts on the drives of this machine.
#[derive(clap::Parser)]
#[command(name = "ashlard", version, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Folder of this array: the API's address and token, and the drives when they are files
    #[arg(long, value_name = "DIR", required_unless_present = "openapi")]
    data: Option<PathBuf>,
    /// Block device or file to keep data on; may be given several times [default: files in DIR]
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub drive: Vec<PathBuf>,
    /// Without --drive: how many files to make at the first start
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub drives: u16,
    /// Without --drive: size of each file, which takes space only as it fills
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size)]
    pub drive_size: u64,
    /// Replaced by `ashlard format`
    #[arg(long, hide = true)]
    pub format_force: bool,
    /// At the first start: encrypt everything on the drives; without a key named, one is made in DIR/drives.key
    #[arg(long)]
    pub encrypt: bool,
    #[command(flatten)]
    pub key: KeyArgs,
    /// Name of the array, kept from the first start on
    #[arg(long, default_value = "ashlar")]
    pub name: String,
    /// Portals: addresses and ports to listen on for iSCSI; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", value_delimiter = ',', required_unless_present = "openapi")]
    pub iscsi: Vec<SocketAddr>,
    /// Address and port to listen on for the API and the browser; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    pub api: SocketAddr,
    /// No plain HTTP, not even on a loopback address; on all others there is only HTTPS anyway
    #[arg(long)]
    tls_only: bool,
    /// Threads for iSCSI [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Memory for written data that waits to be reduced [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    write_memory: Option<u64>,
    /// Memory for data read from the drives [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    read_memory: Option<u64>,
    /// Memory for finding duplicates, used as it fills [default: 2 % of what the drives hold, at most a quarter of
    /// the machine's memory]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    index_memory: Option<u64>,
    /// Memory for maps of volumes [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    map_memory: Option<u64>,
    /// Print the description of the API (OpenAPI 3.1) and do nothing else
    #[arg(long)]
    pub openapi: bool,
}

/// What else than serving can be done.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Verify everything on the drives of an array that is not running, and change nothing unless --repair is given; ends
    /// with 0 only when there is no defect, or none is left
    Check(Check),
    /// Make a new array on drives, once, and end; what they hold is overwritten only as far as that is asked for
    Format(Box<Format>),
    /// Change or destroy the key of an array that is not running; what is on the drives is not written again
    Key(Key),
    /// Tell what files or devices would take on an array, by policy, without an array
    ReductionReport(ReductionReport),
}

/// What is reduced on trial.
#[derive(clap::Args)]
pub struct ReductionReport {
    /// Files or block devices, which are only read; each is a volume
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// How to print it
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
    /// Memory for finding duplicates [default: what the data need, at most a quarter of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub index_memory: Option<u64>,
}

/// Ways to print.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    Table,
    Json,
}

/// What is checked.
#[derive(clap::Args)]
pub struct Check {
    /// Folder of the array
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Block device or file of the array; may be given several times [default: files in DIR]
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub drive: Vec<PathBuf>,
    /// Bring maps and counts that contradict each other into order. What can't be had back is marked as lost and listed:
    /// hosts get a medium error for it until they write it again. What is in order is not touched
    #[arg(long)]
    pub repair: bool,
    /// With --repair: write without asking
    #[arg(long, requires = "repair")]
    pub yes: bool,
    /// Most lines of defects to print
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub limit: usize,
    #[command(flatten)]
    pub key: KeyArgs,
}

/// What an array is made of.
#[derive(clap::Args)]
pub struct Format {
    /// Folder of the new array
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Block device or file to keep data on; may be given several times [default: files in DIR]
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub drive: Vec<PathBuf>,
    /// Encrypt everything on the drives; without a key named, one is made in DIR/drives.key
    #[arg(long)]
    pub encrypt: bool,
    #[command(flatten)]
    pub key: KeyArgs,
    /// Overwrite drives that are not blank, and destroy what they hold; never drives with a label of an Ashlar array
    #[arg(long)]
    pub force: bool,
    /// Overwrite drives of the Ashlar array with this identity, and destroy what it holds; may be given several times
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = identity)]
    pub take_from_array: Vec<u128>,
}

/// Where the key of encrypted drives comes from, when it is not in DIR/drives.key. A passphrase may also be in
/// ASHLAR_PASSPHRASE.
#[derive(clap::Args, Clone, Default)]
#[group(id = "source", multiple = true)]
pub struct KeyArgs {
    /// Key of encrypted drives: a file of 32 bytes, made at the first start when it is not there
    #[arg(long, value_name = "PATH", conflicts_with_all = ["passphrase_file", "kmip"])]
    pub key_file: Option<PathBuf>,
    /// Key of encrypted drives: a file with a passphrase [or: ASHLAR_PASSPHRASE]
    #[arg(long, value_name = "PATH", conflicts_with = "kmip")]
    pub passphrase_file: Option<PathBuf>,
    /// Key of encrypted drives: on this KMIP server
    #[arg(long, value_name = "HOST[:PORT]", requires_all = ["kmip_cert", "kmip_key", "kmip_ca"])]
    pub kmip: Option<String>,
    /// Certificate that the KMIP server knows this array by, in PEM
    #[arg(long, value_name = "PATH", requires = "kmip")]
    pub kmip_cert: Option<PathBuf>,
    /// Key of that certificate, in PEM
    #[arg(long, value_name = "PATH", requires = "kmip")]
    pub kmip_key: Option<PathBuf>,
    /// Who signs the KMIP server's certificate, in PEM
    #[arg(long, value_name = "PATH", requires = "kmip")]
    pub kmip_ca: Option<PathBuf>,
    /// At the first start: Unique Identifier of an AES key of 256 bits on the KMIP server
    #[arg(long, value_name = "ID", requires = "kmip")]
    pub kmip_id: Option<String>,
}

impl KeyArgs {
    /// Whether a key was named here, and not only in the environment.
    pub fn is_named(&self) -> bool {
        self.key_file.is_some() || self.passphrase_file.is_some() || self.kmip.is_some()
    }
}

/// What is done with a key.
#[derive(clap::Args)]
pub struct Key {
    #[command(subcommand)]
    pub what: KeyCommand,
}

/// What can be done with it.
#[derive(clap::Subcommand)]
pub enum KeyCommand {
    /// Lock the drives with another key, at once, however much they hold; without one named, with a new one in
    /// DIR/drives.key
    Rotate(Box<Rotate>),
    /// Destroy the wrapped keys on all drives, and DIR/drives.key: what the drives hold can never be read again
    Erase(Erase),
}

/// Which array.
#[derive(clap::Args)]
pub struct Stopped {
    /// Folder of the array
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Block device or file of the array; may be given several times [default: files in DIR]
    #[arg(long, value_name = "PATH", value_delimiter = ',')]
    pub drive: Vec<PathBuf>,
}

/// From which key to which.
#[derive(clap::Args)]
pub struct Rotate {
    #[command(flatten)]
    pub stopped: Stopped,
    #[command(flatten)]
    pub key: KeyArgs,
    #[command(flatten)]
    pub new: NewKey,
}

/// The key that comes.
#[derive(clap::Args, Default)]
pub struct NewKey {
    /// New key: a file of 32 bytes, made when it is not there
    #[arg(long, value_name = "PATH", conflicts_with_all = ["to_passphrase_file", "to_kmip_id"])]
    pub to_key_file: Option<PathBuf>,
    /// New key: a file with a passphrase of at least 12 characters
    #[arg(long, value_name = "PATH", conflicts_with = "to_kmip_id")]
    pub to_passphrase_file: Option<PathBuf>,
    /// New key: this one on the KMIP server
    #[arg(long, value_name = "ID", requires = "kmip")]
    pub to_kmip_id: Option<String>,
}

impl NewKey {
    /// Whether one was named.
    pub fn is_named(&self) -> bool {
        self.to_key_file.is_some() || self.to_passphrase_file.is_some() || self.to_kmip_id.is_some()
    }
}

/// Whose data are destroyed.
#[derive(clap::Args)]
pub struct Erase {
    #[command(flatten)]
    pub stopped: Stopped,
    /// Yes, destroy everything that the array holds
    #[arg(long, required = true)]
    pub yes: bool,
}

impl Args {
    /// The array's folder.
    ///
    /// # Panics
    /// With `--openapi`, which has none.
    pub fn data(&self) -> &Path {
        self.data.as_deref().expect("required for everything but --openapi")
    }

    /// Whether the API answers plain HTTP beside HTTPS: only where nobody else can hear it.
    pub fn plain_http(&self) -> bool {
        self.api.ip().is_loopback() && !self.tls_only
    }

    /// How many threads serve iSCSI.
    pub fn threads(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(processors, usize::from)
    }

    /// Bounds for the engine on drives that hold `capacity` bytes; its own defaults where nothing was said.
    pub fn engine_options(&self, seed: [u8; 32], capacity: u64) -> engine::Options {
        let mut options = engine::Options::new(seed);
        let index = self.index_memory.unwrap_or_else(|| memory::index(capacity, memory::total()));
        options.map_pages = memory::map_pages(memory::total());
        for (bound, given) in [
            (&mut options.slot_bytes, self.write_memory),
            (&mut options.cache_bytes, self.read_memory),
            (&mut options.index_bytes, Some(index)),
            (&mut options.page_bytes, self.map_memory),
        ] {
            *bound = given.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(*bound);
        }
        options
    }
}

fn identity(text: &str) -> Result<u128, String> {
    let hex = Some(text).filter(|text| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let identity = hex.and_then(|text| u128::from_str_radix(text, 16).ok());
    identity.ok_or_else(|| "the identity of an array has 32 hex digits".into())
}

/// A size as `ashlar` takes it: docs/glossary.md has the rules.
fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    // A single letter is the binary unit.
    let letter = text.len() > 1 && text.ends_with(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T', 'p', 'P']);
    let size = if letter { format!("{text}iB").parse::<ByteSize>() } else { text.parse() };
    size.map(|size| size.as_u64()).map_err(|_| "write bytes, or a number with a unit such as 4GiB".into())
}

#[cfg(test)]
#[path = "args_test.rs"]
mod tests;
