//! SNMPv3 messages (RFC 3412 6) with the User-based Security Model (RFC 3414): authenticated by HMAC-SHA-256 (RFC 7860) and
//! encrypted by AES-128 in CFB mode (RFC 3826).

use crate::{Error, Result};
use aws_lc_rs::cipher::{AES_128, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;

/// Minimum length of a passphrase (RFC 3414 11.2).
const MIN_PASSPHRASE_BYTES: usize = 8;
/// Maximum length of a user name (RFC 3414 2.4).
pub const MAX_USER_NAME_BYTES: usize = 32;

const VERSION: i64 = 3;
const SECURITY_MODEL: i64 = 3;
/// `msgMaxSize`: the largest message that the sender accepts. A trap has no response.
const MAX_MESSAGE_BYTES: i64 = 65_507;
/// `msgFlags`: authFlag and privFlag, not reportable.
const FLAGS: u8 = 0b011;
/// Length of the truncated authentication code, 192 bits (RFC 7860 4.1).
const MAC_BYTES: usize = 24;
/// Length to which the passphrase is repeated for the key (RFC 3414 A.2).
const EXPANDED_PASSPHRASE_BYTES: usize = 1 << 20;
/// Prefix of the engine ID: the enterprise number for documentation (RFC 5612), format octets (RFC 3411 5).
const ENGINE: [u8; 5] = [0x80, 0x00, 0x7E, 0xD9, 5];

/// Checks the length of a passphrase.
pub fn check(passphrase: &str) -> Result<()> {
    match passphrase.len() {
        MIN_PASSPHRASE_BYTES.. => Ok(()),
        _ => Err(Error::new(format!(
            "the passphrase of an SNMP user needs at least {MIN_PASSPHRASE_BYTES} bytes"
        ))),
    }
}

/// A sender: an SNMPv3 user of the array's SNMP engine.
pub struct Sender<'a> {
    user: &'a str,
    engine: Vec<u8>,
    key: [u8; 32],
}

impl<'a> Sender<'a> {
    /// The engine ID contains the array's serial number; receivers must be configured with it.
    ///
    /// # Errors
    /// If the passphrase is too short.
    pub fn new(user: &'a str, passphrase: &str, serial: &str) -> Result<Self> {
        check(passphrase)?;
        let engine = [&ENGINE[..], &octets(serial)].concat();
        let key = localized(passphrase, &engine);
        Ok(Self { user, engine, key })
    }

    /// Wraps a PDU in a message. `salt` must differ for each message; `now` in seconds since 1970.
    ///
    /// Receivers accept a message whose engine time is at most 150 s before that of the previous one. The engine time is the
    /// time of day modulo 2³¹ s, and engine boots counts its overflows, so that neither has to be stored.
    ///
    /// # Errors
    /// If the cryptography library fails.
    pub fn message(&self, pdu: &[u8], salt: u64, now: u64) -> Result<Vec<u8>> {
        let (boots, time) = ((now >> 31) as u32 + 1, (now & 0x7FFF_FFFF) as u32);
        let mut scoped = yasna::construct_der(|writer| {
            writer.write_sequence(|scoped| {
                scoped.next().write_bytes(&self.engine);
                scoped.next().write_bytes(b"");
                scoped.next().write_der(pdu);
            });
        });
        self.encrypt(&mut scoped, boots, time, salt)
            .map_err(|_| Error::new("an SNMP message can't be encrypted"))?;
        let encode = |code: &[u8]| {
            let parameters = yasna::construct_der(|writer| {
                writer.write_sequence(|it| {
                    it.next().write_bytes(&self.engine);
                    it.next().write_u32(boots);
                    it.next().write_u32(time);
                    it.next().write_bytes(self.user.as_bytes());
                    it.next().write_bytes(code);
                    it.next().write_bytes(&salt.to_be_bytes());
                });
            });
            yasna::construct_der(|writer| {
                writer.write_sequence(|message| {
                    message.next().write_i64(VERSION);
                    message.next().write_sequence(|header| {
                        header.next().write_i64((salt & 0x7FFF_FFFF) as i64);
                        header.next().write_i64(MAX_MESSAGE_BYTES);
                        header.next().write_bytes(&[FLAGS]);
                        header.next().write_i64(SECURITY_MODEL);
                    });
                    message.next().write_bytes(&parameters);
                    message.next().write_bytes(&scoped);
                });
            })
        };
        // The MAC covers the message with zeros in the place of the MAC (RFC 7860 4.2.1).
        let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.key), &encode(&[0; MAC_BYTES]));
        Ok(encode(&code.as_ref()[..MAC_BYTES]))
    }

    fn encrypt(
        &self,
        bytes: &mut [u8],
        boots: u32,
        time: u32,
        salt: u64,
    ) -> std::result::Result<(), aws_lc_rs::error::Unspecified> {
        // RFC 3826 3.1.2.1.
        let iv = (u128::from(boots) << 96) | (u128::from(time) << 64) | u128::from(salt);
        let key = EncryptingKey::cfb128(UnboundCipherKey::new(&AES_128, &self.key[..16])?)?;
        let context = EncryptionContext::Iv128(FixedLength::from(iv.to_be_bytes()));
        key.less_safe_encrypt(bytes, context).map(drop)
    }
}

/// Decodes hexadecimal digits; other text is used unchanged.
fn octets(serial: &str) -> Vec<u8> {
    let pairs = serial.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect::<Option<_>>().unwrap_or_else(|| serial.as_bytes().to_vec())
}

/// Derives the localized key of a passphrase for one engine (RFC 3414 2.6, A.2).
fn localized(passphrase: &str, engine: &[u8]) -> [u8; 32] {
    let long: Vec<u8> = passphrase.bytes().cycle().take(EXPANDED_PASSPHRASE_BYTES).collect();
    let user_key = digest(&[&long]);
    digest(&[&user_key, engine, &user_key])
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}
