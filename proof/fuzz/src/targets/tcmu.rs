//! Arbitrary bytes in the memory that the kernel shares with a device of TCMU: in its mailbox, in its ring, or in both.
//!
//! Bit 0 of the first byte chooses whether the mailbox comes from the input, too. Then come two bytes, the head in units of the
//! alignment, and the ring. What was taken of it is performed against disks in memory, and the head advances once more.

use crate::initiator::FastClock;
use block::mem::MemArray;
use block::{DiskId, Geometry};
use export::{Exports, InitiatorPort};
use scsi::{Target, TargetIdentity};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Waker};
use tcmu::{Area, Device, DeviceMemory, Ring};
use transport::Budget;

/// Where the ring begins, its length, and what comes after it.
const RING_AT: u32 = 128;
const RING_BYTES: u32 = 2048;
const DATA_BYTES: u32 = 16 << 10;
/// Bytes of the mailbox.
const MAILBOX_BYTES: usize = 68;
/// Small, since the model keeps a map entry for each block written.
const BLOCKS: u64 = 1 << 12;

fn device(ring: Ring, budget: Arc<Budget>) -> Device {
    let exports = Exports::new(Arc::new(FastClock::default()));
    let identity = TargetIdentity {
        name: "iqn.2026-01.test:target".into(),
        vendor: "ASHLAR".into(),
        product: "ALL-FLASH ARRAY".into(),
        revision: "0".into(),
        ports: 1.into(),
    };
    let (target, store) = (Target::new(identity, exports.clone(), [7; 32]), MemArray::new());
    for id in [1, 2] {
        exports.add_volume(Arc::new(store.create(DiskId(id), Geometry { block_bytes: 512, blocks: BLOCKS })));
    }
    let initiator = InitiatorPort::FibreChannel { wwpn: 0x2100_0024_FF00_0001 };
    exports.set_mappings(&initiator.host_name(), BTreeMap::from([(0, DiskId(1)), (1, DiskId(2))]));
    let nexus = Arc::new(target.attach(initiator, 1));
    let memory = DeviceMemory::open(budget, "host").expect("there is memory");
    Device::new(ring, nexus, 0, memory)
}

/// Puts bytes into the area, as far as they fit.
fn put(area: &Area, at: u32, bytes: &[u8], most: usize) {
    area.write(at.into(), &bytes[..bytes.len().min(most)]).expect("the place is in the area");
}

/// One input.
pub fn run(input: &[u8]) {
    let [choice, low, high, rest @ ..] = input else { return };
    let area = Area::in_memory((RING_AT + RING_BYTES + DATA_BYTES) as usize);
    let mut mailbox = [0; MAILBOX_BYTES];
    mailbox[..4].copy_from_slice(&[2, 0, 7, 0]);
    mailbox[4..8].copy_from_slice(&RING_AT.to_le_bytes());
    mailbox[8..12].copy_from_slice(&RING_BYTES.to_le_bytes());
    put(&area, 0, &mailbox, MAILBOX_BYTES);
    let ring = if choice & 1 == 0 { rest } else { rest.get(MAILBOX_BYTES..).unwrap_or_default() };
    put(&area, RING_AT, ring, RING_BYTES as usize);
    if choice & 1 != 0 {
        put(&area, 0, rest, MAILBOX_BYTES);
    } else {
        let head = u32::from(u16::from_le_bytes([*low, *high])) * 8 % RING_BYTES;
        area.store(12, head).expect("the head is in the area");
    }
    let budget = Arc::new(Budget::new(8 << 20));
    let Ok(ring) = Ring::open(area.clone()) else { return };
    let mut device = device(ring, budget.clone());
    // Each turn gives the kernel back what it may use again; the second time round the ring has responses in it.
    for head in [None, Some(0), Some(RING_BYTES / 2)] {
        if let Some(head) = head {
            area.store(12, head).expect("the head is in the area");
        }
        loop {
            match device.poll(&mut Context::from_waker(Waker::noop())) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_broken) => return,
            }
        }
    }
    assert!(budget.used() <= 8 << 20, "memory is bounded");
}
