//! An array in Ceph: finding, opening and making it.
//!
//! The folder of the array remembers where it is. An array that the folder does not know is opened only if it is named by
//! its identity: opening it ends the service of who has it open.

use crate::access::{self, read_whole, write_whole};
use crate::key;
use crate::store::{Config, Rados};
use anyhow::{Context, Result, bail, ensure};
use cluster::Timing;
use rados::objects::{Objects, Pool};
use rados::{Client, Contents, FormatOptions, Location, OpenOptions, Store, contents};
use raid::encryption::{DataKey, Envelope};
use serde::{Deserialize, Serialize};
use shelf::arbiter::Arbiter as _;
use shelf::pool::Pool as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The configuration file of the Ceph cluster, unless another one is given.
pub const CONF: &str = "/etc/ceph/ceph.conf";
/// The file in the array's folder that says where in Ceph it is.
pub const FILE: &str = "rados.json";

/// Where an array is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    /// Its identity, in hexadecimal.
    array: String,
    conf: String,
    id: String,
    meta_pool: String,
    data_pool: String,
    namespace: String,
    /// False until it has been made.
    made: bool,
    /// The number of this controller, if it has joined by a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    controller: Option<u16>,
}

impl Remembered {
    fn new(array: u128, location: &Location, made: bool) -> Self {
        let Location { conf, id, meta, data, namespace } = location.clone();
        Self {
            array: format!("{array:032x}"),
            conf,
            id,
            meta_pool: meta,
            data_pool: data,
            namespace,
            made,
            controller: None,
        }
    }

    fn array(&self) -> Result<u128> {
        u128::from_str_radix(&self.array, 16).with_context(|| format!("{FILE} has no identity of an array"))
    }

    fn location(&self) -> Location {
        Location {
            conf: self.conf.clone(),
            id: self.id.clone(),
            meta: self.meta_pool.clone(),
            data: self.data_pool.clone(),
            namespace: self.namespace.clone(),
        }
    }

    /// Writes it, unless the folder has it. A number that the folder has stays.
    fn write(mut self, data: &Path) -> Result<()> {
        let before = remembered(data).ok().flatten();
        self.controller = self.controller.or(before.as_ref().and_then(|before| before.controller));
        if before.as_ref() == Some(&self) {
            return Ok(());
        }
        let path = data.join(FILE);
        let text = serde_json::to_vec_pretty(&self)?;
        write_whole(&path, &text).with_context(|| format!("can't write {}", path.display()))
    }
}

/// What the folder remembers; `None` if its array is not in Ceph.
fn remembered(data: &Path) -> Result<Option<Remembered>> {
    let path = data.join(FILE);
    match read_whole(&path).and_then(|text| Ok(serde_json::from_slice(&text)?)) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("can't read {}", path.display())),
    }
}

/// The array of a folder, if it is in Ceph.
///
/// # Errors
/// If the folder can't be read.
pub fn array_of(data: &Path) -> Result<Option<u128>> {
    remembered(data)?.map(|found| found.array()).transpose()
}

/// Where the array of a folder is, if it is in Ceph.
///
/// # Errors
/// If the folder can't be read.
pub fn location_of(data: &Path) -> Result<Option<Location>> {
    Ok(remembered(data)?.map(|found| found.location()))
}

/// The number of the controller of a folder that has joined by a token.
///
/// # Errors
/// If the folder can't be read.
pub fn controller_of(data: &Path) -> Result<Option<u16>> {
    Ok(remembered(data)?.and_then(|found| found.controller))
}

/// Makes a folder that of a controller of an array that is there.
///
/// # Errors
/// If nothing can be written.
pub fn remember(data: &Path, (array, controller): (u128, u16), location: &Location) -> Result<()> {
    Remembered { controller: Some(controller), ..Remembered::new(array, location, true) }.write(data)
}

/// True if the array of this command line is in Ceph.
///
/// # Errors
/// If the folder can't be read.
pub fn is_meant(config: &Config) -> Result<bool> {
    Ok(config.rados.pools.is_some() || config.drives.named.is_empty() && remembered(&config.data)?.is_some())
}

/// The location that the command line names, or the folder where it does not.
fn location(config: &Rados, before: Option<&Remembered>) -> Result<Location> {
    let Some(pools) = &config.pools else {
        let before = before.context("name the pool of the array: --rados POOL")?;
        let mut location = before.location();
        location.conf = config.conf.clone().unwrap_or(location.conf);
        location.id = config.id.clone().unwrap_or(location.id);
        return Ok(location);
    };
    let (meta, data) = pools.split_once(',').unwrap_or((pools, pools));
    ensure!(
        !meta.is_empty() && !data.is_empty() && !data.contains(','),
        "--rados takes one pool, or two: META,DATA"
    );
    Ok(Location {
        conf: config.conf.clone().unwrap_or_else(|| CONF.into()),
        id: config.id.clone().unwrap_or_else(|| "ashlar".into()),
        meta: meta.into(),
        data: data.into(),
        namespace: config.namespace.clone().unwrap_or_else(|| "ashlar".into()),
    })
}

/// The objects and the identity of the array of a folder; `None` if it is not in Ceph.
pub async fn stopped(data: &Path) -> Result<Option<(Arc<dyn Objects>, u128)>> {
    let Some(found) = remembered(data)? else { return Ok(None) };
    let client = Client::connect(found.location())?;
    let array = found.array()?;
    match contents(&*client).await? {
        Contents::Array { array: there, .. } if there == array => {}
        other => {
            bail!(
                "the array {array:032x} is not in {} any more: {}",
                name(&found.location()),
                describe(&other)
            )
        }
    }
    if rados::is_shared(&*client).await? {
        refuse_running(client.clone()).await?;
    }
    Ok(Some((client, array)))
}

/// Refuses an array that controllers share while one of them runs: what this command did would end its service.
async fn refuse_running(objects: Arc<dyn Objects>) -> Result<()> {
    let arbiter = rados::Arbiter::new(objects).await?;
    let signs = async || {
        let mut signs = Vec::new();
        for witness in 0..arbiter.witnesses() {
            signs.push(arbiter.signs(witness).await?);
        }
        shelf::Result::Ok(signs)
    };
    let before = signs().await?;
    tokio::time::sleep(Duration::from_nanos(Timing::PRODUCT.dead_ns)).await;
    ensure!(
        before == signs().await?,
        "a controller of this array is running: stop every controller, then repeat the command"
    );
    Ok(())
}

fn name(location: &Location) -> String {
    match location.meta == location.data {
        true => format!("pool {}, namespace {}", location.meta, location.namespace),
        false => format!("pools {} and {}, namespace {}", location.meta, location.data, location.namespace),
    }
}

fn describe(contents: &Contents) -> String {
    match contents {
        Contents::Blank => "the namespace is empty".into(),
        Contents::Array { array, .. } => format!("array {array:032x} is there"),
        Contents::Foreign { object } => {
            format!("there is something that is no array, such as the object {object}")
        }
    }
}

/// What was found of the array of a command line.
struct Found {
    client: Arc<Client>,
    array: u128,
    /// False until it is made.
    made: bool,
}

/// Finds the array. Nothing is written.
async fn find(config: &Config) -> Result<Found> {
    let before = remembered(&config.data)?;
    let location = location(&config.rados, before.as_ref())?;
    if let Some(before) = &before {
        let there = before.location();
        ensure!(
            (&there.meta, &there.data, &there.namespace)
                == (&location.meta, &location.data, &location.namespace),
            "the array of the folder {} is in {}, and {} was named: leave --rados out, or give the folder of the other \
             array",
            config.data.display(),
            name(&there),
            name(&location)
        );
    }
    let client = Client::connect(location.clone())?;
    let found = contents(&*client).await?;
    let known = before.as_ref().map(Remembered::array).transpose()?;
    let (array, made) = decide(config, (&before, known), &found, &location)?;
    Ok(Found { client, array, made })
}

/// The array that several controllers share; at the first start of the first of them it is made. It is not opened. The
/// client never owned the store: the next owner puts the client of the owner before on the blocklist.
pub async fn shared(config: &Config) -> Result<(Arc<dyn Objects>, u128)> {
    let mut found = find(config).await?;
    if !found.made {
        drop(make(config, found.client, found.array).await?);
        // The other controllers get a copy, and know this one by it before it has opened the array.
        access::secrets_key(&config.data, false).map_err(|why| anyhow::anyhow!(why))?;
        found = find(config).await?;
    }
    let Found { client, array, .. } = found;
    Remembered::new(array, client.location(), true).write(&config.data)?;
    Ok((client, array))
}

/// Opens the array; at the first start, makes it in an empty namespace. Nothing that is there is ever overwritten. One of
/// several controllers opens it with the epoch that the cluster gave it.
pub async fn open(config: &Config, epoch: Option<u64>) -> Result<Arc<Store>> {
    let Found { client, array, made } = find(config).await?;
    if !made {
        return make(config, client, array).await;
    }
    ensure!(
        epoch.is_some() || !rados::is_shared(&*client).await?,
        "several controllers share the array in {}: start ashlard with --controller N, where N is the number of this \
         controller",
        name(client.location())
    );
    Remembered::new(array, client.location(), true).write(&config.data)?;
    let store =
        open_array(config, client, (array, epoch)).await.context("the array in Ceph can't be opened")?;
    let settled =
        store.keys().and_then(|keys| keys.wrapped()).map(|it| key::settle(&config.key, &config.data, &*it));
    if let Some(Err(error)) = settled {
        tracing::warn!(error = format_args!("{error:#}"), "the key file is not where it belongs");
    }
    Ok(store)
}

/// Which array is opened, or made if the second is false.
fn decide(
    config: &Config,
    (before, known): (&Option<Remembered>, Option<u128>),
    found: &Contents,
    location: &Location,
) -> Result<(u128, bool)> {
    let (data, there) = (config.data.display(), name(location));
    match found {
        Contents::Array { array, .. } if known == Some(*array) || config.rados.array == Some(*array) => {
            Ok((*array, true))
        }
        Contents::Array { array, .. } => bail!(
            "there is an array in {there} that is not the one of the folder {data}. If this process is to serve it, and no \
             other does, say so: --rados-array {array:032x}. For a new array use another namespace: --rados-namespace NAME"
        ),
        Contents::Foreign { .. } => {
            bail!(
                "no array is made in {there}: {}. Use another namespace: --rados-namespace NAME",
                describe(found)
            )
        }
        Contents::Blank => {
            let unmade = before.as_ref().is_some_and(|before| !before.made);
            if let (Some(array), false) = (known, unmade) {
                bail!(
                    "the array {array:032x} of the folder {data} is not in {there}: the namespace is empty. Check the pool \
                     and the cluster; no array is made in its place"
                );
            }
            if let Some(array) = config.rados.array {
                bail!("there is no array {array:032x} in {there}: the namespace is empty");
            }
            ensure!(
                unmade || !access::was_used(&config.data),
                "the folder {data} is of an array that was started before and is not in Ceph: give another folder for a new \
                 array"
            );
            Ok((known.map_or_else(|| crate::random().map(u128::from_le_bytes), Ok)?, false))
        }
    }
}

/// How the array is opened. Without a bound it grows with the pool.
fn opening(config: &Config, array: u128, key: Option<(DataKey, Envelope)>) -> Result<OpenOptions> {
    let salt = u64::from_le_bytes(crate::random()?);
    let max_bytes = config.rados.capacity.unwrap_or(u64::MAX);
    Ok(OpenOptions { array, salt, key, max_bytes, ..OpenOptions::default() })
}

async fn open_array(
    config: &Config,
    client: Arc<Client>,
    (array, epoch): (u128, Option<u64>),
) -> Result<Arc<Store>> {
    let envelopes = rados::read_envelope(&*client, array).await?.map(|envelope| vec![envelope]);
    let key = key::unlock(&config.key, &config.data, envelopes)?;
    Ok(Store::open(client, OpenOptions { epoch, ..opening(config, array, key)? }).await?)
}

async fn make(config: &Config, client: Arc<Client>, array: u128) -> Result<Arc<Store>> {
    let location = client.location().clone();
    let usage = client.usage(Pool::Data).await?;
    let format = FormatOptions::for_pool(usage, config.rados.capacity);
    ensure!(
        format.segments >= MIN_SEGMENTS,
        "{} has space for {} segments of {} MiB, and an array needs {MIN_SEGMENTS}: give it more space (quota, full OSDs) or \
         a larger --rados-capacity",
        name(&location),
        format.segments,
        format.segment_bytes() >> 20
    );
    tracing::info!(array = format_args!("{array:032x}"), location = name(&location), "formatting");
    Remembered::new(array, &location, false).write(&config.data)?;
    let key = match config.encrypt {
        true => Some(key::make(&config.key, &config.data, array)?),
        false if config.key.is_named() => bail!("a key was given: add --encrypt"),
        false => None,
    };
    let opened = Store::format(client, format, opening(config, array, key)?).await;
    let store = opened.context("no array can be made in Ceph")?;
    Remembered::new(array, &location, true).write(&config.data)?;
    Ok(store)
}

/// Fewest segments of an array: with fewer, checkpoints and cleaning have no room.
const MIN_SEGMENTS: u32 = 32;

#[cfg(test)]
#[path = "ceph_test.rs"]
mod tests;
