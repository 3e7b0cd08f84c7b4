//! The iSCSI portals of a front end: log-ins are answered by the home's configuration, commands are forwarded.

use super::kept::{Forwarded, Kept, Served};
use super::reading::Reading;
use super::{Link, front, logins, ports};
use crate::controller::MapWatch;
use crate::memory;
use anyhow::{Context, Result};
use array::{Endpoint, LoginQueue, PortalEntry, Portals};
use bytes::Bytes;
use engine::ReaderCounters;
use forward::FrontEnd;
use iscsi::{Access, AccessTable, Credentials, Portal, Server, ServerConfig};
use serde::{Deserialize, Serialize};
use shelf::arbiter::MemberId;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
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

/// The configuration of a server, for front ends.
pub fn configuration(target: &str, table: AccessTable, portals: &Portals) -> Bytes {
    let entry = |(initiator, Access { chap, mutual }): (String, Access)| Entry {
        initiator,
        chap: chap.map(Secret::from),
        mutual: mutual.map(Secret::from),
    };
    let configuration = Configuration {
        target: target.to_owned(),
        access: table.into_iter().map(entry).collect(),
        portals: portals.ever().cloned().collect(),
    };
    serde_json::to_vec(&configuration).expect("strings have a form in JSON").into()
}

/// The target's name, the access table and the recorded portals of a configuration that came over the link.
fn parse(configuration: &[u8]) -> Result<(String, AccessTable, Portals)> {
    let Configuration { target, access, portals } =
        serde_json::from_slice(configuration).context("the configuration of the home can't be read")?;
    let access = access.into_iter().map(|Entry { initiator, chap, mutual }| {
        (initiator, Access { chap: chap.map(Credentials::from), mutual: mutual.map(Credentials::from) })
    });
    let mut recorded = Portals::default();
    portals.into_iter().for_each(|entry| recorded.put(entry));
    Ok((target, access.collect(), recorded))
}

/// How a front end serves hosts.
pub struct Settings {
    /// The portals that its options name.
    pub endpoints: Vec<Endpoint>,
    /// Connections of hosts at a time.
    pub connections: usize,
    /// Threads for connections.
    pub shards: Vec<Handle>,
    /// Permission to answer hosts: without its lease this controller may have been expelled.
    pub permit: Permit,
    /// How it reads the store itself, if it can.
    pub reading: Option<Reading>,
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
    mut map: MapWatch,
    mut settings: Settings,
    mut stopped: oneshot::Receiver<End>,
) -> Option<Kept> {
    let own = MemberId(link.own.id);
    let takes_part =
        |map: &Option<Arc<cluster::Map>>| map.as_ref().is_some_and(|map| map.active(own).is_some());
    let joined = tokio::select! {
        known = map.wait_for(takes_part) => match known {
            Ok(map) => map.as_ref().and_then(|map| map.active(own)).unwrap_or_default(),
            // The membership has ended, which is reported elsewhere.
            Err(_) => return None,
        },
        _ = &mut stopped => return None,
    };
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
        tracing::info!(resolved, failed, hits, fetches, "reads whose data the home has located");
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
    mut map: MapWatch,
    (front_end, logins): (Arc<FrontEnd>, Arc<LoginQueue>),
    served: &watch::Sender<Option<Served>>,
) -> Result<Infallible> {
    let Settings { endpoints, connections, shards, permit, .. } = settings;
    let mut configured = front_end.configuration();
    let (target, access, mut recorded) = loop {
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
    let budget = Arc::new(transport::Budget::new(memory::sessions(memory::total())));
    let forwarded = Forwarded::new(front_end);
    let server = Server::new(forwarded.clone(), config, budget.clone());
    server.set_access(access);
    server.observe(logins.clone());
    let wanted = own(controller, &endpoints, &recorded);
    let portals =
        server.serve(&wanted, shards).await.with_context(|| format!("can't listen on {wanted:?}"))?;
    tracing::info!(?portals, "hosts can log in at this controller");
    let kept = Served { server: server.clone(), name: target, target: forwarded, budget, logins };
    _ = served.send_replace(Some(kept));
    loop {
        if let Some(map) = map.borrow_and_update().as_deref() {
            server.set_other_portals(ports::others(map, controller, &recorded));
        }
        tokio::select! {
            changed = configured.changed() => changed.context("the link has ended")?,
            changed = map.changed() => changed.context("the membership has ended")?,
        }
        let text = configured.borrow_and_update().clone();
        match parse(&text.unwrap_or_default()) {
            Ok((_, access, portals)) => {
                server.set_access(access);
                recorded = portals;
                for (portal, error) in server.set_portals(&own(controller, &endpoints, &recorded)).await {
                    tracing::error!(address = %portal.address, %error, "hosts can't log in at this portal");
                }
            }
            Err(error) => {
                tracing::warn!(error = format_args!("{error:#}"), "the access of hosts stays as it is");
            }
        }
    }
}

/// The portals of this controller.
fn own(controller: u16, options: &[Endpoint], recorded: &Portals) -> Vec<Portal> {
    let all = ports::portals_of(controller, options, recorded).into_iter();
    all.filter_map(|(number, endpoint)| Some(Portal::plain(number, endpoint.socket()?))).collect()
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
        let (by_option, tls, created, removed) = (true, false, 1, None);
        let entry = PortalEntry { controller: 2, number: 34, endpoint, by_option, tls, created, removed };
        let mut portals = Portals::default();
        portals.put(entry.clone());
        let text = configuration("iqn.2026-01.test:target", table.clone(), &portals);
        let (target, access, recorded) = parse(&text).unwrap();
        assert_eq!((target.as_str(), access), ("iqn.2026-01.test:target", table));
        assert_eq!(recorded.ever().collect::<Vec<_>>(), [&entry]);
        // A newer release may say more.
        assert!(parse(br#"{"target":"t","access":[],"more":{}}"#).is_ok());
        for wrong in [&b""[..], b"{", b"{\"target\":1}", b"[]"] {
            assert!(parse(wrong).is_err());
        }
    }
}
