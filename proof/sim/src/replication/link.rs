//! Connection between both arrays: bytes arrive late and in any portions, and are lost when it is cut.

use block::workload::Random;
use bytes::{Buf, Bytes};
use peer::frame::{Decoder, header};
use replication::{MAX_PAYLOAD_BYTES, Message, Stream};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Maximum bytes in transit from the target to the source, which suffice by contract.
const ANSWER_BYTES: usize = 4096;

/// One direction.
#[derive(Default)]
struct Way {
    under_way: VecDeque<Bytes>,
    arrived: VecDeque<Bytes>,
    capacity: usize,
    closed: bool,
    /// Whether the first message was sent.
    greeted: bool,
    receiver: Option<Waker>,
    sender: Option<Waker>,
    tap: Decoder,
}

impl Way {
    fn wake(&mut self) -> Vec<Waker> {
        self.receiver.take().into_iter().chain(self.sender.take()).collect()
    }

    fn is_full(&self) -> bool {
        self.under_way.iter().map(Bytes::len).sum::<usize>() >= self.capacity
    }
}

#[derive(Default)]
struct State {
    ways: [Way; 2],
    cut: bool,
    sent: Vec<(usize, Message)>,
    /// Newest version that both ends claim to support.
    newest: u16,
}

/// A connection, from the view of the world.
#[derive(Clone)]
pub struct Link(Arc<Mutex<State>>);

/// One end of the connection.
pub struct End {
    link: Link,
    /// Index of its sending direction.
    way: usize,
}

/// The greeting of an older program, if this is a greeting.
fn greeting(pieces: &VecDeque<Bytes>, newest: u16) -> Option<VecDeque<Bytes>> {
    let mut decoder = Decoder::default();
    pieces.iter().for_each(|piece| decoder.push(piece.clone()));
    let first = decoder.next(MAX_PAYLOAD_BYTES).ok()??;
    match Message::decode(first.kind, first.payload) {
        Ok(Message::Hello { least, most, array }) if most > newest => {
            let hello = Message::Hello { least, most: newest, array };
            let payload = hello.encode();
            let header = Bytes::copy_from_slice(&header(hello.kind(), 0, 0, &payload));
            Some(std::iter::once(header).chain(payload).collect())
        }
        _ => None,
    }
}

fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

impl Link {
    /// A new connection: the source sends in direction 0, with at most `capacity` bytes in transit. The newest version
    /// in both hello messages is replaced by `newest`.
    pub fn new(capacity: usize, newest: u16) -> (Self, End, End) {
        let mut state = State { newest, ..State::default() };
        (state.ways[0].capacity, state.ways[1].capacity) = (capacity, ANSWER_BYTES);
        let link = Self(Arc::new(Mutex::new(state)));
        let end = |way| End { link: link.clone(), way };
        let (source, target) = (end(0), end(1));
        (link, source, target)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages sent since the last call, with their direction.
    pub fn take_sent(&self) -> Vec<(usize, Message)> {
        std::mem::take(&mut self.lock().sent)
    }

    /// Delivers some bytes; false if none are in transit.
    pub fn deliver(&self, random: &mut Random) -> bool {
        let wakers = {
            let mut state = self.lock();
            let full: Vec<usize> = (0..2).filter(|way| !state.ways[*way].under_way.is_empty()).collect();
            let Some(way) = full.get(random.below(full.len() as u64) as usize) else { return false };
            let way = &mut state.ways[*way];
            let front = way.under_way.front_mut().expect("bytes are under way");
            let len =
                if random.chance(20) { 1 + random.below(front.len() as u64) as usize } else { front.len() };
            let part = front.split_to(len);
            if !front.has_remaining() {
                way.under_way.pop_front();
            }
            way.arrived.push_back(part);
            way.wake()
        };
        wake(wakers);
        true
    }

    /// Cuts the connection: bytes in transit are lost.
    pub fn cut(&self) {
        let wakers: Vec<Waker> = {
            let mut state = self.lock();
            state.cut = true;
            state.ways.iter_mut().for_each(|way| way.under_way.clear());
            state.ways.iter_mut().flat_map(Way::wake).collect()
        };
        wake(wakers);
    }
}

impl Stream for End {
    fn send(&mut self, pieces: Vec<Bytes>) -> impl Future<Output = io::Result<()>> + Send {
        let mut pieces: VecDeque<Bytes> = pieces.into();
        poll_fn(move |cx| {
            let wakers = {
                let state = &mut *self.link.lock();
                if state.cut || state.ways[1 - self.way].closed {
                    return Poll::Ready(Err(io::Error::other("cut")));
                }
                let way = &mut state.ways[self.way];
                if !std::mem::replace(&mut way.greeted, true)
                    && let Some(hello) = greeting(&pieces, state.newest)
                {
                    pieces = hello;
                }
                while !way.is_full() {
                    let Some(piece) = pieces.pop_front() else { break };
                    way.tap.push(piece.clone());
                    while let Ok(Some(frame)) = way.tap.next(MAX_PAYLOAD_BYTES) {
                        let message = Message::decode(frame.kind, frame.payload);
                        state.sent.push((self.way, message.expect("an end sends what can be read")));
                    }
                    way.under_way.push_back(piece);
                }
                if !pieces.is_empty() {
                    way.sender = Some(cx.waker().clone());
                }
                way.receiver.take().into_iter().collect()
            };
            wake(wakers);
            if pieces.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
    }

    fn receive(&mut self) -> impl Future<Output = io::Result<Bytes>> + Send {
        poll_fn(|cx| {
            let mut state = self.link.lock();
            let cut = state.cut;
            let way = &mut state.ways[1 - self.way];
            if let Some(bytes) = way.arrived.pop_front() {
                return Poll::Ready(Ok(bytes));
            }
            if cut {
                return Poll::Ready(Err(io::Error::other("cut")));
            }
            if way.closed && way.under_way.is_empty() {
                return Poll::Ready(Ok(Bytes::new()));
            }
            way.receiver = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let wakers: Vec<Waker> = {
            let mut state = self.link.lock();
            state.ways[self.way].closed = true;
            state.ways.iter_mut().flat_map(Way::wake).collect()
        };
        wake(wakers);
    }
}
