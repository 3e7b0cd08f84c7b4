//! The audit log: which caller requested which verb on which object, and the fields that changed.
//!
//! An entry begins before the request is carried out, so that a crash leaves it as interrupted, and ends with the
//! result. Secrets never get here: see [`Redactor`].

use crate::Result;
use crate::events::bus::{EventBus, Update};
use crate::parts::env::Env;
use history::{Attempt, AuditId, Store};
use notify::AuditMessage;
use records::{Config, Edit, Record, Redactor};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a request is about, and the fields of the request that say so.
#[derive(Clone, Debug, Default)]
pub struct Object {
    pub(crate) name: Option<String>,
    pub(crate) fields: &'static [&'static str],
}

impl Object {
    /// An object by its name, which is in these fields.
    pub(crate) fn of(fields: &'static [&'static str], name: &str) -> Self {
        Self { name: Some(name.to_owned()), fields }
    }
}

/// What was asked for, as the trail keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was to be done: `create`.
    pub verb: String,
    /// To what kind of record: `volume`.
    pub noun: String,
    /// Which object; `None` if the noun says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// What else was said, by the names of fields; secrets are hidden.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
}

impl Entry {
    /// From the detail of an entry; `None` if it was written before requests had this form.
    pub fn read(detail: &str) -> Option<Self> {
        serde_json::from_str(detail).ok()
    }

    /// What a request asks for: its verb and noun, what it is about, and its other fields.
    pub(crate) fn of(
        config: &Config,
        [verb, noun]: [&str; 2],
        mut object: Object,
        request: &impl Serialize,
    ) -> Self {
        object.name = object.name.map(|name| config.name_for(&name).to_owned());
        let names = |kind: &str, id: &str| config.name_of(kind, id);
        let fields = (Redactor { names: &names, hide: true }).value(request);
        entry_of([verb, noun], object, fields)
    }

    /// For people: `connect volume db1 to host web1 (lun: 3, read_only: no)`.
    pub fn sentence(&self) -> String {
        let mut text = format!("{} {}", self.verb, self.noun);
        if let Some(object) = &self.object {
            text.extend([" ", object]);
        }
        if !self.fields.is_empty() {
            let fields = self.fields.iter().map(|(name, value)| format!("{name}: {}", plain(value)));
            text.push_str(&format!(" ({})", fields.collect::<Vec<_>>().join(", ")));
        }
        text
    }
}

/// A value for people.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join("; "),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name} {}", plain(value)));
            fields.collect::<Vec<_>>().join(" ")
        }
        Value::Number(number) => number.to_string(),
    }
}

/// An object of objects as one of dotted names.
fn flatten(prefix: &str, value: Value, into: &mut Map<String, Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
                flatten(&name, value, into);
            }
        }
        value if prefix.is_empty() => drop(value),
        value => drop(into.insert(prefix.to_owned(), value)),
    }
}

fn flat(value: &Value) -> Map<String, Value> {
    let mut fields = Map::new();
    flatten("", value.clone(), &mut fields);
    fields
}

fn entry_of(words: [&str; 2], object: Object, mut fields: Value) -> Entry {
    if let Value::Object(fields) = &mut fields {
        object.fields.iter().for_each(|name| drop(fields.remove(*name)));
        // What is to be changed, without the step in between.
        if let Some(Value::Object(change)) = fields.remove("change") {
            fields.extend(change);
        }
    }
    let [verb, noun] = words.map(str::to_owned);
    let mut flat = Map::new();
    match fields {
        Value::Object(_) => flatten("", fields, &mut flat),
        Value::Null => {}
        value => drop(flat.insert("to".into(), value)),
    }
    Entry { verb, noun, object: object.name, fields: flat }
}

/// A value to be compared, and as it is shown; null when there is none.
#[derive(Clone, Debug, Default)]
struct Side {
    plain: Value,
    shown: Value,
}

impl Side {
    fn of<T: Serialize>(config: &Config, value: Option<&T>) -> Self {
        let Some(value) = value else { return Self::default() };
        let names = |kind: &str, id: &str| config.name_of(kind, id);
        let show = |hide| Redactor { names: &names, hide }.value(value);
        Self { plain: show(false), shown: show(true) }
    }
}

/// A record that an action changed.
#[derive(Clone, Debug)]
struct Noted {
    record: String,
    noun: &'static str,
    name: Option<String>,
    before: Side,
    after: Side,
}

/// The records that an action changed, each from before the action to after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    noted: Vec<Noted>,
    /// Where each record is among them.
    places: BTreeMap<String, usize>,
}

impl Changes {
    /// Notes a step, with what its record held.
    pub fn note(&mut self, config: &Config, before: Option<&Record>, edit: &Edit) {
        let (record, after) = match edit {
            Edit::Put(record) => (record, Some(record)),
            Edit::Remove(record) => (record, None),
        };
        let noted = Noted {
            record: record.key(),
            noun: record.declaration().noun,
            name: before.unwrap_or(record).label(config),
            before: Side::of(config, before),
            after: Side::of(config, after),
        };
        self.add(noted);
    }

    /// Notes what is no record of the configuration.
    pub fn note_other<T: Serialize>(
        &mut self,
        config: &Config,
        noun: &'static str,
        name: Option<&str>,
        sides: [&T; 2],
    ) {
        let [before, after] = sides.map(|side| Side::of(config, Some(side)));
        self.add(Noted { record: noun.into(), noun, name: name.map(str::to_owned), before, after });
    }

    fn add(&mut self, noted: Noted) {
        let known = self.places.get(&noted.record).and_then(|place| self.noted.get_mut(*place));
        match known {
            Some(known) => known.after = noted.after,
            None => {
                self.places.insert(noted.record.clone(), self.noted.len());
                self.noted.push(noted);
            }
        }
    }

    /// As the trail keeps them.
    fn json(&self) -> Value {
        self.noted.iter().filter(|it| it.before.plain != it.after.plain).map(Noted::json).collect()
    }
}

impl Noted {
    fn json(&self) -> Value {
        json!({
            "record": self.record,
            "noun": self.noun,
            "name": self.name,
            "before": self.before.shown,
            "after": self.after.shown,
            "fields": differences(&self.before, &self.after),
        })
    }
}

/// The fields that are not the same on both sides; one that is hidden says only that it changed.
fn differences(before: &Side, after: &Side) -> Vec<Value> {
    let [plain_before, shown_before] = [&before.plain, &before.shown].map(flat);
    let [plain_after, shown_after] = [&after.plain, &after.shown].map(flat);
    let names: BTreeSet<&String> = plain_before.keys().chain(plain_after.keys()).collect();
    let changed = names.into_iter().filter(|name| plain_before.get(*name) != plain_after.get(*name));
    let shown = |fields: &Map<String, Value>, name: &str| fields.get(name).cloned().unwrap_or_default();
    changed
        .map(|name| {
            json!({ "field": name, "before": shown(&shown_before, name), "after": shown(&shown_after, name) })
        })
        .collect()
}

/// An entry that waits for its end.
pub(crate) struct Pending {
    id: std::result::Result<AuditId, history::Error>,
    /// What was asked for, for logs.
    attempt: Attempt,
    noun: String,
    object: Option<String>,
    sentence: String,
}

/// Writes the audit log.
pub(crate) struct AuditLog {
    env: Arc<Env>,
    history: Arc<Store>,
    bus: Arc<EventBus>,
}

impl AuditLog {
    pub fn new(env: Arc<Env>, history: Arc<Store>, bus: Arc<EventBus>) -> Self {
        Self { env, history, bus }
    }

    /// Begins an entry about a request: `action` is the name of the verb, or of what is no verb.
    pub fn begin(&self, user: &str, origin: &str, action: &str, request: &Entry) -> Pending {
        let attempt = Attempt {
            time: self.env.seconds(),
            user: user.to_owned(),
            origin: origin.to_owned(),
            action: action.to_owned(),
            detail: serde_json::to_string(request).unwrap_or_default(),
        };
        let id = self.history.begin_audit(&attempt);
        let Entry { noun, object, .. } = request.clone();
        Pending { id, attempt, noun, object, sentence: request.sentence() }
    }

    /// Ends an entry with what came of it.
    pub fn end<T>(&self, entry: Pending, outcome: &Result<T>, changes: &Changes) {
        let Pending { id, attempt, noun, object, sentence } = entry;
        let Attempt { time, user, origin, action, .. } = attempt;
        let number = id.as_ref().map_or(0, |id| id.number());
        let refused = outcome.as_ref().err().map(|error| error.message.as_str());
        let changes = changes.json().to_string();
        if let Err(error) = id.and_then(|id| self.history.end_audit(id, refused, &changes)) {
            tracing::error!(%error, "the audit log has a gap");
        }
        match outcome {
            Ok(_) => tracing::info!(target: "audit", user, origin, action, request = sentence, "done"),
            Err(error) => {
                tracing::warn!(target: "audit", user, origin, action, request = sentence, kind = ?error.kind, %error, "refused");
            }
        }
        let refusal = refused.map(str::to_owned);
        self.bus.publish(Update::Audit(Box::new(AuditMessage {
            id: number,
            time,
            user,
            origin,
            action,
            noun,
            object,
            request: sentence,
            refusal,
        })));
    }
}

/// The records of the configuration as they may be shown to anybody, by their keys; null for what is unknown here.
pub(crate) fn shown_records(
    config: &Config,
    records: impl IntoIterator<Item = (String, impl AsRef<[u8]>)>,
) -> BTreeMap<String, Value> {
    let shown = |(key, value): (String, _)| {
        let value: &[u8] = AsRef::as_ref(&value);
        let record = Record::read(&key, value).ok().flatten();
        let shown = match record {
            Some(record) => Side::of(config, Some(&record)).shown,
            None if key == records::ARRAY => serde_json::from_slice(value).unwrap_or_default(),
            None => Value::Null,
        };
        (key, shown)
    };
    records.into_iter().map(shown).collect()
}
