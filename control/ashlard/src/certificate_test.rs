use super::*;

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
