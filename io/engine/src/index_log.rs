//! Deduplication index in the log: which objects hold its entries, so that it survives a start.
//!
//! The index is a hint, and is stored as one. Each checkpoint appends the entries that were inserted since the last one. When
//! the objects outgrow the index by half, the whole index is appended again over some checkpoints, and the objects from before
//! are dropped. Where space is short all of them are dropped, and frames are read again after the next start. An entry never
//! names a frame that the checkpoint's root does not know, since numbers of frames are used again after a crash.

use crate::codec::{Malformed, Put, Take};
use crate::space::Location;
use std::ops::Range;

/// The objects of the index, and what they lack. Part of the checkpoint's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexLog {
    /// Numbers and locations of the objects, oldest first. Of two entries with the same fingerprint the newer one counts.
    objects: Vec<(u64, Location)>,
    /// The number of the next object.
    next_number: u64,
    /// Bytes of the objects.
    bytes: u64,
    /// Insertions into the index so far: its clock.
    pub insertions: u64,
    /// Some block that could be shared is not in the index.
    pub partial: bool,
    /// Pages of the frame table whose frames the entries may lack.
    pub unread: Range<u64>,
}

impl IndexLog {
    /// No objects, and these pages to be read.
    pub fn without_objects(unread: Range<u64>) -> Self {
        Self { unread, ..Self::default() }
    }

    /// Numbers and locations of the objects, oldest first.
    pub fn objects(&self) -> &[(u64, Location)] {
        &self.objects
    }

    /// Bytes of the objects in the log.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the next object.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Where an object lies.
    pub fn locations(&self) -> impl Iterator<Item = Location> {
        self.objects.iter().map(|(_, location)| *location)
    }

    /// Notes an appended object.
    pub fn add(&mut self, location: Location) {
        self.objects.push((self.next_number, location));
        self.next_number += 1;
        self.bytes += u64::from(location.len);
    }

    /// Takes out the objects with numbers below this one; returns where they lie.
    pub fn take_before(&mut self, number: u64) -> Vec<Location> {
        let count = self.objects.partition_point(|(known, _)| *known < number);
        let taken: Vec<Location> = self.objects.drain(..count).map(|(_, location)| location).collect();
        self.bytes -= taken.iter().map(|location| u64::from(location.len)).sum::<u64>();
        taken
    }

    /// Whether this object is one of the index.
    pub fn holds(&self, number: u64, location: Location) -> bool {
        self.objects.binary_search(&(number, location)).is_ok()
    }

    /// Gives an object another location; returns the one before.
    ///
    /// # Panics
    /// If there is no such object.
    pub fn relocate(&mut self, number: u64, to: Location) -> Location {
        let at = self.objects.binary_search_by_key(&number, |(number, _)| *number);
        let location = &mut self.objects[at.expect("the object is one of the index")].1;
        self.bytes = self.bytes - u64::from(location.len) + u64::from(to.len);
        std::mem::replace(location, to)
    }

    /// Writes it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.var(self.insertions);
        out.u8(self.partial.into());
        out.var(self.unread.start);
        out.var(self.unread.end);
        out.var(self.next_number);
        out.var(self.objects.len() as u64);
        for (number, location) in &self.objects {
            out.var(*number);
            location.put(out);
        }
    }

    /// Reads what [`IndexLog::encode`] wrote.
    pub fn decode(take: &mut Take<'_>) -> Result<Self, Malformed> {
        let (insertions, partial) = (take.var()?, take.u8()? != 0);
        let unread = take.var()?..take.var()?;
        let next_number = take.var()?;
        let objects = (0..take.count()?)
            .map(|_| Ok((take.var()?, Location::take(take)?)))
            .collect::<Result<Vec<_>, Malformed>>()?;
        let rises = objects.is_sorted_by(|(before, _), (number, _)| before < number);
        take.check(rises && objects.last().is_none_or(|(number, _)| *number < next_number))?;
        let bytes = objects.iter().map(|(_, location)| u64::from(location.len)).sum();
        Ok(Self { objects, next_number, bytes, insertions, partial, unread })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_objects_comes_back_and_numbers_rise() {
        let place = |offset| Location { segment: 3, offset, len: 480 };
        let log = IndexLog {
            objects: vec![(4, place(0)), (9, place(4096))],
            next_number: 10,
            bytes: 960,
            insertions: 1 << 40,
            partial: true,
            unread: 7..11,
        };
        let encoded = |log: &IndexLog| {
            let mut bytes = Vec::new();
            log.encode(&mut bytes);
            bytes
        };
        assert_eq!(IndexLog::decode(&mut Take::new(&encoded(&log), "index")), Ok(log.clone()));
        assert!(log.holds(9, place(4096)) && !log.holds(9, place(0)) && !log.holds(5, place(0)));
        for objects in [vec![(9, place(0)), (4, place(1))], vec![(10, place(0))]] {
            let wrong = IndexLog { objects, ..log.clone() };
            assert!(IndexLog::decode(&mut Take::new(&encoded(&wrong), "index")).is_err());
        }
    }
}
