//! An array on drives in memory, brought up, crashed at a chosen moment, and brought up again.

use crate::cables::Cables;
use array::{
    ApiListeners, Array, Caller, Controller, ControllerChange, ControllerState, Controllers, Credential,
    DirectorySettings, Env, Error, Examined, FibreChannel, FibreChannelNexus, FoundDrive, Health, KEY_BYTES,
    KeySource, Kind, Ldap, Machine, MovingAddresses, NewKey, Parts, Request, Role, SealingKey, Takeover,
    Uptime, Verb, WrappedKey,
};
use block::Disk;
use bytes::Bytes;
use engine::Engine;
use history::Store;
use raid::encryption::{DataKey, Envelope};
use raid::{DriveShelf, FormatOptions, MemDrive, Opening};
use shelf::pool::BoxFuture;
use shelf::{AlignedBuf, Batch, Done, Drive, JournalPos, Layout, SegmentId, Shelf, Superblock};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

/// What locks the drives of an encrypted array first, and next.
const OLD_KEY: [u8; KEY_BYTES] = [1; KEY_BYTES];
const NEW_KEY: [u8; KEY_BYTES] = [2; KEY_BYTES];

/// The drives, whose contents outlive the array.
pub struct Rig {
    drives: Vec<Arc<MemDrive>>,
    random: Arc<AtomicU64>,
    /// Seconds since 1970, as they pass.
    pub clock: Arc<AtomicU64>,
    /// Offset of the machine's clock from it.
    pub skew: Arc<AtomicI64>,
    /// Number of the machine's boot.
    pub boot: Arc<AtomicU64>,
    pub history: Arc<Store>,
    pub machine: Arc<Bench>,
    pub controllers: Arc<Membership>,
    pub network: Arc<Cables>,
    pub adapters: Arc<Adapters>,
    pub api: Arc<Doors>,
    pub addresses: Arc<Moving>,
    /// Number of the array.
    pub serial: u64,
    /// Whether new drives are encrypted.
    encrypted: bool,
    /// Formats that the software knows.
    pub formats: RangeInclusive<u32>,
}

/// Fibre Channel nexuses as a test wants them.
#[derive(Default)]
pub struct Adapters(pub Mutex<Vec<FibreChannelNexus>>);

impl FibreChannel for Adapters {
    fn nexuses(&self) -> Vec<FibreChannelNexus> {
        self.0.lock().unwrap().clone()
    }
}

/// Controllers as a test wants them.
pub struct Membership {
    /// All of them.
    pub all: Mutex<Vec<Controller>>,
    /// How the home became it.
    pub takeover: Mutex<Option<Takeover>>,
    /// Why changes are refused.
    pub refused: Mutex<Option<array::Error>>,
}

impl Default for Membership {
    fn default() -> Self {
        let home = controller(1, ControllerState::Home);
        Self { all: Mutex::new(vec![home]), takeover: Mutex::default(), refused: Mutex::default() }
    }
}

impl Controllers for Membership {
    fn controllers(&self) -> Vec<Controller> {
        self.all.lock().unwrap().clone()
    }

    fn takeover(&self) -> Option<Takeover> {
        self.takeover.lock().unwrap().clone()
    }

    fn add(&self) -> array::Result<array::JoinToken> {
        if let Some(refused) = self.refused.lock().unwrap().clone() {
            return Err(refused);
        }
        let token = array::Secret::new("the-secret-of-a-token");
        Ok(array::JoinToken { token, controller: 2, expires: 7 })
    }

    fn change(&self, number: u16, change: ControllerChange) -> BoxFuture<'static, array::Result<()>> {
        if let Some(refused) = self.refused.lock().unwrap().clone() {
            return Box::pin(async move { Err(refused) });
        }
        let mut all = self.all.lock().unwrap();
        match change {
            ControllerChange::Remove => all.retain(|it| it.number != number),
            ControllerChange::Drain | ControllerChange::Resume => {
                let drained = change == ControllerChange::Drain;
                all.iter_mut().filter(|it| it.number == number).for_each(|it| it.drained = drained);
            }
        }
        Box::pin(async { Ok(()) })
    }
}

/// A controller of this number.
pub fn controller(number: u16, state: ControllerState) -> Controller {
    Controller {
        number,
        name: format!("host{number}"),
        version: "1.0".into(),
        reads: Some(*engine::FORMATS.end()),
        state,
        since: Some(1000),
        api: Some(format!("https://192.0.2.{number}:8443")),
        portals: vec![format!("192.0.2.{number}:3260")],
        nvme_portals: Vec::new(),
        sessions: 0,
        recent: Default::default(),
        takeover: None,
        drained: false,
    }
}

/// Listeners of the API of a test.
#[derive(Default)]
pub struct Doors {
    /// Those that are open, and whether a request came by them.
    pub open: Mutex<BTreeMap<SocketAddr, bool>>,
    /// Where nothing can listen.
    pub taken: Mutex<BTreeSet<SocketAddr>>,
}

impl ApiListeners for Doors {
    fn by_option(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 8443))
    }

    fn open(&self, address: SocketAddr) -> std::io::Result<()> {
        if self.taken.lock().unwrap().contains(&address) {
            return Err(std::io::ErrorKind::AddrInUse.into());
        }
        self.open.lock().unwrap().entry(address).or_default();
        Ok(())
    }

    fn close(&self, address: SocketAddr) {
        self.open.lock().unwrap().remove(&address);
    }

    fn is_open(&self, address: SocketAddr) -> bool {
        self.open.lock().unwrap().contains_key(&address)
    }

    fn is_used(&self, address: SocketAddr) -> bool {
        self.open.lock().unwrap().get(&address).copied().unwrap_or_default()
    }
}

/// Addresses that move, of a test.
#[derive(Default)]
pub struct Moving {
    /// By how many each is held.
    pub held: Mutex<BTreeMap<IpAddr, usize>>,
    /// Those that this machine can't have.
    pub refused: Mutex<BTreeSet<IpAddr>>,
    /// Those that another one has.
    pub used: Mutex<BTreeSet<IpAddr>>,
}

impl MovingAddresses for Moving {
    fn hold(&self, address: IpAddr) -> std::io::Result<()> {
        *self.held.lock().unwrap().entry(address).or_default() += 1;
        match self.refused.lock().unwrap().contains(&address) {
            true => Err(std::io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        }
    }

    fn release(&self, address: IpAddr) {
        let mut held = self.held.lock().unwrap();
        let uses = held.get_mut(&address).expect("it is held");
        *uses -= 1;
        held.retain(|_, uses| *uses > 0);
    }

    fn user_of(&self, address: IpAddr) -> std::io::Result<Option<String>> {
        Ok(self.used.lock().unwrap().get(&address).map(|_| "02:00:00:00:00:99".into()))
    }
}

/// A machine with drives in memory that are not part of the array.
#[derive(Default)]
pub struct Bench {
    /// By path.
    pub spare: Mutex<BTreeMap<String, Arc<MemDrive>>>,
    /// Drive paths that the array saved.
    pub remembered: Mutex<Vec<String>>,
    /// What drives tell of themselves, by path.
    pub health: Mutex<BTreeMap<String, Health>>,
    /// What is known of paths, where it is not an unused block device.
    pub examined: Mutex<BTreeMap<String, Result<Examined, String>>>,
    /// How often another key took the place of the one before.
    pub kept_keys: AtomicU64,
}

impl Bench {
    /// Adds a blank drive at a path.
    pub fn plug(&self, path: &str) -> Arc<MemDrive> {
        let drive = MemDrive::new(path, 16 << 20);
        self.spare.lock().unwrap().insert(path.into(), drive.clone());
        drive
    }
}

impl Machine for Bench {
    fn open_drive(&self, path: &Path, _members: &[String]) -> shelf::Result<Arc<dyn Drive>> {
        let found = self.spare.lock().unwrap().get(path.to_str().unwrap()).cloned();
        let drive = found.ok_or_else(|| shelf::Error::Unusable("no such file".into()))?;
        Ok(drive)
    }

    fn examine(&self, path: &Path) -> Pin<Box<dyn Future<Output = Result<Examined, String>> + Send>> {
        let device = Ok(Examined { is_device: true, ..Examined::default() });
        let known = self.examined.lock().unwrap().get(path.to_str().unwrap()).cloned();
        Box::pin(async { known.unwrap_or(device) })
    }

    fn find_drives(&self, members: Vec<String>) -> Pin<Box<dyn Future<Output = Vec<FoundDrive>> + Send>> {
        let spare = self.spare.lock().unwrap();
        let others = spare.keys().filter(|path| !members.contains(path));
        let found =
            others.map(|path| FoundDrive { path: path.clone(), size: 16 << 20, ..FoundDrive::default() });
        let found: Vec<_> = found.collect();
        Box::pin(async { found })
    }

    fn drive_health(&self, path: &str) -> Pin<Box<dyn Future<Output = Health> + Send>> {
        let health = self.health.lock().unwrap().get(path).cloned().unwrap_or_default();
        Box::pin(async { health })
    }

    fn next_key(&self, _: &dyn WrappedKey, new: &NewKey) -> Result<(KeySource, [u8; KEY_BYTES]), String> {
        match new {
            NewKey::File => Ok((KeySource::File, NEW_KEY)),
            other => Err(format!("{other:?} is of another kind")),
        }
    }

    fn keep_key(&self, _: &dyn WrappedKey) -> Result<(), String> {
        self.kept_keys.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn remember_drives(&self, paths: &[String]) -> std::io::Result<()> {
        *self.remembered.lock().unwrap() = paths.to_vec();
        Ok(())
    }

    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tokio::spawn(work);
    }
}

/// A running array.
pub struct Up {
    pub array: Arc<Array>,
    pub engine: Arc<Engine>,
    pub shelf: Arc<DriveShelf>,
    pub exports: Arc<export::Exports>,
    pub target: Arc<scsi::Target>,
    pub server: Arc<iscsi::Server>,
    pub nvme: Arc<nvmf::Server>,
    background: tokio::task::JoinHandle<()>,
}

/// A shelf whose journal stops taking batches after a number of them, as if the machine had lost power there.
pub struct Fuse {
    shelf: Arc<dyn Shelf>,
    left: AtomicI64,
    /// Whether the batch that is not answered reached the drives all the same.
    last_is_written: bool,
}

impl Rig {
    pub fn new() -> Self {
        let drives = (0..4).map(|number| MemDrive::new(format!("drive{number}"), 16 << 20)).collect();
        let (random, clock) = (Arc::new(AtomicU64::new(1)), Arc::new(AtomicU64::new(1_795_000_000)));
        let history = Arc::new(Store::in_memory());
        let (skew, boot) = (Arc::default(), Arc::default());
        Self {
            drives,
            random,
            clock,
            skew,
            boot,
            history,
            machine: Arc::default(),
            controllers: Arc::default(),
            network: Arc::default(),
            adapters: Arc::default(),
            api: Arc::default(),
            addresses: Arc::default(),
            serial: 0x5e71a1,
            encrypted: false,
            formats: engine::FORMATS,
        }
    }

    /// Another array than others of the same test.
    pub fn with_serial(serial: u64) -> Self {
        Self { serial, random: Arc::new(AtomicU64::new(serial << 32)), ..Self::new() }
    }

    /// With encrypted drives.
    pub fn encrypted() -> Self {
        Self { encrypted: true, ..Self::new() }
    }

    /// Flips a bit of each of the byte strings that are found on a drive, and answers how often.
    pub fn spoil(&self, drive: usize, needles: &[&[u8]]) -> usize {
        self.drives[drive].with(|bytes| {
            let wanted: BTreeSet<&[u8]> = needles.iter().copied().collect();
            let first: BTreeSet<u8> = needles.iter().map(|needle| needle[0]).collect();
            let len = needles[0].len();
            let may = |at: &usize| bytes[*at] != 0 && first.contains(&bytes[*at]);
            let at: Vec<_> = (0..=bytes.len() - len)
                .filter(may)
                .filter(|at| wanted.contains(&bytes[*at..at + len]))
                .collect();
            at.iter().for_each(|at| bytes[*at] ^= 1);
            at.len()
        })
    }

    /// Starts the array without a power loss.
    pub async fn up(&self) -> Up {
        self.up_with_fuse(i64::MAX, false).await.expect("the array comes up")
    }

    /// Brings the array up; after `appends` journal batches the next is never answered well.
    pub async fn up_with_fuse(&self, appends: i64, last_is_written: bool) -> Result<Up, Error> {
        self.up_on(&self.drives, appends, last_is_written).await
    }

    /// Starts the array without one of its drives.
    pub async fn up_without(&self, drive: usize) -> Up {
        let mut drives = self.drives.clone();
        drives.remove(drive);
        self.up_on(&drives, i64::MAX, false).await.expect("the array comes up")
    }

    async fn up_on(
        &self,
        drives: &[Arc<MemDrive>],
        appends: i64,
        last_is_written: bool,
    ) -> Result<Up, Error> {
        let mut drives: Vec<Arc<dyn Drive>> =
            drives.iter().map(|drive| drive.clone() as Arc<dyn Drive>).collect();
        for path in self.machine.remembered.lock().unwrap().iter().filter(|path| path.starts_with('/')) {
            drives.push(self.machine.open_drive(Path::new(path), &[]).unwrap());
        }
        let shelf = match DriveShelf::is_formatted(&drives).await.expect("drives that can be read") {
            true => {
                let key = self.unlock(&drives).await;
                DriveShelf::open(drives, Opening { salt: self.random.fetch_add(1, Ordering::SeqCst), key })
                    .await
            }
            false => {
                let opening = Opening { salt: 0, key: self.encrypted.then(sealing) };
                DriveShelf::format(drives, FormatOptions { array: 7, opening, ..FormatOptions::default() })
                    .await
            }
        };
        let shelf = shelf.expect("a shelf");
        let fuse = Arc::new(Fuse { shelf: shelf.clone(), left: AtomicI64::new(i64::MAX), last_is_written });
        let options = engine::Options { formats: self.formats.clone(), ..small() };
        let engine = match Engine::open(fuse.clone(), options).await {
            Ok(engine) => engine,
            Err(why) => return Err(Error::failed("the engine does not open", why)),
        };
        let background = tokio::spawn({
            let engine = engine.clone();
            async move { engine.background().await }
        });
        fuse.left.store(appends, Ordering::SeqCst);
        let up = self.assemble(shelf.clone(), &engine).await;
        match up {
            Ok((array, exports, target, server, nvme)) => {
                Ok(Up { array, engine, shelf, exports, target, server, nvme, background })
            }
            Err(error) => {
                background.abort();
                Err(error)
            }
        }
    }

    /// The data key, with whatever key opens its envelope.
    async fn unlock(&self, drives: &[Arc<dyn Drive>]) -> Option<(DataKey, Envelope)> {
        let envelopes = DriveShelf::envelopes(drives).await.expect("drives of an array")?;
        let open = |envelope: Envelope| {
            let key = envelope.open(&NEW_KEY).or_else(|| envelope.open(&OLD_KEY));
            Some((key?, envelope))
        };
        Some(envelopes.into_iter().find_map(open).expect("a key that opens"))
    }

    async fn assemble(
        &self,
        shelf: Arc<DriveShelf>,
        engine: &Arc<Engine>,
    ) -> Result<
        (Arc<Array>, Arc<export::Exports>, Arc<scsi::Target>, Arc<iscsi::Server>, Arc<nvmf::Server>),
        Error,
    > {
        let identity =
            array::load_identity(engine, "test", self.serial, self.clock.load(Ordering::SeqCst)).await?;
        let names = scsi::TargetIdentity {
            name: identity.target_iqn(),
            vendor: "ASHLAR".into(),
            product: "ALL-FLASH ARRAY".into(),
            revision: "0".into(),
            ports: 1.into(),
        };
        let exports = export::Exports::new(Arc::new(transport::SystemClock::default()));
        let target = scsi::Target::new(names, exports.clone(), [7; 32]);
        let server = iscsi::Server::new(
            target.clone(),
            iscsi::ServerConfig::new(identity.target_iqn()),
            Arc::default(),
        );
        let names = nvmf::SubsystemIdentity {
            nqn: identity.subsystem_nqn(),
            serial: identity.serial.clone(),
            model: "ALL-FLASH ARRAY".into(),
            revision: "0".into(),
        };
        let subsystem = nvmf::Subsystem::new(names, exports.clone());
        let budget = Arc::new(transport::Budget::new(64 << 20));
        let seed = Box::new(|| Ok([7; 32]));
        let nvme =
            nvmf::Server::new(subsystem.clone(), budget, transport::Permit::default(), seed, nvmf::at_once());
        let (random, clock, passed) = (self.random.clone(), self.clock.clone(), self.clock.clone());
        let (skew, boot) = (self.skew.clone(), self.boot.clone());
        let env = Env {
            random: Box::new(move || {
                u128::from(random.fetch_add(1, Ordering::SeqCst)) * 0x0101_0000_0000_0000_0101
            }),
            system: Box::new(Vec::new),
            now: Box::new(move || {
                let shown = clock.load(Ordering::SeqCst).saturating_add_signed(skew.load(Ordering::SeqCst));
                UNIX_EPOCH + Duration::from_secs(shown)
            }),
            uptime: Box::new(move || Uptime {
                boot: boot.load(Ordering::SeqCst).into(),
                since: Duration::from_secs(passed.load(Ordering::SeqCst)),
            }),
        };
        let (history, sealing) = (self.history.clone(), Arc::new(SealingKey::new([7; 32])));
        let (engine, machine) = (engine.clone(), self.machine.clone());
        let (target, server) = (target.clone(), server.clone());
        let parts = Parts {
            engine,
            pool: shelf,
            machine,
            controllers: self.controllers.clone(),
            network: self.network.clone(),
            fibre_channel: self.adapters.clone(),
            exports: exports.clone(),
            target: target.clone(),
            server: server.clone(),
            nvme: nvme.clone(),
            host_connections: 64,
            memory: array::MemoryLimit { bytes: 4 << 30, source: "the rig".into() },
            threads: array::Threads { now: 2, by_option: false },
            api: self.api.clone(),
            addresses: self.addresses.clone(),
            subsystem,
            history,
            sealing,
        };
        Ok((Arc::new(Array::open(parts, identity, "0.0", env).await?), exports, target, server, nvme))
    }
}

fn sealing() -> (DataKey, Envelope) {
    let key = DataKey::new([9; KEY_BYTES]);
    let envelope = Envelope::wrap(7, &key, KeySource::File, &OLD_KEY, [1; 12]);
    (key, envelope)
}

/// Bounds for an engine that has little to do and is opened often.
fn small() -> engine::Options {
    let options = engine::Options::new([7; 32]);
    engine::Options {
        slot_bytes: 4 << 20,
        cache_bytes: 1 << 20,
        index_bytes: 1 << 20,
        page_bytes: 4 << 20,
        ..options
    }
}

/// A request of any verb, for lists of requests.
#[derive(Clone)]
pub struct Step {
    pub verb: Verb,
    text: String,
    run: Arc<dyn Fn(Arc<Array>, Caller) -> Answered + Send + Sync>,
}

/// The response to a request of any verb, as text.
type Answered = Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>;

impl Step {
    /// Carries it out for a caller.
    pub async fn perform(&self, up: &Up, caller: &Caller) -> Result<String, Error> {
        (self.run)(up.array.clone(), caller.clone()).await
    }

    /// Carries it out for the default caller.
    pub async fn ok(&self, up: &Up) -> String {
        self.perform(up, &ada()).await.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// A request as one of a list.
pub fn step<R: Request>(request: R) -> Step {
    let text = format!("{request:?}");
    let run = move |array: Arc<Array>, caller: Caller| -> Answered {
        let request = request.clone();
        Box::pin(async move { array.perform(&caller, request).await.map(|answer| format!("{answer:?}")) })
    };
    Step { verb: R::VERB, text, run: Arc::new(run) }
}

/// A list of requests of any verb.
macro_rules! steps {
    ($($request:expr),* $(,)?) => { vec![$($crate::rig::step($request)),*] };
}
pub(crate) use steps;

/// The default caller of tests.
/// Settings of an LDAP server at an address.
pub fn ldap(server: &str) -> DirectorySettings {
    DirectorySettings::Ldap(Ldap {
        server: server.into(),
        starttls: false,
        bind_dn: None,
        base: "dc=example".into(),
        user_attribute: "uid".into(),
        group_base: None,
        ca: None,
    })
}

fn ada() -> Caller {
    let credential = Credential::Machine;
    Caller { user: "ada".into(), origin: "10.0.0.7".into(), role: Role::Admin, credential }
}

impl Up {
    pub async fn perform<R: Request>(&self, request: R) -> Result<R::Answer, Error> {
        self.array.perform(&ada(), request).await
    }

    /// The LUNs that an initiator sees.
    pub fn luns(&self, initiator: &str) -> Vec<u16> {
        let port = scsi::InitiatorPort::iscsi(initiator, [0; 6]);
        self.target.attach(port, 1).luns()
    }

    /// Writes 4 KiB as an initiator that has seen every unit attention; the sense key and code of the response, if any.
    pub async fn write_as(&self, initiator: &str, lun: u8, lba: u8) -> Option<(u8, u8, u8)> {
        let port = scsi::InitiatorPort::iscsi(initiator, [0; 6]);
        let nexus = self.target.attach(port, 1);
        loop {
            let command = scsi::Command {
                tag: 1,
                lun: scsi::Lun([0, lun, 0, 0, 0, 0, 0, 0]),
                cdb: Bytes::from(vec![0x2a, 0, 0, 0, 0, lba, 0, 0, 8, 0]),
                attribute: scsi::TaskAttribute::Simple,
                direction: scsi::Direction::Out,
                data_out: Bytes::from(vec![9; 4096]).into(),
                data_in_limit: 0,
            };
            let response = match nexus.execute(command) {
                scsi::Execution::Done(response) => response,
                scsi::Execution::Task(task) => task.await.expect("the task is not aborted"),
            };
            let sense = &response.sense;
            match sense.first().copied() {
                None => return None,
                Some(0x72 | 0x73) if sense[1] != 6 => return Some((sense[1], sense[2], sense[3])),
                Some(0x70 | 0x71) if sense[2] & 15 != 6 => {
                    return Some((sense[2] & 15, sense[12], sense[13]));
                }
                _ => {}
            }
        }
    }

    /// Shuts down cleanly.
    pub async fn down(self) {
        self.engine.shutdown().await.expect("a last checkpoint");
        self.background.await.expect("the background ends");
    }

    /// Ends like a killed process.
    pub async fn crash(self) {
        self.background.abort();
        let _ = self.background.await;
    }
}

/// Carries out a request of the default caller, which must succeed.
pub async fn ok<R: Request>(up: &Up, request: R) -> R::Answer {
    up.perform(request.clone()).await.unwrap_or_else(|error| panic!("{request:?}: {error}"))
}

/// The error of a request of the default caller, which must fail.
pub async fn refused<R: Request>(up: &Up, request: R) -> Error {
    match up.perform(request.clone()).await {
        Ok(answer) => panic!("{request:?}: {answer:?}"),
        Err(error) => error,
    }
}

/// Writes a page of one byte to a volume.
pub async fn write(up: &Up, id: block::DiskId, lba: u64, byte: u8) {
    let data = block::Data::from(Bytes::from(vec![byte; 4096]));
    let done = up.engine.volume(id).unwrap().execute(block::Op::Write { lba, data }).await;
    assert!(matches!(done, Ok(block::Reply::Done)), "{done:?}");
}

/// The byte at a block of a volume.
pub async fn first_byte(up: &Up, id: block::DiskId, lba: u64) -> u8 {
    let read = up.engine.volume(id).unwrap().execute(block::Op::Read(block::Extent::new(lba, 8))).await;
    let Ok(block::Reply::Data(data)) = read else { panic!("{read:?}") };
    data.to_bytes()[0]
}

/// The kind of that error.
pub async fn refusal<R: Request>(up: &Up, request: R) -> Kind {
    refused(up, request).await.kind
}

impl Shelf for Fuse {
    fn layout(&self) -> Layout {
        self.shelf.layout()
    }

    fn journal_cost(&self, head: usize, body: usize) -> u64 {
        self.shelf.journal_cost(head, body)
    }

    fn append(&self, head: Bytes, body: Vec<Bytes>, done: Done<JournalPos>) {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        let lost = || Err(shelf::Error::Drive { what: "the power is gone".into() });
        match left {
            1.. => self.shelf.append(head, body, done),
            0 if self.last_is_written => self.shelf.append(head, body, Box::new(move |_| done(lost()))),
            _ => done(lost()),
        }
    }

    fn journal_taken(&self, pos: JournalPos) -> u64 {
        self.shelf.journal_taken(pos)
    }

    fn recover(&self, from: JournalPos, done: Done<Vec<Batch>>) {
        self.shelf.recover(from, done);
    }

    fn write(&self, segment: SegmentId, offset: u32, stripes: Arc<AlignedBuf>, done: Done<()>) {
        self.shelf.write(segment, offset, stripes, done);
    }

    fn read(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>) {
        self.shelf.read(segment, offset, len, done);
    }

    fn sync(&self, done: Done<()>) {
        self.shelf.sync(done);
    }

    fn discard(&self, segment: SegmentId) {
        self.shelf.discard(segment);
    }

    fn write_superblock(&self, superblock: Superblock, done: Done<()>) {
        match self.left.load(Ordering::SeqCst) {
            0.. => self.shelf.write_superblock(superblock, done),
            _ => done(Err(shelf::Error::Drive { what: "the power is gone".into() })),
        }
    }

    fn superblock(&self) -> Option<Superblock> {
        self.shelf.superblock()
    }
}
