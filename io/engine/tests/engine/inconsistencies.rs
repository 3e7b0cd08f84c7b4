//! Inconsistent media whose checksums hold: nothing panics, nothing runs forever, no volume gets the data of another,
//! and a repair leaves no defect.

use crate::support::inconsistent::{LAYOUT, Model, array, bounds, content, read_all, use_all};
use crate::support::{Dice, MemShelf, World};
use block::{Disk, Error, Extent, Op, Reply};
use engine::Engine;
use engine::media::{TARGETS, Target, tamper};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Runs a future over a shelf in memory, which never waits.
pub fn ready<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..100_000 {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("it runs forever")
}

/// What is still wrong after a repair.
fn mended(shelf: &MemShelf, model: &Model, seed: u64) -> Vec<String> {
    let shelf = shelf.crash(&mut Dice::new(1));
    shelf.limit_reads(300_000);
    let (engine, found) = match ready(Engine::open_leniently(shelf.clone(), bounds())) {
        Ok(opened) => opened,
        Err(error) => return vec![format!("unrepairable: {error}")],
    };
    let _ = ready(engine.check()).expect("checked");
    let repair = ready(engine.repair(found, &mut |_| {})).expect("repaired");
    ready(engine.write_repair()).expect("written");
    drop(engine);
    let shelf = shelf.crash(&mut Dice::new(1));
    let mut world = match World::try_open(shelf, bounds()) {
        Ok(world) => world,
        Err(error) => return vec![format!("refused after repair: {error}")],
    };
    let mut notes = world.engine.inconsistencies();
    let engine = world.engine.clone();
    notes.extend(world.run(async move { engine.check().await }).expect("checked"));
    notes.truncate(4);
    let seen = read_all(&mut world, model);
    if seen.lost > 0 && repair.lost.is_empty() && repair.defects.is_empty() {
        notes.push("blocks are lost without a word".into());
    }
    notes.extend(seen.defects.iter().take(3).map(|defects| format!("wrong: {defects:?}")));
    let mut model = model.clone();
    use_all(&mut world, &mut model, seed);
    let engine = world.engine.clone();
    notes.extend(world.run(async move { engine.check().await }).expect("checked"));
    notes.truncate(8);
    notes.into_iter().map(|note| format!("after repair: {note}")).collect()
}

/// A copy of a shelf with one thing changed.
fn tampered(shelf: &MemShelf, target: Target, dice: &mut Dice) -> (Arc<MemShelf>, String) {
    let shelf = shelf.crash(&mut Dice::new(1));
    let what = ready(tamper(shelf.clone(), target, &mut |end| dice.below(end))).expect("tampered");
    (shelf.crash(&mut Dice::new(1)), what)
}

fn life(shelf: &MemShelf, model: &Model, seed: u64) -> Vec<String> {
    let mut notes = Vec::new();
    let shelf = shelf.crash(&mut Dice::new(1));
    shelf.limit_reads(300_000);
    let mut world = match World::try_open(shelf, bounds()) {
        Ok(world) => world,
        Err(error) => return vec![format!("refused: {error}")],
    };
    let mut model = model.clone();
    for round in 0..2 {
        let seen = read_all(&mut world, &model);
        notes.extend(seen.defects.iter().take(3).map(|defects| format!("wrong {round}: {defects:?}")));
        use_all(&mut world, &mut model, seed + round);
        let engine = world.engine.clone();
        let _ = world.run(async move { engine.check().await });
    }
    let seen = read_all(&mut world, &model);
    notes.extend(seen.defects.iter().take(3).map(|defects| format!("wrong at last: {defects:?}")));
    let engine = world.engine.clone();
    let _ = world.run(engine.shutdown());
    let shelf = world.shelf.crash(&mut Dice::new(1));
    drop(world);
    if let Ok(mut world) = World::try_open(shelf, bounds()) {
        read_all(&mut world, &model);
    }
    notes
}

/// Runs cases `from..to`; returns what went wrong, by what it was.
fn run(from: u64, to: u64) -> BTreeMap<String, Vec<String>> {
    let (shelf, model) = array(7);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for seed in from..to {
        let mut dice = Dice::new(seed);
        let target = TARGETS[seed as usize % TARGETS.len()];
        let (changed, what) = tampered(&shelf, target, &mut dice);
        if std::env::var_os("SAY").is_some() {
            eprintln!("seed {seed}: {what}");
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut notes = life(&changed, &model, seed);
            notes.extend(mended(&changed, &model, seed));
            notes
        }));
        let what = format!("seed {seed}: {what}");
        match outcome {
            Ok(notes) => {
                for note in notes {
                    let kind: String = note.split(':').next().unwrap_or_default().into();
                    let kind = kind.split(' ').next().unwrap_or_default().to_owned();
                    found.entry(format!("~{kind} {target:?}")).or_default().push(format!("{what}: {note}"));
                }
            }
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                let at = LAST.with(|last| last.borrow().clone());
                found.entry(format!("{at} {}", text.unwrap_or_default())).or_default().push(what);
            }
        }
    }
    found
}

thread_local! {
    static LAST: std::cell::RefCell<String> = const { std::cell::RefCell::new(String::new()) };
}

#[test]
#[ignore = "by hand: many cases"]
fn many() {
    std::panic::set_hook(Box::new(|info| {
        let at = info.location().map_or(String::new(), |at| format!("{}:{}", at.file(), at.line()));
        LAST.with(|last| *last.borrow_mut() = at);
    }));
    let number =
        |name: &str, or: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or);
    let (from, to) = (number("FROM", 0), number("TO", 300));
    let found = run(from, to);
    for (what, cases) in &found {
        println!(
            "{:5} {what}\n        {}",
            cases.len(),
            cases.iter().take(3).cloned().collect::<Vec<_>>().join("\n        ")
        );
    }
}

/// Whether other bytes than were written may come from a change of this: its contents are what the volumes hold, or which block
/// has the bytes of the next write.
fn says_what_is_read(target: &str) -> bool {
    ["Map", "Catalog", "Superblock", "Root", "Index", "Journal"].contains(&target)
}

#[test]
fn whatever_media_say_nothing_panics_and_a_repair_leaves_nothing_to_find() {
    for (what, cases) in run(42, 60) {
        let kind = what.strip_prefix('~').unwrap_or_else(|| panic!("{what}: {cases:#?}"));
        let (kind, target) = kind.split_once(' ').expect("a kind and a target");
        match kind {
            "refused" | "unrepairable" => {}
            "wrong" => assert!(says_what_is_read(target), "{cases:#?}"),
            "after" => {
                let only_read = cases.iter().all(|case| case.contains("after repair: wrong:"));
                assert!(only_read && says_what_is_read(target), "{cases:#?}");
            }
            _ => panic!("{what}: {cases:#?}"),
        }
    }
}

#[test]
fn what_is_written_anew_as_it_was_is_in_order() {
    let (shelf, model) = array(7);
    let (same, _) = tampered(&shelf, Target::Nothing, &mut Dice::new(1));
    let mut world = World::open_with(same, bounds());
    let seen = read_all(&mut world, &model);
    assert_eq!((seen.lost, seen.defects), (0, Vec::new()));
    world.check();
}

/// After a crash there is always something that waits: to be released, to be counted, to be flushed.
#[test]
fn a_repair_of_a_sound_array_changes_nothing() {
    let (shelf, _) = array(7);
    let world = World::open_with(shelf, bounds());
    let volumes = world.engine.volumes();
    let deleted: Vec<_> = volumes.iter().step_by(2).map(|volume| volume.id()).collect();
    let engine = world.engine.clone();
    for id in deleted {
        // What it names is released in the background, which does not run any more.
        ready(engine.delete_volume(id, u64::MAX)).expect("deleted");
    }
    drop(engine);
    let shelf = world.shelf.crash(&mut Dice::new(1));
    drop(world);
    let (engine, found) = ready(Engine::open_leniently(shelf, bounds())).expect("opened");
    assert_eq!(ready(engine.repair(found, &mut |_| {})).expect("repaired"), engine::Repair::default());
    ready(engine.write_repair()).expect("written");
    assert_eq!(ready(engine.check()).expect("checked"), [""; 0]);
}

/// What begins recovery has no other copy: an opening that it ends says what and where it is, and what to do.
#[test]
fn a_refusal_says_what_is_wrong_where_and_what_to_do() {
    let (shelf, _) = array(7);
    let mut refused = BTreeSet::new();
    for seed in 0..150 {
        let target = [Target::Superblock, Target::Root, Target::Catalog][seed as usize % 3];
        let (changed, what) = tampered(&shelf, target, &mut Dice::new(seed));
        let Err(error) = World::try_open(changed, bounds()) else { continue };
        let text = error.to_string();
        let named = ["superblock", "root", "catalog", "index", "volume"];
        assert!(named.iter().any(|name| text.contains(name)), "{what}: {text}");
        let advice = ["connect them and start again", "`ashlard check --repair`"];
        assert!(advice.iter().any(|advice| text.contains(advice)), "{what}: {text}");
        if let Some(malformed) = text.strip_prefix("stopped: malformed ") {
            let place = ["superblock, of which all copies are the same", "at segment "];
            assert!(place.iter().any(|place| malformed.contains(place)), "{what}: {text}");
            refused.insert(malformed.split([',', ' ']).next().map(str::to_owned));
        }
    }
    assert_eq!(refused.len(), 3, "{refused:?}");
}

/// The journal has a write that could not be applied, as the index gives the leaf another level: its page at the root is refused. A
/// repair can read both, and must not return what was there before the write.
#[test]
fn a_repair_never_returns_what_was_before_a_write_that_could_not_be_applied() {
    let [old, new] = [1000, 2000].map(|first| (first..first + 8).flat_map(content).collect::<Vec<u8>>());
    let mut world = World::open_with(MemShelf::new(LAYOUT), bounds());
    world.create(1, 4096, 1 << 30);
    world.write(1, 5, &old);
    world.settle();
    let engine = world.engine.clone();
    world.run(engine.shutdown()).expect("shut down");
    let mut world = World::open_with(world.shelf.crash(&mut Dice::new(1)), bounds());
    world.write(1, 5, &new);
    let shelf = world.shelf.crash(&mut Dice::new(1));

    // Of each page: a byte, a location of three numbers, three numbers, and the byte with its level.
    let level_to_2 = |field: u64| {
        let mut picks = [0, 0, field, 0, 13, 2 << 1].into_iter();
        let shelf = shelf.crash(&mut Dice::new(1));
        let what = ready(tamper(shelf.clone(), Target::MapIndex, &mut |_| picks.next().unwrap_or(0)));
        (shelf.crash(&mut Dice::new(1)), what.expect("tampered"))
    };
    let of_leaf = |what: &str| what.contains("from 0 to 4") || what.contains("from 1 to 4");
    let leaf = [7, 15].map(level_to_2).into_iter().find(|(_, what)| of_leaf(what));
    let (shelf, what) = leaf.expect("a leaf and a root");
    let (engine, found) = ready(Engine::open_leniently(shelf.clone(), bounds())).expect("opened");
    let repair = ready(engine.repair(found, &mut |_| {})).expect("repaired");
    ready(engine.write_repair()).expect("written");
    drop(engine);
    let mut world = World::open_with(shelf.crash(&mut Dice::new(1)), bounds());
    world.check();
    for block in 5..13 {
        let at = Extent::new(block, 1);
        let is_listed = repair.lost.iter().any(|loss| loss.extents.iter().any(|known| known.overlaps(&at)));
        match world.execute(1, Op::Read(at)) {
            Ok(Reply::Data(data)) => {
                let wanted = &new[(block as usize - 5) * 4096..][..4096];
                assert!(data.to_bytes()[..] == *wanted, "{what}: block {block} is out of date");
            }
            Err(Error::Medium { .. }) => assert!(is_listed, "{what}: block {block}"),
            other => panic!("{what}: block {block} is answered {other:?}"),
        }
    }
}
