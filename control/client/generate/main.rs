//! Generates the client when it is built, of `openapi/array.json`: `schemas.rs` by typify, `operations.rs`, a function for
//! each operation, and `table.rs`, by which results become tables.
//!
//! typify reads JSON Schema; this program adds what OpenAPI and the array's API need in addition: requests, and changes in
//! which `null` clears a field and an omitted field keeps its value.

mod operations;
mod table;

use anyhow::{Context, Result};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use syn::{Item, Type, parse_quote};

/// From the folder of the crate.
const DESCRIPTION: &str = "../../openapi/array.json";

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed={DESCRIPTION}");
    let folder = PathBuf::from(std::env::var("OUT_DIR")?);
    let text = std::fs::read_to_string(DESCRIPTION).with_context(|| format!("can't read {DESCRIPTION}"))?;
    let description: Value = serde_json::from_str(&text)?;
    let all = description["components"]["schemas"].as_object().context("the description has no schemas")?;
    let operations = operations::read(&description)?;
    let used = reachable(all, &operations);
    for (name, tokens) in [("schemas", schemas(&used)?), ("operations", operations::code(&operations))] {
        let path = folder.join(name).with_extension("rs");
        let text = without_details(&prettyplease::unparse(&syn::parse2(tokens)?));
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    let path = folder.join("table.rs");
    std::fs::write(&path, table::code(&text)?).with_context(|| format!("can't write {}", path.display()))
}

/// Name of the schema that a `$ref` refers to.
fn target(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

/// The schemas that operations use, and those that these use.
fn reachable(all: &Map<String, Value>, operations: &[operations::Operation]) -> Map<String, Value> {
    let mut waiting: Vec<String> = operations.iter().flat_map(operations::Operation::schemas).collect();
    let mut found = Map::new();
    while let Some(name) = waiting.pop() {
        let Some(schema) = all.get(&name).filter(|_| !found.contains_key(&name)) else { continue };
        references(schema, &mut waiting);
        found.insert(name, schema.clone());
    }
    found
}

fn references(value: &Value, found: &mut Vec<String>) {
    found.extend(target(value).map(str::to_owned));
    match value {
        Value::Object(fields) => fields.values().for_each(|value| references(value, found)),
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// As JSON Schema draft 7 has it: references to definitions, unsigned numbers by their format, times as text.
fn draft7(value: &mut Value) {
    let Value::Object(fields) = value else {
        return value.as_array_mut().into_iter().flatten().for_each(draft7);
    };
    if let Some(Value::String(reference)) = fields.get_mut("$ref") {
        *reference = reference.replace("#/components/schemas/", "#/definitions/");
    }
    if fields.get("format") == Some(&json!("date-time")) {
        fields.remove("format");
    }
    // The array checks bounds and explains errors; here they only distinguish unsigned numbers.
    if fields.get("minimum").and_then(Value::as_u64).is_some()
        && let Some(Value::String(format)) = fields.get_mut("format")
        && format.starts_with("int")
    {
        *format = format!("u{format}");
        fields.remove("minimum");
        fields.remove("maximum");
    }
    fields.values_mut().for_each(draft7);
}

fn schemas(used: &Map<String, Value>) -> Result<TokenStream> {
    let mut definitions = Value::Object(used.clone());
    draft7(&mut definitions);
    let root = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "definitions": definitions });
    let mut settings = typify::TypeSpaceSettings::default();
    let mut types = typify::TypeSpace::new(settings.with_struct_builder(false));
    types.add_root_schema(serde_json::from_value(root)?)?;
    let mut file: syn::File = syn::parse2(types.to_stream())?;
    for item in &mut file.items {
        if let Item::Struct(item) = item
            && let Some(schema) = used.get(&item.ident.to_string())
            && item.ident.to_string().ends_with("Change")
        {
            clearable(item, &schema["properties"]);
        }
    }
    let choices = used.iter().filter_map(|(name, schema)| choices(name, schema));
    let items = &file.items;
    Ok(quote!(#(#items)* #(#choices)*))
}

/// In a change an omitted field keeps its value and `null` clears it: `Option<Option<T>>`.
fn clearable(item: &mut syn::ItemStruct, properties: &Value) {
    for field in &mut item.fields {
        let name = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
        let schema = &properties[name];
        let kinds = schema["type"].as_array().into_iter().flatten();
        let mut alternatives = schema["oneOf"].as_array().into_iter().flatten().map(|it| &it["type"]);
        if kinds.into_iter().any(|kind| kind == "null") || alternatives.any(|kind| kind == "null") {
            let inner: &Type = &field.ty;
            field.ty = parse_quote!(::std::option::Option<#inner>);
        }
    }
}

/// The strings of an enumeration; `None` for other schemas.
fn choices(name: &str, schema: &Value) -> Option<TokenStream> {
    let values: Vec<&str> = match schema["enum"].as_array() {
        Some(values) => values.iter().filter_map(Value::as_str).collect(),
        // An enumeration with a description of each value.
        None => schema["oneOf"].as_array()?.iter().filter_map(|it| it["enum"][0].as_str()).collect(),
    };
    let name = format_ident!("{name}");
    (!values.is_empty()).then(|| {
        quote! {
            impl crate::Choice for #name {
                const CHOICES: &'static [&'static str] = &[#(#values),*];
            }
        }
    })
}

/// Without the JSON Schema that typify puts into the documentation of each type: the description has it.
fn without_details(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        let begins = line.trim_start().starts_with("/// <details>");
        inside |= begins;
        if !inside {
            kept += line;
            kept.push('\n');
        }
        inside &= !line.trim_start().starts_with("/// </details>");
    }
    kept
}
