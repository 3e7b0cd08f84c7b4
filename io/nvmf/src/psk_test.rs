//! Test vectors of libnvme (`test/psk.c`, LGPL-2.1-or-later); the TLS PSK, which has none there, was computed with
//! Python's `hmac`.

use super::*;
use proptest::prelude::*;

const HOST: &str = "nqn.psk-test-host";
const SUBSYSTEM: &str = "nqn.psk-test-subsys";
const SHA256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const SHA384: &str =
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";
const AS_IT_IS: &str = "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

/// The TLS PSKs of the identities of version 1, and of version 0.
const KEYS: [&str; 4] = [
    "8fc3c0badfd4c0c66fa3ca33aadd0314f85536cc9bc47338b60f3e6e563786ca",
    "b9f5ab2a41ba6e72a23a12066302a2f775fa6c0942c8e0b18ca8ac07edf305e2",
    "a2b2f943f479fc682555cec89857c80ed004ce92f32a973d5764155bb7e36b17a85368a0666d250afac9282dda2e62ca",
    "fcefe2e2a2e682b1447dcabf1ec268f78f08c63cd075753abcc8bda2c5c34d48d3014aa8d76ad80107e4f5c9f27e2149",
];
const KEYS_OF_VERSION_0: [&str; 2] = [
    "05c6503551ad136e6ee32e6eeb3f6d500b69701d84ec71e328f65c7f51566f68",
    "ec85300ba827726bd3bc4fc07f3a34aec5fe7c8ccac05fefc2f021c74e0df9ef",
];

fn psk(text: &str) -> TlsPsk {
    TlsPsk::parse(text).unwrap()
}

/// The TLS PSK of an identity as hexadecimal digits.
fn key_of(psk: &TlsPsk, identity: &str) -> Option<String> {
    let derived = psk.of_identity(&PskIdentity::parse(identity.as_bytes()).unwrap())?;
    let hash = if identity.contains("R01") { PskHash::Sha256 } else { PskHash::Sha384 };
    assert_eq!(derived.hash, hash);
    Some(derived.secret.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn identities_are_those_of_libnvme() {
    let digests = [
        (SHA256, "R01", "iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU="),
        (SHA256, "R01", "66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM="),
        (SHA384, "R02", "QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a"),
        (SHA384, "R02", "RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz"),
    ];
    let mut keys = Vec::new();
    for (text, kind, digest) in digests {
        let identity = format!("NVMe1{kind} {HOST} {SUBSYSTEM} {digest}");
        keys.push(key_of(&psk(text), &identity).expect(&identity));
        let other = format!("NVMe1{kind} {HOST} {SUBSYSTEM}x {digest}");
        assert_eq!(key_of(&psk(text), &other), None, "the digest is of the subsystem, too");
        let other = format!("NVMe1{kind} {HOST}x {SUBSYSTEM} {digest}");
        assert_eq!(key_of(&psk(text), &other), None, "and of the host");
    }
    assert_eq!(keys, KEYS);
}

#[test]
fn a_psk_has_identities_of_its_own_hash_function_alone() {
    let version_0 = |kind: &str| format!("NVMe0{kind} {HOST} {SUBSYSTEM}");
    for (text, own, other) in [(SHA256, "R01", "R02"), (AS_IT_IS, "R01", "R02"), (SHA384, "R02", "R01")] {
        assert!(key_of(&psk(text), &version_0(own)).is_some());
        assert_eq!(key_of(&psk(text), &version_0(other)), None);
    }
    let keys = [SHA256, AS_IT_IS].map(|text| key_of(&psk(text), &version_0("R01")));
    assert_ne!(keys[0], keys[1], "one is transformed, the other is not");
    assert_eq!(keys.map(Option::unwrap), KEYS_OF_VERSION_0);
}

#[test]
fn what_is_no_psk_is_refused_with_the_reason() {
    let refused = |text: &str| TlsPsk::parse(text).unwrap_err();
    assert_eq!(refused("DHHC-1:01:nhr7JP2NMnF+O+sHDpADH7X4X92Mro645HWZ341f6zLhtuL4:"), NotATlsPsk::Form);
    assert_eq!(refused(&SHA256[..SHA256.len() - 1]), NotATlsPsk::Form);
    assert_eq!(refused("NVMeTLSkey-1:01:!!!!:"), NotATlsPsk::Form);
    assert_eq!(refused(&SHA256.replace(":01:", ":03:")), NotATlsPsk::Hash);
    assert_eq!(refused(&SHA256.replace(":01:", ":02:")), NotATlsPsk::Length);
    assert_eq!(refused(&SHA384.replace(":02:", ":01:")), NotATlsPsk::Length);
    assert_eq!(refused("NVMeTLSkey-1:00:AAAA:"), NotATlsPsk::Length);
    assert_eq!(refused(&SHA256.replace("VRLb", "VRLc")), NotATlsPsk::Crc);
    assert!(!format!("{:?}", psk(SHA256)).contains("VRL"));
}

#[test]
fn an_identity_has_both_names() {
    let parse = |text: &'static str| PskIdentity::parse(text.as_bytes());
    let parsed = parse("NVMe1R01 nqn.a nqn.b digest").unwrap();
    assert_eq!((parsed.host, parsed.subsystem), ("nqn.a", "nqn.b"));
    for bad in [
        "",
        "nqn.a",
        "NVMe0R01 nqn.a",
        "NVMe0R01 nqn.a nqn.b digest",
        "NVMe1R01 nqn.a nqn.b",
        "NVMe1R01 nqn.a nqn.b digest more",
        "NVMe1R03 nqn.a nqn.b digest",
        "NVMe1G01 nqn.a nqn.b digest",
        "NVMe2R01 nqn.a nqn.b digest",
        "NVMe1R01  nqn.b digest",
        "NVMe1R01 a nqn.b digest",
    ] {
        assert_eq!(parse(bad), None, "{bad:?}");
    }
}

proptest! {
    #[test]
    fn outside_texts_and_identities_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..600), cut in 0usize..90) {
        let text = String::from_utf8_lossy(&bytes);
        prop_assert!(TlsPsk::parse(&text).is_err());
        let framed = format!("NVMeTLSkey-1:{text}:");
        prop_assert!(TlsPsk::parse(&framed).is_err());
        prop_assert!(TlsPsk::parse(&SHA384[..cut.min(SHA384.len() - 1)]).is_err());
        if let Some(identity) = PskIdentity::parse(&bytes) {
            prop_assert!(psk(SHA256).of_identity(&identity).is_none());
        }
    }
}
