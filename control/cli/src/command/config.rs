//! Export and import of the array's configuration.

use crate::client::Client;
use crate::show::{self, Shown};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use client::api;
use client::schemas::{ConfigurationImport, ImportAction, ImportSteps};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Subcommand)]
pub enum ConfigVerb {
    /// Export the configuration as one document, without secrets and without data
    Export {
        /// File to write; -: standard output
        file: PathBuf,
        /// Replace a file that exists
        #[arg(long)]
        force: bool,
    },
    /// Compare a configuration document with the array, and with --apply create what is missing; nothing is deleted
    Import {
        /// File with the document; -: standard input
        file: PathBuf,
        /// Apply the document; without this option only the comparison is shown
        #[arg(long)]
        apply: bool,
        /// Existing object that takes the properties of the document, as the comparison names it, such as volume/db1;
        /// repeatable
        #[arg(long, value_name = "OBJECT")]
        overwrite: Vec<String>,
    },
}

impl ConfigVerb {
    pub fn run(self, client: &Client) -> Result<Shown> {
        match self {
            ConfigVerb::Export { file, force } => export(client, &file, force),
            ConfigVerb::Import { file, apply, overwrite } => import(client, &file, apply, overwrite),
        }
    }
}

fn export(client: &Client, file: &Path, force: bool) -> Result<Shown> {
    let document = client.call(api::show_configuration())?.value;
    if file == Path::new("-") {
        return Ok(Shown::text(document, |it| format!("{it:#}\n")));
    }
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    match force {
        true => options.create(true).truncate(true),
        false => options.create_new(true),
    };
    let mut output = match options.open(file) {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            bail!("{} exists: name another file, or add --force to replace it", file.display())
        }
        Err(error) => return Err(error).with_context(|| format!("can't write {}", file.display())),
    };
    output
        .write_all(format!("{document:#}\n").as_bytes())
        .and_then(|()| output.sync_all())
        .with_context(|| format!("can't write {}", file.display()))?;
    let answer = json!({ "file": file, "left_out": document["left_out"] });
    Ok(Shown::text(answer, |it| {
        let left = it["left_out"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let left: String = left.map(|it| format!("  {it}\n")).collect();
        format!("{} has the configuration. Left out:\n{left}", show::text(it, "file"))
    }))
}

fn import(client: &Client, file: &Path, apply: bool, overwrite: Vec<String>) -> Result<Shown> {
    let text = match file == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()).context("can't read standard input")?,
        false => crate::file::read(file)?,
    };
    let document =
        crate::file::document(&text).with_context(|| format!("{} can't be used", file.display()))?;
    let wanted = ConfigurationImport { document, overwrite };
    if !apply {
        let steps = client.call(api::compare_configuration(&wanted))?;
        eprintln!("Nothing was changed. With --apply these steps are carried out.");
        return Ok(steps.into());
    }
    let answer = client.call(api::import_configuration(&wanted))?;
    let steps: ImportSteps = answer.read()?;
    let failed: Vec<_> = steps.items.iter().filter(|step| step.action == ImportAction::Failed).collect();
    if failed.is_empty() {
        return Ok(answer.into());
    }
    let reasons =
        failed.iter().map(|it| format!("\n  {}: {}", it.object, it.detail.as_deref().unwrap_or("")));
    bail!(
        "{} of {} objects could not be imported, and the others were; a repeated import creates what is missing:{}",
        failed.len(),
        steps.items.len(),
        reasons.collect::<String>()
    )
}
