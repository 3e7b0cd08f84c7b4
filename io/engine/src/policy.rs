//! Reduction policies of volumes. A policy applies to new writes; stored data stays as it is.

/// The reduction policy of a volume. Zeros are never stored, whatever it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Blocks that the array has already, of any volume with deduplication, are not stored again.
    pub dedup: bool,
    /// How blocks are compressed.
    pub compression: Compression,
    /// A block that deduplication knows by its fingerprint is read and compared byte by byte before it is shared.
    pub verify: bool,
}

/// How the blocks of a volume are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Off,
    /// LZ4.
    Fast,
    /// zstd: smaller, at twice the processor time.
    High,
    /// LZ4 as long as it saves space: where it does not, it is only tried now and then.
    Adaptive,
}

impl Default for Policy {
    fn default() -> Self {
        Self { dedup: true, compression: Compression::Adaptive, verify: false }
    }
}

impl Compression {
    const ALL: [Self; 4] = [Self::Adaptive, Self::Off, Self::Fast, Self::High];
}

const NO_DEDUP: u8 = 0x10;
const VERIFY: u8 = 0x20;

impl Policy {
    /// One byte of the media format; the default is zero.
    pub(crate) fn to_byte(self) -> u8 {
        let compression = Compression::ALL.iter().position(|one| *one == self.compression);
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        compression.map_or(0, |index| index as u8) | flag(!self.dedup, NO_DEDUP) | flag(self.verify, VERIFY)
    }

    /// What [`Policy::to_byte`] made; `None` for a byte that it never makes.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        let compression = *Compression::ALL.get(usize::from(byte & !(NO_DEDUP | VERIFY)))?;
        Some(Self { dedup: byte & NO_DEDUP == 0, compression, verify: byte & VERIFY != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_come_back_and_other_bytes_are_none() {
        let known: Vec<_> = (0..=u8::MAX).filter_map(|byte| Some((byte, Policy::from_byte(byte)?))).collect();
        assert_eq!(known.len(), 16);
        assert!(known.iter().all(|(byte, policy)| policy.to_byte() == *byte));
        assert_eq!(Policy::from_byte(0), Some(Policy::default()));
    }
}
