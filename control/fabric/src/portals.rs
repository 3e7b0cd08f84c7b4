//! The iSCSI portals of a front end: log-ins are answered by the home's configuration, commands are forwarded.

use crate::controller::{JoinWatch, MapWatch};
use crate::held::{self, GIVE_UP, Held};
use crate::kept::{Forwarded, Kept, Served};
use crate::link::Link;
use crate::reading::Reading;
use crate::{front, logins, ports};
use address::Addresses;
use anyhow::{Context, Result};
use array::{Endpoint, LoginQueue, PortalEntry, Portals};
use bytes::Bytes;
use engine::ReaderCounters;
use forward::FrontEnd;
use iscsi::{Access, AccessTable, Credentials, Portal, Server, ServerConfig};
use machine::memory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use transport::Permit;

/// What front ends are to know of the configuration. Fields that are not known are of a newer release.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Configuration {
    /// The iSCSI name of the target.
    target: String,
    access: Vec<Entry>,
    /// The portals that are recorded, of all controllers.
    #[serde(default)]
    portals: Vec<PortalEntry>,
    /// Numbers of the portals of other controllers that the home serves.
    #[serde(default)]
    moved: BTreeSet<u16>,
}

/// An initiator that may log in.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    initiator: String,
    chap: Option<Secret>,
    mutual: Option<Secret>,
}

/// A CHAP name and secret. It is sent over TLS, to controllers that have the key of all secrets.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Secret {
    name: String,
    secret: String,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Secret({:?}, withheld)", self.name)
    }
}

impl From<Credentials> for Secret {
    fn from(Credentials { name, secret }: Credentials) -> Self {
        Self { name, secret }
    }
}

impl From<Secret> for Credentials {
    fn from(Secret { name, secret }: Secret) -> Self {
        Self { name, secret }
    }
}

/// The configuration of a server, for front ends. `moved`: the portals of theirs that it serves.
pub fn configuration(
    target: &str,
    table: AccessTable,
    (portals, moved): (&Portals, &BTreeSet<u16>),
) -> Bytes {
    let entry = |(initiator, Access { chap, mutual }): (String, Access)| Entry {
        initiator,
        chap: chap.map(Secret::from),
        mutual: mutual.map(Secret::from),
    };
    let configuration = Configuration {
        target: target.to_owned(),
        access: table.into_iter().map(entry).collect(),
        portals: portals.ever().cloned().collect(),
        moved: moved.clone(),
    };
    serde_json::to_vec(&configuration).expect("strings have a form in JSON").into()
}

/// The portals of all controllers.
#[derive(Default)]
struct AllPortals {
    recorded: Portals,
    /// Those that the home serves instead of their controllers.
    moved: BTreeSet<u16>,
}

/// The target's name, the access table and the portals of a configuration that came over the link.
fn parse(configuration: &[u8]) -> Result<(String, AccessTable, AllPortals)> {
    let Configuration { target, access, portals, moved } =
        serde_json::from_slice(configuration).context("the configuration of the home can't be read")?;
    let access = access.into_iter().map(|Entry { initiator, chap, mutual }| {
        (initiator, Access { chap: chap.map(Credentials::from), mutual: mutual.map(Credentials::from) })
    });
    let mut recorded = Portals::default();
    portals.into_iter().for_each(|entry| recorded.put(entry));
    Ok((target, access.collect(), AllPortals { recorded, moved }))
}

/// How a front end serves hosts.
pub struct Settings {
    /// The portals that its options name.
    pub endpoints: Vec<Endpoint>,
    /// Connections of hosts at a time.
    pub connections: usize,
    /// Threads for connections.
    pub shards: Vec<Handle>,
    /// Since when this process takes part.
    pub joined: JoinWatch,
    /// Permission to answer hosts: without its lease this controller may have been expelled.
    pub permit: Permit,
    /// How it reads the store itself, if it can.
    pub reading: Option<Reading>,
    /// The addresses of this machine that move.
    pub addresses: Addresses,
}

/// The front end of a controller that is not the home, with its portals.
pub struct Standby {
    stop: oneshot::Sender<End>,
    task: JoinHandle<Option<Kept>>,
}

/// How a front end ends.
enum End {
    /// Its sessions are closed after these seconds, within which hosts are asked to log out.
    Close(u16),
    /// Its sessions go on.
    Keep,
}

impl Standby {
    /// Serves hosts as soon as this controller takes part and knows the home's configuration, until it is stopped.
    pub fn start(link: Link, map: MapWatch, settings: Settings) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, task: tokio::spawn(run(link, map, settings, stopped)) }
    }

    /// Ends it: sessions are closed after `seconds`, within which hosts are asked to log out.
    pub async fn stop(self, seconds: u16) {
        _ = self.end(End::Close(seconds)).await;
    }

    /// Ends it, and keeps its sessions, whose commands wait; `None` if it does not listen yet.
    pub async fn keep(self) -> Option<Kept> {
        self.end(End::Keep).await
    }

    async fn end(self, how: End) -> Option<Kept> {
        // Fails if it has ended, which it does only when it is stopped.
        _ = self.stop.send(how);
        // A panic there has ended the process already.
        self.task.await.ok().flatten()
    }
}

async fn run(
    link: Link,
    map: MapWatch,
    mut settings: Settings,
    mut stopped: oneshot::Receiver<End>,
) -> Option<Kept> {
    // Not since when the map has this controller: that may be a process that was killed and has not been expelled yet. The home
    // takes nothing more in its name once this process has joined.
    let joined = tokio::select! {
        known = settings.joined.wait_for(Option::is_some) => known.ok().and_then(|joined| *joined),
        _ = &mut stopped => return None,
    };
    // Without it the membership has ended, which is reported elsewhere.
    let joined = joined?;
    let running = match front::start(link.clone(), map.clone(), joined) {
        Ok(running) => running,
        Err(error) => {
            tracing::error!(error = format_args!("{error:#}"), "nothing is forwarded");
            return None;
        }
    };
    let served = watch::Sender::new(None);
    let reading = settings.reading.take().map(|reading| reading.start(running.front_end.clone()));
    let queue = Arc::<LoginQueue>::default();
    let (id, home) = (link.own.id, (link, map.clone()));
    let end = tokio::select! {
        never = logins::report(home, queue.clone()) => match never {},
        Err(error) = serve(id, settings, map, (running.front_end.clone(), queue), &served) => {
            tracing::error!(error = format_args!("{error:#}"), "hosts can't log in at this controller");
            (&mut stopped).await
        }
        end = &mut stopped => end,
    };
    if let Some(reading) = reading {
        let ReaderCounters { resolved, failed, hits, fetches } = reading.end().await;
        tracing::info!(resolved, failed, hits, fetches, "reads of data that the home located");
    }
    let served: Option<Served> = served.borrow().clone();
    match (served, end.unwrap_or(End::Close(0))) {
        (Some(served), End::Keep) => return Some(Kept::new(served, running)),
        (Some(served), End::Close(seconds)) => served.server.close(seconds).await,
        (None, _) => {}
    }
    running.stop();
    None
}

/// Serves hosts, forever: from the home's first configuration on. `served` gets the server as soon as it listens.
async fn serve(
    controller: u16,
    settings: Settings,
    map: MapWatch,
    (front_end, logins): (Arc<FrontEnd>, Arc<LoginQueue>),
    served: &watch::Sender<Option<Served>>,
) -> Result<Infallible> {
    let Settings { endpoints, connections, shards, permit, addresses, .. } = settings;
    let (mut configured, connected) = (front_end.configuration(), front_end.connected());
    let (target, access, all) = loop {
        let text = configured.wait_for(Option::is_some).await.context("the link has ended")?.clone();
        match parse(&text.unwrap_or_default()) {
            Ok(first) => break first,
            Err(error) => {
                tracing::warn!(error = format_args!("{error:#}"), "hosts can't log in at this controller");
                configured.changed().await.context("the link has ended")?;
            }
        }
    };
    let mut config = ServerConfig::new(target.clone());
    config.connection_limits = transport::ConnectionLimits::new(connections);
    config.permit = permit;
    let budget = Arc::new(transport::Budget::new(memory::sessions(memory::limit().bytes)));
    let forwarded = Forwarded::new(front_end);
    let server = Server::new(forwarded.clone(), config, budget.clone());
    server.set_access(access);
    server.observe(logins.clone());
    let held = Held::new(addresses);
    let (wanted, moving) = own(controller, &endpoints, &all, true);
    held.add(&moving);
    let portals =
        server.serve(&wanted, shards).await.with_context(|| format!("can't listen on {wanted:?}"))?;
    tracing::info!(?portals, "hosts can log in at this controller");
    let kept = Served {
        server: server.clone(),
        name: target,
        target: forwarded,
        budget,
        logins,
        held: held.clone(),
    };
    _ = served.send_replace(Some(kept));
    let serving = Serving { controller, endpoints, server, held, all };
    serving.follow(map, configured, connected).await
}

/// A front end that serves hosts.
struct Serving {
    controller: u16,
    /// The portals that its options name.
    endpoints: Vec<Endpoint>,
    server: Arc<Server>,
    held: Arc<Held>,
    all: AllPortals,
}

impl Serving {
    /// Follows what the home says, and whether it is reached, forever.
    async fn follow(
        mut self,
        mut map: MapWatch,
        mut configured: watch::Receiver<Option<Bytes>>,
        mut connected: watch::Receiver<bool>,
    ) -> Result<Infallible> {
        let since = |is_connected: bool| (!is_connected).then(Instant::now);
        // Since when the home is not reached, and whether portals that move are served all the same.
        let (mut lost, mut reaches) = (since(*connected.borrow_and_update()), true);
        loop {
            if let Some(map) = map.borrow_and_update().as_deref() {
                let AllPortals { recorded, moved } = &self.all;
                self.server.set_other_portals(ports::others(map, self.controller, (recorded, moved)));
            }
            let given_up = async {
                match lost {
                    Some(lost) if reaches => sleep_until(lost + GIVE_UP).await,
                    _ => pending().await,
                }
            };
            tokio::select! {
                changed = configured.changed() => {
                    changed.context("the link has ended")?;
                    let text = configured.borrow_and_update().clone();
                    reaches |= self.configure(&text.unwrap_or_default());
                }
                changed = map.changed() => changed.context("the membership has ended")?,
                changed = connected.changed() => {
                    changed.context("the link has ended")?;
                    lost = since(*connected.borrow_and_update());
                }
                // The next configuration is of a home that is reached.
                () = given_up => reaches = false,
            }
            self.open(reaches).await;
        }
    }

    /// Takes a configuration of the home; false if it can't be read.
    fn configure(&mut self, text: &[u8]) -> bool {
        match parse(text) {
            Ok((_, access, all)) => {
                self.server.set_access(access);
                self.all = all;
                true
            }
            Err(error) => {
                tracing::warn!(error = format_args!("{error:#}"), "the access of hosts stays as it is");
                false
            }
        }
    }

    /// Opens and closes portals until they are those of this controller.
    async fn open(&self, reaches: bool) {
        let (wanted, moving) = own(self.controller, &self.endpoints, &self.all, reaches);
        self.held.add(&moving);
        for (portal, error) in self.server.set_portals(&wanted).await {
            tracing::error!(address = %portal.address, %error, "hosts can't log in at this portal");
        }
        self.held.keep_only(&moving);
    }
}

/// The portals that this controller serves, and the addresses of these that move. `reaches`: whether it reaches the home.
fn own(
    controller: u16,
    options: &[Endpoint],
    AllPortals { recorded, moved }: &AllPortals,
    reaches: bool,
) -> (Vec<Portal>, BTreeSet<IpAddr>) {
    let mut portals = ports::portals_of(controller, options, recorded);
    let moving = held::of_controller(controller, recorded);
    portals.retain(|number, _| !moving.contains_key(number) || reaches && !moved.contains(number));
    let addresses = portals.keys().filter_map(|number| moving.get(number)).copied().collect();
    let portal = |(number, endpoint): (u16, Endpoint)| Some(Portal::plain(number, endpoint.socket()?));
    (portals.into_iter().filter_map(portal).collect(), addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use array::PortalProtocol;

    #[test]
    fn a_front_end_gets_the_access_table_as_it_is() {
        let credentials = |name: &str| Credentials { name: name.into(), secret: "secret-secret".into() };
        let table: AccessTable = [
            ("iqn.2026-01.test:a".to_owned(), Access::default()),
            (
                "iqn.2026-01.test:b".to_owned(),
                Access { chap: Some(credentials("b")), mutual: Some(credentials("array")) },
            ),
        ]
        .into();
        let endpoint = Endpoint { protocol: PortalProtocol::Iscsi, address: "192.0.2.2:3260".into() };
        let (by_option, tls, moves, created, removed) = (true, false, false, 1, None);
        let entry =
            PortalEntry { controller: 2, number: 34, endpoint, by_option, tls, moves, created, removed };
        let mut portals = Portals::default();
        portals.put(entry.clone());
        let text = configuration("iqn.2026-01.test:target", table.clone(), (&portals, &[40].into()));
        let (target, access, all) = parse(&text).unwrap();
        assert_eq!((target.as_str(), access), ("iqn.2026-01.test:target", table));
        assert_eq!((all.recorded.ever().collect::<Vec<_>>(), all.moved), (vec![&entry], [40].into()));
        // A newer release may say more.
        assert!(parse(br#"{"target":"t","access":[],"more":{}}"#).is_ok());
        // What moves is served here unless the home does, or is not reached.
        let moves = PortalEntry { moves: true, by_option: false, ..entry.clone() };
        let served = |moved: &[u16], reaches| {
            let mut all = AllPortals { moved: moved.iter().copied().collect(), ..AllPortals::default() };
            all.recorded.put(moves.clone());
            let (portals, addresses) = own(2, &[], &all, reaches);
            (portals.len(), addresses.len())
        };
        assert_eq!((served(&[], true), served(&[34], true), served(&[], false)), ((1, 1), (0, 0), (0, 0)));
        for wrong in [&b""[..], b"{", b"{\"target\":1}", b"[]"] {
            assert!(parse(wrong).is_err());
        }
    }
}
