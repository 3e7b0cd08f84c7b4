//! Hosts.

use super::label::{LabelChanges, LabelFilter, NewLabels};
use super::outcome::{created, each};
use crate::ask::secret;
use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};
use client::api;
use client::schemas::{Chap, HostChange, NewHost};

#[derive(Clone, Subcommand)]
pub enum HostVerb {
    /// Create a host, so that it can log in
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        /// iSCSI initiator name; repeatable
        #[arg(long = "iqn", required_unless_present_any = ["nqns", "wwpns"], value_name = "IQN", value_delimiter = ',')]
        iqns: Vec<String>,
        /// NVMe qualified name, for NVMe/TCP; repeatable
        #[arg(long = "nqn", value_name = "NQN", value_delimiter = ',')]
        nqns: Vec<String>,
        /// N_Port name (WWPN), for Fibre Channel; repeatable
        #[arg(long = "wwpn", value_name = "WWPN", value_delimiter = ',')]
        wwpns: Vec<String>,
        #[command(flatten)]
        labels: NewLabels,
        #[command(flatten)]
        secrets: Secrets,
    },
    /// List hosts
    List {
        /// Only the host that has this iSCSI initiator name, NQN or WWPN
        #[arg(long, value_name = "NAME")]
        initiator: Option<String>,
        #[command(flatten)]
        labels: LabelFilter,
    },
    /// List refused log-ins of hosts and unknown initiators, with the reasons
    RefusedLogins,
    /// List Fibre Channel sessions, with their devices and the losses of their links
    FibreChannelSessions {
        /// Only this host
        #[arg(long, value_name = "NAME")]
        host: Option<String>,
    },
    /// Show a host
    Show {
        /// Host
        name: String,
    },
    /// Change a host; omitted settings keep their values
    Set {
        /// Host
        name: String,
        /// New name
        #[arg(long = "name", value_name = "NAME")]
        new_name: Option<String>,
        /// Complete list of iSCSI initiator names; repeatable
        #[arg(long = "iqn", value_name = "IQN", value_delimiter = ',')]
        iqns: Option<Vec<String>>,
        /// Complete list of NVMe qualified names; repeatable
        #[arg(long = "nqn", value_name = "NQN", value_delimiter = ',')]
        nqns: Option<Vec<String>>,
        /// Complete list of WWPNs; repeatable
        #[arg(long = "wwpn", value_name = "WWPN", value_delimiter = ',')]
        wwpns: Option<Vec<String>>,
        #[command(flatten)]
        labels: LabelChanges,
        #[command(flatten)]
        secrets: Secrets,
        /// Require no CHAP, in either direction
        #[arg(long, conflicts_with_all = ["chap_user", "mutual_user"])]
        no_chap: bool,
        /// No mutual CHAP
        #[arg(long, conflicts_with = "mutual_user")]
        no_mutual: bool,
        /// Require no DH-HMAC-CHAP, in either direction
        #[arg(long, conflicts_with_all = ["dhchap_secret", "dhchap_controller_secret"])]
        no_dhchap: bool,
        /// No DH-HMAC-CHAP secret of the array
        #[arg(long, conflicts_with = "dhchap_controller_secret")]
        no_dhchap_controller: bool,
        /// No TLS PSK: the host connects without TLS
        #[arg(long, conflicts_with = "tls_psk")]
        no_tls: bool,
    },
    /// Add iSCSI initiator names to a host
    AddIqn {
        /// Host
        name: String,
        /// iSCSI initiator names
        #[arg(required = true)]
        iqns: Vec<String>,
    },
    /// Remove iSCSI initiator names from a host
    RemoveIqn {
        /// Host
        name: String,
        /// iSCSI initiator names
        #[arg(required = true)]
        iqns: Vec<String>,
    },
    /// Add NVMe qualified names to a host
    AddNqn {
        /// Host
        name: String,
        /// NVMe qualified names
        #[arg(required = true)]
        nqns: Vec<String>,
    },
    /// Remove NVMe qualified names from a host
    RemoveNqn {
        /// Host
        name: String,
        /// NVMe qualified names
        #[arg(required = true)]
        nqns: Vec<String>,
    },
    /// Add N_Port names (WWPNs) to a host
    AddWwpn {
        /// Host
        name: String,
        /// N_Port names of Fibre Channel
        #[arg(required = true)]
        wwpns: Vec<String>,
    },
    /// Remove N_Port names (WWPNs) from a host
    RemoveWwpn {
        /// Host
        name: String,
        /// N_Port names of Fibre Channel
        #[arg(required = true)]
        wwpns: Vec<String>,
    },
    /// Delete a host that is not connected to a volume
    Delete {
        /// Host; several may be given
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Secrets of log-ins in both directions: CHAP over iSCSI, DH-HMAC-CHAP and the PSK of TLS over NVMe/TCP.
#[derive(Clone, Args)]
pub struct Secrets {
    /// CHAP user of the host; without --chap-secret the secret is read from the terminal or from standard input
    #[arg(long, value_name = "USER")]
    chap_user: Option<String>,
    /// CHAP secret of the host, 12 to 255 bytes
    #[arg(
        long,
        value_name = "SECRET",
        requires = "chap_user",
        env = "ASHLAR_CHAP_SECRET",
        hide_env_values = true
    )]
    chap_secret: Option<String>,
    /// CHAP user of the array (mutual CHAP); without --mutual-secret the secret is read likewise
    #[arg(long, value_name = "USER", requires = "chap_user")]
    mutual_user: Option<String>,
    /// CHAP secret of the array (mutual CHAP)
    #[arg(
        long,
        value_name = "SECRET",
        requires = "mutual_user",
        env = "ASHLAR_MUTUAL_SECRET",
        hide_env_values = true
    )]
    mutual_secret: Option<String>,
    /// DH-HMAC-CHAP secret of the host for NVMe/TCP, as `nvme gen-dhchap-key` makes it; `-`: it is read from the terminal or
    /// from standard input
    #[arg(long, value_name = "SECRET", env = "ASHLAR_DHCHAP_SECRET", hide_env_values = true)]
    dhchap_secret: Option<String>,
    /// DH-HMAC-CHAP secret of the array, by which it authenticates if the host asks; `-`: it is read likewise
    #[arg(long, value_name = "SECRET", env = "ASHLAR_DHCHAP_CONTROLLER_SECRET", hide_env_values = true)]
    dhchap_controller_secret: Option<String>,
    /// TLS PSK of the host for NVMe/TCP, as `nvme gen-tls-key` makes it; `-`: it is read likewise. The host needs TLS then
    #[arg(long, value_name = "PSK", env = "ASHLAR_TLS_PSK", hide_env_values = true)]
    tls_psk: Option<String>,
}

/// What [`Secrets`] read.
#[derive(Default)]
struct Given {
    chap: Option<Chap>,
    mutual: Option<Chap>,
    dhchap: Option<String>,
    dhchap_controller: Option<String>,
    tls_psk: Option<String>,
}

impl Secrets {
    /// The secrets of the host and of the array.
    fn read(self) -> Result<Given> {
        let chap = |user: Option<String>, given: Option<String>| -> Result<Option<Chap>> {
            let Some(user) = user else { return Ok(None) };
            let secret = match given {
                Some(secret) => secret,
                None => secret(&format!("CHAP secret of {user}"))?,
            };
            Ok(Some(Chap { user, secret }))
        };
        let read = |given: Option<String>, what: &str| match given.as_deref() {
            Some("-") => secret(what).map(Some),
            _ => Ok(given),
        };
        Ok(Given {
            chap: chap(self.chap_user, self.chap_secret)?,
            mutual: chap(self.mutual_user, self.mutual_secret)?,
            dhchap: read(self.dhchap_secret, "DH-HMAC-CHAP secret of the host")?,
            dhchap_controller: read(self.dhchap_controller_secret, "DH-HMAC-CHAP secret of the array")?,
            tls_psk: read(self.tls_psk, "TLS PSK of the host")?,
        })
    }
}

impl HostVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        use HostVerb::*;
        Ok(match self {
            Create { name, iqns, nqns, wwpns, labels, secrets } => {
                let Given { chap, mutual, dhchap, dhchap_controller, tls_psk } = secrets.read()?;
                let new = NewHost {
                    name,
                    initiators: iqns,
                    nqns,
                    wwpns,
                    chap,
                    mutual,
                    dhchap_secret: dhchap,
                    dhchap_controller_secret: dhchap_controller,
                    tls_psk,
                    labels: labels.read(),
                };
                created(client.call(api::create_host(&new))?)
            }
            List { initiator, labels } => {
                let query = api::ListHosts { initiator, label: labels.read(), ..Default::default() };
                client.call(api::list_hosts(&query))?.into()
            }
            RefusedLogins => client.call(api::list_refused_logins())?.into(),
            FibreChannelSessions { host } => {
                let query = api::ListFibreChannelSessions { host };
                client.call(api::list_fibre_channel_sessions(&query))?.into()
            }
            Show { name } => client.call(api::show_host(&name))?.into(),
            Set {
                name,
                new_name,
                iqns,
                nqns,
                wwpns,
                labels,
                secrets,
                no_chap,
                no_mutual,
                no_dhchap,
                no_dhchap_controller,
                no_tls,
            } => {
                let Given { chap, mutual, dhchap, dhchap_controller, tls_psk } = secrets.read()?;
                let no_dhchap_controller = (no_dhchap || no_dhchap_controller).then_some(None);
                let change = HostChange {
                    name: new_name.map(Some),
                    initiators: iqns.map(Some),
                    nqns: nqns.map(Some),
                    wwpns: wwpns.map(Some),
                    chap: chap.map(Some).or(no_chap.then_some(None)),
                    mutual: mutual.map(Some).or((no_chap || no_mutual).then_some(None)),
                    dhchap_secret: dhchap.map(Some).or(no_dhchap.then_some(None)),
                    dhchap_controller_secret: dhchap_controller.map(Some).or(no_dhchap_controller),
                    tls_psk: tls_psk.map(Some).or(no_tls.then_some(None)),
                    labels: labels.read(),
                };
                client.call(api::change_host(&name, &change))?.into()
            }
            AddIqn { name, iqns } => change_initiators(client, &name, &iqns, &[])?,
            RemoveIqn { name, iqns } => change_initiators(client, &name, &[], &iqns)?,
            AddNqn { name, nqns } => change_nqns(client, &name, &nqns, &[])?,
            RemoveNqn { name, nqns } => change_nqns(client, &name, &[], &nqns)?,
            AddWwpn { name, wwpns } => change_wwpns(client, &name, &wwpns, &[])?,
            RemoveWwpn { name, wwpns } => change_wwpns(client, &name, &[], &wwpns)?,
            Delete { names } => each(names, |name| {
                client.call(api::delete_host(&name))?;
                Ok(show::deleted(name))
            })?,
        })
    }
}

/// Adds and removes initiator names of a host; refused if another change comes between.
fn change_initiators(client: &Client, name: &str, added: &[String], removed: &[String]) -> Result<Shown> {
    let host = client.call(api::show_host(name))?;
    let tag = host.tag.clone();
    let lower = |names: &[String]| names.iter().map(|iqn| iqn.to_lowercase()).collect::<Vec<_>>();
    let initiators = changed_names(host.read()?.initiators, name, &lower(added), &lower(removed))?;
    let change = HostChange { initiators: Some(Some(initiators)), ..HostChange::default() };
    Ok(client.call_if(&tag, api::change_host(name, &change))?.into())
}

/// The same of NQNs.
fn change_nqns(client: &Client, name: &str, added: &[String], removed: &[String]) -> Result<Shown> {
    let host = client.call(api::show_host(name))?;
    let tag = host.tag.clone();
    let nqns = changed_names(host.read()?.nqns, name, added, removed)?;
    let change = HostChange { nqns: Some(Some(nqns)), ..HostChange::default() };
    Ok(client.call_if(&tag, api::change_host(name, &change))?.into())
}

/// The same of WWPNs, which the array shows as pairs of digits with colons.
fn change_wwpns(client: &Client, name: &str, added: &[String], removed: &[String]) -> Result<Shown> {
    let host = client.call(api::show_host(name))?;
    let tag = host.tag.clone();
    let [added, removed] =
        [added, removed].map(|names| names.iter().map(|it| paired(it)).collect::<Vec<_>>());
    let wwpns = changed_names(host.read()?.wwpns, name, &added, &removed)?;
    let change = HostChange { wwpns: Some(Some(wwpns)), ..HostChange::default() };
    Ok(client.call_if(&tag, api::change_host(name, &change))?.into())
}

/// A WWPN as the array shows it; anything else is left for the array to refuse.
fn paired(wwpn: &str) -> String {
    let digits = wwpn.to_lowercase();
    let digits = digits.strip_prefix("0x").unwrap_or(&digits);
    match digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => digits.as_bytes().chunks(2).map(String::from_utf8_lossy).collect::<Vec<_>>().join(":"),
        false => digits.to_owned(),
    }
}

/// A list of names of a host, changed.
fn changed_names(
    mut names: Vec<String>,
    host: &str,
    added: &[String],
    removed: &[String],
) -> Result<Vec<String>> {
    for gone in removed {
        let at = names.iter().position(|known| known == gone);
        names.remove(
            at.with_context(|| format!("{gone} is not an initiator of {host}: it has {}", names.join(", ")))?,
        );
    }
    for new in added {
        ensure!(!names.contains(new), "{host} already has {new}");
        names.push(new.clone());
    }
    Ok(names)
}
