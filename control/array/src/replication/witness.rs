//! Witnesses: a third array decides which array of a synchronous replication continues alone, so that a failover
//! needs no operator.
//!
//! Every array may be one, for those that it is paired with: it keeps a ruling for each replication, durably. The
//! source reports its sessions, and asks before it continues alone; the target asks before it promotes itself.
//! Neither is in a session while it asks. What is granted when is in [`replication::witness`].

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::parts::hex::is_fingerprint;
use crate::parts::remote_link::{Reply, Wish};
use crate::replication::begun::Begun;
use crate::service::caller::Caller;
use crate::service::replication_env::ReplicationEnv;
use crate::service::witnesses::Patience;
use crate::{Error, Result};
use bytes::Bytes;
use history::Severity;
use records::{Named, RemoteArrayEntry, RemoteArrayId, ReplicationEntry, ReplicationRole, Role};
use replication::witness::{Answer, End, Request, Ruling, decide, source_claim};
use replication::{MirrorState, RULINGS, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Interval at which it is looked whether a witness has to be asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// Time in which a witness has to respond. No session begins in that time.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Replications of which an array is the witness.
const MAX_RULINGS: usize = 4096;

/// A ruling as it is kept, with the certificates of both arrays: SHA-256 in hex digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    source: String,
    target: String,
    ruling: Ruling,
}

/// Which end may send a request.
fn sender(request: Request) -> End {
    match request {
        Request::Enroll { .. } | Request::Join { .. } => End::Source,
        Request::Alone { end, .. } => end,
    }
}

/// The session that a target may name to its witness.
fn claim(
    target: Arc<Target<ReplicationEnv>>,
    number: u128,
) -> Pin<Box<dyn Future<Output = replication::Result<Option<u64>>> + Send>> {
    Box::pin(async move { target.claim(number).await })
}

/// This array as a witness.
impl Array {
    /// Decides, for the array with this certificate. The ruling is durable when this returns.
    pub(crate) async fn rule(
        &self,
        asker: &str,
        number: &str,
        target: Option<&str>,
        request: Request,
    ) -> Result<Reply> {
        let paired = self.config().remote_arrays.iter().find(|known| known.fingerprint == asker).cloned();
        let paired = paired.ok_or_else(|| {
            Error::precondition(
                "it is not paired with this array any more: delete it there, and pair it again",
            )
        })?;
        self.links.note_heard(&paired, None);
        if target.is_some() && !matches!(request, Request::Enroll { .. }) {
            return Err(Error::invalid("only the source names a target, when it begins a session"));
        }
        if !target.is_none_or(is_fingerprint) {
            return Err(Error::invalid("a target is named by the fingerprint of its certificate"));
        }
        let number =
            u128::from_str_radix(number, 16).map_err(|_| Error::invalid("no number of a replication"))?;
        let _one_at_a_time = self.replicas.witnesses.rulings.lock().await;
        let (key, engine) = (format!("{RULINGS}{number:032x}"), &self.parts.engine);
        let known = self.kept_ruling(&key)?;
        let party = known.as_ref().map(|known| match sender(request) {
            End::Source => &known.source,
            End::Target => &known.target,
        });
        if party.is_some_and(|party| party != asker) {
            return Err(Error::precondition("another array has this end of the replication"));
        }
        let (ruling, answer) = decide(known.as_ref().map(|known| known.ruling), request);
        let kept = match (&known, ruling, target) {
            (_, None, _) => None,
            (_, Some(ruling), Some(target)) => {
                Some(Kept { source: asker.to_owned(), target: target.to_owned(), ruling })
            }
            (Some(known), Some(ruling), None) => Some(Kept { ruling, ..known.clone() }),
            (None, Some(_), None) => return Err(Error::invalid("a replication without a target")),
        };
        if known.is_none() && kept.is_some() && engine.records(RULINGS).len() >= MAX_RULINGS {
            return Err(Error::precondition(format!(
                "it is the witness of {MAX_RULINGS} replications already"
            )));
        }
        let stored = match kept.filter(|kept| known.as_ref() != Some(kept)) {
            Some(kept) => {
                let value = serde_json::to_vec(&kept).expect("text and numbers");
                engine.put_records(vec![(key, Some(Bytes::from(value)))]).await
            }
            // What was put by a request that was given up may not be durable yet.
            None => engine.confirm_records().await,
        };
        stored.map_err(|error| Error::failed("the decision can't be stored", error))?;
        Ok(Reply::Ruled { answer })
    }

    fn kept_ruling(&self, key: &str) -> Result<Option<Kept>> {
        let found = self.parts.engine.records(key).into_iter().find(|(known, _)| known == key);
        let parsed = found.map(|(_, value)| serde_json::from_slice(&value));
        parsed.transpose().map_err(|error| Error::failed("the decision can't be read", error))
    }

    /// The deletion of the rulings for an array that is not paired any more.
    pub(crate) fn rulings_for(&self, fingerprint: &str) -> Vec<(String, Option<Bytes>)> {
        let all = self.parts.engine.records(RULINGS).into_iter();
        let of_array = |value: &[u8]| {
            let kept = serde_json::from_slice::<Kept>(value);
            kept.is_ok_and(|kept| kept.source == fingerprint || kept.target == fingerprint)
        };
        all.filter(|(_, value)| of_array(value)).map(|(key, _)| (key, None)).collect()
    }
}

/// This array as one that asks.
impl Array {
    /// The witness of a replication, if this array is paired with it.
    pub(crate) fn witness_of(&self, entry: &ReplicationEntry) -> Option<RemoteArrayEntry> {
        let config = self.config();
        match entry.role {
            ReplicationRole::Source => config.remote_arrays.get(entry.witness?).cloned(),
            ReplicationRole::Target => {
                let fingerprint = entry.witness_fingerprint.as_ref()?;
                config.remote_arrays.iter().find(|it| it.fingerprint == *fingerprint).cloned()
            }
        }
    }

    async fn ask_witness(
        &self,
        entry: &ReplicationEntry,
        request: Request,
    ) -> std::result::Result<Answer, String> {
        let witness = self.witness_of(entry).ok_or("this array is not paired with it")?;
        let target = match request {
            Request::Enroll { .. } => Some(self.remote_of(entry).map_err(|error| error.message)?.fingerprint),
            _ => None,
        };
        let wish = Wish::Rule { number: format!("{:032x}", entry.number()), target, request };
        match self.connect_with(&witness, wish, RESPONSE_TIMEOUT).await? {
            (_, Reply::Ruled { answer }) => Ok(answer),
            _ => Err("it responded to another request".to_owned()),
        }
    }

    /// Reports sessions to witnesses, and asks them after a loss, forever. No witness waits for another one.
    pub(crate) async fn watch_witnesses(self: Arc<Self>) {
        let mut asking = Begun::new();
        loop {
            for (witness, entries) in self.by_witness() {
                asking.begin(witness, || self.clone().consult(witness, entries));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Reports sessions to all witnesses, and asks them where both arrays have lost each other, once and at once.
    pub async fn consult_witnesses(self: &Arc<Self>) {
        let by_witness = self.by_witness().into_iter();
        let asking: JoinSet<()> =
            by_witness.map(|(witness, entries)| self.clone().consult(witness, entries)).collect();
        asking.join_all().await;
    }

    /// The replications that have a witness; `None` has those whose witness is not paired with this array.
    fn by_witness(&self) -> BTreeMap<Option<RemoteArrayId>, Vec<ReplicationEntry>> {
        let mut found: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for entry in self.config().replications.iter().filter(|it| it.has_witness()) {
            let witness = self.witness_of(entry).map(|witness| witness.id);
            found.entry(witness).or_default().push(entry.clone());
        }
        found
    }

    /// Reports to one witness, and asks it.
    async fn consult(self: Arc<Self>, witness: Option<RemoteArrayId>, entries: Vec<ReplicationEntry>) {
        for entry in entries {
            let outcome = match (witness, entry.role) {
                (None, _) => Err("this array is not paired with it".into()),
                (_, ReplicationRole::Source) => self.consult_as_source(&entry).await,
                (_, ReplicationRole::Target) => self.consult_as_target(&entry).await,
            };
            let now = self.env.uptime_seconds();
            match outcome {
                Ok(false) => {}
                Ok(true) => self.replicas.witnesses.note_problem(entry.id, None, now),
                Err(problem) => {
                    self.replicas.witnesses.note_refused(entry.id, now);
                    self.replicas.witnesses.note_problem(entry.id, Some(problem), now);
                    // It would be waited for again.
                    if witness.is_some() {
                        return;
                    }
                }
            }
        }
    }

    /// Says to the witness of a source what it has to know, or asks it; whether it has answered.
    async fn consult_as_source(&self, entry: &ReplicationEntry) -> std::result::Result<bool, String> {
        let (witnesses, now) = (&self.replicas.witnesses, self.env.uptime_seconds());
        if entry.demoted.is_some() || entry.paused || entry.split || witnesses.is_waiting(entry.id, now) {
            return Ok(false);
        }
        match self.replicas.mirrors.of(entry).state() {
            MirrorState::InSync => {
                witnesses.note_together(entry.id);
                self.report_session(entry).await
            }
            MirrorState::Held | MirrorState::Stopped => {
                match witnesses.is_time_to_ask(entry.id, Patience::Source, now) {
                    true => self.ask_to_go_alone(entry).await,
                    false => Ok(false),
                }
            }
            MirrorState::CatchingUp | MirrorState::Joining => match witnesses.is_enrolled(entry.id) {
                true => Ok(false),
                false => self.enroll(entry).await,
            },
        }
    }

    async fn enroll(&self, entry: &ReplicationEntry) -> std::result::Result<bool, String> {
        let points = self.replicas.points(entry);
        let session = points.last().map_or(1, replication::Point::next_session);
        self.ask_witness(entry, Request::Enroll { session }).await?;
        self.replicas.witnesses.note_enrolled(entry.id, true);
        Ok(true)
    }

    /// Reports that both arrays are the same.
    async fn report_session(&self, entry: &ReplicationEntry) -> std::result::Result<bool, String> {
        let (witnesses, now) = (&self.replicas.witnesses, self.env.uptime_seconds());
        let session = source_claim(&self.parts.engine, entry.number()).await;
        let session = session.map_err(|error| error.to_string())?;
        let Some(session) = session.filter(|session| witnesses.must_report(entry.id, *session, now)) else {
            return Ok(false);
        };
        match self.ask_witness(entry, Request::Join { session }).await? {
            Answer::Granted => {
                witnesses.note_reported(entry.id, session, now);
                Ok(true)
            }
            Answer::Unknown => {
                // It decides for sessions that begin after it knows the replication.
                self.enroll(entry).await?;
                self.replicas.stop(entry.id);
                Ok(false)
            }
            Answer::Other | Answer::Outdated => match self.replicas.mirrors.of(entry).state() {
                MirrorState::InSync => Err("it has decided about a newer session, or this one".into()),
                // The session has been lost since.
                _ => Ok(false),
            },
        }
    }

    /// A source that has lost its session continues alone, or learns that the target does.
    async fn ask_to_go_alone(&self, entry: &ReplicationEntry) -> std::result::Result<bool, String> {
        let _held = self.replicas.hold(entry.id).await;
        let waits = || {
            let state = self.replicas.mirrors.of(entry).state();
            matches!(state, MirrorState::Held | MirrorState::Stopped)
        };
        let session = source_claim(&self.parts.engine, entry.number()).await;
        let session = session.map_err(|error| error.to_string())?.filter(|_| waits());
        let Some(session) = session else { return Ok(false) };
        let answer = self.ask_witness(entry, Request::Alone { session, end: End::Source }).await?;
        let caller = Caller::array();
        let mut tx = Transaction::new(self, &caller);
        tx.enter(Role::Admin).await.map_err(|error| error.message)?;
        // A verb may have come between; what was granted is granted again.
        let Some(entry) = self.unchanged(entry).filter(|_| waits()) else { return Ok(false) };
        let done = match answer {
            Answer::Granted => {
                let cause = "the other array can't be reached, and the witness has agreed";
                tx.go_alone(&entry, cause).await
            }
            Answer::Other => tx.demote_replication(&entry.name, true).await.map(drop),
            Answer::Outdated | Answer::Unknown => {
                return Err(
                    "it does not know the session that was lost: restore the connection, or decide yourself \
                            which array continues alone"
                        .into(),
                );
            }
        };
        done.map(|()| true).map_err(|error| error.message)
    }

    /// A replication if it is configured as before, but for what this array notes itself.
    pub(crate) fn unchanged(&self, entry: &ReplicationEntry) -> Option<ReplicationEntry> {
        let now = self.config().replications.get(entry.id).cloned()?;
        let (lost_session, alone_since) = (now.lost_session, now.alone_since);
        let before = ReplicationEntry { lost_session, alone_since, ..entry.clone() };
        (now == before).then_some(now)
    }

    /// The session that a target may name to its witness.
    async fn target_claim(&self, entry: &ReplicationEntry) -> std::result::Result<Option<u64>, String> {
        let remote = self.remote_of(entry).map_err(|error| error.message)?;
        let target = self.replication_target(&remote).map_err(|error| error.message)?;
        claim(target, entry.number()).await.map_err(|error| error.to_string())
    }

    /// Asks for a target that takes part in no session, and lets none begin; `None` if it has nothing to ask for.
    async fn ask_for_target(&self, entry: &ReplicationEntry) -> std::result::Result<Option<Answer>, String> {
        let Some(session) = self.target_claim(entry).await? else { return Ok(None) };
        self.ask_witness(entry, Request::Alone { session, end: End::Target }).await.map(Some)
    }

    /// Before an operator promotes a target by force: the witness hears of it if it responds, so that the source does not go on.
    pub(crate) async fn report_promotion(&self, entry: &ReplicationEntry) {
        if entry.has_witness()
            && let Err(error) = self.ask_for_target(entry).await
        {
            tracing::warn!(replication = entry.name, error, "the witness can't be notified of a promotion");
        }
    }

    /// A target that has lost its source continues with what it has, if the witness agrees. Returns whether it has answered.
    async fn consult_as_target(&self, entry: &ReplicationEntry) -> std::result::Result<bool, String> {
        let (witnesses, now) = (&self.replicas.witnesses, self.env.uptime_seconds());
        let is_over = entry.promotion.is_some() || entry.demoted.is_some() || entry.paused;
        if is_over || self.replicas.is_active(entry.id) {
            witnesses.note_together(entry.id);
            return Ok(true);
        }
        // Nothing is held up where there is nothing to ask for.
        let claims = self.target_claim(entry).await?.is_some();
        if !claims || !witnesses.is_time_to_ask(entry.id, Patience::Target, now) {
            return Ok(false);
        }
        let _held = self.replicas.hold(entry.id).await;
        let Some(answer) = self.ask_for_target(entry).await? else { return Ok(false) };
        if answer != Answer::Granted {
            // The source continues, or no witness knew that both were the same.
            witnesses.note_refused(entry.id, now);
            return Ok(true);
        }
        let caller = Caller::array();
        let mut tx = Transaction::new(self, &caller);
        tx.enter(Role::Admin).await.map_err(|error| error.message)?;
        let Some(entry) = self.unchanged(entry) else { return Ok(false) };
        let promoted = tx.promote_replication(&entry.name, true, None).await;
        promoted.map_err(|error| error.message)?;
        let message = format!(
            "replication {:?} has failed over: its source is out of reach, and the witness has agreed. Connect the volumes to \
             hosts if they are not",
            entry.name
        );
        let about = Some((ReplicationEntry::NOUN, &*entry.name));
        self.log_event(Severity::Critical, "replication.failed-over", about, message);
        Ok(true)
    }

    /// Before this array, the source, continues alone by an operator's order: the witness, if there is one, has to
    /// agree that the target never does. No session may be up, nor begin. Not to be awaited by the holder of
    /// [`Configuration::change`](crate::configuration::Configuration::change).
    pub(crate) async fn consent_of_witness(&self, entry: &ReplicationEntry) -> Result<()> {
        if entry.witness.is_none() {
            return Ok(());
        }
        let session = source_claim(&self.parts.engine, entry.number()).await;
        let session = session.map_err(|error| Error::failed("the session can't be read", error))?;
        // After a demotion nothing is armed any more.
        let demoted = entry.lost_session.filter(|_| entry.demoted.is_some()).map(|lost| lost.session);
        let Some(session) = session.or(demoted) else { return Ok(()) };
        let name = &entry.name;
        match self.ask_witness(entry, Request::Alone { session, end: End::Source }).await {
            Ok(Answer::Granted) => Ok(()),
            Ok(Answer::Other) => Err(Error::precondition(format!(
                "the witness of {name:?} has let the target go on: demote the replication here with force"
            ))),
            Ok(Answer::Outdated | Answer::Unknown) => Err(Error::precondition(format!(
                "the witness of {name:?} does not know its last session: wait until both arrays are in sync, or take the witness \
                 from the replication"
            ))),
            Err(why) => Err(Error::precondition(format!(
                "the witness of {name:?} has to agree, and can't: {why}. Take the witness from the replication if the target is \
                 certainly not promoted"
            ))),
        }
    }
}

impl Transaction<'_> {
    /// Waits for the consent of the witness, if there is one, and lets other changes go first. Returns the replication as it is then.
    ///
    /// # Errors
    /// If the witness does not agree, or the replication was changed.
    pub(crate) async fn ask_for_consent(&mut self, entry: &ReplicationEntry) -> Result<ReplicationEntry> {
        if entry.witness.is_none() {
            return Ok(entry.clone());
        }
        let array = self.array;
        self.outside(array.consent_of_witness(entry)).await??;
        self.unchanged(entry)
    }

    /// The replication after a time in which other changes may have come.
    ///
    /// # Errors
    /// If it was changed.
    pub(crate) fn unchanged(&self, entry: &ReplicationEntry) -> Result<ReplicationEntry> {
        self.array.unchanged(entry).ok_or_else(|| {
            Error::conflict(format!(
                "replication {:?} was changed while another array was waited for: send the request again",
                entry.name
            ))
        })
    }

    /// Stores another witness, or none. The session under way ends: the next one is with the new witness. Until then
    /// a source that was in sync waits, as no witness decides.
    pub(crate) async fn change_witness(&mut self, new: &ReplicationEntry) -> Result<()> {
        let _held = self.array.replicas.hold(new.id).await;
        self.commit(vec![crate::noun::replication::put(new)]).await?;
        self.array.replicas.witnesses.forget(new.id);
        self.array.replicas.mirrors.set_policy(new);
        Ok(())
    }

    /// The witness of a replication by its name.
    pub(crate) fn witness_named(&self, entry: &ReplicationEntry, name: &str) -> Result<RemoteArrayEntry> {
        let config = self.array.config();
        let witness = config.remote_arrays.named(name)?;
        if witness.id == entry.remote {
            let message = "the witness is a third array: the target can't decide about itself";
            return Err(Error::invalid(message).about("witness"));
        }
        if witness.address.is_none() {
            return Err(Error::precondition(format!(
                "the address of remote array {name:?} is not known: set it, and let that array listen for others"
            )));
        }
        Ok(witness.clone())
    }
}
