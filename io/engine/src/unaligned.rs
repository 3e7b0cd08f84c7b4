//! Unaligned operations, and those that depend on the present content: the blocks are read without a lock, the change
//! is prepared, and made only if none of them has changed since; else all of it is repeated.

use crate::builder::{ChangeBuilder, each_block};
use crate::change::Change;
use crate::entry::{BLOCK, Entry};
use crate::handle::Handle;
use crate::record::Mutation;
use crate::span::{Parts, Span};
use block::{Data, Error, Reply, Result};

const STEP: u64 = BLOCK as u64;

impl Handle {
    /// Reads the block of which a change covers this part, and lets the change expect its entry.
    pub async fn edge(&self, builder: &mut ChangeBuilder, part: Span) -> Result<(Vec<u8>, Entry)> {
        let (data, entries) = self.core.view(self.number, part).await?;
        builder.expected.push((self.number, part.from / STEP, entries[0]));
        Ok((data.to_bytes().to_vec(), entries[0]))
    }

    /// Writes the part of a block.
    async fn patch(&self, builder: &mut ChangeBuilder, block: u64, part: Span, bytes: &[u8]) -> Result<()> {
        let (mut old, _) = self.edge(builder, part).await?;
        old[part.in_block()].copy_from_slice(bytes);
        builder.block(self.number, block, &old);
        Ok(())
    }

    /// Adds the write of `data` at `span` to a change.
    pub async fn build_write(&self, builder: &mut ChangeBuilder, span: Span, data: &Data) -> Result<()> {
        let Parts { edges, whole } = span.parts();
        let at = |byte: u64| (byte - span.from) as usize;
        for (block, part) in edges {
            let bytes = data.slice(at(part.from), at(part.to)).to_bytes();
            self.patch(builder, block, part, &bytes)
                .await
                .map_err(|error| self.in_blocks(error, span.from))?;
        }
        if whole.len() > 0 {
            let mut block = whole.from / STEP;
            each_block(data, at(whole.from), at(whole.to), |bytes| {
                builder.block(self.number, block, bytes);
                block += 1;
            });
        }
        Ok(())
    }

    /// A write that covers blocks in part.
    pub async fn write_edges(self, span: Span, data: Data) -> Result {
        loop {
            let mut builder = ChangeBuilder::of(self.number, span, span.blocks().1 as usize);
            self.build_write(&mut builder, span, &data).await?;
            if let Some(reply) = self.attempt(builder.finish()).await? {
                return Ok(reply);
            }
        }
    }

    /// A fill that covers blocks in part.
    pub async fn fill_edges(self, span: Span, block: Data) -> Result {
        let pattern = block.to_bytes().repeat(BLOCK / block.len());
        loop {
            let mut builder = ChangeBuilder::of(self.number, span, 3);
            let Parts { edges, whole } = span.parts();
            for (block, part) in edges {
                self.patch(&mut builder, block, part, &pattern[part.in_block()]).await?;
            }
            builder.same(self.number, whole.from / STEP, whole.len() / STEP, &pattern);
            if let Some(reply) = self.attempt(builder.finish()).await? {
                return Ok(reply);
            }
        }
    }

    /// Unmaps spans that are in order and do not touch. Blocks covered in part become zeros there and stay mapped.
    pub async fn unmap_edges(self, spans: Vec<Span>) -> Result {
        loop {
            let mut builder = ChangeBuilder::new(2 * spans.len());
            let mut merged: Option<(u64, Vec<u8>)> = None;
            for span in &spans {
                builder.writes(self.number, *span);
                let Parts { edges, whole } = span.parts();
                for (block, part) in edges {
                    // Two spans may have their ends in the same block.
                    let same = merged.as_ref().is_some_and(|(before, _)| *before == block);
                    if !same {
                        self.put_merged(&mut builder, merged.take());
                        let (old, entry) = self.edge(&mut builder, part).await?;
                        merged = (!entry.is_hole()).then_some((block, old));
                    }
                    if let Some((_, bytes)) = &mut merged {
                        bytes[part.in_block()].fill(0);
                    }
                }
                builder.hole(self.number, whole.from / STEP, whole.len() / STEP, false);
            }
            self.put_merged(&mut builder, merged.take());
            if let Some(reply) = self.attempt(builder.finish()).await? {
                return Ok(reply);
            }
        }
    }

    /// Sets the size in logical blocks. The part of a 4 KiB block beyond the end becomes zeros in the same step: it
    /// must read as such when the volume grows.
    pub async fn resize(&self, blocks: u64) -> Result {
        loop {
            match self.try_to_resize(blocks).await {
                // Another resize has cut off the block at the end since.
                Ok(None) | Err(Error::OutOfRange { .. }) => {}
                Ok(Some(reply)) => return Ok(reply),
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_to_resize(&self, blocks: u64) -> Result<Option<Reply>> {
        let bytes = |blocks: u64| blocks.saturating_mul(u64::from(self.block_bytes));
        let size = self.geometry()?.blocks;
        let (old, end) = (bytes(size), bytes(blocks));
        let mut builder = ChangeBuilder::new(1);
        if !end.is_multiple_of(STEP) && end < old {
            let beyond = Span { from: end, to: old.min(end.next_multiple_of(STEP)) };
            let (mut cut, entry) = self.edge(&mut builder, beyond).await?;
            let beyond = &mut cut[(end % STEP) as usize..];
            if !entry.is_hole() && !block::is_zero(beyond) {
                beyond.fill(0);
                builder.block(self.number, end / STEP, &cut);
            }
        }
        builder.mutation(Mutation::Resize { volume: self.number, blocks });
        // If it were larger by now, blocks would have to be cut off that were not read.
        self.attempt(Change { size: Some(size), ..builder.finish() }).await
    }

    fn put_merged(&self, builder: &mut ChangeBuilder, merged: Option<(u64, Vec<u8>)>) {
        if let Some((block, bytes)) = merged {
            builder.block(self.number, block, &bytes);
        }
    }

    /// Reads a span, prepares what replaces it, and writes that if nothing has changed.
    async fn replace(&self, span: Span, mut with: impl FnMut(Data) -> Result<Data>) -> Result {
        if span.len() == 0 {
            return Ok(Reply::Done);
        }
        let (first, count) = span.blocks();
        loop {
            let view = self.core.view(self.number, span).await;
            let (all, entries) = view.map_err(|error| self.in_blocks(error, span.from))?;
            let skip = (span.from - first * STEP) as usize;
            let new = with(all.slice(skip, skip + span.len() as usize))?;
            let mut data = all.slice(0, skip);
            data.append(new);
            data.append(all.slice(data.len(), all.len()));
            let mut builder = ChangeBuilder::of(self.number, span, count as usize);
            let mut block = first;
            each_block(&data, 0, data.len(), |bytes| {
                builder.block(self.number, block, bytes);
                block += 1;
            });
            let numbered = entries.into_iter().zip(first..);
            builder.expected.extend(numbered.map(|(entry, block)| (self.number, block, entry)));
            if let Some(reply) = self.attempt(builder.finish()).await? {
                return Ok(reply);
            }
        }
    }

    /// COMPARE AND WRITE.
    pub async fn compare_and_write(self, span: Span, compare: Data, write: Data) -> Result {
        self.replace(span, |old| match old.first_difference(&compare) {
            Some(offset) => Err(Error::Miscompare { offset: offset as u64 }),
            None => Ok(write.clone()),
        })
        .await
    }

    /// ORWRITE.
    pub async fn or(self, span: Span, data: Data) -> Result {
        self.replace(span, |old| {
            let merged = old.to_bytes().iter().zip(data.to_bytes()).map(|(a, b)| a | b).collect::<Vec<u8>>();
            Ok(merged.into())
        })
        .await
    }
}
