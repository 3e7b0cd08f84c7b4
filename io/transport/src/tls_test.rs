use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

struct NoKeys;

impl PreSharedKeys for NoKeys {
    fn find(&self, _: &[u8]) -> Option<PreSharedKey> {
        None
    }
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection with TLS, and the socket of its peer.
async fn pair() -> (TlsStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (socket, _) = listener.accept().await.unwrap();
    (TlsStream::new(socket, &TlsConfig::new(Arc::new(NoKeys)).unwrap()).unwrap(), peer)
}

#[tokio::test]
async fn a_peer_that_never_stops_has_turns_of_a_limited_length() {
    let (mut stream, mut peer) = pair().await;
    let sender = tokio::spawn(async move { while peer.write_all(&[HANDSHAKE; 4096]).await.is_ok() {} });
    let woken = Arc::<Woken>::default();
    let waker = Waker::from(woken.clone());
    let wire = stream.wire.clone();
    let mut turns = Vec::new();
    while turns.len() < 3 {
        // As s2n-tls reads records that have nothing for the link, one after the other.
        let mut read = 0;
        let before = woken.0.load(Ordering::Relaxed);
        let polled = stream.poll(&mut Context::from_waker(&waker), |_| -> Poll<Result<(), TlsError>> {
            let mut space = [MaybeUninit::uninit(); 5000];
            while let Ok(bytes) = wire.lock().read(&mut space) {
                read += bytes;
            }
            Poll::Pending
        });
        assert!(polled.is_pending() && read <= MAX_TURN_BYTES);
        if read == MAX_TURN_BYTES {
            assert!(woken.0.load(Ordering::Relaxed) > before, "it has another turn at once");
            turns.push(read);
        }
        tokio::task::yield_now().await;
    }
    sender.abort();
}

#[tokio::test]
async fn what_the_socket_does_not_take_is_kept_in_order() {
    let (stream, mut peer) = pair().await;
    let pattern =
        |from: usize, bytes: usize| -> Vec<u8> { (from..from + bytes).map(|it| it as u8).collect() };
    let mut written = 0;
    // Until the socket is full; what is beyond is kept.
    while !stream.has_unsent() {
        stream.wire.lock().write(&pattern(written, 9973)).unwrap();
        written += 9973;
    }
    stream.wire.lock().write(&pattern(written, 500)).unwrap();
    written += 500;
    let reader = tokio::spawn(async move {
        let mut all = Vec::new();
        while all.len() < written {
            tokio::io::AsyncReadExt::read_buf(&mut peer, &mut all).await.unwrap();
        }
        all
    });
    std::future::poll_fn(|cx| stream.wire.lock().poll_flush(cx)).await.unwrap();
    assert!(!stream.has_unsent());
    assert!(reader.await.unwrap() == pattern(0, written));
}

#[test]
fn a_record_is_a_part_of_a_large_slice_or_copies_of_small_ones() {
    let large = vec![1; RECORD_BYTES + 5];
    let mut gathered = Vec::new();
    let slices = [IoSlice::new(&large), IoSlice::new(&[2])];
    assert_eq!(record(&slices, &mut gathered).as_ptr(), large.as_ptr(), "without a copy");
    assert_eq!(record(&slices, &mut gathered).len(), RECORD_BYTES);
    let slices = [IoSlice::new(&[3; 10]), IoSlice::new(&[]), IoSlice::new(&large)];
    let record = record(&slices, &mut gathered);
    assert_eq!((record.len(), &record[..11]), (RECORD_BYTES, &[3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1][..]));
}
