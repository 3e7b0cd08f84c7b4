//! Copies that are not aligned to 4 KiB. Where source and target lie alike within their blocks, only the blocks at
//! the ends are read and written; else the data is, in pieces.

use crate::change::Change;
use crate::draft::Draft;
use crate::entry::BLOCK;
use crate::record::Action;
use crate::volume::{Handle, Span};
use block::{Reply, Result};

const STEP: u64 = BLOCK as u64;

/// Bytes of a piece of a copy whose source and target lie differently within their blocks. Such a copy is atomic
/// up to this size; a larger one is a row of atomic pieces.
const PIECE: u64 = 4 << 20;

/// One segment of a copy.
pub struct Copy {
    /// The volume read from.
    pub source: Handle,
    /// What is read.
    pub from: Span,
    /// The volume written to.
    pub target: Handle,
    /// What is written, of the same length.
    pub to: Span,
}

impl Copy {
    /// The copy of whole blocks.
    pub fn action(&self, from: Span, to: Span) -> Action {
        Action::Copy {
            source: self.source.number,
            from: from.from / STEP,
            target: self.target.number,
            to: to.from / STEP,
            count: to.len() / STEP,
        }
    }

    fn is_alike(&self) -> bool {
        self.from.from % STEP == self.to.from % STEP
    }

    fn overlaps(&self) -> bool {
        self.source.number == self.target.number && self.from.from < self.to.to && self.to.from < self.from.to
    }
}

/// Performs a list in which some segment is not aligned: each segment is one step (but see [`PIECE`]).
pub async fn copy_edges(copies: Vec<Copy>) -> Result {
    for copy in &copies {
        match copy.is_alike() {
            true => alike(copy).await?,
            false => shifted(copy).await?,
        };
    }
    Ok(Reply::Done)
}

async fn alike(copy: &Copy) -> Result {
    loop {
        let mut draft = Draft::new(2);
        let parts = copy.to.parts();
        let shift = |span: Span| Span {
            from: span.from - copy.to.from + copy.from.from,
            to: span.to - copy.to.from + copy.from.from,
        };
        if parts.whole.len() > 0 {
            draft.action(copy.action(shift(parts.whole), parts.whole));
        }
        for (block, part) in parts.edges {
            // What the whole blocks are copied from is read before they are written, and so is this.
            let (old, _) = copy.source.edge(&mut draft, shift(part).from / STEP).await?;
            let at = (part.from - block * STEP) as usize;
            let bytes = old[at..at + part.len() as usize].to_vec();
            copy.target.draft_write(&mut draft, part, &bytes.into()).await?;
        }
        if let Some(reply) = copy.target.attempt(draft.finish()).await? {
            return Ok(reply);
        }
    }
}

async fn shifted(copy: &Copy) -> Result {
    let limit = copy.source.core.journal.limit() / 4;
    let piece = PIECE.min(limit / STEP * STEP).max(STEP);
    let mut starts: Vec<u64> = (0..copy.to.len()).step_by(piece as usize).collect();
    if copy.overlaps() && copy.from.from < copy.to.from {
        // The order in which a piece never overwrites what a later one reads.
        starts.reverse();
    }
    for start in starts {
        let end = (start + piece).min(copy.to.len());
        let from = Span { from: copy.from.from + start, to: copy.from.from + end };
        let to = Span { from: copy.to.from + start, to: copy.to.from + end };
        while copy.target.attempt(shifted_piece(copy, from, to).await?).await?.is_none() {}
    }
    Ok(Reply::Done)
}

async fn shifted_piece(copy: &Copy, from: Span, to: Span) -> Result<Change> {
    let (first, count) = from.blocks();
    let view = copy.source.core.view(copy.source.number, first, count).await;
    let (data, entries) = view.map_err(|error| copy.source.in_blocks(error, from))?;
    let skip = (from.from - first * STEP) as usize;
    let mut draft = Draft::new(to.blocks().1 as usize);
    let numbered = entries.into_iter().zip(first..);
    draft.expected.extend(numbered.map(|(entry, block)| (copy.source.number, block, entry)));
    copy.target.draft_write(&mut draft, to, &data.slice(skip, skip + from.len() as usize)).await?;
    Ok(draft.finish())
}
