//! TLS at a portal, over real sockets, with and without OpenSSL: `openssl s_client` carries the bytes of the small
//! initiator.

use crate::authentication::Credentials;
use crate::authentication::secret::DhchapSecret;
use crate::lab_test::*;
use crate::observer::{ConnectObserver, RefusedConnect};
use crate::psk::{PskIdentity, TlsPsk};
use crate::server::Server;
use crate::spec::DISCOVERY_NQN;
use crate::subsystem::HostSecurity;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use transport::{ConnectionLimits, Permit, Portal, TLS_BYTES};

const SHA256: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
const SHA384: &str =
    "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:";

const INVALID_HOST: u16 = 0x184;
const INVALID_PARAMETERS: u16 = 0x182;

/// Refusals: cause, host and portal.
#[derive(Default)]
struct Seen(Mutex<Vec<(&'static str, Option<String>, u16)>>);

impl ConnectObserver for Seen {
    fn connected(&self, _: &str, _: SocketAddr, _: u16) {}
    fn disconnected(&self, _: &str, _: SocketAddr, _: u16, _: &str) {}
    fn refused(&self, refused: &RefusedConnect) {
        self.0.lock().push((refused.cause.kind(), refused.host.clone(), refused.portal));
    }
}

/// A subsystem that is served at two portals: 1 without TLS, 2 with.
struct Served {
    world: World,
    server: Arc<Server>,
    plain: SocketAddr,
    secure: SocketAddr,
    seen: Arc<Seen>,
    shard: Handle,
    thread: (oneshot::Sender<()>, JoinHandle<()>),
}

fn with_psk(text: &str) -> HostSecurity {
    HostSecurity { tls: Some(TlsPsk::parse(text).unwrap()), dhchap: None }
}

impl Served {
    /// With a PSK of the first host; the other one has none.
    fn new(psk: &str) -> Self {
        let world = World::new();
        world.subsystem.set_hosts(
            [(HOST.to_owned(), with_psk(psk)), (OTHER.to_owned(), HostSecurity::default())].into(),
        );
        let seen = Arc::<Seen>::default();
        world.subsystem.observe(seen.clone());
        let random = Box::new(|| Ok([7; 32]));
        let server = Server::new(
            world.subsystem.clone(),
            world.budget.clone(),
            Permit::default(),
            random,
            crate::at_once(),
        );
        // One shard: a task that blocks it blocks all connections.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (shard, (stop, stopped)) = (runtime.handle().clone(), oneshot::channel::<()>());
        let thread = std::thread::spawn(move || _ = runtime.block_on(stopped));
        let local = ([127, 0, 0, 1], 0).into();
        let wanted = [Portal::plain(1, local), Portal { tls: true, ..Portal::plain(2, local) }];
        let limits = ConnectionLimits::new(64);
        let open = shard.block_on(server.serve(&wanted, vec![shard.clone()], limits)).unwrap();
        let (plain, secure) = (open[0].address, open[1].address);
        Self { world, server, plain, secure, seen, shard, thread: (stop, thread) }
    }

    /// A TLS connection with this identity of this PSK.
    fn open(&self, psk: &str, identity: &str) -> Host {
        self.open_at(self.secure, psk, identity)
    }

    fn open_at(&self, address: SocketAddr, psk: &str, identity: &str) -> Host {
        let psk = TlsPsk::parse(psk).unwrap();
        let key = psk.of_identity(&PskIdentity::parse(identity.as_bytes()).unwrap()).unwrap();
        let hex: String = key.secret.iter().map(|byte| format!("{byte:02x}")).collect();
        self.world.open_over(Box::new(Client::start(address, identity, &hex)))
    }

    fn refused(&self) -> Vec<(&'static str, Option<String>, u16)> {
        std::mem::take(&mut *self.seen.0.lock())
    }

    /// Waits until all connections have ended and their memory is free.
    fn end(self) {
        self.shard.block_on(self.server.shutdown());
        assert_eq!(self.world.budget.used(), 0);
        self.thread.0.send(()).unwrap();
        self.thread.1.join().unwrap();
    }
}

/// `openssl s_client` as a stream of plain bytes.
struct Client(Child);

impl Client {
    fn start(address: SocketAddr, identity: &str, key: &str) -> Self {
        let mut command = Command::new("openssl");
        command.args([
            "s_client",
            "-quiet",
            "-tls1_3",
            "-ciphersuites",
            "TLS_AES_128_GCM_SHA256",
            "-psk",
            key,
        ]);
        command.args(["-psk_identity", identity, "-connect", &address.to_string()]);
        Self::spawn(&mut command)
    }

    /// With SHA-384, which `-psk` does not support: the key as that of a session (SSL_SESSION of OpenSSL, in DER).
    fn start_with_sha384(address: SocketAddr, identity: &str, key: &[u8], folder: &Path) -> Self {
        let value = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8], bytes].concat();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let fields = [
            value(2, &[1]),
            value(2, &[3, 4]),
            value(4, &[0x13, 2]),
            value(4, &[1; 32]),
            value(4, key),
            value(0xA1, &value(2, &(now as u32).to_be_bytes())),
            value(0xA2, &value(2, &[28, 32])), // two hours
        ]
        .concat();
        let session = [&[0x30, 0x81, fields.len() as u8], fields.as_slice()].concat();
        let file = folder.join("session.pem");
        let armor = |word| format!("-----{word} SSL SESSION PARAMETERS-----");
        let text = [armor("BEGIN"), STANDARD.encode(session), armor("END"), String::new()].join("\n");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("openssl");
        command.args(["s_client", "-quiet", "-tls1_3", "-psk_identity", identity, "-psk_session"]);
        Self::spawn(command.arg(file).args(["-connect", &address.to_string()]))
    }

    fn spawn(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Self(child.expect("openssl, of the package of this name"))
    }

    /// Waits until the server has ended the connection; returns whether no byte came.
    fn gets_nothing(mut self) -> bool {
        let mut out = Vec::new();
        // The client ends by itself, with its input still open.
        self.0.stdout.take().unwrap().read_to_end(&mut out).unwrap();
        out.is_empty()
    }
}

impl Read for Client {
    fn read(&mut self, space: &mut [u8]) -> std::io::Result<usize> {
        self.0.stdout.as_mut().unwrap().read(space)
    }
}

impl Write for Client {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.stdin.as_mut().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.stdin.as_mut().unwrap().flush()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|index| (index as u8).wrapping_mul(7).wrapping_add(seed)).collect()
}

fn identity_0(host: &str, subsystem: &str) -> String {
    format!("NVMe0R01 {host} {subsystem}")
}

#[test]
fn an_initiator_works_over_the_tls_of_another_library() {
    let served = Served::new(SHA256);
    let identity = identity_0(HOST, SUBSYSTEM);
    let mut admin = served.open(SHA256, &identity);
    admin.initialize((true, true));
    let id = admin.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    assert_eq!(admin.run(property_set(0x14, 0x0046_0001)).status, 0);
    let mut io = served.open(SHA256, &identity);
    io.initialize((true, true));
    io.connect(HOST, SUBSYSTEM, 1, id, 128).unwrap();
    for (seed, bytes, in_capsule) in [(1, 512, true), (2, 8192, true), (3, 4096, false), (4, 1 << 20, false)]
    {
        let data = pattern(bytes, seed);
        assert_eq!(io.run(write(1, 100, data.clone(), in_capsule)).status, 0);
        let end = io.run(read(1, 100, (bytes / BLOCK) as u32));
        assert!((end.status, &end.data) == (0, &data), "{bytes} bytes are read as they were written");
    }
    assert!(served.world.budget.used() >= 2 * TLS_BYTES, "both use memory for TLS");
    // More outstanding data than a socket takes: records wait, in order.
    let data = pattern(1 << 20, 9);
    assert_eq!(io.run(write(1, 0, data.clone(), false)).status, 0);
    let cids: Vec<u16> = (0..32).map(|_| io.submit(&read(1, 0, 2048))).collect();
    for _ in &cids {
        let end = io.end(&read(1, 0, 2048));
        assert!(cids.contains(&end.cid) && end.data == data);
    }
    assert!(served.refused().is_empty());
    drop((admin, io));
    served.end();
}

#[test]
fn a_psk_of_sha_384_is_used_with_aes_256() {
    let served = Served::new(SHA384);
    let identity = identity_0(HOST, SUBSYSTEM).replace("R01", "R02");
    let psk = TlsPsk::parse(SHA384).unwrap();
    let key = psk.of_identity(&PskIdentity::parse(identity.as_bytes()).unwrap()).unwrap().secret;
    let folder = tempfile::tempdir().unwrap();
    let client = Client::start_with_sha384(served.secure, &identity, &key, folder.path());
    let mut host = served.world.open_over(Box::new(client));
    host.initialize((false, false));
    host.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    // With SHA-256, which GnuTLS uses by default for keys of any length, the binder differs.
    let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(Client::start(served.secure, &identity, &hex).gets_nothing());
    assert_eq!(served.refused(), [("tls-handshake", Some(HOST.to_owned()), 2)]);
    drop(host);
    served.end();
}

#[test]
fn only_who_has_the_key_of_a_host_gets_a_session() {
    let served = Served::new(SHA256);
    let identity = identity_0(HOST, SUBSYSTEM);
    let wrong = "11".repeat(32);
    assert!(Client::start(served.secure, &identity, &wrong).gets_nothing());
    assert_eq!(served.refused(), [("tls-handshake", Some(HOST.to_owned()), 2)]);
    let of_other = identity_0(OTHER, SUBSYSTEM);
    assert!(Client::start(served.secure, &of_other, &wrong).gets_nothing(), "it has no PSK");
    assert_eq!(served.refused(), [("tls-handshake", Some(OTHER.to_owned()), 2)]);
    assert!(
        Client::start(served.secure, &identity_0(HOST, "nqn.2026-11.io.ashlar:none"), &wrong).gets_nothing()
    );
    assert!(Client::start(served.secure, "unknown", &wrong).gets_nothing());
    assert_eq!(served.refused()[1], ("tls-handshake", None, 2));
    // A host that does not use TLS, and one that disconnects at once.
    let mut plain = TcpStream::connect(served.secure).unwrap();
    plain.write_all(&[0, 0, 128, 0, 128, 0, 0, 0]).unwrap();
    let _answer = plain.read_to_end(&mut Vec::new());
    assert_eq!(served.refused(), [("tls-required", None, 2)]);
    let mut gone = TcpStream::connect(served.secure).unwrap();
    gone.shutdown(Shutdown::Write).unwrap();
    let _answer = gone.read_to_end(&mut Vec::new());
    assert!(served.refused().is_empty());
    // A silent host, or one that sends only the beginning, does not delay the shutdown.
    let _silent = TcpStream::connect(served.secure).unwrap();
    let mut stalled = TcpStream::connect(served.secure).unwrap();
    stalled.write_all(&client_hello(&served, &identity)[..100]).unwrap();
    served.end();
}

#[test]
fn connect_names_the_host_and_the_subsystem_of_the_identity() {
    let served = Served::new(SHA256);
    served.world.subsystem.set_hosts([HOST, OTHER].map(|it| (it.to_owned(), with_psk(SHA256))).into());
    let mut host = served.open(SHA256, &identity_0(HOST, SUBSYSTEM));
    host.initialize((false, false));
    let end = host.connect(OTHER, SUBSYSTEM, 0, 0xFFFF, 32).unwrap_err();
    assert_eq!((end.status, end.result), (INVALID_PARAMETERS, 1 << 16 | 512));
    let end = host.connect(HOST, DISCOVERY_NQN, 0, 0xFFFF, 32).unwrap_err();
    assert_eq!((end.status, end.result), (INVALID_PARAMETERS, 1 << 16 | 256));
    let causes: Vec<_> = served.refused().into_iter().map(|(cause, ..)| cause).collect();
    assert_eq!(causes, ["tls-identity"; 2]);
    // The queues of a controller must be of the same host.
    let id = host.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    host.run(property_set(0x14, 1));
    let mut other = served.open(SHA256, &identity_0(OTHER, SUBSYSTEM));
    other.initialize((false, false));
    assert_eq!(other.connect(HOST, SUBSYSTEM, 1, id, 32).unwrap_err().status, INVALID_PARAMETERS);
    // A key that was removed from the host is no longer valid.
    let mut late = served.open(SHA256, &identity_0(HOST, SUBSYSTEM));
    late.initialize((false, false));
    served.world.subsystem.set_hosts([(HOST.to_owned(), with_psk(SHA384))].into());
    assert_eq!(late.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap_err().status, INVALID_PARAMETERS);
    drop((host, other, late));
    served.end();
}

#[test]
fn a_host_with_a_psk_connects_by_tls_only_and_finds_where() {
    let served = Served::new(SHA256);
    let mut plain = served.world.open_over(Box::new(TcpStream::connect(served.plain).unwrap()));
    plain.initialize((false, false));
    assert_eq!(plain.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap_err().status, INVALID_HOST);
    assert_eq!(served.refused(), [("tls-required", Some(HOST.to_owned()), 1)]);
    plain.connect(OTHER, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    let mut without = served.world.open_over(Box::new(TcpStream::connect(served.plain).unwrap()));
    without.initialize((false, false));
    without.connect(HOST, DISCOVERY_NQN, 0, 0xFFFF, 32).unwrap();
    let mut with = served.open(SHA256, &identity_0(HOST, DISCOVERY_NQN));
    with.initialize((false, false));
    with.connect(HOST, DISCOVERY_NQN, 0, 0xFFFF, 32).unwrap();
    for (host, own) in [(&mut without, (0b100, 0)), (&mut with, (0b101, 2))] {
        host.run(property_set(0x14, 1));
        let log = host.run(log_page(0x70, 4 * 1024, 0)).data;
        // SUBTYPE, TREQ and SECTYPE of each entry: its own discovery subsystem, and both portals.
        let entries = log[1024..].chunks(1024).map(|entry| (entry[2], entry[3], entry[768]));
        assert_eq!(entries.collect::<Vec<_>>(), [(3, own.0, own.1), (2, 0b100, 0), (2, 0b101, 2)]);
    }
    drop((plain, without, with));
    served.end();
}

#[test]
fn a_host_authenticates_over_tls_as_well() {
    let served = Served::new(SHA256);
    let secret = "DHHC-1:01:nhr7JP2NMnF+O+sHDpADH7X4X92Mro645HWZ341f6zLhtuL4:";
    let dhchap = Credentials { host: DhchapSecret::parse(secret).unwrap(), controller: None };
    let both = HostSecurity { dhchap: Some(Arc::new(dhchap)), ..with_psk(SHA256) };
    served.world.subsystem.set_hosts([(HOST.to_owned(), both)].into());
    let mut host = served.open(SHA256, &identity_0(HOST, SUBSYSTEM));
    host.initialize((false, false));
    host.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    assert_eq!(host.run(identify(1, 0)).status, 0x191, "Authentication Required");
    drop(host);
    served.end();
}

#[test]
fn bytes_that_are_no_tls_end_their_connection_and_stop_no_other() {
    let served = Served::new(SHA256);
    let identity = identity_0(HOST, SUBSYSTEM);
    let mut host = served.open(SHA256, &identity);
    host.initialize((false, false));
    host.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    let hello = client_hello(&served, &identity);
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[9; 32]);
    for round in 0..500 {
        let mut bytes = hello.clone();
        match round % 4 {
            0 => bytes.truncate((rng.next_u64() % hello.len() as u64) as usize),
            1 => bytes.extend((0..1 + rng.next_u64() % 2000).map(|_| rng.next_u64() as u8)),
            2 => bytes = (0..rng.next_u64() % 40_000).map(|_| rng.next_u64() as u8).collect(),
            _ => {}
        }
        for _ in 0..rng.next_u64() % 4 {
            let at = (rng.next_u64() % bytes.len().max(1) as u64) as usize;
            bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = rng.next_u64() as u8);
        }
        let mut stream = TcpStream::connect(served.secure).unwrap();
        // The server may end the connection before it has read everything.
        let _ended = stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        let _answer = stream.read_to_end(&mut Vec::new());
        if round % 50 == 0 {
            assert_eq!(host.run(property_get(0, true)).status, 0, "the other connection works");
        }
    }
    drop(host);
    served.end();
}

/// Relays the bytes of one connection to a server. Returns its address, and the stream to the server once it is
/// connected.
fn relay(server: SocketAddr) -> (SocketAddr, JoinHandle<TcpStream>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let connected = std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        for (from, to) in [(&client, &server), (&server, &client)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ended = std::io::copy(&mut from, &mut to);
                let _gone = to.shutdown(Shutdown::Write);
            });
        }
        server
    });
    (address, connected)
}

#[test]
fn records_that_the_host_did_not_make_end_its_connection_alone() {
    let served = Served::new(SHA256);
    let identity = identity_0(HOST, SUBSYSTEM);
    let mut other = served.open(SHA256, &identity);
    other.initialize((false, false));
    other.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
    let forged = [&[0x17, 3, 3, 0, 64][..], &[0x5A; 64]].concat();
    let too_long = [&[0x17, 3, 3, 0xFF, 0xFF][..], &[0x5A; 0xFFFF]].concat();
    let alert = vec![0x15, 3, 3, 0, 2, 2, 40];
    let hello = client_hello(&served, &identity);
    let change_cipher_spec = vec![0x14, 3, 3, 0, 1, 1];
    let no_tls = [&[4, 0, 72, 0, 72, 0, 0, 0][..], &[0; 72]].concat();
    for bytes in [forged, too_long, alert, hello, change_cipher_spec, no_tls] {
        let (address, connected) = relay(served.secure);
        let mut host = served.open_at(address, SHA256, &identity);
        host.initialize((false, false));
        host.connect(HOST, SUBSYSTEM, 0, 0xFFFF, 32).unwrap();
        let mut server = connected.join().unwrap();
        server.write_all(&bytes).unwrap();
        host.wait_for_end();
        assert_eq!(other.run(property_get(0, true)).status, 0, "after {:?}", &bytes[..5]);
    }
    // The end of the connection truncates a record.
    let (address, connected) = relay(served.secure);
    let mut host = served.open_at(address, SHA256, &identity);
    host.initialize((false, false));
    let mut server = connected.join().unwrap();
    server.write_all(&[0x17, 3, 3, 0, 64, 1, 2, 3]).and_then(|()| server.shutdown(Shutdown::Write)).unwrap();
    host.wait_for_end();
    assert_eq!(other.run(property_get(0, true)).status, 0);
    drop((host, other));
    served.end();
}

/// The ClientHello of OpenSSL, as it arrives at a socket.
fn client_hello(served: &Served, identity: &str) -> Vec<u8> {
    let psk = TlsPsk::parse(SHA256).unwrap();
    let key = psk.of_identity(&PskIdentity::parse(identity.as_bytes()).unwrap()).unwrap();
    let hex: String = key.secret.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_ne!(served.secure, served.plain);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = Client::start(listener.local_addr().unwrap(), identity, &hex);
    let (mut stream, _) = listener.accept().unwrap();
    let mut header = [0; 5];
    stream.read_exact(&mut header).unwrap();
    let mut body = vec![0; usize::from(u16::from_be_bytes([header[3], header[4]]))];
    stream.read_exact(&mut body).unwrap();
    [header.as_slice(), &body].concat()
}
