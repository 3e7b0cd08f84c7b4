//! Difference between two disks. Pages that both share are equal without being read, so that the work depends on what
//! was changed, not on the size.

use crate::catalog::VolumeState;
use crate::core::Core;
use crate::engine::Engine;
use crate::entry::{BLOCK, Entry, FAN, Kind, blocks_under};
use crate::map::{Maps, Need, Tree};
use crate::read::{Blocked, Fetched, Observed};
use crate::state::{Refusal, State};
use block::{DiskId, Error, Extent, Provisioning, Region, Result};

/// Steps of one call.
const MAX_STEPS_PER_CALL: usize = 64;

/// A part of what differs between two disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Runs of blocks that differ, in order, with their state on the newer disk. Blocks that were written with what
    /// was there before may be among them. Ends lie on 4 KiB.
    pub regions: Vec<Region>,
    /// Where to go on: the first block that was not compared. `None` at the end of the newer disk.
    pub next: Option<u64>,
}

/// Two trees compared block by block, as far as a number of pages goes.
struct Walk<'a> {
    maps: &'a Maps,
    /// Everything before this block has been compared.
    reached: u64,
    pages: usize,
    max: usize,
    /// First block, number of blocks, whether they are mapped.
    found: Vec<(u64, u64, bool)>,
    /// The batch with which the result is durable.
    batch: u64,
}

/// Why a walk ended early.
enum Stop {
    Need(Need),
    Enough,
}

/// The child of a tree of at most `level`, seen as a tree of that level.
fn child(maps: &Maps, tree: Tree, level: u8, index: usize) -> std::result::Result<Tree, Need> {
    let below = level - 1;
    if tree.level < level {
        let beyond = Tree { root: Entry::UNMAPPED, level: below };
        return Ok(if index == 0 { tree } else { beyond });
    }
    let root = match tree.root.as_page() {
        Some(page) => maps.page(page)?[index],
        None => tree.root,
    };
    Ok(Tree { root, level: below })
}

impl Walk<'_> {
    /// Compares `from..to` of two trees of at most `level` that begin at block `base`.
    fn trees(
        &mut self,
        [old, new]: [Tree; 2],
        level: u8,
        base: u64,
        from: u64,
        to: u64,
    ) -> std::result::Result<(), Stop> {
        let whole = |tree: Tree| tree.level == level || tree.root == Entry::UNMAPPED;
        if old.root == new.root && (old.level == new.level || whole(old) && whole(new)) {
            self.reached = base + to;
            return Ok(());
        }
        if [old, new].iter().all(|tree| tree.root.as_page().is_none() && whole(*tree)) {
            return self.add(base + from, to - from, new.root);
        }
        if self.pages == 0 {
            return Err(Stop::Enough);
        }
        self.pages -= 1;
        if level == 0 {
            return self.leaves(old, new, base, from, to);
        }
        let each = blocks_under(level - 1);
        for index in from / each..to.div_ceil(each) {
            let (at, n) = (index * each, index as usize);
            let children = [child(self.maps, old, level, n), child(self.maps, new, level, n)];
            let [Ok(old), Ok(new)] = children else {
                let need = children.into_iter().find_map(std::result::Result::err);
                return Err(need.map_or(Stop::Enough, Stop::Need));
            };
            self.trees([old, new], level - 1, base + at, from.saturating_sub(at), (to - at).min(each))?;
        }
        Ok(())
    }

    fn leaves(
        &mut self,
        old: Tree,
        new: Tree,
        base: u64,
        from: u64,
        to: u64,
    ) -> std::result::Result<(), Stop> {
        let leaf = |tree: Tree| match tree.root.as_page() {
            Some(page) => self.maps.page(page).map(|node| **node).map_err(Stop::Need),
            None => Ok([tree.root; FAN]),
        };
        let (old, new) = (leaf(old)?, leaf(new)?);
        for block in from..to {
            let [old, new] = [old, new].map(|node| self.maps.resolve(node[block as usize]));
            if old == new {
                self.reached = base + block + 1;
            } else {
                self.add(base + block, 1, new)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, block: u64, count: u64, entry: Entry) -> std::result::Result<(), Stop> {
        let full = self.found.len() == self.max;
        match self.found.last_mut() {
            Some((from, before, mapped)) if *from + *before == block && *mapped == entry.is_mapped() => {
                *before += count;
            }
            _ if full => return Err(Stop::Enough),
            _ => self.found.push((block, count, entry.is_mapped())),
        }
        if let Kind::Slot(slot) = entry.kind() {
            self.batch = self.batch.max(slot.batch);
        }
        self.reached = block + count;
        Ok(())
    }
}

impl State {
    /// Whether two volumes have the same content in a run of blocks, by their maps.
    pub fn are_equal(&self, volumes: [u32; 2], block: u64, count: u64) -> std::result::Result<bool, Refusal> {
        let [old, new] = volumes.map(|volume| Self::check(self.volume(volume)?, block, count));
        let (old, new) = (old?, new?);
        let mut walk =
            Walk { maps: &self.maps, reached: block, pages: usize::MAX, max: 0, found: Vec::new(), batch: 0 };
        match walk.trees([old, new], old.level.max(new.level), 0, block, block + count) {
            Ok(()) => Ok(true),
            Err(Stop::Enough) => Ok(false),
            Err(Stop::Need(need)) => Err(need.into()),
        }
    }
}

impl Engine {
    /// The difference of disk `new` from disk `old`, or from a disk where nothing is mapped, from logical block
    /// `from` on, in at most `max` runs. The work of one call is bounded: the result may be shorter, or empty, and
    /// says where to continue. Between two snapshots the results together are exact; of a disk that changes during the calls
    /// each call sees the state at that moment.
    ///
    /// # Errors
    /// [`Error::Deleted`] if a disk does not exist, [`Error::Malformed`] if the block lengths differ or `max` is zero.
    pub async fn diff(&self, old: Option<DiskId>, new: DiskId, from: u64, max: usize) -> Result<Difference> {
        let new = self.number(new).await?;
        let old = match old {
            Some(old) => Some(self.number(old).await?),
            None => None,
        };
        if max == 0 {
            return Err(Error::Malformed("a difference of no runs"));
        }
        let mut part = Difference { regions: Vec::new(), next: Some(from) };
        for _ in 0..MAX_STEPS_PER_CALL {
            let Some(from) = part.next.filter(|_| part.regions.len() < max) else { break };
            match self.core.diff_step(old, new, from, max - part.regions.len()) {
                Ok(step) => part.append(self.core.durable(step).await?),
                Err(Blocked::Error(error)) => return Err(error),
                Err(blocked) => self.core.unblock(blocked, &mut Fetched::default()).await?,
            }
        }
        Ok(part)
    }
}

impl Difference {
    fn append(&mut self, more: Self) {
        self.next = more.next;
        for region in more.regions {
            match self.regions.last_mut() {
                Some(last) if last.extent.end() == Some(region.extent.lba) && last.state == region.state => {
                    last.extent.blocks += region.extent.blocks;
                }
                _ => self.regions.push(region),
            }
        }
    }
}

impl Core {
    fn diff_step(
        &self,
        old: Option<u32>,
        new: u32,
        from: u64,
        max: usize,
    ) -> std::result::Result<Observed<Difference>, Blocked> {
        let state = self.state.read();
        let newer = state.volume(new)?;
        let each = u64::from(newer.geometry.block_bytes);
        let (mut tree, mut batch) = (Tree { root: Entry::UNMAPPED, level: 0 }, newer.changed);
        if let Some(old) = old {
            let older = state.volume(old)?;
            if older.geometry.block_bytes != newer.geometry.block_bytes {
                return Err(Error::Malformed("difference between different block lengths").into());
            }
            (tree, batch) = (older.tree, batch.max(older.changed));
        }
        let per_block = BLOCK as u64 / each;
        let (first, end) = (from / per_block, VolumeState::blocks(newer.geometry));
        if first >= end {
            return Ok(Observed { what: Difference::default(), batch, marked: false });
        }
        let maps = &state.maps;
        let mut walk = Walk {
            maps,
            reached: first,
            pages: self.options.tunables.diff_pages,
            max,
            found: Vec::new(),
            batch,
        };
        let level = tree.level.max(newer.tree.level);
        match walk.trees([tree, newer.tree], level, 0, first, end) {
            Err(Stop::Need(need)) if walk.reached == first => return Err(need.into()),
            _ => {}
        }
        let region = |(block, count, mapped): (u64, u64, bool)| {
            let to = ((block + count) * per_block).min(newer.geometry.blocks);
            let state = if mapped { Provisioning::Mapped } else { Provisioning::Deallocated };
            Region { extent: Extent::new(block * per_block, to - block * per_block), state }
        };
        let next = (walk.reached < end).then_some(walk.reached * per_block);
        let regions = walk.found.into_iter().map(region).collect();
        Ok(Observed { what: Difference { regions, next }, batch: walk.batch, marked: false })
    }
}
