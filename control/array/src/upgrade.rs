//! Upgrade: which formats the array has and this software knows, and the commit to the newest.
//!
//! Software of another release may be installed at any time: opening the array changes nothing that the release before could not
//! read. What needs a newer format begins with the commit, after which earlier releases refuse the array.

use crate::array::Array;
use crate::membership::Controller;
use crate::request::verbs;
use crate::transaction::Transaction;
use crate::{Error, Result};
use engine::{INDEX_VERSION, NOTING_VERSION};
use export::{CURRENT_STATE_VERSION, OLDEST_STATE_VERSION};
use history::Severity;
use records::{Record, Topic};
use serde::Serialize;
use std::ops::RangeInclusive;

/// What a commit enables, by the format of the engine that it needs.
const ENABLED_BY: &[(u32, &str)] = &[
    (
        NOTING_VERSION,
        "commands of hosts are noted with their effect, so that a takeover by another controller repeats none and ends none with \
         an error; in force from the next start of the home on",
    ),
    (
        INDEX_VERSION,
        "the deduplication index is stored with the data, so that duplicates are found from the first second after a start or a \
         takeover",
    ),
];

/// The formats of the array, and what a commit would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Upgrade {
    /// The version of the software.
    pub software: String,
    /// The array has the newest format that the software knows.
    pub committed: bool,
    /// The formats.
    pub formats: Vec<Format>,
    /// What the commit enables; empty once it is done.
    pub enables: Vec<String>,
    /// Why it can't be committed now; `None` if it can, or is.
    pub blocked: Option<String>,
}

/// The format of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Format {
    /// The part.
    pub part: FormatPart,
    /// The one in use; `None` if each object, or each connection, has its own.
    pub active: Option<u32>,
    /// The oldest that the software reads or speaks.
    pub oldest: u32,
    /// The newest.
    pub newest: u32,
}

/// What has a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FormatPart {
    /// Volumes, maps and the journal's records. A commit raises it.
    Engine,
    /// The store on drives or in Ceph.
    Store,
    /// Records of the configuration.
    Records,
    /// Reservations and mode pages that are saved with a volume: each has the oldest that can hold it.
    UnitState,
    /// The link between arrays that replicate: the newest that both ends speak.
    ReplicationLink,
}

/// The formats of the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowUpgrade;

/// Raise the array to the newest format. Earlier releases refuse it from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommitUpgrade;

verbs! {
    ShowUpgrade -> Upgrade, Read "show" "upgrade", Viewer
        => |tx, _| Ok(tx.array.upgrade());
    CommitUpgrade -> Upgrade, Change "commit" "upgrade", Admin
        => |tx, _| tx.commit_upgrade().await;
}

fn format(part: FormatPart, active: Option<u32>, known: RangeInclusive<u32>) -> Format {
    Format { part, active, oldest: *known.start(), newest: *known.end() }
}

impl Array {
    /// The formats of the array.
    pub(crate) fn upgrade(&self) -> Upgrade {
        let (engine, pool) = (&self.parts.engine, &self.parts.pool);
        let (active, known) = (engine.format(), engine.formats());
        let committed = active >= *known.end();
        let later = ENABLED_BY.iter().filter(|(needs, _)| *needs > active && known.contains(needs));
        let enables = later.map(|(_, what)| (*what).to_owned()).collect();
        let (store, stores) = pool.format();
        let versions = || Record::DECLARATIONS.iter().map(|it| it.versions);
        let oldest = versions().map(|it| it.oldest).min().unwrap_or_default();
        let current = versions().map(|it| it.current).max().unwrap_or_default();
        let (links, states) = (replication::VERSIONS, OLDEST_STATE_VERSION..=CURRENT_STATE_VERSION);
        let blocked = prevents(&self.parts.controllers.controllers(), *known.end());
        Upgrade {
            software: self.version.clone(),
            committed,
            formats: vec![
                format(FormatPart::Engine, Some(active), known),
                format(FormatPart::Store, Some(store), stores),
                format(FormatPart::Records, Some(current), oldest..=current),
                format(FormatPart::UnitState, None, (*states.start()).into()..=(*states.end()).into()),
                format(FormatPart::ReplicationLink, None, (*links.start()).into()..=(*links.end()).into()),
            ],
            enables,
            blocked: blocked.filter(|_| !committed),
        }
    }
}

/// Why the array can't have this format: a controller that takes part could not serve it any more.
fn prevents(controllers: &[Controller], format: u32) -> Option<String> {
    let mut active = controllers.iter().filter(|it| it.state.takes_part());
    let older = active.find(|it| it.reads.unwrap_or_default() < format)?;
    let Controller { number, name, version, reads, .. } = older;
    let reads =
        reads.map_or_else(|| "does not report what it reads".into(), |it| format!("reads format {it}"));
    Some(format!(
        "controller {number} ({name}) runs version {version}, which {reads}, and could not take over an array in format {format}: \
         update it first"
    ))
}

impl Transaction<'_> {
    /// Raises the format; once it is durable nothing is left to do.
    async fn commit_upgrade(&mut self) -> Result<Upgrade> {
        let (array, before) = (self.array, self.array.upgrade());
        if before.committed {
            return Ok(before);
        }
        if let Some(why) = before.blocked {
            return Err(Error::precondition(why));
        }
        let raised = array.parts.engine.commit_format().await;
        raised.map_err(|error| Error::failed("the format of the array can't be raised", error))?;
        let after = array.upgrade();
        let [old, new] = [&before.formats, &after.formats].map(|it| serde_json::json!({ "formats": it }));
        self.note_change("upgrade", None, [&old, &new]);
        let format = array.parts.engine.format();
        let message = format!(
            "the upgrade was committed by {}: the array has format {format}, which earlier releases refuse",
            self.caller.user
        );
        array.log_event(Severity::Info, "upgrade.committed", None, message);
        array.publish_change(Topic::Upgrade);
        Ok(after)
    }
}
