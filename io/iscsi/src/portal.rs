//! A connection of a portal: its state machine, the entry of its session in the session table, and notifications of the
//! observer.

use crate::chap::Nonce;
use crate::connection::{Connection, OpenedSession};
use crate::login::LoginStatus;
use crate::observer::{RefusalCause, RefusedLogin};
use crate::server::Server;
use crate::sessions::{Registration, SessionInfo};
use bytes::BytesMut;
use bytes::buf::Limit;
use smallvec::SmallVec;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedSender;
use transport::{ConnectionSlot, Control, Link, Peer, Permit, Service};

type Opening =
    Pin<Box<dyn Future<Output = Result<(OpenedSession, Option<Registration>), LoginStatus>> + Send>>;

/// A connection of a server.
pub struct ServerLink {
    connection: Connection,
    opening: Option<Opening>,
    registration: Option<Registration>,
    sender: UnboundedSender<Control>,
    server: Arc<Server>,
    info: SessionInfo,
}

/// Random bytes for CHAP, from the system.
fn nonce() -> io::Result<Nonce> {
    let mut bytes = [0; 33];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let [id, challenge @ ..] = bytes;
    Ok(Nonce { id, challenge })
}

impl Service for Server {
    type Link = ServerLink;

    fn connect(self: &Arc<Self>, peer: Peer, control: UnboundedSender<Control>) -> io::Result<ServerLink> {
        let Peer { portal, peer, local, .. } = peer;
        Ok(ServerLink {
            connection: Connection::new(self.setup(portal, local, peer, nonce()?)),
            opening: None,
            registration: None,
            sender: control,
            server: self.clone(),
            info: SessionInfo { initiator: String::new(), isid: [0; 6], tsih: 0, portal, peer, local },
        })
    }

    fn refused(&self, peer: Peer) {
        let Peer { portal, peer, .. } = peer;
        if let Some(left_out) = self.log.strangers.admit() {
            tracing::warn!(%peer, left_out, "too many connections");
        }
        let refused = RefusedLogin { initiator: None, peer, portal, cause: RefusalCause::TooManyConnections };
        self.notify(|observer| observer.refused(&refused));
    }

    fn permit(&self) -> Permit {
        self.permit()
    }
}

impl ServerLink {
    /// Opens the session that a login waits for.
    fn poll_opening(&mut self, slot: &ConnectionSlot, cx: &mut Context<'_>) -> bool {
        if let Some((identity, _)) = self.connection.opening() {
            self.info.initiator.clone_from(&identity.initiator);
            self.info.isid = identity.isid;
            let (server, info, sender) = (self.server.clone(), self.info.clone(), self.sender.clone());
            self.opening = Some(Box::pin(async move { server.open(identity, info, sender).await }));
        }
        let Some(opening) = &mut self.opening else { return false };
        let Poll::Ready(result) = opening.as_mut().poll(cx) else { return false };
        self.opening = None;
        let (opened, registration) = match result {
            Ok((opened, registration)) => (Ok(opened), registration),
            Err(status) => (Err(status), None),
        };
        if let Some(registration) = &registration {
            slot.set_host();
            self.info.tsih = registration.tsih;
            self.server.notify(|observer| observer.logged_in(&self.info));
        }
        self.registration = registration;
        self.connection.opened(opened);
        true
    }

    /// Notifies the observer of the end of the session, or of the refused login.
    fn notify_end(&mut self, reason: &str) {
        if self.registration.is_some() {
            return self.server.notify(|observer| observer.logged_out(&self.info, reason));
        }
        self.connection.close(reason);
        if let Some((initiator, cause)) = self.connection.take_refusal() {
            let SessionInfo { peer, portal, .. } = self.info;
            self.server.notify(|observer| observer.refused(&RefusedLogin { initiator, peer, portal, cause }));
        }
    }
}

impl Link for ServerLink {
    fn space(&mut self) -> Limit<&mut BytesMut> {
        self.connection.space()
    }

    fn wants_input(&self) -> bool {
        self.connection.wants_input()
    }

    fn received(&mut self) {
        self.connection.received();
    }

    fn proceed(&mut self) -> bool {
        self.connection.proceed()
    }

    fn poll_tasks(&mut self, slot: &ConnectionSlot, cx: &mut Context<'_>) -> bool {
        self.poll_opening(slot, cx) | self.connection.poll_tasks(cx).is_ready()
    }

    fn wants_output(&self) -> bool {
        self.connection.wants_output()
    }

    fn slices(&self) -> SmallVec<[IoSlice<'_>; 96]> {
        self.connection.slices()
    }

    fn sent(&mut self, bytes: usize) {
        self.connection.sent(bytes);
    }

    fn tick(&mut self) {
        self.connection.tick();
    }

    fn close(&mut self, reason: &'static str) {
        self.connection.close(reason);
    }

    fn shut_down(&mut self, seconds: u16) {
        self.connection.request_logout(seconds);
    }

    fn ended(&self) -> Option<String> {
        self.connection.ended()
    }

    fn finish(mut self, reason: &str) -> bool {
        let gate = self.server.log.of(self.registration.is_some());
        if let Some(left_out) = gate.admit() {
            let SessionInfo { peer, initiator, .. } = &self.info;
            tracing::info!(%peer, initiator, reason, left_out, "connection closed");
        }
        self.notify_end(reason);
        if self.connection.is_cold_reset() {
            self.server.close_sessions_sharing_with(&self.info.initiator);
        }
        self.registration.is_some()
    }
}
