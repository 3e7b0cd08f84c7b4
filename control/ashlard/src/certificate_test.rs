use super::*;
use rcgen::{CertificateParams, KeyPair};

fn made() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[test]
fn only_another_certificate_that_is_good_is_published() {
    let ((chain, key), (next, next_key)) = (made(), made());
    let tls = Tls::new(&chain, &key).unwrap();
    let replace = |chain: &str, key: &str| {
        let mut published = 0;
        let replaced = tls.replace(chain, key, || published += 1);
        (replaced.is_ok(), published)
    };
    assert_eq!(replace(&chain, &key), (true, 0), "it is in use already");
    assert_eq!(replace(&next, &key), (false, 0), "the key of another");
    assert_eq!(replace("", &next_key), (false, 0), "no certificate");
    assert_eq!(replace(&next, &next_key), (true, 1));
    assert_eq!(replace(&next, &next_key), (true, 0));
    assert_eq!(replace(&chain, &key), (true, 1));
}

#[test]
fn what_is_wrong_with_a_new_certificate_is_said() {
    let ((own, key), (other, _)) = (made(), made());
    let wrong = |chain: &str, key: &str| api::check_certificate(chain, key).expect_err("it is refused");
    assert_eq!(api::check_certificate(&own, &key), Ok(()));
    // Both have one name, and different keys.
    assert!(wrong(&format!("{own}{other}"), &key).contains("did not issue certificate 1"));
    assert!(wrong(&format!("{other}{own}"), &key).contains("the order of the chain is wrong"));
    assert!(wrong(&other, &key).contains("none of the certificates"));
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert!(wrong(&own, &encrypted).contains("passphrase"));
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let pair = KeyPair::from_pem(&key).unwrap();
    let old = params.self_signed(&pair).unwrap().pem();
    assert!(wrong(&old, &key).contains("has expired"));
    // What is stored is used all the same: it is better than none.
    assert!(Tls::new(&old, &key).is_ok() && Tls::new(&format!("{own}{other}"), &key).is_ok());
}
