//! Man pages and completions of `ashlard` and of the file with options, generated from the command line.

use crate::args::{self, DEFAULT_FILE};
use crate::config;
use anyhow::{Context, Result};
use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use std::fmt::Write;
use std::path::Path;

/// The section of programs for administrators.
const SECTION: &str = "8";

/// Writes them into a folder.
///
/// # Errors
/// If they can't be written.
pub fn write(folder: &Path) -> Result<()> {
    let written = (|| {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("ashlar.toml.5"), options())?;
        let mut command = args::command().disable_help_subcommand(true);
        command.build();
        page(&command, folder)
    })();
    written.with_context(|| format!("can't write man pages to {}", folder.display()))
}

/// Completions for a shell.
pub fn completion(shell: Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "ashlard", &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn page(command: &Command, folder: &Path) -> std::io::Result<()> {
    for command in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        page(command, folder)?;
    }
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let mut text = Vec::new();
    Man::new(command.clone()).section(SECTION).render(&mut text)?;
    std::fs::write(folder.join(format!("{name}.{SECTION}")), text)
}

/// ashlar.toml(5), as man(7) has it.
fn options() -> String {
    let mut text = format!(
        ".TH ashlar.toml 5 \"\" \"ashlard {}\"\n.SH NAME\nashlar.toml \\- options of the Ashlar array on this machine\n\
         .SH SYNOPSIS\n{}\n.SH DESCRIPTION\nA file in TOML. Each key is an option of\n.BR ashlard (8)\nwithout the dashes; \
         an option of the command line overrides it. Text is in quotes, an option that may be given several times has a \
         list, and one without a value is true or false. Changes take effect when the array is started again.\n\
         .B ashlard config check\nchecks the file.\n.PP\nThe file has to name what the array is stored on\n\
         (drive, rados or drives) and the portals for hosts (iscsi).\n.SH OPTIONS\n",
        env!("CARGO_PKG_VERSION"),
        DEFAULT_FILE,
    );
    let command = args::command();
    for arg in command.get_arguments().filter(|arg| config::may_be_in_a_file(arg)) {
        let _ =
            write!(text, ".TP\n\\fB{}\\fR = {}\n", escaped(arg.get_long().unwrap_or_default()), value(arg));
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "{}.", escaped(&help));
        let default: Vec<_> = arg.get_default_values().iter().map(|it| it.to_string_lossy()).collect();
        if arg.get_action().takes_values() && !default.is_empty() {
            let _ = writeln!(text, "Default: {}.", escaped(&default.join(", ")));
        }
    }
    text += ".SH SEE ALSO\n.BR ashlard (8),\n.BR ashlar (1)\n";
    text
}

/// The form of a value: `"ADDR[:PORT]"`, a list of them, or `true`.
fn value(arg: &Arg) -> String {
    if !arg.get_action().takes_values() {
        return "true".into();
    }
    let names = arg.get_value_names().map(|names| names.join(" ")).unwrap_or_default();
    match arg.get_action() {
        clap::ArgAction::Append => format!("[\"{}\", ...]", escaped(&names)),
        _ if names == "N" => names,
        _ => format!("\"{}\"", escaped(&names)),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_page_for_each_command_and_one_for_the_file() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        for name in ["ashlar.toml.5", "ashlard.8", "ashlard-check.8", "ashlard-key-rotate.8"] {
            assert!(names.iter().any(|it| it == name), "{name} in {names:?}");
        }
        assert!(!names.iter().any(|it| it.contains("manual") || it.contains("smart")), "hidden: {names:?}");
        let text = std::fs::read_to_string(folder.path().join("ashlar.toml.5")).unwrap();
        assert!(
            text.contains("\\fBdrive\\-size\\fR = \"SIZE\"") && text.contains("Default: 4GiB."),
            "{text}"
        );
        assert!(!text.contains("rados\\-array") && !text.contains("format\\-force"), "{text}");
    }
}
