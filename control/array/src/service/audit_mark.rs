//! Whether the audit log still has its newest entries. The log is a file of this machine, which a fault or an intruder can remove
//! or empty; the number of its newest entry is stored with the configuration on the drives.

use crate::Result;
use crate::configuration::put_records;
use crate::parts::env::Env;
use crate::service::condition::{self, Conditions};
use engine::Engine;
use history::{Severity, Store};
use parking_lot::Mutex;
use records::{AUDIT_MARK, AuditLoss, AuditMark};
use std::sync::Arc;

/// How often the log is looked at, and how often at most the mark is stored, in seconds.
const LOOK_INTERVAL_SECONDS: u64 = 5;
const STORE_INTERVAL_SECONDS: u64 = 60;
/// How long a loss is reported, in seconds.
const REPORTED_SECONDS: u64 = 30 * 86_400;

/// Watches the audit log.
pub(crate) struct AuditWatch {
    env: Arc<Env>,
    engine: Arc<Engine>,
    history: Arc<Store>,
    state: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    mark: Option<AuditMark>,
    /// What is stored, and when it was, in seconds since 1970.
    stored: Option<AuditMark>,
    stored_at: u64,
    looked_at: u64,
}

impl AuditWatch {
    /// With the mark that the engine holds.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn load(env: Arc<Env>, engine: Arc<Engine>, history: Arc<Store>) -> Result<Self> {
        let found = engine.records(AUDIT_MARK).into_iter().find(|(key, _)| key == AUDIT_MARK);
        let mark = found.map(|(_, value)| AuditMark::read(&value)).transpose()?;
        let state = Mutex::new(Seen { stored: mark.clone(), mark, ..Seen::default() });
        Ok(Self { env, engine, history, state })
    }

    /// Looks at the log, and stores its newest number when that is due.
    pub async fn watch(&self) {
        let now = self.env.seconds();
        if now.abs_diff(self.state.lock().looked_at) < LOOK_INTERVAL_SECONDS {
            return;
        }
        // While the file can't be used, there is an alert about that, and memory has only a part.
        let newest = match self.history.outage() {
            Some(_) => return,
            None => self.history.newest_audit(),
        };
        let newest = match newest {
            Ok(newest) => newest,
            Err(error) => return tracing::error!(%error, "the audit log can't be read"),
        };
        let due = {
            let mut state = self.state.lock();
            let loss = state.mark.as_ref().filter(|mark| newest < mark.newest);
            let loss = loss.map(|mark| AuditLoss { found: now, newest, expected: mark.newest });
            if let Some(AuditLoss { expected, .. }) = &loss {
                tracing::error!(newest, expected, "the audit log has lost its newest entries");
            }
            let is_new = loss.is_some();
            let loss = loss.or_else(|| state.mark.as_ref().and_then(|mark| mark.loss.clone()));
            state.mark = Some(AuditMark { newest, loss });
            state.looked_at = now;
            let may = is_new || now.abs_diff(state.stored_at) >= STORE_INTERVAL_SECONDS;
            state.mark.clone().filter(|_| may && state.mark != state.stored)
        };
        if let Some(mark) = due {
            self.store(mark, now).await;
        }
    }

    async fn store(&self, mark: AuditMark, now: u64) {
        if self.engine.stopped().is_some() {
            return;
        }
        // A loss of power must not look like one of entries.
        if let Err(error) = self.history.make_durable() {
            return tracing::error!(%error, "the audit log can't be made durable");
        }
        let (key, value) = mark.record();
        match put_records(&self.engine, vec![(key, Some(value))]).await {
            Ok(()) => {
                let mut state = self.state.lock();
                (state.stored, state.stored_at) = (Some(mark), now);
            }
            Err(error) => {
                tracing::error!(%error, "the mark of the audit log can't be stored; this is tried again");
            }
        }
    }

    /// The condition of a loss.
    pub fn conditions(&self, now: u64) -> Conditions {
        let mut found = Conditions::default();
        let loss = self.state.lock().mark.as_ref().and_then(|mark| mark.loss.clone());
        if let Some(loss) = loss.filter(|loss| now.abs_diff(loss.found) < REPORTED_SECONDS) {
            condition::add(&mut found, "audit.lost", Severity::Critical, None, &|| {
                let AuditLoss { found, newest, expected } = loss;
                let left = if newest == 0 {
                    "it is empty".into()
                } else {
                    format!("its newest entry is number {newest}")
                };
                format!(
                    "the audit log has lost entries: {left}, and there was a number {expected} (found {}). Unless the data folder \
                     was replaced on purpose, an intruder may have removed them: compare with the copies that syslog receivers \
                     have",
                    history::utc(found)
                )
            });
        }
        found
    }
}
