//! The executable model of a disk: performs each operation on an in-memory map of blocks, neither fast nor durable.
//! Every other implementation of [`Disk`] is compared with it.

use crate::{
    CopySegment, Data, Disk, DiskId, Error, Extent, Geometry, Image, Known, Ledger, Note, NotedCommands, Op,
    Pending, Provisioning, Region, Reply, Result, Sequence, Space,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A set of disks in memory that can copy to each other.
#[derive(Clone, Default)]
pub struct MemArray {
    /// Volumes are shared between forks until one of them changes.
    state: Arc<Mutex<BTreeMap<DiskId, Arc<MemVolume>>>>,
    /// Locked before the volumes, for as long as an operation that is noted takes.
    done: Arc<Mutex<NotedCommands>>,
}

#[derive(Clone)]
struct MemVolume {
    geometry: Geometry,
    read_only: bool,
    kept_until: u64,
    blocks: BTreeMap<u64, Bytes>,
    saved: Bytes,
    /// It is an image, which no list shows.
    image: bool,
}

/// One disk of a [`MemArray`].
#[derive(Clone)]
pub struct MemDisk {
    id: DiskId,
    array: MemArray,
}

/// An image of a disk, removed with its last holder.
struct MemImage(MemDisk);

impl Drop for MemImage {
    fn drop(&mut self) {
        self.0.array.remove(self.0.id);
    }
}

impl MemArray {
    /// An array without disks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an empty disk.
    ///
    /// # Panics
    /// If the identity is in use.
    pub fn create(&self, id: DiskId, geometry: Geometry) -> MemDisk {
        let (blocks, saved) = (BTreeMap::new(), Bytes::new());
        let volume = MemVolume { geometry, read_only: false, kept_until: 0, blocks, saved, image: false };
        assert!(self.lock().insert(id, volume.into()).is_none(), "{id:?} exists");
        MemDisk { id, array: self.clone() }
    }

    /// An independent array with the same contents.
    pub fn fork(&self) -> Self {
        let done = Arc::new(Mutex::new(self.done().clone()));
        Self { state: Arc::new(Mutex::new(self.lock().clone())), done }
    }

    /// All disks, by identity.
    pub fn disks(&self) -> Vec<MemDisk> {
        let shown = |(id, volume): (&DiskId, &Arc<MemVolume>)| (!volume.image).then_some(*id);
        self.lock().iter().filter_map(shown).map(|id| MemDisk { id, array: self.clone() }).collect()
    }

    /// The disk of this identity.
    pub fn disk(&self, id: DiskId) -> Option<MemDisk> {
        self.lock().contains_key(&id).then(|| MemDisk { id, array: self.clone() })
    }

    /// Adds a disk with the contents of another, without its saved state. It is writable.
    ///
    /// # Panics
    /// If there is no such disk, or the identity is in use.
    pub fn clone_disk(&self, source: DiskId, id: DiskId) -> MemDisk {
        let mut copy = MemVolume::clone(&self.lock()[&source]);
        (copy.saved, copy.read_only, copy.kept_until) = (Bytes::new(), false, 0);
        assert!(self.lock().insert(id, copy.into()).is_none(), "{id:?} exists");
        MemDisk { id, array: self.clone() }
    }

    /// Removes a disk.
    pub fn remove(&self, id: DiskId) {
        self.lock().remove(&id);
    }

    /// The bytes of a run; empty if there is no such disk or run.
    pub fn peek(&self, id: DiskId, extent: Extent) -> Data {
        self.lock().get(&id).and_then(|volume| volume.read(extent).ok()).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<DiskId, Arc<MemVolume>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self) -> MutexGuard<'_, NotedCommands> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for MemArray {
    fn look_up(&self, sequence: Sequence) -> Known {
        self.done().look_up(sequence)
    }

    fn settled(&self) -> Pending {
        Pending::done()
    }

    fn fronts(&self) -> Vec<u64> {
        self.done().fronts().collect()
    }

    fn forget(&self, front: u64) -> Pending {
        self.done().forget(front);
        Pending::done()
    }
}

impl MemDisk {
    /// Changes the capacity; blocks beyond a smaller one are lost.
    pub fn resize(&self, blocks: u64) {
        self.change(|volume| {
            volume.geometry.blocks = blocks;
            volume.blocks.split_off(&blocks);
        });
    }

    /// Replaces size and contents of the disk by those of another; they are independent from now on.
    ///
    /// # Panics
    /// If there is no such disk.
    pub fn restore(&self, source: DiskId) {
        let source = self.array.lock()[&source].clone();
        self.change(|volume| (volume.geometry, volume.blocks) = (source.geometry, source.blocks.clone()));
    }

    /// Sets whether the disk is read-only.
    pub fn set_read_only(&self, read_only: bool) {
        self.change(|volume| volume.read_only = read_only);
    }

    /// Sets the end of the retention; the caller that deletes or changes disks checks it.
    pub fn keep(&self, until: u64) {
        self.change(|volume| volume.kept_until = until);
    }

    /// End of the retention; zero if there is none.
    pub fn kept_until(&self) -> u64 {
        self.with(|volume| volume.kept_until)
    }

    /// An image has the greatest identity that is not in use.
    fn image(&self) -> MemDisk {
        let mut volumes = self.array.lock();
        let free = (0..=u128::MAX).rev().map(DiskId).find(|id| !volumes.contains_key(id));
        let id = free.expect("there are fewer disks than identities");
        let volume = MemVolume::clone(&volumes[&self.id]);
        let image = MemVolume { read_only: true, kept_until: 0, image: true, ..volume };
        volumes.insert(id, image.into());
        MemDisk { id, array: self.array.clone() }
    }

    fn with<T>(&self, f: impl FnOnce(&MemVolume) -> T) -> T {
        f(self.array.lock().get(&self.id).expect("a disk of this array"))
    }

    fn change<T>(&self, f: impl FnOnce(&mut MemVolume) -> T) -> T {
        f(Arc::make_mut(self.array.lock().get_mut(&self.id).expect("a disk of this array")))
    }

    fn perform(&self, op: Op) -> Result {
        match op {
            Op::Copy(segments) => self.array.copy(&segments),
            Op::Image => Ok(Reply::Image(Image(Arc::new(MemImage(self.image()))))),
            Op::Read(extent) | Op::Locate(extent) => self.with(|volume| volume.read(extent)).map(Reply::Data),
            Op::Status(extent) => self.with(|volume| volume.status(extent)).map(Reply::Status),
            op => self.change(|volume| volume.perform(op)),
        }
    }
}

impl MemArray {
    fn copy(&self, segments: &[CopySegment]) -> Result {
        let mut volumes = self.lock();
        for segment in segments {
            let source = volumes.get(&segment.source).ok_or(Error::Unreachable(segment.source))?;
            let target = volumes.get(&segment.target).ok_or(Error::Unreachable(segment.target))?;
            target.check_access()?;
            source.check(Extent::new(segment.source_lba, segment.blocks))?;
            target.check(Extent::new(segment.target_lba, segment.blocks))?;
            if source.geometry.block_bytes != target.geometry.block_bytes {
                return Err(Error::Malformed("copy between different block lengths"));
            }
        }
        for segment in segments {
            let from = segment.source_lba..segment.source_lba + segment.blocks;
            let copied: Vec<_> = volumes[&segment.source]
                .blocks
                .range(from)
                .map(|(lba, block)| (*lba, block.clone()))
                .collect();
            let target = volumes.get_mut(&segment.target).ok_or(Error::Unreachable(segment.target))?;
            let target = Arc::make_mut(target);
            target.unmap(Extent::new(segment.target_lba, segment.blocks));
            for (lba, block) in copied {
                target.blocks.insert(lba - segment.source_lba + segment.target_lba, block);
            }
        }
        Ok(Reply::Done)
    }
}

impl MemVolume {
    fn perform(&mut self, op: Op) -> Result {
        if op.is_change() {
            self.check_access()?;
        }
        match op {
            Op::Write { lba, data } => self.write(lba, &data),
            Op::Fill { extent, block } => self.fill(extent, &block),
            Op::Unmap(extents) => {
                extents.iter().try_for_each(|extent| self.check(*extent))?;
                extents.into_iter().for_each(|extent| self.unmap(extent));
                Ok(Reply::Done)
            }
            Op::CompareAndWrite { lba, compare, write } => {
                if compare.len() != write.len() {
                    return Err(Error::Malformed("compare and write of different lengths"));
                }
                let extent = self.extent_of(lba, &compare)?;
                match self.read(extent)?.first_difference(&compare) {
                    Some(offset) => Err(Error::Miscompare { offset: offset as u64 }),
                    None => self.write(lba, &write),
                }
            }
            Op::Or { lba, data } => {
                let extent = self.extent_of(lba, &data)?;
                let merged: Vec<u8> =
                    self.read(extent)?.to_bytes().iter().zip(data.to_bytes()).map(|(a, b)| a | b).collect();
                self.write(lba, &merged.into())
            }
            Op::SaveState(saved) => {
                self.saved = saved;
                Ok(Reply::Done)
            }
            Op::Flush => Ok(Reply::Done),
            Op::Read(_) | Op::Locate(_) | Op::Status(_) | Op::Copy(_) | Op::Image => {
                unreachable!("performed without changing a volume alone")
            }
        }
    }

    fn check_access(&self) -> Result<()> {
        if self.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    fn check(&self, extent: Extent) -> Result<()> {
        match extent.end() {
            Some(end) if end <= self.geometry.blocks => Ok(()),
            _ => Err(Error::OutOfRange { extent, blocks: self.geometry.blocks }),
        }
    }

    fn extent_of(&self, lba: u64, data: &Data) -> Result<Extent> {
        let block = self.geometry.block_bytes as usize;
        if !data.len().is_multiple_of(block) {
            return Err(Error::Malformed("data is not a whole number of blocks"));
        }
        let extent = Extent::new(lba, (data.len() / block) as u64);
        self.check(extent).map(|()| extent)
    }

    fn read(&self, extent: Extent) -> Result<Data> {
        self.check(extent)?;
        let zeros = Bytes::from(vec![0; self.geometry.block_bytes as usize]);
        let mut data = Data::new();
        for lba in extent.lba..extent.lba + extent.blocks {
            data.push(self.blocks.get(&lba).unwrap_or(&zeros).clone());
        }
        Ok(data)
    }

    fn write(&mut self, lba: u64, data: &Data) -> Result {
        let extent = self.extent_of(lba, data)?;
        let (bytes, block) = (data.to_bytes(), self.geometry.block_bytes as usize);
        for index in 0..extent.blocks {
            let at = index as usize * block;
            self.blocks.insert(lba + index, bytes.slice(at..at + block));
        }
        Ok(Reply::Done)
    }

    fn fill(&mut self, extent: Extent, block: &Data) -> Result {
        self.check(extent)?;
        if block.len() != self.geometry.block_bytes as usize {
            return Err(Error::Malformed("fill takes exactly one block"));
        }
        let block = block.to_bytes();
        for lba in extent.lba..extent.lba + extent.blocks {
            self.blocks.insert(lba, block.clone());
        }
        Ok(Reply::Done)
    }

    fn unmap(&mut self, extent: Extent) {
        let mapped = self.blocks.range(extent.lba..extent.lba + extent.blocks).map(|(lba, _)| *lba);
        for lba in mapped.collect::<Vec<_>>() {
            self.blocks.remove(&lba);
        }
    }

    fn status(&self, extent: Extent) -> Result<Vec<Region>> {
        self.check(extent)?;
        let mut regions: Vec<Region> = Vec::new();
        for lba in extent.lba..extent.lba + extent.blocks {
            let mapped = self.blocks.contains_key(&lba);
            let state = if mapped { Provisioning::Mapped } else { Provisioning::Deallocated };
            match regions.last_mut() {
                Some(last) if last.state == state => last.extent.blocks += 1,
                _ => regions.push(Region { extent: Extent::new(lba, 1), state }),
            }
        }
        Ok(regions)
    }
}

impl Disk for MemImage {
    fn id(&self) -> DiskId {
        self.0.id()
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn space(&self) -> Space {
        self.0.space()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn state(&self) -> Bytes {
        Bytes::new()
    }

    fn execute(&self, op: Op) -> Pending {
        self.0.execute(op)
    }
}

impl Disk for MemDisk {
    fn id(&self) -> DiskId {
        self.id
    }

    fn geometry(&self) -> Geometry {
        self.with(|volume| volume.geometry)
    }

    fn space(&self) -> Space {
        self.with(|volume| {
            let mapped = volume.blocks.len() as u64 * u64::from(volume.geometry.block_bytes);
            Space { mapped, pool_used: mapped, pool_total: volume.geometry.bytes() }
        })
    }

    fn is_read_only(&self) -> bool {
        self.with(|volume| volume.read_only)
    }

    fn state(&self) -> Bytes {
        self.with(|volume| volume.saved.clone())
    }

    fn execute(&self, op: Op) -> Pending {
        Pending::ready(self.perform(op))
    }

    fn execute_noted(&self, op: Op, note: Note) -> Pending {
        let mut done = self.array.done();
        let result = self.perform(op);
        if result.is_ok() {
            done.note(note);
        }
        Pending::ready(result)
    }
}
