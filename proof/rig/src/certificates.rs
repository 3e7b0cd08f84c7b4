//! Test certificates: an authority, and one certificate for both sides of a connection over loopback.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use std::path::Path;

/// Writes `ca.pem`, `cert.pem` and `key.pem`; the common name is the client's.
pub fn write(folder: &Path, common_name: &str) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("ca.pem"), authority.self_signed(&authority_key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let mut both = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    both.distinguished_name.push(DnType::CommonName, common_name);
    both.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("cert.pem"), both.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
}
