//! A minimal KMIP client that fetches a key: the operation Get of KMIP 1.2 in TTLV (KMIP 1.2, 9.1) over mutual TLS.

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::{CertificateDer, ServerName};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The port that IANA has for KMIP.
const PORT: u16 = 5696;
/// Time-out of each step.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Maximum nesting of structures.
const MAX_DEPTH: usize = 16;

// Tags (9.1.3.1).
const BATCH_COUNT: u32 = 0x42_000d;
const BATCH_ITEM: u32 = 0x42_000f;
const KEY_BLOCK: u32 = 0x42_0040;
const KEY_FORMAT_TYPE: u32 = 0x42_0042;
const KEY_MATERIAL: u32 = 0x42_0043;
const KEY_VALUE: u32 = 0x42_0045;
const OPERATION: u32 = 0x42_005c;
const PROTOCOL_VERSION: u32 = 0x42_0069;
const PROTOCOL_VERSION_MAJOR: u32 = 0x42_006a;
const PROTOCOL_VERSION_MINOR: u32 = 0x42_006b;
const REQUEST_HEADER: u32 = 0x42_0077;
const REQUEST_MESSAGE: u32 = 0x42_0078;
const REQUEST_PAYLOAD: u32 = 0x42_0079;
const RESPONSE_MESSAGE: u32 = 0x42_007b;
const RESPONSE_PAYLOAD: u32 = 0x42_007c;
const RESULT_MESSAGE: u32 = 0x42_007d;
const RESULT_STATUS: u32 = 0x42_007f;
const SYMMETRIC_KEY: u32 = 0x42_008f;
const UNIQUE_IDENTIFIER: u32 = 0x42_0094;

/// Get, of the operations (9.1.3.2.27); Raw, of the key formats (9.1.3.2.3); Success, of the results (9.1.3.2.28).
const GET: u32 = 0x0a;
const RAW: u32 = 1;
const SUCCESS: u32 = 0;

/// A server, and the certificates of both sides.
pub struct Server {
    /// `host` or `host:port`.
    pub address: String,
    /// Certificate of this side in PEM.
    pub certificate: PathBuf,
    /// Its key in PEM.
    pub key: PathBuf,
    /// The certificate authority of the server, in PEM.
    pub authority: PathBuf,
}

impl Server {
    /// The symmetric key with this Unique Identifier.
    ///
    /// # Errors
    /// What went wrong, and with which server.
    pub fn get(&self, id: &str) -> Result<Vec<u8>> {
        self.ask(id).with_context(|| format!("can't fetch key {id} from the KMIP server {}", self.address))
    }

    fn ask(&self, id: &str) -> Result<Vec<u8>> {
        let (host, port) = match self.address.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().context("the port is a number")?),
            None => (self.address.as_str(), PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())?;
        let mut tls = rustls::ClientConnection::new(Arc::new(self.tls()?), name)?;
        let address = (host, port).to_socket_addrs()?.next().context("the name has no address")?;
        let mut socket = TcpStream::connect_timeout(&address, TIMEOUT)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_write_timeout(Some(TIMEOUT))?;
        let mut stream = rustls::Stream::new(&mut tls, &mut socket);
        stream.write_all(&request(id))?;
        stream.flush()?;
        let mut front = [0; 8];
        stream.read_exact(&mut front)?;
        let len = u32::from_be_bytes([front[4], front[5], front[6], front[7]]) as usize;
        ensure!(len <= MAX_RESPONSE_BYTES, "a response of {len} bytes");
        let mut answer = front.to_vec();
        answer.resize(8 + len, 0);
        stream.read_exact(&mut answer[8..])?;
        key_of(&answer)
    }

    fn tls(&self) -> Result<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in certificates(&self.authority)? {
            roots.add(certificate)?;
        }
        let key = std::fs::read_to_string(&self.key)
            .with_context(|| format!("{} can't be read", self.key.display()))?;
        let key =
            trust::private_key(&key).with_context(|| format!("{} can't be used", self.key.display()))?;
        let own = certificates(&self.certificate)?;
        // The server may know what the chain lacks: it decides. If it refuses, this is why.
        if let Err(wrong) = trust::check_chain(&own, trust::Purpose::Client) {
            tracing::warn!(%wrong, file = %self.certificate.display(), "the KMIP server may refuse the certificate");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        config
            .with_root_certificates(roots)
            .with_client_auth_cert(own, key)
            .context("the certificate and the key of this side don't belong together")
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = || Ok::<_, anyhow::Error>(trust::certificates(&std::fs::read_to_string(path)?)?);
    read().with_context(|| format!("{} holds no certificate", path.display()))
}

/// What an item holds; types are those of 9.1.1.2.
enum Value<'a> {
    Structure(Vec<Item<'a>>),
    Number(u32),
    Text(&'a str),
    Bytes(&'a [u8]),
    /// Of a type that a response to Get does not need.
    Other,
}

struct Item<'a> {
    tag: u32,
    value: Value<'a>,
}

fn put(out: &mut Vec<u8>, tag: u32, kind: u8, value: &[u8]) {
    out.extend(((tag << 8) | u32::from(kind)).to_be_bytes());
    out.extend((value.len() as u32).to_be_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(8), 0);
}

fn structure(tag: u32, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let (mut inside, mut out) = (Vec::new(), Vec::new());
    fill(&mut inside);
    put(&mut out, tag, 1, &inside);
    out
}

fn request(id: &str) -> Vec<u8> {
    let number = |out: &mut Vec<u8>, tag, kind, value: u32| put(out, tag, kind, &value.to_be_bytes());
    structure(REQUEST_MESSAGE, |message| {
        message.extend(structure(REQUEST_HEADER, |header| {
            header.extend(structure(PROTOCOL_VERSION, |version| {
                number(version, PROTOCOL_VERSION_MAJOR, 2, 1);
                number(version, PROTOCOL_VERSION_MINOR, 2, 2);
            }));
            number(header, BATCH_COUNT, 2, 1);
        }));
        message.extend(structure(BATCH_ITEM, |item| {
            number(item, OPERATION, 5, GET);
            item.extend(structure(REQUEST_PAYLOAD, |payload| {
                put(payload, UNIQUE_IDENTIFIER, 7, id.as_bytes());
            }));
        }));
    })
}

/// The items of a structure; `None` if the bytes are malformed.
fn items(mut bytes: &[u8], deep: usize) -> Option<Vec<Item<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (front, rest) = bytes.split_first_chunk::<8>()?;
        let [a, b, c, kind, len @ ..] = *front;
        let len = u32::from_be_bytes(len) as usize;
        let value = rest.get(..len)?;
        bytes = rest.get(len.checked_next_multiple_of(8)?..)?;
        let value = match kind {
            1 => Value::Structure(items(value, deep.checked_sub(1)?)?),
            2 | 5 => Value::Number(u32::from_be_bytes(value.try_into().ok()?)),
            7 => Value::Text(std::str::from_utf8(value).ok()?),
            8 => Value::Bytes(value),
            _ => Value::Other,
        };
        found.push(Item { tag: u32::from_be_bytes([0, a, b, c]), value });
    }
    Some(found)
}

/// The value at the end of a path of tags.
fn find<'a, 'b>(items: &'a [Item<'b>], path: &[u32]) -> Option<&'a Value<'b>> {
    let (tag, rest) = path.split_first()?;
    let value = &items.iter().find(|item| item.tag == *tag)?.value;
    match value {
        _ if rest.is_empty() => Some(value),
        Value::Structure(items) => find(items, rest),
        _ => None,
    }
}

fn key_of(answer: &[u8]) -> Result<Vec<u8>> {
    let items = items(answer, MAX_DEPTH).context("the response is not TTLV")?;
    let look = |path: &[u32]| find(&items, &[&[RESPONSE_MESSAGE, BATCH_ITEM][..], path].concat());
    match look(&[RESULT_STATUS]) {
        Some(Value::Number(SUCCESS)) => {}
        Some(_) => match look(&[RESULT_MESSAGE]) {
            Some(Value::Text(why)) => bail!("the server reports: {why}"),
            _ => bail!("the server refused without a message"),
        },
        None => bail!("the response has no result"),
    }
    let block = |path: &[u32]| look(&[&[RESPONSE_PAYLOAD, SYMMETRIC_KEY, KEY_BLOCK][..], path].concat());
    ensure!(
        matches!(block(&[KEY_FORMAT_TYPE]), Some(Value::Number(RAW))),
        "it is not a symmetric key in the raw format"
    );
    match block(&[KEY_VALUE, KEY_MATERIAL]) {
        Some(Value::Bytes(bytes)) => Ok(bytes.to_vec()),
        _ => bail!("the response has no key"),
    }
}

#[cfg(test)]
#[path = "kmip_test.rs"]
mod tests;
