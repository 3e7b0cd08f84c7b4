use super::*;
use clap::{CommandFactory, Parser};

fn parse(line: &str) -> Result<Args, clap::Error> {
    Args::try_parse_from(std::iter::once("ashlard").chain(line.split_whitespace()))
}

#[test]
fn the_command_line_is_consistent() {
    Args::command().debug_assert();
}

#[test]
fn portals_and_drives_are_lists() {
    let args =
        parse("--data d --drive a --drive b,c --iscsi 127.0.0.1:3260,[::1]:0 --api 127.0.0.1:1").unwrap();
    assert_eq!(args.drive.len(), 3);
    assert_eq!(args.iscsi.len(), 2);
    assert_eq!((args.drives, args.drive_size), (8, 4 << 30));
}

#[test]
fn a_check_needs_a_folder_alone() {
    let args = parse("check --data d --drive a,b").unwrap();
    let Some(Command::Check(check)) = args.command else { panic!("a check") };
    assert_eq!(check.drive.len(), 2);
    assert!(!check.repair && parse("check --data d --repair --yes").is_ok());
    assert!(parse("check").is_err() && parse("check --data d --yes").is_err());
    assert!(parse("--data d --iscsi 127.0.0.1:0 check --data d").is_err());
}

#[test]
fn a_format_is_a_command_of_its_own_and_names_arrays_in_full() {
    let id = "00000000000000000000000000000007";
    let args = parse(&format!("format --data d --drive a,b --force --take-from-array {id}")).unwrap();
    let Some(Command::Format(format)) = args.command else { panic!("a format") };
    assert_eq!((format.drive.len(), format.force, format.take_from_array), (2, true, vec![7]));
    for wrong in ["7", "", "0000000000000000000000000000000g", "+0000000000000000000000000000007"] {
        assert!(parse(&format!("format --data d --take-from-array={wrong}")).is_err(), "{wrong}");
    }
    // So that a service that still has it says what to do.
    assert!(parse("--data d --iscsi 127.0.0.1:0 --format-force").unwrap().format_force);
}

#[test]
fn plain_http_stays_on_this_machine() {
    let plain = |more: &str| {
        parse(&format!("--data d --iscsi 127.0.0.1:0 {more}")).unwrap().configuration().api.plain_http()
    };
    assert!(plain("") && plain("--api [::1]:80"));
    assert!(!plain("--api 0.0.0.0:80") && !plain("--tls-only"));
}

#[test]
fn a_folder_and_a_portal_are_needed() {
    assert!(parse("--iscsi 127.0.0.1:0").is_err());
    assert!(parse("--data d").is_err());
    assert!(parse("--openapi").is_ok());
}

#[test]
fn an_array_is_on_drives_or_in_ceph() {
    assert!(parse("--data d --iscsi 127.0.0.1:0 --rados p").is_ok());
    assert!(parse("--data d --iscsi 127.0.0.1:0 --rados p --drive x").is_err());
}
