//! The support bundle.

use super::handler::ask;
use crate::Context;
use crate::auth::Operator;
use crate::problem::{Problem, Problems};
use crate::v1::handler::operations;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use std::io;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

/// Of a tar archive compressed with zstd: generators of clients know no type of its own.
const MEDIA_TYPE: &str = "application/octet-stream";

/// Bytes that are not JSON.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
struct Archive(Vec<u8>);

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new().routes(operations!(download_support_bundle: DownloadSupportBundle))
}

/// Download a support bundle
///
/// Contains configuration, events, alerts, measurements and logs, without secrets.
///
/// A tar archive compressed with zstd: `tar --zstd -xf`.
#[utoipa::path(get, path = "/api/v1/support-bundle", tag = "array", responses(
    (status = 200, description = "The bundle", body = inline(Archive), content_type = "application/octet-stream"),
    Problems,
))]
async fn download_support_bundle(
    operator: Operator,
    State(context): State<Context>,
) -> Result<Response, Problem> {
    let now = context.array.now();
    let files = ask(operator, &context, array::DownloadSupportBundle).await?;
    let packed = tokio::task::spawn_blocking(move || pack(&files, now)).await;
    let packed = packed.map_err(io::Error::other).and_then(|packed| packed);
    let packed = packed.map_err(|error| Problem::internal(format!("the bundle can't be packed: {error}")))?;
    let name = "attachment; filename=\"ashlar-support.tar.zst\"";
    Ok(([(CONTENT_TYPE, MEDIA_TYPE), (CONTENT_DISPOSITION, name)], packed.0).into_response())
}

fn pack(files: &[(String, Vec<u8>)], now: u64) -> io::Result<Archive> {
    let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), 0)?);
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(now);
        archive.append_data(&mut header, format!("ashlar-support/{name}"), bytes.as_slice())?;
    }
    archive.into_inner()?.finish().map(Archive)
}
