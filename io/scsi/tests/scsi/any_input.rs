//! Random commands and data: every command completes, and nothing panics.

use crate::host::{Array, Host};
use scsi::{Execution, ManagementFunction};

/// A deterministic generator of pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ mixed >> 27
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        // Mostly small numbers, so that lengths and addresses are often right.
        let byte = |numbers: &mut Numbers| match numbers.below(3) {
            0 => numbers.next(),
            _ => numbers.below(4),
        };
        (0..length).map(|_| byte(self) as u8).collect()
    }
}

/// Operation codes and service actions that exist.
fn supported(host: &Host) -> Vec<(u8, u8)> {
    let data = host.command(&[0xA3, 0x0C, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0]).good();
    data[4..].chunks(8).map(|command| (command[0], command[3])).collect()
}

#[test]
fn random_commands_complete() {
    let array = Array::new();
    array.disk(1);
    let hosts = [array.host("a", 1), array.host("b", 2)];
    let supported = supported(&hosts[0]);
    let mut numbers = Numbers(42);
    for _ in 0..60_000 {
        let host = &hosts[numbers.below(2) as usize];
        let length = [6, 10, 12, 16, 16, 16, 1][numbers.below(7) as usize];
        let mut cdb = numbers.bytes(length);
        if numbers.below(20) > 0 {
            let (opcode, action) = supported[numbers.below(supported.len() as u64) as usize];
            cdb[0] = opcode;
            if let Some(byte) =
                cdb.get_mut(1).filter(|_| matches!(opcode, 0x5E | 0x5F | 0x83..=0x84 | 0x9E | 0xA3))
            {
                *byte = action;
            }
        }
        let blocks = numbers.below(5) as usize * 512;
        let odd = numbers.below(64) as usize;
        let length = [blocks, odd, 24, blocks + odd][numbers.below(4) as usize];
        let data = numbers.bytes(length);
        let execution = host.start(numbers.below(2) as u16, &cdb, &data);
        if numbers.below(50) == 0 {
            host.manage(ManagementFunction::LogicalUnitReset);
        }
        match execution {
            Execution::Task(task) if numbers.below(10) == 0 => drop(task),
            execution => drop(crate::host::wait(execution)),
        }
    }
    hosts[0].manage(ManagementFunction::LogicalUnitReset);
    hosts[0].take_unit_attentions();
}
