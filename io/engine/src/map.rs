//! Volume maps: a copy-on-write radix tree of pages with 512 entries. Pages are shared between volumes and within
//! one; a page counts as one holder of everything that its entries name, however many share it. Changing a shared
//! page copies it. Dropping a tree takes one step; what was below is released in the background.

use crate::entry::{BlockId, Entry, FAN, Kind, Node, SlotId, blocks_under};
use crate::frame_table::{Absent, FrameTable};
use crate::inconsistency::Inconsistencies;
use crate::index_log::IndexLog;
use crate::page_index::{CHUNK, PageIndex, PageInfo};
use crate::pages::Pages;
use crate::slots::{SlotRuns, Slots};
use crate::space::{Location, Tally, Usage};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

/// A metadata page that must be read before the operation can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A page of a map.
    Map(u64),
    /// A page of the frame table.
    Table(u64),
    /// A map page that is named and does not exist: nothing can be read.
    Lost(u64),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Map(page) => write!(f, "map page {page}"),
            Self::Table(page) => write!(f, "page {page} of the frame table"),
            Self::Lost(page) => write!(f, "map page {page}, which does not exist,"),
        }
    }
}

impl From<Absent> for Need {
    fn from(Absent(page): Absent) -> Self {
        Need::Table(page)
    }
}

/// The root of a volume's tree and its height: a tree of level 0 is a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// A page, or `Unmapped` or `Zero` for everything.
    pub root: Entry,
    /// Height of the root above the blocks.
    pub level: u8,
}

impl Tree {
    /// The tree of a volume of `blocks` blocks where nothing is mapped.
    pub fn empty(blocks: u64) -> Self {
        Self {
            root: Entry::UNMAPPED,
            level: (0..).find(|level| blocks_under(*level) >= blocks).expect("64 bits"),
        }
    }
}

/// What a scan of a tree finds, in order.
pub enum Seen<'a> {
    /// A number of blocks that are all `Unmapped` or all `Zero`.
    Hole(Entry, u64),
    /// Blocks of one leaf.
    Blocks(&'a [Entry]),
}

/// New entries of a run of blocks. References have been counted by the caller, but for `Same`.
#[derive(Clone, Copy)]
enum Content<'a> {
    Hole(Entry),
    Lost,
    Slots(&'a SlotRuns),
    Same(Uniform<'a>),
    Entries(&'a [Entry]),
}

/// One slot for many blocks: where a whole page is set to it, the page is one that all such places share.
#[derive(Clone, Copy)]
struct Uniform<'a> {
    slot: SlotId,
    /// A page of each level, from the leaf up, with the slot in all blocks below it.
    pages: &'a [u64],
}

impl Content<'_> {
    fn at(&self, index: u64) -> Entry {
        match self {
            Content::Hole(entry) => *entry,
            Content::Lost => Entry::lost(),
            Content::Slots(runs) => Entry::slot(runs.get(index).expect("a slot for each block")),
            Content::Same(uniform) => Entry::slot(uniform.slot),
            Content::Entries(entries) => entries[index as usize],
        }
    }
}

/// A part of a copy, with its references counted.
enum Piece {
    Hole(Entry, u64),
    Entries(Vec<Entry>),
    Tree(Entry, u8),
}

/// All maps, with what their entries refer to.
#[derive(Default)]
pub struct Maps {
    /// Map pages in memory.
    pub nodes: Pages<Node>,
    /// Every map page.
    pub page_index: PageIndex,
    /// Pages that nothing refers to any more, whose entries have not been released yet.
    pub orphans: VecDeque<u64>,
    /// The frame table.
    pub table: FrameTable,
    /// Blocks in the journal.
    pub slots: Slots,
    /// Bytes in use.
    pub usage: Usage,
    /// The deduplication index in the log.
    pub index_log: IndexLog,
    /// Page numbers free for use, below `next_page`.
    pub free: Vec<u64>,
    /// The lowest page number never used.
    pub next_page: u64,
    /// Number of map pages, with those that wait to be released. Not every number below `next_page` that has no page is in
    /// `free`.
    pub page_count: u64,
    /// Map pages in the log name only slots of batches before this one.
    pub slots_before: u64,
    /// Inconsistencies found on media.
    pub inconsistencies: Inconsistencies,
}

/// The children of a page of `level` that `from..to` touches: index, and the part of the child's span.
pub fn children(level: u8, from: u64, to: u64) -> impl DoubleEndedIterator<Item = (usize, u64, u64)> {
    let each = blocks_under(level - 1);
    (from / each..to.div_ceil(each)).map(move |index| {
        let base = index * each;
        (index as usize, from.saturating_sub(base), (to - base).min(each))
    })
}

/// The deduplication index in the log, with the live bytes of its segments.
impl Maps {
    /// Notes an appended object.
    pub fn add_index_object(&mut self, location: Location) {
        self.usage.move_meta(Location::default(), location);
        self.index_log.add(location);
    }

    /// Notes that an object was moved.
    ///
    /// # Panics
    /// If there is no such object.
    pub fn move_index_object(&mut self, number: u64, to: Location) {
        let from = self.index_log.relocate(number, to);
        self.usage.move_meta(from, to);
    }

    /// Drops the objects with numbers below this one.
    pub fn drop_index_objects_before(&mut self, number: u64) {
        for location in self.index_log.take_before(number) {
            self.usage.move_meta(location, Location::default());
        }
    }

    /// Drops all objects. Every frame in the table is to be read after the next start.
    pub fn drop_index_objects(&mut self) {
        self.drop_index_objects_before(u64::MAX);
        self.index_log.unread = self.all_frame_pages();
    }

    /// The pages of the frame table.
    pub fn all_frame_pages(&self) -> Range<u64> {
        0..self.table.page_index.last().map_or(0, |page| page + 1)
    }
}

impl Maps {
    /// A page that is in memory.
    pub fn page(&self, page: u64) -> Result<&std::sync::Arc<Node>, Need> {
        self.nodes.get(page).ok_or_else(|| match self.page_index.get(page).location.is_none() {
            true => Need::Lost(page),
            false => Need::Map(page),
        })
    }

    /// Reads a tree from block `from` up to `to`.
    pub fn scan(&self, tree: Tree, from: u64, to: u64, see: &mut impl FnMut(Seen<'_>)) -> Result<(), Need> {
        let Some(page) = tree.root.as_page() else {
            see(Seen::Hole(tree.root, to - from));
            return Ok(());
        };
        let node = self.page(page)?;
        if tree.level == 0 {
            see(Seen::Blocks(&node[from as usize..to as usize]));
            return Ok(());
        }
        children(tree.level, from, to).try_for_each(|(index, from, to)| {
            self.scan(Tree { root: node[index], level: tree.level - 1 }, from, to, see)
        })
    }

    /// The entry of one block.
    pub fn get(&self, tree: Tree, block: u64) -> Result<Entry, Need> {
        let mut found = Entry::UNMAPPED;
        self.scan(tree, block, block + 1, &mut |seen| {
            found = match seen {
                Seen::Hole(entry, _) => entry,
                Seen::Blocks(entries) => entries[0],
            }
        })?;
        Ok(self.resolve(found))
    }

    /// The entry with a flushed slot replaced by the block that has its bytes.
    pub fn resolve(&self, entry: Entry) -> Entry {
        match entry.kind() {
            Kind::Slot(slot) => {
                self.slots.get(slot).and_then(|slot| slot.flushed).map_or(entry, Entry::block)
            }
            _ => entry,
        }
    }

    /// What is mapped in a tree.
    pub fn tally(&self, tree: Tree) -> Tally {
        match tree.root.as_page() {
            Some(page) => self.page_index.get(page).tally,
            None => Tally::of(tree.root) * blocks_under(tree.level),
        }
    }

    /// Bytes of the log that are freed when `from..to` is overwritten: the parts of frames that nothing else refers
    /// to. Only pages in memory are looked at.
    pub fn exclusive_bytes(&self, tree: Tree, from: u64, to: u64) -> u64 {
        let Some(page) = tree.root.as_page().filter(|page| self.page_index.get(*page).refs == 1) else {
            return 0;
        };
        let Some(node) = self.nodes.get(page) else { return 0 };
        if tree.level > 0 {
            let below = |(index, from, to)| {
                self.exclusive_bytes(Tree { root: node[index], level: tree.level - 1 }, from, to)
            };
            return children(tree.level, from, to).map(below).sum();
        }
        let share = |entry: &Entry| match self.resolve(*entry).kind() {
            Kind::Block(block) => {
                let frame = self.table.get(block.frame).ok().flatten();
                frame.filter(|frame| frame.refs(block.index) == 1).map_or(0, |frame| frame.share(block.index))
            }
            _ => 0,
        };
        node[from as usize..to as usize].iter().map(share).sum()
    }

    /// Fails unless every page is in memory that a change of `from..to` has to look into.
    pub fn probe_change(&self, tree: Tree, from: u64, to: u64) -> Result<(), Need> {
        self.probe_ends(tree, from, to, &mut Err)
    }

    /// The pages that a change of `from..to` has to look into and that are not in memory, as far as others do not hide them.
    pub fn missing_ends(&self, tree: Tree, from: u64, to: u64) -> Vec<Need> {
        let mut missing = Vec::new();
        // It notes all of them and fails at none.
        _ = self.probe_ends(tree, from, to, &mut |need| {
            missing.push(need);
            Ok(())
        });
        missing
    }

    /// Calls `absent` with every page at the ends of `from..to` that is not in memory, until it fails.
    fn probe_ends(
        &self,
        tree: Tree,
        from: u64,
        to: u64,
        absent: &mut impl FnMut(Need) -> Result<(), Need>,
    ) -> Result<(), Need> {
        let (Some(page), false) =
            (tree.root.as_page(), from == to || from == 0 && to == blocks_under(tree.level))
        else {
            return Ok(());
        };
        let node = match self.page(page) {
            Ok(node) => node,
            Err(need) => return absent(need),
        };
        if tree.level == 0 {
            return Ok(());
        }
        let mut touched = children(tree.level, from, to);
        touched.next().into_iter().chain(touched.next_back()).try_for_each(|(index, from, to)| {
            self.probe_ends(Tree { root: node[index], level: tree.level - 1 }, from, to, absent)
        })
    }

    /// Fails unless every page is in memory that a copy of `from..to` has to look into, if whole pages up to level
    /// `share` are shared.
    pub fn probe_copy(&self, tree: Tree, from: u64, to: u64, share: Option<u8>) -> Result<(), Need> {
        let shared = share >= Some(tree.level) && from == 0 && to == blocks_under(tree.level);
        let (Some(page), false) = (tree.root.as_page(), shared) else { return Ok(()) };
        let node = self.page(page)?;
        if tree.level == 0 {
            return Ok(());
        }
        children(tree.level, from, to).try_for_each(|(index, from, to)| {
            self.probe_copy(Tree { root: node[index], level: tree.level - 1 }, from, to, share)
        })
    }

    /// Makes `from..to` read as zeros: `Unmapped` or `Zero`.
    pub fn set_hole(&mut self, tree: &mut Tree, from: u64, to: u64, hole: Entry) {
        self.set_root(tree, from, to, Content::Hole(hole));
    }

    /// Points the blocks at `from` to as many slots in order. Each slot has one reference.
    pub fn set_slots(&mut self, tree: &mut Tree, from: u64, runs: &SlotRuns) {
        self.set_root(tree, from, from + runs.count(), Content::Slots(runs));
    }

    /// Points all of `from..to` to one slot, whose references are counted here: one for each entry of a leaf that names
    /// it. However long the run is, the pages in its middle are one page of each level, shared: WRITE SAME of terabytes
    /// takes a few pages.
    pub fn set_same(&mut self, tree: &mut Tree, from: u64, to: u64, slot: SlotId) {
        let pages = self.uniform_pages(tree.level, from, to, slot);
        self.set_root(tree, from, to, Content::Same(Uniform { slot, pages: &pages }));
        // The references under which they were made.
        pages.into_iter().for_each(|page| self.drop_tree(Entry::page(page)));
    }

    /// A page of each level that `from..to` covers whole somewhere, with `slot` in all blocks below it and one reference
    /// for the caller.
    fn uniform_pages(&mut self, top: u8, from: u64, to: u64, slot: SlotId) -> Vec<u64> {
        let mut pages: Vec<u64> = Vec::new();
        for level in 0..=top {
            let each = blocks_under(level);
            let end = from.div_ceil(each).checked_mul(each).and_then(|start| start.checked_add(each));
            if end.is_none_or(|end| end > to) {
                break;
            }
            let below = match pages.last() {
                None => {
                    self.slots.hold(slot, FAN as u64);
                    Entry::slot(slot)
                }
                Some(child) => {
                    self.page_index.edit(*child, |info| info.refs += FAN as u64);
                    Entry::page(*child)
                }
            };
            pages.push(self.create([below; FAN], Tally::of(Entry::slot(slot)) * each, level));
        }
        pages
    }

    /// Makes reading `from..to` an error. A page at its ends that is not in memory stays as it is.
    pub fn set_lost(&mut self, tree: &mut Tree, from: u64, to: u64) {
        self.set_root(tree, from, to, Content::Lost);
    }

    fn set_root(&mut self, tree: &mut Tree, from: u64, to: u64, content: Content<'_>) {
        if from < to {
            tree.root = self.set(*tree, from, to, content, 0);
        }
    }

    fn set(&mut self, tree: Tree, from: u64, to: u64, content: Content<'_>, skip: u64) -> Entry {
        let Tree { mut root, level } = tree;
        if from == 0 && to == blocks_under(level) {
            self.drop_tree(root);
            root = Entry::UNMAPPED;
            match content {
                Content::Hole(hole) => return hole,
                Content::Lost => return self.lost_tree(level),
                Content::Same(uniform) => {
                    let page = Entry::page(uniform.pages[usize::from(level)]);
                    self.share_tree(page);
                    return page;
                }
                Content::Slots(_) | Content::Entries(_) => {}
            }
        }
        if matches!(content, Content::Hole(hole) if hole == root) {
            return root;
        }
        if matches!(content, Content::Lost) && root.as_page().is_some_and(|page| self.page(page).is_err()) {
            return root;
        }
        let page = self.unshare(Tree { root, level });
        let mut tally = self.page_index.get(page).tally;
        if level == 0 {
            let (more, less) = self.set_leaf(page, from, to, content, skip);
            tally = tally + more - less;
        } else {
            let mut skip = skip;
            for (index, from, to) in children(level, from, to) {
                let old = Tree { root: self.node(page)[index], level: level - 1 };
                let less = self.tally(old);
                let new = Tree { root: self.set(old, from, to, content, skip), ..old };
                tally = tally + self.tally(new) - less;
                self.set_child(page, index, new.root);
                skip += to - from;
            }
        }
        self.set_tally(page, tally);
        if tally.mapped == 0 && self.is_vacant(page, level) {
            self.drop_tree(Entry::page(page));
            return Entry::UNMAPPED;
        }
        Entry::page(page)
    }

    /// Whether nothing is mapped in a page, whatever its count says.
    fn is_vacant(&self, page: u64, level: u8) -> bool {
        let vacant = |entry: &Entry| match entry.as_page().filter(|_| level > 0) {
            Some(child) => {
                // A page that is named and does not exist is lost, and must not read as zeros.
                let child = self.page_index.get(child);
                child.refs > 0 && child.tally.mapped == 0
            }
            None => !entry.is_mapped(),
        };
        self.node(page).iter().all(vacant)
    }

    /// Sets entries of a leaf; returns the counts of the new entries and of those that they replaced.
    fn set_leaf(&mut self, page: u64, from: u64, to: u64, content: Content<'_>, skip: u64) -> (Tally, Tally) {
        if let Content::Same(uniform) = content {
            self.slots.hold(uniform.slot, to - from);
        }
        let (mut more, mut less) = (Tally::default(), Tally::default());
        let mut old = smallvec::SmallVec::<[Entry; 32]>::new();
        let node = self.edit(page);
        for (n, entry) in node[from as usize..to as usize].iter_mut().enumerate() {
            let new = content.at(skip + n as u64);
            let before = std::mem::replace(entry, new);
            (more, less) = (more + Tally::of(new), less + Tally::of(before));
            if !before.is_hole() {
                old.push(before);
            }
        }
        old.into_iter().for_each(|entry| self.release(entry));
        (more, less)
    }

    fn set_tally(&mut self, page: u64, tally: Tally) {
        if self.page_index.get(page).tally != tally {
            self.page_index.edit(page, |info| info.tally = tally);
        }
    }

    fn set_child(&mut self, page: u64, index: usize, child: Entry) {
        if self.node(page)[index] != child {
            self.edit(page)[index] = child;
        }
    }

    fn node(&self, page: u64) -> &Node {
        self.nodes.get(page).expect("the operation was probed")
    }

    fn edit(&mut self, page: u64) -> &mut Node {
        let (node, fresh) = self.nodes.edit(page).expect("the operation was probed");
        if fresh {
            self.page_index.mark(page / CHUNK);
        }
        node
    }

    /// Adds a page that was read. It is one of the holders of the slots that it names.
    pub fn load(&mut self, page: u64, node: Node) {
        for entry in node.iter().filter(|entry| entry.is_slot()) {
            if let Kind::Slot(slot) = entry.kind()
                && !self.slots.is_held(slot)
            {
                self.slots.lose(slot);
            }
        }
        self.nodes.load(page, node);
    }

    /// Marks a page that is in memory to be written again.
    pub fn mark(&mut self, page: u64) {
        if self.nodes.get(page).is_some() {
            self.edit(page);
        }
    }

    /// Replaces flushed slots in a page by their permanent blocks, if the page is still as it was when they were
    /// looked up.
    pub fn settle(&mut self, page: u64, seen: &std::sync::Arc<Node>, resolved: &Node) {
        if !self.nodes.amend(page, seen, *resolved) {
            return;
        }
        let changed = seen.iter().zip(resolved).filter(|(before, after)| before != after);
        for (before, _) in changed {
            if let Kind::Slot(slot) = before.kind() {
                // The reference of the block was counted when the slot was flushed.
                self.slots.release(slot);
            }
        }
    }

    /// Replaces the slots of a leaf that have been flushed by their blocks.
    pub fn settle_leaf(&mut self, page: u64) {
        let Some(node) = self.nodes.get(page).filter(|_| self.page_index.get(page).level == 0) else {
            return;
        };
        let flushed = |maps: &Self, entry: Entry| entry.is_slot() && maps.resolve(entry) != entry;
        if !node.iter().any(|entry| flushed(self, *entry)) {
            return;
        }
        let node = **node;
        for (index, entry) in node.into_iter().enumerate() {
            if flushed(self, entry) {
                let block = self.resolve(entry);
                self.edit(page)[index] = block;
                if let Kind::Slot(slot) = entry.kind() {
                    // The reference of the block was counted when the slot was flushed.
                    self.slots.release(slot);
                }
            }
        }
    }

    /// References of a block whose page of the frame table is in memory; zero if it has none.
    pub fn refs_of(&self, block: BlockId) -> u64 {
        self.table.get(block.frame).ok().flatten().map_or(0, |frame| frame.refs(block.index))
    }

    /// Lets a leaf name another block with the same bytes, if it still names this one.
    pub fn rename(&mut self, page: u64, index: usize, block: BlockId, other: BlockId) {
        let named = self.nodes.get(page).is_some_and(|node| node[index] == Entry::block(block));
        if named && self.page_index.get(page).level == 0 {
            self.table.refer(other, 1, &mut self.usage);
            self.rename_new(page, index, block, other);
        }
    }

    /// Lets a leaf, which names a block, name another one, whose reference has been counted.
    pub fn rename_new(&mut self, page: u64, index: usize, block: BlockId, new: BlockId) {
        self.edit(page)[index] = Entry::block(new);
        self.table.refer(block, -1, &mut self.usage);
    }

    /// A page with the content of `tree` that has no other references; its references replace the caller's.
    fn unshare(&mut self, tree: Tree) -> u64 {
        let Some(page) = tree.root.as_page() else {
            return self.create([tree.root; FAN], self.tally(tree), tree.level);
        };
        let PageInfo { refs, tally, level, .. } = self.page_index.get(page);
        let found = self.nodes.get(page).map(|node| **node).filter(|_| level == tree.level);
        let Some(mut copy) = found else {
            self.inconsistencies
                .note(format_args!("map page {page} has another place in the tree, or is gone"));
            let lost = self.lost_tree(tree.level);
            return lost.as_page().unwrap_or_default();
        };
        if refs == 1 {
            return page;
        }
        for entry in &mut copy {
            match entry.as_page() {
                Some(child) if level > 0 => self.share_tree(Entry::page(child)),
                _ => *entry = self.retain(*entry),
            }
        }
        // A page that waits to be released, though an entry names it, is released all the same.
        self.page_index.edit(page, |info| info.refs = info.refs.saturating_sub(1));
        self.create(copy, tally, level)
    }

    /// A new tree of this level, all of whose blocks are lost.
    pub fn lost_tree(&mut self, level: u8) -> Entry {
        let mut below = Entry::lost();
        if level > 0 {
            below = self.lost_tree(level - 1);
            if let Some(child) = below.as_page() {
                self.page_index.edit(child, |info| info.refs = FAN as u64);
            }
        }
        let tally = Tally { mapped: blocks_under(level), zero: 0 };
        Entry::page(self.create([below; FAN], tally, level))
    }

    fn create(&mut self, node: Node, tally: Tally, level: u8) -> u64 {
        let page = self.free.pop().unwrap_or_else(|| {
            self.next_page += 1;
            self.next_page - 1
        });
        self.page_count += 1;
        self.nodes.create(page, node);
        self.page_index.edit(page, |info| *info = PageInfo { refs: 1, tally, level, ..PageInfo::default() });
        page
    }

    /// Counts one more holder of what an entry of a leaf names; returns the entry for that holder.
    fn retain(&mut self, entry: Entry) -> Entry {
        let entry = self.resolve(entry);
        match entry.kind() {
            Kind::Slot(slot) => self.slots.hold(slot, 1),
            Kind::Block(block) => self.table.refer(block, 1, &mut self.usage),
            Kind::Unmapped | Kind::Zero => {}
        }
        entry
    }

    fn release(&mut self, entry: Entry) {
        let block = match entry.kind() {
            Kind::Slot(slot) => self.slots.release(slot),
            Kind::Block(block) => Some(block),
            Kind::Unmapped | Kind::Zero => None,
        };
        if let Some(block) = block {
            self.table.refer(block, -1, &mut self.usage);
        }
    }

    /// Adds a reference to the root of a tree: a clone.
    pub fn share_tree(&mut self, root: Entry) {
        let Some(page) = root.as_page() else { return };
        if self.page_index.get(page).refs == 0 {
            self.inconsistencies.note(format_args!("map page {page} is named, but has no references"));
            return;
        }
        self.page_index.edit(page, |info| info.refs += 1);
    }

    /// Drops a reference to the root of a tree. If it was the last, the page waits to be released.
    pub fn drop_tree(&mut self, root: Entry) {
        let Some(page) = root.as_page() else { return };
        if self.page_index.get(page).refs == 0 {
            self.inconsistencies.note(format_args!("map page {page} is dropped, but has no references"));
            return;
        }
        let left = self.page_index.edit(page, |info| {
            info.refs -= 1;
            info.refs
        });
        if left == 0 {
            self.orphans.push_back(page);
        }
    }

    /// Releases what the oldest orphaned page refers to, and the page. False if there is none.
    pub fn release_orphan(&mut self) -> Result<bool, Need> {
        let Some(page) = self.orphans.front().copied() else { return Ok(false) };
        let node = *self.page(page)?.as_ref();
        self.orphans.pop_front();
        let leaf = self.page_index.get(page).level == 0;
        for entry in node {
            if leaf { self.release(entry) } else { self.drop_tree(entry) }
        }
        self.nodes.remove(page);
        let info = self.page_index.edit(page, std::mem::take);
        self.usage.move_meta(info.location, Location::default());
        self.free.push(page);
        self.page_count = self.page_count.saturating_sub(1);
        Ok(true)
    }

    /// Makes a tree higher until it can hold `blocks`.
    pub fn grow_height(&mut self, tree: &mut Tree, blocks: u64) {
        while blocks_under(tree.level) < blocks {
            let tally = self.tally(*tree);
            tree.level += 1;
            if tree.root != Entry::UNMAPPED {
                let mut node = [Entry::UNMAPPED; FAN];
                node[0] = tree.root;
                tree.root = Entry::page(self.create(node, tally, tree.level));
            }
        }
    }

    /// The highest level whose pages a copy from block `from` to block `to` can share.
    pub fn shareable(from: u64, to: u64) -> Option<u8> {
        (0..7).take_while(|level| from.abs_diff(to).is_multiple_of(blocks_under(*level))).last()
    }

    /// Copies `count` blocks from `from` of one tree to `to` of another, or the same, as if the source was read
    /// whole first.
    pub fn copy(&mut self, source: Tree, from: u64, target: &mut Tree, to: u64, count: u64) {
        if count == 0 {
            return;
        }
        let mut pieces = Vec::new();
        self.gather(source, from, from + count, Self::shareable(from, to), &mut pieces);
        self.set_hole(target, to, to + count, Entry::UNMAPPED);
        let mut at = to;
        for piece in pieces {
            at += match piece {
                Piece::Hole(hole, count) => {
                    self.set_hole(target, at, at + count, hole);
                    count
                }
                Piece::Entries(entries) => {
                    self.set_root(target, at, at + entries.len() as u64, Content::Entries(&entries));
                    entries.len() as u64
                }
                Piece::Tree(root, level) => {
                    target.root = self.graft(*target, at, Tree { root, level });
                    blocks_under(level)
                }
            };
        }
    }

    fn gather(&mut self, tree: Tree, from: u64, to: u64, share: Option<u8>, out: &mut Vec<Piece>) {
        let Some(page) = tree.root.as_page() else {
            out.push(Piece::Hole(tree.root, to - from));
            return;
        };
        if share >= Some(tree.level) && from == 0 && to == blocks_under(tree.level) {
            self.share_tree(tree.root);
            out.push(Piece::Tree(tree.root, tree.level));
            return;
        }
        if tree.level == 0 {
            let entries = self.node(page)[from as usize..to as usize].to_vec();
            out.push(Piece::Entries(entries.into_iter().map(|entry| self.retain(entry)).collect()));
            return;
        }
        for (index, from, to) in children(tree.level, from, to) {
            let child = Tree { root: self.node(page)[index], level: tree.level - 1 };
            self.gather(child, from, to, share, out);
        }
    }

    /// Puts a whole tree, whose reference is handed over, at a block aligned to its span.
    fn graft(&mut self, tree: Tree, at: u64, new: Tree) -> Entry {
        if tree.level == new.level {
            self.drop_tree(tree.root);
            return new.root;
        }
        let page = self.unshare(tree);
        let each = blocks_under(tree.level - 1);
        let index = (at / each) as usize;
        let old = Tree { root: self.node(page)[index], level: tree.level - 1 };
        let less = self.tally(old);
        let child = Tree { root: self.graft(old, at % each, new), ..old };
        let tally = self.page_index.get(page).tally + self.tally(child) - less;
        self.set_child(page, index, child.root);
        self.set_tally(page, tally);
        Entry::page(page)
    }
}

#[cfg(test)]
#[path = "map_test.rs"]
mod tests;
