//! `ashlar`: the command line of an array. A client of its API, and of nothing else.
//!
//! Exit status: 0 success, 1 the array refused or could not be reached, 2 wrong usage.

mod ask;
mod client;
mod columns;
mod command;
mod exact;
mod file;
mod format;
mod manual;
mod profile;
mod show;
mod trust;
mod window;

use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = command::Cli::of_arguments();
    let print = |text: &str| {
        use std::io::Write;
        // A reader that closes the pipe (`| head`) is no error.
        if std::io::stdout().write_all(text.as_bytes()).is_err() {
            std::process::exit(0);
        }
    };
    match cli.run(print) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let option = error.downcast_ref::<client::Refusal>().and_then(|it| command::option_of(&it.field));
            let option = option.map(|option| format!(" (--{option})")).unwrap_or_default();
            eprintln!("ashlar: {error:#}{option}");
            ExitCode::FAILURE
        }
    }
}
