//! Log-ins at every controller: a front end reports to the home which hosts logged in, logged out or were refused at its portals,
//! so that they are events of the array and operators see why a host can't log in there.
//!
//! Reports have connections of their own, beside the link, so that no command of a host waits for them. They are sent
//! once a second, and acknowledged. What a home could not acknowledge is sent again, so that it may count twice.

use crate::controller::MapWatch;
use crate::front;
use crate::link::{LastReason, Link};
use crate::message::SideProtocol;
use crate::mutual_tls::{Protocol, Session};
use anyhow::Result;
use array::{Array, LoginQueue, LoginReport, LoginReports, shared_numbers};
use cluster::MapMember;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// The protocol of a front end that reports log-ins.
pub(crate) const LOGINS: SideProtocol = SideProtocol::new(
    Protocol { name: b"ashlar-logins", exporter_label: b"EXPORTER-ashlar-logins" },
    ["the front end", "reporting log-ins"],
    // Reports are bounded, and so are the names and reasons in them.
    4 << 20,
    SILENCE,
);
/// Interval at which log-ins are reported.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same after a failure. A home of an older release does not know this protocol.
const RETRY: Duration = Duration::from_secs(10);
/// How long the other end may take to answer.
const SILENCE: Duration = Duration::from_secs(10);

/// Gives the array what was reported.
pub type PutLogins = Arc<dyn Fn(LoginReports) + Send + Sync>;

/// Gives them to this array.
pub fn into(array: Arc<Array>) -> PutLogins {
    Arc::new(move |reports| array.put_logins(reports))
}

/// What a front end says, once for a connection.
#[derive(Serialize, Deserialize)]
struct Hello {
    logins: LoginReports,
}

/// What the home says to that.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    /// The array has them.
    Taken,
}

/// Takes what a front end reports.
///
/// # Errors
/// Why nothing was taken, or that the front end may not know that it was.
pub async fn answer(mut session: Session, member: u16, put: &PutLogins) -> Result<()> {
    let Hello { mut logins } = LOGINS.asked(&mut session.stream).await?;
    // It has no other portals.
    let numbers = shared_numbers(member);
    logins.reports.retain(|LoginReport { portal, .. }| numbers.contains(portal));
    put(logins);
    LOGINS.answer(&mut session.stream, &Reply::Taken).await
}

/// Reports to the home what is in a queue, forever. While there is no home, reports wait; what exceeds the queue is counted.
pub async fn report((link, map): (Link, MapWatch), queue: Arc<LoginQueue>) -> Infallible {
    let mut reason = LastReason::default();
    loop {
        sleep(INTERVAL).await;
        let Some(home) = front::home(&link, &map) else { continue };
        let mut taken = Taken { logins: queue.take(), queue: &queue };
        if taken.logins.is_empty() {
            continue;
        }
        let Err(error) = send_once(&link, &home, &taken.logins).await else {
            taken.logins = LoginReports::default();
            reason.clear();
            continue;
        };
        drop(taken);
        if let Some(error) = reason.note(&error) {
            tracing::warn!(home = home.id, error, "log-ins at this controller can't be reported to the home");
        }
        sleep(RETRY).await;
    }
}

/// Reports that are being sent. They return to the queue unless the home has taken them.
struct Taken<'a> {
    logins: LoginReports,
    queue: &'a LoginQueue,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.queue.put(std::mem::take(&mut self.logins));
    }
}

async fn send_once(link: &Link, home: &MapMember, logins: &LoginReports) -> Result<()> {
    let mut session = link.connect(home, LOGINS.tls).await?;
    let Reply::Taken = LOGINS.ask(&mut session.stream, &Hello { logins: logins.clone() }).await?;
    Ok(())
}
