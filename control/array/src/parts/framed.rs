//! Messages of protocols that move few bytes, between arrays and between the controllers of one: JSON after its length, four bytes,
//! little endian. And the proofs by which two ends of a TLS session pair that do not know each other's certificate.

use crate::parts::hex::from_hex;
use aws_lc_rs::hmac;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{Error, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Longest text of another end that is shown.
const MAX_TEXT_CHARS: usize = 400;
const LENGTH_BYTES: usize = size_of::<u32>();

/// A message after its length.
///
/// # Errors
/// If it has no form in JSON, or is too long.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; LENGTH_BYTES];
    serde_json::to_writer(&mut bytes, message).map_err(Error::other)?;
    let length = u32::try_from(bytes.len() - LENGTH_BYTES).map_err(Error::other)?;
    bytes[..LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// Sends what [`encode`] has made.
///
/// # Errors
/// The connection has ended.
pub async fn write(stream: &mut (impl AsyncWrite + Unpin), encoded: &[u8]) -> Result<()> {
    stream.write_all(encoded).await?;
    stream.flush().await
}

/// Sends a message.
///
/// # Errors
/// The connection has ended.
pub async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> Result<()> {
    write(stream, &encode(message)?).await
}

/// The bytes of the next message.
///
/// # Errors
/// The connection has ended, or the message is longer than `max_bytes`.
pub async fn read(stream: &mut (impl AsyncRead + Unpin), max_bytes: u32) -> Result<Vec<u8>> {
    let mut length = [0; LENGTH_BYTES];
    stream.read_exact(&mut length).await?;
    let length = u32::from_le_bytes(length);
    if length > max_bytes {
        return Err(Error::other("a message is too long"));
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// A message from its bytes.
///
/// # Errors
/// If they are another message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|_| Error::other("a message can't be read"))
}

/// The next message.
///
/// # Errors
/// The connection has ended, or it is another message, or longer than `max_bytes`.
pub async fn receive<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    max_bytes: u32,
) -> Result<T> {
    decode(&read(stream, max_bytes).await?)
}

/// A text of another end as it may be shown.
pub fn shown(text: &str) -> String {
    text::shown(text, MAX_TEXT_CHARS, "")
}

/// What proves to the other end of a session that this one knows a key. `purpose`: of the key; `exporter`: what only both ends can
/// derive (RFC 8446 7.5), so that it can't be relayed; `role`: which end.
pub fn proof(key: &[u8], purpose: &str, exporter: &[u8; 32], role: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), &proven(purpose, exporter, role))
}

/// Whether the other end has proven that it knows a key, in hex digits.
pub fn is_proven(key: &[u8], purpose: &str, exporter: &[u8; 32], role: &str, proof: &str) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let message = proven(purpose, exporter, role);
    from_hex(proof).is_some_and(|proof| hmac::verify(&key, &message, &proof).is_ok())
}

fn proven(purpose: &str, exporter: &[u8; 32], role: &str) -> Vec<u8> {
    [b"ashlar ", purpose.as_bytes(), b", ", role.as_bytes(), b": ", &exporter[..]].concat()
}
