//! What this crate adds to a read that memory can answer: `cargo bench -p scsi`.

use block::{Disk, DiskId, Geometry, Op, Pending, Reply, Space};
use bytes::Bytes;
use export::Exports;
use scsi::{
    Clock, Command, Data, Direction, Execution, InitiatorPort, Lun, Sleep, Status, Target, TargetIdentity,
    TaskAttribute,
};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Answers every read with the same bytes.
struct Cached(Bytes);

impl Disk for Cached {
    fn id(&self) -> DiskId {
        DiskId(1)
    }

    fn geometry(&self) -> Geometry {
        Geometry { block_bytes: 512, blocks: 1 << 30 }
    }

    fn space(&self) -> Space {
        Space::default()
    }

    fn state(&self) -> Bytes {
        Bytes::new()
    }

    fn execute(&self, op: Op) -> Pending {
        match op {
            Op::Read(_) => Pending::ready(Ok(Reply::Data(self.0.clone().into()))),
            _ => Pending::later(async { Ok(Reply::Done) }),
        }
    }
}

/// The time of the system.
struct System(Instant);

impl Clock for System {
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn sleep_until(&self, _: u64) -> Sleep {
        Box::pin(std::future::pending())
    }
}

fn main() {
    let name = "iqn.2025-01.org.example:array".to_owned();
    let (vendor, product, revision) = ("ASHLAR".into(), "ALL-FLASH ARRAY".into(), "0".into());
    let clock = Arc::new(System(Instant::now()));
    let exports = Exports::new(clock);
    let target = Target::new(
        TargetIdentity { name, vendor, product, revision, ports: 1.into() },
        exports.clone(),
        [7; 32],
    );
    exports.add_volume(Arc::new(Cached(Bytes::from(vec![1; 4096]))));
    exports.set_mappings("a", BTreeMap::from([(0, DiskId(1))]));
    let nexus = target.attach(InitiatorPort::iscsi("a", [0; 6]), 1);
    let command = |opcode: u8, data: &Data| Command {
        tag: 1,
        lun: Lun([0; 8]),
        cdb: Bytes::from_static(match opcode {
            0x28 => &[0x28, 0, 0, 0, 0, 9, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0],
            _ => &[0x2A, 0, 0, 0, 0, 9, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0],
        }),
        attribute: TaskAttribute::Simple,
        direction: if opcode == 0x28 { Direction::In } else { Direction::Out },
        data_out: data.clone(),
        data_in_limit: 4096,
    };
    black_box(nexus.execute(command(0x28, &Data::new()))); // takes the unit attention
    let none = Data::new();
    measure("READ (10), 4 KiB", || match nexus.execute(command(0x28, &none)) {
        Execution::Done(response) => assert_eq!(response.status, Status::Good),
        Execution::Task(_) => panic!("a read from memory is answered at once"),
    });
    let block = Data::from(vec![2; 4096]);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    measure("WRITE (10), 4 KiB", || match nexus.execute(command(0x2A, &block)) {
        Execution::Done(_) => panic!("a write waits"),
        Execution::Task(mut task) => assert!(task.as_mut().poll(&mut context).is_ready()),
    });
}

fn measure(name: &str, mut work: impl FnMut()) {
    const ROUNDS: u32 = 2_000_000;
    let start = Instant::now();
    (0..ROUNDS).for_each(|_| work());
    println!("{name}: {:.0} ns", start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
}
