//! Nouns and verbs, and the request that each makes.

use crate::client::{Client, Whereabouts};
use crate::show;
use anyhow::Result;
use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Operates an Ashlar array.
#[derive(Parser)]
#[command(name = "ashlar", version, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    access: Access,
    /// How to print answers
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table)]
    output: Format,
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
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// For people
    Table,
    /// For programs: the shapes of the API
    Json,
}

#[derive(Subcommand)]
enum Noun {
    /// The array as a whole
    #[command(subcommand)]
    Array(ArrayVerb),
    /// Volumes, and who sees them
    #[command(subcommand)]
    Volume(VolumeVerb),
    /// Volumes that were deleted, until their space is given back
    #[command(subcommand)]
    RecycleBin(BinVerb),
    /// Hosts: who may log in
    #[command(subcommand)]
    Host(HostVerb),
    /// Who sees what
    #[command(subcommand)]
    Connection(ConnectionVerb),
}

#[derive(Subcommand)]
enum ArrayVerb {
    /// Identity, state, portals, space
    #[command(visible_alias = "show")]
    Status,
}

#[derive(Subcommand)]
enum VolumeVerb {
    /// Make a volume
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// Such as 10GiB, 2TiB, 500GB, or bytes; 1 MiB to 16 PiB
        #[arg(long, value_parser = size)]
        size: u64,
        /// Logical block length that hosts see: 512 or 4096 bytes
        #[arg(long, value_parser = size, default_value = "512")]
        block_size: u64,
    },
    /// Make a volume with the contents that another has now, sharing its space
    Clone {
        /// The volume to clone
        source: String,
        /// Name of the new volume
        name: String,
    },
    /// All volumes
    List,
    /// One volume
    Show {
        /// The volume
        name: String,
    },
    /// Change the size; hosts are told
    Resize {
        /// The volume
        name: String,
        /// The new size, such as 20GiB
        #[arg(long, value_parser = size)]
        size: u64,
        /// Allow a smaller size: what lies behind it is lost
        #[arg(long)]
        force: bool,
    },
    /// Move a volume that no host sees to the recycle bin, or delete it with its data
    Delete {
        /// The volume
        name: String,
        /// Delete its data at once, so that the space is free
        #[arg(long)]
        eradicate: bool,
    },
    /// Let a host see a volume
    Connect {
        /// The volume
        name: String,
        /// The host
        #[arg(long)]
        host: String,
        /// 0 to 16383; the lowest free one when not given
        #[arg(long)]
        lun: Option<u16>,
    },
    /// Let a host no longer see a volume
    Disconnect {
        /// The volume
        name: String,
        /// The host
        #[arg(long)]
        host: String,
    },
}

#[derive(Subcommand)]
enum BinVerb {
    /// Everything in it
    List,
    /// Take a volume out again
    Restore {
        /// Its name, or its id when several had the same name
        volume: String,
        /// Give it this name instead of its old one
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Delete a volume with its data before its time
    Eradicate {
        /// Its name, or its id when several had the same name
        volume: String,
    },
}

#[derive(Subcommand)]
enum HostVerb {
    /// Make a host known, so that it may log in
    Create(NewHost),
    /// All hosts
    List,
    /// One host
    Show {
        /// The host
        name: String,
    },
    /// Forget a host that sees no volume
    Delete {
        /// The host
        name: String,
    },
}

#[derive(Args)]
struct NewHost {
    /// 1 to 63 letters, digits, '-', '_' or '.'
    name: String,
    /// Its iSCSI initiator name; may be given several times
    #[arg(long = "iqn", required = true, value_name = "IQN", value_delimiter = ',')]
    iqns: Vec<String>,
    /// CHAP name that it logs in with
    #[arg(long, value_name = "USER", requires = "chap_secret")]
    chap_user: Option<String>,
    /// CHAP secret that it logs in with, 12 to 255 characters
    #[arg(
        long,
        value_name = "SECRET",
        requires = "chap_user",
        env = "ASHLAR_CHAP_SECRET",
        hide_env_values = true
    )]
    chap_secret: Option<String>,
    /// CHAP name that the array proves itself with
    #[arg(long, value_name = "USER", requires_all = ["mutual_secret", "chap_user"])]
    mutual_user: Option<String>,
    /// CHAP secret that the array proves itself with
    #[arg(
        long,
        value_name = "SECRET",
        requires = "mutual_user",
        env = "ASHLAR_MUTUAL_SECRET",
        hide_env_values = true
    )]
    mutual_secret: Option<String>,
}

#[derive(Subcommand)]
enum ConnectionVerb {
    /// Every connection of a volume with a host
    List,
}

/// A size as people write it: bytes, binary units (GiB) or decimal units (GB).
fn size(text: &str) -> Result<u64, String> {
    text.trim().parse::<ByteSize>().map(|size| size.as_u64()).map_err(|_| {
        "write bytes, or a number with a unit: KiB, MiB, GiB, TiB, PiB, or the decimal KB, MB, GB, TB, PB"
            .into()
    })
}

impl Cli {
    /// Does it, and returns what to print.
    pub fn run(self) -> Result<String> {
        let Access { data, array, token } = self.access;
        let client = Client::find(Whereabouts { data, array, token })?;
        let (answer, table): (Value, fn(&Value) -> String) = match self.noun {
            Noun::Array(verb) => verb.run(&client)?,
            Noun::Volume(verb) => verb.run(&client)?,
            Noun::RecycleBin(verb) => verb.run(&client)?,
            Noun::Host(verb) => verb.run(&client)?,
            Noun::Connection(ConnectionVerb::List) => {
                (items(client.ask("GET", &["connections"], None)?), show::connections)
            }
        };
        Ok(match self.output {
            Format::Table => table(&answer),
            Format::Json => format!("{answer:#}\n"),
        })
    }
}

type Shown = (Value, fn(&Value) -> String);

impl ArrayVerb {
    fn run(self, client: &Client) -> Result<Shown> {
        match self {
            ArrayVerb::Status => Ok((client.ask("GET", &["array"], None)?, show::array)),
        }
    }
}

impl VolumeVerb {
    fn run(self, client: &Client) -> Result<Shown> {
        use VolumeVerb::*;
        Ok(match self {
            Create { name, size, block_size } => {
                let body = json!({ "name": name, "size": size, "block_size": block_size });
                (client.ask("POST", &["volumes"], Some(body))?, show::volume)
            }
            Clone { source, name } => {
                let body = json!({ "name": name, "source": source });
                (client.ask("POST", &["volumes"], Some(body))?, show::volume)
            }
            List => (items(client.ask("GET", &["volumes"], None)?), show::volumes),
            Show { name } => (client.ask("GET", &["volumes", &name], None)?, show::volume),
            Resize { name, size, force } => {
                let body = json!({ "size": size, "shrink": force });
                (client.ask("PATCH", &["volumes", &name], Some(body))?, show::volume)
            }
            Delete { name, eradicate: true } => {
                client.send("DELETE", &["volumes", &name], "?eradicate=true", None)?;
                (json!({ "deleted": name }), show::deleted)
            }
            Delete { name, eradicate: false } => {
                client.ask("DELETE", &["volumes", &name], None)?;
                (json!({ "deleted": name, "recycle_bin": true }), show::deleted)
            }
            Connect { name, host, lun } => {
                let body = json!({ "volume": name, "host": host, "lun": lun });
                (client.ask("POST", &["connections"], Some(body))?, show::connection)
            }
            Disconnect { name, host } => {
                client.ask("DELETE", &["connections", &name, &host], None)?;
                (json!({ "disconnected": { "volume": name, "host": host } }), show::disconnected)
            }
        })
    }
}

impl BinVerb {
    fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            BinVerb::List => (items(client.ask("GET", &["recycle-bin"], None)?), show::bin),
            BinVerb::Restore { volume, name } => {
                let path = ["recycle-bin", &volume, "restore"];
                (client.ask("POST", &path, Some(json!({ "name": name })))?, show::volume)
            }
            BinVerb::Eradicate { volume } => {
                client.ask("DELETE", &["recycle-bin", &volume], None)?;
                (json!({ "deleted": volume }), show::deleted)
            }
        })
    }
}

impl HostVerb {
    fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            HostVerb::Create(new) => (client.ask("POST", &["hosts"], Some(new.body()))?, show::host),
            HostVerb::List => (items(client.ask("GET", &["hosts"], None)?), show::hosts),
            HostVerb::Show { name } => (client.ask("GET", &["hosts", &name], None)?, show::host),
            HostVerb::Delete { name } => {
                client.ask("DELETE", &["hosts", &name], None)?;
                (json!({ "deleted": name }), show::deleted)
            }
        })
    }
}

impl NewHost {
    fn body(self) -> Value {
        let chap = |user: Option<String>, secret: Option<String>| {
            user.zip(secret).map(|(user, secret)| json!({ "user": user, "secret": secret }))
        };
        json!({
            "name": self.name,
            "initiators": self.iqns,
            "chap": chap(self.chap_user, self.chap_secret),
            "mutual": chap(self.mutual_user, self.mutual_secret),
        })
    }
}

/// The list in an answer that may one day come in pages.
fn items(mut answer: Value) -> Value {
    answer.get_mut("items").map_or(Value::Null, Value::take)
}

#[cfg(test)]
#[path = "command_test.rs"]
mod tests;
