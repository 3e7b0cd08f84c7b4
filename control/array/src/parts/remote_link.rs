//! Links to other arrays: the trait by which the process gives connections, and the messages on them.
//!
//! Both ends of a connection prove that they have the key of the certificate that they show (TLS 1.3). Which certificate is
//! accepted is decided here, by its fingerprint. Two arrays that are not paired yet know nothing of each other's certificate:
//! each proves that it knows the pairing key, by an HMAC over what only the two ends of this TLS session can derive, so that
//! it can't be relayed by a machine between them.

use crate::parts::framed::{self, proof};
use crate::parts::hex::{from_hex, hex};
use crate::{Error, Result};
use aws_lc_rs::digest;
use bytes::{Bytes, BytesMut};
use peer::versions::Protocol;
use records::{OnLinkLoss, ReplicationMode, Secret};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The messages of this software.
const PROTOCOL: Protocol =
    Protocol { name: "the protocol between arrays", other: "one array", own: "the other", versions: [1, 1] };
/// What the key of a pairing is for.
const PAIRING: &str = "pairing";
/// Longest message.
const MAX_MESSAGE_BYTES: u32 = 16 << 10;
/// Longest message of an array that is paired.
const MAX_LONG_MESSAGE_BYTES: u32 = 512 << 10;
/// Bytes that are sent or received at once during a transfer.
const IO_BYTES: usize = 64 << 10;
/// An end that does nothing for this long during a transfer is dead.
pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(300);
/// The same while the point of a synchronous session is transferred, for which writes of hosts wait. The session itself has a
/// shorter limit.
pub(crate) const MAX_JOIN_SILENCE: Duration = Duration::from_secs(30);
/// Bytes of a pairing key.
pub(crate) const PAIRING_KEY_BYTES: usize = 16;

/// The key by which other arrays know this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkIdentity {
    /// Its certificate in PEM.
    pub certificate: String,
    /// The key in PEM.
    pub key: Secret,
}

/// Bytes in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + Sync {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Duplex for T {}

/// A connection with another array, encrypted. Dropping it closes it.
pub struct Link {
    /// Its bytes.
    pub stream: Box<dyn Duplex>,
    /// The certificate in DER of which the other end has proven to have the key.
    pub certificate: Vec<u8>,
    /// What only both ends of this TLS session can derive (RFC 8446 7.5).
    pub exporter: [u8; 32],
    /// The address of the other end.
    pub address: IpAddr,
}

/// Connections to other arrays, as the process makes them.
pub trait Network: Send + Sync {
    /// The port at which this array listens for other arrays; `None` if it does not.
    fn port(&self) -> Option<u16>;

    /// A new key and a certificate for the array with this serial number.
    ///
    /// # Errors
    /// Why none can be made, for people.
    fn new_identity(&self, serial: &str) -> std::result::Result<LinkIdentity, String>;

    /// Connects to an address, host and port. Ends within some seconds.
    ///
    /// # Errors
    /// Why there is no connection, for people.
    fn connect(
        &self,
        address: String,
        own: LinkIdentity,
    ) -> Pin<Box<dyn Future<Output = std::result::Result<Link, String>> + Send>>;
}

/// What the end that has connected says first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The oldest and the newest version that it speaks.
    versions: [u16; 2],
    pub serial: String,
    pub name: String,
    pub request: Wish,
}

/// What it wants.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wish {
    /// Whether both arrays still know each other.
    Ping,
    /// To be paired.
    Pair {
        proof: String,
        /// The port at which it listens.
        port: Option<u16>,
    },
    /// To transfer a point of a replication, as its source.
    Replicate { id: String },
    /// To become the source of a replication, and that the other array becomes its target.
    Reverse { id: String },
    /// That the other array decides, as the witness of a replication.
    Rule {
        /// Number of the replication in hex digits, with its generation.
        number: String,
        /// To enroll it: the certificate of the target, SHA-256 in hex digits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        target: Option<String>,
        request: replication::witness::Request,
    },
}

/// The response.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Pong,
    Paired {
        serial: String,
        name: String,
        proof: String,
    },
    Refused {
        text: String,
    },
    /// The source is to describe the replication.
    Describe,
    /// The target takes a point: messages of the replication follow.
    Ready,
    /// The target takes no point now.
    Denied {
        denial: Denial,
        text: String,
    },
    /// What the witness has decided.
    Ruled {
        answer: replication::witness::Answer,
    },
}

/// Why a target takes no point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Denial {
    /// It has no such replication.
    Unknown,
    Paused,
    Promoted,
    Busy,
    #[serde(other)]
    Other,
}

/// A replication as its source describes it before each transfer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Description {
    pub name: String,
    /// Name of the volume group; `None` for a single volume.
    pub group: Option<String>,
    pub volumes: Vec<DescribedVolume>,
    pub rpo_seconds: u64,
    /// How often source and target have changed places.
    pub generation: u32,
    /// The target may not have it yet.
    pub is_new: bool,
    /// When writes are acknowledged.
    #[serde(default)]
    pub mode: ReplicationMode,
    /// Policy for writes of a synchronous replication while the target is out of reach.
    #[serde(default)]
    pub on_link_loss: OnLinkLoss,
    /// The certificate of the witness, SHA-256 in hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<String>,
    /// The volumes take no writes since the point of this number.
    pub demoted: Option<u64>,
    /// Only if source and target are to change places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reversal: Option<DescribedReversal>,
}

/// What both arrays have when source and target change places.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DescribedReversal {
    /// The newest point of the array that becomes the source.
    pub point: u64,
    /// Its digest in hex digits.
    pub digest: String,
    pub volumes: Vec<DescribedCounterpart>,
}

/// A volume of both arrays, by its identities in hex digits.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DescribedCounterpart {
    /// On the array that becomes the source.
    pub source: String,
    /// On the array that becomes the target.
    pub target: String,
}

/// A volume of the source.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DescribedVolume {
    /// Its identity in hex digits.
    pub id: String,
    pub name: String,
}

impl Hello {
    pub fn new(serial: &str, name: &str, request: Wish) -> Self {
        Self { versions: PROTOCOL.versions, serial: serial.into(), name: name.into(), request }
    }

    /// Refuses an array with which no version is in common.
    pub fn check_version(&self) -> Result<()> {
        let agreed = PROTOCOL.agree(self.versions);
        agreed.map(drop).map_err(|error| Error::precondition(error.to_string()))
    }
}

impl Link {
    /// SHA-256 of the other end's certificate, in hex digits.
    pub fn fingerprint(&self) -> String {
        hex(digest::digest(&digest::SHA256, &self.certificate).as_ref())
    }

    pub(crate) async fn send(&mut self, message: &impl Serialize) -> std::io::Result<()> {
        framed::send(&mut self.stream, message).await
    }

    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> std::io::Result<T> {
        framed::receive(&mut self.stream, MAX_MESSAGE_BYTES).await
    }

    /// As [`Link::receive`], from an array that is paired.
    pub(crate) async fn receive_long<T: DeserializeOwned>(&mut self) -> std::io::Result<T> {
        framed::receive(&mut self.stream, MAX_LONG_MESSAGE_BYTES).await
    }

    /// What proves that an end of this session knows a pairing key. `role`: which end.
    pub(crate) fn proof(&self, key: &[u8], role: &str) -> String {
        hex(proof(key, PAIRING, &self.exporter, role).as_ref())
    }

    /// Whether the other end has proven that it knows a pairing key.
    pub(crate) fn is_proven(&self, key: &[u8], role: &str, proof: &str) -> bool {
        framed::is_proven(key, PAIRING, &self.exporter, role, proof)
    }

    /// The key that both ends have from now on.
    pub(crate) fn common_key(&self, key: &[u8]) -> Secret {
        Secret::new(self.proof(key, "common key"))
    }
}

/// The bytes of a link between source and target of a replication. Those in both directions are counted.
pub(crate) struct LinkStream {
    stream: Box<dyn Duplex>,
    counter: Arc<AtomicU64>,
    max_silence: Duration,
}

impl LinkStream {
    /// What follows on a link after both ends have agreed.
    pub fn new(link: Link, counter: Arc<AtomicU64>, max_silence: Duration) -> Self {
        Self { stream: link.stream, counter, max_silence }
    }

    fn count(&self, bytes: usize) {
        self.counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What is done before the other end counts as dead.
async fn alive<T>(
    max_silence: Duration,
    exchange: impl Future<Output = std::io::Result<T>>,
) -> std::io::Result<T> {
    let silent = |_| std::io::Error::new(std::io::ErrorKind::TimedOut, "the other array does not respond");
    tokio::time::timeout(max_silence, exchange).await.map_err(silent)?
}

impl replication::Stream for LinkStream {
    async fn send(&mut self, pieces: Vec<Bytes>) -> std::io::Result<()> {
        for piece in pieces {
            for part in piece.chunks(IO_BYTES) {
                alive(self.max_silence, self.stream.write_all(part)).await?;
                self.count(part.len());
            }
        }
        alive(self.max_silence, self.stream.flush()).await
    }

    async fn receive(&mut self) -> std::io::Result<Bytes> {
        let mut bytes = BytesMut::with_capacity(IO_BYTES);
        let count = alive(self.max_silence, self.stream.read_buf(&mut bytes)).await?;
        self.count(count);
        Ok(bytes.freeze())
    }
}

/// A pairing key as operators copy it: groups of four hex digits.
pub(crate) fn key_text(key: &[u8; PAIRING_KEY_BYTES]) -> String {
    key.chunks(2).map(hex).collect::<Vec<_>>().join("-")
}

/// A pairing key from its text.
pub(crate) fn key_of(text: &str) -> Option<[u8; PAIRING_KEY_BYTES]> {
    let digits: String = text.chars().filter(|letter| !"- \t\r\n".contains(*letter)).collect();
    from_hex(&digits)?.try_into().ok()
}

#[cfg(test)]
#[path = "remote_link_test.rs"]
mod tests;
