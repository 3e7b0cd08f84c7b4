//! What volumes and groups have in common: reduction, limits, and values that can be taken away again.

use super::size;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

/// A reduction policy and limits, as options.
#[derive(Clone, Args)]
pub struct Treatment {
    /// Store blocks that the array has already only once
    #[arg(long, value_enum)]
    dedup: Option<Choice>,
    /// How to compress
    #[arg(long, value_enum)]
    compression: Option<Compression>,
    /// Compare blocks with the same fingerprint byte by byte
    #[arg(long, value_enum)]
    verify: Option<Choice>,
    /// Reads, writes and offloads in a second, or none
    #[arg(long, value_name = "N", value_parser = count)]
    iops: Option<Limit>,
    /// How many of them at once after a pause, or none
    #[arg(long, value_name = "N", value_parser = count)]
    iops_burst: Option<Limit>,
    /// Bytes in a second, such as 500MiB, or none
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    bandwidth: Option<Limit>,
    /// How many of them at once after a pause, or none
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    bandwidth_burst: Option<Limit>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Choice {
    On,
    Off,
    /// As the group, or the array, has it
    Inherit,
}

#[derive(Clone, Copy, ValueEnum)]
enum Compression {
    Off,
    Fast,
    High,
    Adaptive,
    /// As the group, or the array, has it
    Inherit,
}

/// On or off.
#[derive(Clone, Copy, ValueEnum)]
pub enum Switch {
    /// Yes
    On,
    /// No
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

/// Puts a field into a body when it was given.
pub fn put(body: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        body.insert(name.into(), value);
    }
}

impl Treatment {
    /// The parts of a body.
    pub fn put(self, body: &mut Map<String, Value>) {
        let switch = |it: Option<Choice>| {
            it.map(|it| match it {
                Choice::On => Value::Bool(true),
                Choice::Off => Value::Bool(false),
                Choice::Inherit => Value::Null,
            })
        };
        let compression = self.compression.map(|it| match it {
            Compression::Off => json!("off"),
            Compression::Fast => json!("fast"),
            Compression::High => json!("high"),
            Compression::Adaptive => json!("adaptive"),
            Compression::Inherit => Value::Null,
        });
        let number = |it: Option<Limit>| it.map(|Limit(it)| json!(it));
        let (mut policy, mut limits) = (Map::new(), Map::new());
        put(&mut policy, "dedup", switch(self.dedup));
        put(&mut policy, "compression", compression);
        put(&mut policy, "verify", switch(self.verify));
        put(&mut limits, "iops", number(self.iops));
        put(&mut limits, "iops_burst", number(self.iops_burst));
        put(&mut limits, "bandwidth", number(self.bandwidth));
        put(&mut limits, "bandwidth_burst", number(self.bandwidth_burst));
        put(body, "policy", (!policy.is_empty()).then_some(Value::Object(policy)));
        put(body, "limits", (!limits.is_empty()).then_some(Value::Object(limits)));
    }
}
