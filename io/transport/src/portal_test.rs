#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

use super::*;
use bytes::BufMut;

/// A link that takes whatever comes: each byte is a PDU if `counts_pdus`.
#[derive(Default)]
struct Taking {
    buffer: BytesMut,
    taken: usize,
    counts_pdus: bool,
    /// PDUs that have arrived and are not taken.
    left: usize,
}

impl Link for Taking {
    fn space(&mut self) -> Limit<&mut BytesMut> {
        self.buffer.clear();
        self.buffer.reserve(crate::LARGE_BUFFER_BYTES);
        (&mut self.buffer).limit(crate::LARGE_BUFFER_BYTES)
    }

    fn wants_input(&self) -> bool {
        self.left == 0
    }

    fn received(&mut self) {
        self.left += self.buffer.len();
        self.proceed();
    }

    fn proceed(&mut self) -> bool {
        let now = if self.counts_pdus { self.left.min(MAX_TURN_PDUS) } else { self.left };
        (self.taken, self.left) = (self.taken + now, self.left - now);
        self.left > 0
    }

    fn poll_tasks(&mut self, _: &ConnectionSlot, _: &mut Context<'_>) -> bool {
        false
    }

    fn wants_output(&self) -> bool {
        false
    }

    fn slices(&self) -> SmallVec<[IoSlice<'_>; 96]> {
        SmallVec::new()
    }

    fn sent(&mut self, _: usize) {}

    fn tick(&mut self) {}

    fn close(&mut self, _: &'static str) {}

    fn shut_down(&mut self, _: u16) {}

    fn ended(&self) -> Option<String> {
        None
    }

    fn finish(self, _: &str) -> bool {
        true
    }
}

/// The driver of a link, and the host at the other end.
async fn driven(link: Taking) -> (Driver<Taking>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (stream, peer) = listener.accept().await.unwrap();
    let connections = Connections::new(vec![Shard::current()], ConnectionLimits::new(8));
    let (sender, receiver) = unbounded_channel();
    let slot = ConnectionSlot::take(&connections, sender, (1, peer.ip())).unwrap();
    let (ticks, stream, permit) = (interval(TICK), Stream::Plain(stream), Permit::default());
    let (evicted, held, left) = (false, None, false);
    (Driver { link, slot, receiver, ticks, stream, evicted, permit, held, left }, host)
}

/// Drives a link until it has taken `count`, as often as it is woken; returns the most in one turn, and the turns.
async fn take(driver: &mut Driver<Taking>, count: usize) -> (usize, usize) {
    let (mut turns, mut most) = (0, 0);
    poll_fn(|cx| {
        let before = driver.link.taken;
        assert!(driver.poll(cx).is_pending());
        most = most.max(driver.link.taken - before);
        turns += 1;
        if driver.link.taken < count { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    (most, turns)
}

/// A host that sends without a pause takes a turn like others.
#[tokio::test]
async fn a_connection_yields_to_the_others_of_its_shard_after_some_bytes() {
    let (mut driver, mut host) = driven(Taking::default()).await;
    let sends = tokio::spawn(async move {
        host.write_all(&vec![0; 4 << 20]).await.unwrap();
        host
    });
    let (most, turns) = take(&mut driver, 4 << 20).await;
    assert!(most <= MAX_TURN_BYTES + crate::LARGE_BUFFER_BYTES && turns > 10, "{most} bytes, {turns} turns");
    drop(sends.await.unwrap());
}

/// What it leaves of what has arrived is taken although nothing else arrives.
#[tokio::test]
async fn a_connection_yields_to_the_others_of_its_shard_after_some_pdus() {
    let (mut driver, mut host) = driven(Taking { counts_pdus: true, ..Taking::default() }).await;
    host.write_all(&[0; 50 * MAX_TURN_PDUS]).await.unwrap();
    let (most, turns) = take(&mut driver, 50 * MAX_TURN_PDUS).await;
    assert!(most <= 3 * MAX_TURN_PDUS && turns > 10, "{most} PDUs, {turns} turns");
}

#[test]
fn connections_of_hosts_that_are_gone_are_found_by_the_kernel() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let listener = listener(([127, 0, 0, 1], 0).into()).await.unwrap();
        let _host = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let accepted = SockRef::from(&accepted);
        assert!(accepted.keepalive().unwrap());
        assert_eq!(accepted.tcp_keepalive_time().unwrap(), KEEPALIVE_IDLE);
    });
}
