//! The spine: every operator action, and how it is carried out.
//!
//! An action judges the request against the configuration, changes the engine and the records in an order that a
//! crash can stop anywhere (see [`crate::record::Stage`]), then the configuration in memory, and tells `scsi` and
//! `iscsi` at once. Changes go one after the other; questions never wait for them.

use crate::config::{Chap, Config, HostEntry, HostId, Identity, VolumeEntry};
use crate::record::{self, Record, Stage};
use crate::view::{self, ArrayStatus, Connection, Host, Volume};
use crate::{Error, Result, check};
use block::{Disk, DiskId, Geometry};
use engine::Engine;
use parking_lot::{RwLock, RwLockReadGuard};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Everything that an operator can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The array's state and space.
    ShowArray,
    /// Make a volume. `bytes`: 1 MiB to 16 PiB; `block_bytes`: 512 or 4096.
    CreateVolume {
        /// Its name.
        name: String,
        /// Its size in bytes.
        bytes: u64,
        /// Its logical block length in bytes.
        block_bytes: u32,
    },
    /// Make a volume with the contents that another has now, sharing its space.
    CloneVolume {
        /// The volume to copy.
        source: String,
        /// Name of the new one.
        name: String,
    },
    /// All volumes, by name.
    ListVolumes,
    /// One volume.
    ShowVolume {
        /// Its name.
        name: String,
    },
    /// Change the size; hosts are told.
    ResizeVolume {
        /// Its name.
        name: String,
        /// The new size in bytes.
        bytes: u64,
        /// Cut off the end and lose what is there. Without it a smaller size is refused.
        shrink: bool,
    },
    /// Delete a volume that no host sees, with its data.
    DeleteVolume {
        /// Its name.
        name: String,
    },
    /// Make a host known, so that it may log in.
    CreateHost {
        /// Its name.
        name: String,
        /// Its iSCSI initiator names, at least one.
        initiators: Vec<String>,
        /// CHAP that it must pass.
        chap: Option<Chap>,
        /// CHAP that the array passes to it.
        mutual: Option<Chap>,
    },
    /// All hosts, by name.
    ListHosts,
    /// One host.
    ShowHost {
        /// Its name.
        name: String,
    },
    /// Forget a host that sees no volume.
    DeleteHost {
        /// Its name.
        name: String,
    },
    /// Let a host see a volume.
    Connect {
        /// The volume's name.
        volume: String,
        /// The host's name.
        host: String,
        /// The LUN, 0 to 16383; the lowest free one when none is given.
        lun: Option<u16>,
    },
    /// Let a host no longer see a volume.
    Disconnect {
        /// The volume's name.
        volume: String,
        /// The host's name.
        host: String,
    },
    /// Who sees what, by volume and host.
    ListConnections,
}

/// What an action answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// To [`Action::ShowArray`].
    Array(Box<ArrayStatus>),
    /// A volume as it is now.
    Volume(Volume),
    /// To [`Action::ListVolumes`].
    Volumes(Vec<Volume>),
    /// A host as it is now.
    Host(Host),
    /// To [`Action::ListHosts`].
    Hosts(Vec<Host>),
    /// To [`Action::Connect`].
    Connection(Connection),
    /// To [`Action::ListConnections`].
    Connections(Vec<Connection>),
    /// What was asked to go is gone.
    Gone,
}

impl Action {
    /// True when the action changes something.
    pub fn changes(&self) -> bool {
        use Action::*;
        !matches!(
            self,
            ShowArray | ListVolumes | ShowVolume { .. } | ListHosts | ShowHost { .. } | ListConnections
        )
    }
}

/// The parts that the array directs.
#[derive(Clone)]
pub struct Parts {
    /// Where volumes and records are.
    pub engine: Arc<Engine>,
    /// Who serves them.
    pub target: Arc<scsi::Target>,
    /// Who lets hosts in.
    pub server: Arc<iscsi::Server>,
}

/// What is not the array's own: chance and time.
pub struct World {
    /// Random numbers for identities that stay unique for ever.
    pub random: Box<dyn Fn() -> u128 + Send + Sync>,
    /// The time of day.
    pub now: Box<dyn Fn() -> SystemTime + Send + Sync>,
}

impl World {
    /// The time of day in seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        (self.now)().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
    }
}

/// The array: configuration, and the parts that carry it out.
pub struct Array {
    pub(crate) parts: Parts,
    pub(crate) world: World,
    pub(crate) identity: Identity,
    pub(crate) version: String,
    pub(crate) started: u64,
    config: RwLock<Config>,
    /// Held by the one change under way.
    changing: tokio::sync::Mutex<()>,
}

impl Array {
    pub(crate) fn new(
        parts: Parts,
        world: World,
        identity: Identity,
        version: String,
        config: Config,
    ) -> Self {
        let started = world.seconds();
        let (config, changing) = (RwLock::new(config), tokio::sync::Mutex::new(()));
        Self { parts, world, identity, version, started, config, changing }
    }

    /// Carries out an action. A change must be polled to its end: when the caller may go away (an HTTP request),
    /// it belongs in a task of its own. One dropped half-way is finished or taken back by the next start.
    pub async fn perform(&self, action: Action) -> Result<Outcome> {
        if !action.changes() {
            return self.answer(action);
        }
        let _one_at_a_time = self.changing.lock().await;
        let outcome = self.change(action.clone()).await;
        match &outcome {
            Ok(_) => tracing::info!(target: "audit", ?action, "done"),
            Err(error) => tracing::warn!(target: "audit", ?action, kind = ?error.kind, %error, "refused"),
        }
        outcome
    }

    pub(crate) fn config(&self) -> RwLockReadGuard<'_, Config> {
        self.config.read()
    }

    fn answer(&self, action: Action) -> Result<Outcome> {
        let config = self.config();
        Ok(match action {
            Action::ShowArray => Outcome::Array(Box::new(self.status(&config))),
            Action::ListVolumes => Outcome::Volumes(self.volumes(&config)),
            Action::ShowVolume { name } => {
                let entry = config.volume(&name)?;
                Outcome::Volume(self.volume(entry, &config.connections_of(entry.id)))
            }
            Action::ListHosts => Outcome::Hosts(self.hosts(&config)),
            Action::ShowHost { name } => Outcome::Host(self.host(&config, config.host(&name)?)),
            Action::ListConnections => Outcome::Connections(view::connections(&config)),
            _ => unreachable!("a change"),
        })
    }

    async fn change(&self, action: Action) -> Result<Outcome> {
        if let Some(why) = self.parts.engine.stopped() {
            return Err(Error::failed("the array stopped to protect data and needs a new start", why));
        }
        match action {
            Action::CreateVolume { name, bytes, block_bytes } => {
                self.create_volume(name, Contents::Empty(check::geometry(bytes, block_bytes)?)).await
            }
            Action::CloneVolume { source, name } => {
                let source = self.config().volume(&source)?.id;
                self.create_volume(name, Contents::Of(source)).await
            }
            Action::ResizeVolume { name, bytes, shrink } => self.resize_volume(&name, bytes, shrink).await,
            Action::DeleteVolume { name } => self.delete_volume(&name).await,
            Action::CreateHost { name, initiators, chap, mutual } => {
                self.create_host(name, &initiators, chap, mutual).await
            }
            Action::DeleteHost { name } => self.delete_host(&name).await,
            Action::Connect { volume, host, lun } => self.connect(volume, host, lun).await,
            Action::Disconnect { volume, host } => self.disconnect(&volume, &host).await,
            _ => unreachable!("a question"),
        }
    }

    async fn create_volume(&self, name: String, contents: Contents) -> Result<Outcome> {
        check::name("volume", &name)?;
        self.config().volume_name_free(&name)?;
        let now = self.world.seconds();
        let entry = VolumeEntry { id: DiskId((self.world.random)()), name, created: now };
        self.put(record::volume(&entry, Stage::Creating)).await?;
        let made = match contents {
            Contents::Empty(geometry) => self.parts.engine.create_volume(entry.id, geometry, now).await,
            Contents::Of(source) => self.parts.engine.clone_volume(source, entry.id, now).await,
        };
        if let Err(error) = made {
            self.remove(record::volume_key(entry.id)).await?;
            return Err(Error::failed(&format!("volume {:?} could not be made", entry.name), error));
        }
        self.put(record::volume(&entry, Stage::Ready)).await?;
        self.serve(entry.id);
        let volume = self.volume(&entry, &[]);
        self.config.write().volumes.insert(entry.name.clone(), entry);
        Ok(Outcome::Volume(volume))
    }

    async fn resize_volume(&self, name: &str, bytes: u64, shrink: bool) -> Result<Outcome> {
        let entry = self.config().volume(name)?.clone();
        let disk = self.disk(&entry)?;
        let now = disk.geometry();
        let wanted = check::geometry(bytes, now.block_bytes)?;
        if wanted.blocks < now.blocks && !shrink {
            return Err(Error::precondition(format!(
                "volume {name:?} has {} bytes; making it smaller destroys what lies behind byte {bytes}: force it \
                 if that is meant",
                now.bytes()
            )));
        }
        if wanted != now {
            let resized = self.parts.engine.resize_volume(entry.id, wanted.blocks).await;
            resized
                .map_err(|error| Error::failed(&format!("volume {name:?} could not be resized"), error))?;
            self.parts.target.capacity_changed(entry.id);
        }
        Ok(Outcome::Volume(self.volume(&entry, &self.config().connections_of(entry.id))))
    }

    async fn delete_volume(&self, name: &str) -> Result<Outcome> {
        let entry = self.config().volume(name)?.clone();
        let seen_by: Vec<String> =
            self.config().connections_of(entry.id).iter().map(|(host, _)| format!("{host:?}")).collect();
        if !seen_by.is_empty() {
            return Err(Error::precondition(format!(
                "volume {name:?} is connected to {}: disconnect it first",
                some_of(&seen_by)
            )));
        }
        self.put(record::volume(&entry, Stage::Deleting)).await?;
        self.config.write().volumes.remove(name);
        self.parts.target.remove_unit(entry.id);
        let deleted = self.parts.engine.delete_volume(entry.id, self.world.seconds()).await;
        deleted.map_err(|error| Error::failed(&format!("volume {name:?} could not be deleted"), error))?;
        self.remove(record::volume_key(entry.id)).await?;
        Ok(Outcome::Gone)
    }

    async fn create_host(
        &self,
        name: String,
        initiators: &[String],
        chap: Option<Chap>,
        mutual: Option<Chap>,
    ) -> Result<Outcome> {
        check::name("host", &name)?;
        let initiators = check::initiators(initiators)?;
        check::chap(chap.as_ref(), mutual.as_ref())?;
        self.config().host_free(&name, &initiators)?;
        let id = HostId((self.world.random)() as u64);
        let luns = BTreeMap::new();
        let entry = HostEntry { id, name, initiators, chap, mutual, created: self.world.seconds(), luns };
        self.put(record::host(&entry)).await?;
        let mut config = self.config.write();
        let host = self.host(&config, &entry);
        config.hosts.insert(entry.name.clone(), entry);
        self.admit(&config);
        Ok(Outcome::Host(host))
    }

    async fn delete_host(&self, name: &str) -> Result<Outcome> {
        let entry = self.config().host(name)?.clone();
        if !entry.luns.is_empty() {
            let config = self.config();
            let names: Vec<String> = self
                .host(&config, &entry)
                .connections
                .iter()
                .map(|seen| format!("{:?}", seen.volume))
                .collect();
            return Err(Error::precondition(format!(
                "host {name:?} is connected to {}: disconnect the volumes first",
                some_of(&names)
            )));
        }
        self.remove(record::host_key(entry.id)).await?;
        let mut config = self.config.write();
        config.hosts.remove(name);
        self.admit(&config);
        entry.initiators.iter().for_each(|initiator| self.parts.target.remove_view(initiator));
        Ok(Outcome::Gone)
    }

    async fn connect(&self, volume: String, host: String, lun: Option<u16>) -> Result<Outcome> {
        let lun = lun.map(check::lun).transpose()?;
        let (entry, seen_by) = {
            let config = self.config();
            (config.volume(&volume)?.clone(), config.host(&host)?.clone())
        };
        self.disk(&entry)?;
        if let Some(lun) = seen_by.lun_of(entry.id) {
            return Err(Error::conflict(format!(
                "host {host:?} sees volume {volume:?} already, as LUN {lun}"
            )));
        }
        let lun = match lun {
            Some(lun) if seen_by.luns.contains_key(&lun) => {
                return Err(Error::conflict(format!(
                    "LUN {lun} of host {host:?} is taken: choose another, or none to get the lowest free one"
                )));
            }
            Some(lun) => lun,
            None => seen_by.free_lun().ok_or_else(|| {
                Error::precondition(format!("host {host:?} has no free LUN: disconnect a volume first"))
            })?,
        };
        self.put(record::connection(seen_by.id, lun, entry.id)).await?;
        self.show(&host, |luns| luns.insert(lun, entry.id));
        Ok(Outcome::Connection(Connection { volume, host, lun }))
    }

    async fn disconnect(&self, volume: &str, host: &str) -> Result<Outcome> {
        let (id, seen_by) = {
            let config = self.config();
            (config.volume(volume)?.id, config.host(host)?.clone())
        };
        let lun = seen_by
            .lun_of(id)
            .ok_or_else(|| Error::not_found(format!("host {host:?} does not see volume {volume:?}")))?;
        self.remove(record::connection_key(seen_by.id, lun)).await?;
        self.show(host, |luns| luns.remove(&lun));
        Ok(Outcome::Gone)
    }

    /// Changes what a host sees, and shows it.
    fn show<T>(&self, host: &str, change: impl FnOnce(&mut BTreeMap<u16, DiskId>) -> T) {
        let mut config = self.config.write();
        if let Some(entry) = config.hosts.get_mut(host) {
            change(&mut entry.luns);
            self.show_host(entry);
        }
    }

    pub(crate) fn show_host(&self, host: &HostEntry) {
        host.initiators.iter().for_each(|name| self.parts.target.set_view(name, host.luns.clone()));
    }

    /// Tells `iscsi` who may log in, and how.
    pub(crate) fn admit(&self, config: &Config) {
        let credentials =
            |chap: &Chap| iscsi::Credentials { name: chap.user.clone(), secret: chap.secret.expose().into() };
        let access = config.hosts.values().flat_map(|host| {
            let access = iscsi::Access {
                chap: host.chap.as_ref().map(credentials),
                mutual: host.mutual.as_ref().map(credentials),
            };
            host.initiators.iter().map(move |name| (name.clone(), access.clone()))
        });
        self.parts.server.set_access(access.collect());
    }

    /// Tells `scsi` about a volume.
    pub(crate) fn serve(&self, id: DiskId) {
        if let Some(disk) = self.parts.engine.volume(id) {
            self.parts.target.add_unit(scsi::UnitConfig { disk });
        }
    }

    async fn put(&self, (key, value): Record) -> Result<()> {
        put_record(&self.parts.engine, &key, Some(value)).await
    }

    async fn remove(&self, key: String) -> Result<()> {
        put_record(&self.parts.engine, &key, None).await
    }

    fn disk(&self, entry: &VolumeEntry) -> Result<Arc<engine::Volume>> {
        self.parts.engine.volume(entry.id).ok_or_else(|| {
            Error::failed(&format!("volume {:?} has no data", entry.name), "the engine does not know it")
        })
    }
}

/// What a new volume holds.
enum Contents {
    /// Nothing; it reads as zeros.
    Empty(Geometry),
    /// What another volume holds now.
    Of(DiskId),
}

/// Writes or removes a record; it is durable when this answers.
pub(crate) async fn put_record(engine: &Engine, key: &str, value: Option<Vec<u8>>) -> Result<()> {
    let done = engine.put_record(key, value.map(Into::into)).await;
    done.map_err(|error| Error::failed("the configuration could not be stored", error))
}

/// The first few names of a list, for a message.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{} and {} more", names[..SHOWN].join(", "), all - SHOWN),
    }
}
