use super::*;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn poll_once(pending: crate::Pending) -> Result {
    match pin!(pending).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the model does not wait"),
    }
}

fn disks() -> Vec<Arc<dyn Disk>> {
    let array = MemArray::new();
    let disk = |id, block_bytes, blocks| {
        Arc::new(array.create(DiskId(id), Geometry { block_bytes, blocks })) as Arc<dyn Disk>
    };
    vec![disk(1, 512, 20_000), disk(2, 4096, 1000), disk(3, 512, 5000)]
}

#[test]
fn the_model_passes_its_own_suite() {
    for seed in 0..5 {
        run(&disks(), seed, 300, Mix::default(), poll_once).unwrap();
    }
}

#[test]
fn a_seed_always_gives_the_same_workload() {
    let known: Vec<_> = disks().iter().map(|disk| (disk.id(), disk.geometry())).collect();
    let ops = || {
        let mut workload = Workload::new(1, Mix::default());
        let zeros = |_, extent: Extent| vec![0; extent.blocks as usize * 512].into();
        (0..100).map(|_| show(&workload.next(&known, zeros).1)).collect::<Vec<_>>()
    };
    assert_eq!(ops(), ops());
    assert_eq!(Workload::new(1, Mix::default()).next(&known, |_, _| Default::default()).0, DiskId(2));
}

/// A disk that acknowledges writes after its 50th operation without performing them.
struct LosesWrites(MemDisk, std::sync::atomic::AtomicU32);

impl Disk for LosesWrites {
    fn id(&self) -> DiskId {
        self.0.id()
    }
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn space(&self) -> crate::Space {
        self.0.space()
    }
    fn state(&self) -> bytes::Bytes {
        self.0.state()
    }
    fn execute(&self, op: Op) -> crate::Pending {
        let count = self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match op {
            Op::Write { .. } if count > 50 => crate::Pending::done(),
            op => self.0.execute(op),
        }
    }
}

#[test]
fn a_lost_write_is_found() {
    let disk = MemArray::new().create(DiskId(1), Geometry { block_bytes: 512, blocks: 1000 });
    let disk: Arc<dyn Disk> = Arc::new(LosesWrites(disk, Default::default()));
    assert!(run(&[disk], 1, 300, Mix { invalid_percent: 0, ..Mix::default() }, poll_once).is_err());
}

#[test]
fn an_image_is_the_disk_of_one_moment_and_ends_with_its_holder() {
    let array = MemArray::new();
    let geometry = Geometry { block_bytes: 512, blocks: 100 };
    let [disk, target] = [1, 2].map(|id| array.create(DiskId(id), geometry));
    let write = |byte| Op::Write { lba: 3, data: vec![byte; 512].into() };
    poll_once(disk.execute(write(1))).unwrap();
    let Ok(Reply::Image(image)) = poll_once(disk.execute(Op::Image)) else { panic!("no image") };
    poll_once(disk.execute(write(2))).unwrap();
    assert_eq!(poll_once(image.0.execute(write(3))).map(drop), Err(Error::ReadOnly));
    let source = image.0.id();
    let segment = crate::CopySegment { source, source_lba: 3, target: DiskId(2), target_lba: 7, blocks: 1 };
    poll_once(target.execute(Op::Copy(vec![segment]))).unwrap();
    assert_eq!(array.peek(DiskId(2), Extent::new(7, 1)).to_bytes(), vec![1; 512]);
    assert_eq!(array.disks().len(), 2, "no list shows it");
    drop(image);
    let gone = poll_once(target.execute(Op::Copy(vec![segment])));
    assert_eq!(gone.map(drop), Err(Error::Unreachable(source)));
}
