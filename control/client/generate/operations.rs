//! Operations of the description, and the functions that make requests of them.

use crate::target;
use anyhow::{Context, Result};
use heck::ToUpperCamelCase;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use serde_json::Value;

/// One operation.
pub struct Operation {
    id: String,
    summary: String,
    method: String,
    path: String,
    parameters: Vec<Parameter>,
    body: Option<String>,
    response: Option<String>,
}

struct Parameter {
    name: String,
    in_path: bool,
    schema: Value,
}

impl Operation {
    /// The schemas that it uses.
    pub fn schemas(&self) -> Vec<String> {
        let mut used: Vec<String> = self.body.iter().chain(&self.response).cloned().collect();
        used.extend(self.parameters.iter().filter_map(|it| Some(target(&it.schema)?.to_owned())));
        used
    }
}

/// All operations, by path.
pub fn read(description: &Value) -> Result<Vec<Operation>> {
    let mut operations = Vec::new();
    for (path, methods) in description["paths"].as_object().context("the description has no paths")? {
        for (method, it) in methods.as_object().into_iter().flatten() {
            let responses = it["responses"].as_object().into_iter().flatten();
            let response =
                responses.filter(|(status, _)| status.starts_with('2')).find_map(|(_, it)| schema(it));
            // Headers are set by the sender of the request.
            let parameters = it["parameters"].as_array().into_iter().flatten();
            let parameters = parameters.filter(|it| it["in"] != "header");
            operations.push(Operation {
                id: it["operationId"].as_str().context("an operation has no id")?.to_owned(),
                summary: it["summary"].as_str().unwrap_or_default().to_owned(),
                method: method.to_uppercase(),
                path: path.clone(),
                parameters: parameters.map(parameter).collect(),
                body: schema(&it["requestBody"]),
                response,
            });
        }
    }
    Ok(operations)
}

/// The schema of a JSON body.
fn schema(holder: &Value) -> Option<String> {
    let schema = &holder["content"]["application/json"]["schema"];
    // An optional body.
    let alternatives = schema["oneOf"].as_array().into_iter().flatten();
    target(schema).or_else(|| alternatives.filter_map(target).next()).map(str::to_owned)
}

fn parameter(it: &Value) -> Parameter {
    let name = it["name"].as_str().unwrap_or_default().to_owned();
    Parameter { name, in_path: it["in"] == "path", schema: it["schema"].clone() }
}

/// A function for each operation, and a struct for each query.
pub fn code(operations: &[Operation]) -> TokenStream {
    let operations = operations.iter().map(operation);
    quote! {
        use super::schemas;
        use crate::{Request, quoted};
        #(#operations)*
    }
}

fn operation(it: &Operation) -> TokenStream {
    let (name, summary, method) = (format_ident!("{}", it.id), format!(" {}", it.summary), &it.method);
    let (in_path, in_query): (Vec<_>, Vec<_>) = it.parameters.iter().partition(|it| it.in_path);
    let names: Vec<_> = in_path.iter().map(|it| format_ident!("{}", it.name)).collect();
    let format =
        in_path.iter().fold(it.path.clone(), |path, it| path.replace(&format!("{{{}}}", it.name), "{}"));
    let mut arguments: Vec<TokenStream> = names.iter().map(|name| quote!(#name: &str)).collect();
    let mut calls = TokenStream::new();
    let mut query = TokenStream::new();
    if !in_query.is_empty() {
        let kind = format_ident!("{}", it.id.to_upper_camel_case());
        query = query_struct(&kind, &it.summary, &in_query);
        arguments.push(quote!(query: &#kind));
        let known: Vec<&str> = in_query.iter().map(|it| it.name.as_str()).collect();
        let known = known.join(" ");
        calls.extend(quote!(.query(query, #known)));
    }
    if let Some(body) = &it.body {
        let body = format_ident!("{body}");
        arguments.push(quote!(body: &schemas::#body));
        calls.extend(quote!(.body(body)));
    }
    let (response, schema) = match &it.response {
        Some(name) => {
            let name_ident = format_ident!("{name}");
            (quote!(schemas::#name_ident), name.as_str())
        }
        None => (quote!(()), ""),
    };
    quote! {
        #query
        #[doc = #summary]
        pub fn #name(#(#arguments),*) -> Request<#response> {
            Request::new(#method, format!(#format, #(quoted(#names)),*), #schema)#calls
        }
    }
}

fn query_struct(kind: &proc_macro2::Ident, summary: &str, parameters: &[&Parameter]) -> TokenStream {
    let summary = format!(" Query of: {summary}");
    let fields = parameters.iter().map(|it| {
        let (name, kind) = (format_ident!("{}", it.name), rust(&it.schema));
        quote! {
            #[serde(skip_serializing_if = "Option::is_none")]
            pub #name: Option<#kind>
        }
    });
    quote! {
        #[doc = #summary]
        #[derive(Clone, Debug, Default, serde::Serialize)]
        pub struct #kind { #(#fields),* }
    }
}

fn rust(schema: &Value) -> TokenStream {
    if let Some(name) = target(schema) {
        let name = format_ident!("{name}");
        return quote!(schemas::#name);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().find_map(|kind| kind.as_str().filter(|kind| *kind != "null")),
        kind => kind.as_str(),
    };
    match kind {
        Some("integer") if schema["minimum"] == 0 => quote!(u64),
        Some("integer") => quote!(i64),
        Some("number") => quote!(f64),
        Some("boolean") => quote!(bool),
        _ => quote!(String),
    }
}
