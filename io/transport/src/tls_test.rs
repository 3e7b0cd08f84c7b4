use super::*;
use s2n_tls::enums::PeerKeyUpdate;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use tokio::io::{AsyncWriteExt, ReadBuf};
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
        // Repeats reads as s2n-tls does, for records without data for the link.
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

const IDENTITY: &[u8] = b"host";
const SECRET: [u8; 32] = [0x42; 32];

struct OneKey;

impl PreSharedKeys for OneKey {
    fn find(&self, identity: &[u8]) -> Option<PreSharedKey> {
        let secret = Zeroizing::new(SECRET.to_vec());
        (identity == IDENTITY).then_some(PreSharedKey { hash: PskHash::Sha256, secret })
    }
}

/// The host's side, by the same library.
fn client(socket: TcpStream) -> TlsStream {
    let server = TlsStream::new(socket, &TlsConfig::new(Arc::new(NoKeys)).unwrap()).unwrap();
    let mut psk = Psk::builder().unwrap();
    psk.set_identity(IDENTITY).unwrap().set_secret(&SECRET).unwrap().set_hmac(PskHmac::SHA256).unwrap();
    let mut connection = Connection::new_client();
    connection.set_config(TlsConfig::new(Arc::new(NoKeys)).unwrap().0).unwrap();
    connection.set_blinding(Blinding::SelfService).unwrap();
    connection.append_psk(&psk.build().unwrap()).unwrap();
    connection.set_receive_callback(Some(recv)).unwrap().set_send_callback(Some(send)).unwrap();
    let mut wire = Arc::into_inner(server.wire).unwrap().into_inner();
    wire.first = First::Tls; // of a server it may be another one
    let wire = Arc::new(Mutex::new(wire));
    let context = Arc::as_ptr(&wire).cast_mut().cast::<c_void>();
    // SAFETY: as in `TlsStream::new`.
    unsafe { connection.set_receive_context(context).unwrap().set_send_context(context).unwrap() };
    TlsStream { connection, wire, gathered: Vec::new(), established: false }
}

/// Bytes of records with a key update, and with one byte: header, content, its type and the tag.
const KEY_UPDATE_BYTES: usize = 5 + 5 + 1 + 16;
const RECORD_OF_ONE_BYTES: usize = 5 + 1 + 1 + 16;

async fn update(client: &mut TlsStream, byte: u8) {
    client.connection.request_key_update(PeerKeyUpdate::KeyUpdateNotRequested).unwrap();
    std::future::poll_fn(|cx| client.poll_write(cx, &[IoSlice::new(&[byte])])).await.unwrap();
}

/// Bytes that have arrived and are not read.
async fn arrived(stream: &TlsStream) -> usize {
    let mut space = [0; 256];
    std::future::poll_fn(|cx| stream.wire.lock().socket.poll_peek(cx, &mut ReadBuf::new(&mut space)))
        .await
        .unwrap()
}

#[tokio::test]
async fn key_updates_are_followed_however_many_there_are() {
    const ROUNDS: usize = 20_000;
    let (server, peer) = pair().await;
    drop(server.connection);
    let socket = Arc::into_inner(server.wire).unwrap().into_inner().socket;
    let mut server = TlsStream::new(socket, &TlsConfig::new(Arc::new(OneKey)).unwrap()).unwrap();
    let mut client = client(peer);
    let of_server = std::future::poll_fn(|cx| server.poll_handshake(cx));
    let of_client = std::future::poll_fn(|cx| client.poll_handshake(cx));
    let (of_server, of_client) = tokio::join!(of_server, of_client);
    assert_eq!((of_server.unwrap(), of_client.unwrap()), (IDENTITY.to_vec(), IDENTITY.to_vec()));
    // Each has one byte after it.
    update(&mut client, 0).await;
    while arrived(&server).await < KEY_UPDATE_BYTES + RECORD_OF_ONE_BYTES {
        tokio::task::yield_now().await;
    }
    assert_eq!(arrived(&server).await, KEY_UPDATE_BYTES + RECORD_OF_ONE_BYTES);
    let flood = async {
        for round in 1..ROUNDS {
            update(&mut client, round as u8).await;
        }
        std::future::poll_fn(|cx| client.poll_flush(cx)).await.unwrap();
    };
    let mut came = BytesMut::new();
    let reads = async {
        while came.len() < ROUNDS {
            let mut space = (&mut came).limit(4096);
            std::future::poll_fn(|cx| server.poll_read(cx, &mut space)).await.unwrap();
        }
    };
    tokio::join!(flood, reads);
    assert!(came.iter().enumerate().all(|(round, byte)| *byte == round as u8));
    std::future::poll_fn(|cx| server.poll_write(cx, &[IoSlice::new(b"answer")])).await.unwrap();
    let mut answer = BytesMut::new();
    let mut space = (&mut answer).limit(64);
    std::future::poll_fn(|cx| client.poll_read(cx, &mut space)).await.unwrap();
    assert_eq!(&answer[..], b"answer");
}

#[tokio::test]
async fn what_the_socket_does_not_take_is_kept_in_order() {
    let (stream, mut peer) = pair().await;
    let pattern =
        |from: usize, bytes: usize| -> Vec<u8> { (from..from + bytes).map(|it| it as u8).collect() };
    let mut written = 0;
    // Until the socket is full; the rest is kept.
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
