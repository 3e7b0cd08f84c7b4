//! Portals of the array for hosts. Each has a number that it keeps, by which statistics, sessions, reservations and target
//! port groups know it.
//!
//! A controller listens on the portals that options of its start name, and on those that the array keeps for it in its records.
//! A front end opens and closes its own by the records, which it gets from the home.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::configuration::{put, put_records};
use crate::parts::membership::ControllerState;
use crate::parts::moving_addresses::{Movable, check_movable, check_owner};
use crate::parts::target_ports::{MAX_PORTS, OwnPorts};
use crate::request::verbs;
use crate::shape::{shapes, time};
use crate::{Error, Result};
use iscsi::Portal as Listener;
use records::{Config, Edit, Endpoint, PortalEntry, PortalProtocol, Portals, Record};
use scsi::PortGroup;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use transport::{BoundPortal, ConnectionLimits};
use utoipa::{IntoParams, ToSchema};

/// TCP ports where none is given: iSCSI (RFC 7143, 13.1), NVMe/TCP (NVM Express TCP Transport Specification, 3.1.1).
const ISCSI_PORT: u16 = 3260;
const NVME_PORT: u16 = 4420;

/// A portal to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewPortal)]
pub struct CreatePortal {
    /// Address of the controller's machine, with a TCP port unless it is that of the protocol: 3260, or 4420.
    #[schema(example = "10.0.0.1")]
    pub address: String,
    /// Protocol; `iscsi` by default. `fibre-channel` is refused: ports of adapters are options of the start.
    #[serde(default = "iscsi")]
    pub protocol: PortalProtocol,
    /// Number of the controller; the home by default.
    #[serde(default)]
    pub controller: Option<u16>,
    /// Require TLS 1.3 of hosts, by their PSKs; of `nvme-tcp` alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
    /// Let its address move: it is that of the home while the controller does not serve it. Portals of `nvme-tcp` that move are
    /// always served by the home. The address must not be configured on a machine: its controller adds it to the interface that
    /// has an address in the same network. `ashlard` needs CAP_NET_ADMIN and CAP_NET_RAW for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moves: bool,
    /// Add the portal even if it can't listen on the address now, such as for a network that comes later.
    #[serde(default)]
    pub force: bool,
}

fn iscsi() -> PortalProtocol {
    PortalProtocol::Iscsi
}

/// How a portal is removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PortalRemoval {
    /// Remove the portal even if hosts use it; they are asked to log out.
    #[serde(default)]
    pub force: bool,
    /// Hosts that may lose their last path by that: names with commas between them.
    #[serde(default, deserialize_with = "names", skip_serializing_if = "BTreeSet::is_empty")]
    #[param(value_type = String)]
    pub cut_off: BTreeSet<String>,
}

fn names<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<BTreeSet<String>, D::Error> {
    let names = String::deserialize(deserializer)?;
    Ok(names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

verbs! {
    #![tag = "array"]

    /// List portals
    ListPortals {} -> Vec<Portal>, Read "list" "portal", Viewer, at GET "/portals"
        => |tx, _| Ok(tx.array.list_portals());
    /// Get a portal
    ShowPortal {
        /// Number, or address with the TCP port
        number
    } -> Portal, Read "show" "portal", Viewer, about number, at GET "/portals/{number}"
        => |tx, it| tx.array.portal(&it.number);
    /// Add a portal
    ///
    /// It serves hosts at once, and again after a restart, beside those that options of the start give. An address that can't be
    /// listened on is refused, unless `force` is given; then it is tried again every second.
    CreatePortal -> Portal, Change "create" "portal", Admin, about address, at POST "/portals" 201
        => |tx, it| tx.create_portal(it).await;
    /// Remove a portal
    ///
    /// Refused while hosts use it, unless `force` is given; they are asked to log out. A host that has no other path must be named in
    /// `cut_off`. A portal that is given by an option of the start can't be removed here.
    DeletePortal {
        /// Number, or address with the TCP port
        number;
        query how: PortalRemoval
    } -> (), Change "delete" "portal", Admin, about number, at DELETE "/portals/{number}" says "Removed"
        => |tx, it| tx.delete_portal(&it.number, &it.how).await;
}

/// A portal: where hosts reach the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = TargetPortal)]
pub struct Portal {
    /// Number, which it keeps: relative target port identifier and, of iSCSI, target portal group tag.
    pub number: u16,
    /// Number of the controller whose it is.
    pub controller: u16,
    /// Protocol.
    pub protocol: PortalProtocol,
    /// Address and TCP port, or the WWPN.
    #[schema(example = "10.0.0.1:3260")]
    pub address: String,
    /// Whether it is given by an option of the controller's start; such a portal can't be removed here.
    pub by_option: bool,
    /// Whether hosts have to use TLS.
    pub tls: bool,
    /// Whether its address moves to the home while its controller does not serve it.
    pub moves: bool,
    /// Number of the controller that serves it now: another one than its own only if it moves.
    pub served_by: u16,
    /// State.
    pub state: PortalState,
    /// Reason for which it does not listen; `null` if it does, or it is not known.
    pub reason: Option<String>,
    /// Hosts that use it now.
    pub hosts: Vec<String>,
    /// Time since which it has its number.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
}

/// State of a portal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PortalState {
    /// It listens.
    Listening,
    /// It can't listen; that is tried again every second.
    Down,
    /// It is another controller's.
    Elsewhere,
}

shapes! {
    Portal: "TargetPortals" "Portals." "Sorted by number";
}

impl Array {
    /// Gives each portal of this controller its number: those that the options of its start name, in that order, and
    /// those that the array keeps. To be called before hosts can connect; returns the portals.
    ///
    /// # Errors
    /// When the numbers can't be stored.
    ///
    /// # Panics
    /// When it is called a second time.
    pub async fn settle_portals(&self, own: OwnPorts, options: &[Endpoint]) -> Result<Vec<PortalEntry>> {
        let _one_at_a_time = self.configuration.change().await;
        let reserved = self.parts.exports.registered_ports();
        let numbers = self.config().portals.number((own.controller, own.numbers.clone()), options, &reserved);
        let edits = {
            let config = self.config();
            edits_of(&config.portals, (own.controller, self.env.seconds()), options, &numbers)
        };
        if !edits.is_empty() {
            let records = edits.iter().map(|edit| put(&self.parts.engine, edit.record().0)).collect();
            put_records(&self.parts.engine, records).await?;
            let mut config = self.configuration.write();
            edits
                .into_iter()
                .for_each(|edit| assert!(config.apply(edit), "portals contradict no other record"));
        }
        let controller = own.controller;
        assert!(self.own_ports.set(own).is_ok(), "portals are settled once");
        self.show_ports();
        let config = self.config();
        let rank = |entry: &PortalEntry| {
            numbers.iter().position(|it| *it == Some(entry.number)).unwrap_or(usize::MAX)
        };
        let mut portals: Vec<PortalEntry> = config.portals.of(controller).cloned().collect();
        portals.sort_by_key(rank);
        drop(config);
        portals.iter().for_each(|entry| self.hold_of(entry));
        Ok(portals)
    }

    /// The portals of all controllers, with their numbers.
    pub fn portals(&self) -> Portals {
        self.config().portals.clone()
    }

    /// Makes the target port group of this controller that of its portals.
    fn show_ports(&self) {
        let Some(own) = self.own_ports.get() else { return };
        let config = self.config();
        let is_scsi = |entry: &&PortalEntry| entry.endpoint.protocol != PortalProtocol::NvmeTcp;
        let ports: Vec<u16> =
            config.portals.of(own.controller).filter(is_scsi).map(|entry| entry.number).collect();
        let mut groups: Vec<PortGroup> = self.parts.target.port_groups().to_vec();
        match groups.iter_mut().find(|group| group.id == own.group) {
            Some(group) => group.ports = ports,
            None => groups.push(PortGroup { id: own.group, ports, is_active: true }),
        }
        self.parts.target.set_port_groups(groups);
    }

    /// Gives each protocol its part of the connections that hosts may have: NVMe/TCP hosts have one for each queue,
    /// iSCSI hosts one for each portal. To be called once both listen.
    pub fn share_connections(&self) {
        let all = self.parts.host_connections;
        let of_nvme = if self.parts.subsystem.portals().is_empty() { 0 } else { all / 2 };
        self.parts.server.set_connection_limits(ConnectionLimits::new(all - of_nvme));
        self.parts.nvme.set_connection_limits(ConnectionLimits::new(of_nvme));
    }

    /// The portals of this controller, and of those that are one target with it.
    fn list_portals(&self) -> Vec<Portal> {
        let Some(own) = self.own_ports.get() else { return Vec::new() };
        let config = self.config();
        let (open, down) = self.listeners();
        let users = self.port_users(&config);
        let moved: BTreeSet<u16> = self.moved.portals.lock().keys().copied().collect();
        let is_shown = |entry: &&PortalEntry| own.is_shared || entry.controller == own.controller;
        let portal = |entry: &PortalEntry| {
            let PortalEntry { controller, number, endpoint, by_option, tls, moves, created, .. } =
                entry.clone();
            let served_by = if moved.contains(&number) { own.controller } else { controller };
            let is_here = served_by == own.controller;
            let address = open.get(&number).filter(|_| is_here);
            let reason = match address {
                _ if !is_here => None,
                Some(address) => down.get(address).cloned(),
                // A port of an adapter listens as long as the array is served.
                None if endpoint.protocol == PortalProtocol::FibreChannel => None,
                None => Some("it is not open yet".into()),
            };
            let state = match &reason {
                _ if !is_here => PortalState::Elsewhere,
                Some(_) => PortalState::Down,
                None => PortalState::Listening,
            };
            let hosts = users.get(&number).into_iter().flatten().cloned().collect();
            let protocol = endpoint.protocol;
            let address = address.map_or(endpoint.address, ToString::to_string);
            Portal {
                number,
                controller,
                protocol,
                address,
                by_option,
                tls,
                moves,
                served_by,
                state,
                reason,
                hosts,
                created,
            }
        };
        config.portals.iter().filter(is_shown).map(portal).collect()
    }

    /// Where the portals of this controller listen, or are to, by number; and of those that can't, why.
    fn listeners(&self) -> (BTreeMap<u16, SocketAddr>, BTreeMap<SocketAddr, String>) {
        let (server, subsystem) = (&self.parts.server, &self.parts.subsystem);
        let open = [server.portals(), subsystem.portals()].concat();
        let down = [server.down_portals(), subsystem.down_portals()].concat();
        (open.into_iter().map(|it| (it.number, it.address)).collect(), down.into_iter().collect())
    }

    /// The hosts that use each portal now, by its number.
    fn port_users(&self, config: &Config) -> BTreeMap<u16, BTreeSet<String>> {
        let controllers = self.parts.subsystem.controllers();
        let nvme = controllers.into_iter().map(|it| (it.host, it.portal));
        let mut users = BTreeMap::<u16, BTreeSet<String>>::new();
        let nexuses = self.parts.target.nexuses().into_iter();
        let scsi = nexuses.map(|(initiator, port)| (initiator.host_name().into_owned(), port));
        for (initiator, port) in scsi.chain(nvme) {
            let host = config.hosts.iter().find(|host| host.port_names().any(|name| *name == initiator));
            let name = host.map_or(initiator, |host| host.name.clone());
            users.entry(port).or_default().insert(name);
        }
        users
    }

    fn portal(&self, which: &str) -> Result<Portal> {
        let number = which.parse::<u16>().ok();
        let all = self.list_portals().into_iter();
        let mut found = all.filter(|it| Some(it.number) == number || it.address == which);
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (Some(_), Some(_)) => Err(Error::conflict(format!(
                "several controllers have a portal {which}: name it by its number"
            ))),
            (None, _) => Err(Error::not_found(format!(
                "there is no portal {which:?}: name one by its number, such as 1, or its address, such as 10.0.0.1:3260"
            ))),
        }
    }
}

impl Transaction<'_> {
    async fn create_portal(&mut self, request: CreatePortal) -> Result<Portal> {
        let CreatePortal { address, protocol, controller, tls, moves, force } = request;
        let socket = check::own_address(&address, default_port(protocol)?)?;
        if tls && protocol != PortalProtocol::NvmeTcp {
            let message = format!("{protocol} has no TLS: only a portal of NVMe/TCP can require it");
            return Err(Error::invalid(message).about("tls"));
        }
        let own = self.array.own_ports.get().ok_or_else(not_settled)?.clone();
        if moves {
            check_movable(&own, socket.ip())?;
        }
        if moves && !force {
            self.outside(self.array.check_unused(socket.ip())).await??;
        }
        let controller = controller.unwrap_or(own.controller);
        let is_own = controller == own.controller;
        let mut edits = Vec::new();
        if !is_own {
            self.check_controller(&own, controller)?;
            edits = self.option_portals(&own, controller);
        }
        let endpoint = Endpoint::tcp(protocol, socket);
        let entry = {
            let mut config = self.array.config().clone();
            for edit in &edits {
                config.apply(edit.clone());
            }
            self.check_free(&config, controller, socket)?;
            check_owner(&config, &Movable { controller, protocol: Some(protocol), moves }, socket.ip())?;
            let reserved = self.array.parts.exports.registered_ports();
            let numbers = (controller, own.numbers_of(controller));
            let number = config.portals.number(numbers, std::slice::from_ref(&endpoint), &reserved);
            let number = number.first().copied().flatten().ok_or_else(|| {
                Error::precondition(format!(
                    "no number is left for a portal of controller {controller}: persistent reservations of hosts name those of \
                     portals that were removed"
                ))
            })?;
            let (by_option, created, removed) = (false, self.now(), None);
            PortalEntry { controller, number, endpoint, by_option, tls, moves, created, removed }
        };
        let listener = Listener { number: entry.number, address: socket, tls };
        edits.push(Edit::Put(Record::Portal(entry.clone())));
        if is_own {
            self.add_own(&entry, (edits, listener), force).await?;
        } else {
            self.commit(edits).await?;
        }
        let (name, number) = (socket.to_string(), entry.number);
        self.done("portal.added", "portal", &name, "was added");
        self.array.portal(&number.to_string())
    }

    /// Records a portal of this controller and serves hosts at it. It is bound before: an address that is wrong changes nothing.
    async fn add_own(
        &mut self,
        entry: &PortalEntry,
        (edits, listener): (Vec<Edit>, Listener),
        force: bool,
    ) -> Result<()> {
        let socket = listener.address;
        let held = match entry.moves {
            true => self.array.parts.addresses.hold(socket.ip()),
            false => Ok(()),
        };
        let bound = match held {
            Ok(()) if !force => BoundPortal::bind(listener).await.map(Some),
            Err(error) if !force => Err(error),
            _ => Ok(None),
        };
        let recorded = match bound.map_err(|error| cannot_listen(socket, &error)) {
            Ok(bound) => self.commit(edits).await.map(|()| bound),
            Err(error) => Err(error),
        };
        match recorded {
            Ok(bound) => self.array.open_portal(entry.endpoint.protocol, listener, bound).await,
            Err(error) => {
                self.array.release_of(entry);
                Err(error)
            }
        }
    }

    /// Refuses a controller that has no portals in the records.
    fn check_controller(&self, own: &OwnPorts, controller: u16) -> Result<()> {
        if !own.is_shared {
            return Err(Error::precondition(
                "only controllers with a link to each other are one target: this one can have portals, others by the options of \
                 their start",
            )
            .about("controller"));
        }
        let known = self.array.parts.controllers.controllers();
        match known.iter().any(|it| it.number == controller) {
            true => Ok(()),
            false => {
                Err(Error::not_found(format!("there is no controller {controller}")).about("controller"))
            }
        }
    }

    /// What to record of the portals that another controller has by options, so that they keep the numbers that they have.
    fn option_portals(&self, own: &OwnPorts, controller: u16) -> Vec<Edit> {
        let all = self.array.parts.controllers.controllers();
        let Some(it) = all.into_iter().find(|it| it.number == controller) else { return Vec::new() };
        if it.state == ControllerState::Home {
            return Vec::new();
        }
        let endpoint = |protocol| move |address: String| Endpoint { protocol, address };
        let iscsi = it.portals.into_iter().map(endpoint(PortalProtocol::Iscsi));
        let nvme = it.nvme_portals.into_iter().map(endpoint(PortalProtocol::NvmeTcp));
        let options: Vec<_> = iscsi.chain(nvme).collect();
        let config = self.array.config();
        let numbers =
            config.portals.number((controller, own.numbers_of(controller)), &options, &BTreeSet::new());
        edits_of(&config.portals, (controller, self.now()), &options, &numbers)
    }

    /// Refuses an address that a portal of the controller has, and more portals than a controller may have.
    fn check_free(&self, config: &Config, controller: u16, socket: SocketAddr) -> Result<()> {
        let (open, _) = self.array.listeners();
        let is_own = self.array.own_ports.get().is_some_and(|own| own.controller == controller);
        let of_record = |entry: &PortalEntry| {
            let open = open.get(&entry.number).copied().filter(|_| is_own);
            open.or_else(|| entry.endpoint.socket())
        };
        let overlaps = |other: SocketAddr| {
            let (one, other_ip) = (socket.ip(), other.ip());
            let everywhere = one.is_unspecified() || other_ip.is_unspecified();
            other.port() == socket.port()
                && (one == other_ip || everywhere && one.is_ipv4() == other_ip.is_ipv4())
        };
        let mut portals = config.portals.of(controller);
        if let Some(other) = portals.find(|entry| of_record(entry).is_some_and(overlaps)) {
            let shown = of_record(other).map_or_else(String::new, |it| it.to_string());
            let message = format!(
                "portal {} ({} at {shown}) of controller {controller} has this address: choose another address or port",
                other.number, other.endpoint.protocol
            );
            return Err(Error::conflict(message).about("address"));
        }
        if config.portals.of(controller).count() >= usize::from(MAX_PORTS) {
            return Err(Error::precondition(format!(
                "controller {controller} has {MAX_PORTS} portals, which is the most that it can have: remove one first"
            )));
        }
        Ok(())
    }

    async fn delete_portal(&mut self, which: &str, how: &PortalRemoval) -> Result<()> {
        let own = self.array.own_ports.get().ok_or_else(not_settled)?;
        let portal = self.array.portal(which)?;
        if portal.by_option {
            return Err(Error::precondition(format!(
                "portal {} is given by an option of the start of controller {}: take it out of ashlar.toml, or of the command line, \
                 and start ashlard again",
                portal.number, portal.controller
            )));
        }
        self.check_users(&portal, how)?;
        let entry = {
            let config = self.array.config();
            let mut of = config.portals.of(portal.controller);
            of.find(|entry| entry.number == portal.number)
                .cloned()
                .ok_or_else(|| Error::not_found("the portal is gone"))?
        };
        let removed = Some(self.now());
        self.commit(vec![Edit::Put(Record::Portal(PortalEntry { removed, ..entry.clone() }))]).await?;
        if portal.controller == own.controller {
            self.array.close_portal(portal.protocol, portal.number).await;
            self.array.release_of(&entry);
        }
        self.done("portal.removed", "portal", &portal.address, "was removed");
        Ok(())
    }

    /// Refuses to take a portal from hosts that use it, unless that is wanted; and the last path of a host, unless
    /// the host is named.
    fn check_users(&self, portal: &Portal, PortalRemoval { force, cut_off }: &PortalRemoval) -> Result<()> {
        let users = self.array.port_users(&self.array.config());
        let elsewhere =
            |host: &String| users.iter().any(|(port, hosts)| *port != portal.number && hosts.contains(host));
        let last: Vec<String> = portal
            .hosts
            .iter()
            .filter(|host| !elsewhere(host) && !cut_off.contains(*host))
            .cloned()
            .collect();
        if !last.is_empty() {
            return Err(Error::precondition(format!(
                "portal {} is the only path of {}: let them log in at another portal first, or name each host that is to lose its \
                 volumes (--cut-off; in the API: `cut_off`)",
                portal.address,
                last.join(", ")
            ))
            .about("cut_off"));
        }
        let used: Vec<_> = portal.hosts.iter().filter(|host| !cut_off.contains(*host)).cloned().collect();
        if !used.is_empty() && !*force {
            return Err(Error::precondition(format!(
                "portal {} is used by {}, which have other paths: remove it from their configuration first, or remove it with \
                 --force (in the API: `force`): they are asked to log out",
                portal.address,
                used.join(", ")
            ))
            .about("force"));
        }
        Ok(())
    }
}

impl Array {
    /// Serves hosts at a portal that is recorded. `bound`: if it could be bound; if not, it is tried again.
    pub(crate) async fn open_portal(
        &self,
        protocol: PortalProtocol,
        listener: Listener,
        bound: Option<BoundPortal>,
    ) -> Result<()> {
        let opened = match protocol {
            PortalProtocol::NvmeTcp => {
                let bound = match bound {
                    Some(bound) => Ok(bound),
                    None => self.parts.nvme.bind_portal(listener).await,
                };
                bound.and_then(|bound| self.parts.nvme.open_portal(bound))
            }
            _ => {
                let bound = match bound {
                    Some(bound) => Ok(bound),
                    None => self.parts.server.bind_portal(listener).await,
                };
                bound.and_then(|bound| self.parts.server.open_portal(bound))
            }
        };
        self.show_ports();
        self.share_connections();
        opened.map_err(|error| {
            Error::failed("the portal is recorded, and opens only with the next start", error)
        })
    }

    pub(crate) async fn close_portal(&self, protocol: PortalProtocol, number: u16) {
        // First, so that hosts find it gone when their sessions end.
        self.show_ports();
        match protocol {
            PortalProtocol::NvmeTcp => self.parts.nvme.close_portal(number).await,
            _ => self.parts.server.close_portal(number).await,
        }
        self.share_connections();
    }
}

pub(crate) fn not_settled() -> Error {
    Error::precondition("the array does not listen yet: try again in a moment")
}

fn cannot_listen(socket: SocketAddr, error: &std::io::Error) -> Error {
    Error::precondition(format!(
        "can't listen on {socket} ({error}): check that this machine has the address and that nothing else uses the port; to add it \
         all the same, such as for a network that comes later, use --force (in the API: `force`)"
    ))
    .about("address")
}

/// The TCP port where none is given.
fn default_port(protocol: PortalProtocol) -> Result<u16> {
    match protocol {
        PortalProtocol::Iscsi => Ok(ISCSI_PORT),
        PortalProtocol::NvmeTcp => Ok(NVME_PORT),
        PortalProtocol::FibreChannel => {
            let message = "ports of Fibre Channel are given by the option fc of the start";
            Err(Error::invalid(message).about("protocol"))
        }
    }
}

/// What to store so that the portals that options name have these numbers, and those that they do not name any more are removed.
fn edits_of(
    portals: &Portals,
    (controller, now): (u16, u64),
    options: &[Endpoint],
    numbers: &[Option<u16>],
) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (endpoint, number) in options.iter().zip(numbers) {
        let Some(number) = *number else {
            tracing::error!(
                address = endpoint.address,
                "the portal is not served: this controller has too many"
            );
            continue;
        };
        if !portals.of(controller).any(|entry| entry.number == number) {
            // One with TLS, or that moves, is kept by the array: options have no word for it.
            let (endpoint, by_option) = (endpoint.clone(), true);
            let (tls, moves, created, removed) = (false, false, now, None);
            let entry = PortalEntry { controller, number, endpoint, by_option, tls, moves, created, removed };
            edits.push(Edit::Put(Record::Portal(entry)));
        }
    }
    let named: BTreeSet<u16> = numbers.iter().copied().flatten().collect();
    for entry in portals.of(controller).filter(|entry| entry.by_option && !named.contains(&entry.number)) {
        edits.push(Edit::Put(Record::Portal(PortalEntry { removed: Some(now), ..entry.clone() })));
    }
    edits
}
