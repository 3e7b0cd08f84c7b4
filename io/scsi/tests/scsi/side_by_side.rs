//! Hosts on separate threads: every task completes and is woken, even if hosts abort each other's tasks.

use crate::host::{Array, BLOCK, BLOCKS, Host, long, pattern};
use block::mem::MemDisk;
use block::{Disk, DiskId, Geometry, Op, Pending, Space};
use bytes::Bytes;
use scsi::{Execution, ManagementFunction, Response, Status, TaskAttribute};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{Thread, current, park_timeout, scope};
use std::time::Duration;

/// A disk whose changes take effect when they are polled a second time.
struct Slow(MemDisk);

impl Disk for Slow {
    fn id(&self) -> DiskId {
        self.0.id()
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn space(&self) -> Space {
        self.0.space()
    }

    fn state(&self) -> Bytes {
        self.0.state()
    }

    fn execute(&self, op: Op) -> Pending {
        if matches!(op, Op::Read(_)) {
            return self.0.execute(op);
        }
        let disk = self.0.clone();
        Pending::later(async move {
            let mut asked = false;
            std::future::poll_fn(|context| {
                if std::mem::replace(&mut asked, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            disk.execute(op).await
        })
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for the end as a runtime does: by being woken.
fn run(execution: Execution) -> Option<Response> {
    let mut task = match execution {
        Execution::Done(response) => return Some(response),
        Execution::Task(task) => task,
    };
    let waker = Waker::from(Arc::new(Unpark(current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(end) = task.as_mut().poll(&mut context) {
            return end;
        }
        let before = std::time::Instant::now();
        park_timeout(Duration::from_secs(60));
        assert!(before.elapsed() < Duration::from_secs(60), "the task was not woken");
    }
}

/// The load of one host: mostly writes, and now and then a command that concerns all hosts.
fn disturb(host: &Host, seed: usize) {
    let register = |action: u8, key: u64, new: u64| {
        let mut list = [key.to_be_bytes(), new.to_be_bytes()].concat();
        list.resize(24, 0);
        run(host.start(0, &[0x5F, action, 5, 0, 0, 0, 0, 0, 24, 0], &list));
    };
    for round in 0..2000 {
        let write = long(0x8A, 0, seed as u64 * 8, 1);
        let attribute = if round % 7 == 0 { TaskAttribute::Ordered } else { TaskAttribute::Simple };
        drop(run(host.start_with(attribute, 0, &write, &pattern(1, seed as u8))));
        match (round * 5 + seed * 3) % 41 {
            0 => drop(run(host.start(0, &[0x16, 0, 0, 0, 0, 0], &[]))),
            1..=3 => drop(run(host.start(0, &[0x17, 0, 0, 0, 0, 0], &[]))),
            4 => drop(host.manage(ManagementFunction::LogicalUnitReset)),
            5 => drop(host.manage(ManagementFunction::ClearTaskSet)),
            6 => register(6, 0, seed as u64 + 1),
            7 => register(1, seed as u64 + 1, 0),
            8 => register(5, seed as u64 + 1, 1 + (seed as u64 + 1) % 4),
            9..=11 => register(3, seed as u64 + 1, 0),
            _ => (),
        }
    }
}

#[test]
fn no_task_is_left_waiting() {
    let array = Array::new();
    let disk = array.store.create(DiskId(1), Geometry { block_bytes: BLOCK as u32, blocks: BLOCKS });
    array.exports.add_volume(Arc::new(Slow(disk)));
    let hosts: Vec<Host> = (0..4).map(|index| array.host(&format!("host{index}"), 1)).collect();
    scope(|scope| {
        for (seed, host) in hosts.into_iter().enumerate() {
            scope.spawn(move || disturb(&host, seed));
        }
    });
    // All sessions are gone; what is left is at most a registration of one of them.
    let last = array.host("last", 1);
    let mut clear = [9u64.to_be_bytes(), 0u64.to_be_bytes()].concat();
    clear.resize(24, 0);
    let mut register = [0u64.to_be_bytes(), 9u64.to_be_bytes()].concat();
    register.resize(24, 0);
    last.send(&[0x5F, 6, 0, 0, 0, 0, 0, 0, 24, 0], &register).good();
    last.send(&[0x5F, 3, 0, 0, 0, 0, 0, 0, 24, 0], &clear).good();
    last.take_unit_attentions();
    assert_eq!(last.write(0, &pattern(1, 9)).status, Status::Good);
    assert_eq!(last.read(0, 1).good(), pattern(1, 9));
}
