//! The API of a controller of a cluster that is not the home: it passes connections on to the home, or answers which controller
//! that is.
//!
//! It has the socket of the API from its start, so that the array's own API has it without a gap when the controller
//! becomes the home.

use crate::board::{Board, reachable};
use crate::certificate;
use crate::controller::MapWatch;
use crate::link::Link;
use crate::listening::Config;
use crate::relay::Relay;
use anyhow::{Context, Result};
use api::Token;
use api::standby::Standby;
use machine::{access, fatal, threads};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// The socket of the API.
pub fn listen(config: &Config) -> Result<TcpListener> {
    let listener = TcpListener::bind(config.address).and_then(|it| it.set_nonblocking(true).map(|()| it));
    listener.with_context(|| format!("can't listen on {}", config.address))
}

/// The scheme of the URL of the API.
pub fn scheme(config: &Config) -> &'static str {
    if config.plain_http() { "http" } else { "https" }
}

/// The URL of the API at an address, by the name of the machine where the address is that of all.
pub fn url(config: &Config, address: SocketAddr, machine: &str) -> String {
    format!("{}://{}", scheme(config), reachable(address, machine))
}

/// The answers of a standby, until they are stopped.
pub struct Answers {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Answers {
    /// Begins to answer, and shows local programs where. Connections are passed on over a link, if there is one.
    pub fn start(
        config: &Config,
        connections: usize,
        listener: TcpListener,
        (board, link): (Arc<Board>, Option<(Link, MapWatch)>),
    ) -> Result<Self> {
        let tls = certificate::of_standby(config)?;
        let url = url(config, listener.local_addr()?, "localhost");
        let token = access::token(&config.data)?;
        access::show_standby(&config.data, &url, &token);
        let own = listener.local_addr()?;
        let relay = link.map(|(link, map)| Relay::new(link, map, (&config.data, Token::new(&token))));
        let plain = config.plain_http();
        let secret = || access::secret::<16>().expect("the system gave random numbers before");
        let standby = Standby { referral: Arc::new(move || board.referral()), secret: Arc::new(secret) };
        let runtime = threads::management()?;
        let (stop, stopped) = oneshot::channel();
        let thread = threads::named("standby", move || {
            runtime.block_on(async {
                let listener = match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => listener,
                    Err(error) => fatal::stop(&format!("the API can't listen: {error}")),
                };
                let pass_on = relay.as_ref().map(Relay::pass_on);
                if let Some(relay) = relay {
                    tokio::spawn(async move { relay.learn(own).await });
                }
                api::standby::serve(listener, (tls, plain), (standby, pass_on), connections, async {
                    // Ends when the sender is dropped as well.
                    _ = stopped.await;
                })
                .await;
            });
            runtime.shutdown_background();
        })?;
        tracing::info!(api = url, "this controller is a standby: its API names the home");
        Ok(Self { stop, thread })
    }

    /// Ends them: something else answers at the same address.
    pub fn stop(self) {
        drop(self.stop);
        // A panic there has ended the process already.
        _ = self.thread.join();
    }
}

#[cfg(test)]
#[path = "standby_test.rs"]
mod tests;
