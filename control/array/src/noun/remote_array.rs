//! Remote arrays: arrays that this one is paired with, so that volumes can be replicated between them.
//!
//! An administrator creates a pairing key on one array and enters it on the other, which connects. Both then keep the
//! fingerprint of each other's certificate and a common key. Afterwards either end may open connections, if it has an address
//! of the other.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::parts::framed::shown;
use crate::parts::remote_link::{Hello, Link, LinkIdentity, Reply, Wish, key_of, key_text};
use crate::request::verbs;
use crate::service::caller::Caller;
use crate::service::remote_arrays::{LinkStatus, PAIRING_KEY_SECONDS};
use crate::service::windows;
use crate::shape::window::{BandwidthWindow, limits};
use crate::shape::{exposed, shapes, time};
use crate::{Error, Result};
use history::Severity;
use records::{
    Config, Edit, Identity, LimitWindow, LinkIdentityEntry, Named, Record, RemoteArrayEntry, RemoteArrayId,
    Secret, present,
};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use utoipa::ToSchema;

/// Maximum number of remote arrays.
pub const MAX_REMOTE_ARRAYS: usize = 64;
/// Lowest limit of the bandwidth, in bytes per second: the longest message takes half a minute then.
const MIN_BANDWIDTH_LIMIT: u64 = 64 << 10;
/// Longest address of one.
const MAX_ADDRESS_CHARS: usize = 255;
/// Time in which the other array has to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which links are examined.
const WATCH_INTERVAL: Duration = Duration::from_secs(10);

const CLIENT: &str = "client";
const SERVER: &str = "server";

/// A remote array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct RemoteArray {
    /// Name on this array.
    pub name: String,
    /// Time of pairing.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub created: u64,
    /// Serial number.
    pub serial: String,
    /// Host and port at which it listens for other arrays; `null` if only it can open connections.
    pub address: Option<String>,
    /// Bandwidth limit of replications to it over all of its links, in bytes per second; `null`: no limit.
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    pub bandwidth_limit: Option<u64>,
    /// Weekly windows with another limit.
    #[serde(serialize_with = "limits")]
    #[schema(value_type = Vec<BandwidthWindow>)]
    pub bandwidth_windows: Vec<LimitWindow>,
    /// Limit that applies now, in bytes per second; `null`: none.
    #[schema(extensions(("x-unit" = json!("bytes/s"))))]
    pub bandwidth_limit_now: Option<u64>,
    /// SHA-256 of its certificate in hex digits.
    pub fingerprint: String,
    /// The link.
    pub link: LinkStatus,
}

shapes! {
    RemoteArray: "RemoteArrays" "Remote arrays." "Sorted by name";
    PairingKey;
}

/// A pairing key. It can be used once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PairingKey {
    /// The key, to be entered on the other array.
    #[serde(serialize_with = "exposed")]
    #[schema(value_type = String, format = Password)]
    pub key: Secret,
    /// Port at which this array listens for the other.
    pub port: u16,
    /// Time until which it can be used.
    #[serde(serialize_with = "time")]
    #[schema(value_type = String, format = DateTime)]
    pub expires: u64,
}

/// A pairing with another array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRemoteArray)]
pub struct PairRemoteArray {
    /// Name on this array; default: the name of the other array.
    #[serde(default)]
    pub name: Option<String>,
    /// Host and port at which the other array listens for arrays.
    #[schema(example = "10.0.0.2:8444")]
    pub address: String,
    /// Pairing key that was created on the other array.
    #[schema(value_type = String, format = Password)]
    pub key: Secret,
}

/// Changes to a remote array. Omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteArrayChange {
    /// New name.
    pub name: Option<String>,
    /// New host and port; `null`: only the other array opens connections.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pub address: Option<Option<String>>,
    /// Bandwidth limit of replications to it, in bytes per second, at least 65536; `null`: no limit.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<u64>, minimum = 65_536, extensions(("x-unit" = json!("bytes/s"))))]
    pub bandwidth_limit: Option<Option<u64>>,
    /// Complete list of the weekly windows with another limit; they must not overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_windows: Option<Vec<BandwidthWindow>>,
}

verbs! {
    #![tag = "array"]

    /// List remote arrays
    ListRemoteArrays {} -> Vec<RemoteArray>, Read "list" "remote array", Viewer, at GET "/remote-arrays"
        => |tx, _| {
            let config = tx.array.config();
            Ok(config.remote_arrays.iter().map(|found| tx.array.remote_array(&config, found)).collect())
        };
    /// Get a remote array
    ShowRemoteArray { name } -> RemoteArray, Read "show" "remote array", Viewer, about name,
        at GET "/remote-arrays/{name}"
        => |tx, it| {
            let config = tx.array.config();
            config.remote_arrays.named(&it.name).map(|found| tx.array.remote_array(&config, found))
        };
    /// Create a pairing key
    ///
    /// To be entered on another array within an hour, once.
    CreatePairingKey {} -> PairingKey, Change "create" "pairing key", Admin,
        at POST "/pairing-keys" 201 says "The key, which is not shown again"
        => |tx, _| tx.create_pairing_key().await;
    /// Pair with a remote array
    ///
    /// Both arrays store each other's certificate. The pairing key must have been created on the other one.
    PairRemoteArray -> RemoteArray, Exchange "pair" "remote array", Admin, about address, at POST "/remote-arrays" 201
        => |tx, it| tx.pair(it).await;
    /// Change a remote array
    ChangeRemoteArray { name; body change: RemoteArrayChange } -> RemoteArray, Change "change" "remote array", Admin,
        about name, at PATCH "/remote-arrays/{name}"
        => |tx, it| tx.change_remote_array(&it.name, it.change).await;
    /// Delete a remote array
    ///
    /// It is not trusted any more. The other array keeps trusting this one until it is deleted there as well.
    DeleteRemoteArray { name } -> (), Change "delete" "remote array", Admin, about name,
        at DELETE "/remote-arrays/{name}"
        => |tx, it| tx.delete_remote_array(&it.name).await;
}

/// What both arrays have agreed on.
struct Agreed {
    name: String,
    serial: String,
    address: Option<String>,
    fingerprint: String,
    key: Secret,
}

impl Transaction<'_> {
    pub async fn create_pairing_key(&mut self) -> Result<PairingKey> {
        let Some(port) = self.array.parts.network.port() else {
            return Err(Error::precondition(
                "this array does not listen for other arrays: set the option `replication` of ashlard to an address of this \
                 machine and start it again, or create the pairing key on the other array",
            ));
        };
        self.link_identity().await?;
        let key = Secret::new(key_text(&self.array.links.new_key()));
        let message = format!("a pairing key for another array was created by {}", self.caller.user);
        self.array.log_event(Severity::Info, "remote-array.key-created", None, message);
        Ok(PairingKey { key, port, expires: self.now() + PAIRING_KEY_SECONDS })
    }

    pub async fn pair(&mut self, wanted: PairRemoteArray) -> Result<RemoteArray> {
        check_address(&wanted.address)?;
        let name = wanted.name.as_deref();
        name.map_or(Ok(()), |name| check::name(RemoteArrayEntry::NOUN, name))?;
        name.map_or(Ok(()), |name| self.array.config().remote_arrays.free(name))?;
        let key = key_of(wanted.key.expose()).ok_or_else(|| {
            Error::invalid("a pairing key has 32 hex digits: copy it as the other array shows it")
                .about("key")
        })?;
        let own = self.link_identity().await?;
        let array = self.array;
        let exchange = async {
            let mut link = array.parts.network.connect(wanted.address.clone(), own).await?;
            let (proof, port) = (link.proof(&key, CLIENT), array.parts.network.port());
            let said = array.ask(&mut link, Wish::Pair { proof, port }).await?;
            Ok::<_, String>((link, said))
        };
        let failed = |why: String| {
            Error::precondition(format!("the array at {} can't be paired: {why}", wanted.address))
        };
        let outcome = self.outside(timeout(RESPONSE_TIMEOUT, exchange)).await?;
        let late = "it did not respond in time; if it lists this array now, delete it there first";
        let (link, said) = outcome.unwrap_or_else(|_| Err(late.into())).map_err(failed)?;
        let Reply::Paired { serial, name: theirs, proof } = said else {
            return Err(failed("it responded to another request".into()));
        };
        if !link.is_proven(&key, SERVER, &proof) {
            return Err(failed(
                "it responded without the pairing key: another machine may have taken its address".into(),
            ));
        }
        let agreed = Agreed {
            name: wanted.name.unwrap_or_else(|| shown(&theirs)),
            serial: shown(&serial),
            address: Some(wanted.address.clone()),
            fingerprint: link.fingerprint(),
            key: link.common_key(&key),
        };
        let entry = self.put_remote_array(agreed).await.map_err(|error| {
            let message = format!("{}; the other array has paired: delete this array there", error.message);
            Error { message, ..error }
        })?;
        self.array.links.note_heard(&entry, None);
        Ok(self.array.remote_array(&self.array.config(), &entry))
    }

    /// Stores an array with which this one has agreed.
    async fn put_remote_array(&mut self, agreed: Agreed) -> Result<RemoteArrayEntry> {
        let Agreed { name, serial, address, fingerprint, key } = agreed;
        let name = {
            let config = self.array.config();
            if let Some(known) = config.remote_arrays.iter().find(|known| known.serial == serial) {
                return Err(Error::conflict(format!(
                    "array {serial} is paired already, as {:?}: delete it on both arrays first",
                    known.name
                )));
            }
            if config.remote_arrays.len() >= MAX_REMOTE_ARRAYS {
                return Err(Error::precondition(format!(
                    "this array is paired with {MAX_REMOTE_ARRAYS} arrays: delete one first"
                )));
            }
            let usable = |name: &String| {
                check::name(RemoteArrayEntry::NOUN, name).is_ok() && config.remote_arrays.free(name).is_ok()
            };
            Some(name).filter(usable).unwrap_or_else(|| format!("array-{serial}"))
        };
        check::name(RemoteArrayEntry::NOUN, &name)?;
        self.array.config().remote_arrays.free(&name)?;
        let (id, created) = (RemoteArrayId(self.id64()), self.now());
        let place = format!("remote-array/{}", id.digits());
        let secret = self.array.parts.sealing.seal(&key, &place, (self.array.env.random)())?;
        let entry = RemoteArrayEntry {
            id,
            name,
            created,
            serial,
            address,
            bandwidth_limit: None,
            bandwidth_windows: Vec::new(),
            fingerprint,
            secret,
        };
        self.commit(vec![Edit::Put(Record::RemoteArray(entry.clone()))]).await?;
        self.done("remote-array.paired", RemoteArrayEntry::NOUN, &entry.name, "was paired");
        Ok(entry)
    }

    pub async fn change_remote_array(
        &mut self,
        name: &str,
        change: RemoteArrayChange,
    ) -> Result<RemoteArray> {
        let entry = self.array.config().remote_arrays.named(name)?.clone();
        let mut new = entry.clone();
        if let Some(name) = change.name.filter(|name| *name != entry.name) {
            check::name(RemoteArrayEntry::NOUN, &name)?;
            self.array.config().remote_arrays.free(&name)?;
            new.name = name;
        }
        if let Some(address) = change.address {
            address.as_deref().map_or(Ok(()), check_address)?;
            new.address = address;
        }
        if let Some(limit) = change.bandwidth_limit {
            check_limit(limit, "bandwidth_limit")?;
            new.bandwidth_limit = limit;
        }
        if let Some(windows) = change.bandwidth_windows {
            let limits = windows.iter().map(BandwidthWindow::limit).collect::<Result<Vec<_>>>()?;
            limits.iter().try_for_each(|it| check_limit(it.limit, "bandwidth_windows"))?;
            windows::check_limits(&limits)?;
            new.bandwidth_windows = limits;
        }
        if new != entry {
            self.commit(vec![Edit::Put(Record::RemoteArray(new.clone()))]).await?;
            self.array.replicas.apply_windows(&self.array.config());
            self.done("remote-array.changed", RemoteArrayEntry::NOUN, &entry.name, "was changed");
        }
        Ok(self.array.remote_array(&self.array.config(), &new))
    }

    pub async fn delete_remote_array(&mut self, name: &str) -> Result<()> {
        let entry = self.array.config().remote_arrays.named(name)?.clone();
        let (id, name) = (entry.id, entry.name.clone());
        let replicated = self.array.config().replications.iter().find(|it| it.remote == id).cloned();
        if let Some(replication) = replicated {
            return Err(Error::precondition(format!(
                "replication {:?} is with this array: delete the replication first",
                replication.name
            )));
        }
        let witnessed = self.array.config().replications.iter().find(|it| it.witness == Some(id)).cloned();
        if let Some(replication) = witnessed {
            return Err(Error::precondition(format!(
                "this array is the witness of replication {:?}: take it from the replication first",
                replication.name
            )));
        }
        let rulings = self.array.rulings_for(&entry.fingerprint);
        self.commit_with(vec![Edit::Remove(Record::RemoteArray(entry))], rulings).await?;
        self.array.links.forget(id);
        self.array.replicas.forget_remote(id);
        self.done("remote-array.deleted", RemoteArrayEntry::NOUN, &name, "was deleted");
        Ok(())
    }

    /// The key by which other arrays know this one; it is made when it is first needed.
    async fn link_identity(&mut self) -> Result<LinkIdentity> {
        if let Some(known) = self.array.link_identity()? {
            return Ok(known);
        }
        let Array { identity, parts, env, .. } = self.array;
        let made = parts.network.new_identity(&identity.serial);
        let made = made.map_err(|why| Error::failed("a key for other arrays can't be made", why))?;
        let secret = parts.sealing.seal(&made.key, LinkIdentityEntry::PLACE, (env.random)())?;
        let entry = LinkIdentityEntry { certificate: made.certificate.clone(), secret };
        self.commit(vec![Edit::Put(Record::LinkIdentity(entry))]).await?;
        Ok(made)
    }
}

impl Array {
    fn remote_array(&self, config: &Config, entry: &RemoteArrayEntry) -> RemoteArray {
        let link = self.links.status(entry);
        let now = self.replicas.limit_now(config, entry);
        RemoteArray {
            name: entry.name.clone(),
            created: entry.created,
            serial: entry.serial.clone(),
            address: entry.address.clone(),
            bandwidth_limit: entry.bandwidth_limit,
            bandwidth_windows: entry.bandwidth_windows.clone(),
            bandwidth_limit_now: self.replicas.applied_limit(entry.id).unwrap_or(now),
            fingerprint: entry.fingerprint.clone(),
            link,
        }
    }

    /// The key by which other arrays know this one; `None` if it was never paired.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn link_identity(&self) -> Result<Option<LinkIdentity>> {
        let Some(entry) = self.config().link_identity.clone() else { return Ok(None) };
        let key = self.parts.sealing.open(&entry.secret, LinkIdentityEntry::PLACE)?;
        Ok(Some(LinkIdentity { certificate: entry.certificate, key }))
    }

    /// Sends a request over a link, and returns the response. A refusal is an error.
    pub(crate) async fn ask(&self, link: &mut Link, request: Wish) -> std::result::Result<Reply, String> {
        let name = self.config().name_of_array(&self.identity).to_owned();
        let hello = Hello::new(&self.identity.serial, &name, request);
        let said = async {
            link.send(&hello).await?;
            link.receive::<Reply>().await
        };
        match said.await.map_err(|error| format!("the connection ended: {error}"))? {
            Reply::Refused { text } => Err(format!("it refused: {}", shown(&text))),
            said => Ok(said),
        }
    }

    /// Whether this array is paired with the one that has this certificate, SHA-256 in hex digits.
    pub fn is_paired_with(&self, fingerprint: &str) -> bool {
        self.config().remote_arrays.iter().any(|known| known.fingerprint == fingerprint)
    }

    /// Responds to another array that has connected: to be called for every connection, and polled to its end.
    pub async fn answer(&self, link: Link) {
        if let Err(error) = self.try_answer(link).await {
            tracing::debug!(%error, "a connection of another array ended");
        }
    }

    async fn try_answer(&self, mut link: Link) -> std::io::Result<()> {
        let hello: Hello = in_time(link.receive()).await?;
        match (&hello.request, hello.check_version()) {
            (Wish::Replicate { id }, Ok(())) => return self.serve_source(link, id.clone()).await,
            (Wish::Reverse { id }, Ok(())) => return self.serve_reversal(link, id.clone()).await,
            _ => {}
        }
        // Without a time-out: it may change the configuration.
        let said = match self.answer_hello(&link, hello).await {
            Ok(said) => said,
            Err(error) => Reply::Refused { text: error.message },
        };
        in_time(link.send(&said)).await?;
        // Until the other end has read it and closes.
        in_time(link.receive::<Hello>()).await.map(drop)
    }

    async fn answer_hello(&self, link: &Link, hello: Hello) -> Result<Reply> {
        hello.check_version()?;
        if hello.serial == self.identity.serial {
            return Err(Error::precondition("both ends are one array, which can't be paired with itself"));
        }
        match hello.request {
            Wish::Ping => {
                let fingerprint = link.fingerprint();
                let known = {
                    let config = self.config();
                    config.remote_arrays.iter().find(|known| known.fingerprint == fingerprint).cloned()
                };
                let known = known.ok_or_else(|| {
                    Error::precondition(
                        "it is not paired with this array any more: delete it there, and pair it again",
                    )
                })?;
                self.links.note_heard(&known, None);
                Ok(Reply::Pong)
            }
            Wish::Pair { ref proof, port } => self.accept_pairing(link, &hello, proof, port).await,
            Wish::Rule { ref number, ref target, request } => {
                self.rule(&link.fingerprint(), number, target.as_deref(), request).await
            }
            Wish::Replicate { .. } | Wish::Reverse { .. } => {
                Err(Error::precondition("a replication is served by its own link"))
            }
        }
    }

    async fn accept_pairing(
        &self,
        link: &Link,
        hello: &Hello,
        proof: &str,
        port: Option<u16>,
    ) -> Result<Reply> {
        let wrong = || {
            Error::precondition(
                "the pairing key is wrong, was used, or has expired: create another one there",
            )
        };
        let key = self.links.find_key(|key| link.is_proven(key, CLIENT, proof)).ok_or_else(wrong)?;
        let _one_at_a_time = self.configuration.change().await;
        let caller =
            Caller { user: "another array".into(), origin: link.address.to_string(), ..Caller::array() };
        let mut tx = Transaction::new(self, &caller);
        let agreed = Agreed {
            name: shown(&hello.name),
            serial: shown(&hello.serial),
            address: port.map(|port| std::net::SocketAddr::new(link.address, port).to_string()),
            fingerprint: link.fingerprint(),
            key: link.common_key(&key[..]),
        };
        if !self.links.use_up(&key) {
            return Err(wrong());
        }
        let entry = tx.put_remote_array(agreed).await?;
        self.links.note_heard(&entry, None);
        let name = self.config().name_of_array(&self.identity).to_owned();
        let proof = link.proof(&key[..], SERVER);
        Ok(Reply::Paired { serial: self.identity.serial.clone(), name, proof })
    }

    /// Examines the links to remote arrays, forever.
    pub async fn watch_links(&self) {
        loop {
            self.examine_links().await;
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    }

    /// Examines the links to remote arrays once.
    pub async fn examine_links(&self) {
        let known: Vec<RemoteArrayEntry> = self.config().remote_arrays.iter().cloned().collect();
        for entry in known {
            self.watch_link(&entry).await;
        }
    }

    /// A link to a remote array, with the response to a first request, within a time.
    pub(crate) async fn connect_with(
        &self,
        remote: &RemoteArrayEntry,
        request: Wish,
        limit: Duration,
    ) -> std::result::Result<(Link, Reply), String> {
        let address = remote.address.as_ref().ok_or_else(|| {
            let name = &remote.name;
            format!("the address of remote array {name:?} is not known: set it, and let that array listen")
        })?;
        let exchange = async {
            let mut link = self.connect_to(remote, address).await?;
            let reply = self.ask(&mut link, request).await?;
            Ok((link, reply))
        };
        let outcome = timeout(limit, exchange).await;
        outcome.unwrap_or_else(|_| Err(format!("{address} did not respond in time")))
    }

    /// A link to a remote array.
    async fn connect_to(&self, entry: &RemoteArrayEntry, address: &str) -> std::result::Result<Link, String> {
        let own = self.link_identity().map_err(|error| error.message)?;
        let own = own.ok_or("this array has no key for other arrays")?;
        let link = self.parts.network.connect(address.to_owned(), own).await?;
        if link.fingerprint() != entry.fingerprint {
            return Err(format!(
                "what responds at {address} is another array: correct the address, or pair again if it was set up again"
            ));
        }
        Ok(link)
    }

    async fn watch_link(&self, entry: &RemoteArrayEntry) {
        let Some(address) = entry.address.clone() else { return };
        let begun = Instant::now();
        let exchange = async {
            let mut link = self.connect_to(entry, &address).await?;
            let begun = Instant::now();
            self.ask(&mut link, Wish::Ping).await.map(|_| begun.elapsed())
        };
        let outcome = timeout(RESPONSE_TIMEOUT, exchange).await;
        let outcome = outcome.unwrap_or_else(|_| {
            Err(format!("{address} did not respond within {} s", begun.elapsed().as_secs()))
        });
        // It may have been deleted since.
        if self.config().remote_arrays.get(entry.id).is_none() {
            return;
        }
        match outcome {
            Ok(took) => {
                let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.links.note_heard(entry, Some(took));
            }
            Err(problem) => self.links.note_failure(entry, problem),
        }
    }
}

/// What is sent or received within the time for it.
async fn in_time<T>(exchange: impl Future<Output = std::io::Result<T>>) -> std::io::Result<T> {
    timeout(RESPONSE_TIMEOUT, exchange).await?
}

/// Refuses a limit with which a message would take too long.
fn check_limit(limit: Option<u64>, field: &'static str) -> Result<()> {
    if limit.is_none_or(|limit| limit >= MIN_BANDWIDTH_LIMIT) {
        return Ok(());
    }
    let message = format!("the limit is at least {MIN_BANDWIDTH_LIMIT} bytes per second");
    Err(Error::invalid(message).about(field))
}

/// Refuses what is not host and port.
fn check_address(address: &str) -> Result<()> {
    let parts = address.rsplit_once(':').filter(|(host, port)| {
        let plain =
            !host.is_empty() && !host.contains(|letter: char| letter.is_whitespace() || letter.is_control());
        plain && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    match parts {
        Some(_) if address.chars().count() <= MAX_ADDRESS_CHARS => Ok(()),
        _ => Err(Error::invalid(format!(
            "{:?} is not the address of an array: write host and port, such as 10.0.0.2:8444 or [fd00::2]:8444",
            shown(address)
        ))
        .about("address")),
    }
}
