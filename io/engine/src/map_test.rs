use super::*;
use crate::slots::Slot;

/// Maps where each block that is written has a slot of its own.
struct World {
    maps: Maps,
    next: u64,
}

impl World {
    fn new() -> Self {
        Self { maps: Maps { usage: Usage::new(1), ..Maps::default() }, next: 1 }
    }

    fn write(&mut self, tree: &mut Tree, block: u64) -> Entry {
        let id = SlotId { batch: self.next, page: 0 };
        self.next += 1;
        self.maps.slots.add(id, Slot { holders: 1, ..Slot::default() });
        let mut runs = SlotRuns::default();
        runs.push(id, 1);
        self.maps.set_slots(tree, block, &runs);
        Entry::slot(id)
    }

    fn at(&self, tree: Tree, block: u64) -> Entry {
        self.maps.get(tree, block).unwrap()
    }

    fn settle(&mut self) {
        while self.maps.release_orphan().unwrap() {}
    }

    fn slots(&self) -> usize {
        self.maps.slots.iter().count()
    }
}

const LEAF: u64 = FAN as u64;

#[test]
fn blocks_are_found_where_they_were_written() {
    let mut world = World::new();
    let mut tree = Tree::empty(1 << 30);
    assert_eq!(tree.level, 3);
    let far = (1 << 30) - 1;
    let (a, b) = (world.write(&mut tree, 5), world.write(&mut tree, far));
    assert_eq!((world.at(tree, 5), world.at(tree, far), world.at(tree, 6)), (a, b, Entry::UNMAPPED));
    assert_eq!(world.maps.tally(tree).mapped, 2);
    world.maps.set_hole(&mut tree, 0, 1 << 30, Entry::UNMAPPED);
    world.settle();
    assert_eq!((tree.root, world.slots(), world.maps.nodes.len()), (Entry::UNMAPPED, 0, 0));
}

#[test]
fn a_clone_shares_everything_until_one_side_changes() {
    let mut world = World::new();
    let mut tree = Tree::empty(LEAF * LEAF);
    let old = world.write(&mut tree, 7);
    let neighbour = world.write(&mut tree, 8);
    let mut clone = tree;
    world.maps.share_tree(clone.root);
    let new = world.write(&mut clone, 7);
    assert_eq!((world.at(tree, 7), world.at(clone, 7)), (old, new));
    assert_eq!(world.at(clone, 8), neighbour);
    assert_eq!((world.maps.tally(tree).mapped, world.maps.tally(clone).mapped), (2, 2));
    world.maps.drop_tree(tree.root);
    world.settle();
    assert_eq!(world.slots(), 2, "the old block 7 is gone");
    world.maps.drop_tree(clone.root);
    world.settle();
    assert_eq!((world.slots(), world.maps.nodes.len()), (0, 0));
}

#[test]
fn aligned_copies_share_leaves_and_others_share_blocks() {
    let mut world = World::new();
    let mut tree = Tree::empty(LEAF * LEAF);
    let written = world.write(&mut tree, LEAF + 3);
    let pages = world.maps.nodes.len();
    world.maps.copy(tree, LEAF, &mut tree.clone(), 2 * LEAF, 0);
    let source = tree;
    world.maps.copy(source, LEAF, &mut tree, 5 * LEAF, 2 * LEAF);
    assert_eq!(world.maps.nodes.len(), pages, "the leaf is shared");
    assert_eq!(world.at(tree, 5 * LEAF + 3), written);
    let source = tree;
    world.maps.copy(source, LEAF + 1, &mut tree, 9 * LEAF + 500, 30);
    assert_eq!(world.at(tree, 9 * LEAF + 502), written);
    assert_eq!(world.maps.tally(tree).mapped, 3);
    world.write(&mut tree, LEAF + 3);
    assert_eq!(world.at(tree, 5 * LEAF + 3), written, "the other holder of the leaf keeps it");
    world.maps.set_hole(&mut tree, 0, 10 * LEAF, Entry::UNMAPPED);
    world.settle();
    assert_eq!((world.slots(), world.maps.nodes.len()), (0, 0));
}

#[test]
fn an_overlapping_copy_reads_first() {
    let mut world = World::new();
    let mut tree = Tree::empty(LEAF * LEAF);
    let written: Vec<_> = (0..10).map(|block| world.write(&mut tree, block)).collect();
    let source = tree;
    world.maps.copy(source, 0, &mut tree, 3, 10);
    let now: Vec<_> = (3..13).map(|block| world.at(tree, block)).collect();
    assert_eq!(now, written);
}

#[test]
fn zeros_over_a_whole_subtree_take_no_page() {
    let mut world = World::new();
    let mut tree = Tree::empty(LEAF * LEAF * LEAF);
    world.write(&mut tree, 1000);
    world.maps.set_hole(&mut tree, 0, LEAF * LEAF, Entry::ZERO);
    assert_eq!(world.maps.tally(tree).mapped, LEAF * LEAF);
    world.maps.set_hole(&mut tree, 5, 6, Entry::UNMAPPED);
    assert_eq!(world.maps.tally(tree).mapped, LEAF * LEAF - 1);
    assert_eq!((world.at(tree, 4), world.at(tree, 5)), (Entry::ZERO, Entry::UNMAPPED));
    world.settle();
    assert_eq!((world.slots(), world.maps.nodes.len()), (0, 3), "the root, and the path to block 5");
}

#[test]
fn a_tree_grows_in_height_with_its_content() {
    let mut world = World::new();
    let mut tree = Tree::empty(100);
    let written = world.write(&mut tree, 99);
    world.maps.grow_height(&mut tree, 1 << 40);
    assert_eq!(world.at(tree, 99), written);
    assert_eq!(world.at(tree, 1 << 39), Entry::UNMAPPED);
    assert_eq!(world.maps.tally(tree).mapped, 1);
}

#[test]
fn a_page_that_refers_to_a_missing_slot_can_be_shared_overwritten_and_released() {
    let mut world = World::new();
    let mut tree = Tree::empty(LEAF);
    let (gone, kept) = (world.write(&mut tree, 3), world.write(&mut tree, 4));
    let page = tree.root.as_page().unwrap();
    let node = **world.maps.nodes.get(page).unwrap();
    let Kind::Slot(slot) = gone.kind() else { panic!("it is a slot") };
    world.maps.slots.release(slot);
    world.maps.nodes.remove(page);
    world.maps.load(page, node);
    assert!(world.maps.slots.is_lost(slot));
    let mut clone = tree;
    world.maps.share_tree(clone.root);
    world.write(&mut clone, 9);
    assert_eq!([3, 4].map(|block| world.at(clone, block)), [gone, kept]);
    world.write(&mut tree, 3);
    for mut tree in [tree, clone] {
        world.maps.set_hole(&mut tree, 0, LEAF, Entry::UNMAPPED);
    }
    world.settle();
    assert_eq!(world.slots(), 0);
}
