//! Messages of DH-HMAC-CHAP (NVM Express Base 2.0 clause 8.13.5): decoded from a host, encoded for it. Numbers are little-endian;
//! public values are big-endian.

use crate::encoding::Structure;

/// AUTH_TYPE: common messages, and those of DH-HMAC-CHAP.
const COMMON: u8 = 0x00;
const DH_HMAC_CHAP: u8 = 0x01;

/// AUTH_ID with AUTH_TYPE.
const NEGOTIATE: (u8, u8) = (COMMON, 0x00);
const FAILURE2: (u8, u8) = (COMMON, 0xF0);
const FAILURE1: (u8, u8) = (COMMON, 0xF1);
const CHALLENGE: (u8, u8) = (DH_HMAC_CHAP, 0x01);
const REPLY: (u8, u8) = (DH_HMAC_CHAP, 0x02);
const SUCCESS1: (u8, u8) = (DH_HMAC_CHAP, 0x03);
const SUCCESS2: (u8, u8) = (DH_HMAC_CHAP, 0x04);

/// Bytes before the values of Challenge, Reply and Success1.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bytes of Negotiate before its protocol descriptors, of a descriptor, and of each of its two lists.
const NEGOTIATE_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 64;
const LIST_BYTES: usize = 30;

/// Reason code of Failure1 and Failure2: the authentication failed.
const AUTHENTICATION_FAILURE: u8 = 0x01;

/// Reason code explanations of Failure1 and Failure2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Explanation {
    /// The secret is wrong.
    Failed = 0x01,
    /// No protocol of the host can be used.
    NotUsable = 0x02,
    /// The host asks for TLS after the authentication.
    SecureChannel = 0x03,
    /// No hash function of the host can be used.
    HashUnusable = 0x04,
    /// No Diffie-Hellman group of the host can be used.
    GroupUnusable = 0x05,
    /// A message has the wrong form.
    IncorrectPayload = 0x06,
    /// Another message was expected.
    IncorrectMessage = 0x07,
}

/// A message of a host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FromHost<'a> {
    /// Hash functions and groups that the host supports.
    Negotiate {
        /// SC_C: the secure channel that the host wants after the authentication; zero is none.
        secure_channel: u8,
        /// Identifiers of hash functions and groups for DH-HMAC-CHAP; `None` if the host offers only other protocols.
        offer: Option<(&'a [u8], &'a [u8])>,
    },
    /// Response of the host.
    Reply(Reply<'a>),
    /// The response of the controller was right.
    Success2,
    /// The host rejects the controller's response, or ends the exchange.
    Failure2,
}

/// The Reply of a host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    /// Response to our challenge.
    pub(crate) response: &'a [u8],
    /// Challenge for the controller, with its sequence number, if the host wants mutual authentication.
    pub(crate) challenge: Option<(&'a [u8], u32)>,
    /// Public value of the host.
    pub(crate) public: &'a [u8],
}

impl<'a> FromHost<'a> {
    /// Decodes a message; returns it with its transaction identifier.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<(u16, Self), Explanation> {
        let byte = |at: usize| bytes.get(at).copied().ok_or(Explanation::IncorrectPayload);
        let part = |from: usize, length: usize| {
            let end = from.checked_add(length).ok_or(Explanation::IncorrectPayload)?;
            bytes.get(from..end).ok_or(Explanation::IncorrectPayload)
        };
        let transaction = u16::from_le_bytes([byte(4)?, byte(5)?]);
        let message = match (byte(0)?, byte(1)?) {
            NEGOTIATE => {
                let count = usize::from(byte(7)?);
                let descriptors = part(NEGOTIATE_BYTES, count * DESCRIPTOR_BYTES)?;
                let ours = descriptors.chunks_exact(DESCRIPTOR_BYTES).find(|it| it[0] == DH_HMAC_CHAP);
                let offer = ours.map(|descriptor| {
                    let (hashes, groups) = (usize::from(descriptor[2]), usize::from(descriptor[3]));
                    let (of_hashes, of_groups) = descriptor[4..].split_at(LIST_BYTES);
                    let lists = of_hashes.get(..hashes).zip(of_groups.get(..groups));
                    lists.ok_or(Explanation::IncorrectPayload)
                });
                FromHost::Negotiate { secure_channel: byte(6)?, offer: offer.transpose()? }
            }
            REPLY => {
                let (length, public) = (usize::from(byte(6)?), u16::from_le_bytes([byte(10)?, byte(11)?]));
                let number = part(12, 4)?;
                let number = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
                let challenge = part(HEADER_BYTES + length, length)?;
                FromHost::Reply(Reply {
                    response: part(HEADER_BYTES, length)?,
                    challenge: (byte(8)? & 1 != 0).then_some((challenge, number)),
                    public: part(HEADER_BYTES + 2 * length, public.into())?,
                })
            }
            SUCCESS2 => FromHost::Success2,
            FAILURE2 => FromHost::Failure2,
            _ => return Err(Explanation::IncorrectMessage),
        };
        Ok((transaction, message))
    }
}

/// The start of a message.
fn message((kind, id): (u8, u8), transaction: u16, bytes: usize) -> Structure {
    Structure::new(bytes).u8(0, kind).u8(1, id).u16(4, transaction)
}

/// A Challenge: identifiers of the hash function and the group, the challenge with its sequence number, and our public value.
pub(crate) fn challenge(
    transaction: u16,
    (hash, group): (u8, u8),
    (challenge, number): (&[u8], u32),
    public: &[u8],
) -> Vec<u8> {
    let values = [challenge, public].concat();
    message(CHALLENGE, transaction, HEADER_BYTES + values.len())
        .u8(6, challenge.len() as u8)
        .u8(8, hash)
        .u8(9, group)
        .u16(10, public.len() as u16)
        .u32(12, number)
        .bytes(HEADER_BYTES, &values)
        .into_vec()
}

/// A Success1: our response, if the host asked for one. Its field has the length of a digest in any case.
pub(crate) fn success(transaction: u16, digest_bytes: usize, response: Option<&[u8]>) -> Vec<u8> {
    message(SUCCESS1, transaction, HEADER_BYTES + digest_bytes)
        .u8(6, digest_bytes as u8)
        .u8(8, response.is_some().into())
        .bytes(HEADER_BYTES, response.unwrap_or_default())
        .into_vec()
}

/// A Failure1.
pub(crate) fn failure(transaction: u16, explanation: Explanation) -> Vec<u8> {
    message(FAILURE1, transaction, HEADER_BYTES)
        .u8(6, AUTHENTICATION_FAILURE)
        .u8(7, explanation as u8)
        .into_vec()
}
