//! The recycle bin.

use super::outcome::each;
use crate::ask::confirm;
use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::Result;
use clap::Subcommand;
use client::api;

#[derive(Clone, Subcommand)]
pub enum RecycleBinVerb {
    /// List deleted volumes and snapshots
    List,
    /// Restore a volume or snapshot
    Restore {
        /// Name, or id if several have the same name
        name: String,
        /// New name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
    },
    /// Eradicate the data of a volume or snapshot
    Eradicate {
        /// Name, or id if several have the same name; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Eradicate without confirmation
        #[arg(long)]
        yes: bool,
    },
}

impl RecycleBinVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use RecycleBinVerb::*;
        Ok(match self {
            List => client.call(api::list_recycle_bin(&api::ListRecycleBin::default()))?.into(),
            Restore { name, new_name } => {
                let how = client::schemas::Restore { name: new_name };
                client.call(api::restore_from_recycle_bin(&name, &how))?.into()
            }
            Eradicate { names, yes } => {
                confirm(
                    yes,
                    &format!("the data of {} is eradicated and cannot be recovered", names.join(", ")),
                )?;
                each(names, |name| {
                    client.call(api::eradicate_from_recycle_bin(&name))?;
                    Ok(show::deleted(name))
                })?
            }
        })
    }
}
