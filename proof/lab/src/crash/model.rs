//! The possible content of every logical block, given what was sent and acknowledged when: each block is a register, and each
//! answered write took effect at one moment between its sending and its answer.

/// A moment; later ones are greater.
pub type Tick = u64;

/// What one block may hold: a stamp, sent and answered when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    stamp: u64,
    sent: Tick,
    answered: Option<Tick>,
}

/// One block. Most of the time nothing is open on it.
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

    /// The same unit from now on, with all that it held on the way: see [`Model::span`].
    pub fn remembering(&self) -> Self {
        Self { blocks: self.blocks.clone(), forgets: false }
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The one stamp that the block must hold, when there is only one.
    pub fn certain(&self, lba: u64) -> Option<u64> {
        let block = &self.blocks[lba as usize];
        block.open.is_empty().then_some(block.settled)
    }

    /// A write of `stamp` is sent.
    pub fn send(&mut self, lba: u64, stamp: u64, now: Tick) {
        let block = &mut self.blocks[lba as usize];
        if block.open.is_empty() {
            block.open.push(Candidate { stamp: block.settled, sent: 0, answered: Some(0) });
        }
        block.open.push(Candidate { stamp, sent: now, answered: None });
    }

    /// The write that was sent at `sent` is answered: what had been answered before it was sent is gone.
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

    /// The write that was sent at `sent` was refused: it changed nothing.
    pub fn refuse(&mut self, lba: u64, sent: Tick) {
        let block = &mut self.blocks[lba as usize];
        block.open.retain(|it| it.sent != sent);
        if let [Candidate { stamp, answered: Some(_), .. }] = block.open[..] {
            *block = Block { settled: stamp, open: Vec::new() };
        }
    }

    /// True when the block may hold this now.
    pub fn allows(&self, lba: u64, stamp: u64) -> bool {
        let block = &self.blocks[lba as usize];
        match block.open.is_empty() {
            true => block.settled == stamp,
            false => block.open.iter().any(|it| it.stamp == stamp),
        }
    }

    /// From when until when the block may have held this, as far as is remembered; `None` if it can't have.
    pub fn span(&self, lba: u64, stamp: u64) -> Option<(Tick, Tick)> {
        let block = &self.blocks[lba as usize];
        if block.open.is_empty() {
            return (block.settled == stamp).then_some((0, Tick::MAX));
        }
        let gone = |it: &Candidate| {
            let later = |other: &&Candidate| it.answered.is_some_and(|answered| other.sent > answered);
            block.open.iter().filter(later).filter_map(|other| other.answered).min().unwrap_or(Tick::MAX)
        };
        let spans = block.open.iter().filter(|it| it.stamp == stamp).map(|it| (it.sent, gone(it)));
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The block was read, with nothing in flight, and holds this: from now on it must.
    pub fn settle(&mut self, lba: u64, stamp: u64) {
        self.blocks[lba as usize] = Block { settled: stamp, open: Vec::new() };
    }

    /// What the block may hold, in words.
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
    fn an_answered_write_replaces_what_was_there() {
        let mut model = Model::new(2);
        model.send(1, 7, 1);
        assert!(model.allows(1, 0) && model.allows(1, 7) && model.certain(1).is_none());
        model.answer(1, 1, 2);
        assert_eq!(model.certain(1), Some(7));
        assert!(!model.allows(1, 0));
        assert_eq!(model.certain(0), Some(0));
    }

    #[test]
    fn writes_that_overlap_in_time_may_win_either_way() {
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
    fn an_unanswered_write_may_or_may_not_be_there_until_it_was_read() {
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
    fn what_is_remembered_tells_when_it_was_there() {
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
