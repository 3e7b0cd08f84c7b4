//! Possible content of every logical block, given all requests and acknowledgements: each block is a register, and each
//! acknowledged write is linearizable: it took effect at one moment between its submission and its acknowledgement.

/// A time; later ones are greater.
pub type Tick = u64;

/// A possible content of a block: a stamp, with the times of submission and acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    stamp: u64,
    sent: Tick,
    answered: Option<Tick>,
}

/// One block. Usually no write to it is outstanding.
#[derive(Clone, Debug, Default)]
struct Block {
    settled: u64,
    open: Vec<Candidate>,
}

/// The blocks of one unit.
#[derive(Clone, Debug)]
pub struct Model {
    blocks: Vec<Block>,
    forgets: bool,
}

impl Model {
    /// A unit of zeros.
    pub fn new(blocks: u64) -> Self {
        Self { blocks: vec![Block::default(); blocks as usize], forgets: true }
    }

    /// A copy that records all earlier contents from now on, for [`Model::span`].
    pub fn remembering(&self) -> Self {
        Self { blocks: self.blocks.clone(), forgets: false }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The stamp of the block, if only one is possible.
    pub fn certain(&self, lba: u64) -> Option<u64> {
        let block = &self.blocks[lba as usize];
        block.open.is_empty().then_some(block.settled)
    }

    /// Notes the sending of a write of `stamp`.
    pub fn send(&mut self, lba: u64, stamp: u64, now: Tick) {
        let block = &mut self.blocks[lba as usize];
        if block.open.is_empty() {
            block.open.push(Candidate { stamp: block.settled, sent: 0, answered: Some(0) });
        }
        block.open.push(Candidate { stamp, sent: now, answered: None });
    }

    /// Notes the acknowledgement of the write sent at `sent`: contents acknowledged before its submission are replaced.
    pub fn answer(&mut self, lba: u64, sent: Tick, now: Tick) {
        let block = &mut self.blocks[lba as usize];
        block.open.iter_mut().filter(|it| it.sent == sent).for_each(|it| it.answered = Some(now));
        if self.forgets {
            block.open.retain(|it| it.answered.is_none_or(|answered| answered >= sent));
        }
        if let [only] = block.open[..] {
            *block = Block { settled: only.stamp, open: Vec::new() };
        }
    }

    /// Notes the refusal of the write sent at `sent`, which changed nothing.
    pub fn refuse(&mut self, lba: u64, sent: Tick) {
        let block = &mut self.blocks[lba as usize];
        block.open.retain(|it| it.sent != sent);
        if let [Candidate { stamp, answered: Some(_), .. }] = block.open[..] {
            *block = Block { settled: stamp, open: Vec::new() };
        }
    }

    /// Whether the block may have this stamp now.
    pub fn allows(&self, lba: u64, stamp: u64) -> bool {
        let block = &self.blocks[lba as usize];
        match block.open.is_empty() {
            true => block.settled == stamp,
            false => block.open.iter().any(|it| it.stamp == stamp),
        }
    }

    /// The period in which the block may have had this stamp, by the recorded history; `None` if it can't have.
    pub fn span(&self, lba: u64, stamp: u64) -> Option<(Tick, Tick)> {
        let block = &self.blocks[lba as usize];
        if block.open.is_empty() {
            return (block.settled == stamp).then_some((0, Tick::MAX));
        }
        let replaced_at = |it: &Candidate| {
            let later = |other: &&Candidate| it.answered.is_some_and(|answered| other.sent > answered);
            block.open.iter().filter(later).filter_map(|other| other.answered).min().unwrap_or(Tick::MAX)
        };
        let spans = block.open.iter().filter(|it| it.stamp == stamp).map(|it| (it.sent, replaced_at(it)));
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Notes a read without a write in flight: from now on the block must have this stamp.
    pub fn settle(&mut self, lba: u64, stamp: u64) {
        self.blocks[lba as usize] = Block { settled: stamp, open: Vec::new() };
    }

    /// Description of the possible contents.
    pub fn describe(&self, lba: u64) -> String {
        let block = &self.blocks[lba as usize];
        match block.open.is_empty() {
            true => format!("{:#x}", block.settled),
            false => block.open.iter().map(|it| format!("{it:x?}")).collect::<Vec<_>>().join(" or "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledged_write_replaces_earlier_contents() {
        let mut model = Model::new(2);
        model.send(1, 7, 1);
        assert!(model.allows(1, 0) && model.allows(1, 7) && model.certain(1).is_none());
        model.answer(1, 1, 2);
        assert_eq!(model.certain(1), Some(7));
        assert!(!model.allows(1, 0));
        assert_eq!(model.certain(0), Some(0));
    }

    #[test]
    fn concurrent_writes_may_take_effect_in_either_order() {
        let mut model = Model::new(1);
        model.send(0, 7, 1);
        model.send(0, 8, 2);
        model.answer(0, 1, 3);
        assert!(model.allows(0, 7) && model.allows(0, 8) && !model.allows(0, 0));
        model.answer(0, 2, 4);
        assert!(model.allows(0, 7) && model.allows(0, 8));
        model.send(0, 9, 5);
        model.answer(0, 5, 6);
        assert_eq!(model.certain(0), Some(9));
    }

    #[test]
    fn an_unacknowledged_write_is_possible_until_the_block_is_read() {
        let mut model = Model::new(1);
        model.send(0, 7, 1);
        assert!(model.allows(0, 0) && model.allows(0, 7));
        model.settle(0, 7);
        assert!(!model.allows(0, 0));
    }

    #[test]
    fn a_refused_write_changed_nothing() {
        let mut model = Model::new(1);
        model.send(0, 7, 1);
        model.refuse(0, 1);
        assert_eq!(model.certain(0), Some(0));
        model.send(0, 7, 2);
        model.send(0, 8, 3);
        model.refuse(0, 2);
        assert!(!model.allows(0, 7) && model.allows(0, 0) && model.allows(0, 8));
    }

    #[test]
    fn the_history_has_the_period_of_each_content() {
        let mut model = Model::new(2).remembering();
        model.send(0, 7, 1);
        model.answer(0, 1, 2);
        model.send(0, 8, 3);
        assert_eq!(model.span(0, 0), Some((0, 2)));
        assert_eq!(model.span(0, 7), Some((1, Tick::MAX)));
        model.answer(0, 3, 4);
        assert_eq!(model.span(0, 7), Some((1, 4)));
        assert_eq!(model.span(0, 8), Some((3, Tick::MAX)));
        assert_eq!(model.span(0, 9), None);
        assert_eq!((model.span(1, 0), model.span(1, 7)), (Some((0, Tick::MAX)), None));
    }
}
