//! CHAP authentication of iSCSI (RFC 7143 clause 12.1.3, RFC 1994; SHA-256 from RFC 9437's registry): one-way and mutual.

use crate::access::Credentials;
use crate::keys::number;
use crate::text::Pairs;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha2::{Digest, Sha256};

/// Longest accepted challenge in bytes (12.1.3).
const MAX_CHALLENGE_BYTES: usize = 1024;

/// Random identifier and challenge for one login, supplied by the caller; never reused.
#[derive(Clone, Copy)]
pub struct Nonce {
    /// The CHAP identifier.
    pub id: u8,
    /// The CHAP challenge, as long as the longest digest.
    pub challenge: [u8; 32],
}

/// Cause of a failed authentication. The initiator learns only that it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChapError {
    #[error("no CHAP algorithm in common")]
    Algorithm,
    #[error("{0} is missing or malformed")]
    Malformed(&'static str),
    #[error("wrong CHAP name")]
    Name,
    #[error("wrong CHAP response")]
    Response,
    #[error("the initiator sent the target's own challenge back")]
    Reflection,
    #[error("the initiator requests mutual CHAP, but its host has no mutual secret")]
    NoMutual,
}

/// Digest algorithms by their number in CHAP_A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Md5,
    Sha256,
}

const ALGORITHMS: [(&str, Algorithm); 2] = [("5", Algorithm::Md5), ("7", Algorithm::Sha256)];

impl Algorithm {
    fn number(self) -> &'static str {
        ALGORITHMS.iter().find(|(_, algorithm)| *algorithm == self).map_or("", |(number, _)| number)
    }

    /// The response to a challenge: the digest of identifier, secret and challenge (RFC 1994 4.1).
    fn respond(self, id: u8, secret: &str, challenge: &[u8]) -> Vec<u8> {
        match self {
            Algorithm::Md5 => digest::<Md5>(id, secret, challenge),
            Algorithm::Sha256 => digest::<Sha256>(id, secret, challenge),
        }
    }

    fn challenge(self, nonce: &Nonce) -> &[u8] {
        match self {
            Algorithm::Md5 => &nonce.challenge[..16],
            Algorithm::Sha256 => &nonce.challenge,
        }
    }
}

fn digest<D: Digest>(id: u8, secret: &str, challenge: &[u8]) -> Vec<u8> {
    D::new().chain_update([id]).chain_update(secret).chain_update(challenge).finalize().to_vec()
}

/// The target's side of one authentication, between its two exchanges.
pub(crate) struct Challenge {
    algorithm: Algorithm,
    nonce: Nonce,
}

impl Challenge {
    /// The first exchange: the first of the initiator's algorithms that the target supports, and a challenge.
    pub(crate) fn offer(offered: &Pairs, nonce: Nonce) -> Result<(Self, Pairs), ChapError> {
        let list = offered.get("CHAP_A").ok_or(ChapError::Malformed("CHAP_A"))?;
        let known = |number: &str| ALGORITHMS.iter().find(|(name, _)| *name == number);
        let (_, algorithm) = list.split(',').find_map(known).ok_or(ChapError::Algorithm)?;
        let mut answer = Pairs::new();
        answer.push("CHAP_A", algorithm.number());
        answer.push("CHAP_I", nonce.id.to_string());
        answer.push("CHAP_C", to_hex(algorithm.challenge(&nonce)));
        Ok((Self { algorithm: *algorithm, nonce }, answer))
    }

    /// The second exchange: checks the initiator's response, and responds to its challenge, if any.
    pub(crate) fn check(
        &self,
        sent: &Pairs,
        expected: &Credentials,
        own: Option<&Credentials>,
    ) -> Result<Pairs, ChapError> {
        let name = sent.get("CHAP_N").ok_or(ChapError::Malformed("CHAP_N"))?;
        let response = binary(sent, "CHAP_R")?;
        let challenge = self.algorithm.challenge(&self.nonce);
        let expected_response = self.algorithm.respond(self.nonce.id, &expected.secret, challenge);
        // Both are compared before either result is reported, so timing reveals nothing.
        let (name_matches, response_matches) =
            (equal(name.as_bytes(), expected.name.as_bytes()), equal(&response, &expected_response));
        if !name_matches {
            return Err(ChapError::Name);
        }
        if !response_matches {
            return Err(ChapError::Response);
        }
        if sent.get("CHAP_C").is_none() && sent.get("CHAP_I").is_none() {
            return Ok(Pairs::new());
        }
        self.respond_mutual(sent, expected, own.ok_or(ChapError::NoMutual)?)
    }

    fn respond_mutual(
        &self,
        sent: &Pairs,
        expected: &Credentials,
        own: &Credentials,
    ) -> Result<Pairs, ChapError> {
        let id = sent.get("CHAP_I").and_then(number).and_then(|id| u8::try_from(id).ok());
        let id = id.ok_or(ChapError::Malformed("CHAP_I"))?;
        let challenge = binary(sent, "CHAP_C")?;
        if challenge.is_empty() || challenge.len() > MAX_CHALLENGE_BYTES {
            return Err(ChapError::Malformed("CHAP_C"));
        }
        // A response to the target's own challenge, or with the initiator's secret, would help an attacker.
        if challenge == self.algorithm.challenge(&self.nonce) || own.secret == expected.secret {
            return Err(ChapError::Reflection);
        }
        let mut answer = Pairs::new();
        answer.push("CHAP_N", own.name.as_str());
        answer.push("CHAP_R", to_hex(&self.algorithm.respond(id, &own.secret, &challenge)));
        Ok(answer)
    }
}

/// A binary value in either notation (6.1): `0x` and hexadecimal digits, or `0b` and base 64.
fn binary(pairs: &Pairs, key: &'static str) -> Result<Vec<u8>, ChapError> {
    let value = pairs.get(key).ok_or(ChapError::Malformed(key))?;
    let decoded = match value.split_at_checked(2) {
        Some(("0x" | "0X", digits)) => from_hex(digits),
        Some(("0b" | "0B", digits)) => STANDARD.decode(digits).ok(),
        _ => None,
    };
    decoded.ok_or(ChapError::Malformed(key))
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let nibble = |digit: &u8| char::from(*digit).to_digit(16).map(|value| value as u8);
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect()
}

fn to_hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("0x".to_owned()).chain(digits).collect()
}

/// Comparison whose time depends on the lengths only.
fn equal(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0, |seen, (x, y)| std::hint::black_box(seen | (x ^ y)));
    a.len() == b.len() && difference == 0
}

#[cfg(test)]
#[path = "chap_test.rs"]
mod tests;
