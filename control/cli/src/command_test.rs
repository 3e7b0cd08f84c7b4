use super::outcome::{each, equal};
use super::*;
use clap::CommandFactory;
use clap::error::ErrorKind;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    let words = std::iter::once("ashlar").chain(line.split_whitespace());
    Cli::from_arg_matches(&without_empty_texts(Cli::command()).try_get_matches_from(words)?)
}

/// The commands without further ones, with the words that name each.
fn commands(command: &clap::Command, words: &[String]) -> Vec<(Vec<String>, clap::Command)> {
    let mut found = Vec::new();
    for each in command.get_subcommands().filter(|it| it.get_name() != "help") {
        let words = [words, &[each.get_name().to_owned()]].concat();
        match each.has_subcommands() {
            true => found.extend(commands(each, &words)),
            false => found.push((words, each.clone())),
        }
    }
    found
}

/// Every option and argument of every command refuses what means nothing, with a text that names it. A text may be anything but
/// empty: the array knows whether there is such an object.
#[test]
fn values_that_mean_nothing_are_refused_by_every_option() {
    const NONSENSE: [&str; 7] =
        ["", " ", "nonsense!", "1e400", "NaN", "99999999999999999999999", "\u{202e}1"];
    let mut root = without_empty_texts(Cli::command());
    root.build();
    let types = [ValueParser::string().type_id(), ValueParser::path_buf().type_id()];
    let (mut tried, mut options) = (0, 0);
    for (words, command) in commands(&root, &["ashlar".to_owned()]) {
        let positional = command.get_positionals().next();
        let named = command.get_arguments().filter(|it| it.get_long().is_some());
        for argument in named.chain(positional).filter(|it| it.get_action().takes_values()) {
            options += 1;
            let is_text = types.contains(&argument.get_value_parser().type_id());
            for value in NONSENSE.into_iter().filter(|value| !is_text || value.is_empty()) {
                let word = argument.get_long().map_or(value.to_owned(), |long| format!("--{long}={value}"));
                let escape = argument.get_long().is_none().then(|| "--".to_owned());
                let line: Vec<_> = words.last().cloned().into_iter().chain(escape).chain([word]).collect();
                let refused = command.clone().try_get_matches_from(&line).expect_err(&words.join(" "));
                let kinds = [ErrorKind::ValueValidation, ErrorKind::InvalidValue];
                assert!(kinds.contains(&refused.kind()), "{line:?}: {refused}");
                assert!(refused.to_string().contains("value"), "{line:?}: {refused}");
                tried += 1;
            }
        }
    }
    assert!(options > 700 && tried > 1500, "{options} options, {tried} values");
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn global_options_may_come_last() {
    assert!(parse("volume list -o json --data /d").is_ok());
    assert!(parse("--data /d -o table array status").is_ok());
    assert!(parse("array status --data /d --array http://x").is_err());
}

#[test]
fn chap_users_and_secrets_come_in_pairs() {
    assert!(parse("host create h --iqn iqn.2001-04.com.a:1 --iqn iqn.2001-04.com.a:2").is_ok());
    assert!(parse("host create h").is_err());
    assert!(parse("host create h --iqn i --chap-user u --chap-secret s").is_ok());
    assert!(parse("host create h --iqn i --chap-user u").is_ok(), "the secret is asked for");
    assert!(parse("host create h --iqn i --chap-secret s").is_err());
    assert!(parse("host create h --iqn i --mutual-user u --mutual-secret s").is_err());
    assert!(parse("host create h --iqn i --mutual-user u").is_err());
    assert!(
        parse("host create h --iqn i --chap-user u --chap-secret s --mutual-user v --mutual-secret t")
            .is_ok()
    );
}

#[test]
fn a_subject_or_peer_is_named_once() {
    for good in [
        "snapshot create db1",
        "snapshot create --group sql --suffix s1 --retain-until 2030-01-01T00:00:00Z",
        "schedule create gold --group sql --rule hourly=24 --rule daily=7 --immutable 12h",
        "volume connect db1 --host-group cluster --read-only",
        "volume set db1 --iops none --compression inherit --bandwidth 10MiB --group sql",
        "group create sql --soft-quota 1TiB --hard-quota none",
        "array set --unmap-throttle 9 --recycle-bin 7d",
        "volume list --watch=5s -o csv",
        "volume list --watch",
        "performance history --volume db1 --last 1h",
        "analysis sizes --host esx1",
        "user create bob --role operator",
        "snapshot lock db1.a --until 2030-01-01T00:00:00Z",
        "snapshot restore db1.a --yes --no-safety-snapshot",
        "volume restore db1 --from db1.a --yes",
        "volume delete db1 --eradicate --yes",
        "completion bash",
    ] {
        assert!(parse(good).is_ok(), "{good}");
    }
    for bad in [
        "snapshot create",
        "snapshot create db1 --group sql",
        "schedule create gold --group sql --rule hourly",
        "schedule create gold --group sql --volume a --rule hourly=1",
        "volume connect db1",
        "volume connect db1 --host a --host-group b",
        "volume set db1 --group a --no-group",
        "array set --unmap-throttle 10",
        "user create bob --role root",
        "performance history --volume db1 --host esx1",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_reference_is_what_the_command_line_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let now = manual::reference(Cli::command());
    assert!(written == now, "`cargo xtask openapi --write` and review the difference");
}

#[test]
fn every_noun_and_verb_has_a_man_page() {
    let folder = tempfile::tempdir().expect("a folder");
    manual::man_pages(Cli::command(), folder.path()).expect("man pages");
    for page in ["ashlar.1", "ashlar-volume.1", "ashlar-volume-create.1", "ashlar-drive-add.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn a_refused_field_is_an_option_of_the_command() {
    let option = |field: &str, line: &str| option_in(field, line.split_whitespace().map(str::to_owned));
    assert_eq!(option("lun", "volume connect db1 --host h --lun 3").as_deref(), Some("lun"));
    assert_eq!(option("mixed_transports", "volume set db1").as_deref(), Some("mixed-transports"));
    assert_eq!(option("time_zone", "--data /d array set --time-zone x").as_deref(), Some("time-zone"));
    assert_eq!(option("recycle_bin_seconds", "array set").as_deref(), Some("recycle-bin"));
    assert_eq!(option("lun", "volume list"), None);
}

#[test]
fn options_of_every_command_are_in_a_section_of_their_own() {
    let mut command = Cli::command();
    command.build();
    let show =
        command.find_subcommand("volume").and_then(|it| it.find_subcommand("list")).expect("a command");
    let global: Vec<_> = show.get_arguments().filter(|it| it.is_global_set()).collect();
    assert!(global.len() >= 9, "{global:?}");
    for argument in global {
        let builtin = ["help", "version"].contains(&argument.get_id().as_str());
        assert!(builtin || argument.get_help_heading() == Some(GLOBAL), "{argument:?}");
    }
}

#[test]
fn several_objects_are_deleted_at_once() {
    for noun in
        ["volume", "snapshot", "group", "host", "host-group", "schedule", "user", "token", "notification"]
    {
        assert!(parse(&format!("{noun} delete a b c")).is_ok(), "{noun}");
        assert!(parse(&format!("{noun} delete")).is_err(), "{noun}");
    }
    assert!(parse("volume list --sort -mapped,name --filter size>=5").is_ok());
}

#[test]
fn an_option_that_names_an_object_is_no_pattern() {
    assert_eq!(equal("group", "sql"), "group=sql");
    assert_eq!(equal("group", r"*,name=a\"), r"group=\*\,name=a\\");
}

#[test]
fn what_is_done_with_several_stops_at_the_first_failure() {
    let one = |name: String| match name.as_str() {
        "bad" => Err(anyhow::anyhow!("no such volume")),
        _ => Ok(crate::show::deleted(name)),
    };
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let done = each(names(&["a", "b"]), one).expect("both");
    assert_eq!(done.table(), "a is deleted\nb is deleted\n");
    assert_eq!(done.value, json!([{ "deleted": "a" }, { "deleted": "b" }]));
    assert_eq!(each(names(&["a"]), one).expect("one").value, json!({ "deleted": "a" }));
    let failed = each(names(&["a", "bad", "c"]), one).err().expect("a failure");
    assert_eq!(format!("{failed:#}"), "a is deleted\nbad and what follows it is unchanged: no such volume");
}
