//! World `located`: a front end that reads data located by the home, while homes crash and are replaced.
//!
//! The front end survives its home. A share of the hosts' reads go through it, so the history checks them. It also
//! stores recipes with their first bytes, and resolves them again much later: they return the same bytes, or none.

use super::polls;
use block::workload::Random;
use block::{Data, Disk, DiskId, Error, Extent, Op, Recipe, Reply, Resolver};
use engine::{Engine, Reader};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of stored recipes.
const KEPT: usize = 64;

/// The front end.
pub struct FrontEnd {
    random: Random,
    cache_bytes: usize,
    reader: Option<Arc<Reader>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    kept: Mutex<Vec<(Recipe, Data)>>,
    wrong: Mutex<Option<String>>,
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Vec<(Recipe, Data)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wrong(&self) -> MutexGuard<'_, Option<String>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FrontEnd {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x6c6f_6361);
        let cache_bytes = [0, 64 << 10, 1 << 20, 16 << 20][random.below(4) as usize];
        Self { random, cache_bytes, reader: None, shared: Arc::default() }
    }

    /// Takes a new store.
    pub fn open(&mut self, store: rados::Reader) {
        self.reader = Some(Arc::new(Reader::new(Arc::new(store), self.cache_bytes)));
    }

    /// True if a store is known.
    pub fn is_open(&self) -> bool {
        self.reader.is_some()
    }

    /// Numbers of resolved and unresolved recipes.
    pub fn counts(&self) -> (u64, u64) {
        let counters = self.reader.as_ref().map(|reader| reader.counters()).unwrap_or_default();
        (counters.resolved, counters.failed)
    }

    /// A read by the front end; `None` if the home has to read.
    pub fn read(
        &mut self,
        engine: &Arc<Engine>,
        (id, extent): (DiskId, Extent),
    ) -> Option<impl Future<Output = block::Result> + 'static> {
        let reader = self.reader.clone().filter(|_| self.random.chance(70))?;
        let (engine, shared) = (engine.clone(), self.shared.clone());
        // The answer is in transit, usually for a short time.
        let far = [1, 20, 3000][self.random.below(3) as usize];
        let (way, place) = (self.random.below(far), self.random.below(4 * KEPT as u64) as usize);
        Some(async move {
            let volume = engine.volume(id).ok_or(Error::Deleted)?;
            let recipe = match volume.execute(Op::Locate(extent)).await? {
                Reply::Located(recipe) => recipe,
                other => return Ok(other),
            };
            polls(way).await;
            let Some(data) = reader.resolve(recipe.clone()).await else {
                return volume.execute(Op::Read(extent)).await;
            };
            let mut kept = shared.kept();
            if kept.len() < KEPT {
                kept.push((recipe, data.clone()));
            } else if let Some(place) = kept.get_mut(place) {
                *place = (recipe, data.clone());
            }
            Ok(Reply::Data(data))
        })
    }

    /// Resolves a stored recipe again; [`FrontEnd::check`] reports a difference.
    pub fn look_back(&mut self) -> Option<impl Future<Output = ()> + 'static> {
        let reader = self.reader.clone()?;
        let shared = self.shared.clone();
        let count = shared.kept().len() as u64;
        let at = if count > 0 { self.random.below(count) as usize } else { return None };
        let (recipe, first) = shared.kept()[at].clone();
        Some(async move {
            if let Some(data) = reader.resolve(recipe.clone()).await
                && data.first_difference(&first).is_some()
            {
                let bytes = data.len();
                *shared.wrong() = Some(format!("{recipe:?} gave other bytes later, {bytes} of them"));
            }
        })
    }

    /// Checks that recipes always returned the same bytes.
    pub fn check(&self) -> Result<(), String> {
        self.shared.wrong().clone().map_or(Ok(()), Err)
    }
}
