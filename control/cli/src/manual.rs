//! Man pages and the reference `docs/cli.md`, generated from the command line.

use anyhow::{Context, Result};
use clap::{Arg, Command};
use std::fmt::Write;
use std::path::Path;

/// Writes a man page for the command and for each of its nouns and verbs.
///
/// # Errors
/// If they cannot be written.
pub fn man_pages(command: Command, folder: &Path) -> Result<()> {
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    written.with_context(|| format!("can't write man pages to {}", folder.display()))
}

/// Every noun and verb with its options.
pub fn reference(mut command: Command) -> String {
    command.build();
    let mut text = String::from(
        "# `ashlar` reference\n\nGenerated from the command line by `cargo xtask openapi --write`. Options of every \
         verb:\n\n",
    );
    arguments(&mut text, &command, |arg| arg.is_global_set());
    // `help` has all of them once more.
    for noun in command.get_subcommands().filter(|noun| !noun.is_hide_set() && noun.get_name() != "help") {
        let _ = write!(text, "\n## {}\n\n{}.\n", noun.get_name(), about(noun));
        for verb in noun.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let _ = write!(text, "\n### {}\n\n{}.\n\n", usage(verb), about(verb));
            arguments(&mut text, verb, |arg| !arg.is_global_set());
        }
        if !noun.has_subcommands() {
            text.push('\n');
            arguments(&mut text, noun, |arg| !arg.is_global_set());
        }
    }
    text
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// `volume connect <NAME>`, without options.
fn usage(command: &Command) -> String {
    let mut line = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    for arg in command.get_positionals() {
        let name = arg.get_id().as_str().to_uppercase();
        let _ = if arg.is_required_set() { write!(line, " <{name}>") } else { write!(line, " [{name}]") };
    }
    format!("`{line}`")
}

fn arguments(text: &mut String, command: &Command, wanted: impl Fn(&Arg) -> bool) {
    let shown = |arg: &&Arg| {
        wanted(arg) && !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str())
    };
    for arg in command.get_arguments().filter(shown) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let value = || {
            let names = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
            if arg.get_action().takes_values() { format!(" <{names}>") } else { String::new() }
        };
        let name = match arg.get_long() {
            Some(long) => format!("--{long}{}", value()),
            None => arg.get_id().as_str().to_uppercase(),
        };
        let choices: Vec<_> = arg.get_possible_values().iter().map(|it| it.get_name().to_owned()).collect();
        let mut line = format!("- `{name}`: {help}");
        if !choices.is_empty() && arg.get_action().takes_values() {
            let _ = write!(line, " ({})", choices.join(", "));
        }
        push_wrapped(text, &line);
    }
}

/// Adds an item of a list in lines of at most 120 characters. Its name stays in one line.
fn push_wrapped(text: &mut String, line: &str) {
    const LINE_MAX: usize = 120;
    let at = line.find(": ").map_or(0, |colon| colon + 1);
    let (name, help) = line.split_at(at);
    text.push_str(name);
    let mut length = name.chars().count();
    for word in help.split_whitespace() {
        let is_full = length + 1 + word.chars().count() > LINE_MAX;
        text.push_str(if is_full { "\n  " } else { " " });
        text.push_str(word);
        length = if is_full { 2 } else { length + 1 } + word.chars().count();
    }
    text.push('\n');
}
