//! Key sources for encrypted drives: the key that wraps the data key comes from a file, a passphrase or a KMIP server.

use crate::access;
use crate::backing::OfflineStore;
use crate::kmip::Server;
use anyhow::{Context, Result, bail, ensure};
use argon2::{Algorithm, Argon2, Params, Version};
use raid::encryption::{DataKey, Envelope};
use shelf::pool::{KEY_BYTES, KeySource, WrappedKey};
use std::fs;
use std::path::{Path, PathBuf};

/// The key file of an array in its folder, unless another is named.
pub const FILE: &str = "drives.key";
/// Minimum length of a new passphrase, in characters.
const MIN_PASSPHRASE_CHARS: usize = 12;
/// Argon2id parameters of new envelopes: memory in KiB, passes, lanes; the second recommended option of RFC 9106.
const ARGON2_PARAMETERS: (u32, u32, u32) = (64 << 10, 3, 4);
/// Maximum Argon2id parameters of an envelope, which is read from media.
const ARGON2_MAX_PARAMETERS: (u32, u32, u32) = (4 << 20, 64, 64);

type Key = [u8; KEY_BYTES];

/// A provider of keys: a file, a passphrase or a KMIP server.
pub trait KeyProvider {
    /// The key for an envelope; `None` if the envelope needs another provider.
    ///
    /// # Errors
    /// If it can't be reached or read, or has no valid key.
    fn key(&self, source: &KeySource) -> Result<Option<Key>>;

    /// The key source that it is, for a new envelope. Creates the key if that is the array's part.
    ///
    /// # Errors
    /// If the key can't be used or created.
    fn prepare(&self) -> Result<KeySource>;

    /// Name for messages.
    fn name(&self) -> String;
}

/// A file of 32 bytes.
struct KeyFile(PathBuf);

impl KeyProvider for KeyFile {
    fn key(&self, source: &KeySource) -> Result<Option<Key>> {
        if *source != KeySource::File {
            return Ok(None);
        }
        let bytes =
            fs::read(&self.0).with_context(|| format!("can't read the key file {}", self.0.display()))?;
        let len = bytes.len();
        let key = bytes.try_into().ok();
        key.with_context(|| {
            format!("{} is not a key file: it has {len} bytes, not {KEY_BYTES}", self.0.display())
        })
        .map(Some)
    }

    fn prepare(&self) -> Result<KeySource> {
        if !self.0.exists() {
            let key: Key = crate::random()?;
            access::write_whole(&self.0, &key)
                .with_context(|| format!("can't write {}", self.0.display()))?;
            tracing::warn!(file = %self.0.display(), "a key file was created: without it, nothing of the array can be read");
        }
        Ok(KeySource::File)
    }

    fn name(&self) -> String {
        format!("the key file {}", self.0.display())
    }
}

/// A passphrase, from which Argon2id derives the key.
struct Passphrase(String);

impl KeyProvider for Passphrase {
    fn key(&self, source: &KeySource) -> Result<Option<Key>> {
        let KeySource::Passphrase { salt, memory, passes, lanes } = source else { return Ok(None) };
        let acceptable = *memory <= ARGON2_MAX_PARAMETERS.0
            && *passes <= ARGON2_MAX_PARAMETERS.1
            && *lanes <= ARGON2_MAX_PARAMETERS.2;
        ensure!(acceptable, "the drives ask for {memory} KiB, {passes} passes and {lanes} lanes of Argon2id");
        let params = Params::new(*memory, *passes, *lanes, Some(KEY_BYTES));
        let params = params
            .map_err(|error| anyhow::anyhow!("the drives have invalid Argon2id parameters: {error}"))?;
        let mut key = [0; KEY_BYTES];
        let made = Argon2::new(Algorithm::Argon2id, Version::V0x13, params).hash_password_into(
            self.0.as_bytes(),
            salt,
            &mut key,
        );
        made.map_err(|error| anyhow::anyhow!("no key can be derived from the passphrase: {error}"))?;
        Ok(Some(key))
    }

    fn prepare(&self) -> Result<KeySource> {
        ensure!(
            self.0.chars().count() >= MIN_PASSPHRASE_CHARS,
            "the passphrase needs at least {MIN_PASSPHRASE_CHARS} characters"
        );
        let (memory, passes, lanes) = ARGON2_PARAMETERS;
        Ok(KeySource::Passphrase { salt: crate::random()?, memory, passes, lanes })
    }

    fn name(&self) -> String {
        "the passphrase".into()
    }
}

/// A key on a KMIP server.
struct Kmip {
    server: Server,
    /// For new envelopes; the others say it themselves.
    id: Option<String>,
}

impl KeyProvider for Kmip {
    fn key(&self, source: &KeySource) -> Result<Option<Key>> {
        let KeySource::Kmip { id } = source else { return Ok(None) };
        let bytes = self.server.get(id)?;
        let len = bytes.len();
        let key = bytes.try_into().ok();
        key.with_context(|| format!("key {id} has {len} bytes: an AES key of 256 bits is needed")).map(Some)
    }

    fn prepare(&self) -> Result<KeySource> {
        let id = self.id.clone().context("name the key of the KMIP server: --kmip-id")?;
        ensure!(
            !id.is_empty() && id.len() <= KeySource::MAX_ID_BYTES,
            "a Unique Identifier has 1 to {} bytes",
            KeySource::MAX_ID_BYTES
        );
        Ok(KeySource::Kmip { id })
    }

    fn name(&self) -> String {
        format!("the KMIP server {}", self.server.address)
    }
}

fn passphrase(file: &Path) -> Result<Box<dyn KeyProvider>> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("can't read the passphrase in {}", file.display()))?;
    Ok(Box::new(Passphrase(text.trim_end_matches(['\r', '\n']).to_owned())))
}

/// Where the key of an array comes from, if it is not its own file in the folder. A passphrase may also be in the environment.
#[derive(Clone, Default)]
pub struct Config {
    /// A file of 32 bytes.
    pub file: Option<PathBuf>,
    /// A file with a passphrase.
    pub passphrase_file: Option<PathBuf>,
    /// A KMIP server, as `host` or `host:port`.
    pub kmip: Option<String>,
    /// The client's certificate for it, in PEM.
    pub kmip_cert: Option<PathBuf>,
    /// The key of that, in PEM.
    pub kmip_key: Option<PathBuf>,
    /// The authority of the server, in PEM.
    pub kmip_ca: Option<PathBuf>,
    /// Unique Identifier of the key there, for a new array.
    pub kmip_id: Option<String>,
}

/// Where the key after a rotation comes from, if it is not a new file in the folder.
#[derive(Default)]
pub struct Successor {
    /// A file of 32 bytes.
    pub file: Option<PathBuf>,
    /// A file with a passphrase.
    pub passphrase_file: Option<PathBuf>,
    /// Unique Identifier on the KMIP server.
    pub kmip_id: Option<String>,
}

impl Successor {
    fn is_named(&self) -> bool {
        self.file.is_some() || self.passphrase_file.is_some() || self.kmip_id.is_some()
    }
}

impl Config {
    /// Whether a key was named here, and not only in the environment.
    pub fn is_named(&self) -> bool {
        self.file.is_some() || self.passphrase_file.is_some() || self.kmip.is_some()
    }

    /// What was named.
    fn named(&self) -> Result<Option<Box<dyn KeyProvider>>> {
        if let Some(file) = &self.file {
            return Ok(Some(Box::new(KeyFile(file.clone()))));
        }
        if let Some(file) = &self.passphrase_file {
            return passphrase(file).map(Some);
        }
        if let Some(server) = self.server()? {
            return Ok(Some(Box::new(Kmip { server, id: self.kmip_id.clone() })));
        }
        let words = std::env::var("ASHLAR_PASSPHRASE").ok();
        Ok(words.map(|words| Box::new(Passphrase(words)) as Box<dyn KeyProvider>))
    }

    fn server(&self) -> Result<Option<Server>> {
        let Some(address) = self.kmip.clone() else { return Ok(None) };
        let given = (self.kmip_cert.clone(), self.kmip_key.clone(), self.kmip_ca.clone());
        let (Some(certificate), Some(key), Some(authority)) = given else {
            bail!("a KMIP server needs --kmip-cert, --kmip-key and --kmip-ca");
        };
        Ok(Some(Server { address, certificate, key, authority }))
    }
}

/// The key for a new array that is to be encrypted.
pub fn make(config: &Config, data: &Path, array: u128) -> Result<(DataKey, Envelope)> {
    let provider = config.named()?.unwrap_or_else(|| Box::new(KeyFile(data.join(FILE))));
    let key = DataKey::new(crate::random()?);
    let (source, with) = prepared(&*provider)?;
    tracing::info!(key = provider.name(), "the array will be encrypted");
    let envelope = Envelope::wrap(array, &key, source, &with, crate::random()?);
    Ok((key, envelope))
}

fn prepared(provider: &dyn KeyProvider) -> Result<(KeySource, Key)> {
    let source = provider.prepare()?;
    let with = provider.key(&source)?.context("a provider opens what it has prepared")?;
    Ok((source, with))
}

/// The key of an array that is encrypted, from its envelopes, newest first.
///
/// # Errors
/// Says what is to be given.
pub fn unlock(
    config: &Config,
    data: &Path,
    envelopes: Option<Vec<Envelope>>,
) -> Result<Option<(DataKey, Envelope)>> {
    let named = config.named()?;
    let envelopes = match envelopes {
        Some(envelopes) => envelopes,
        // One in the environment may be meant for another array.
        None if named.is_none() || !config.is_named() => return Ok(None),
        None => bail!("the array is not encrypted, and never will be: leave the key out"),
    };
    let providers = match named {
        Some(provider) if config.file.is_none() => vec![provider],
        _ => files(config, data),
    };
    let mut tried = None;
    for envelope in &envelopes {
        for provider in &providers {
            let Some(with) = provider.key(&envelope.source)? else { continue };
            if let Some(key) = envelope.open(&with) {
                return Ok(Some((key, envelope.clone())));
            }
            tried.get_or_insert_with(|| provider.name());
        }
    }
    if let Some(name) = tried {
        bail!("the array is encrypted, and {name} is not what its key was locked with; the data are whole");
    }
    bail!(match &envelopes[0].source {
        KeySource::Erased => format!(
            "the key of array {0:032x} has been destroyed (crypto-erase): nothing on its drives can be read any \
                 more; `ashlard format --take-from-array {0:032x}` makes a new array of them",
            envelopes[0].array
        ),
        KeySource::File => format!(
            "the array is encrypted and locked with a key file: give it with --key-file, or put it back at {}",
            data.join(FILE).display()
        ),
        KeySource::Passphrase { .. } =>
            "the array is encrypted and locked with a passphrase: give it with --passphrase-file or in \
             ASHLAR_PASSPHRASE"
                .to_owned(),
        KeySource::Kmip { id } => format!(
            "the array is encrypted and locked with key {id} of a KMIP server: give it with --kmip, --kmip-cert, \
             --kmip-key and --kmip-ca"
        ),
    })
}

/// The key file that was named, or else the one in the folder.
fn file(config: &Config, data: &Path) -> PathBuf {
    config.file.clone().unwrap_or_else(|| data.join(FILE))
}

/// The key files to be tried. One that was named is, whether it is there or not.
fn files(config: &Config, data: &Path) -> Vec<Box<dyn KeyProvider>> {
    let path = file(config, data);
    let named = config.file.is_some();
    let tried = [path.clone(), next(&path)].into_iter().filter(|it| it.exists() || named && *it == path);
    tried.map(|path| Box::new(KeyFile(path)) as Box<dyn KeyProvider>).collect()
}

/// Lets the key file that a change made take the place of the one before, when it is the one that opens the drives: a
/// change that was cut short left it beside.
///
/// # Errors
/// When neither opens them, or the file can't be replaced.
pub fn settle(config: &Config, data: &Path, wrapped: &dyn WrappedKey) -> Result<()> {
    let path = file(config, data);
    let opens = |path: &Path| {
        let key = KeyFile(path.to_owned()).key(wrapped.source()).ok().flatten();
        key.is_some_and(|key| wrapped.opens(&key))
    };
    if *wrapped.source() != KeySource::File || opens(&path) {
        return Ok(());
    }
    let next = next(&path);
    let place = path.display();
    ensure!(opens(&next), "the key that the array is locked with is not in {place}: put it there first");
    fs::rename(&next, &path).with_context(|| format!("can't replace {place}"))?;
    tracing::info!(file = %place, "the file has another key");
    Ok(())
}

/// A file with a new key, in the place of what a change that was cut short may have left.
fn fresh(path: PathBuf) -> Result<KeyFile> {
    let key: Key = crate::random()?;
    access::write_whole(&path, &key).with_context(|| format!("can't write {}", path.display()))?;
    Ok(KeyFile(path))
}

/// Makes the key ready that drives get which are locked as `now` says, of the same kind: what starts the array now, starts
/// it then. A new key file lies beside the old one until [`settle`] is called for the new envelope.
///
/// # Errors
/// When there can be no such key, or it is the one that they have.
pub fn next_key(
    config: &Config,
    data: &Path,
    now: &dyn WrappedKey,
    new: &array::NewKey,
) -> Result<(KeySource, Key)> {
    let provider: Box<dyn KeyProvider> = match (now.source(), new) {
        (KeySource::File, array::NewKey::File) => {
            settle(config, data, now)?;
            Box::new(fresh(next(&file(config, data)))?)
        }
        (KeySource::Passphrase { .. }, array::NewKey::Passphrase(words)) => {
            let provider = Passphrase(words.expose().to_owned());
            let opens = provider.key(now.source())?.is_some_and(|key| now.opens(&key));
            ensure!(!opens, "the array is locked with that passphrase already");
            Box::new(provider)
        }
        (KeySource::Kmip { id }, array::NewKey::Kmip(new)) => {
            ensure!(id != new, "the array is locked with key {id} already");
            let server = config.server()?.context("the array was not started with --kmip")?;
            Box::new(Kmip { server, id: Some(new.clone()) })
        }
        (source, _) => {
            let (kind, how) = match source {
                KeySource::Passphrase { .. } => ("a passphrase", "give another passphrase"),
                KeySource::Kmip { .. } => {
                    ("a key on a KMIP server", "give the identifier of another key there")
                }
                KeySource::File | KeySource::Erased => ("a key file", "give no option to get a new key"),
            };
            bail!(
                "the array is locked with {kind}: {how}; `ashlard key rotate` on the stopped array makes it another \
                 kind of key source"
            )
        }
    };
    prepared(&*provider)
}

/// The key files that there may be in the folder: a change that was cut short leaves the next beside the old one.
fn defaults(data: &Path) -> Vec<PathBuf> {
    let path = data.join(FILE);
    [path.clone(), next(&path)].into_iter().filter(|path| path.exists()).collect()
}

fn next(path: &Path) -> PathBuf {
    path.with_extension("key.next")
}

/// Wraps the data key of a stopped array with another key. What is on the drives stays as it is.
pub async fn rotate(config: &Config, new: &Successor, data: &Path, backing: &OfflineStore) -> Result<()> {
    let envelopes = backing.envelopes().await?;
    let unlocked = unlock(config, data, envelopes.clone())?;
    let (key, envelope) = unlocked.context("the array is not encrypted")?;
    settle(config, data, &envelope)?;
    let own = data.join(FILE);
    let provider: Box<dyn KeyProvider> = match (&new.file, &new.passphrase_file, &new.kmip_id) {
        (Some(file), ..) => Box::new(KeyFile(file.clone())),
        (_, Some(file), _) => passphrase(file)?,
        (.., Some(id)) => {
            let server = config
                .server()?
                .context("name the server of that key: --kmip, --kmip-cert, --kmip-key, --kmip-ca")?;
            Box::new(Kmip { server, id: Some(id.clone()) })
        }
        _ => Box::new(fresh(next(&own))?),
    };
    let (source, with) = prepared(&*provider)?;
    // Of what a change that was cut short may have left, the newest counts.
    let newest = envelopes.and_then(|all| all.into_iter().next()).unwrap_or(envelope);
    let changed = newest.rewrap(&key, source, &with, crate::random()?);
    for slot in backing.replace_envelope(&changed).await? {
        tracing::warn!(
            slot,
            "this drive was not there: the old key opens it until the array is started with it"
        );
    }
    match new.is_named() {
        true => {
            tracing::info!(key = provider.name(), "the array has another key; the old one can be destroyed")
        }
        false => {
            fs::rename(next(&own), &own).with_context(|| format!("can't replace {}", own.display()))?;
            tracing::info!(file = %own.display(), "the array and the folder have another key");
        }
    }
    Ok(())
}

/// Destroys the wrapped keys on all drives, or in Ceph, and the key file in the folder. Needs no key.
pub async fn erase(data: &Path, backing: &OfflineStore) -> Result<()> {
    let envelopes = backing.envelopes().await?;
    let newest = envelopes.and_then(|all| all.into_iter().next()).context("the array is not encrypted")?;
    for slot in backing.replace_envelope(&newest.erased()).await? {
        tracing::error!(
            slot,
            "this drive was not there and keeps its wrapped key: destroy the key that opens it, too"
        );
    }
    for path in defaults(data) {
        fs::remove_file(&path).with_context(|| format!("can't remove {}", path.display()))?;
    }
    tracing::warn!("the keys are destroyed: nothing of the array can be read any more");
    Ok(())
}

#[cfg(test)]
#[path = "key_test.rs"]
mod tests;
