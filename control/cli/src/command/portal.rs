//! Portals of the array for hosts.

use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::Result;
use clap::{Subcommand, ValueEnum};
use client::api;
use client::schemas::{NewPortal, PortalProtocol};

/// Protocols of portals that can be added.
#[derive(Clone, Copy, ValueEnum)]
pub enum Protocol {
    Iscsi,
    NvmeTcp,
}

impl From<Protocol> for PortalProtocol {
    fn from(it: Protocol) -> Self {
        match it {
            Protocol::Iscsi => Self::Iscsi,
            Protocol::NvmeTcp => Self::NvmeTcp,
        }
    }
}

#[derive(Clone, Subcommand)]
pub enum PortalVerb {
    /// List portals with their numbers, and the hosts that use them
    List,
    /// Show a portal
    Show {
        /// Number, or address with the TCP port
        portal: String,
    },
    /// Add a portal; it serves hosts at once and after each restart, in addition to those of the start options
    Add {
        /// Address, such as 10.0.0.1, 10.0.0.1:3260 or [fd00::1]:3260
        address: String,
        /// Protocol
        #[arg(long, value_enum, default_value_t = Protocol::Iscsi)]
        protocol: Protocol,
        /// Number of the controller [default: the home]
        #[arg(long)]
        controller: Option<u16>,
        /// Require TLS 1.3 of hosts, by their PSKs; of NVMe/TCP alone
        #[arg(long)]
        tls: bool,
        /// Let its address move: it is that of the home while the controller does not serve it. It must not be configured on a
        /// machine
        #[arg(long)]
        moves: bool,
        /// Add the portal even if it can't listen on the address now
        #[arg(long)]
        force: bool,
    },
    /// Remove a portal that was added; those of the start options are removed there
    Remove {
        /// Number, or address with the TCP port
        portal: String,
        /// Remove the portal even if hosts use it; they are asked to log out
        #[arg(long)]
        force: bool,
        /// Host that may lose its last path; repeatable
        #[arg(long, value_name = "HOST", value_delimiter = ',')]
        cut_off: Vec<String>,
    },
}

impl PortalVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            PortalVerb::List => client.call(api::list_portals(&api::ListPortals::default()))?.into(),
            PortalVerb::Show { portal } => client.call(api::show_portal(&portal))?.into(),
            PortalVerb::Add { address, protocol, controller, tls, moves, force } => {
                let new = NewPortal {
                    address,
                    protocol: Some(protocol.into()),
                    controller: controller.map(u32::from),
                    tls: Some(tls),
                    moves: Some(moves),
                    force: Some(force),
                };
                client.call(api::create_portal(&new))?.into()
            }
            PortalVerb::Remove { portal, force, cut_off } => {
                let removal = api::DeletePortal { force: Some(force), cut_off: Some(cut_off.join(",")) };
                client.call(api::delete_portal(&portal, &removal))?;
                show::removed(portal)
            }
        })
    }
}
