//! Messages of the protocols between controllers that move few bytes: JSON after its length, four bytes, little endian.

use crate::mutual_tls::Session;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Whether both ends have a version of a protocol in common. `other` names the other end, `what` is what the protocol does;
/// versions are the oldest and the newest that an end speaks.
///
/// # Errors
/// Both versions, for people.
pub fn agree((other, what): (&str, &str), theirs: [u16; 2], own: [u16; 2]) -> Result<(), String> {
    let ([least, most], [own_least, own_most]) = (theirs, own);
    match most.min(own_most) < least.max(own_least) {
        false => Ok(()),
        true => Err(format!(
            "the {other} speaks versions {least} to {most} of {what}, the home {own_least} to {own_most}: update the older one"
        )),
    }
}

/// Sends a message.
///
/// # Errors
/// The connection has ended.
pub async fn send(session: &mut Session, message: &impl Serialize) -> Result<()> {
    send_text(session, &serde_json::to_vec(message)?).await
}

/// Sends a message that is JSON already.
///
/// # Errors
/// The connection has ended.
pub async fn send_text(session: &mut Session, text: &[u8]) -> Result<()> {
    let length = u32::try_from(text.len())?;
    session.stream.write_all(&length.to_le_bytes()).await?;
    session.stream.write_all(text).await?;
    Ok(session.stream.flush().await?)
}

/// The next message.
///
/// # Errors
/// The connection has ended, or it is another message, or longer than `max_bytes`.
pub async fn receive<T: DeserializeOwned>(session: &mut Session, max_bytes: u32) -> Result<T> {
    let mut length = [0; 4];
    session.stream.read_exact(&mut length).await?;
    let length = u32::from_le_bytes(length);
    ensure!(length <= max_bytes, "a message is too long");
    let mut text = vec![0; length as usize];
    session.stream.read_exact(&mut text).await?;
    serde_json::from_slice(&text).context("a message can't be read")
}
