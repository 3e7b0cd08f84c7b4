use super::*;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn named(name: &str, constraints: Option<BasicConstraints>) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = constraints.map_or(IsCa::NoCa, IsCa::Ca);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn authority(name: &str) -> CertificateParams {
    named(name, Some(BasicConstraints::Unconstrained))
}

/// A root, an authority that it issued, and a certificate that this one issued.
struct Chain {
    root: Issuer,
    middle: Issuer,
    leaf: CertificateDer<'static>,
}

fn chain() -> Chain {
    let root = Issuer::self_signed(authority("Root"), key()).unwrap();
    let middle = Issuer::signed_by(authority("Middle"), key(), &root).unwrap();
    let leaf = named("array", None).signed_by(&key(), &middle).unwrap().der().clone();
    Chain { root, middle, leaf }
}

fn der(issuer: &Issuer) -> CertificateDer<'static> {
    issuer.der().clone()
}

fn why(chain: &[CertificateDer<'_>]) -> String {
    check_chain(chain, Purpose::Client).expect_err("it is refused").to_string()
}

#[test]
fn a_chain_without_gaps_is_good_with_its_root_and_without() {
    let Chain { root, middle, leaf } = chain();
    for good in [vec![leaf.clone()], vec![leaf.clone(), der(&middle)], vec![leaf, der(&middle), der(&root)]] {
        check_chain(&good, Purpose::Client).unwrap();
    }
    check_chain(&[der(&root)], Purpose::Client).unwrap();
}

#[test]
fn a_gap_names_both_certificates_and_a_wrong_order_says_so() {
    let Chain { root, middle, leaf } = chain();
    let gap = why(&[leaf.clone(), der(&root)]);
    assert!(gap.contains("CN=array") && gap.contains("CN=Middle") && gap.contains("CN=Root"), "{gap}");
    assert!(gap.contains("missing"), "{gap}");
    let order = why(&[leaf.clone(), der(&root), der(&middle)]);
    assert!(order.contains("order is wrong") && order.contains("certificate 3"), "{order}");
    let after_the_end = why(&[leaf, der(&middle), der(&root), der(&middle)]);
    assert!(after_the_end.contains("self-signed"), "{after_the_end}");
}

#[test]
fn an_issuer_needs_its_key_and_the_right_to_issue() {
    let Chain { middle, leaf, .. } = chain();
    let namesake = Issuer::self_signed(authority("Middle"), key()).unwrap();
    let wrong = why(&[leaf, der(&namesake)]);
    assert!(wrong.contains("did not issue"), "{wrong}");
    let no_authority = Issuer::signed_by(named("web", None), key(), &middle).unwrap();
    let below = named("array", None).signed_by(&key(), &no_authority).unwrap();
    let wrong = why(&[below.der().clone(), der(&no_authority)]);
    assert!(wrong.contains("not that of an authority"), "{wrong}");
    let last = Issuer::self_signed(named("Short", Some(BasicConstraints::Constrained(0))), key()).unwrap();
    let between = Issuer::signed_by(authority("Between"), key(), &last).unwrap();
    let below = named("array", None).signed_by(&key(), &between).unwrap();
    let wrong = why(&[below.der().clone(), der(&between), der(&last)]);
    assert!(wrong.contains("allows 0 authorities"), "{wrong}");
}

#[test]
fn certificates_are_good_at_their_time_only() {
    let dated = |from, until| {
        let mut params = authority("dated");
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
        CertificateDer::from(params.self_signed(&key()).unwrap())
    };
    let (past, now, future) = (dated(2000, 2001), dated(2000, 4000), dated(3990, 4000));
    assert!(why(std::slice::from_ref(&past)).contains("has expired"));
    assert!(why(std::slice::from_ref(&future)).contains("not valid yet"));
    check_chain(std::slice::from_ref(&now), Purpose::Client).unwrap();
    // A bundle of authorities may have old ones.
    check_authorities(&[past.clone(), now]).unwrap();
    assert!(check_authorities(&[past, future]).unwrap_err().to_string().contains("certificate 1"));
}

#[test]
fn a_key_says_whose_it_is_and_whether_it_is_encrypted() {
    let Chain { middle, leaf, .. } = chain();
    let both = [der(&middle), leaf.clone()];
    assert!(check_key(&both, |it| *it == both[0]).is_ok());
    let order = check_key(&both, |it| *it == leaf).unwrap_err().to_string();
    assert!(order.contains("order") && order.contains("certificate 2"), "{order}");
    assert!(check_key(&both, |_| false).unwrap_err().to_string().contains("none of the certificates"));
    for mark in ENCRYPTED {
        assert!(private_key(&format!("-----{mark}-----")).unwrap_err().to_string().contains("passphrase"));
    }
    assert!(private_key("text").unwrap_err().to_string().contains("no private key"));
    private_key(&key().serialize_pem()).unwrap();
}

#[test]
fn the_own_certificate_serves_its_purpose() {
    let Chain { root, middle, .. } = chain();
    let server = |change: &dyn Fn(&mut CertificateParams)| {
        let mut params = named("array", None);
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        change(&mut params);
        params.signed_by(&key(), &middle).unwrap().der().clone()
    };
    let why = |own: CertificateDer<'static>, purpose| {
        check_chain(&[own, der(&middle), der(&root)], purpose).map_err(|wrong| wrong.to_string())
    };
    for purpose in [Purpose::Server, Purpose::Client] {
        why(server(&|_| {}), purpose).unwrap();
        why(
            server(&|it| {
                it.extended_key_usages =
                    vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
                it.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            }),
            purpose,
        )
        .unwrap();
        let signs = server(&|it| it.key_usages = vec![KeyUsagePurpose::KeyCertSign]);
        assert!(why(signs, purpose).unwrap_err().contains("digitalSignature"));
        let authority = server(&|it| it.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
        assert!(why(authority, purpose).unwrap_err().contains("authority"));
    }
    let of_client = server(&|it| it.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
    assert!(why(of_client.clone(), Purpose::Server).unwrap_err().contains("serverAuth"));
    why(of_client, Purpose::Client).unwrap();
    let nameless = server(&|it| it.subject_alt_names.clear());
    assert!(why(nameless.clone(), Purpose::Server).unwrap_err().contains("subjectAltName"));
    why(nameless, Purpose::Client).unwrap();
}
