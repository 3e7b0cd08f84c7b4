//! Media with valid checksums and inconsistent contents: open, I/O, check and repair complete, with or without errors, and
//! after a repair a check finds nothing.
//!
//! The first byte selects what is changed, whether the array is encrypted, and whether it was shut down cleanly; the
//! others select how.

use crate::array::{self, Array, World, options, use_all};
use engine::Engine;
use engine::media::{TARGETS, tamper};
use std::sync::OnceLock;

/// One input.
pub fn run(bytes: &[u8]) {
    static ARRAYS: OnceLock<[Array; 4]> = OnceLock::new();
    let arrays = ARRAYS.get_or_init(|| {
        [(false, false), (true, false), (false, true), (true, true)]
            .map(|(encrypted, stopped)| Array::new(encrypted, stopped))
    });
    let Some((choice, rest)) = bytes.split_first() else { return };
    let array = &arrays[usize::from(choice >> 6)];
    let tampered = || {
        array.restore();
        let mut numbers = rest.iter();
        let mut pick = |end: u64| {
            let word = (0..3).fold(0, |word, _| word << 8 | u64::from(numbers.next().copied().unwrap_or(0)));
            word % end
        };
        let shelf = array.open(3).expect("opened");
        let target = TARGETS[usize::from(choice & 63) % TARGETS.len()];
        array::run(tamper(shelf, target, &mut pick)).is_ok()
    };
    if !tampered() {
        return;
    }
    if let Ok(mut world) = World::open(array.open(4).expect("opened")) {
        use_all(&mut world);
        let engine = world.engine.clone();
        let _ = world.run(engine.check());
        let _ = world.shut_down();
    }
    tampered();
    let Ok((engine, found)) = array::run(Engine::open_leniently(array.open(4).expect("opened"), options()))
    else {
        return;
    };
    array::run(engine.repair(found, &mut |_| {})).expect("repaired");
    array::run(engine.write_repair()).expect("written");
    drop(engine);
    let mut world = World::open(array.open(5).expect("opened")).expect("opened after a repair");
    let engine = world.engine.clone();
    assert_eq!(world.run(engine.check()).expect("checked"), [""; 0]);
    use_all(&mut world);
    assert_eq!(world.run(engine.check()).expect("checked"), [""; 0]);
}
