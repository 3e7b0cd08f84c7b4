//! Content of writes, with a known compressibility and known repetitions.

use crate::host::Content;
use crate::seed::Seed;

/// Block length for deduplication in arrays.
const PAGE: usize = 4096;
const POOL: usize = 4 << 20;

/// Generator of contents. No two writes of [`Content::Half`] or [`Content::Random`] share a block, within a run or
/// between runs.
pub struct Payload {
    half: Vec<u8>,
    random: Vec<u8>,
    stamp: u64,
    seed: Seed,
}

impl Default for Payload {
    fn default() -> Self {
        // Every run has different stamps, so no earlier data is repeated.
        Self::new(crate::crash::new_seed())
    }
}

impl Payload {
    /// Contents determined by a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = vec![0; POOL];
        let mut noise = Seed::new(seed);
        random.chunks_mut(8).for_each(|word| word.copy_from_slice(&noise.bits().to_le_bytes()));
        let mut half = random.clone();
        half.chunks_mut(PAGE).for_each(|page| page[PAGE / 2..].fill(0));
        Self { half, random, stamp: noise.bits(), seed: noise }
    }

    /// Generates data of a content.
    pub fn make(&mut self, content: &Content, bytes: usize) -> Vec<u8> {
        match content {
            Content::Half | Content::Random => self.unique(content, bytes),
            Content::Zero => vec![0; bytes],
            Content::Image(at) => pages(*at, bytes, image_page),
            Content::Table(at) => pages(*at, bytes, table_page),
            Content::Bytes(data) => data.clone(),
        }
    }

    fn unique(&mut self, content: &Content, bytes: usize) -> Vec<u8> {
        let pool = if *content == Content::Half { &self.half } else { &self.random };
        let mut data = Vec::with_capacity(bytes);
        while data.len() < bytes {
            let take = (bytes - data.len()).min(POOL / 2);
            let at = self.seed.range(0, (POOL / 2 / PAGE) as u64) as usize * PAGE;
            data.extend_from_slice(&pool[at..at + take]);
        }
        for page in data.chunks_mut(PAGE).filter(|page| page.len() >= 8) {
            self.stamp = self.stamp.wrapping_add(1);
            page[..8].copy_from_slice(&self.stamp.to_le_bytes());
        }
        data
    }
}

/// Bytes from `at` of content that is generated page by page.
fn pages(at: u64, bytes: usize, make: fn(u64, &mut [u8])) -> Vec<u8> {
    let first = at / PAGE as u64;
    let skip = (at % PAGE as u64) as usize;
    let mut data = vec![0; (skip + bytes).next_multiple_of(PAGE)];
    for (index, page) in data.chunks_mut(PAGE).enumerate() {
        make(first + index as u64, page);
    }
    data.drain(..skip);
    data.truncate(bytes);
    data
}

/// A page of a desktop's golden image. Of ten pages, two are incompressible (media, archives), six compress to about
/// half (programs), and two to a quarter (texts, file system tables). All pages differ.
fn image_page(index: u64, page: &mut [u8]) {
    let mut seed = Seed::new(index.wrapping_mul(0x1000_0001) ^ 0x676f_6c64);
    let random = match index % 10 {
        0 | 5 => PAGE,
        3 | 8 => PAGE / 4,
        _ => PAGE / 2,
    };
    page[random..].fill(0x20);
    page[..random].chunks_mut(8).for_each(|word| word.copy_from_slice(&seed.bits().to_le_bytes()));
    page[..8].copy_from_slice(&index.to_le_bytes());
}

const ROW: usize = 192;
const WORDS: [&str; 16] = [
    "carefully",
    "final",
    "packages",
    "sleep",
    "furiously",
    "deposits",
    "among",
    "the",
    "express",
    "requests",
    "quickly",
    "ironic",
    "accounts",
    "haggle",
    "regular",
    "slyly",
];
const INSTRUCTIONS: [&str; 4] = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];

/// Half of an 8 KiB database page: rows with fixed columns, similar to order lines. Keys ascend, dates are close to
/// each other, prices and part keys are random, texts come from short lists and are padded: LZ4 compresses frames of 32
/// KiB 3.4:1.
fn table_page(index: u64, page: &mut [u8]) {
    let mut seed = Seed::new(index ^ 0x0074_6162_6c65);
    page.fill(0);
    for (number, row) in page.chunks_exact_mut(ROW).enumerate() {
        let key = index * (PAGE / ROW) as u64 + number as u64;
        let mut at = 0;
        let mut put = |bytes: &[u8], width: usize, pad: u8| {
            let cell = &mut row[at..at + width];
            cell.fill(pad);
            let len = bytes.len().min(width);
            cell[..len].copy_from_slice(&bytes[..len]);
            at += width;
        };
        put(&(key / 4).to_le_bytes(), 8, 0);
        put(&((key % 4) as u32).to_le_bytes(), 4, 0);
        put(&(seed.range(0, 1 << 20) as u32).to_le_bytes(), 4, 0);
        put(&(seed.range(0, 1 << 10) as u32).to_le_bytes(), 4, 0);
        put(&seed.range(1, 51).to_le_bytes(), 6, 0);
        put(&seed.range(900, 100_000).to_le_bytes(), 8, 0);
        put(&seed.range(0, 11).to_le_bytes(), 4, 0);
        put(&seed.range(0, 9).to_le_bytes(), 4, 0);
        let day = 8_000 + key / 2_000;
        for _ in 0..3 {
            put(&((day + seed.range(0, 20)) as u32).to_le_bytes(), 4, 0);
        }
        put([b"NO", b"RF", b"AF"][seed.range(0, 3) as usize], 2, b' ');
        put(INSTRUCTIONS[seed.range(0, 4) as usize].as_bytes(), 25, b' ');
        put(MODES[seed.range(0, 7) as usize].as_bytes(), 10, b' ');
        let words: Vec<_> = (0..3).map(|_| WORDS[seed.range(0, 16) as usize]).collect();
        put(words.join(" ").as_bytes(), 100, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn unique_contents_never_repeat_a_page() {
        let mut payload = Payload::new(1);
        let mut seen = BTreeSet::new();
        for content in [Content::Half, Content::Random, Content::Half] {
            for page in payload.make(&content, 1 << 20).chunks(PAGE) {
                assert!(seen.insert(page.to_vec()));
            }
        }
    }

    #[test]
    fn the_image_and_the_table_are_the_same_wherever_they_are_cut() {
        let mut payload = Payload::new(1);
        for content in [Content::Image, Content::Table] {
            let whole = payload.make(&content(0), 64 << 10);
            assert_eq!(payload.make(&content(5000), 3000), whole[5000..8000]);
            let different: BTreeSet<_> = whole.chunks(PAGE).collect();
            assert_eq!(different.len(), 16);
        }
    }

    #[test]
    fn a_write_has_the_length_that_was_asked_for() {
        let mut payload = Payload::new(1);
        for bytes in [512, 4096, 10_000 * 512, 8 << 20] {
            assert_eq!(payload.make(&Content::Random, bytes).len(), bytes);
        }
    }
}
