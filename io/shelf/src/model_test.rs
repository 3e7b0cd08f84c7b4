use super::*;
use crate::conformance::{self, Subject, poll_once};

struct Memory {
    model: Model,
    losses: u32,
}

const LAYOUT: Layout = Layout {
    segment_bytes: 64 << 10,
    stripe_bytes: 4080 * 4,
    segments: 6,
    journal_bytes: 256 << 10,
    batch_bytes: 64 << 10,
    superblock_bytes: 8000,
};

fn layout() -> Layout {
    Layout { segment_bytes: LAYOUT.stripe_bytes * 3, ..LAYOUT }
}

impl Subject for Memory {
    fn format(&mut self) -> Result<Arc<dyn Shelf>> {
        self.model = Model::new(layout());
        self.open()
    }

    fn open(&mut self) -> Result<Arc<dyn Shelf>> {
        Ok(self.model.open())
    }

    fn lose_power(&mut self) {
        self.losses += 1;
        let mut kept = self.losses;
        self.model.lose_power(|| {
            kept += 1;
            kept.is_multiple_of(2)
        });
    }

    fn finish<T: Send + 'static>(&mut self, operation: crate::Wait<T>) -> Result<T> {
        poll_once(operation)
    }
}

#[test]
fn the_model_keeps_the_contract() {
    conformance::run(&mut Memory { model: Model::new(layout()), losses: 0 }).unwrap();
}

#[test]
#[should_panic(expected = "a stripe is written once")]
fn a_stripe_that_is_written_twice_is_refused() {
    let shelf = Model::new(layout()).open();
    for _ in 0..2 {
        let stripe = Arc::new(AlignedBuf::zeroed(LAYOUT.stripe_bytes as usize));
        shelf.write(SegmentId(0), 0, stripe, Box::new(|_| {}));
    }
}
