//! `/metrics` in the text format of OpenMetrics, and as that of Prometheus 0.0.4 for clients that do not ask for
//! OpenMetrics. Names and labels follow the exporter of a well-known all-flash array, so that its dashboards need
//! only another prefix.

use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::{Problem, Problems};
use array::{
    Alert, AlertState, Array, ArrayStatus, Busiest, Busy, By, Caller, Cell, Drive, DriveState, Group, Health,
    ListPage, Operation, Protection, Replication, ReplicationRole, Severity, State as Serving, Verdict,
    Volume,
};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const OPEN_METRICS: &str = "application/openmetrics-text";
const OPEN_METRICS_1_0: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PROMETHEUS_0_0_4: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Window of performance metrics, in seconds.
const WINDOW_SECONDS: u64 = 20;

type Labels = Vec<(&'static str, String)>;
type Values = Family<Labels, Gauge<f64, AtomicU64>>;

/// A kind of work in each of its dimensions: latency, commands, bytes, bytes of one command.
const WORK: [(&[Operation], [&str; 4]); 3] = [
    (&[Operation::Read], ["usec_per_read_op", "reads_per_sec", "read_bytes_per_sec", "bytes_per_read"]),
    (&[Operation::Write], ["usec_per_write_op", "writes_per_sec", "write_bytes_per_sec", "bytes_per_write"]),
    (
        &[
            Operation::CompareAndWrite,
            Operation::Copy,
            Operation::TokenCopy,
            Operation::WriteSame,
            Operation::Unmap,
            Operation::Other,
        ],
        ["usec_per_other_op", "others_per_sec", "other_bytes_per_sec", "bytes_per_other"],
    ),
];

/// Latency, commands, bytes and size of commands of one noun.
struct Performance([Values; 4]);

struct Exposition(Registry);

impl Exposition {
    fn values(&mut self, name: &str, help: &str) -> Values {
        let values = Values::default();
        self.0.register(name, help, values.clone());
        values
    }

    fn performance(&mut self, noun: &str) -> Performance {
        Performance(
            [
                ("performance_latency_usec", "mean latency in microseconds"),
                ("performance_throughput_iops", "commands in a second"),
                ("performance_bandwidth_bytes", "bytes in a second"),
                ("performance_average_bytes", "bytes of one command"),
            ]
            .map(|(name, help)| self.values(&format!("{noun}_{name}"), &format!("Of each {noun}: {help}"))),
        )
    }
}

impl Performance {
    /// Adds the sum of several objects for each label set.
    fn each<'a>(&self, millis: u64, things: impl IntoIterator<Item = (Labels, Vec<&'a Busy>)>) {
        for (labels, busy) in things {
            for (operations, dimensions) in WORK {
                let mut cell = Cell::default();
                busy.iter().for_each(|it| cell.add(&work(&it.sample, operations)));
                self.set(&labels, millis, &cell, dimensions);
            }
        }
    }

    fn set(&self, labels: &Labels, millis: u64, cell: &Cell, dimensions: [&str; 4]) {
        let (count, seconds) = (cell.latency.count() as f64, millis as f64 / 1000.0);
        let per = |amount: f64, unit: f64| if unit > 0.0 { amount / unit } else { 0.0 };
        let values = [
            cell.latency.mean().unwrap_or(0.0) / 1000.0,
            per(count, seconds),
            per(cell.bytes as f64, seconds),
            per(cell.bytes as f64, count),
        ];
        for ((values, dimension), value) in self.0.iter().zip(dimensions).zip(values) {
            set(values, labels, &[("dimension", dimension)], value);
        }
    }
}

fn set(values: &Values, labels: &Labels, more: &[(&'static str, &str)], value: f64) {
    let more = more.iter().map(|(name, text)| (*name, (*text).to_owned()));
    values.get_or_create(&labels.iter().cloned().chain(more).collect()).set(value);
}

fn work(sample: &array::Sample, operations: &[Operation]) -> Cell {
    sample.sum(|kind, _| array::kind(kind).is_some_and(|kind| operations.contains(&kind)))
}

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Volumes and volume groups that have metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricsOf {
    /// The 100 busiest; if fewer are busy, idle ones in order of names.
    #[default]
    Busiest,
    /// All.
    All,
}

/// Query of metrics.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct MetricsQuery {
    /// Volumes and volume groups that have metrics; default: the 100 busiest of each.
    #[serde(default)]
    #[param(inline)]
    volumes: MetricsOf,
}

/// Most volumes and volume groups with metrics, unless all are asked for: what a scrape of a large array costs.
const MAX_BUSIEST: usize = 100;

/// Get metrics in OpenMetrics format
///
/// Without `application/openmetrics-text` in `Accept` they are in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "performance", params(MetricsQuery), responses(
    (status = 200, description = "Metrics", content(
        (String = "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (String = "text/plain; version=0.0.4; charset=utf-8"),
    )),
    Problems,
))]
async fn metrics(
    operator: Operator,
    State(context): State<Context>,
    headers: HeaderMap,
    Asked(MetricsQuery { volumes }): Asked<MetricsQuery>,
) -> Result<Response, Problem> {
    let runtime = tokio::runtime::Handle::current();
    let (array, caller) = (context.array.clone(), operator.caller);
    // At once, on a thread for what takes long: a scrape is one request.
    let encoded = context.heavy.run(move || runtime.block_on(exposition(&array, &caller, volumes))).await??;
    Ok(([(CONTENT_TYPE, media_type(&headers))], encoded).into_response())
}

/// The text of all metrics.
async fn exposition(array: &Array, caller: &Caller, of: MetricsOf) -> Result<String, Problem> {
    let mut metrics = Exposition(Registry::with_prefix("ashlar"));
    let busiest = |by| array.perform(caller, array::ListBusiest { by, seconds: WINDOW_SECONDS });
    let Busiest { millis, busiest: busy } = busiest(By::Volume).await?;
    let groups = array.perform(caller, array::ListGroups).await?;
    add_replications(&mut metrics, &array.perform(caller, array::ListReplications).await?);
    add_array(&mut metrics, &array.perform(caller, array::ShowArray).await?);
    metrics.performance("array").each(millis, [(Labels::new(), busy.iter().collect())]);
    let volumes = volumes_of(array, caller, &busy, of)?;
    let names = volumes.iter().map(|it| (labels(it), it.name.as_str()));
    metrics.performance("volume").each(millis, with(names, &busy));
    add_groups(&mut metrics, &groups, (millis, &busy), of);
    let Busiest { busiest: busy_hosts, .. } = busiest(By::Host).await?;
    let hosts = array.perform(caller, array::ListHosts::default()).await?;
    let names = hosts.iter().map(|it| (vec![("host", it.name.clone())], it.name.as_str()));
    metrics.performance("host").each(millis, with(names, &busy_hosts));
    let Busiest { busiest: busy_controllers, .. } = busiest(By::Controller).await?;
    let controllers = array.perform(caller, array::ListControllers).await?;
    let numbers: Vec<String> = controllers.iter().map(|it| it.number.to_string()).collect();
    let names = numbers.iter().map(|it| (vec![("controller", it.clone())], it.as_str()));
    metrics.performance("controller").each(millis, with(names, &busy_controllers));
    add_volumes(&mut metrics, &volumes);
    add_drives(&mut metrics, &array.perform(caller, array::ListDrives).await?);
    add_protection(&mut metrics, &array.perform(caller, array::ShowProtection).await?);
    add_alerts(&mut metrics, &array.perform(caller, array::ListAlerts).await?);
    let mut text = String::new();
    encode(&mut text, &metrics.0)
        .map_err(|error| Problem::internal(format!("metrics can't be written: {error}")))?;
    Ok(text)
}

/// The volumes that have metrics, in order of names. Of a large array only these are looked at.
fn volumes_of(array: &Array, caller: &Caller, busy: &[Busy], of: MetricsOf) -> Result<Vec<Volume>, Problem> {
    let take = match of {
        MetricsOf::All => None,
        MetricsOf::Busiest => Some(MAX_BUSIEST),
    };
    let first = array.page(caller, &array::ListVolumes, &ListPage { take, ..ListPage::default() })?.items;
    if first.len() < MAX_BUSIEST || of == MetricsOf::All {
        return Ok(first);
    }
    let names: Vec<&str> = busy.iter().take(MAX_BUSIEST).map(|it| it.name.as_str()).collect();
    let mut shown: BTreeMap<String, Volume> = BTreeMap::new();
    let busiest = array.volumes_named(caller, &names)?;
    shown.extend(busiest.into_iter().map(|volume| (volume.name.clone(), volume)));
    for volume in first {
        if shown.len() >= MAX_BUSIEST {
            break;
        }
        shown.entry(volume.name.clone()).or_insert(volume);
    }
    Ok(shown.into_values().collect())
}

/// Space and performance of volume groups: the sum of their volumes.
fn add_groups(metrics: &mut Exposition, groups: &[Group], (millis, busy): (u64, &[Busy]), of: MetricsOf) {
    let busy: BTreeMap<&str, &Busy> = busy.iter().map(|it| (it.name.as_str(), it)).collect();
    let work = |group: &Group| -> Vec<&Busy> {
        group.volumes.iter().filter_map(|name| busy.get(name.as_str()).copied()).collect()
    };
    let commands =
        |busy: &[&Busy]| -> u64 { busy.iter().map(|it| it.sample.sum(|_, _| true).latency.count()).sum() };
    let mut shown: Vec<(&Group, Vec<&Busy>)> = groups.iter().map(|group| (group, work(group))).collect();
    if of == MetricsOf::Busiest {
        // In order of names where as much was done.
        shown.sort_by_cached_key(|(_, busy)| std::cmp::Reverse(commands(busy)));
        shown.truncate(MAX_BUSIEST);
    }
    let bytes = metrics.values("group_space_bytes", "Space of each volume group by use");
    let labels = |group: &Group| vec![("volume_group", group.name.clone())];
    for (group, _) in &shown {
        let add = |space, value: u64| set(&bytes, &labels(group), &[("space", space)], value as f64);
        add("total_provisioned", group.provisioned);
        add("used_provisioned", group.mapped);
        group.soft_quota.into_iter().for_each(|quota| add("soft_quota", quota));
        group.hard_quota.into_iter().for_each(|quota| add("hard_quota", quota));
    }
    let work = shown.into_iter().map(|(group, busy)| (labels(group), busy));
    metrics.performance("group").each(millis, work);
}

/// Gauges read the same in both formats, where the end of OpenMetrics is a comment.
fn media_type(headers: &HeaderMap) -> &'static str {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    match accepted.any(|value| value.contains(OPEN_METRICS)) {
        true => OPEN_METRICS_1_0,
        false => PROMETHEUS_0_0_4,
    }
}

/// One line for each severity, always present, and one for each object with an alert.
fn add_alerts(metrics: &mut Exposition, alerts: &[Alert]) {
    let (all, open) = (
        metrics.values("array_alerts", "Alerts that are not closed, by severity"),
        metrics.values("alerts_open", "Alerts that are not closed, by object"),
    );
    let alerts: Vec<_> = alerts.iter().filter(|alert| alert.state != AlertState::Closed).collect();
    for (severity, name) in
        [(Severity::Info, "info"), (Severity::Warning, "warning"), (Severity::Critical, "critical")]
    {
        let those = alerts.iter().filter(|it| it.severity == severity);
        let mut counts: BTreeMap<[&str; 3], usize> = BTreeMap::new();
        for it in those {
            let (noun, thing) =
                (it.noun.as_deref().unwrap_or("array"), it.name.as_deref().unwrap_or_default());
            *counts.entry([it.kind.as_str(), noun, thing]).or_default() += 1;
        }
        set(&all, &Vec::new(), &[("severity", name)], counts.values().sum::<usize>() as f64);
        for ([kind, noun, thing], count) in counts {
            let labels =
                [("severity", name), ("code", kind), ("component_type", noun), ("component_name", thing)];
            set(&open, &Vec::new(), &labels, count as f64);
        }
    }
}

/// A value reported by a drive.
type Fact = fn(&Health) -> Option<f64>;

/// Values reported by drives.
const REPORTED: [(&str, &str, Fact); 8] = [
    ("healthy", "The drive's own verdict (SMART)", |it| verdict(it.verdict)),
    ("temperature_celsius", "How warm the drive is", |it| it.temperature_celsius.map(|it| it as f64)),
    ("used_percent", "Used part of the writes that the drive was made for", |it| number(it.used_percent)),
    ("spare_percent", "Part of the drive's spare space that is left", |it| number(it.spare_percent)),
    ("power_on_hours", "Hours that the drive was on in its life", |it| number(it.power_on_hours)),
    ("media_errors", "Errors of the medium in the drive's life", |it| number(it.media_errors)),
    ("lifetime_written_bytes", "Bytes written to the drive in its life", |it| {
        number(it.lifetime_written_bytes)
    }),
    ("lifetime_read_bytes", "Bytes read from the drive in its life", |it| number(it.lifetime_read_bytes)),
];

fn verdict(it: Verdict) -> Option<f64> {
    match it {
        Verdict::Passed => Some(1.0),
        Verdict::Failing => Some(0.0),
        Verdict::Unknown => None,
    }
}

fn number(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Values that a drive does not report are left out.
fn add_drives(metrics: &mut Exposition, drives: &[Drive]) {
    let mut values = |name: &str, help: &str| metrics.values(&format!("drive_{name}"), help);
    let space = values("space_bytes", "Space of each drive by use");
    let media =
        values("media_bytes", "Bytes read from and written to each drive since the start of the array");
    let errors = values("errors", "Errors of each drive since the start of the array");
    let slow = values("slow", "Whether the drive is much slower than the others");
    let online = values("online", "Whether the drive is a member of the array and present");
    let facts = REPORTED.map(|(name, help, fact)| (values(name, help), fact));
    for drive in drives {
        let labels = vec![("slot", drive.slot.to_string()), ("path", drive.path.clone().unwrap_or_default())];
        for (values, label, kind, value) in [
            (&space, "space", "capacity", drive.size),
            (&space, "space", "used", drive.used),
            (&media, "dimension", "read", drive.read_bytes),
            (&media, "dimension", "written", drive.written_bytes),
            (&errors, "kind", "failed_reads", drive.read_errors),
            (&errors, "kind", "slow_reads", drive.slow_reads),
            (&errors, "kind", "bad_pages", drive.bad_pages),
        ] {
            set(values, &labels, &[(label, kind)], value as f64);
        }
        set(&slow, &labels, &[], f64::from(drive.slow));
        let is_online = drive.state == DriveState::Online && drive.path.is_some();
        set(&online, &labels, &[], f64::from(is_online));
        for (values, fact) in &facts {
            if let Some(value) = fact(&drive.health) {
                set(values, &labels, &[], value);
            }
        }
    }
}

/// Protection state and rebuild progress: a rebuild is complete when no segment is at risk.
fn add_protection(metrics: &mut Exposition, it: &Protection) {
    let none: Labels = Vec::new();
    let tolerates =
        metrics.values("array_failures_tolerated", "Drives that can still fail without data loss");
    let promises =
        metrics.values("array_failures_promised", "Drive failures that the array is designed to tolerate");
    set(&tolerates, &none, &[], it.tolerates as f64);
    set(&promises, &none, &[], it.promises as f64);
    let segments = metrics.values("array_segments", "Segments in use, and segments with reduced redundancy");
    let healed = metrics.values("array_segments_healed", "Segments rebuilt since the array started");
    set(&segments, &none, &[("state", "in_use")], f64::from(it.segments));
    set(&segments, &none, &[("state", "at_risk")], f64::from(it.segments_at_risk));
    set(&healed, &none, &[], it.rebuilt as f64);
    let pages =
        metrics.values("array_pages", "Pages with wrong contents found since the array started, by outcome");
    set(&pages, &none, &[("state", "repaired")], it.repaired as f64);
    set(&pages, &none, &[("state", "lost")], it.lost as f64);
}

fn add_array(metrics: &mut Exposition, status: &ArrayStatus) {
    let none: Labels = Vec::new();
    let names = [
        ("array_name", status.name.as_str()),
        ("system_id", status.serial.as_str()),
        ("version", status.version.as_str()),
    ];
    set(&metrics.values("info", "The array"), &none, &names, 1.0);
    let online = if status.state == Serving::Online { 1.0 } else { 0.0 };
    set(&metrics.values("array_online", "Whether the array is online"), &none, &[], online);
    set(&metrics.values("array_sessions", "iSCSI sessions"), &none, &[], status.sessions as f64);
    let (space, bytes) = (&status.space, metrics.values("array_space_bytes", "Space by use"));
    for (kind, value) in [
        ("capacity", space.total),
        ("empty", space.free),
        ("physical", space.physical),
        ("system", space.metadata),
        ("logical", space.logical),
        ("unique", space.unique),
        ("used_provisioned", space.mapped),
        ("total_provisioned", space.provisioned),
    ] {
        set(&bytes, &none, &[("space", kind)], value as f64);
    }
    let ratio =
        metrics.values("array_space_data_reduction_ratio", "Logical to physical; 1 while nothing is stored");
    set(&ratio, &none, &[], space.ratios.data.unwrap_or(1.0));
    let used = space.total.saturating_sub(space.free) as f64;
    let part = if space.total > 0 { used / space.total as f64 } else { 0.0 };
    set(&metrics.values("array_space_utilization", "Used part of the space, 0 to 1"), &none, &[], part);
}

/// Performance of each object; zero if it is not among the busy ones.
fn with<'a>(
    things: impl Iterator<Item = (Labels, &'a str)>,
    busiest: &'a [Busy],
) -> impl Iterator<Item = (Labels, Vec<&'a Busy>)> {
    let busy: BTreeMap<&str, &Busy> = busiest.iter().map(|it| (it.name.as_str(), it)).collect();
    things.map(move |(labels, name)| (labels, busy.get(name).copied().into_iter().collect()))
}

fn labels(volume: &Volume) -> Labels {
    let group = volume.group.clone().unwrap_or_default();
    vec![("name", volume.name.clone()), ("naa_id", volume.naa.clone()), ("volume_group", group)]
}

fn add_replications(metrics: &mut Exposition, replications: &[Replication]) {
    let lag = metrics.values("replication_lag_seconds", "Time since the newest complete point was taken");
    let rpo = metrics.values("replication_rpo_seconds", "Recovery point objective");
    let backlog =
        metrics.values("replication_backlog_bytes", "Written since the newest complete point was taken");
    let throughput = metrics
        .values("replication_bandwidth_bytes", "Bytes over the network in a second, over half a minute");
    let bytes = metrics.values("replication_bytes", "Bytes since the array started, by kind");
    let state = metrics.values("replication_state", "1 for the state of each replication");
    let changes = metrics.values(
        "replication_changes_under_way",
        "Changes of a synchronous replication that wait for the other array",
    );
    let round_trip = metrics.values(
        "replication_round_trip_seconds",
        "Time from sending a change until the other array has it durably, while both are the same",
    );
    for it in replications {
        let role = match it.role {
            ReplicationRole::Source => "source",
            ReplicationRole::Target => "target",
        };
        let labels = vec![
            ("name", it.name.clone()),
            ("remote_array", it.remote_array.clone()),
            ("role", role.to_owned()),
        ];
        if let Some(seconds) = it.status.lag_seconds {
            set(&lag, &labels, &[], seconds as f64);
        }
        if let Some(bytes) = it.status.backlog_bytes {
            set(&backlog, &labels, &[], bytes as f64);
        }
        set(&throughput, &labels, &[], it.status.network_bytes_per_second as f64);
        set(&rpo, &labels, &[], it.rpo_seconds as f64);
        set(&bytes, &labels, &[("kind", "logical")], it.status.logical_bytes as f64);
        set(&bytes, &labels, &[("kind", "network")], it.status.network_bytes as f64);
        set(&state, &labels, &[("state", it.status.state.name())], 1.0);
        if let Some(sync) = &it.status.sync {
            set(&changes, &labels, &[], sync.waiting as f64);
            if let Some(us) = sync.round_trip_us {
                set(&round_trip, &labels, &[], us as f64 / 1e6);
            }
        }
    }
}

fn add_volumes(metrics: &mut Exposition, volumes: &[Volume]) {
    let bytes = metrics.values("volume_space_bytes", "Space of each volume by use");
    let connected =
        metrics.values("host_connections_info", "Connections of volumes to hosts and host groups");
    for volume in volumes {
        let labels = labels(volume);
        set(&bytes, &labels, &[("space", "total_provisioned")], volume.size as f64);
        set(&bytes, &labels, &[("space", "used_provisioned")], volume.mapped as f64);
        for it in &volume.connections {
            let host = it.host.as_deref().unwrap_or_default();
            let group = it.host_group.as_deref().unwrap_or_default();
            let names = [("host", host), ("hostgroup", group), ("volume", volume.name.as_str())];
            set(&connected, &Vec::new(), &names, 1.0);
        }
    }
}
