//! Joining: with a token that can be used once a new controller gets from the home what it needs to take part.
//!
//! A token has the address of the home, the fingerprint of its certificate, and a secret. The new controller connects, and
//! finds by the fingerprint that it is the home; the home finds by an HMAC over what only both ends of this session can derive
//! that the other end has the secret. A message is JSON after its length, four bytes, little endian.

use crate::message::{agree, receive, send};
use crate::mutual_tls::{self, Protocol, Session};
use crate::token::{Token, from_hex, hex};
use anyhow::{Context, Result, bail, ensure};
use array::LinkIdentity;
use aws_lc_rs::hmac;
use machine::store::Config as Store;
use machine::{access, ceph, random, sharing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The protocol of a new controller that joins.
pub const JOIN: Protocol = Protocol { name: b"ashlar-join", exporter_label: b"EXPORTER-ashlar-join" };
/// How long a token can be used.
pub const TOKEN_SECONDS: u64 = 3600;
/// How long joining may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Versions of these messages, the oldest and the newest.
const VERSIONS: [u16; 2] = [1, 1];
const MAX_MESSAGE_BYTES: u32 = 16 << 10;
/// Tokens that are remembered, used ones among them.
const MAX_TOKENS: usize = 256;
/// Longest text of the home that is shown.
const MAX_TEXT_CHARS: usize = 400;

/// What proves to the other end of a session that this one knows the secret of a token.
fn message(exporter: &[u8; 32], role: &str) -> Vec<u8> {
    [b"ashlar join, ", role.as_bytes(), b": ", &exporter[..]].concat()
}

fn proof(secret: &[u8], exporter: &[u8; 32], role: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hex(hmac::sign(&key, &message(exporter, role)).as_ref())
}

fn is_proven(secret: &[u8], exporter: &[u8; 32], role: &str, proof: &str) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    from_hex(proof).is_some_and(|proof| hmac::verify(&key, &message(exporter, role), &proof).is_ok())
}

const NEW: &str = "new controller";
const HOME: &str = "home";

/// What the new controller says.
#[derive(Serialize, Deserialize)]
struct Wish {
    versions: [u16; 2],
    array: String,
    token: String,
    proof: String,
}

/// What the home says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Granted { proof: String, grant: Grant },
    Refused { text: String },
}

/// What a new controller needs.
#[derive(Clone, Serialize, Deserialize)]
pub struct Grant {
    /// Empty if the array is not in Ceph, but on drives that two controllers share.
    meta_pool: String,
    data_pool: String,
    namespace: String,
    ceph_id: String,
    /// `secrets.key`, in hex digits.
    secrets: String,
    /// `drives.key`, if the array has one.
    drives: Option<String>,
}

impl Grant {
    /// What the data folder of a controller has.
    ///
    /// # Errors
    /// If something can't be read.
    pub fn of(data: &Path) -> Result<Self> {
        let location = ceph::location_of(data)?;
        let secrets = access::secrets_key(data, true).map_err(|why| anyhow::anyhow!(why))?;
        let drives = data.join(machine::key::FILE);
        let drives = match access::read_whole(&drives) {
            Ok(key) => Some(hex(&key)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("{} can't be read", drives.display())),
        };
        let (meta_pool, data_pool, namespace, ceph_id) = match location {
            Some(rados::Location { id, meta, data, namespace, .. }) => (meta, data, namespace, id),
            None => Default::default(),
        };
        Ok(Self { meta_pool, data_pool, namespace, ceph_id, secrets: hex(&secrets), drives })
    }
}

enum Entry {
    Open { token: Token, expires: u64 },
    Used,
}

/// The tokens of a home. They end with its process.
#[derive(Default)]
pub struct Tokens(Mutex<BTreeMap<String, Entry>>);

impl Tokens {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers that open tokens are for.
    pub fn numbers(&self, now: u64) -> Vec<u16> {
        let open = |entry: &Entry| match entry {
            Entry::Open { token, expires } if now < *expires => Some(token.controller),
            _ => None,
        };
        self.lock().values().filter_map(open).collect()
    }

    /// A token that can be used until `expires`, by the clock of links.
    ///
    /// # Errors
    /// If there are too many.
    pub fn create(
        &self,
        (certificate, array): (&str, u128),
        (controller, address): (u16, &str),
        expires: u64,
    ) -> Result<Token> {
        let (certificate, address) = (certificate.to_owned(), address.to_owned());
        let token = Token { secret: random()?, certificate, array, controller, address };
        let mut known = self.lock();
        ensure!(known.len() < MAX_TOKENS, "too many tokens were made since this controller is the home");
        known.insert(token.name(), Entry::Open { token: token.clone(), expires });
        Ok(token)
    }

    /// Uses a token, if it is good; why not, for people.
    fn take(&self, wish: &Wish, array: u128, exporter: &[u8; 32], now: u64) -> Result<Token, String> {
        agree(("new controller", "joining"), wish.versions, VERSIONS)?;
        if wish.array != format!("{array:032x}") {
            return Err(format!("the token is of array {}, and this is array {array:032x}", wish.array));
        }
        let mut known = self.lock();
        let token = match known.get(&wish.token) {
            None => {
                return Err("this home has not made the token: another controller is the home now, or it was started \
                            again since; make another token (ashlar controller add)"
                    .into());
            }
            Some(Entry::Used) => return Err("the token was used already: make another one".into()),
            Some(Entry::Open { expires, .. }) if *expires <= now => {
                return Err("the token has expired: make another one".into());
            }
            Some(Entry::Open { token, .. }) => token.clone(),
        };
        if !is_proven(&token.secret, exporter, NEW, &wish.proof) {
            return Err("the token is wrong".into());
        }
        known.insert(wish.token.clone(), Entry::Used);
        Ok(token)
    }

    /// Answers a new controller.
    ///
    /// # Errors
    /// Why it does not join.
    pub async fn answer(
        &self,
        mut session: Session,
        array: u128,
        now: u64,
        grant: impl FnOnce() -> Result<Grant>,
    ) -> Result<()> {
        let answering = async {
            let wish: Wish = receive(&mut session, MAX_MESSAGE_BYTES).await?;
            let grant = grant()?;
            let reply = match self.take(&wish, array, &session.exporter, now) {
                Ok(token) => {
                    tracing::info!(controller = token.controller, "a new controller joins with its token");
                    Reply::Granted { proof: proof(&token.secret, &session.exporter, HOME), grant }
                }
                Err(text) => Reply::Refused { text },
            };
            send(&mut session, &reply).await?;
            // The other end closes the connection when it has read that.
            _ = session.stream.read(&mut [0]).await;
            match reply {
                Reply::Granted { .. } => Ok(()),
                Reply::Refused { text } => bail!("a new controller was refused: {text}"),
            }
        };
        timeout(LIMIT, answering).await.context("joining took too long")?
    }
}

/// Asks the home for what a new controller needs.
pub async fn ask(token: &Token, own: &LinkIdentity) -> Result<Grant> {
    let asking = async {
        let stream = TcpStream::connect(&token.address).await?;
        let mut session = mutual_tls::connect(stream, own, JOIN).await?;
        ensure!(
            mutual_tls::fingerprint(&session.certificate) == token.certificate,
            "another one answers there than the controller that made the token: it shows another certificate"
        );
        ask_with_versions(&mut session, token, VERSIONS).await
    };
    let asked = timeout(LIMIT, asking).await.unwrap_or_else(|_| bail!("it did not respond in time"));
    asked.with_context(|| format!("can't join by the controller at {}", token.address))
}

/// Asks over a session, in one of these versions.
pub(super) async fn ask_with_versions(
    session: &mut Session,
    token: &Token,
    versions: [u16; 2],
) -> Result<Grant> {
    let wish = Wish {
        versions,
        array: format!("{:032x}", token.array),
        token: token.name(),
        proof: proof(&token.secret, &session.exporter, NEW),
    };
    send(session, &wish).await?;
    match receive(session, MAX_MESSAGE_BYTES).await? {
        Reply::Granted { proof, grant } => {
            let known = is_proven(&token.secret, &session.exporter, HOME, &proof);
            ensure!(known, "the other end does not know the token");
            Ok(grant)
        }
        Reply::Refused { text } => bail!("{}", shown(&text)),
    }
}

/// A text of another controller as it may be shown.
pub(super) fn shown(text: &str) -> String {
    text::shown(text, MAX_TEXT_CHARS, "")
}

/// Makes a data folder that of a new controller. One that has joined already stays as it is.
///
/// # Errors
/// Why it does not join; then the folder is unchanged, except for keys.
pub async fn join(number: Option<u16>, store: &Store, token: &Token) -> Result<()> {
    let data = &store.data;
    let before = sharing::remembered(data)?.map(|(array, _)| array);
    if let Some(array) = before.map_or_else(|| ceph::array_of(data), |array| Ok(Some(array)))? {
        ensure!(
            array == token.array,
            "the folder {} is of array {array:032x}, and the token of array {:032x}: give another folder",
            data.display(),
            token.array
        );
        tracing::info!("this controller has joined before: the token is not used");
        return Ok(());
    }
    ensure!(
        number.is_none_or(|number| number == token.controller),
        "the token is for controller {}: leave --controller out, or give that number",
        token.controller
    );
    let own = mutual_tls::new_identity("controller.ashlar.invalid", "Ashlar controller")?;
    let grant = ask(token, &own).await?;
    let is_on_drives = grant.meta_pool.is_empty();
    ensure!(
        is_on_drives || store.drives.named.is_empty(),
        "the array is in Ceph: leave --drive out, and make another token"
    );
    ensure!(
        !is_on_drives || !store.drives.named.is_empty(),
        "the array is on drives that two servers see: name them by their paths on this server with --drive, and make another \
         token"
    );
    write_key(data, access::SECRETS, &grant.secrets)?;
    if let Some(drives) = &grant.drives {
        write_key(data, machine::key::FILE, drives)?;
    }
    if is_on_drives {
        sharing::remember(data, (token.array, token.controller))?;
        tracing::info!(controller = token.controller, "this controller has joined the array");
        return Ok(());
    }
    let Grant { meta_pool, data_pool, namespace, ceph_id, .. } = grant;
    let location = rados::Location {
        conf: store.rados.conf.clone().unwrap_or_else(|| ceph::CONF.into()),
        id: store.rados.id.clone().unwrap_or(ceph_id),
        meta: meta_pool,
        data: data_pool,
        namespace,
    };
    ceph::remember(data, (token.array, token.controller), &location)?;
    tracing::info!(controller = token.controller, "this controller has joined the array");
    Ok(())
}

/// Writes a key. One that is there and differs is never overwritten.
fn write_key(data: &Path, name: &str, key: &str) -> Result<()> {
    let path = data.join(name);
    let key = from_hex(key).context("the home has sent a key that is none")?;
    match access::read_whole(&path) {
        Ok(known) if known == key => Ok(()),
        Ok(_) => bail!("{} has another key: give another folder", path.display()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            access::write_whole(&path, &key).with_context(|| format!("{} can't be written", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("{} can't be read", path.display())),
    }
}
