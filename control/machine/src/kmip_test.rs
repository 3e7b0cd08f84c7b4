use super::*;

use rig::pykmip;

/// An answer to Get as KMIP 1.2 has it, with the key of these bytes.
fn answer(status: u32, key: &[u8]) -> Vec<u8> {
    structure(RESPONSE_MESSAGE, |message| {
        message.extend(structure(BATCH_ITEM, |item| {
            put(item, RESULT_STATUS, 5, &status.to_be_bytes());
            put(item, RESULT_MESSAGE, 7, b"no such key");
            item.extend(structure(RESPONSE_PAYLOAD, |payload| {
                put(payload, UNIQUE_IDENTIFIER, 7, b"1");
                payload.extend(structure(SYMMETRIC_KEY, |object| {
                    object.extend(structure(KEY_BLOCK, |block| {
                        put(block, KEY_FORMAT_TYPE, 5, &RAW.to_be_bytes());
                        block.extend(structure(KEY_VALUE, |value| put(value, KEY_MATERIAL, 8, key)));
                    }));
                }));
            }));
        }));
    })
}

#[test]
fn a_request_is_what_the_standard_draws() {
    let bytes = request("49a1ca88");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = concat!(
        "4200780100000070",
        "4200770100000038",
        "4200690100000020",
        "42006a02000000040000000100000000",
        "42006b02000000040000000200000000",
        "42000d02000000040000000100000000",
        "42000f0100000028",
        "42005c05000000040000000a00000000",
        "4200790100000010",
        "42009407000000083439613163613838",
    );
    assert_eq!(hex, expected);
}

#[test]
fn the_key_is_found_in_an_answer_and_a_refusal_says_why() {
    assert_eq!(key_of(&answer(SUCCESS, &[7; 32])).unwrap(), [7; 32]);
    assert!(key_of(&answer(1, &[7; 32])).unwrap_err().to_string().contains("no such key"));
}

#[test]
fn no_answer_makes_it_panic() {
    let whole = answer(SUCCESS, &[7; 32]);
    for at in 0..whole.len() {
        let _ = key_of(&whole[..at]);
        for change in [0x00, 0x01, 0x7f, 0xff] {
            let mut other = whole.clone();
            other[at] = change;
            let _ = key_of(&other);
        }
    }
}

#[test]
fn a_key_comes_from_a_real_server() {
    let folder = tempfile::tempdir().unwrap();
    let Some(running) = pykmip::Server::start(folder.path()) else { return };
    let server = |authority| Server {
        address: running.address.clone(),
        certificate: running.path("cert.pem"),
        key: running.path("key.pem"),
        authority: running.path(authority),
    };
    let long = &running.keys[0];
    let key: String = server("ca.pem").get(long).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(key, running.value);
    assert_eq!(server("ca.pem").get(&running.short).unwrap().len(), 16);
    let unknown = format!("{:#}", server("ca.pem").get("unknown").unwrap_err());
    assert!(unknown.contains("the server reports"), "{unknown}");
    // A server with an untrusted certificate gets no request.
    let strange = format!("{:#}", server("cert.pem").get(long).unwrap_err());
    assert!(strange.contains("certificate"), "{strange}");
}
