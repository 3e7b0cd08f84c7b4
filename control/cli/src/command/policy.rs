//! Data reduction and QoS settings, which volumes and volume groups have in common.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use client::Choice;
use client::schemas::{Compression, LimitsChange, PolicyChange};
use units::size;

/// Data reduction and QoS settings, as options.
#[derive(Clone, Args)]
pub struct Policies {
    /// Deduplication
    #[arg(long, value_enum)]
    dedup: Option<Inheritable>,
    /// Compression level
    #[arg(long, value_parser = compression())]
    compression: Option<Level>,
    /// Byte-by-byte verification of duplicates with equal fingerprints
    #[arg(long, value_enum)]
    verify: Option<Inheritable>,
    /// Limit of reads, writes and offloaded commands per second, or none
    #[arg(long, value_name = "N", value_parser = count)]
    iops: Option<Limit>,
    /// Burst in commands, or none
    #[arg(long, value_name = "N", value_parser = count)]
    iops_burst: Option<Limit>,
    /// Limit of bytes per second, such as 500MiB, or none
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    bandwidth: Option<Limit>,
    /// Burst in bytes, or none
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    bandwidth_burst: Option<Limit>,
}

/// On, off, or the setting of the volume group or array.
#[derive(Clone, Copy, ValueEnum)]
enum Inheritable {
    On,
    Off,
    /// Inherit from the volume group or array
    Inherit,
}

impl Inheritable {
    fn on(self) -> Option<bool> {
        match self {
            Inheritable::On => Some(true),
            Inheritable::Off => Some(false),
            Inheritable::Inherit => None,
        }
    }
}

/// A compression level, or the one of the volume group or array.
#[derive(Clone)]
struct Level(Option<Compression>);

fn compression() -> impl TypedValueParser<Value = Level> {
    let choices = Compression::CHOICES.iter().copied().chain(["inherit"]);
    PossibleValuesParser::new(choices).map(|level| Level(level.parse().ok()))
}

/// On or off.
#[derive(Clone, Copy, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    /// As the API has it.
    pub fn on(self) -> bool {
        matches!(self, Switch::On)
    }
}

/// A number, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub Option<u64>);

/// A size, or `none`.
pub fn limit(text: &str) -> Result<Limit, String> {
    if text == "none" { Ok(Limit(None)) } else { size(text).map(|bytes| Limit(Some(bytes))) }
}

fn count(text: &str) -> Result<Limit, String> {
    let wrong = || "write a whole number, or none".to_owned();
    if text == "none" { Ok(Limit(None)) } else { text.parse().map(|it| Limit(Some(it))).map_err(|_| wrong()) }
}

impl Policies {
    /// The changes of data reduction settings and limits, where there are any.
    pub fn changes(self) -> (Option<PolicyChange>, Option<LimitsChange>) {
        let number = |it: Option<Limit>| it.map(|Limit(it)| it);
        let reduces = self.dedup.is_some() || self.compression.is_some() || self.verify.is_some();
        let limits = [self.iops, self.iops_burst, self.bandwidth, self.bandwidth_burst];
        let policy = PolicyChange {
            dedup: self.dedup.map(Inheritable::on),
            compression: self.compression.map(|Level(it)| it),
            verify: self.verify.map(Inheritable::on),
        };
        let change = LimitsChange {
            iops: number(self.iops),
            iops_burst: number(self.iops_burst),
            bandwidth: number(self.bandwidth),
            bandwidth_burst: number(self.bandwidth_burst),
        };
        (reduces.then_some(policy), limits.iter().any(Option::is_some).then_some(change))
    }
}
