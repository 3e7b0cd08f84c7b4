//! Segments: stripes, dealt in turn over the parts of a segment.
//!
//! Object `seg.<domain>.<segment>.<part>` holds every fourth stripe as pages that verify themselves. It is created by the
//! first stripe in it, with the generation and the salt that its pages were encoded with. A part has one operation under
//! way, so creation, writes and removal keep their order. Removal compares owner and generation: a late removal by an
//! older owner leaves what was written since.

use crate::objects::{Attributes, Name, ObjectError, Objects, Operation, Step};
use crate::owned::{GENERATION, OWNER, failure, hex, remove, write_failure};
use crate::queue::Queue;
use crate::stripes::{Geometry, PARTS, Pages, gather};
use bytes::Bytes;
use media::encryption::Keyring;
use media::sector::{PAYLOAD_BYTES, Position, Sectors};
use parking_lot::Mutex;
use shelf::{ALIGN, AlignedBuf, Done, Error, Layout, Result, SegmentId, Source, Writing, join};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SALT: &str = "salt";

/// The segments of one owner.
pub struct Segments {
    objects: Arc<dyn Objects>,
    geometry: Geometry,
    epoch: u64,
    salt: u64,
    keyring: Arc<Keyring>,
    sectors: Sectors,
    layout: Layout,
    generation: AtomicU64,
    /// The pool has refused a write for want of space.
    full: AtomicBool,
    /// Parts that existed at the opening.
    found: HashSet<(u32, usize)>,
    /// Parts that were used since.
    parts: Mutex<HashMap<(u32, usize), Arc<Part>>>,
    /// Parts that exist.
    stored: AtomicU64,
}

#[derive(Default)]
struct Part {
    queue: Queue,
    state: Mutex<PartState>,
}

#[derive(Default)]
struct PartState {
    /// Of this owner, once it has begun the segment.
    own: Option<u64>,
    /// What the pages were written with, by this owner or an older one.
    written: Option<Writing>,
    /// The object was created by this owner.
    created: bool,
    /// Nothing has existed since the last removal.
    absent: bool,
}

/// Segment and part of an object of this domain.
pub fn parse_name(name: &str, domain: u16) -> Option<(u32, usize)> {
    let (segment, part) = name.strip_prefix(&format!("seg.{domain:04x}."))?.split_once('.')?;
    Some((u32::from_str_radix(segment, 16).ok()?, part.parse().ok()?))
}

impl Segments {
    /// The segments of an owner. `names` are the objects that exist: discarding a segment without any costs nothing.
    pub fn new(
        objects: Arc<dyn Objects>,
        (domain, epoch, salt): (u16, u64, u64),
        keyring: Arc<Keyring>,
        layout: Layout,
        names: &[String],
    ) -> Self {
        let sectors = keyring.sectors(salt);
        let (generation, full, parts) = (AtomicU64::new(1), AtomicBool::new(false), Mutex::default());
        let found: HashSet<_> = names.iter().filter_map(|name| parse_name(name, domain)).collect();
        let stored = AtomicU64::new(found.len() as u64);
        Self {
            objects,
            geometry: Geometry { domain, stripe_bytes: layout.stripe_bytes },
            epoch,
            salt,
            keyring,
            sectors,
            layout,
            generation,
            full,
            found,
            parts,
            stored,
        }
    }

    /// Bytes that a segment takes in the pool.
    pub fn stored_bytes(&self) -> u64 {
        u64::from(self.layout.segment_bytes) / PAYLOAD_BYTES as u64 * ALIGN as u64
    }

    /// Segments of which something is stored.
    pub fn used(&self) -> u32 {
        self.stored.load(Ordering::Relaxed).div_ceil(PARTS as u64) as u32
    }

    /// True once a write was refused for want of space, until [`Segments::set_full`].
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Sets what [`Segments::is_full`] returns.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Relaxed);
    }

    fn name(&self, segment: u32, part: usize) -> Name {
        self.geometry.name(segment, part)
    }

    fn part(&self, segment: u32, part: usize) -> Arc<Part> {
        let absent = !self.found.contains(&(segment, part));
        let new = || {
            Arc::new(Part {
                state: Mutex::new(PartState { absent, ..PartState::default() }),
                ..Part::default()
            })
        };
        self.parts.lock().entry((segment, part)).or_insert_with(new).clone()
    }

    /// Writes whole stripes: see [`shelf::Shelf::write`].
    pub fn write(self: &Arc<Self>, segment: SegmentId, offset: u32, stripes: &[u8], done: Done<()>) {
        let each = self.layout.stripe_bytes;
        let generation = self.begin(segment.0);
        let mut waiting = Vec::new();
        for (index, payload) in (offset / each..).zip(stripes.chunks_exact(each as usize)) {
            let (part, row) = (index as usize % PARTS, u64::from(index) / PARTS as u64);
            let pages = self.encode(generation, index, payload);
            let at = row * u64::from(self.geometry.stripe_pages()) * ALIGN as u64;
            let (written, wait) = shelf::wait();
            let (segments, object) = (self.clone(), self.part(segment.0, part));
            let of = object.clone();
            object.queue.push(move || {
                Box::pin(async move {
                    let outcome = segments.write_pages((segment.0, part), &of, generation, (at, pages)).await;
                    written(outcome);
                })
            });
            waiting.push(wait);
        }
        shelf::spawn(async move {
            let outcomes = join(waiting.into_iter()).await;
            done(outcomes.into_iter().collect());
        });
    }

    /// The generation of a segment that this owner writes.
    fn begin(&self, segment: u32) -> u64 {
        let parts: Vec<_> = (0..PARTS).map(|part| self.part(segment, part)).collect();
        if let Some(own) = parts[0].state.lock().own {
            return own;
        }
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        for part in parts {
            let mut state = part.state.lock();
            let writing = Writing { generation, salt: self.salt };
            (state.own, state.written) = (Some(generation), Some(writing));
        }
        generation
    }

    fn encode(&self, generation: u64, stripe: u32, payload: &[u8]) -> Bytes {
        let mut pages = AlignedBuf::zeroed(payload.len() / PAYLOAD_BYTES * ALIGN);
        let first = stripe * self.geometry.stripe_pages();
        for ((number, page), payload) in
            (first..).zip(pages.chunks_exact_mut(ALIGN)).zip(payload.chunks_exact(PAYLOAD_BYTES))
        {
            self.sectors.write(Position { generation, page: number }, payload, page);
        }
        let len = pages.len();
        Arc::new(pages).share(0..len)
    }

    async fn write_pages(
        &self,
        (segment, number): (u32, usize),
        part: &Part,
        generation: u64,
        (at, pages): (u64, Bytes),
    ) -> Result {
        let name = self.name(segment, number);
        loop {
            let created = part.state.lock().created;
            let mut steps = match created {
                true => vec![Step::equal(OWNER, hex(self.epoch)), Step::equal(GENERATION, hex(generation))],
                false => vec![
                    Step::CreateExclusive,
                    Step::set(OWNER, hex(self.epoch)),
                    Step::set(GENERATION, hex(generation)),
                    Step::set(SALT, hex(self.salt)),
                ],
            };
            steps.push(Step::Write(at, vec![pages.clone()]));
            // What was promised to hosts is in the journal and must get to its place, and cleaning must get on.
            let force = self.is_full();
            match self.objects.operate(&name, Operation { steps, force }).await {
                Ok(()) => {
                    let mut state = part.state.lock();
                    state.created = true;
                    if std::mem::take(&mut state.absent) {
                        self.stored.fetch_add(1, Ordering::Relaxed);
                    }
                    return Ok(());
                }
                Err(ObjectError::Full) if !force => {
                    tracing::warn!(object = name.name, "the pool is full; writes that were promised go on");
                    self.set_full(true);
                }
                Err(ObjectError::Exists) if !created => remove(&*self.objects, &name, self.epoch).await?,
                Err(error) => return Err(write_failure(&name, &error, self.epoch)),
            }
        }
    }

    /// Frees a segment in the background: see [`shelf::Shelf::discard`].
    pub fn discard(self: &Arc<Self>, segment: SegmentId) {
        for number in 0..PARTS {
            let key = (segment.0, number);
            if !self.found.contains(&key) && !self.parts.lock().contains_key(&key) {
                continue;
            }
            let part = self.part(segment.0, number);
            if std::mem::take(&mut part.state.lock().own).is_none() && part.state.lock().absent {
                continue;
            }
            part.state.lock().written = None;
            let (segments, of, name) = (self.clone(), part.clone(), self.name(segment.0, number));
            part.queue.push(move || {
                Box::pin(async move {
                    let removed = remove(&*segments.objects, &name, segments.epoch).await;
                    let mut state = of.state.lock();
                    state.created = false;
                    if removed.is_ok() && !std::mem::replace(&mut state.absent, true) {
                        segments.stored.fetch_sub(1, Ordering::Relaxed);
                    }
                    if let Err(error) = removed {
                        tracing::warn!(object = name.name, %error, "an unused object was not removed");
                    }
                })
            });
        }
    }

    /// Reads bytes of a segment: see [`shelf::Shelf::read`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] when pages are missing or not what was written, [`Error::Drive`] when RADOS fails.
    pub async fn read(&self, segment: SegmentId, offset: u32, len: u32) -> Result<Bytes> {
        let end = offset.checked_add(len).filter(|end| *end <= self.layout.segment_bytes);
        assert!(end.is_some(), "bytes inside of a segment");
        let parts = self.geometry.stripes(offset, len).map(|(stripe, range)| {
            let pages = Pages::of(&self.geometry, segment.0, stripe, range);
            self.read_pages(segment.0, pages)
        });
        gather(join(parts).await)
    }

    async fn read_pages(&self, segment: u32, pages: Pages) -> Result<Bytes> {
        let (part, name) = (self.part(segment, pages.part), &pages.name);
        let stored = pages.fetch(&*self.objects).await;
        let stored = stored.map_err(|error| failure(name, &error, self.epoch))?;
        let known = part.state.lock().written;
        let written = match known {
            Some(written) => written,
            None => {
                let attributes = self.objects.attributes(name).await;
                let written = written_of(&attributes.map_err(|error| failure(name, &error, self.epoch))?);
                let what = || format!("{} does not say who wrote it", name.name);
                let written = written.ok_or_else(|| Error::Corrupt { what: what() })?;
                part.state.lock().written.get_or_insert(written);
                written
            }
        };
        pages.decode(&stored, written, &self.keyring)
    }

    /// How another process reads bytes of a segment: see [`shelf::Shelf::source`].
    pub fn source(&self, segment: SegmentId, offset: u32, len: u32) -> Option<Source> {
        let parts = self.geometry.stripes(offset, len).map(|(stripe, _)| stripe as usize % PARTS);
        // Parts of older writings, which a crash kept from being removed, have nothing that is needed.
        let mut writings = parts.map(|part| self.part(segment.0, part).state.lock().written);
        let first = writings.next()??;
        writings
            .all(|writing| writing == Some(first))
            .then_some(Source { opening: self.salt, writing: first })
    }
}

fn written_of(attributes: &Attributes) -> Option<Writing> {
    let number = |name: &str| u64::from_str_radix(attributes.get(name)?, 16).ok();
    Some(Writing { generation: number(GENERATION)?, salt: number(SALT)? })
}
