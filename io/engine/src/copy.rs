//! Unaligned copies: where source and target have the same offset within their 4 KiB blocks, only the blocks at the
//! ends are read and written and the rest is shared; else the data is moved, in pieces.

use crate::builder::ChangeBuilder;
use crate::change::{Change, Cover};
use crate::entry::BLOCK;
use crate::handle::Handle;
use crate::record::Mutation;
use crate::span::Span;
use block::{Reply, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

const STEP: u64 = BLOCK as u64;

/// One segment of a copy.
#[derive(Clone)]
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
    pub fn mutation(&self, from: Span, to: Span) -> Mutation {
        Mutation::Copy {
            source: self.source.number,
            from: from.from / STEP,
            target: self.target.number,
            to: to.from / STEP,
            count: to.len() / STEP,
        }
    }

    /// Ranges that its volumes must have.
    pub fn covers(&self) -> [Cover; 2] {
        [
            Cover { volume: self.source.number, span: self.from, written: false },
            Cover { volume: self.target.number, span: self.to, written: true },
        ]
    }

    pub fn is_alike(&self) -> bool {
        self.from.from % STEP == self.to.from % STEP
    }

    /// The part of the source that is copied to a part of the target.
    fn back(&self, part: Span) -> Span {
        let shift = |byte: u64| byte - self.to.from + self.from.from;
        Span { from: shift(part.from), to: shift(part.to) }
    }

    fn overlaps(&self) -> bool {
        self.source.number == self.target.number && self.from.from < self.to.to && self.to.from < self.from.to
    }
}

/// Performs one segment, in several steps where the data have to be moved.
pub async fn perform(addressed: &Handle, copy: &Copy) -> Result {
    match copy.is_alike() {
        true => alike(addressed, std::slice::from_ref(copy), &copy.covers()).await,
        false => shifted(addressed, copy).await,
    }
}

/// Bytes that one change copies as data; more is prepared on hidden clones, in pieces of this size.
pub fn piece(copy: &Copy) -> u64 {
    let limit = copy.source.core.journal.limit() / 4;
    let max = copy.source.core.options.tunables.copy_piece_bytes;
    (max.min(limit) / STEP * STEP).max(STEP)
}

/// Whether no segment touches a block that another writes.
pub fn are_apart(copies: &[Copy]) -> bool {
    let meets = |(a, in_a): (&Handle, Span), (b, in_b): (&Handle, Span)| {
        let ((from_a, count_a), (from_b, count_b)) = (in_a.blocks(), in_b.blocks());
        a.number == b.number && from_a < from_b + count_b && from_b < from_a + count_a
    };
    copies.iter().enumerate().all(|(n, one)| {
        let writes = (&one.target, one.to);
        copies.iter().enumerate().filter(|(other, _)| *other != n).all(|(_, other)| {
            !meets(writes, (&other.source, other.from)) && !meets(writes, (&other.target, other.to))
        })
    })
}

/// Segments with the same offset in their blocks that do not meet: whole blocks are shared, blocks at the ends are
/// read and written. `covers` are the ranges that the volumes must have.
pub async fn alike(addressed: &Handle, copies: &[Copy], covers: &[Cover]) -> Result {
    loop {
        let mut builder = ChangeBuilder::new(2 * copies.len());
        builder.covers.extend_from_slice(covers);
        for copy in copies {
            let parts = copy.to.parts();
            if parts.whole.len() > 0 {
                builder.mutation(copy.mutation(copy.back(parts.whole), parts.whole));
            }
        }
        // What the whole blocks are copied from is read before they are written, and so are the ends.
        for copy in copies {
            for (block, part) in copy.to.parts().edges {
                let (old, _) = copy.source.edge(&mut builder, copy.back(part)).await?;
                let at = (part.from - block * STEP) as usize;
                let bytes = old[at..at + part.len() as usize].to_vec();
                copy.target.build_write(&mut builder, part, &bytes.into()).await?;
            }
        }
        if let Some(reply) = addressed.attempt(builder.finish()).await? {
            return Ok(reply);
        }
    }
}

/// The blocks that a list reads and writes, as they are when its segments have been performed one after the other.
#[derive(Default)]
struct Overlay(BTreeMap<(u32, u64), (Vec<u8>, bool)>);

impl Overlay {
    /// The block for reading, or for writing.
    async fn block(
        &mut self,
        builder: &mut ChangeBuilder,
        of: &Handle,
        part: Span,
        write: bool,
    ) -> Result<&mut Vec<u8>> {
        let (bytes, written) = match self.0.entry((of.number, part.from / STEP)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert((of.edge(builder, part).await?.0, false)),
        };
        *written |= write;
        Ok(bytes)
    }
}

/// Any segments, as data, in one step. `covers` are the ranges that the volumes must have.
pub async fn together(addressed: &Handle, copies: &[Copy], covers: &[Cover]) -> Result {
    loop {
        let blocks: u64 = copies.iter().map(|copy| copy.to.blocks().1).sum();
        let mut builder = ChangeBuilder::new(blocks as usize);
        builder.covers.extend_from_slice(covers);
        let mut overlay = Overlay::default();
        for copy in copies {
            let mut bytes = Vec::with_capacity(copy.from.len() as usize);
            for part in copy.from.each_block() {
                let source = overlay.block(&mut builder, &copy.source, part, false).await?;
                bytes.extend_from_slice(&source[part.in_block()]);
            }
            for part in copy.to.each_block() {
                let at = (part.from - copy.to.from) as usize;
                let target = overlay.block(&mut builder, &copy.target, part, true).await?;
                target[part.in_block()].copy_from_slice(&bytes[at..at + part.len() as usize]);
            }
        }
        for ((volume, block), (bytes, _)) in overlay.0.iter().filter(|(_, (_, written))| *written) {
            builder.block(*volume, *block, bytes);
        }
        if let Some(reply) = addressed.attempt(builder.finish()).await? {
            return Ok(reply);
        }
    }
}

async fn shifted(addressed: &Handle, copy: &Copy) -> Result {
    let piece = piece(copy);
    let mut starts: Vec<u64> = (0..copy.to.len()).step_by(piece as usize).collect();
    if copy.overlaps() && copy.from.from < copy.to.from {
        // The order in which a piece never overwrites what a later one reads.
        starts.reverse();
    }
    for start in starts {
        let end = (start + piece).min(copy.to.len());
        let part = |of: Span| Span { from: of.from + start, to: of.from + end };
        let piece = Copy { from: part(copy.from), to: part(copy.to), ..copy.clone() };
        while addressed.attempt(shifted_piece(&piece).await?).await?.is_none() {}
    }
    Ok(Reply::Done)
}

async fn shifted_piece(copy: &Copy) -> Result<Change> {
    let Copy { from, to, .. } = *copy;
    let (first, _) = from.blocks();
    let view = copy.source.core.view(copy.source.number, from).await;
    let (data, entries) = view.map_err(|error| copy.source.in_blocks(error, from.from))?;
    let skip = (from.from - first * STEP) as usize;
    let mut builder = ChangeBuilder::new(to.blocks().1 as usize);
    builder.covers.extend(copy.covers());
    let numbered = entries.into_iter().zip(first..);
    builder.expected.extend(numbered.map(|(entry, block)| (copy.source.number, block, entry)));
    copy.target.build_write(&mut builder, to, &data.slice(skip, skip + from.len() as usize)).await?;
    Ok(builder.finish())
}
