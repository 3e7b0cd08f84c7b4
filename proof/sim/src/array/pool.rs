//! World `rados`: crashes with operations in progress, owners that continue after a takeover, and a pool that gets
//! full.

use super::{Incarnation, Run};
use crate::World;
use crate::machine::Machine;
use engine::Engine;
use rados::memory::Cluster;
use rados::objects::Objects;
use rados::{Contents, FormatOptions, OpenOptions, Store, contents};
use std::sync::Arc;

/// Free bytes of a pool that is not full.
const FREE_BYTES: u64 = 256 << 20;
/// Size at which a journal object is closed.
const JOURNAL_OBJECT_BYTES: u64 = 256 << 10;
const RESERVE_SEGMENTS: u64 = 32;

/// Clients of the cluster.
#[derive(Default)]
pub struct Owners {
    /// Their addresses.
    clients: Vec<String>,
    /// Whether the pool is full, or was since the last opening.
    pub was_full: bool,
    /// Number of attempts to open the store.
    attempts: u64,
}

/// Gives a machine a new cluster instead of drives.
pub fn install(run: &mut Run) {
    let cluster = Cluster::default();
    cluster.set_holding(true);
    cluster.set_late_answers(run.random.chance(50));
    run.machine.cluster = Some(cluster);
}

/// Makes the store measure the pool; the model replies at once.
fn measure(store: &Arc<Store>) {
    let store = store.clone();
    shelf::spawn(async move { store.measure().await });
}

impl Run {
    /// Starts the array on the store in RADOS and compares its contents with the history; `None` if the machine must
    /// crash first.
    pub(super) fn boot_rados(&mut self, cluster: &Cluster) -> Result<Option<Incarnation>, String> {
        let (store, engine) = loop {
            let Some(store) = self.open_rados(cluster)? else { return Ok(None) };
            match self.open_engine(store.clone()) {
                Ok(None) => return Ok(None),
                Ok(Some(engine)) => break (store, engine),
                // An earlier opening that a crash ended took over later than this one: the next is newer than both.
                Err(cause) if cause.contains("fenced by epoch") => {}
                Err(cause) => return Err(cause),
            }
        };
        self.watch_pool(cluster, &store, &engine);
        let tolerates = shelf::pool::Pool::status(&*store).tolerates;
        self.begin(Incarnation { rados: Some(store), ..Incarnation::new(engine, tolerates) })
    }

    /// Opens or creates the store in RADOS; `None` if the machine must crash first.
    pub fn open_rados(&mut self, cluster: &Cluster) -> Result<Option<Arc<Store>>, String> {
        let client = cluster.client();
        self.owners.clients.push(client.instance());
        cluster.set_fencing_fails(self.random.chance(50));
        cluster.set_capacity(cluster.stored() + FREE_BYTES);
        self.owners.was_full = false;
        // Every attempt is an owner with a salt of its own.
        self.owners.attempts += 1;
        let opening = OpenOptions {
            array: 9,
            salt: self.owners.attempts,
            journal_object_bytes: JOURNAL_OBJECT_BYTES,
            reserve_segments: Some(RESERVE_SEGMENTS),
            ..OpenOptions::default()
        };
        let format = FormatOptions {
            stripe_pages: 16,
            segment_stripes: 8,
            journal_bytes: self.scenario.sizes.journal_bytes.unwrap_or(4 << 20),
            journal_object_bytes: JOURNAL_OBJECT_BYTES,
            reserve_segments: RESERVE_SEGMENTS,
            ..FormatOptions::new(256)
        };
        let formatted = self.formatted;
        let open = async move {
            if !formatted && contents(&*client).await? == Contents::Blank {
                Store::format(client, format, opening).await
            } else {
                Store::open(client, opening).await
            }
        };
        let Some(store) = self.machine.finish(open)? else { return Ok(None) };
        let store = store.map_err(|cause| format!("opening the store: {cause}"))?;
        if self.scenario.world == World::Located && !self.front.is_open() {
            let reader = self.machine.finish(rados::Reader::open(cluster.client(), (9, 0), None))?;
            let Some(reader) = reader else { return Ok(None) };
            self.front.open(reader.map_err(|cause| format!("a front end: {cause}"))?);
        }
        self.formatted = true;
        Ok(Some(store))
    }

    /// Fills or frees the pool; the store may notice it later.
    pub fn change_pool(&mut self, incarnation: &Incarnation) {
        let (Some(cluster), Some(store)) = (&self.machine.cluster, &incarnation.rados) else { return };
        let full = self.random.chance(40);
        self.machine.drives.note(full);
        self.owners.was_full |= full;
        let free = if full { self.random.below(512 << 10) } else { FREE_BYTES };
        cluster.set_capacity(cluster.stored() + free);
        if !full || self.random.chance(50) {
            measure(store);
        }
        incarnation.engine.watch_drives();
    }

    /// Frees the pool while nothing else happens, and makes the store notice it.
    pub fn watch_pool(&mut self, cluster: &Cluster, store: &Arc<Store>, engine: &Arc<Engine>) {
        let (cluster, store, engine) = (cluster.clone(), store.clone(), engine.clone());
        self.machine.clock = Some(Box::new(move |_| {
            cluster.set_capacity(cluster.stored() + FREE_BYTES);
            measure(&store);
            engine.watch_drives();
        }));
    }

    /// Crashes the machine. In RADOS, the owner may continue instead, unaware of the next one.
    pub fn end_of_life(&mut self) {
        let Some(cluster) = self.machine.cluster.clone() else { return self.machine.crash() };
        if self.formatted && self.random.chance(40) {
            self.machine.drives.note("takeover");
            self.machine.go_on();
            return;
        }
        Machine::crash(&mut self.machine);
        for client in std::mem::take(&mut self.owners.clients) {
            cluster.forget(&client, || self.random.chance(60));
        }
    }
}
