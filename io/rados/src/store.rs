//! The store: one owner of one domain of an array in RADOS.

use crate::contents::{Contents, contents};
use crate::envelope;
use crate::journal::{Journal, object_name};
use crate::objects::{Name, ObjectError, Objects, Operation, Pool, Step, Usage};
use crate::owned::{self, OWNER, hex};
use crate::queue::Queue;
use crate::record::{LANES, StoredSuperblock, Term, batch_bytes, encode_batch};
use crate::segments::Segments;
use crate::stripes::PARTS;
use crate::takeover::{LaneObject, Takeover, superblock_name, taken};
use bytes::Bytes;
use media::encryption::{DataKey, Envelope, Keyring};
use media::sector::PAYLOAD_BYTES;
use parking_lot::Mutex;
use shelf::pool::{ObjectPool, ObjectStore};
use shelf::{
    ALIGN, AlignedBuf, Batch, Done, Error, JournalPos, Layout, Result, Room, SegmentId, Shelf, Source,
    Superblock, spawn, wait,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Longest batch, and longest superblock payload, in bytes: each is one operation.
const BATCH_BYTES: u32 = 1 << 20;
const SUPERBLOCK_BYTES: u32 = 16 << 20;

/// Share of the pool that is kept for the journal, checkpoints and cleaning, and its least number of segments.
const RESERVE_PERCENT: u64 = 2;
const RESERVE_SEGMENTS: u64 = 64;

/// Claims of an opening that chooses its epoch itself.
const MAX_CLAIMS: usize = 5;

/// The array grows when it can have more segments by this part of those that it has.
const GROWTH_STEP_DIVISOR: u32 = 64;

/// Maximum number of segments that a store grows to: every checkpoint lists all of them.
const MAX_SEGMENTS: u32 = 2 << 20;

/// Bytes of pages in a stripe and in a segment of a new store, and in one of a store that is larger than [`LARGE_STORE_BYTES`].
const STRIPE_BYTES: u64 = 1 << 20;
const SEGMENT_BYTES: u64 = 16 << 20;
const LARGE_SEGMENT_BYTES: u64 = 64 << 20;
const LARGE_STORE_BYTES: u64 = 8 << 40;

/// How a new store is made.
#[derive(Clone, Copy, Debug)]
pub struct FormatOptions {
    /// Pages of a stripe. In an erasure-coded pool a stripe is a multiple of the pool's stripe.
    pub stripe_pages: u32,
    /// Stripes of a segment, a multiple of four.
    pub segment_stripes: u32,
    /// Number of segments.
    pub segments: u32,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Bytes after which an object of the journal is closed.
    pub journal_object_bytes: u64,
    /// Segments of the pool that are never used.
    pub reserve_segments: u64,
}

impl FormatOptions {
    /// Of a store for a pool that is as full as `usage` says: as many segments as it has space for, and at most
    /// `capacity` bytes. With stripes of 1 MiB and segments of 16 MiB, or of 64 MiB if it is large.
    pub fn for_pool(usage: Usage, capacity: Option<u64>) -> Self {
        let bytes = usage.available.min(capacity.unwrap_or(u64::MAX));
        let segment = if bytes > LARGE_STORE_BYTES { LARGE_SEGMENT_BYTES } else { SEGMENT_BYTES };
        let free = free_segments(usage, segment, RESERVE_SEGMENTS);
        let segments = free.min(bytes / segment).min(u64::from(MAX_SEGMENTS)) as u32;
        Self { segment_stripes: (segment / STRIPE_BYTES) as u32, ..Self::new(segments) }
    }

    /// Stripes of 1 MiB, and this many segments of 16 MiB.
    pub fn new(segments: u32) -> Self {
        Self {
            stripe_pages: (STRIPE_BYTES / ALIGN as u64) as u32,
            segment_stripes: (SEGMENT_BYTES / STRIPE_BYTES) as u32,
            segments,
            journal_bytes: 256 << 20,
            journal_object_bytes: 32 << 20,
            reserve_segments: RESERVE_SEGMENTS,
        }
    }

    /// Bytes that a segment takes in the pool, before replication.
    pub fn segment_bytes(&self) -> u64 {
        u64::from(self.stripe_pages) * u64::from(self.segment_stripes) * ALIGN as u64
    }

    fn layout(&self) -> Layout {
        assert!(self.segment_stripes.is_multiple_of(PARTS as u32), "stripes are dealt over four parts");
        let stripe_bytes = self.stripe_pages * PAYLOAD_BYTES as u32;
        Layout {
            segment_bytes: stripe_bytes * self.segment_stripes,
            stripe_bytes,
            segments: self.segments,
            journal_bytes: self.journal_bytes,
            batch_bytes: BATCH_BYTES.min((self.journal_bytes / 4) as u32),
            superblock_bytes: SUPERBLOCK_BYTES,
        }
    }
}

/// How a store is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The array.
    pub array: u128,
    /// The domain of the array.
    pub domain: u16,
    /// The epoch of the new owner; `None` for one more than that of the last.
    pub epoch: Option<u64>,
    /// A random number, never used before with the key.
    pub salt: u64,
    /// The data key of an encrypted array, and the envelope that it was in; a new array stores that.
    pub key: Option<(DataKey, Envelope)>,
    /// Bytes of the pool that the array may grow to as the pool does; zero for those that it was made with.
    pub max_bytes: u64,
    /// Bytes after which an object of the journal is closed; zero for the usual.
    pub journal_object_bytes: u64,
    /// Segments of the pool that are never used; `None` for the usual.
    pub reserve_segments: Option<u64>,
}

/// A store in RADOS, owned by this process until another opens it.
pub struct Store(pub(crate) Arc<Owner>);

/// What futures that outlive a call share with the store.
pub(crate) struct Owner {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) keyring: Arc<Keyring>,
    /// The wrapped data key of an encrypted array.
    pub(crate) envelope: Mutex<Option<Envelope>>,
    domain: u16,
    epoch: u64,
    salt: u64,
    /// Its number of segments is that of the opening.
    layout: Layout,
    /// The number of segments now.
    segment_count: AtomicU32,
    max_segments: u32,
    /// The pool is being asked how full it is, for [`shelf::pool::Pool::tick`].
    pub(crate) measuring: AtomicBool,
    /// When it was asked last, in nanoseconds of that clock.
    pub(crate) measured_ns: AtomicU64,
    /// How often it was asked.
    pub(crate) measured: AtomicU64,
    /// How full the data pool, and the pool of the journal, were when they were asked last.
    pub(crate) usages: [Mutex<Option<Usage>>; 2],
    journal_object_bytes: u64,
    reserve_segments: u64,
    /// Set when the journal may be appended to: at a format, else when it has been recovered.
    journal: Mutex<Option<Arc<Journal>>>,
    pub(crate) segments: Arc<Segments>,
    roots: Queue,
    state: Mutex<State>,
    room: AtomicU64,
}

struct State {
    sequence: u64,
    /// The number of segments in the next superblock.
    segment_count: u32,
    superblock: Option<Superblock>,
    /// Of older owners.
    terms: Vec<Term>,
    /// Objects of older owners' journals, each with the number from which on it is not needed.
    old_objects: Vec<(LaneObject, JournalPos)>,
    tombstones: Vec<LaneObject>,
    /// The client that owned the store before, until it is fenced.
    predecessor: String,
}

impl State {
    /// The entry of an older owner once everything before `trimmed` is removed.
    fn needed_from(&self, term: &Term, trimmed: JournalPos) -> Term {
        let of = |lane: usize| move |object: &&LaneObject| object.0 == term.epoch && object.1 == lane;
        let kept = self.old_objects.iter().filter(|(_, end)| *end > trimmed).map(|(object, _)| object);
        let mut first_object = term.first_object;
        for (lane, first) in first_object.iter_mut().enumerate() {
            let needed = kept.clone().chain(&self.tombstones).filter(of(lane)).map(|object| object.2);
            *first = needed.min().unwrap_or(*first);
        }
        Term { first_object, ..*term }
    }
}

impl Store {
    /// Makes a new, empty store and opens it.
    ///
    /// # Errors
    /// [`Error::Unusable`] when the namespace holds a store already, or stripes don't fit the data pool: nothing was
    /// written.
    pub async fn format(
        objects: Arc<dyn Objects>,
        options: FormatOptions,
        open: OpenOptions,
    ) -> Result<Arc<Self>> {
        let keyring = keyring(&open);
        let (epoch, layout) = (open.epoch.unwrap_or(1), options.layout());
        check_alignment(&*objects, &layout)?;
        prepare(&objects, open.domain).await?;
        if let Some((_, envelope)) = &open.key {
            envelope::create(&*objects, envelope).await?;
        }
        let stored = |sequence| StoredSuperblock {
            epoch,
            salt: open.salt,
            sequence,
            layout,
            terms: vec![Term { epoch, from: JournalPos(1), first_object: [0; LANES] }],
            instance: objects.instance(),
            superblock: None,
        };
        for slot in 0..2 {
            let name = superblock_name(open.domain, slot);
            let content = stored(slot).encode(&keyring);
            let steps = vec![Step::CreateExclusive, Step::set(OWNER, hex(epoch)), Step::WriteFull(content)];
            match objects.operate(&name, Operation { steps, force: false }).await {
                Ok(()) => {}
                Err(ObjectError::Exists) => {
                    return Err(Error::Unusable(format!(
                        "there is an array {:032x} in this pool and namespace already: open it, or use another \
                         namespace",
                        open.array
                    )));
                }
                Err(error) => return Err(Error::Drive { what: format!("{}: {error}", name.name) }),
            }
        }
        let open = OpenOptions {
            journal_object_bytes: options.journal_object_bytes,
            reserve_segments: Some(options.reserve_segments),
            ..open
        };
        let owner = Owner::new(objects.clone(), keyring.clone(), epoch, &stored(1), (&open, &[]));
        owner.begin_journal(JournalPos(1), VecDeque::new());
        owner.measure().await;
        Ok(Arc::new(Self(owner)))
    }

    /// Opens a store as its new owner. Its former owner is refused from now on; the journal is sealed by
    /// [`Shelf::recover`].
    ///
    /// # Errors
    /// [`Error::Unusable`] when there is no such store, or this release can't read it; [`Error::Fenced`] when a newer
    /// owner was faster; [`Error::Corrupt`] when its superblocks are not whole.
    pub async fn open(objects: Arc<dyn Objects>, open: OpenOptions) -> Result<Arc<Self>> {
        let keyring = keyring(&open);
        envelope::check(&*objects, &keyring).await?;
        let mut takeover = Takeover { objects: &objects, domain: open.domain, epoch: 0, keyring: &keyring };
        let before = takeover.newest_superblock().await?;
        check_alignment(&*objects, &before.layout)?;
        let mut attempts = 0;
        let newest = loop {
            takeover.epoch = match open.epoch {
                Some(epoch) => epoch,
                None => 1 + owner_epoch(&*objects, open.domain).await?.max(before.epoch),
            };
            attempts += 1;
            match takeover.claim().await {
                // The claim of an owner that is gone came late, with the epoch that this one had chosen.
                Err(Error::Fenced { .. }) if open.epoch.is_none() && attempts < MAX_CLAIMS => {}
                outcome => break outcome?,
            }
        };
        let listed = objects.list(Pool::Data).await;
        let listed = listed.map_err(|error| Error::Drive { what: format!("listing objects: {error}") })?;
        let epoch = takeover.epoch;
        let owner = Owner::new(objects, keyring, epoch, &newest, (&open, &listed));
        owner.measure().await;
        Ok(Arc::new(Self(owner)))
    }

    /// Its epoch.
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// Asks how full the pool is. To be called once a second: [`Shelf::room`] returns what was found.
    pub async fn measure(&self) {
        self.0.measure().await;
    }
}

impl Owner {
    fn new(
        objects: Arc<dyn Objects>,
        keyring: Arc<Keyring>,
        epoch: u64,
        stored: &StoredSuperblock,
        (open, names): (&OpenOptions, &[String]),
    ) -> Arc<Self> {
        let (layout, ids) = (stored.layout, (open.domain, epoch, open.salt));
        let segments = Segments::new(objects.clone(), ids, keyring.clone(), layout, names);
        let usual = FormatOptions::new(0);
        let state = State {
            sequence: stored.sequence,
            segment_count: layout.segments,
            superblock: stored.superblock.clone(),
            terms: stored.terms.clone(),
            old_objects: Vec::new(),
            tombstones: Vec::new(),
            predecessor: stored.instance.clone(),
        };
        Arc::new(Self {
            objects,
            keyring,
            envelope: Mutex::new(open.key.as_ref().map(|(_, envelope)| envelope.clone())),
            domain: open.domain,
            epoch,
            salt: open.salt,
            layout,
            segment_count: AtomicU32::new(layout.segments),
            max_segments: (open.max_bytes / segments.stored_bytes()).min(u64::from(MAX_SEGMENTS)) as u32,
            measuring: AtomicBool::new(false),
            measured_ns: AtomicU64::new(0),
            measured: AtomicU64::new(0),
            usages: Default::default(),
            journal_object_bytes: match open.journal_object_bytes {
                0 => usual.journal_object_bytes,
                bytes => bytes,
            },
            reserve_segments: open.reserve_segments.unwrap_or(usual.reserve_segments),
            journal: Mutex::new(None),
            segments: Arc::new(segments),
            roots: Queue::default(),
            state: Mutex::new(state),
            room: AtomicU64::new(0),
        })
    }

    /// What the store consists of.
    pub(crate) fn objects(&self) -> ObjectStore {
        let names = [Pool::Data, Pool::Meta].map(|pool| self.objects.pool_name(pool));
        let pool = |at: usize| {
            let usage = *self.usages[at].lock();
            ObjectPool {
                name: names[at].clone(),
                journal: names[at] == names[1],
                segments: names[at] == names[0],
                stored: usage.map(|usage| usage.stored),
                available: usage.map(|usage| usage.available),
            }
        };
        let pools = if names[0] == names[1] { vec![pool(0)] } else { vec![pool(1), pool(0)] };
        let (epoch, client) = (self.epoch, self.objects.instance());
        ObjectStore { pools, namespace: self.objects.namespace(), epoch, lanes: LANES, client }
    }

    /// Asks how full the pool of the journal is, if it has one of its own.
    pub(crate) async fn measure_journal_pool(&self) {
        if self.objects.pool_name(Pool::Meta) == self.objects.pool_name(Pool::Data) {
            return;
        }
        match self.objects.usage(Pool::Meta).await {
            Ok(usage) => *self.usages[1].lock() = Some(usage),
            Err(error) => tracing::debug!(%error, "how full the pool of the journal is can't be found out"),
        }
    }

    pub(crate) async fn measure(self: &Arc<Self>) {
        let usage = match self.objects.usage(Pool::Data).await {
            Ok(usage) => usage,
            Err(error) => {
                tracing::warn!(%error, "how full the pool is can't be found out");
                return;
            }
        };
        *self.usages[0].lock() = Some(usage);
        let room = free_segments(usage, self.segments.stored_bytes(), self.reserve_segments);
        self.room.store(room, Ordering::Relaxed);
        if room > 0 {
            self.segments.set_full(false);
        }
        let possible = u64::from(self.segments.used()) + room;
        let target = u32::try_from(possible).unwrap_or(u32::MAX).min(self.max_segments);
        let now = self.segment_count.load(Ordering::Relaxed);
        // Not for every segment that others free: a superblock is written for it.
        if target > now.saturating_add(now / GROWTH_STEP_DIVISOR) && self.running_journal().is_ok() {
            match self.grow(target).await {
                Ok(()) => tracing::info!(segments = target, "the array has grown with the pool"),
                Err(error) => tracing::warn!(%error, "the array can't grow with the pool"),
            }
        }
    }

    /// Adds segments, once a superblock has their number.
    async fn grow(self: &Arc<Self>, segments: u32) -> Result {
        let (done, grown) = wait();
        let owner = self.clone();
        let job = async move {
            owner.state.lock().segment_count = segments;
            let stored = match owner.running_journal() {
                Ok(journal) => {
                    let superblock = owner.state.lock().superblock.clone();
                    let from = superblock.map_or(JournalPos(1), |superblock| superblock.journal_from);
                    let stored = owner.store_superblock(None, journal.term(from)).await;
                    stored.inspect_err(|error| journal.stop(error.clone()))
                }
                Err(error) => Err(error),
            };
            if stored.is_ok() {
                owner.segment_count.store(segments, Ordering::Relaxed);
            }
            done(stored);
        };
        self.roots.push(move || Box::pin(job));
        grown.await
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout { segments: self.segment_count.load(Ordering::Relaxed), ..self.layout }
    }

    fn begin_journal(&self, next: JournalPos, untrimmed: VecDeque<(JournalPos, u64)>) {
        let sizes = (self.layout.journal_bytes, self.journal_object_bytes);
        let journal = Journal::new((self.domain, self.epoch), sizes, next, untrimmed);
        *self.journal.lock() = Some(Arc::new(journal));
    }

    fn running_journal(&self) -> Result<Arc<Journal>> {
        let journal = self.journal.lock().clone();
        let journal = journal.ok_or_else(|| Error::Unusable("the journal has not been recovered".into()))?;
        journal.check_running().map(|()| journal)
    }

    fn takeover(&self) -> Takeover<'_> {
        let Self { objects, domain, epoch, keyring, .. } = self;
        Takeover { objects, domain: *domain, epoch: *epoch, keyring }
    }

    /// Seals and reads what older owners have left, and begins the journal of this one.
    async fn take_over(self: &Arc<Self>, from: JournalPos) -> Result<Vec<Batch>> {
        if self.journal.lock().is_some() {
            // It was just formatted, and has begun already.
            return Ok(Vec::new());
        }
        let (terms, predecessor, superblock) = {
            let state = self.state.lock();
            (state.terms.clone(), state.predecessor.clone(), state.superblock.clone())
        };
        let trimmed = superblock.map_or(JournalPos(1), |superblock| superblock.journal_from);
        let sealed = self.takeover().seal(&terms, trimmed).await?;
        let own = Term { epoch: self.epoch, from: sealed.next, first_object: [0; LANES] };
        {
            let mut state = self.state.lock();
            // An owner with nothing in the journal needs no entry: its lanes are sealed.
            state.terms.retain(|term| term.from < sealed.next);
            (state.old_objects, state.tombstones) = (sealed.objects, sealed.tombstones);
        }
        // In both before the first batch of this owner can exist: so every owner with batches is named.
        for _ in 0..2 {
            self.store_superblock(None, own).await?;
        }
        let mut named = self.state.lock().terms.clone();
        named.push(own);
        self.begin_journal(sealed.next, taken(&sealed.batches).collect());
        // Hosts do not wait for it: monitors take their time, and the objects refuse the former owner already.
        let owner = self.clone();
        spawn(async move { owner.remove_what_is_left_of(&predecessor, &named).await });
        Ok(sealed.batches.into_iter().filter(|batch| batch.pos >= from).collect())
    }

    /// Puts the former owner on the blocklist, and removes what no owner needs. `named` are the terms that are in use.
    async fn remove_what_is_left_of(&self, predecessor: &str, named: &[Term]) {
        let fenced = self.fence(predecessor).await;
        match self.takeover().unused(named, fenced).await {
            Ok(unused) => self.remove(unused),
            Err(error) => tracing::warn!(%error, "unused objects of older owners were not found"),
        }
    }

    async fn fence(&self, predecessor: &str) -> bool {
        if predecessor == self.objects.instance() {
            return false;
        }
        match self.objects.fence(predecessor).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(
                    predecessor,
                    %error,
                    "the former owner is not on the blocklist; its objects refuse it, and stay sealed"
                );
                false
            }
        }
    }

    /// Writes a superblock with these contents, or with those of before, to the older of both places.
    async fn store_superblock(&self, superblock: Option<Superblock>, own: Term) -> Result {
        let (name, content) = {
            let mut state = self.state.lock();
            state.sequence += 1;
            let superblock = superblock.or_else(|| state.superblock.clone());
            let trimmed = superblock.as_ref().map_or(JournalPos(1), |superblock| superblock.journal_from);
            let ends = state.terms.iter().skip(1).chain([&own]).map(|next| next.from);
            let needed = state.terms.iter().zip(ends).filter(|(_, end)| *end > trimmed);
            let needed = needed.map(|(term, _)| state.needed_from(term, trimmed));
            let stored = StoredSuperblock {
                epoch: self.epoch,
                salt: self.salt,
                sequence: state.sequence,
                layout: Layout { segments: state.segment_count, ..self.layout },
                terms: needed.chain([own]).collect(),
                instance: self.objects.instance(),
                superblock,
            };
            (superblock_name(self.domain, state.sequence), stored.encode(&self.keyring))
        };
        let steps = vec![Step::equal(OWNER, hex(self.epoch)), Step::WriteFull(content)];
        match self.objects.operate(&name, Operation { steps, force: true }).await {
            Ok(()) => Ok(()),
            Err(ObjectError::Guard | ObjectError::Blocklisted) => {
                let newer = owner_epoch(&*self.objects, self.domain).await.unwrap_or(self.epoch + 1);
                Err(Error::Fenced { epoch: newer })
            }
            Err(error) => Err(Error::Drive { what: format!("{}: {error}", name.name) }),
        }
    }

    async fn replace_superblock(&self, superblock: Superblock) -> Result {
        let journal = self.running_journal()?;
        let from = superblock.journal_from;
        let term = journal.term(from);
        if let Err(error) = self.store_superblock(Some(superblock.clone()), term).await {
            journal.stop(error.clone());
            return Err(error);
        }
        let mut unused = journal.trim(from, &term);
        {
            let mut state = self.state.lock();
            state.superblock = Some(superblock);
            let old = std::mem::take(&mut state.old_objects);
            let (trimmed, kept) = old.into_iter().partition(|(_, end)| *end <= from);
            state.old_objects = kept;
            let trimmed: Vec<_> = trimmed;
            let name = |((epoch, lane, number), _)| object_name(self.domain, epoch, lane, number);
            unused.extend(trimmed.into_iter().map(name));
            let ends: Vec<_> = state.terms.iter().skip(1).map(|next| next.from).collect();
            let mut ends = ends.into_iter().chain([term.from]);
            state.terms.retain(|_| ends.next().is_some_and(|end| end > from));
        }
        self.remove(unused);
        Ok(())
    }

    /// Removes unused journal objects in the background.
    fn remove(&self, names: Vec<Name>) {
        let (objects, epoch) = (self.objects.clone(), self.epoch);
        spawn(async move {
            for name in names {
                match owned::remove(&*objects, &name, epoch).await {
                    Ok(()) => {}
                    // A newer owner has sealed it, and removes it.
                    Err(Error::Fenced { .. }) => return,
                    Err(error) => {
                        tracing::warn!(object = name.name, %error, "an unused object was not removed")
                    }
                }
            }
        });
    }
}

fn keyring(open: &OpenOptions) -> Arc<Keyring> {
    let key = open.key.as_ref().map(|(key, _)| key.clone());
    Arc::new(Keyring::new(open.array, key, open.salt))
}

/// Segments that a pool has space for besides the reserve.
fn free_segments(usage: Usage, segment_bytes: u64, reserve_segments: u64) -> u64 {
    let Usage { available, stored } = usage;
    let reserve = ((available + stored) * RESERVE_PERCENT / 100).max(reserve_segments * segment_bytes);
    available.saturating_sub(reserve) / segment_bytes
}

fn check_alignment(objects: &dyn Objects, layout: &Layout) -> Result {
    let stripe = u64::from(layout.stripe_bytes) / PAYLOAD_BYTES as u64 * ALIGN as u64;
    let alignment = objects.alignment();
    if stripe.is_multiple_of(alignment) {
        return Ok(());
    }
    Err(Error::Unusable(format!(
        "the data pool takes writes in multiples of {alignment} bytes, and stripes of the array have {stripe}: use an \
         erasure-coded pool with a number of data chunks that is a power of two"
    )))
}

/// Refuses a namespace with anything in it, and removes what a format left that did not end.
async fn prepare(objects: &Arc<dyn Objects>, domain: u16) -> Result {
    match contents(&**objects).await? {
        Contents::Blank => {}
        Contents::Array { array, .. } => {
            return Err(Error::Unusable(format!(
                "there is an array {array:032x} in this pool and namespace already: open it, or use another namespace"
            )));
        }
        Contents::Foreign { object } => {
            return Err(Error::Unusable(format!(
                "this pool and namespace hold something that is no array, such as the object {object}: use an empty \
                 namespace"
            )));
        }
    }
    for name in [superblock_name(domain, 0), envelope::name()] {
        let removal = Operation { steps: vec![Step::Remove], force: true };
        match objects.operate(&name, removal).await {
            Ok(()) => tracing::warn!(object = name.name, "a format was interrupted here: it begins again"),
            Err(ObjectError::Absent) => {}
            Err(error) => return Err(Error::Drive { what: format!("{}: {error}", name.name) }),
        }
    }
    Ok(())
}

/// The newest owner of a domain that a superblock names; zero if there is none.
///
/// # Errors
/// [`Error::Drive`] when a superblock is missing, or RADOS fails.
pub async fn owner_epoch(objects: &dyn Objects, domain: u16) -> Result<u64> {
    let mut highest = 0;
    for slot in 0..2 {
        let name = superblock_name(domain, slot);
        let attributes = objects.attributes(&name).await;
        let attributes =
            attributes.map_err(|error| Error::Drive { what: format!("{}: {error}", name.name) })?;
        let owner = attributes.get(OWNER).and_then(|owner| u64::from_str_radix(owner, 16).ok());
        highest = highest.max(owner.unwrap_or(0));
    }
    Ok(highest)
}

impl Shelf for Store {
    fn layout(&self) -> Layout {
        self.0.layout()
    }

    fn journal_cost(&self, head: usize, body: usize) -> u64 {
        batch_bytes(head, body)
    }

    /// Hosts have what the pool has space for. What was acknowledged must still get to its place when others have filled the
    /// pool, and cleaning must go on to free space: these have the reserve, besides.
    fn room(&self) -> Room {
        let protected = match self.0.segments.is_full() {
            true => 0,
            false => u32::try_from(self.0.room.load(Ordering::Relaxed)).unwrap_or(u32::MAX),
        };
        let reserve = u32::try_from(self.0.reserve_segments).unwrap_or(u32::MAX);
        Room { protected, any: protected.saturating_add(reserve) }
    }

    fn append(&self, head: Bytes, body: Vec<Bytes>, done: Done<JournalPos>) {
        let len = body.iter().map(Bytes::len).sum::<usize>();
        assert!(head.len() + len <= self.0.layout.batch_bytes as usize, "the batch is within its bound");
        assert!(body.iter().all(|piece| piece.len().is_multiple_of(ALIGN)), "whole pages");
        match self.0.running_journal() {
            Ok(journal) => {
                let owner = (self.0.epoch, self.0.salt);
                let encode = |pos, acknowledged| {
                    encode_batch((pos, acknowledged), &head, &body, owner, &self.0.keyring)
                };
                journal.append(&self.0.objects, (head.len(), len), encode, done);
            }
            Err(error) => done(Err(error)),
        }
    }

    fn journal_taken(&self, pos: JournalPos) -> u64 {
        self.0.journal.lock().as_ref().map_or(0, |journal| journal.taken(pos))
    }

    fn recover(&self, from: JournalPos, done: Done<Vec<Batch>>) {
        let store = self.0.clone();
        spawn(async move { done(store.take_over(from).await) });
    }

    fn write(&self, segment: SegmentId, offset: u32, stripes: Arc<AlignedBuf>, done: Done<()>) {
        self.0.layout().assert_stripes(segment, offset, stripes.len());
        self.0.segments.write(segment, offset, &stripes, done);
    }

    fn read(&self, segment: SegmentId, offset: u32, len: u32, done: Done<Bytes>) {
        let store = self.0.clone();
        assert!(segment.0 < store.layout().segments, "a segment of this store");
        spawn(async move { done(store.segments.read(segment, offset, len).await) });
    }

    fn source(&self, segment: SegmentId, offset: u32, len: u32) -> Option<Source> {
        self.0.segments.source(segment, offset, len)
    }

    fn sync(&self, done: Done<()>) {
        // RADOS answers a write when it is durable.
        done(Ok(()));
    }

    fn discard(&self, segment: SegmentId) {
        self.0.segments.discard(segment);
    }

    fn write_superblock(&self, superblock: Superblock, done: Done<()>) {
        let store = self.0.clone();
        self.0.roots.push(move || Box::pin(async move { done(store.replace_superblock(superblock).await) }));
    }

    fn superblock(&self) -> Option<Superblock> {
        self.0.state.lock().superblock.clone()
    }
}
