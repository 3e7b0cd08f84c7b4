//! Upgrade: which formats the array has and this software knows, and the commit to the newest.
//!
//! Software of another release may be installed at any time: opening the array changes nothing that the release before could not
//! read. What needs a newer format begins with the commit, after which earlier releases refuse the array.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::parts::membership::Controller;
use crate::request::verbs;
use crate::shape::shapes;
use crate::{Error, Result};
use engine::{CELL_VERSION, INDEX_VERSION, NOTING_VERSION};
use export::{CURRENT_STATE_VERSION, OLDEST_STATE_VERSION};
use history::Severity;
use records::{Record, Topic};
use serde::Serialize;
use std::ops::RangeInclusive;
use utoipa::ToSchema;

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
    (
        CELL_VERSION,
        "new data is compressed block by block, so that a random read fetches only its own block from the drives; data written \
         before follows as it is cleaned or overwritten",
    ),
];

/// The formats of the array, and what a commit changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Upgrade {
    /// Software version.
    pub software: String,
    /// Whether the array has the newest format that the software knows. An earlier release that does not know it refuses the array.
    pub committed: bool,
    /// Formats by part.
    pub formats: Vec<Format>,
    /// What the commit enables; empty once it is done. Until then the array works as with the release before.
    pub enables: Vec<String>,
    /// Why it can't be committed now; `null` if it can, or is.
    pub blocked: Option<String>,
}

/// Format of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Format {
    /// Part.
    pub part: FormatPart,
    /// Format in use; `null` if each object or connection has its own.
    pub active: Option<u32>,
    /// Oldest that the software reads or speaks.
    pub oldest: u32,
    /// Newest that it reads or speaks.
    pub newest: u32,
}

/// What has a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormatPart {
    /// Volumes, maps and journal; raised by the commit.
    Engine,
    /// Store on drives or in Ceph.
    Store,
    /// Configuration records.
    Records,
    /// Saved reservations and mode pages, each in the oldest version that can hold it.
    UnitState,
    /// Replication between arrays: the newest that both ends speak.
    ReplicationLink,
}

shapes! {
    Upgrade;
}

verbs! {
    #![tag = "array"]

    /// Get the formats of the array
    ShowUpgrade {} -> Upgrade, Read "show" "upgrade", Viewer, at GET "/upgrade" says "The formats"
        => |tx, _| Ok(tx.array.upgrade());
    /// Commit the upgrade
    ///
    /// Raises the array to the newest format, durably and without interruption to hosts. Earlier releases that do not know it refuse
    /// the array from then on. Refused while a controller runs such a release. Does nothing if it is done.
    CommitUpgrade {} -> Upgrade, Change "commit" "upgrade", Admin, at POST "/upgrade/commit" says "The formats"
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
