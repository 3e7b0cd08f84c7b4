//! Limits of the API: its connections, and its event streams.
//!
//! Without them a client could hold all connections, and with them the descriptors of the process. A connection is protected
//! only while an authenticated request is in progress on it; every other one gives way to a new one, by the rule of
//! [`transport::Admission`]. A quarter of the connections is never protected, so that a new client, the one of a service
//! monitor among them, is always admitted. Event streams last, so they have limits of their own.

use crate::problem::Problem;
use array::{Caller, Credential};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use transport::{Admitted, ConnectionLimits, MAX_LEAVING_CONNECTIONS, counted_address};

/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 256;
/// Maximum number of sockets of the API.
pub const MAX_SOCKETS: usize = MAX_CONNECTIONS + MAX_LEAVING_CONNECTIONS;
/// Maximum number of connections of one address without an authenticated request in progress, and with one.
const MAX_IDLE_PER_ADDRESS: usize = 64;
const MAX_BUSY_PER_ADDRESS: usize = 48;
/// Maximum number of event streams, and of one token or user.
const MAX_STREAMS: usize = 128;
const MAX_STREAMS_PER_CALLER: usize = 16;

/// The limits for a number of sockets, a few of which are reserved for connections that are being closed.
pub fn connection_limits(sockets: usize) -> ConnectionLimits {
    let total = (sockets - MAX_LEAVING_CONNECTIONS.min(sockets / 4)).clamp(1, MAX_CONNECTIONS);
    ConnectionLimits {
        total,
        unauthenticated: total,
        unauthenticated_per_address: total.min(MAX_IDLE_PER_ADDRESS),
        authenticated: total - total.div_ceil(4),
        authenticated_per_identity: MAX_BUSY_PER_ADDRESS,
    }
}

/// The connection of a request.
#[derive(Clone)]
pub struct Connection {
    admitted: Arc<Admitted>,
    address: IpAddr,
}

impl Connection {
    pub fn new(admitted: Arc<Admitted>, address: IpAddr) -> Self {
        Self { admitted, address: counted_address(address) }
    }

    /// Notes that its request is authenticated: it is protected until the response was sent, if its address does not have too
    /// many of these already. Requests with the token in the array's folder are counted by themselves.
    pub fn authenticated(&self, caller: &Caller) {
        let _is_protected = match caller.credential {
            Credential::Machine => self.admitted.prove("machine"),
            _ => self.admitted.prove(&self.address.to_string()),
        };
    }
}

/// The event streams that are open.
pub struct Streams {
    max: usize,
    open: Mutex<HashMap<String, usize>>,
}

impl Streams {
    /// At most half of the connections are streams.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { max: MAX_STREAMS.min(limits.total.div_ceil(2)), open: Mutex::default() })
    }

    /// A place for a stream of a caller.
    ///
    /// # Errors
    /// If there are too many of the caller, or in all.
    pub fn take(self: &Arc<Self>, caller: &Caller) -> Result<StreamPlace, Problem> {
        let of = match caller.credential {
            // A token that acts for several users is one.
            Credential::Token(id) => format!("token {:016x}", id.0),
            _ => caller.credential_key(),
        };
        let mut open = self.open.lock();
        if open.get(&of).is_some_and(|count| *count >= MAX_STREAMS_PER_CALLER) {
            return Err(Problem::too_many(format!(
                "this token or user has {MAX_STREAMS_PER_CALLER} event streams already: close one first"
            )));
        }
        if open.values().sum::<usize>() >= self.max {
            return Err(Problem::busy(format!(
                "the array sends {} event streams already: close one, or try again later",
                self.max
            )));
        }
        *open.entry(of.clone()).or_default() += 1;
        drop(open);
        Ok(StreamPlace { streams: self.clone(), of })
    }
}

/// The place of an open event stream; free when it is dropped.
pub struct StreamPlace {
    streams: Arc<Streams>,
    of: String,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.streams.open.lock();
        if let Some(count) = open.get_mut(&self.of) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use array::{Role, TokenId};
    use std::pin::pin;
    use std::task::{Context, Waker};
    use transport::Admission;

    fn caller(token: u64) -> Caller {
        Caller { role: Role::Viewer, credential: Credential::Token(TokenId(token)), ..Caller::array() }
    }

    fn gives_way(connection: &Connection) -> bool {
        pin!(connection.admitted.gives_way()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn requests_of_any_number_of_addresses_and_tokens_keep_no_client_out() {
        for sockets in [6, 40, MAX_SOCKETS] {
            let admission = Admission::new(connection_limits(sockets));
            let connect = |last: u8| {
                let address = IpAddr::from([10, 0, 0, last]);
                Connection::new(Arc::new(admission.admit(address).unwrap()), address)
            };
            let mut open = Vec::new();
            for number in 0..1000 {
                let connection = connect(number as u8 % 5);
                connection.authenticated(&caller(number));
                open.push(connection);
            }
            let here = IpAddr::from([127, 0, 0, 1]);
            let local = Connection::new(Arc::new(admission.admit(here).unwrap()), here);
            let more: Vec<_> = (0..1000).map(|number| connect(number as u8)).collect();
            assert!(!gives_way(&local) && !gives_way(more.last().unwrap()), "{sockets}");
            assert!(more.iter().take(700).all(gives_way), "{sockets}");
        }
    }

    #[test]
    fn streams_are_limited_by_token_and_in_all() {
        let streams = Streams::new(connection_limits(MAX_SOCKETS));
        let of = |token, count| (0..count).map(|_| streams.take(&caller(token))).collect::<Vec<_>>();
        let one = of(1, 20);
        assert_eq!(one.iter().filter(|it| it.is_ok()).count(), MAX_STREAMS_PER_CALLER);
        assert_eq!(one.last().unwrap().as_ref().err().unwrap().status, 429);
        let others: Vec<_> = (2..20).flat_map(|token| of(token, 16)).collect();
        assert_eq!(one.iter().chain(&others).filter(|it| it.is_ok()).count(), MAX_STREAMS);
        assert_eq!(others.last().unwrap().as_ref().err().unwrap().status, 503);
        drop(one);
        assert!(streams.take(&caller(1)).is_ok());
        drop(others);
        assert!(streams.open.lock().is_empty());
    }
}
