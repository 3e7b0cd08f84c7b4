//! Terminal prompts: secrets, which are not shown, and confirmations of what cannot be undone.
//!
//! Without a terminal a secret is read from a line of standard input, and a confirmation requires `--yes`.

use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, IsTerminal, Write};

/// Reads a secret: typed twice without being shown, or without a terminal the next line of standard input. It is no
/// argument, since every user of the machine could see it.
///
/// # Errors
/// If it is empty, or the two differ.
pub fn secret(what: &str) -> Result<String> {
    if !std::io::stdin().is_terminal() {
        return line(&mut std::io::stdin().lock(), what);
    }
    let typed =
        rpassword::prompt_password(format!("{what}: ")).with_context(|| format!("no {what} was given"))?;
    ensure!(!typed.is_empty(), "no {what} was given");
    let again = rpassword::prompt_password("Repeat: ").with_context(|| format!("no {what} was given"))?;
    ensure!(typed == again, "the two are not the same: nothing was changed");
    Ok(typed)
}

/// The next line, which must not be empty.
fn line(input: &mut impl BufRead, what: &str) -> Result<String> {
    let mut line = String::new();
    input.read_line(&mut line).with_context(|| format!("the {what} can't be read"))?;
    let line = line.trim_end_matches(['\r', '\n']);
    ensure!(!line.is_empty(), "no {what} was given: write it to standard input");
    Ok(line.to_owned())
}

/// Asks for a confirmation, unless it was given by `--yes`.
///
/// # Errors
/// If the answer is no, or there is no terminal to ask at.
pub fn confirm(yes: bool, consequence: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    let (input, mut output) = (std::io::stdin(), std::io::stderr());
    ensure!(
        input.is_terminal() && output.is_terminal(),
        "{consequence}. Nothing was done: add --yes to do it"
    );
    answered(&mut input.lock(), &mut output, consequence)
}

fn answered(input: &mut impl BufRead, output: &mut impl Write, consequence: &str) -> Result<()> {
    write!(output, "{consequence}. Go on? Type yes: ").and_then(|()| output.flush())?;
    let mut line = String::new();
    input.read_line(&mut line).context("no answer came")?;
    match line.trim() {
        "yes" => Ok(()),
        _ => bail!("nothing was done"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_yes_goes_on() {
        for (typed, goes_on) in [
            ("yes\n", true),
            (" yes \r\n", true),
            ("y\n", false),
            ("\n", false),
            ("", false),
            ("no\n", false),
        ] {
            let mut shown = Vec::new();
            let answer = answered(&mut typed.as_bytes(), &mut shown, "db1 is overwritten");
            assert_eq!(answer.is_ok(), goes_on, "{typed:?}");
            assert!(String::from_utf8(shown).expect("text").starts_with("db1 is overwritten. Go on?"));
        }
    }

    #[test]
    fn secrets_come_line_by_line() {
        let mut input = "first secret\r\nsecond\n".as_bytes();
        assert_eq!(line(&mut input, "secret").expect("one"), "first secret");
        assert_eq!(line(&mut input, "secret").expect("another"), "second");
        assert!(line(&mut input, "secret").expect_err("none").to_string().contains("standard input"));
    }
}
