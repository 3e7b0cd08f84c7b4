use super::*;
use crate::stopped_clock::Stopped;
use block::mem::MemArray;
use block::{DiskId, Geometry};
use export::Exports;
use std::sync::Arc;

fn exports() -> Arc<Exports> {
    let (exports, store) = (Exports::new(Arc::new(Stopped)), MemArray::new());
    for (id, block_bytes) in [(1, 512), (2, 4096)] {
        exports.add_volume(Arc::new(store.create(DiskId(id), Geometry { block_bytes, blocks: 100 })));
    }
    exports
}

#[test]
fn there_is_a_device_for_each_volume_initiator_port_and_target_port() {
    let exports = exports();
    exports
        .set_mappings("00:00:00:00:00:00:00:a1", [(0, DiskId(1)), (300, DiskId(2)), (4, DiskId(9))].into());
    exports.set_mappings("00:00:00:00:00:00:00:a2", [(0, DiskId(1))].into());
    exports.set_mappings("iqn.2026-11.test:host", [(0, DiskId(1))].into());
    exports.set_mappings("00000000000000a3", [(0, DiskId(1))].into());
    let plan = exports.read(|registry| Plan::of(registry, &[0xF1, 0xF2]));
    let device = |initiator, lun, disk, port| DeviceName { initiator, port, lun, disk };
    let expected = [
        device(0xA1, 0, 1, 0xF1),
        device(0xA1, 300, 2, 0xF1),
        device(0xA1, 0, 1, 0xF2),
        device(0xA1, 300, 2, 0xF2),
        device(0xA2, 0, 1, 0xF1),
        device(0xA2, 0, 1, 0xF2),
    ];
    assert_eq!(plan.devices.keys().copied().collect::<BTreeSet<_>>(), expected.into());
    assert_eq!(plan.devices[&expected[1]], Wanted { block_bytes: 4096, bytes: 409_600 });
    exports.remove_mappings("00:00:00:00:00:00:00:a2");
    let plan = exports.read(|registry| Plan::of(registry, &[0xF1]));
    assert_eq!(plan.superfluous(&expected.into()), [expected[2], expected[3], expected[4], expected[5]]);
}

#[test]
fn devices_beyond_the_limit_are_left_out_and_counted() {
    let exports = exports();
    exports.set_mappings("00:00:00:00:00:00:00:a1", [(0, DiskId(1)), (1, DiskId(2))].into());
    let ports: Vec<u64> = (1..=513).collect();
    let plan = exports.read(|registry| Plan::of(registry, &ports));
    assert_eq!((plan.devices.len(), plan.left_out), (MAX_DEVICES, 2));
}

#[test]
fn the_name_of_a_device_is_found_again_and_no_other() {
    let name = DeviceName { initiator: 0x2100_0024_FF00_0001, port: u64::MAX, lun: 16_383, disk: u128::MAX };
    let text = name.text("ab12");
    assert_eq!(DeviceName::parse(&text, "ab12"), Some(name));
    for other in ["ab1", "ab123", "", "b12"] {
        assert_eq!(DeviceName::parse(&text, other), None, "{other}");
    }
    for bad in [&text[..text.len() - 1], &text.to_uppercase(), &format!("{text}-1"), "ashlar-ab12-", ""] {
        assert_eq!(DeviceName::parse(bad, "ab12"), None, "{bad}");
    }
}
