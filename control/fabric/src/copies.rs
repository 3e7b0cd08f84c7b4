//! The history at every controller: the home sends what it records to the front ends, each of which keeps a copy in its data
//! folder. So sign-ins, events, alerts, the audit log and measurements are there after a takeover.
//!
//! It has connections of its own, beside the link, so that no command of a host waits for it. A front end connects
//! and says up to where it has the history; the home sends the rest, and then what changes. Each part is
//! acknowledged, so that the home is never ahead by more than one. What was recorded in the last moments before a
//! home died may be missing at the next one; the former home brings it when it is back.

use crate::board;
use crate::controller::MapWatch;
use crate::front;
use crate::link::{LastReason, Link, TICK};
use crate::message::SideProtocol;
use crate::mutual_tls::{Protocol, Session};
use anyhow::{Context, Result};
use array::framed;
use cluster::MapMember;
use history::{Batch, Copier, Position, Store};
use machine::threads::{self, Worker};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

/// The protocol of a front end that copies the history.
pub(crate) const HISTORY: SideProtocol = SideProtocol::new(
    Protocol { name: b"ashlar-history", exporter_label: b"EXPORTER-ashlar-history" },
    ["the front end", "copying the history"],
    MAX_MESSAGE_BYTES,
    SILENCE,
);
/// Longest message: the measurements of one moment are sent as a whole.
const MAX_MESSAGE_BYTES: u32 = 64 << 20;
/// Interval of signs of life while nothing changes.
const ALIVE: Duration = Duration::from_secs(1);
/// How long the other end may be silent.
const SILENCE: Duration = Duration::from_secs(10);
/// Pause before the home is connected to again.
const RETRY: Duration = Duration::from_secs(1);
/// The same where that is of no use before one of both was updated, or a file system has room again.
const LONG_RETRY: Duration = Duration::from_secs(10);
/// The file in the data folder.
pub const FILE: &str = "history.db";

/// What a front end says first.
#[derive(Serialize, Deserialize)]
struct Hello {
    position: Position,
}

/// What the home says to that.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    /// Batches follow.
    Sends,
}

/// An acknowledgement of a batch.
#[derive(Serialize, Deserialize)]
struct Taken {}

/// Work with SQLite, beside the tasks of this thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    // A panic there has ended the process already.
    spawn_blocking(work).await.context("the process ends")?
}

/// How far a front end is.
#[derive(Default)]
pub struct Progress(AtomicU64);

impl Progress {
    /// True if it has acknowledged as many changes.
    pub fn has(&self, changes: u64) -> bool {
        self.0.load(Relaxed) > changes
    }
}

/// Sends the history to a front end until the connection breaks.
///
/// # Errors
/// Why it ends.
pub async fn answer(mut session: Session, store: Arc<Store>, progress: &Progress) -> Result<()> {
    let stream = &mut session.stream;
    let Hello { position } = HISTORY.asked(stream).await?;
    HISTORY.answer(stream, &Reply::Sends).await?;
    let of_store = store.clone();
    let mut copier = blocking(move || {
        of_store.absorb(&position)?;
        Ok(of_store.copier(&position)?)
    })
    .await?;
    let mut alive = Instant::now();
    loop {
        if !copier.has_more() && alive.elapsed() < ALIVE {
            sleep(TICK).await;
            continue;
        }
        let (encoded, next) = next(copier, store.clone()).await?;
        copier = next;
        alive = Instant::now();
        let exchange = async {
            framed::write(stream, &encoded).await?;
            framed::receive::<Taken>(stream, MAX_MESSAGE_BYTES).await
        };
        timeout(SILENCE, exchange).await.context("it does not acknowledge the sent messages")??;
        progress.0.store(copier.sent().map_or(0, |sent| sent + 1), Relaxed);
    }
}

/// The next batch in the form in which it is sent.
async fn next(mut copier: Copier, store: Arc<Store>) -> Result<(Vec<u8>, Copier)> {
    blocking(move || {
        let batch = copier.next_batch(&store)?;
        Ok((framed::encode(&batch)?, copier))
    })
    .await
}

/// Begins to copy the history of the home to a data folder, by a thread of its own: SQLite waits for the file system. The file can
/// be opened after its end.
///
/// # Errors
/// If there is no thread.
pub fn start(link: Link, map: MapWatch, data: &Path) -> Result<Worker> {
    let follower = Follower { link, map, path: data.join(FILE), store: None };
    threads::worker("history", threads::management()?, follower.run())
}

struct Follower {
    link: Link,
    map: MapWatch,
    path: PathBuf,
    /// The copy, once there was a home to copy from.
    store: Option<Store>,
}

impl Follower {
    async fn run(mut self) {
        let mut reason = LastReason::default();
        loop {
            let Some(home) = front::home(&self.link, &self.map) else {
                sleep(RETRY).await;
                continue;
            };
            let Err(error) = self.copy(&home, &mut reason).await else { continue };
            let pause = match reason.note(&error) {
                Some(error) => {
                    tracing::warn!(home = home.id, error, "the history of the home can't be copied");
                    RETRY
                }
                None => LONG_RETRY,
            };
            sleep(pause).await;
        }
    }

    /// Copies until the connection breaks, or another controller is the home.
    async fn copy(&mut self, home: &MapMember, reason: &mut LastReason) -> Result<()> {
        let mut session = self.link.connect(home, HISTORY.tls).await?;
        let store = self.store.get_or_insert_with(|| Store::open(&self.path));
        store.retry_file(board::time());
        let position = store.position().context("the file can't be used")?;
        let stream = &mut session.stream;
        let Reply::Sends = HISTORY.ask(stream, &Hello { position }).await?;
        let mut is_complete = false;
        loop {
            let next = timeout(SILENCE, framed::receive::<Batch>(stream, MAX_MESSAGE_BYTES));
            let batch = next.await.context("it is silent")??;
            store.apply(&batch)?;
            framed::send(stream, &Taken {}).await?;
            if batch.is_empty() && !std::mem::replace(&mut is_complete, true) {
                reason.clear();
                tracing::info!(home = home.id, "this controller has the history of the home");
            }
            let now = front::home(&self.link, &self.map);
            if now.is_none_or(|now| (now.id, now.joined) != (home.id, home.joined)) {
                return Ok(());
            }
        }
    }
}
