//! The link of a controller: who it is, where the others reach it, and its sessions with them.

use crate::board::{self, reachable};
use crate::controller;
use crate::identity::Own;
use crate::join::{TOKEN_SECONDS, Tokens};
use crate::mutual_tls::{self, Protocol, Session};
use crate::token::Token;
use anyhow::{Context, Result, ensure};
use array::{JoinToken, Secret};
use cluster::{MAX_MEMBERS, MapMember};
use machine::store::Config as Store;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// No other TLS client or server is taken for a controller.
pub(crate) const PROTOCOL: Protocol =
    Protocol { name: b"ashlar-controller", exporter_label: b"EXPORTER-ashlar-controller" };
/// Time in which a link has to be made.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which time passes for a link.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Target ports of one controller.
const PORTS: usize = 32;

/// Why something that is tried again and again fails: logged once, however often it repeats.
#[derive(Default)]
pub(crate) struct LastReason(String);

impl LastReason {
    /// The reason for people, if it is another one than the last.
    pub(crate) fn note(&mut self, error: &anyhow::Error) -> Option<&str> {
        let error = format!("{error:#}");
        let is_new = error != self.0;
        self.0 = error;
        is_new.then_some(&*self.0)
    }

    /// It has not failed: the same reason is a new one.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// This process as one of the controllers of an array.
#[derive(Default)]
pub struct Config {
    /// Its number.
    pub number: Option<u16>,
    /// Where it listens for the others.
    pub listen: Option<SocketAddr>,
    /// By what it joins at the first start.
    pub join: Option<Token>,
}

/// What a controller with a link has from its start.
#[derive(Clone)]
pub struct Link {
    /// By what the others know it.
    pub own: Arc<Own>,
    /// Where it listens.
    listener: Arc<TcpListener>,
    /// How the others reach that.
    address: String,
    /// Those that this process has made.
    pub(crate) tokens: Arc<Tokens>,
    /// Most controllers that the array can have.
    max_members: u16,
}

impl Link {
    /// The link of a controller, if it is to have one; `array` is the one that controllers share, and `portals` how many it has
    /// for hosts.
    ///
    /// # Errors
    /// If the address can't be listened on, or the controllers' common key is missing.
    pub fn prepare(
        config: &Config,
        (store, portals): (&Store, usize),
        (array, id): (u128, u16),
    ) -> Result<Option<Self>> {
        let Some(address) = config.listen else { return Ok(None) };
        ensure!(portals <= PORTS, "a controller that shares an array has {PORTS} portals at most");
        let own = Arc::new(Own::load(&store.data, (array, id))?);
        let listener = TcpListener::bind(address)
            .and_then(|it| it.set_nonblocking(true).map(|()| it))
            .with_context(|| format!("can't listen for other controllers on {address}"))?;
        let address = reachable(listener.local_addr()?, &board::host_name());
        let in_ceph = store.drives.named.is_empty();
        let max_members = if in_ceph { MAX_MEMBERS } else { raid::shared::CONTROLLERS } as u16;
        let (listener, tokens) = (Arc::new(listener), Arc::default());
        Ok(Some(Self { own, listener, address, tokens, max_members }))
    }

    /// What the others are to know of it.
    pub fn shown(&self) -> cluster::Link {
        let Own { fingerprint, proof, .. } = &*self.own;
        cluster::Link {
            address: self.address.clone(),
            certificate: fingerprint.clone(),
            proof: proof.clone(),
        }
    }

    /// A token by which a new controller can join once, with a number that is not taken.
    ///
    /// # Errors
    /// If there is no number left, or there are too many tokens.
    pub fn admit(&self, taken: &[u16]) -> array::Result<JoinToken> {
        let mut taken = taken.to_vec();
        taken.extend(self.tokens.numbers(now()));
        let Some(number) = (1..=self.max_members).find(|number| !taken.contains(number)) else {
            return Err(array::Error::precondition(
                "all numbers are taken: remove a controller first (ashlar controller remove), or wait until tokens that were \
                 not used have expired",
            ));
        };
        let of_home = (&*self.own.fingerprint, self.own.array);
        let expires = now() + TOKEN_SECONDS * 1_000_000_000;
        let made = self.tokens.create(of_home, (number, &self.address), expires);
        let made = made.map_err(|error| array::Error::precondition(format!("{error:#}")))?;
        let (token, expires) = (Secret::new(made.text()), board::time() + TOKEN_SECONDS);
        Ok(JoinToken { token, controller: number, expires })
    }

    /// A session with another controller, which the map names.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn connect(&self, other: &MapMember, protocol: Protocol) -> Result<Session> {
        let (id, address) = (other.id, &other.link.address);
        ensure!(
            self.own.trusts(other),
            "controller {id} has another secrets.key: copy that of the home to the data folder of this one"
        );
        let connecting =
            timeout(HANDSHAKE_TIMEOUT, mutual_tls::connect(address, &self.own.identity, protocol));
        let session = connecting.await.context("it did not respond in time").flatten();
        let session = session.with_context(|| format!("no connection to controller {id} at {address}"))?;
        ensure!(
            mutual_tls::fingerprint(&session.certificate) == other.link.certificate,
            "another one than controller {id} answers at {address}: it shows another certificate"
        );
        Ok(session)
    }

    /// Its listener, on the runtime of this thread.
    pub(crate) fn listen(&self) -> std::io::Result<tokio::net::TcpListener> {
        tokio::net::TcpListener::from_std(self.listener.try_clone()?)
    }
}

#[cfg(test)]
#[path = "link_test.rs"]
mod tests;

/// The clock of links.
pub(crate) fn now() -> u64 {
    controller::now()
}
