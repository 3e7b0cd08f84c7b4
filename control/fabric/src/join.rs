//! Joining: with a token that can be used once a new controller gets from the home what it needs to take part.
//!
//! A token has the address of the home, the fingerprint of its certificate, and a secret. The new controller connects, and
//! finds by the fingerprint that it is the home; the home finds by an HMAC over what only both ends of this session can derive
//! that the other end has the secret.

use crate::message::SideProtocol;
use crate::mutual_tls::{self, Protocol, Session};
use crate::token::Token;
use anyhow::{Context, Result, bail, ensure};
use array::hex::{from_hex, hex};
use array::{LinkIdentity, framed};
use machine::store::Config as Store;
use machine::{access, ceph, random, sharing};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

/// The protocol of a new controller that joins.
pub(crate) const JOIN: SideProtocol = SideProtocol::new(
    Protocol { name: b"ashlar-join", exporter_label: b"EXPORTER-ashlar-join" },
    ["the new controller", "joining"],
    16 << 10,
    LIMIT,
);
/// How long a token can be used.
pub const TOKEN_SECONDS: u64 = 3600;
/// How long joining may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Tokens that are remembered, used ones among them.
const MAX_TOKENS: usize = 256;
/// What the secret of a token is for.
const PURPOSE: &str = "join";

/// What proves to the other end of a session that this one knows the secret of a token.
fn proof(secret: &[u8], exporter: &[u8; 32], role: &str) -> String {
    hex(framed::proof(secret, PURPOSE, exporter, role).as_ref())
}

const NEW: &str = "new controller";
const HOME: &str = "home";

/// What the new controller says.
#[derive(Serialize, Deserialize)]
struct Wish {
    array: String,
    token: String,
    proof: String,
}

/// What the home says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Granted { proof: String, grant: Grant },
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

/// What a token is held against.
struct Asked<'a> {
    /// The array of the home.
    array: u128,
    /// What only both ends of the session can derive.
    exporter: &'a [u8; 32],
    /// The clock of links.
    now: u64,
}

enum Entry {
    Open { token: Token, expires: u64 },
    Used,
}

/// The tokens of a home. They end with its process.
#[derive(Default)]
pub struct Tokens(Mutex<BTreeMap<String, Entry>>);

impl Tokens {
    /// Numbers that open tokens are for.
    pub fn numbers(&self, now: u64) -> Vec<u16> {
        let open = |entry: &Entry| match entry {
            Entry::Open { token, expires } if now < *expires => Some(token.controller),
            _ => None,
        };
        self.0.lock().values().filter_map(open).collect()
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
        let mut known = self.0.lock();
        ensure!(known.len() < MAX_TOKENS, "too many tokens were made since this controller is the home");
        known.insert(token.name(), Entry::Open { token: token.clone(), expires });
        Ok(token)
    }

    /// The token that a new controller has, if it is good, and uses it up if `uses`; why it is not, for people.
    fn take(&self, wish: &Wish, uses: bool, of_home: &Asked<'_>) -> Result<Token, String> {
        let Asked { array, exporter, now } = of_home;
        if wish.array != format!("{array:032x}") {
            let other = framed::shown(&wish.array);
            return Err(format!("the token is of array {other}, and this is array {array:032x}"));
        }
        let mut known = self.0.lock();
        let token = match known.get(&wish.token) {
            None => {
                return Err("this home has not made the token: another controller is the home now, or it was started \
                            again since; make another token (ashlar controller add)"
                    .into());
            }
            Some(Entry::Used) => return Err("the token was used already: make another one".into()),
            Some(Entry::Open { expires, .. }) if expires <= now => {
                return Err("the token has expired: make another one".into());
            }
            Some(Entry::Open { token, .. }) => token.clone(),
        };
        if !framed::is_proven(&token.secret, PURPOSE, exporter, NEW, &wish.proof) {
            return Err("the token is wrong".into());
        }
        if uses {
            known.insert(wish.token.clone(), Entry::Used);
        }
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
        let Session { stream, exporter, .. } = &mut session;
        let answering = async {
            let wish: Wish = JOIN.asked(stream).await?;
            let asked = Asked { array, exporter, now };
            // The keys are read for one that has a token, which is used up only if they can be.
            let granted = match self.take(&wish, false, &asked) {
                Ok(_) => {
                    let grant = grant()?;
                    self.take(&wish, true, &asked).map(|token| (token, grant))
                }
                Err(text) => Err(text),
            };
            let (token, grant) = match granted {
                Ok(granted) => granted,
                Err(text) => {
                    JOIN.refuse(stream, &text).await?;
                    bail!("a new controller was refused: {text}");
                }
            };
            tracing::info!(controller = token.controller, "a new controller joins with its token");
            let proof = proof(&token.secret, exporter, HOME);
            JOIN.answer(stream, &Reply::Granted { proof, grant }).await?;
            // The other end closes the connection when it has read that.
            _ = stream.read(&mut [0]).await;
            Ok(())
        };
        timeout(LIMIT, answering).await.context("joining took too long")?
    }
}

/// Asks the home for what a new controller needs.
pub async fn ask(token: &Token, own: &LinkIdentity) -> Result<Grant> {
    let asking = async {
        let mut session = mutual_tls::connect(&token.address, own, JOIN.tls).await?;
        ensure!(
            mutual_tls::fingerprint(&session.certificate) == token.certificate,
            "another one answers there than the controller that made the token: it shows another certificate"
        );
        ask_over(&mut session, token, JOIN).await
    };
    let asked = timeout(LIMIT, asking).await.unwrap_or_else(|_| bail!("it did not respond in time"));
    asked.with_context(|| format!("can't join by the controller at {}", token.address))
}

/// Asks over a session, by this version of the protocol.
pub(crate) async fn ask_over(session: &mut Session, token: &Token, protocol: SideProtocol) -> Result<Grant> {
    let wish = Wish {
        array: format!("{:032x}", token.array),
        token: token.name(),
        proof: proof(&token.secret, &session.exporter, NEW),
    };
    let Reply::Granted { proof, grant } = protocol.ask(&mut session.stream, &wish).await?;
    let known = framed::is_proven(&token.secret, PURPOSE, &session.exporter, HOME, &proof);
    ensure!(known, "the other end does not know the token");
    Ok(grant)
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
    let own = mutual_tls::new_identity(vec!["controller.ashlar.invalid".into()], "Ashlar controller")?;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_stranger_causes_no_reading_of_keys_and_writes_nothing_of_its_own_into_the_log() {
        let own = mutual_tls::new_identity(vec!["controller.ashlar.invalid".into()], "test").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let tokens = Tokens::default();
        for array in [format!("{:032x}", 7_u128), format!("\u{1b}[2J\u{202e}{}", "x".repeat(9000))] {
            let wish = serde_json::json!({ "array": array, "token": "\u{1b}", "proof": "00" });
            let asks = async {
                let mut session = mutual_tls::connect(&address, &own, JOIN.tls).await.unwrap();
                JOIN.ask::<serde_json::Value>(&mut session.stream, &wish).await.unwrap_err()
            };
            let answers = async {
                let (stream, _) = listener.accept().await.unwrap();
                let session = mutual_tls::accept(stream, &own, &[JOIN.tls]).await.unwrap();
                let grant = || -> Result<Grant> { panic!("the keys are read for a stranger") };
                tokens.answer(session, 7, 0, grant).await.unwrap_err()
            };
            let (_, logged) = tokio::join!(asks, answers);
            let logged = format!("{logged:#}");
            assert!(logged.contains("refused") && logged.len() < 1000, "{} bytes", logged.len());
            assert!(logged.chars().all(array::is_visible), "{logged:?}");
        }
    }
}
