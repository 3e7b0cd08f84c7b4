//! A message of SNMP version 3 (RFC 3412 6) that only one user can have sent and only that user can read: the user-based
//! security model (RFC 3414), with HMAC-SHA-256 (RFC 7860) and AES-128 in CFB mode (RFC 3826).

use crate::{Error, Result};
use aws_lc_rs::cipher::{AES_128, EncryptingKey, EncryptionContext, UnboundCipherKey};
use aws_lc_rs::digest::{Context, SHA256};
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;

/// The shortest passphrase (RFC 3414 11.2).
const LEAST: usize = 8;
/// The longest name of a user (RFC 3414 2.4).
pub const LONGEST_NAME: usize = 32;

const VERSION: i64 = 3;
const SECURITY_MODEL: i64 = 3;
/// The longest message that is taken, as the number of this one: nobody answers it.
const MOST_BYTES: i64 = 65_507;
/// `authFlag` and `privFlag`; nothing is to be reported.
const FLAGS: u8 = 0b011;
/// The authentication code: 192 bits of it (RFC 7860 4.1).
const CODE: usize = 24;
/// How much of the passphrase, over and over, makes the key (RFC 3414 A.2).
const STRETCHED: usize = 1 << 20;
/// The enterprise number of those that have none of their own (RFC 5612), and that what follows are octets (RFC 3411 5).
const ENGINE: [u8; 5] = [0x80, 0x00, 0x7E, 0xD9, 5];

/// Refuses a passphrase that is too short.
pub fn check(passphrase: &str) -> Result<()> {
    match passphrase.len() {
        LEAST.. => Ok(()),
        _ => Err(Error::new(format!("the passphrase of an SNMP user has {LEAST} bytes at least"))),
    }
}

/// Who sends: one who holds the passphrase of a user, of the engine that is the array.
pub struct Sender<'a> {
    user: &'a str,
    engine: Vec<u8>,
    key: [u8; 32],
}

impl<'a> Sender<'a> {
    /// The engine's identifier is the array's serial number, which receivers have to know.
    ///
    /// # Errors
    /// When the passphrase is too short.
    pub fn new(user: &'a str, passphrase: &str, serial: &str) -> Result<Self> {
        check(passphrase)?;
        let engine = [&ENGINE[..], &octets(serial)].concat();
        let key = localized(passphrase, &engine);
        Ok(Self { user, engine, key })
    }

    /// The message around a PDU. `salt` is another one each time; `now`: in seconds since 1970.
    ///
    /// Receivers take a message whose time is not more than 150 s behind the last one. The engine's time is that of day,
    /// and it boots anew when that has gone through 31 bits: so nothing needs to be remembered.
    ///
    /// # Errors
    /// When the cryptography library refuses.
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
        let whole = |code: &[u8]| {
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
                        header.next().write_i64(MOST_BYTES);
                        header.next().write_bytes(&[FLAGS]);
                        header.next().write_i64(SECURITY_MODEL);
                    });
                    message.next().write_bytes(&parameters);
                    message.next().write_bytes(&scoped);
                });
            })
        };
        // The code is that of the message with zeros in its place (RFC 7860 4.2.1).
        let code = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.key), &whole(&[0; CODE]));
        Ok(whole(&code.as_ref()[..CODE]))
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

/// The bytes that hexadecimal digits say; the letters themselves when they are none.
fn octets(serial: &str) -> Vec<u8> {
    let pairs = serial.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect::<Option<_>>().unwrap_or_else(|| serial.as_bytes().to_vec())
}

/// The key of a passphrase for one engine (RFC 3414 2.6, A.2).
fn localized(passphrase: &str, engine: &[u8]) -> [u8; 32] {
    let long: Vec<u8> = passphrase.bytes().cycle().take(STRETCHED).collect();
    let everywhere = digest(&[&long]);
    digest(&[&everywhere, engine, &everywhere])
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut out = [0; 32];
    out.copy_from_slice(context.finish().as_ref());
    out
}
