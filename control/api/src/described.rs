//! The headers of [`crate::contract`] in the description of the API: `Idempotency-Key`, `If-Match` and `ETag`.

use crate::contract::{MAX_KEY_CHARS, logs_in};
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{Components, Content, OpenApi, Ref, RefOr, Required};

/// Adds them where the contract has them.
pub fn add_headers(openapi: &mut OpenApi) {
    let OpenApi { paths, components, .. } = openapi;
    for (path, item) in paths.paths.iter_mut().filter(|(path, _)| path.starts_with("/api/")) {
        let tagged = item.get.as_mut().is_some_and(|get| add_tag(get, components.as_ref()));
        if logs_in(path) {
            continue;
        }
        for change in changes(item) {
            let parameters = change.parameters.get_or_insert_default();
            parameters.push(RefOr::T(idempotency_key()));
            if tagged {
                parameters.push(RefOr::T(if_match()));
            }
        }
    }
}

fn changes(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete].into_iter().filter_map(Option::as_mut)
}

/// Adds the ETag to the response of an operation, if that is an object with a name. Returns whether it is.
fn add_tag(get: &mut Operation, components: Option<&Components>) -> bool {
    let Some(RefOr::T(response)) = get.responses.responses.get_mut("200") else { return false };
    let Some(RefOr::T(Content { schema: Some(schema), .. })) = response.content.get("application/json")
    else {
        return false;
    };
    if !has_name(schema, components) {
        return false;
    }
    let header = HeaderBuilder::new()
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .description(Some("Changes with the settings of the object; for If-Match"));
    response.headers.insert("ETag".into(), RefOr::T(header.build()));
    true
}

fn has_name(schema: &RefOr<Schema>, components: Option<&Components>) -> bool {
    let named = |Ref { ref_location, .. }: &Ref| {
        let name = ref_location.rsplit('/').next()?;
        components?.schemas.get(name)
    };
    let schema = match schema {
        RefOr::Ref(reference) => named(reference),
        RefOr::T(_) => Some(schema),
    };
    matches!(schema, Some(RefOr::T(Schema::Object(object))) if object.properties.contains_key("name"))
}

fn idempotency_key() -> Parameter {
    let text =
        ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(MAX_KEY_CHARS));
    let meaning =
        "Of the caller's choice: requests repeated with the same key within a day are carried out once";
    header("Idempotency-Key", meaning, text)
}

fn if_match() -> Parameter {
    let meaning = "ETag of the object as the caller knows it: refused with 412 if it has changed since";
    header("If-Match", meaning, ObjectBuilder::new().schema_type(Type::String))
}

fn header(name: &str, meaning: &str, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(meaning))
        .schema(Some(schema))
        .build()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    #[test]
    fn changes_have_the_headers_of_the_contract_and_queries_their_tag() {
        let openapi: Value = serde_json::from_str(&crate::openapi()).unwrap();
        let headers = |method: &str, path: &str| -> Vec<String> {
            let parameters = openapi["paths"][path][method]["parameters"].as_array();
            let headers = parameters.into_iter().flatten().filter(|it| it["in"] == "header");
            headers.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
        };
        let tag =
            |path: &str| openapi["paths"][path]["get"]["responses"]["200"]["headers"]["ETag"].is_object();
        let volume = "/api/v1/volumes/{name}";
        assert_eq!(headers("patch", volume), ["Idempotency-Key", "If-Match"]);
        assert_eq!(headers("delete", volume), ["Idempotency-Key", "If-Match"]);
        assert_eq!(headers("post", "/api/v1/volumes"), ["Idempotency-Key"]);
        assert!(headers("get", volume).is_empty() && headers("post", "/api/v1/session").is_empty());
        assert!(tag(volume) && !tag("/api/v1/volumes"));
    }
}
