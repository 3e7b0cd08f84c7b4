//! The check names every kind of damage, continues after it, and changes nothing.

use crate::support::{Dice, MemShelf, World, data, options};
use block::{DiskId, Extent, Op};

/// A shelf with volumes, a snapshot, shared frames and a journal after the last checkpoint, and its bytes of data.
fn shelf(clean: bool) -> (std::sync::Arc<MemShelf>, Vec<u8>) {
    let mut dice = Dice::new(9);
    let mut world = World::open(MemShelf::small());
    world.create(1, 512, 1 << 30);
    world.create(2, 4096, 1 << 30);
    let noise = dice.bytes(128 << 10);
    world.write(1, 0, &noise);
    world.write(2, 700, &noise);
    world.write(1, 1 << 20, &noise[..64 << 10]);
    let engine = world.engine.clone();
    world.run(engine.snapshot(&[(DiskId(1), DiskId(3))], &[], 1, 0)).expect("taken");
    world.settle();
    world.write(1, 64, &dice.bytes(8192));
    world.execute(2, Op::Fill { extent: Extent::new(3000, 900), block: data(&[0; 4096]) }).expect("filled");
    if clean {
        world.run(engine.shutdown()).expect("shut down");
    }
    drop(engine);
    (world.shelf.crash(&mut dice), noise)
}

fn check(shelf: std::sync::Arc<MemShelf>) -> Vec<String> {
    let mut world = World::open(shelf);
    let engine = world.engine.clone();
    world.run(async move { engine.check().await }).expect("checked")
}

#[test]
fn a_whole_shelf_has_no_defects() {
    for clean in [true, false] {
        assert_eq!(check(shelf(clean).0), [""; 0]);
    }
}

#[test]
fn a_changed_byte_of_any_object_is_found() {
    let (shelf, _) = shelf(true);
    let objects = shelf.objects();
    let mut kinds = std::collections::BTreeSet::new();
    for (segment, offset, kind, len) in objects {
        for at in [offset + 9, offset + len - 1] {
            let damaged = shelf.crash(&mut Dice::new(1));
            damaged.flip(segment, at);
            let world = World::try_open(damaged, options());
            // Catalog, root and page indexes are read on opening, which then fails.
            let Ok(mut world) = world else {
                assert!(matches!(kind, 4..=7), "kind {kind}");
                kinds.insert(kind);
                continue;
            };
            let engine = world.engine.clone();
            let defects = world.run(async move { engine.check().await }).expect("checked");
            if !defects.is_empty() {
                let word = ["", "frame", "map page", "frame table page"][usize::from(kind)];
                let place = format!("segment {segment}, offset {offset}");
                let named = |defect: &String| defect.starts_with(word) && defect.contains(&place);
                assert!(defects.iter().any(named), "kind {kind} at {place}: {defects:#?}");
                kinds.insert(kind);
            }
        }
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_check_goes_on_after_a_defect() {
    let (shelf, noise) = shelf(true);
    assert_eq!(shelf.corrupt(&noise[5000..5100]), 1);
    assert_eq!(shelf.corrupt(&noise[100_000..100_100]), 1);
    let defects = check(shelf);
    assert_eq!(defects.len(), 2, "{defects:#?}");
    assert!(defects.iter().all(|defect| defect.starts_with("frame ")), "{defects:#?}");
}

#[test]
fn checking_writes_nothing() {
    let (shelf, _) = shelf(false);
    let before = shelf.export();
    shelf.fail();
    assert_eq!(check(shelf.clone()), [""; 0]);
    assert!(shelf.export() == before);
}
