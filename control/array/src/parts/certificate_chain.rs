//! Certificate chains in PEM.

/// Until when the first certificate of a chain in PEM is good, in seconds since 1970.
pub(crate) fn expiry(chain: &str) -> Option<u64> {
    let (_, pem) = x509_parser::pem::parse_x509_pem(chain.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    u64::try_from(certificate.validity().not_after.timestamp()).ok()
}
