//! Creating volumes: one, which may be a clone, or many.

use super::handler::{Created, created, operations, perform};
use super::label::setting;
use crate::Context;
use crate::auth::Operator;
use crate::body::Body;
use crate::list::Items;
use crate::problem::{Problem, Problems};
use array::Volume;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

/// Block length of a volume when none is asked for, in bytes: what every host can use.
const BLOCK_BYTES: u32 = 512;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(create_volume: CreateVolume))
        .routes(operations!(create_volumes: CreateVolumes))
}

type Volumes = Items<Volume>;

/// A new volume: empty with a `size`, or a clone of a `source`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// 1 to 63 letters, digits, '-', '_' or '.', beginning with a letter or digit.
    name: String,
    /// Size in bytes, 1 MiB to 16 PiB, a multiple of the block size. Not allowed with `source`.
    size: Option<u64>,
    /// 512 (default) or 4096. Not allowed with `source`.
    block_size: Option<u32>,
    /// Volume or snapshot to clone; the clone shares its space.
    source: Option<String>,
    /// Volume group.
    group: Option<String>,
    /// Labels: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most. A clone does
    /// not inherit those of its source.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// New empty volumes that differ in their names alone: `names`, or `numbered` names.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolumes {
    /// Names, 1 to 1000.
    names: Option<Vec<String>>,
    numbered: Option<NumberedNames>,
    /// Size of each in bytes, 1 MiB to 16 PiB, a multiple of the block size.
    size: u64,
    /// 512 (default) or 4096.
    block_size: Option<u32>,
    /// Volume group.
    group: Option<String>,
    /// Labels of each: keys of 1 to 63 letters, digits, '-', '_', '.' or '/', values of at most 255 bytes; 64 at most.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// Names with consecutive numbers.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NumberedNames {
    /// Name in which the number, with leading zeros, replaces a run of '#': `db###` makes db001, db002 and so on.
    pattern: String,
    /// First number; default: 1.
    first: Option<u32>,
    /// How many names, 1 to 1000.
    count: u32,
}

impl NumberedNames {
    fn expand(&self) -> Result<Vec<String>, Problem> {
        let rejected = |detail: String| Problem::rejected(StatusCode::BAD_REQUEST, detail);
        let Self { pattern, first, count } = self;
        let (before, rest) = pattern.split_once('#').unwrap_or((pattern, ""));
        let after = rest.trim_start_matches('#');
        if before == pattern || after.contains('#') {
            return Err(rejected(format!(
                "{pattern:?} is no pattern: write one run of '#' where the number belongs"
            )));
        }
        let (digits, first) = (rest.len() - after.len() + 1, u64::from(first.unwrap_or(1)));
        if *count as usize > array::maxima::MAX_NEW_VOLUMES {
            return Err(rejected(format!(
                "one request creates at most {} volumes",
                array::maxima::MAX_NEW_VOLUMES
            )));
        }
        let numbers = first..first + u64::from(*count);
        if numbers.end.saturating_sub(1).to_string().len() > digits {
            return Err(rejected(format!(
                "{pattern:?} has room for numbers of {digits} digits: write more '#'"
            )));
        }
        Ok(numbers.map(|number| format!("{before}{number:0digits$}{after}")).collect())
    }
}

/// Create a volume, or clone a volume or snapshot
#[utoipa::path(post, path = "/api/v1/volumes", tag = "volumes", request_body = NewVolume, responses(
    (status = 201, description = "The volume", body = Volume),
    (status = 200, description = "The volume, which existed with equal content", body = Volume),
    Problems,
))]
async fn create_volume(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewVolume>,
) -> Created<Volume> {
    let NewVolume { name, size, block_size, source, group, labels } = new;
    let labels = setting(labels);
    let made = match (source, size) {
        (Some(source), None) if block_size.is_none() => {
            perform(operator, &context, array::CloneVolume { source, name, group, labels }).await?
        }
        (Some(_), _) => {
            let detail = "a clone has the size and block size of its source: leave them out";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
        (None, Some(bytes)) => {
            let block_bytes = block_size.unwrap_or(BLOCK_BYTES);
            perform(operator, &context, array::CreateVolume { name, bytes, block_bytes, group, labels })
                .await?
        }
        (None, None) => {
            let detail = "a volume needs a size in bytes, or a source to clone";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    created(made)
}

/// Create volumes
///
/// All of them are created, or none: a refusal names the volume that cannot be. A request can be repeated: volumes that exist
/// with equal content are returned.
#[utoipa::path(post, path = "/api/v1/bulk/volumes", tag = "volumes", request_body = NewVolumes, responses(
    (status = 201, description = "The volumes, in the order of their names in the request", body = Volumes),
    (status = 200, description = "The volumes, all of which existed with equal content", body = Volumes),
    Problems,
))]
async fn create_volumes(
    operator: Operator,
    State(context): State<Context>,
    Body(new): Body<NewVolumes>,
) -> Created<Volumes> {
    let NewVolumes { names, numbered, size: bytes, block_size, group, labels } = new;
    let names = match (names, numbered) {
        (Some(names), None) => names,
        (None, Some(numbered)) => numbered.expand()?,
        _ => {
            let detail = "name the volumes by one of: names, or numbered names";
            return Err(Problem::rejected(StatusCode::BAD_REQUEST, detail.into()));
        }
    };
    let (block_bytes, labels) = (block_size.unwrap_or(BLOCK_BYTES), setting(labels));
    created(
        perform(operator, &context, array::CreateVolumes { names, bytes, block_bytes, group, labels })
            .await?,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_have_the_digits_of_their_pattern() {
        let names = |pattern: &str, first, count| {
            NumberedNames { pattern: pattern.into(), first, count }.expand().ok()
        };
        assert_eq!(names("db##-a", None, 2), Some(vec!["db01-a".into(), "db02-a".into()]));
        assert_eq!(names("#", Some(8), 2), Some(vec!["8".into(), "9".into()]));
        assert_eq!(names("db", None, 2), None, "no number");
        assert_eq!(names("a#b#", None, 2), None, "two numbers");
        assert_eq!(names("#", Some(8), 3), None, "10 has two digits");
        assert_eq!(names("####", None, 1001), None, "too many");
        assert_eq!(names("##########", Some(u32::MAX), 2).map(|names| names.len()), Some(2));
    }
}
