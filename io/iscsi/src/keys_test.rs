use super::*;

const LOGIN: Setting = Setting { login: true, discovery: false };

fn pairs(list: &[(&str, &str)]) -> Pairs {
    let mut pairs = Pairs::new();
    list.iter().for_each(|(key, value)| pairs.push(key, *value));
    pairs
}

fn one(key: &str, value: &str) -> (Option<String>, Parameters) {
    let mut negotiation = Negotiation::default();
    let answer = negotiation.respond(&pairs(&[(key, value)]), &Offers::default(), LOGIN).unwrap();
    (answer.get(key).map(str::to_owned), negotiation.parameters)
}

/// Key, value from the initiator, response of the target.
const ANSWERS: &[(&str, &str, Option<&str>)] = &[
    ("HeaderDigest", "CRC32C,None", Some("CRC32C")),
    ("HeaderDigest", "None,CRC32C", Some("None")),
    ("DataDigest", "X-other,CRC32C", Some("CRC32C")),
    ("DataDigest", "X-other", Some("Reject")),
    ("MaxConnections", "8", Some("1")),
    ("MaxConnections", "0", Some("Reject")),
    ("InitialR2T", "Yes", Some("Yes")),
    ("InitialR2T", "No", Some("No")),
    ("InitialR2T", "no", Some("Reject")),
    ("ImmediateData", "Yes", Some("Yes")),
    ("ImmediateData", "No", Some("No")),
    ("MaxRecvDataSegmentLength", "65536", None),
    ("MaxBurstLength", "16776192", Some("1048576")),
    ("MaxBurstLength", "0x200", Some("512")),
    ("MaxBurstLength", "511", Some("Reject")),
    ("MaxBurstLength", "16777216", Some("Reject")),
    ("MaxBurstLength", "-1", Some("Reject")),
    ("FirstBurstLength", "262144", Some("262144")),
    ("FirstBurstLength", "1000000", Some("262144")),
    ("DefaultTime2Wait", "2", Some("2")),
    ("DefaultTime2Retain", "20", Some("0")),
    ("MaxOutstandingR2T", "1", Some("1")),
    ("MaxOutstandingR2T", "100", Some("8")),
    ("DataPDUInOrder", "No", Some("Yes")),
    ("DataSequenceInOrder", "No", Some("Yes")),
    ("ErrorRecoveryLevel", "2", Some("0")),
    ("ErrorRecoveryLevel", "3", Some("Reject")),
    ("TaskReporting", "FastAbort,RFC3720", Some("RFC3720")),
    ("TaskReporting", "FastAbort", Some("Reject")),
    ("iSCSIProtocolLevel", "2", Some("1")),
    ("OFMarker", "No", Some("No")),
    ("IFMarkInt", "2048~8192", Some("Reject")),
    ("InitiatorAlias", "a host", None),
    ("X-org.example.key", "1", Some("NotUnderstood")),
    ("NoSuchKey", "1", Some("NotUnderstood")),
    ("NoSuchKey", "NotUnderstood", None),
];

#[test]
fn every_key_is_answered_as_the_table_says() {
    for (key, sent, expected) in ANSWERS {
        assert_eq!(one(key, sent).0.as_deref(), *expected, "{key}={sent}");
    }
}

#[test]
fn a_rejected_key_keeps_its_default() {
    assert_eq!(one("MaxBurstLength", "1").1, Parameters::default());
    assert_eq!(one("ImmediateData", "maybe").1, Parameters::default());
}

#[test]
fn the_first_burst_is_no_longer_than_a_burst_in_whatever_order_they_come() {
    let sent = pairs(&[("FirstBurstLength", "65536"), ("MaxBurstLength", "8192")]);
    let mut negotiation = Negotiation::default();
    let answer = negotiation.respond(&sent, &Offers::default(), LOGIN).unwrap();
    assert_eq!(answer.get("FirstBurstLength"), Some("8192"));
}

#[test]
fn what_a_discovery_session_does_not_need_is_irrelevant() {
    let sent = pairs(&[("MaxBurstLength", "512"), ("HeaderDigest", "None")]);
    let setting = Setting { login: true, discovery: true };
    let answer = Negotiation::default().respond(&sent, &Offers::default(), setting).unwrap();
    assert_eq!(answer.get("MaxBurstLength"), Some("Irrelevant"));
    assert_eq!(answer.get("HeaderDigest"), Some("None"));
}

#[test]
fn broken_rules_end_the_negotiation() {
    let offers = Offers::default();
    let fails =
        |list: &[(&str, &str)], setting| Negotiation::default().respond(&pairs(list), &offers, setting);
    assert_eq!(fails(&[("TargetAlias", "x")], LOGIN), Err(KeyError::Sender("TargetAlias")));
    let late = Setting { login: false, discovery: false };
    assert_eq!(fails(&[("MaxBurstLength", "512")], late), Err(KeyError::Phase("MaxBurstLength")));
    let short = [("MaxRecvDataSegmentLength", "100")];
    assert_eq!(fails(&short, LOGIN), Err(KeyError::Range("MaxRecvDataSegmentLength")));
    let mut negotiation = Negotiation::default();
    let digest = pairs(&[("HeaderDigest", "None")]);
    assert!(negotiation.respond(&digest, &offers, LOGIN).is_ok());
    assert_eq!(negotiation.respond(&digest, &offers, LOGIN), Err(KeyError::Repeated("HeaderDigest")));
}
