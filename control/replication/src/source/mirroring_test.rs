//! Content of a copy that is read from a volume whose size changes during the read.

use super::*;
use block::{Error as DiskError, Extent, Geometry, Pending, Region, Space};
use parking_lot::Mutex;
use std::task::{Context, Waker};

/// A disk that shrinks with each read, by this number of blocks, down to a minimum.
struct Shrinking {
    blocks: Mutex<u64>,
    by: u64,
    least: u64,
}

impl Disk for Shrinking {
    fn id(&self) -> DiskId {
        DiskId(1)
    }

    fn geometry(&self) -> Geometry {
        Geometry { block_bytes: 4096, blocks: *self.blocks.lock() }
    }

    fn space(&self) -> Space {
        Space { mapped: 0, pool_used: 0, pool_total: 0 }
    }

    fn state(&self) -> Bytes {
        Bytes::new()
    }

    fn execute(&self, op: Op) -> Pending {
        let blocks = *self.blocks.lock();
        let check = |extent: Extent| match extent.end() {
            Some(end) if end <= blocks => Ok(()),
            _ => Err(DiskError::OutOfRange { extent, blocks }),
        };
        Pending::ready(match op {
            Op::Status(extent) => {
                // Between the look-up of the size and the effect of the read.
                let mut blocks = self.blocks.lock();
                *blocks = blocks.saturating_sub(self.by).max(self.least);
                let region = Region { extent, state: Provisioning::Mapped };
                check(extent).map(|()| Reply::Status(vec![region]))
            }
            Op::Read(extent) => {
                let bytes = vec![7; extent.blocks as usize * BLOCK_BYTES];
                check(extent).map(|()| Reply::Data(Bytes::from(bytes).into()))
            }
            _ => Err(DiskError::Malformed("only reads")),
        })
    }
}

fn read_all(blocks: u64, by: u64, least: u64) -> Result<Vec<(Part, u64)>> {
    let disk = Shrinking { blocks: Mutex::new(blocks), by, least };
    let (mut all, mut at) = (Vec::new(), 0);
    let mut all_of = pin!(async {
        while let Some((parts, count)) = read_next(&disk, at, blocks).await? {
            all.extend(parts);
            at += count;
        }
        Ok(all)
    });
    match all_of.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("the disk answers at once"),
    }
}

#[test]
fn what_is_left_of_a_volume_that_became_smaller_is_read() {
    let blocks = |found: Vec<(Part, u64)>| found.iter().map(|(_, blocks)| blocks).sum::<u64>();
    assert_eq!(blocks(read_all(300, 0, 300).unwrap()), 300);
    // Once, and repeatedly: the rest no longer exists.
    assert_eq!(blocks(read_all(100, 30, 70).unwrap()), 70);
    assert_eq!(blocks(read_all(100, 20, 10).unwrap()), 10);
    assert_eq!(blocks(read_all(40, 40, 0).unwrap()), 0);
}

#[test]
fn a_volume_whose_size_never_stays_the_same_ends_the_session() {
    let error = read_all(100, 1, 1).unwrap_err();
    assert!(matches!(error, Error::Unmirrored(why) if why.contains("size of a volume")), "{error}");
}
