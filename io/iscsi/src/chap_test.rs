use super::*;

const NONCE: Nonce = Nonce { id: 0x22, challenge: [0xab; 32] };

fn secret(name: &str, secret: &str) -> Credentials {
    Credentials { name: name.to_owned(), secret: secret.to_owned() }
}

fn pairs(list: &[(&str, &str)]) -> Pairs {
    let mut pairs = Pairs::new();
    list.iter().for_each(|(key, value)| pairs.push(key, *value));
    pairs
}

fn challenged(algorithms: &str) -> Challenge {
    Challenge::offer(&pairs(&[("CHAP_A", algorithms)]), NONCE).unwrap().0
}

fn right_response(challenge: &Challenge) -> String {
    let algorithm = challenge.algorithm;
    to_hex(&algorithm.respond(NONCE.id, "the initiator's secret", algorithm.challenge(&NONCE)))
}

#[test]
fn the_initiators_first_known_algorithm_is_taken() {
    for (offered, taken) in [("5", "5"), ("7,5", "7"), ("5,6,7,8", "5"), ("6,8,7", "7")] {
        let (_, answer) = Challenge::offer(&pairs(&[("CHAP_A", offered)]), NONCE).unwrap();
        assert_eq!(answer.get("CHAP_A"), Some(taken));
    }
    for offered in ["", "56", "6,8", "05"] {
        let refused = Challenge::offer(&pairs(&[("CHAP_A", offered)]), NONCE).err();
        assert_eq!(refused, Some(ChapError::Algorithm), "{offered}");
    }
}

/// Digests of 01h, "a", 02h, computed by other programs.
#[test]
fn responses_are_what_others_compute() {
    let md5 = Algorithm::Md5.respond(1, "a", &[2]);
    assert_eq!(to_hex(&md5), "0x2951d70972dea57684bf3222a942b09c");
    let sha = Algorithm::Sha256.respond(1, "a", &[2]);
    assert_eq!(to_hex(&sha), "0x0929c3c72a73d919b18798fac756affe005f4765e6be3ed958e2a279fea66ed7");
}

#[test]
fn a_right_response_in_either_notation_is_accepted() {
    for algorithm in ["5", "7"] {
        let challenge = challenged(algorithm);
        let wanted = secret("me", "the initiator's secret");
        let hex = right_response(&challenge);
        let base64 = format!("0b{}", STANDARD.encode(from_hex(&hex[2..]).unwrap()));
        for response in [hex.as_str(), &hex.to_uppercase().replace("0X", "0x"), &base64] {
            let sent = pairs(&[("CHAP_N", "me"), ("CHAP_R", response)]);
            assert_eq!(challenge.check(&sent, &wanted, None), Ok(Pairs::new()));
        }
    }
}

#[test]
fn wrong_names_and_responses_are_refused() {
    let challenge = challenged("5");
    let wanted = secret("me", "the initiator's secret");
    let right = right_response(&challenge);
    let check = |name: &str, response: &str| {
        challenge.check(&pairs(&[("CHAP_N", name), ("CHAP_R", response)]), &wanted, None).unwrap_err()
    };
    assert_eq!(check("you", &right), ChapError::Name);
    assert_eq!(check("me", "0x00"), ChapError::Response);
    assert_eq!(check("me", &right[..right.len() - 2]), ChapError::Response);
    assert_eq!(check("me", ""), ChapError::Malformed("CHAP_R"));
    assert_eq!(check("me", "0xzz"), ChapError::Malformed("CHAP_R"));
    assert_eq!(check("me", "12345"), ChapError::Malformed("CHAP_R"));
    let incomplete = challenge.check(&pairs(&[("CHAP_R", &right)]), &wanted, None);
    assert_eq!(incomplete, Err(ChapError::Malformed("CHAP_N")));
}

#[test]
fn the_target_proves_itself_when_asked() {
    let challenge = challenged("7");
    let (wanted, own) = (secret("me", "the initiator's secret"), secret("array", "the target's secret"));
    let right = right_response(&challenge);
    let sent = pairs(&[("CHAP_N", "me"), ("CHAP_R", &right), ("CHAP_I", "9"), ("CHAP_C", "0x0102")]);
    let answer = challenge.check(&sent, &wanted, Some(&own)).unwrap();
    assert_eq!(answer.get("CHAP_N"), Some("array"));
    let expected = to_hex(&Algorithm::Sha256.respond(9, "the target's secret", &[1, 2]));
    assert_eq!(answer.get("CHAP_R"), Some(expected.as_str()));
    assert_eq!(challenge.check(&sent, &wanted, None), Err(ChapError::NoMutual));
}

#[test]
fn our_own_challenge_and_a_shared_secret_are_not_answered() {
    let challenge = challenged("5");
    let wanted = secret("me", "the initiator's secret");
    let right = right_response(&challenge);
    let ours = to_hex(&NONCE.challenge[..16]);
    let reflected = pairs(&[("CHAP_N", "me"), ("CHAP_R", &right), ("CHAP_I", "9"), ("CHAP_C", &ours)]);
    let own = secret("array", "the target's secret");
    assert_eq!(challenge.check(&reflected, &wanted, Some(&own)), Err(ChapError::Reflection));
    let sent = pairs(&[("CHAP_N", "me"), ("CHAP_R", &right), ("CHAP_I", "9"), ("CHAP_C", "0x01")]);
    assert_eq!(challenge.check(&sent, &wanted, Some(&wanted)), Err(ChapError::Reflection));
}

#[test]
fn challenges_of_a_wrong_length_are_refused() {
    let challenge = challenged("5");
    let (wanted, own) = (secret("me", "the initiator's secret"), secret("array", "the target's secret"));
    let right = right_response(&challenge);
    for sent in ["0x".to_owned(), to_hex(&[1; 1025])] {
        let sent = pairs(&[("CHAP_N", "me"), ("CHAP_R", &right), ("CHAP_I", "9"), ("CHAP_C", &sent)]);
        assert_eq!(challenge.check(&sent, &wanted, Some(&own)), Err(ChapError::Malformed("CHAP_C")));
    }
}
