//! Performance history: columns for charts, distributions, rankings, paths, offloads and capacity.

mod busiest;
mod capacity;
mod columns;
mod distribution;
mod offload;
mod paths;

pub use busiest::Point;

use super::handler::ask;
use crate::Context;
use crate::auth::Operator;
use crate::problem::Problem;
use array::{Cell, Operation, Sample, Scope, Series, TimeRange};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .merge(columns::routes())
        .merge(distribution::routes())
        .merge(busiest::routes())
        .merge(paths::routes())
        .merge(offload::routes())
        .merge(capacity::routes())
}

/// Object and time range of a performance query.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Whose {
    /// Start of the range, in seconds since 1970; default: five minutes before the end.
    #[param(minimum = 0)]
    from: Option<u64>,
    /// End of the range, in seconds since 1970; default: now.
    #[param(minimum = 0)]
    to: Option<u64>,
    /// Approximate number of points, 3600 at most; default 300.
    #[param(minimum = 0)]
    points: Option<u32>,
    /// Only this volume.
    volume: Option<String>,
    /// Only this host.
    host: Option<String>,
    /// Only the volumes of this group.
    group: Option<String>,
    /// Only what hosts do by the portals of the controller with this number.
    #[param(minimum = 0)]
    controller: Option<u16>,
    /// `csv` for a spreadsheet instead of JSON.
    #[param(inline)]
    format: Option<Format>,
}

/// Response format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// JSON.
    Json,
    /// CSV.
    Csv,
}

impl Whose {
    fn scope(&self) -> Result<Scope, Problem> {
        let named = [
            self.volume.clone().map(Scope::Volume),
            self.host.clone().map(Scope::Host),
            self.group.clone().map(Scope::Group),
            self.controller.map(Scope::Controller),
        ];
        let mut named = named.into_iter().flatten();
        match (named.next(), named.next()) {
            (None, _) => Ok(Scope::Array),
            (Some(scope), None) => Ok(scope),
            (Some(_), Some(_)) => Err(Problem::rejected(
                StatusCode::BAD_REQUEST,
                "give one of volume, host, group and controller, or none for the whole array".into(),
            )),
        }
    }

    fn range(&self) -> TimeRange {
        TimeRange { from: self.from, to: self.to, points: self.points }
    }

    async fn series(&self, operator: Operator, context: &Context) -> Result<Series, Problem> {
        let action = array::ShowPerformance { scope: self.scope()?, range: self.range() };
        ask(operator, context, action).await
    }
}

/// What a chart shows of commands.
const CLASSES: [(&str, &[Operation]); 3] = [
    ("read", &[Operation::Read]),
    ("write", &[Operation::Write]),
    (
        "offload",
        &[
            Operation::CompareAndWrite,
            Operation::Copy,
            Operation::TokenCopy,
            Operation::WriteSame,
            Operation::Unmap,
        ],
    ),
];

fn class(sample: &Sample, index: usize) -> Cell {
    let kinds = CLASSES.get(index).map_or(&[][..], |class| class.1);
    sample.sum(|kind, _| array::kind(kind).is_some_and(|kind| kinds.contains(&kind)))
}

fn times(series: &Series) -> Vec<u64> {
    (0..series.samples.len() as u64).map(|index| series.span.from + index * series.span.width).collect()
}

/// A table for spreadsheets (RFC 4180).
pub(super) fn csv(header: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> Result<Response, Problem> {
    let mut table = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let written = std::iter::once(header).chain(rows).try_for_each(|row| table.write_record(row));
    let text = written.map_err(|error| error.to_string());
    let text = text.and_then(|()| table.into_inner().map_err(|error| error.to_string()));
    let text = text.map_err(|error| Problem::internal(format!("a table could not be written: {error}")))?;
    Ok(([(CONTENT_TYPE, "text/csv; charset=utf-8")], text).into_response())
}
