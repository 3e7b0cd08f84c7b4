//! How fast: columns for charts, sizes, latencies, the busiest, paths, offloads and space.

use super::{Answer, ask, outcome, unexpected};
use crate::Context;
use crate::auth::Operator;
use crate::body::Asked;
use crate::problem::{Problem, Problems};
use array::{Action, By, Cell, Operation, Outcome, Sample, Scope, Series, Stretch};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Seconds that the busiest are judged by when nobody says it.
const USUAL_SECONDS: u64 = 5;
/// How many of the busiest are told when nobody says it.
const USUAL_BUSIEST: usize = 20;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(routes!(show_performance))
        .routes(routes!(show_sizes))
        .routes(routes!(show_latency))
        .routes(routes!(list_busiest))
        .routes(routes!(list_paths))
        .routes(routes!(list_offloads))
        .routes(routes!(show_capacity))
}

/// Whose performance, and when.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Whose {
    /// Beginning, in seconds since 1970; five minutes before the end when not given.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// End, in seconds since 1970; now when not given.
    #[param(minimum = 0)]
    to: Option<u64>,
    /// In about how many parts; 300 when not given, 3600 at most.
    #[param(minimum = 0)]
    points: Option<u32>,
    /// Only this volume.
    volume: Option<String>,
    /// Only this host.
    host: Option<String>,
    /// Only the volumes of this group.
    group: Option<String>,
    /// `csv`: rows for a spreadsheet instead of JSON.
    #[param(inline)]
    format: Option<Format>,
}

/// How to write an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
}

impl Whose {
    fn scope(&self) -> Result<Scope, Problem> {
        match (&self.volume, &self.host, &self.group) {
            (None, None, None) => Ok(Scope::Array),
            (Some(name), None, None) => Ok(Scope::Volume(name.clone())),
            (None, Some(name), None) => Ok(Scope::Host(name.clone())),
            (None, None, Some(name)) => Ok(Scope::Group(name.clone())),
            _ => Err(Problem::rejected(
                StatusCode::BAD_REQUEST,
                "give one of volume, host and group, or none for the whole array".into(),
            )),
        }
    }

    fn stretch(&self) -> Stretch {
        Stretch { from: self.from, to: self.to, points: self.points }
    }

    async fn series(&self, operator: Operator, context: &Context) -> Result<Series, Problem> {
        let action = Action::ShowPerformance { scope: self.scope()?, stretch: self.stretch() };
        match ask(operator, context, action).await? {
            Outcome::Performance(series) => Ok(*series),
            other => unexpected(other),
        }
    }
}

/// Latency in microseconds; percentiles come from the buckets of all commands and are an eighth too high at most.
#[derive(Debug, Default, Serialize, ToSchema)]
struct LatencyColumns {
    /// Mean.
    mean: Vec<Option<f64>>,
    /// What half of the commands did not exceed.
    p50: Vec<Option<f64>>,
    /// What 95 of 100 did not exceed.
    p95: Vec<Option<f64>>,
    /// What 99 of 100 did not exceed.
    p99: Vec<Option<f64>>,
    /// What 999 of 1000 did not exceed.
    p999: Vec<Option<f64>>,
    /// The longest.
    max: Vec<Option<f64>>,
}

/// One kind of work: a value for each time; `null` where nothing is known, or nothing was done that took time.
#[derive(Debug, Default, Serialize, ToSchema)]
struct WorkColumns {
    /// Commands in a second.
    iops: Vec<Option<f64>>,
    /// Bytes in a second.
    bytes_per_second: Vec<Option<f64>>,
    /// Commands that failed.
    failures: Vec<Option<u64>>,
    /// How long they took.
    latency_us: LatencyColumns,
}

/// Performance over time, in columns.
#[derive(Debug, Serialize, ToSchema)]
pub struct Performance {
    /// Seconds between two times.
    resolution_seconds: u64,
    /// Beginnings of the parts, in seconds since 1970.
    times: Vec<u64>,
    /// READ.
    read: WorkColumns,
    /// WRITE.
    write: WorkColumns,
    /// What arrays do for hosts: ATS, EXTENDED COPY, WRITE SAME, UNMAP.
    offload: WorkColumns,
}

/// What a chart shows of commands.
const CLASSES: [(&str, &[Operation]); 3] = [
    ("read", &[Operation::Read]),
    ("write", &[Operation::Write]),
    ("offload", &[Operation::CompareAndWrite, Operation::Copy, Operation::WriteSame, Operation::Unmap]),
];

fn class(sample: &Sample, index: usize) -> Cell {
    let kinds = CLASSES.get(index).map_or(&[][..], |class| class.1);
    sample.sum(|kind, _| array::kind(kind).is_some_and(|kind| kinds.contains(&kind)))
}

/// How much in a second.
fn rate(count: u64, millis: u64) -> f64 {
    if millis == 0 { 0.0 } else { round(count as f64 * 1000.0 / millis as f64) }
}

/// Three decimals are more than was measured.
fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn micros(nanos: u64) -> f64 {
    round(nanos as f64 / 1000.0)
}

impl WorkColumns {
    fn push(&mut self, work: Option<(&Cell, u64)>) {
        let cell = work.map(|(cell, _)| cell);
        self.iops.push(work.map(|(cell, millis)| rate(cell.latency.count(), millis)));
        self.bytes_per_second.push(work.map(|(cell, millis)| rate(cell.bytes, millis)));
        self.failures.push(cell.map(|cell| cell.failures));
        let latency = &mut self.latency_us;
        latency.mean.push(cell.and_then(|cell| cell.latency.mean()).map(|nanos| round(nanos / 1000.0)));
        for (column, part) in [
            (&mut latency.p50, 0.5),
            (&mut latency.p95, 0.95),
            (&mut latency.p99, 0.99),
            (&mut latency.p999, 0.999),
            (&mut latency.max, 1.0),
        ] {
            column.push(cell.and_then(|cell| cell.latency.quantile(part)).map(micros));
        }
    }
}

impl Performance {
    fn of(series: &Series) -> Self {
        let columns = |index| {
            let mut columns = WorkColumns::default();
            for sample in &series.samples {
                let cell = sample.as_ref().map(|sample| (class(sample, index), sample.millis));
                columns.push(cell.as_ref().map(|(cell, millis)| (cell, *millis)));
            }
            columns
        };
        Self {
            resolution_seconds: series.span.width,
            times: times(series),
            read: columns(0),
            write: columns(1),
            offload: columns(2),
        }
    }

    fn csv(&self) -> String {
        let mut text = String::from("time");
        for (name, _) in CLASSES {
            for column in [
                "iops",
                "bytes_per_second",
                "failures",
                "mean_us",
                "p50_us",
                "p95_us",
                "p99_us",
                "p999_us",
                "max_us",
            ] {
                let _ = write!(text, ",{name}_{column}");
            }
        }
        for (row, time) in self.times.iter().enumerate() {
            let _ = write!(text, "\r\n{}", super::utc(*time));
            for work in [&self.read, &self.write, &self.offload] {
                let latency = &work.latency_us;
                let failures = work.failures.get(row).copied().flatten().map(|count| count as f64);
                let at = |column: &[Option<f64>]| column.get(row).copied().flatten();
                let values = [
                    at(&work.iops),
                    at(&work.bytes_per_second),
                    failures,
                    at(&latency.mean),
                    at(&latency.p50),
                ];
                let more = [at(&latency.p95), at(&latency.p99), at(&latency.p999), at(&latency.max)];
                for value in values.into_iter().chain(more) {
                    text.push(',');
                    let _ = value.map_or(Ok(()), |value| write!(text, "{value}"));
                }
            }
        }
        text.push_str("\r\n");
        text
    }
}

fn times(series: &Series) -> Vec<u64> {
    (0..series.samples.len() as u64).map(|index| series.span.from + index * series.span.width).collect()
}

fn csv(text: String) -> Response {
    ([(CONTENT_TYPE, "text/csv; charset=utf-8")], text).into_response()
}

/// Performance over time
#[utoipa::path(get, path = "/api/v1/performance", tag = "performance", params(Whose), responses(
    (status = 200, description = "Columns", content(
        (Performance = "application/json"),
        (String = "text/csv"),
    )),
    Problems,
))]
async fn show_performance(
    operator: Operator,
    State(context): State<Context>,
    Asked(whose): Asked<Whose>,
) -> Result<Response, Problem> {
    let performance = Performance::of(&whose.series(operator, &context).await?);
    Ok(match whose.format {
        Some(Format::Csv) => csv(performance.csv()),
        _ => Json(performance).into_response(),
    })
}

/// Commands of one size.
#[derive(Debug, Default, Serialize, ToSchema)]
struct SizeRow {
    /// Up to so many bytes, and more than in the row before; `null` when there is no end.
    bytes: Option<u64>,
    /// READ.
    reads: u64,
    /// WRITE.
    writes: u64,
}

/// How large commands were.
#[derive(Debug, Serialize, ToSchema)]
pub struct Sizes {
    /// By size, the smallest first.
    items: Vec<SizeRow>,
}

/// How large reads and writes were
#[utoipa::path(get, path = "/api/v1/performance/sizes", tag = "performance", params(Whose), responses(
    (status = 200, description = "How many of each size", body = Sizes),
    Problems,
))]
async fn show_sizes(
    operator: Operator,
    State(context): State<Context>,
    Asked(whose): Asked<Whose>,
) -> Answer<Sizes> {
    let whole = whose.series(operator, &context).await?.whole();
    let mut rows: BTreeMap<u8, SizeRow> = BTreeMap::new();
    for ((kind, size), cell) in &whole.cells {
        let row = rows.entry(*size).or_default();
        row.bytes = array::size_limit(*size);
        match array::kind(*kind) {
            Some(Operation::Read) => row.reads += cell.latency.count(),
            Some(Operation::Write) => row.writes += cell.latency.count(),
            _ => {}
        }
    }
    let items = rows.into_values().filter(|row| row.reads + row.writes > 0).collect();
    Ok(Json(Sizes { items }))
}

/// A map of latencies: how many commands took how long, over time.
#[derive(Debug, Serialize, ToSchema)]
pub struct LatencyMap {
    /// Seconds between two times.
    resolution_seconds: u64,
    /// Beginnings of the parts, in seconds since 1970.
    times: Vec<u64>,
    /// What commands in each row took at most, in microseconds, the shortest first.
    buckets_us: Vec<f64>,
    /// Reads: for each time a count for each bucket; `null` where nothing is known.
    read: Vec<Option<Vec<u64>>>,
    /// Writes likewise.
    write: Vec<Option<Vec<u64>>>,
    /// Offloads likewise.
    offload: Vec<Option<Vec<u64>>>,
}

/// Two rows to each doubling.
fn heat_row(end: u64) -> u64 {
    let power = 1u64 << end.max(2).saturating_sub(1).ilog2();
    if end <= power + power / 2 { power + power / 2 } else { power * 2 }
}

/// How many commands took how long, over time
#[utoipa::path(get, path = "/api/v1/performance/latency", tag = "performance", params(Whose), responses(
    (status = 200, description = "The map", body = LatencyMap),
    Problems,
))]
async fn show_latency(
    operator: Operator,
    State(context): State<Context>,
    Asked(whose): Asked<Whose>,
) -> Answer<LatencyMap> {
    let series = whose.series(operator, &context).await?;
    let maps: Vec<Vec<Option<BTreeMap<u64, u64>>>> = (0..CLASSES.len())
        .map(|index| {
            series.samples.iter().map(|sample| sample.as_ref().map(|it| heat(&class(it, index)))).collect()
        })
        .collect();
    let ends: BTreeSet<u64> = maps.iter().flatten().flatten().flat_map(|rows| rows.keys().copied()).collect();
    let counts = |index: usize| {
        let map = maps.get(index).into_iter().flatten();
        map.map(|rows| {
            rows.as_ref().map(|rows| ends.iter().map(|end| rows.get(end).copied().unwrap_or(0)).collect())
        })
        .collect()
    };
    Ok(Json(LatencyMap {
        resolution_seconds: series.span.width,
        times: times(&series),
        buckets_us: ends.iter().map(|end| micros(*end)).collect(),
        read: counts(0),
        write: counts(1),
        offload: counts(2),
    }))
}

fn heat(cell: &Cell) -> BTreeMap<u64, u64> {
    let mut rows = BTreeMap::new();
    for (end, count) in cell.latency.buckets() {
        *rows.entry(heat_row(end)).or_default() += count;
    }
    rows
}

/// One kind of work.
#[derive(Debug, Serialize, ToSchema)]
struct Work {
    /// Commands in a second.
    iops: f64,
    /// Bytes in a second.
    bytes_per_second: f64,
    /// Commands that failed.
    failures: u64,
    /// How long they took.
    latency_us: Latency,
}

/// Latency in microseconds; `null` when there was no command.
#[derive(Debug, Serialize, ToSchema)]
struct Latency {
    /// Mean.
    mean: Option<f64>,
    /// What half of the commands did not exceed.
    p50: Option<f64>,
    /// What 95 of 100 did not exceed.
    p95: Option<f64>,
    /// What 99 of 100 did not exceed.
    p99: Option<f64>,
    /// The longest.
    max: Option<f64>,
}

impl Work {
    fn of(cell: &Cell, millis: u64) -> Self {
        let part = |part| cell.latency.quantile(part).map(micros);
        Self {
            iops: rate(cell.latency.count(), millis),
            bytes_per_second: rate(cell.bytes, millis),
            failures: cell.failures,
            latency_us: Latency {
                mean: cell.latency.mean().map(|nanos| round(nanos / 1000.0)),
                p50: part(0.5),
                p95: part(0.95),
                p99: part(0.99),
                max: part(1.0),
            },
        }
    }
}

/// What the whole array did in a second; the stream tells one every second.
#[derive(Debug, Serialize, ToSchema)]
pub struct Point {
    /// The second, since 1970.
    time: u64,
    /// READ.
    read: Work,
    /// WRITE.
    write: Work,
    /// ATS, EXTENDED COPY, WRITE SAME, UNMAP.
    offload: Work,
}

impl Point {
    /// A sample of the second `time`.
    pub fn of(time: u64, sample: &Sample) -> Self {
        let work = |index| Work::of(&class(sample, index), sample.millis);
        Self { time, read: work(0), write: work(1), offload: work(2) }
    }
}

/// What the busiest are chosen from.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Noun {
    /// Volumes.
    #[default]
    Volume,
    /// Hosts.
    Host,
}

/// Which of the busiest.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Volumes or hosts.
    #[serde(default)]
    #[param(inline)]
    by: Noun,
    /// What they did in so many seconds, 1 to 20; 5 when not given.
    #[param(minimum = 0)]
    seconds: Option<u64>,
    /// At most so many; 20 when not given.
    #[param(minimum = 0)]
    limit: Option<usize>,
}

/// One of the busiest.
#[derive(Debug, Serialize, ToSchema)]
struct Busy {
    /// Name of the volume or host.
    name: String,
    /// Everything together.
    total: Work,
    /// READ.
    read: Work,
    /// WRITE.
    write: Work,
    /// ATS, EXTENDED COPY, WRITE SAME, UNMAP.
    offload: Work,
}

/// The busiest.
#[derive(Debug, Serialize, ToSchema)]
pub struct Busiest {
    /// For how many seconds this is known.
    seconds: f64,
    /// The most commands first; what did nothing is not here.
    items: Vec<Busy>,
}

/// What each volume or host did in the last seconds
#[utoipa::path(get, path = "/api/v1/performance/top", tag = "performance", params(Which), responses(
    (status = 200, description = "The busiest", body = Busiest),
    Problems,
))]
async fn list_busiest(
    operator: Operator,
    State(context): State<Context>,
    Asked(Which { by, seconds, limit }): Asked<Which>,
) -> Answer<Busiest> {
    let by = match by {
        Noun::Volume => By::Volume,
        Noun::Host => By::Host,
    };
    let action = Action::ListBusiest { by, seconds: seconds.unwrap_or(USUAL_SECONDS) };
    let (millis, busiest) = match ask(operator, &context, action).await? {
        Outcome::Busiest { millis, busiest } => (millis, busiest),
        other => return unexpected(other),
    };
    let busy = |it: array::Busy| Busy {
        total: Work::of(&it.sample.sum(|_, _| true), millis),
        read: Work::of(&class(&it.sample, 0), millis),
        write: Work::of(&class(&it.sample, 1), millis),
        offload: Work::of(&class(&it.sample, 2), millis),
        name: it.name,
    };
    let items = busiest.into_iter().take(limit.unwrap_or(USUAL_BUSIEST)).map(busy).collect();
    Ok(Json(Busiest { seconds: round(millis as f64 / 1000.0), items }))
}

/// Which paths, and when.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct WhichPaths {
    /// Beginning, in seconds since 1970; five minutes before the end when not given.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// End, in seconds since 1970; now when not given.
    #[param(minimum = 0)]
    to: Option<u64>,
    /// Only this host.
    host: Option<String>,
}

/// What came by one path.
#[derive(Debug, Serialize, ToSchema)]
struct Path {
    /// The host.
    host: String,
    /// Which of its initiators.
    initiator: String,
    /// The portal's number, from 1, in the order of the array's portals.
    portal: u16,
    /// Sessions on it now.
    sessions: usize,
    /// Which part of the host's commands came by it, 0 to 1; `null` when there were none.
    share: Option<f64>,
    /// What it did.
    total: Work,
}

/// A host and how evenly it uses its paths.
#[derive(Debug, Serialize, ToSchema)]
struct HostBalance {
    /// The host.
    host: String,
    /// How many paths have a session now.
    paths: usize,
    /// By how much the busiest path did more than the idlest one with a session, as a part of the busiest: 0 is even,
    /// 1 is all on one. `null` with fewer than two paths, or without commands.
    imbalance: Option<f64>,
}

/// Paths, and how evenly hosts use them.
#[derive(Debug, Serialize, ToSchema)]
pub struct Paths {
    /// By host, initiator and portal.
    items: Vec<Path>,
    /// By host.
    hosts: Vec<HostBalance>,
}

/// What came by each path of a host, and how evenly
#[utoipa::path(get, path = "/api/v1/performance/paths", tag = "performance", params(WhichPaths), responses(
    (status = 200, description = "The paths", body = Paths),
    Problems,
))]
async fn list_paths(
    operator: Operator,
    State(context): State<Context>,
    Asked(WhichPaths { from, to, host }): Asked<WhichPaths>,
) -> Answer<Paths> {
    let stretch = Stretch { from, to, points: None };
    let paths = ask(operator, &context, Action::ListPaths { host, stretch }).await?;
    outcome!(paths, Paths(it) => Json(Paths::of(&it)))
}

impl Paths {
    fn of(paths: &[array::PathUse]) -> Self {
        let count = |path: &array::PathUse| path.sample.sum(|_, _| true).latency.count();
        let names: BTreeSet<&str> = paths.iter().map(|path| path.host.as_str()).collect();
        let (mut items, mut hosts) = (Vec::new(), Vec::new());
        for host in names {
            let own: Vec<_> = paths.iter().filter(|path| path.host == host).collect();
            let all: u64 = own.iter().map(|path| count(path)).sum();
            for path in &own {
                items.push(Path {
                    host: path.host.clone(),
                    initiator: path.initiator.clone(),
                    portal: path.portal,
                    sessions: path.sessions,
                    share: (all > 0).then(|| round(count(path) as f64 / all as f64)),
                    total: Work::of(&path.sample.sum(|_, _| true), path.sample.millis),
                });
            }
            hosts.push(HostBalance {
                host: host.into(),
                paths: own.iter().filter(|path| path.sessions > 0).count(),
                imbalance: array::imbalance(own).map(round),
            });
        }
        Self { items, hosts }
    }
}

/// What one primitive of VAAI did.
#[derive(Debug, Serialize, ToSchema)]
struct Offload {
    /// `ats`, `xcopy`, `write_same` or `unmap`.
    primitive: String,
    /// Commands that succeeded.
    commands: u64,
    /// Commands that failed; a miscompare of ATS is one.
    failures: u64,
    /// Bytes that they were about.
    bytes: u64,
    /// Of those, bytes that were shared instead of copied; `null` for what does not copy.
    shared_bytes: Option<u64>,
    /// Of those, bytes that were read and written; `null` for what does not copy.
    copied_bytes: Option<u64>,
    /// How long they took.
    latency_us: Latency,
}

/// What VAAI did.
#[derive(Debug, Serialize, ToSchema)]
pub struct Offloads {
    /// One for each primitive.
    items: Vec<Offload>,
}

/// What VAAI primitives are called.
const PRIMITIVES: [(&str, Operation); 4] = [
    ("ats", Operation::CompareAndWrite),
    ("xcopy", Operation::Copy),
    ("write_same", Operation::WriteSame),
    ("unmap", Operation::Unmap),
];

/// What the primitives of VAAI did
#[utoipa::path(get, path = "/api/v1/performance/offload", tag = "performance", params(Whose), responses(
    (status = 200, description = "Each primitive", body = Offloads),
    Problems,
))]
async fn list_offloads(
    operator: Operator,
    State(context): State<Context>,
    Asked(whose): Asked<Whose>,
) -> Answer<Offloads> {
    let whole = whose.series(operator, &context).await?.whole();
    let offload = |(name, operation): (&str, Operation)| {
        let cell = whole.sum(|kind, _| array::kind(kind) == Some(operation));
        let copies = operation == Operation::Copy;
        Offload {
            primitive: name.into(),
            commands: cell.latency.count(),
            failures: cell.failures,
            bytes: cell.bytes,
            shared_bytes: copies.then_some(whole.shared),
            copied_bytes: copies.then_some(whole.moved),
            latency_us: Work::of(&cell, whole.millis).latency_us,
        }
    };
    Ok(Json(Offloads { items: PRIMITIVES.into_iter().map(offload).collect() }))
}

/// When.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct When {
    /// Beginning, in seconds since 1970; five minutes before the end when not given.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// End, in seconds since 1970; now when not given.
    #[param(minimum = 0)]
    to: Option<u64>,
    /// About how many times, 3600 at most; 300 when not given.
    #[param(minimum = 0)]
    points: Option<u32>,
    /// `csv`: rows for a spreadsheet instead of JSON.
    #[param(inline)]
    format: Option<Format>,
}

/// What the coming days bring, by the trend of the last month.
#[derive(Debug, Serialize, ToSchema)]
struct Forecast {
    /// Bytes on the drives that are taken each day; `null` when less than an hour is known.
    bytes_per_day: Option<f64>,
    /// Days until nothing is free; `null` when that is not in sight.
    days_to_full: Option<f64>,
}

/// How the space was used, in columns of bytes.
#[derive(Debug, Default, Serialize, ToSchema)]
struct SpaceColumns {
    /// Sum of the volumes' sizes.
    provisioned: Vec<u64>,
    /// Mapped by hosts.
    mapped: Vec<u64>,
    /// Of that, different.
    unique: Vec<u64>,
    /// In use on the drives.
    physical: Vec<u64>,
    /// In use on the drives by the array's own data.
    metadata: Vec<u64>,
    /// Usable on the drives.
    total: Vec<u64>,
}

/// How the space was used, and how it goes on.
#[derive(Debug, Serialize, ToSchema)]
pub struct Capacity {
    /// In seconds since 1970.
    times: Vec<u64>,
    /// Bytes at each time.
    space: SpaceColumns,
    /// How it goes on.
    forecast: Forecast,
}

/// How the space was used, and how it goes on
#[utoipa::path(get, path = "/api/v1/capacity", tag = "performance", params(When), responses(
    (status = 200, description = "Columns", content(
        (Capacity = "application/json"),
        (String = "text/csv"),
    )),
    Problems,
))]
async fn show_capacity(
    operator: Operator,
    State(context): State<Context>,
    Asked(When { from, to, points, format }): Asked<When>,
) -> Result<Response, Problem> {
    let capacity = match ask(operator, &context, Action::ShowCapacity(Stretch { from, to, points })).await? {
        Outcome::Capacity(capacity) => capacity,
        other => return unexpected(other),
    };
    if format == Some(Format::Csv) {
        let mut text = String::from("time,provisioned,mapped,unique,physical,metadata,total\r\n");
        for it in &capacity.points {
            let array::SpacePoint { time, provisioned, mapped, unique, physical, metadata, total } = *it;
            let time = super::utc(time);
            let _ = write!(text, "{time},{provisioned},{mapped},{unique},{physical},{metadata},{total}\r\n");
        }
        return Ok(csv(text));
    }
    let (mut times, mut space) = (Vec::new(), SpaceColumns::default());
    for it in &capacity.points {
        times.push(it.time);
        space.provisioned.push(it.provisioned);
        space.mapped.push(it.mapped);
        space.unique.push(it.unique);
        space.physical.push(it.physical);
        space.metadata.push(it.metadata);
        space.total.push(it.total);
    }
    let forecast = Forecast { bytes_per_day: capacity.per_day, days_to_full: capacity.days_to_full };
    Ok(Json(Capacity { times, space, forecast }).into_response())
}

#[cfg(test)]
#[path = "performance_test.rs"]
mod tests;
