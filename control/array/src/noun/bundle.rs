//! The support bundle: state, configuration and history for a support engineer, without secrets.
//!
//! Names, addresses and initiators are in it; data of volumes never are.

use crate::array::Array;
use crate::events::audit::shown_records;
use crate::parts::env::File;
use crate::request::verbs;
use crate::service::metering::{Scope, TimeRange};
use crate::{Error, Result};
use history::{Page, Severity};
use serde::Serialize;
use serde_json::{Value, json};
use shelf::pool::DriveState;

/// How many events and audit entries.
const EVENTS: u32 = 5000;
const AUDITS: u32 = 1000;
/// How much of what was done, in seconds: an hour, and a day.
const STRETCHES: [(&str, u64); 2] = [("hour", 3600), ("day", 86_400)];

const README: &str = "What is in here:

array.json          the array, its space and its drives
configuration.json  every record of the configuration; secrets are left out
alerts.json         what needs, or needed, attention
events.json         what happened, newest first
audit.json          what operators did, newest first
performance-*.json  what was done, in parts of the last hour and day
capacity.json       how the space was used in the last month
system/             the machine that the array runs on, and what the array wrote to its log

Passwords, tokens, keys and secrets are in none of these, not even sealed or hashed.
";

/// The support bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DownloadSupportBundle;

verbs! {
    DownloadSupportBundle -> Vec<File>, Read "show" "support bundle", Admin
        => |tx, _| tx.array.support_bundle();
}

impl Array {
    /// Everything, as files.
    pub(crate) fn support_bundle(&self) -> Result<Vec<File>> {
        let mut files = vec![("README.txt".to_owned(), README.as_bytes().to_vec())];
        let mut put = |name: &str, value: Value| files.push((format!("{name}.json"), pretty(&value)));
        put("array", self.bundled_state());
        put("configuration", self.bundled_records());
        self.bundled_history(&mut put)?;
        for (name, seconds) in STRETCHES {
            put(&format!("performance-{name}"), self.bundled_performance(seconds)?);
        }
        let past = self.metering.past_month(self.now())?;
        let points = past.iter().map(|it| {
            json!({ "time": it.time, "provisioned": it.provisioned, "mapped": it.mapped, "unique": it.unique,
                "physical": it.physical, "metadata": it.metadata, "total": it.total })
        });
        put("capacity", points.collect());
        let system = (self.env.system)();
        files.extend(system.into_iter().map(|(name, bytes)| (format!("system/{name}"), bytes)));
        Ok(files)
    }

    fn bundled_state(&self) -> Value {
        let config = self.config();
        let (status, shelf) = (self.status(&config), self.parts.pool.status());
        let drives = shelf.drives.iter().map(|it| {
            json!({ "slot": it.slot, "path": it.name, "drive": format!("{:032x}", it.drive), "bytes": it.bytes,
                "used_bytes": it.used_bytes, "standing": standing(it.state), "journal": it.journal,
                "read_bytes": it.read_bytes, "written_bytes": it.written_bytes, "read_errors": it.read_errors,
                "slow_reads": it.slow_reads, "bad_pages": it.bad_pages })
        });
        json!({
            "name": status.name, "serial": status.serial, "version": status.version, "now": self.now(),
            "uptime_seconds": status.uptime_seconds, "state": status.state,
            "target_iqn": status.target_iqn, "portals": status.portals, "sessions": sessions(self),
            "space": status.space, "drives": drives.collect::<Value>(),
            "protection": { "tolerates": shelf.tolerates, "segments": shelf.segments, "at_risk": shelf.degraded_segments,
                "healed": shelf.rebuilt_segments, "repaired": shelf.repaired_pages, "lost": shelf.lost_pages,
                "strays": shelf.former_drives },
            "store": shelf.objects.map(|it| json!({ "namespace": it.namespace, "epoch": it.epoch, "lanes": it.lanes,
                "client": it.client, "pools": it.pools.iter().map(|it| it.name.as_str()).collect::<Value>() })),
            "controllers": self.controllers(),
        })
    }

    fn bundled_records(&self) -> Value {
        let records = shown_records(&self.config(), self.parts.engine.records(""));
        Value::Object(records.into_iter().collect())
    }

    fn bundled_history(&self, put: &mut impl FnMut(&str, Value)) -> Result<()> {
        let failed = |error| Error::failed("the history can't be read", error);
        let history = &self.parts.history;
        let alerts = history.alerts(true).map_err(failed)?.into_iter().map(|it| {
            json!({ "id": it.id, "key": it.key, "kind": it.condition.kind, "severity": it.condition.severity,
                "message": it.condition.message, "opened": it.opened, "changed": it.changed,
                "acknowledged": it.acknowledged, "closed": it.closed })
        });
        put("alerts", alerts.collect());
        let page = Page { before: None, limit: EVENTS };
        let events = history.events(&page, Severity::Info).map_err(failed)?.into_iter().map(|it| {
            json!({ "id": it.id, "time": it.event.time, "severity": it.event.severity, "kind": it.event.kind,
                "message": it.event.message })
        });
        put("events", events.collect());
        let audits = history.audits(&Page { before: None, limit: AUDITS }).map_err(failed)?;
        let audits = audits.into_iter().map(|it| {
            let changes: Value = serde_json::from_str(&it.changes).unwrap_or_default();
            json!({ "id": it.id, "time": it.attempt.time, "user": it.attempt.user, "origin": it.attempt.origin,
                "action": it.attempt.action, "outcome": it.outcome, "message": it.message,
                "detail": it.attempt.detail, "changes": changes })
        });
        put("audit", audits.collect());
        Ok(())
    }

    fn bundled_performance(&self, seconds: u64) -> Result<Value> {
        let range = TimeRange { from: Some(self.now().saturating_sub(seconds)), ..TimeRange::default() };
        let series = self.metering.performance(&Scope::Array, range)?;
        let times = (series.span.from..).step_by(series.span.width.max(1) as usize);
        let known = times.zip(&series.samples).filter_map(|(time, sample)| Some((time, sample.as_ref()?)));
        let points = known.map(|(time, sample)| {
            let kinds = sample.cells.iter().map(|((kind, size), cell)| {
                json!({ "kind": kind, "size": size, "count": cell.latency.count(), "bytes": cell.bytes,
                    "failures": cell.failures, "mean_nanoseconds": cell.latency.mean() })
            });
            json!({ "time": time, "milliseconds": sample.millis, "commands": kinds.collect::<Value>() })
        });
        Ok(points.collect())
    }
}

fn sessions(array: &Array) -> Value {
    let sessions = array.parts.server.sessions().into_iter();
    sessions.map(|it| json!({ "initiator": it.initiator, "portal": it.portal })).collect()
}

fn standing(state: DriveState) -> &'static str {
    match state {
        DriveState::Empty => "empty",
        DriveState::Online => "online",
        DriveState::Evacuating => "evacuating",
        DriveState::Failed => "failed",
    }
}

fn pretty(value: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
    text.push(b'\n');
    text
}
