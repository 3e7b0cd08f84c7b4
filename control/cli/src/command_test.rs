use super::*;
use clap::CommandFactory;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("ashlar").chain(line.split_whitespace()))
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn sizes_take_binary_and_decimal_units_and_bytes() {
    for (text, bytes) in [
        ("10GiB", 10 << 30),
        ("10 GiB", 10 << 30),
        ("10gib", 10 << 30),
        ("16PiB", 16 << 50),
        ("1.5TiB", 3 << 39),
        ("500GB", 500_000_000_000),
        ("512", 512),
        ("1048576", 1 << 20),
    ] {
        assert_eq!(size(text), Ok(bytes), "{text}");
    }
    for bad in ["", "GiB", "10XiB", "-1GiB", "ten", "0x10"] {
        assert!(size(bad).is_err(), "{bad}");
    }
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
fn times_have_units() {
    assert_eq!((seconds("90s"), seconds("7d"), seconds("2w")), (Ok(90), Ok(604_800), Ok(1_209_600)));
    for bad in ["", "7", "d", "-1h", "1.5h", "1y"] {
        assert!(seconds(bad).is_err(), "{bad}");
    }
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
