//! The API at every controller: one that is not the home passes connections on to the home, which answers them as if they were its
//! own. TLS is between client and home, so clients see the certificate of the array wherever they connect.
//!
//! A connection has one of its own to the home, with mutual TLS, whose first message says where the client comes from.

use crate::certificate;
use crate::controller::MapWatch;
use crate::front;
use crate::link::{HANDSHAKE_TIMEOUT, Link};
use crate::message::SideProtocol;
use crate::mutual_tls::{Protocol, Session};
use anyhow::{Context, Result};
use api::{PassOn, Passed, Relayed, Stream, Token};
use cluster::MapMember;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// The protocol of connections of the API that are passed on.
pub(crate) const API: SideProtocol = SideProtocol::new(
    Protocol { name: b"ashlar-api", exporter_label: b"EXPORTER-ashlar-api" },
    ["the other controller", "passing the API on"],
    1 << 20,
    HANDSHAKE_TIMEOUT,
);
/// Pause before the home is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// Takes connections of the API that other controllers pass on.
pub type TakeApi = Arc<dyn Fn(Box<dyn Stream>, Relayed) + Send + Sync>;

/// What the controller says that passes a connection on.
#[derive(Serialize, Deserialize)]
struct Hello {
    /// Where it comes from.
    client: SocketAddr,
    /// The address that it reached.
    reached: IpAddr,
    /// Whether plain HTTP is answered there.
    plain: bool,
    /// The digest of the token in that controller's data folder.
    token: String,
}

/// What the home says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    /// What follows is the client's.
    Taken {
        /// The certificate that it sees, with those of its issuers.
        certificate: String,
    },
}

/// Gives a connection that another controller passes on to the API of this one, which is the home.
///
/// # Errors
/// Why it does not. `data`: the data folder of this controller.
pub async fn answer(mut session: Session, take: &TakeApi, data: &Path) -> Result<()> {
    let Hello { client, reached, plain, token } = API.asked(&mut session.stream).await?;
    let token = Some(Token::of_digest(&token).context("it has sent a token that is none")?);
    API.answer(&mut session.stream, &Reply::Taken { certificate: certificate::published(data) }).await?;
    take(Box::new(session.stream), Relayed { address: client, reached, plain, token });
    Ok(())
}

/// What passes connections on to the home.
pub struct Relay {
    link: Link,
    map: MapWatch,
    /// The digest of the token in the data folder.
    token: String,
    data: PathBuf,
}

impl Relay {
    /// Of a controller with this token in its data folder.
    pub fn new(link: Link, map: MapWatch, (data, token): (&Path, Token)) -> Arc<Self> {
        Arc::new(Self { link, map, token: token.digest(), data: data.to_owned() })
    }

    /// Passes connections on.
    pub fn pass_on(self: &Arc<Self>) -> PassOn {
        let relay = self.clone();
        Arc::new(move |passed| Box::pin(relay.clone().pass(passed)))
    }

    /// Learns the array's certificate from each home, forever, so that the first program here that asks for it trusts it.
    pub async fn learn(&self, own: SocketAddr) {
        let mut map = self.map.clone();
        let mut known = None;
        loop {
            let home = front::home(&self.link, &self.map);
            let process = home.as_ref().map(|home| (home.id, home.joined));
            if let Some(home) = home.filter(|_| known != process) {
                match timeout(HANDSHAKE_TIMEOUT, self.ask(&home, (own, own.ip()), false)).await {
                    Ok(Ok(_)) => known = process,
                    _ => sleep(RETRY).await,
                }
                continue;
            }
            if map.changed().await.is_err() {
                return;
            }
        }
    }

    /// Passes a connection on to its end; returns it if the home does not take it.
    async fn pass(self: Arc<Self>, Passed { mut stream, address, plain }: Passed) -> Option<TcpStream> {
        let Some(home) = front::home(&self.link, &self.map) else { return Some(stream) };
        let asking = async {
            let reached = stream.local_addr()?.ip();
            timeout(HANDSHAKE_TIMEOUT, self.ask(&home, (address, reached), plain))
                .await
                .context("it does not respond in time")?
        };
        let mut session = match asking.await {
            Ok(session) => session,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::debug!(home = home.id, error, "a connection of the API can't be passed on");
                return Some(stream);
            }
        };
        if let Err(error) = copy_bidirectional(&mut stream, &mut session.stream).await {
            tracing::debug!(%address, %error, "a connection of the API that was passed on broke");
        }
        None
    }

    /// Asks the home to take a connection.
    async fn ask(
        &self,
        home: &MapMember,
        (client, reached): (SocketAddr, IpAddr),
        plain: bool,
    ) -> Result<Session> {
        let mut session = self.link.connect(home, API.tls).await?;
        let hello = Hello { client, reached, plain, token: self.token.clone() };
        let Reply::Taken { certificate } = API.ask(&mut session.stream, &hello).await?;
        certificate::trust_home(&self.data, &certificate);
        Ok(session)
    }
}
