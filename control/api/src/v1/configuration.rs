//! Export and import of the configuration as one document.

use super::handler::{Answer, ask, operations, perform};
use crate::auth::Operator;
use crate::body::Text;
use crate::problem::{Problem, Problems};
use crate::{Context, DOCUMENT_LIMIT};
use array::{ConfigurationDocument, DocumentHead, Import, ImportStep};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;

pub fn routes() -> OpenApiRouter<Context> {
    OpenApiRouter::new()
        .routes(operations!(show_configuration: ShowConfiguration))
        .routes(operations!(compare_configuration: CompareConfiguration))
        .routes(operations!(import_configuration: ImportConfiguration))
        .layer(DefaultBodyLimit::max(DOCUMENT_LIMIT))
}

/// A configuration to import.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationImport {
    /// A configuration document. Secrets may be added to it: `chap_secret` and `mutual_secret` of a host, `password` of a
    /// user, `secret` of a notification target or directory.
    #[schema(value_type = Object)]
    document: Box<ConfigurationDocument>,
    /// Existing objects that take the properties of the document, such as `volume/db1`; others stay as they are.
    #[serde(default)]
    overwrite: Vec<String>,
}

/// What an import does with the objects of a document.
#[derive(Debug, Serialize, ToSchema)]
pub struct ImportSteps {
    /// In the order of the import.
    items: Vec<ImportStep>,
    /// Total count.
    total: usize,
}

/// Export the configuration
///
/// Hosts, volumes without contents, connections, schedules, users and settings, by name. Secrets are left out, and the document
/// says which. The format of the document has a version of its own: docs/operating/configuration.md.
#[utoipa::path(get, path = "/api/v1/configuration", tag = "array", responses(
    (status = 200, description = "The configuration document", body = Object),
    Problems,
))]
async fn show_configuration(
    operator: Operator,
    State(context): State<Context>,
) -> Answer<ConfigurationDocument> {
    ask(operator, &context, array::ShowConfiguration).await.map(Json)
}

/// Compare a configuration document with the array
///
/// The answer is what an import of the same document would do. Nothing changes.
#[utoipa::path(post, path = "/api/v1/configuration/compare", tag = "array", request_body = ConfigurationImport, responses(
    (status = 200, description = "The steps of an import", body = ImportSteps),
    Problems,
))]
async fn compare_configuration(
    operator: Operator,
    State(context): State<Context>,
    Text(wanted): Text,
) -> Answer<ImportSteps> {
    let import = import(&wanted)?;
    Ok(Json(perform(operator, &context, array::CompareConfiguration(import)).await?.into()))
}

/// Import a configuration document
///
/// Creates what is missing and changes the objects that are named. Nothing is deleted. Steps that fail do not stop the others.
#[utoipa::path(post, path = "/api/v1/configuration/import", tag = "array", request_body = ConfigurationImport, responses(
    (status = 200, description = "The steps of the import", body = ImportSteps),
    Problems,
))]
async fn import_configuration(
    operator: Operator,
    State(context): State<Context>,
    Text(wanted): Text,
) -> Answer<ImportSteps> {
    let import = import(&wanted)?;
    Ok(Json(perform(operator, &context, array::ImportConfiguration(import)).await?.into()))
}

/// The document is parsed straight into its objects, as it may be long; by its head first, so that a document of another format is
/// refused as such.
fn import(text: &Bytes) -> Result<Import, Problem> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        document: DocumentHead,
    }
    let unreadable = |error: serde_json::Error| {
        let detail = format!("the configuration document can't be read: {error}");
        Problem::rejected(StatusCode::BAD_REQUEST, detail)
    };
    let head: Head = serde_json::from_slice(text).map_err(unreadable)?;
    ConfigurationDocument::check(&head.document)?;
    let ConfigurationImport { document, overwrite } = serde_json::from_slice(text).map_err(unreadable)?;
    Ok(Import { document, overwrite: overwrite.into_iter().collect() })
}

impl From<Vec<ImportStep>> for ImportSteps {
    fn from(steps: Vec<ImportStep>) -> Self {
        Self { total: steps.len(), items: steps }
    }
}
