use super::*;
use crate::access::{Access, Credentials};
use crate::connection::ConnectionConfig;
use crate::lab_test::{self, INITIATOR, Lab, NONCE, TARGET, TestClock, setup, status, target_config, value};
use crate::{LoginAttempts, LoginThrottle};
use std::sync::Arc;

const ME: (&str, &str) = ("InitiatorName", INITIATOR);
const THERE: (&str, &str) = ("TargetName", TARGET);
const CHAP: (&str, &str) = ("AuthMethod", "CHAP");

fn fresh() -> Lab {
    Lab::new(setup(target_config()))
}

fn with_chap(mutual: bool) -> Lab {
    Lab::new(setup(Arc::new(chap_config(mutual))))
}

fn chap_config(mutual: bool) -> TargetConfig {
    let target_config = TargetConfig::new(TARGET);
    let credentials =
        |name: &str, secret: &str| Credentials { name: name.to_owned(), secret: secret.to_owned() };
    let access = Access {
        chap: Some(credentials("me", "a secret of the host")),
        mutual: mutual.then(|| credentials("array", "a secret of the array")),
    };
    target_config.set_access([(INITIATOR.to_owned(), access)].into());
    target_config
}

fn chap_response(secret: &str) -> String {
    use sha2::{Digest, Sha256};
    let digest =
        Sha256::new().chain_update([NONCE.id]).chain_update(secret).chain_update(NONCE.challenge).finalize();
    digest.iter().fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}

#[test]
fn a_login_in_one_step() {
    let mut lab = fresh();
    let answer = lab.login(0x87, &[ME, THERE, ("MaxBurstLength", "16384")]);
    assert_eq!((status(&answer), answer.header.flags()), (0, 0x87));
    assert_eq!(answer.header.u16::<14>(), 42, "TSIH");
    assert_eq!(value(&answer, "TargetPortalGroupTag").unwrap(), "3");
    assert_eq!(value(&answer, "MaxRecvDataSegmentLength").unwrap(), "262144");
    assert_eq!(value(&answer, "MaxBurstLength").unwrap(), "16384");
}

#[test]
fn a_login_through_both_stages() {
    let mut lab = fresh();
    let answer = lab.login(0x81, &[ME, THERE, ("AuthMethod", "CHAP,None")]);
    assert_eq!((status(&answer), answer.header.flags()), (0, 0x81));
    assert_eq!(value(&answer, "AuthMethod").unwrap(), "None", "there is no secret to check");
    assert_eq!(answer.header.u16::<14>(), 0, "no TSIH before the end");
    let answer = lab.login(0x04, &[("HeaderDigest", "CRC32C,None")]);
    assert_eq!((status(&answer), answer.header.flags()), (0, 0x04));
    let answer = lab.login(0x87, &[]);
    assert_eq!((status(&answer), answer.header.flags()), (0, 0x87));
    assert_eq!(value(&answer, "MaxRecvDataSegmentLength"), None, "declared once");
}

/// libiscsi repeats names when it discovers with a secret that the target does not require.
#[test]
fn names_may_be_repeated_in_the_next_stage() {
    let mut lab = fresh();
    lab.login(0x81, &[ME, THERE, ("AuthMethod", "CHAP,None")]);
    assert_eq!(status(&lab.login(0x87, &[ME, THERE])), 0);
}

#[test]
fn the_security_stage_may_lead_to_full_feature() {
    let answer = fresh().login(0x83, &[ME, THERE, ("AuthMethod", "None")]);
    assert_eq!((status(&answer), answer.header.flags()), (0, 0x83));
}

#[test]
fn text_may_be_cut_anywhere() {
    let mut lab = fresh();
    let answer = lab.login(0x44, &[("InitiatorName", &INITIATOR[..5])]);
    assert_eq!((status(&answer), answer.header.flags()), (0, 0x04));
    assert!(answer.data.is_empty());
    // The NUL that ends the first part is between the two.
    let answer = lab.login(0x87, &[("TargetName", TARGET)]);
    assert_eq!(status(&answer), LoginStatus::AuthorizationFailure as u16);
}

#[test]
fn names_are_case_insensitive() {
    let name = INITIATOR.to_uppercase();
    assert_eq!(status(&fresh().login(0x87, &[("InitiatorName", &name), THERE])), 0);
}

/// Flags and keys of a first request, and the status that refuses it.
type RefusedLogin = (u8, &'static [(&'static str, &'static str)], LoginStatus);

const REFUSED: &[RefusedLogin] = &[
    (0x87, &[THERE], LoginStatus::MissingParameter),
    (0x87, &[ME], LoginStatus::MissingParameter),
    (0x87, &[], LoginStatus::MissingParameter),
    (0x87, &[ME, ("TargetName", "iqn.2026-01.test:other")], LoginStatus::NotFound),
    (0x87, &[("InitiatorName", "iqn.2026-01.test:stranger"), THERE], LoginStatus::AuthorizationFailure),
    (0x87, &[ME, THERE, ("SessionType", "Other")], LoginStatus::SessionTypeNotSupported),
    (0x81, &[ME, THERE, ("AuthMethod", "SRP,KRB5")], LoginStatus::AuthenticationFailure),
    (0x81, &[ME, THERE, CHAP], LoginStatus::AuthenticationFailure),
    (0x87, &[ME, THERE, ("MaxRecvDataSegmentLength", "1")], LoginStatus::InitiatorError),
    (0x87, &[ME, THERE, ("TargetAlias", "x")], LoginStatus::InitiatorError),
    (0x87, &[ME, ME], LoginStatus::InitiatorError),
    (0x87, &[("InitiatorName", ""), THERE], LoginStatus::InitiatorError),
    (0x87, &[("InitiatorName", "iqn.a\nforged line"), THERE], LoginStatus::InitiatorError),
    (0xc7, &[ME, THERE], LoginStatus::InitiatorError),
    (0x84, &[ME, THERE], LoginStatus::InitiatorError),
    (0x8c, &[ME, THERE], LoginStatus::InitiatorError),
    (0x8b, &[ME, THERE], LoginStatus::InitiatorError),
];

#[test]
fn refusals_say_why() {
    for (flags, keys, expected) in REFUSED {
        let mut lab = fresh();
        let answer = lab.login(*flags, keys);
        assert_eq!(status(&answer), *expected as u16, "{flags:#x} {keys:?}");
        assert_eq!(answer.header.flags() & FINAL, 0);
        assert!(lab.connection.ended().unwrap().starts_with("login refused"));
    }
}

fn send_header(change: impl Fn(Header) -> Header) -> u16 {
    let mut lab = fresh();
    let header = Header::new(opcode::LOGIN | 0x40, 0x87).put(8, [0x80, 0, 0, 0, 0, 1]);
    lab.send(change(header), &lab_test::text(&[ME, THERE]));
    status(&lab.one())
}

#[test]
fn versions_handles_and_sessions_are_checked() {
    assert_eq!(send_header(|header| header), 0);
    assert_eq!(send_header(|header| header.put(3, [1])), LoginStatus::UnsupportedVersion as u16);
    assert_eq!(send_header(|header| header.put_u16(14, 77)), LoginStatus::TooManyConnections as u16);
    assert_eq!(send_header(|header| header.put_u16(14, 77).put_u16(20, 5)), 0, "connection reinstatement");
    assert_eq!(send_header(|header| header.put_u16(14, 78)), LoginStatus::SessionDoesNotExist as u16);
}

#[test]
fn other_requests_during_login_are_invalid() {
    let mut lab = fresh();
    lab.login(0x04, &[ME, THERE]);
    lab.send(Header::new(opcode::NOP_OUT | 0x40, FINAL), &[]);
    assert_eq!(status(&lab.one()), LoginStatus::InvalidDuringLogin as u16);
    assert!(lab.connection.ended().is_some());
}

#[test]
fn an_initiator_with_a_secret_must_use_it() {
    for (flags, keys) in
        [(0x87, &[ME, THERE][..]), (0x81, &[ME, THERE]), (0x81, &[ME, THERE, ("AuthMethod", "None")])]
    {
        let answer = with_chap(false).login(flags, keys);
        assert_eq!(status(&answer), LoginStatus::AuthenticationFailure as u16, "{flags:#x}");
    }
}

#[test]
fn chap_lets_the_right_initiator_in_and_no_other() {
    for (secret, expected) in [("a secret of the host", 0), ("another secret", 0x0201)] {
        let mut lab = with_chap(false);
        let answer = lab.login(0x81, &[ME, THERE, ("AuthMethod", "CHAP,None")]);
        assert_eq!((status(&answer), answer.header.flags()), (0, 0x00), "no transit yet");
        assert_eq!(value(&answer, "AuthMethod").unwrap(), "CHAP");
        let answer = lab.login(0x00, &[("CHAP_A", "7,5")]);
        assert_eq!(value(&answer, "CHAP_A").unwrap(), "7");
        assert_eq!(value(&answer, "CHAP_I").unwrap(), "7");
        let response = chap_response(secret);
        let answer = lab.login(0x81, &[("CHAP_N", "me"), ("CHAP_R", &response)]);
        assert_eq!(status(&answer), expected);
        if expected == 0 {
            assert_eq!(answer.header.flags(), 0x81);
            assert_eq!(status(&lab.login(0x87, &[])), 0);
        }
    }
}

#[test]
fn mutual_chap_authenticates_the_target() {
    let mut lab = with_chap(true);
    lab.login(0x00, &[ME, THERE, CHAP]);
    lab.login(0x00, &[("CHAP_A", "7")]);
    let response = chap_response("a secret of the host");
    let keys = [("CHAP_N", "me"), ("CHAP_R", &response), ("CHAP_I", "1"), ("CHAP_C", "0x0203")];
    let answer = lab.login(0x81, &keys);
    assert_eq!((status(&answer), answer.header.flags()), (0, 0x81));
    assert_eq!(value(&answer, "CHAP_N").unwrap(), "array");
    assert_eq!(value(&answer, "CHAP_R").unwrap().len(), 66);
}

#[test]
fn chap_can_not_be_stepped_over() {
    let mut lab = with_chap(false);
    lab.login(0x00, &[ME, THERE, CHAP]);
    let answer = lab.login(0x83, &[]);
    assert_eq!((status(&answer), answer.header.flags()), (0, 0x00), "no transit");
    lab.login(0x00, &[("CHAP_A", "5")]);
    assert_eq!(status(&lab.login(0x83, &[])), LoginStatus::AuthenticationFailure as u16);
}

#[test]
fn discovery_needs_neither_a_target_nor_a_secret() {
    let answer = with_chap(false).login(0x87, &[ME, ("SessionType", "Discovery")]);
    assert_eq!(status(&answer), 0);
    assert_eq!(value(&answer, "TargetPortalGroupTag"), None);
}

#[test]
fn a_name_is_as_long_as_it_was_checked_to_be() {
    for name in
        ["\u{130}", "iqn.2026-11.test:h\u{f4}te", &"\u{130}".repeat(111), "iqn.a,i,0x1", &"x".repeat(224)]
    {
        let answer = fresh().login(0x87, &[("InitiatorName", name), THERE]);
        assert_eq!(status(&answer), LoginStatus::InitiatorError as u16, "{name}");
        let answer = fresh().login(0x87, &[("InitiatorName", name), ("SessionType", "Discovery")]);
        assert_eq!(status(&answer), LoginStatus::InitiatorError as u16, "{name}");
    }
    let answer = fresh().login(0x87, &[("InitiatorName", &INITIATOR.to_ascii_uppercase()), THERE]);
    assert_eq!(status(&answer), 0);
}

/// Cause of the refused login, as operators see it.
fn cause(lab: &mut Lab) -> (Option<String>, String) {
    let (initiator, cause) = lab.connection.take_refusal().expect("a refusal");
    (initiator, format!("{}: {cause}", cause.kind()))
}

#[test]
fn operators_learn_why_a_login_was_refused() {
    let me = || Some(INITIATOR.to_owned());
    let mut lab = fresh();
    lab.login(0x87, &[("InitiatorName", "iqn.2026-01.test:Stranger"), THERE]);
    let stranger = Some("iqn.2026-01.test:stranger".to_owned());
    assert_eq!(cause(&mut lab), (stranger, "unknown-initiator: no host has this initiator name".into()));
    let mut lab = fresh();
    lab.login(0x87, &[ME, ("TargetName", "iqn.x:\u{1}y")]);
    assert_eq!(cause(&mut lab), (me(), "unknown-target: there is no target named iqn.x:?y".into()));
    let mut lab = with_chap(false);
    lab.login(0x87, &[ME, THERE]);
    assert_eq!(cause(&mut lab).1, "chap-required: CHAP is required, and the initiator does not use it");
    let mut lab = with_chap(false);
    lab.login(0x81, &[ME, THERE, ("AuthMethod", "None")]);
    assert_eq!(cause(&mut lab).1, "chap-required: CHAP is required, and the initiator does not use it");
    let mut lab = fresh();
    lab.login(0x81, &[ME, THERE, CHAP]);
    assert!(cause(&mut lab).1.starts_with("chap-not-configured: "));
    let mut lab = fresh();
    lab.login(0x87, &[THERE]);
    assert_eq!(cause(&mut lab), (None, "protocol-error: protocol error: no InitiatorName".into()));
    assert_eq!(lab.connection.take_refusal(), None, "once");
}

#[test]
fn operators_learn_which_part_of_chap_was_wrong_and_no_secret() {
    let with = |keys: &[(&str, &str)], mutual| {
        let mut lab = with_chap(mutual);
        lab.login(0x00, &[ME, THERE, CHAP]);
        lab.login(0x00, &[("CHAP_A", "7")]);
        lab.login(0x83, keys);
        cause(&mut lab).1
    };
    let (right, wrong) =
        (chap_response("a secret of the host"), chap_response("another secret, the wrong one"));
    let user = |name| ("CHAP_N", name);
    assert_eq!(with(&[user("you"), ("CHAP_R", &right)], false), "wrong-chap-user: wrong CHAP user you");
    let secret = with(&[user("me"), ("CHAP_R", &wrong)], false);
    assert_eq!(secret, "wrong-chap-secret: wrong CHAP secret for user me");
    let mutual =
        [user("me"), ("CHAP_R", &right), ("CHAP_I", "1"), ("CHAP_C", "0x0102030405060708090a0b0c0d0e0f10")];
    assert!(with(&mutual, false).starts_with("mutual-chap-not-configured: "));
    let long = "u".repeat(200);
    assert!(with(&[user(&long), ("CHAP_R", &right)], false).ends_with("u…"), "what is shown is cut");
}

#[test]
fn guessed_secrets_are_delayed_even_for_challenges_sent_before() {
    let target_config = Arc::new(chap_config(false));
    let clock = Arc::new(TestClock::default());
    let throttle = Arc::new(LoginThrottle::new(clock.clone()));
    let at = |address: &str| LoginAttempts::new(throttle.clone(), address.parse().unwrap());
    let here = ConnectionConfig { attempts: at("10.0.0.7"), ..setup(target_config) };
    let challenged = |setup: &ConnectionConfig| {
        let mut lab = Lab::new(setup.clone());
        lab.login(0x00, &[ME, THERE, CHAP]);
        lab.login(0x00, &[("CHAP_A", "7")]);
        lab
    };
    let respond = |mut lab: Lab, secret: &str| {
        let response = chap_response(secret);
        (status(&lab.login(0x83, &[("CHAP_N", "me"), ("CHAP_R", &response)])), lab)
    };
    let right = "a secret of the host";
    let early = challenged(&here);
    for _ in 0..5 {
        assert_eq!(respond(challenged(&here), "a guess").0, LoginStatus::AuthenticationFailure as u16);
    }
    let (refused, mut lab) = respond(early, right);
    assert_eq!(refused, LoginStatus::ServiceUnavailable as u16);
    assert!(cause(&mut lab).1.starts_with("too-many-attempts: "));
    let mut later = Lab::new(here.clone());
    assert_eq!(status(&later.login(0x00, &[ME, THERE, CHAP])), LoginStatus::ServiceUnavailable as u16);
    // Another address of the host is not affected.
    let there = ConnectionConfig { attempts: at("10.0.0.8"), ..here.clone() };
    assert_eq!(respond(challenged(&there), right).0, 0);
    clock.advance(1);
    assert_eq!(respond(challenged(&here), right).0, 0);
}

#[test]
fn operators_learn_of_a_login_that_broke_off() {
    let mut lab = fresh();
    lab.login(0x04, &[ME, THERE]);
    lab.connection.close("closed by the initiator");
    let expected = "broken-off: the login was abandoned: closed by the initiator";
    assert_eq!(cause(&mut lab), (Some(INITIATOR.to_owned()), expected.into()));
    let mut lab = fresh();
    lab.connection.close("closed by the initiator");
    assert_eq!(lab.connection.take_refusal(), None, "it was no login at all");
    let mut lab = fresh();
    assert_eq!(status(&lab.login(0x87, &[ME, THERE])), 0);
    lab.connection.close("closed by the initiator");
    assert_eq!(lab.connection.take_refusal(), None, "it was logged in");
}
