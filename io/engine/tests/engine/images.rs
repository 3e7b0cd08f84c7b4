//! Images: the content of a volume at one moment, for as long as it is held.

use crate::support::{Dice, MemShelf, World};
use block::{CopySegment, DiskId, Error, Extent, Image, Op, Reply};

fn image(world: &mut World, of: u128) -> Image {
    match world.execute(of, Op::Image) {
        Ok(Reply::Image(image)) => image,
        other => panic!("no image: {other:?}"),
    }
}

/// A copy of the first `blocks` blocks of a disk to a volume.
fn copy(source: DiskId, target: u128, blocks: u64) -> Op {
    let target = DiskId(target);
    Op::Copy(vec![CopySegment { source, source_lba: 0, target, target_lba: 0, blocks }])
}

fn world() -> (World, Dice, Vec<u8>) {
    let (mut world, mut dice) = (World::open(MemShelf::small()), Dice::new(1));
    world.create(1, 512, 8 << 20);
    world.create(2, 512, 8 << 20);
    let first = dice.bytes(256 << 10);
    world.write(1, 0, &first);
    (world, dice, first)
}

#[test]
fn an_image_is_the_volume_of_one_moment() {
    let (mut world, mut dice, first) = world();
    let image = image(&mut world, 1);
    world.write(1, 3, &dice.bytes(64 << 10));
    let engine = world.engine.clone();
    assert_eq!(
        world.run(image.0.execute(Op::Unmap(vec![Extent::new(0, 8)]))).map(drop),
        Err(Error::ReadOnly)
    );
    world.execute(2, copy(image.0.id(), 2, 512)).expect("copied");
    assert_eq!(world.read(2, 0, 512), first);
    assert_eq!(engine.disks().len(), 2, "no list shows it");
    world.run(engine.delete_volume(DiskId(1), 0)).expect("deleted");
    world.write(2, 0, &[0; 4096]);
    world.execute(2, copy(image.0.id(), 2, 512)).expect("it stays without its volume");
    assert_eq!(world.read(2, 0, 512), first);
}

#[test]
fn an_image_ends_with_its_last_holder_and_with_the_engine() {
    let (mut world, mut dice, _) = world();
    let first = image(&mut world, 1);
    let id = first.0.id();
    let second = image(&mut world, 1);
    assert_eq!(second.0.id(), id, "nothing changed in between");
    world.write(1, 0, &dice.bytes(4096));
    let third = image(&mut world, 1);
    assert_ne!(third.0.id(), id);
    drop(first);
    world.execute(2, copy(id, 2, 8)).expect("the second holds it");
    drop(second);
    world.settle();
    assert_eq!(world.execute(2, copy(id, 2, 8)).map(drop), Err(Error::Unreachable(id)));
    let id = third.0.id();
    let mut world = world.crash(&mut dice);
    world.settle();
    assert_eq!(world.execute(2, copy(id, 2, 8)).map(drop), Err(Error::Unreachable(id)));
}
