//! The whole server over loopback sockets, with a SCSI target over disks in memory.

use crate::access::{Access, AccessTable, Credentials};
use crate::observer::{LoginObserver, RefusedLogin};
use crate::pdu::incoming::{Incoming, Pdu};
use crate::pdu::outgoing::Outgoing;
use crate::pdu::{FINAL, Header, NO_TAG, opcode};
use crate::server::{Server, ServerConfig};
use crate::sessions::SessionInfo;
use block::mem::MemArray;
use block::{DiskId, Geometry};
use bytes::Bytes;
use export::Exports;
use scsi::{Data, Target, TargetIdentity};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use transport::{ConnectionLimits, Permit, Portal, SystemClock};

const TARGET: &str = "iqn.2026-01.test:target";
const HOST: &str = "iqn.2026-01.test:host";
const OTHER: &str = "iqn.2026-01.test:other";
/// A host that sees another disk than the other two.
const APART: &str = "iqn.2026-01.test:apart";

struct World {
    server: Arc<Server>,
    portals: Vec<SocketAddr>,
}

fn access() -> AccessTable {
    [HOST, OTHER, APART].map(|name| (name.to_owned(), Access::default())).into()
}

impl World {
    async fn new(change: impl FnOnce(&mut ServerConfig)) -> Self {
        Self::on(tokio::runtime::Handle::current(), change).await
    }

    /// Starts the server on another runtime.
    async fn on(shard: tokio::runtime::Handle, change: impl FnOnce(&mut ServerConfig)) -> Self {
        let any = "127.0.0.1:0".parse().unwrap();
        Self::at([any, any], shard, change).await
    }

    /// Starts the server at these addresses.
    async fn at(
        addresses: [SocketAddr; 2],
        shard: tokio::runtime::Handle,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let target = target();
        let mut config = ServerConfig::new(TARGET);
        config.logout_seconds = 1;
        change(&mut config);
        let server = Server::new(target, config, Arc::default());
        server.set_access(access());
        let wanted: Vec<_> =
            (1..).zip(addresses).map(|(number, address)| Portal::plain(number, address)).collect();
        let portals = server.serve(&wanted, vec![shard]).await.unwrap();
        Self { server, portals: portals.into_iter().map(|portal| portal.address).collect() }
    }

    async fn host(&self, portal: usize, name: &str, isid: u8) -> Host {
        let mut host = Host::connect(self.portals[portal]).await;
        let answer = host.login(name, isid, "").await;
        assert_eq!(answer.header.u16::<36>(), 0);
        // The unit attention of a new nexus.
        host.command(&[0; 6], 0, &[]).await;
        host
    }

    fn sessions(&self) -> Vec<(String, u16)> {
        self.server.sessions().into_iter().map(|info| (info.initiator, info.portal)).collect()
    }
}

/// A target with two units.
fn target() -> Arc<Target> {
    let identity = TargetIdentity {
        name: TARGET.to_owned(),
        vendor: "TEST".to_owned(),
        product: "TEST".to_owned(),
        revision: "1".to_owned(),
        ports: 2.into(),
    };
    let exports = Exports::new(Arc::new(SystemClock::default()));
    let target = Target::new(identity, exports.clone(), [7; 32]);
    let geometry = Geometry { block_bytes: 512, blocks: 1 << 20 };
    let array = MemArray::new();
    for id in [DiskId(1), DiskId(2)] {
        exports.add_volume(Arc::new(array.create(id, geometry)));
    }
    for (host, disk) in [(HOST, 1), (OTHER, 1), (APART, 2)] {
        exports.set_mappings(host, [(0, DiskId(disk))].into());
    }
    target
}

/// An initiator on a socket.
struct Host {
    stream: TcpStream,
    input: Incoming,
    digests: bool,
    cmd_sn: u32,
    itt: u32,
}

impl Host {
    async fn connect(portal: SocketAddr) -> Self {
        let stream = TcpStream::connect(portal).await.unwrap();
        Self { stream, input: Incoming::new(1 << 24), digests: false, cmd_sn: 1, itt: 0 }
    }

    async fn login(&mut self, name: &str, isid: u8, keys: &str) -> Pdu {
        self.login_to(0, 0, name, isid, keys).await
    }

    /// Logs in to the session of a handle, with this connection identifier.
    async fn login_to(&mut self, tsih: u16, cid: u16, name: &str, isid: u8, keys: &str) -> Pdu {
        let text = format!("InitiatorName={name}\0TargetName={TARGET}\0{keys}");
        let header =
            Header::new(opcode::LOGIN | 0x40, 0x87).put(8, [0x80, 0, 0, 0, 0, isid]).put_u32(24, self.cmd_sn);
        let header = header.put_u16(14, tsih).put_u16(20, cid);
        self.send(header, text.as_bytes()).await;
        let answer = self.receive().await.expect("an answer to the login");
        self.digests = keys.contains("Digest=CRC32C");
        self.input.set_digests(self.digests, self.digests);
        answer
    }

    async fn send(&mut self, header: Header, data: &[u8]) {
        let mut out = Outgoing::default();
        out.set_digests(self.digests, self.digests);
        out.push(header, &Data::from(Bytes::copy_from_slice(data)));
        let bytes: Vec<u8> = out.slices().iter().flat_map(|slice| slice.to_vec()).collect();
        self.stream.write_all(&bytes).await.unwrap();
    }

    /// The next PDU; `None` if the server has closed the connection.
    async fn receive(&mut self) -> Option<Pdu> {
        loop {
            if let Some(pdu) = self.input.next().unwrap() {
                assert!(!pdu.damaged);
                return Some(pdu);
            }
            let mut space = self.input.space();
            if self.stream.read_buf(&mut space).await.unwrap() == 0 {
                return None;
            }
        }
    }

    fn begin(&mut self, flags: u8, cdb: &[u8], expected: u32) -> Header {
        self.itt += 1;
        self.cmd_sn += 1;
        let mut header = Header::new(opcode::SCSI_COMMAND, FINAL | flags | 1)
            .with_itt(self.itt)
            .put_u32(20, expected)
            .put_u32(24, self.cmd_sn - 1);
        header.0[32..32 + cdb.len()].copy_from_slice(cdb);
        header
    }

    /// Performs a command that sends `data` or expects `expected` bytes; returns status and Data-In.
    async fn command(&mut self, cdb: &[u8], expected: u32, data: &[u8]) -> (u8, Vec<u8>) {
        let flags = if expected > 0 {
            0x40
        } else if data.is_empty() {
            0
        } else {
            0x20
        };
        let header = self.begin(flags, cdb, expected.max(data.len() as u32));
        let immediate = data.len().min(65_536);
        self.send(header, &data[..immediate]).await;
        let mut got = Vec::new();
        loop {
            let pdu = self.receive().await.expect("an answer to the command");
            match pdu.header.opcode() {
                opcode::R2T => {
                    let (at, bytes) = (pdu.header.u32::<40>() as usize, pdu.header.u32::<44>() as usize);
                    for (number, part) in data[at..at + bytes].chunks(100_000).enumerate() {
                        let offset = number * 100_000;
                        let last = offset + part.len() == bytes;
                        let header = Header::new(opcode::DATA_OUT, if last { FINAL } else { 0 })
                            .with_itt(self.itt)
                            .with_ttt(pdu.header.ttt())
                            .put_u32(36, number as u32)
                            .put_u32(40, (at + offset) as u32);
                        self.send(header, part).await;
                    }
                }
                opcode::DATA_IN => {
                    got.extend_from_slice(&pdu.data);
                    if pdu.header.flags() & 1 == 1 {
                        return (pdu.header.0[3], got);
                    }
                }
                _ => return (pdu.header.0[3], got),
            }
        }
    }

    /// Waits until the server has closed the connection.
    async fn closed(mut self) {
        while self.receive().await.is_some() {}
    }
}

fn rw(op: u8, lba: u32, blocks: u16) -> [u8; 10] {
    let ([a, b, c, d], [e, f]) = (lba.to_be_bytes(), blocks.to_be_bytes());
    [op, 0, a, b, c, d, 0, e, f, 0]
}

#[tokio::test]
async fn what_was_written_is_read_back_in_every_size() {
    let world = World::new(|_| ()).await;
    for keys in [
        "",
        "HeaderDigest=CRC32C\0DataDigest=CRC32C\0",
        "MaxRecvDataSegmentLength=70000\0MaxBurstLength=200000\0",
    ] {
        let mut host = Host::connect(world.portals[0]).await;
        host.login(HOST, 1, keys).await;
        host.command(&[0; 6], 0, &[]).await;
        for blocks in [1_u16, 8, 100, 128, 129, 1000, 4096] {
            let bytes: Vec<u8> =
                (0..usize::from(blocks) * 512).map(|at| (at / 7 + usize::from(blocks)) as u8).collect();
            assert_eq!(host.command(&rw(0x2a, 77, blocks), 0, &bytes).await.0, 0);
            let (status, got) = host.command(&rw(0x28, 77, blocks), bytes.len() as u32, &[]).await;
            assert_eq!(status, 0);
            assert!(got == bytes, "{blocks} blocks with {keys:?}");
        }
    }
}

#[tokio::test]
async fn a_portal_that_can_not_be_bound_is_tried_again_while_the_others_serve() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let world = World::at([address, any], tokio::runtime::Handle::current(), |_| ()).await;
    assert_eq!(world.portals[0], address);
    let down = world.server.down_portals();
    assert!(matches!(&down[..], [(at, reason)] if *at == address && !reason.is_empty()), "{down:?}");
    let first = world.host(1, HOST, 1).await;
    assert_eq!(world.sessions(), [(HOST.to_owned(), 2)], "its number is that of its place");
    drop(taken);
    while !world.server.down_portals().is_empty() {
        tokio::task::yield_now().await;
    }
    let second = world.host(0, HOST, 2).await;
    let mut sessions = world.sessions();
    sessions.sort();
    assert_eq!(sessions, [(HOST.to_owned(), 1), (HOST.to_owned(), 2)]);
    drop((first, second));
}

#[tokio::test]
async fn a_session_is_reinstated_by_the_same_initiator_port() {
    let world = World::new(|_| ()).await;
    let first = world.host(0, HOST, 1).await;
    let second = world.host(0, HOST, 1).await;
    first.closed().await;
    assert_eq!(world.sessions(), [(HOST.to_owned(), 1)]);
    drop(second);
}

#[tokio::test]
async fn a_connection_is_reinstated_in_its_session_and_no_second_one_joins_it() {
    let world = World::new(|_| ()).await;
    let first = world.host(0, HOST, 1).await;
    let tsih = world.server.sessions()[0].tsih;
    let mut other = Host::connect(world.portals[0]).await;
    assert_eq!(other.login_to(tsih, 1, HOST, 1, "").await.header.u16::<36>(), 0x0206, "another connection");
    let mut other = Host::connect(world.portals[1]).await;
    assert_eq!(other.login_to(tsih, 0, HOST, 1, "").await.header.u16::<36>(), 0x020a, "no session there");
    let mut second = Host::connect(world.portals[0]).await;
    second.cmd_sn = 40;
    let answer = second.login_to(tsih, 0, HOST, 1, "").await.header;
    assert_eq!((answer.u16::<36>(), answer.u16::<14>()), (0, tsih));
    first.closed().await;
    assert_eq!(world.sessions(), [(HOST.to_owned(), 1)]);
    second.command(&[0; 6], 0, &[]).await;
    assert_eq!(second.command(&[0; 6], 0, &[]).await.0, 0);
}

#[tokio::test]
async fn other_ports_and_portals_are_other_sessions() {
    let world = World::new(|_| ()).await;
    let mut hosts = Vec::new();
    for (portal, name, isid) in [(0, HOST, 1), (0, HOST, 2), (1, HOST, 1), (0, OTHER, 1)] {
        hosts.push(world.host(portal, name, isid).await);
    }
    assert_eq!(world.sessions().len(), 4);
    let handles: std::collections::BTreeSet<u16> =
        world.server.sessions().iter().map(|info| info.tsih).collect();
    assert_eq!(handles.len(), 4);
    // A freed handle is not reused soon.
    drop(hosts.pop());
    while world.sessions().len() > 3 {
        tokio::task::yield_now().await;
    }
    hosts.push(world.host(0, OTHER, 1).await);
    let fresh = world.server.sessions().iter().filter(|info| !handles.contains(&info.tsih)).count();
    assert_eq!(fresh, 1);
    for host in &mut hosts {
        assert_eq!(host.command(&[0; 6], 0, &[]).await.0, 0);
    }
}

#[tokio::test]
async fn an_initiator_without_access_is_refused_and_one_that_loses_it_is_closed() {
    let world = World::new(|_| ()).await;
    let kept = world.host(0, HOST, 1).await;
    let lost = world.host(0, OTHER, 1).await;
    let mut table = access();
    table.remove(OTHER);
    world.server.set_access(table);
    lost.closed().await;
    assert_eq!(world.sessions(), [(HOST.to_owned(), 1)]);
    let mut stranger = Host::connect(world.portals[0]).await;
    assert_eq!(stranger.login(OTHER, 1, "").await.header.u16::<36>(), 0x0202);
    stranger.closed().await;
    drop(kept);
}

#[tokio::test]
async fn a_cold_reset_closes_all_sessions_that_share_a_unit() {
    let world = World::new(|_| ()).await;
    let mut first = world.host(0, HOST, 1).await;
    let second = world.host(1, HOST, 1).await;
    let other = world.host(0, OTHER, 1).await;
    let mut apart = world.host(0, APART, 1).await;
    let header =
        Header::new(opcode::TASK_MANAGEMENT | 0x40, FINAL | 7).with_itt(99).put_u32(24, first.cmd_sn);
    first.send(header, &[]).await;
    assert_eq!(first.receive().await.unwrap().header.0[2], 0);
    first.closed().await;
    second.closed().await;
    other.closed().await;
    assert_eq!(apart.command(&[0; 6], 0, &[]).await.0, 0);
}

#[tokio::test]
async fn a_shutdown_asks_for_logouts_and_waits_for_them() {
    let world = World::new(|config| config.logout_seconds = 60).await;
    let mut host = world.host(0, HOST, 1).await;
    let shutdown = tokio::spawn(async move { world.server.shutdown().await });
    let message = host.receive().await.unwrap().header;
    assert_eq!((message.opcode(), message.0[36]), (opcode::ASYNC, 1));
    let logout = Header::new(opcode::LOGOUT | 0x40, FINAL).with_itt(5).put_u32(24, host.cmd_sn);
    host.send(logout, &[]).await;
    assert_eq!(host.receive().await.unwrap().header.opcode(), opcode::LOGOUT_RESPONSE);
    host.closed().await;
    shutdown.await.unwrap();
}

#[tokio::test]
async fn a_shutdown_closes_sessions_that_do_not_log_out() {
    let world = World::new(|config| config.logout_seconds = 0).await;
    let host = world.host(0, HOST, 1).await;
    world.server.shutdown().await;
    host.closed().await;
    assert!(world.sessions().is_empty());
    assert!(TcpStream::connect(world.portals[0]).await.is_err(), "the portal is closed");
}

/// A controller without a lease executes commands, and answers them when it has a lease again.
#[tokio::test]
async fn responses_wait_for_the_permission_to_answer() {
    let (permitted, asked) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let (may, counter) = (permitted.clone(), asked.clone());
    let permit = Permit::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        may.load(Ordering::Relaxed)
    });
    let world = World::new(|config| config.permit = permit).await;
    let mut host = world.host(0, HOST, 1).await;
    permitted.store(false, Ordering::Relaxed);
    let header = host.begin(0, &[0; 6], 0);
    host.send(header, &[]).await;
    let before = asked.load(Ordering::Relaxed);
    while asked.load(Ordering::Relaxed) < before + 3 {
        tokio::task::yield_now().await;
    }
    let nothing = host.stream.try_read(&mut [0; 48]).unwrap_err();
    assert_eq!(nothing.kind(), std::io::ErrorKind::WouldBlock);
    permitted.store(true, Ordering::Relaxed);
    assert_eq!(host.receive().await.expect("a response").header.opcode(), opcode::SCSI_RESPONSE);
    // Without permission, a shutdown does not wait for the host to take responses that may not be sent.
    permitted.store(false, Ordering::Relaxed);
    let header = host.begin(0, &[0; 6], 0);
    host.send(header, &[]).await;
    world.server.shutdown().await;
    assert!(host.receive().await.is_none(), "the connection was closed without a response");
}

#[tokio::test]
async fn connections_are_bounded() {
    let world = World::new(|config| config.connection_limits.total = 2).await;
    let first = world.host(0, HOST, 1).await;
    let second = world.host(0, HOST, 2).await;
    Host::connect(world.portals[0]).await.closed().await;
    drop(first);
    second.closed_by_logout().await;
    let third = world.host(0, HOST, 3).await;
    drop(third);
}

#[tokio::test]
async fn hosts_have_shares_of_the_sessions_and_log_ins_beyond_them_are_answered() {
    let world = World::new(|config| config.connection_limits = ConnectionLimits::new(32)).await;
    let shares = world.server.session_shares();
    assert_eq!((shares.total, shares.host), (30, 16));
    let mut held = Vec::new();
    let isids = |count: usize| (1..).take(count);
    for isid in isids(shares.host) {
        held.push(world.host(0, HOST, isid).await);
    }
    let refused = |answer: Pdu| answer.header.u16::<36>() == 0x0302;
    assert!(refused(Host::connect(world.portals[0]).await.login(HOST, 99, "").await), "its share");
    for isid in isids(shares.total - shares.host) {
        held.push(world.host(0, OTHER, isid).await);
    }
    assert_eq!(world.server.session_count(), shares.total);
    assert!(refused(Host::connect(world.portals[0]).await.login(OTHER, 99, "").await), "all of them");
    // A host that has lost its connection is always readmitted, and discovery stays possible.
    let answer = Host::connect(world.portals[0]).await.login(HOST, 1, "").await;
    assert_eq!(answer.header.u16::<36>(), 0);
    let answer = Host::connect(world.portals[0]).await.login(HOST, 98, "SessionType=Discovery\0").await;
    assert_eq!(answer.header.u16::<36>(), 0);
}

#[tokio::test]
async fn unauthenticated_connections_are_evicted_for_hosts() {
    let world = World::new(|config| config.connection_limits.total = 2).await;
    let oldest = Host::connect(world.portals[0]).await;
    let mut discovering = Host::connect(world.portals[0]).await;
    let answer = discovering.login("iqn.2026-01.test:stranger", 1, "SessionType=Discovery\0").await;
    assert_eq!(answer.header.u16::<36>(), 0);
    let mut first = world.host(0, HOST, 1).await;
    oldest.gone().await;
    let mut second = world.host(0, HOST, 2).await;
    discovering.gone().await;
    // Hosts keep their connections.
    Host::connect(world.portals[0]).await.closed().await;
    for host in [&mut first, &mut second] {
        assert_eq!(host.command(&[0; 6], 0, &[]).await.0, 0);
    }
}

#[tokio::test]
async fn an_address_that_only_connects_loses_its_own_connections() {
    let world = World::new(|config| {
        config.connection_limits = ConnectionLimits {
            unauthenticated: 8,
            unauthenticated_per_address: 4,
            ..ConnectionLimits::new(64)
        };
    })
    .await;
    let mut host = world.host(0, HOST, 1).await;
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(Host::connect(world.portals[0]).await);
    }
    // All but the last of them are closed without a response.
    let last = idle.split_off(196);
    for connection in idle {
        connection.gone().await;
    }
    let mut late = world.host(1, HOST, 2).await;
    for host in [&mut host, &mut late] {
        assert_eq!(host.command(&[0; 6], 0, &[]).await.0, 0);
    }
    drop(last);
}

/// A runtime on a thread of its own.
fn shard() -> (tokio::runtime::Handle, std::thread::JoinHandle<()>, tokio::sync::oneshot::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let _stopped = runtime.block_on(stopped);
    });
    (handle, thread, stop)
}

#[test]
fn hosts_connect_whatever_the_thread_of_management_is_busy_with() {
    use std::io::{Read, Write};
    let (shard, thread, stop) = shard();
    let management = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = management.block_on(World::on(shard, |_| ()));
    // From here on the management runtime is not polled.
    let mut host = std::net::TcpStream::connect(world.portals[0]).unwrap();
    host.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let text = format!("InitiatorName={HOST}\0TargetName={TARGET}\0");
    let mut out = Outgoing::default();
    let header = Header::new(opcode::LOGIN | 0x40, 0x87).put(8, [0x80, 0, 0, 0, 0, 1]);
    out.push(header, &Data::from(Bytes::from(text)));
    out.slices().iter().for_each(|slice| host.write_all(slice).unwrap());
    let mut answer = [0; 48];
    host.read_exact(&mut answer).expect("a login response");
    assert_eq!((answer[0], answer[36]), (opcode::LOGIN_RESPONSE, 0));
    drop(world);
    drop(stop);
    thread.join().unwrap();
}

impl Host {
    /// Waits until the connection is closed, cleanly or not.
    async fn gone(mut self) {
        let mut bytes = [0; 512];
        while self.stream.read(&mut bytes).await.is_ok_and(|count| count > 0) {}
    }

    /// Logs out, so the server has removed this session when the connection closes.
    async fn closed_by_logout(mut self) {
        let logout = Header::new(opcode::LOGOUT | 0x40, FINAL).with_itt(5).put_u32(24, self.cmd_sn);
        self.send(logout, &[]).await;
        self.closed().await;
    }
}

#[tokio::test]
async fn a_portal_is_opened_and_closed_while_others_serve() {
    let world = World::new(|_| ()).await;
    let stays = world.host(0, HOST, 1).await;
    let wanted = Portal::plain(7, "127.0.0.1:0".parse().unwrap());
    let bound = world.server.bind_portal(wanted).await.unwrap();
    let opened = bound.portal();
    world.server.open_portal(bound).unwrap();
    let numbers: Vec<u16> = world.server.portals().iter().map(|portal| portal.number).collect();
    assert_eq!(numbers, [1, 2, 7]);
    let mut host = Host::connect(opened.address).await;
    assert_eq!(host.login(HOST, 2, "").await.header.u16::<36>(), 0);
    let mut sessions = world.sessions();
    sessions.sort();
    assert_eq!(sessions, [(HOST.to_owned(), 1), (HOST.to_owned(), 7)], "its own number, not that of a place");
    let server = world.server.clone();
    let closing = tokio::spawn(async move { server.close_portal(7).await });
    // Asynchronous message: a logout is requested.
    let request = host.receive().await.unwrap();
    assert_eq!((request.header.opcode(), request.header.0[36]), (opcode::ASYNC, 1));
    closing.await.unwrap();
    assert_eq!(world.sessions(), [(HOST.to_owned(), 1)], "the other session continues");
    assert!(TcpStream::connect(opened.address).await.is_err());
    let numbers: Vec<u16> = world.server.portals().iter().map(|portal| portal.number).collect();
    assert_eq!(numbers, [1, 2]);
    drop(stays);
}

#[tokio::test]
async fn discovery_lists_both_portals() {
    let world = World::new(|_| ()).await;
    let mut host = Host::connect(world.portals[0]).await;
    let answer = host.login("iqn.2026-01.test:stranger", 1, "SessionType=Discovery\0").await;
    assert_eq!(answer.header.u16::<36>(), 0);
    let request =
        Header::new(opcode::TEXT | 0x40, FINAL).with_itt(3).with_ttt(NO_TAG).put_u32(24, host.cmd_sn);
    host.send(request, b"SendTargets=All\0").await;
    let text = String::from_utf8(host.receive().await.unwrap().data.to_vec()).unwrap();
    let expected = format!(
        "TargetName={TARGET}\0TargetAddress={},1\0TargetAddress={},2\0",
        world.portals[0], world.portals[1]
    );
    assert_eq!(text, expected);
    assert!(world.sessions().is_empty(), "discovery sessions are not shown");
}

#[tokio::test]
async fn a_queue_of_commands_is_answered_in_full() {
    let world = World::new(|_| ()).await;
    let mut host = world.host(0, HOST, 1).await;
    for round in 0..20 {
        for _ in 0..32 {
            let header = host.begin(0x40, &rw(0x28, round, 8), 4096);
            host.send(header, &[]).await;
        }
        let mut tags = std::collections::BTreeSet::new();
        for _ in 0..32 {
            let pdu = host.receive().await.unwrap();
            assert_eq!((pdu.header.opcode(), pdu.data.len()), (opcode::DATA_IN, 4096));
            tags.insert(pdu.header.itt());
        }
        assert_eq!(tags.len(), 32);
    }
}

#[tokio::test]
async fn garbage_closes_its_connection_and_nothing_else() {
    let world = World::new(|_| ()).await;
    let mut host = world.host(0, HOST, 1).await;
    for garbage in
        [&[0xff; 500][..], b"GET / HTTP/1.0\r\n\r\n and more of this, to fill a header", &[0x43; 4000]]
    {
        let mut stream = TcpStream::connect(world.portals[0]).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        let mut rest = Vec::new();
        // The server may close the connection with or without a response.
        let _reset = stream.read_to_end(&mut rest).await;
    }
    assert_eq!(host.command(&[0; 6], 0, &[]).await.0, 0);
}

fn credentials(name: &str, secret: &str) -> Option<Credentials> {
    Some(Credentials { name: name.to_owned(), secret: secret.to_owned() })
}

#[tokio::test]
async fn sessions_whose_access_changed_end_and_the_others_continue() {
    let world = World::new(|_| ()).await;
    let chap = |secret| Access { chap: credentials("me", secret), mutual: None };
    let mutual = Access { mutual: credentials("array", "secret of the array"), ..chap("another secret") };
    let mut others = [world.host(0, OTHER, 1).await, world.host(1, APART, 1).await];
    let mut table = access();
    for access in [chap("a first secret"), chap("another secret"), mutual, Access::default()] {
        // Changes of the table while the host is logged in with its previous entry.
        table.insert(HOST.to_owned(), Access::default());
        world.server.set_access(table.clone());
        let host = world.host(0, HOST, 1).await;
        world.server.set_access(table.clone());
        assert_eq!(world.sessions().len(), 3, "nothing changed");
        if access == Access::default() {
            table.remove(HOST);
        } else {
            table.insert(HOST.to_owned(), access);
        }
        world.server.set_access(table.clone());
        host.closed().await;
        for other in &mut others {
            assert_eq!(other.command(&[0; 6], 0, &[]).await.0, 0);
        }
    }
}

#[tokio::test]
async fn a_login_that_began_before_its_access_changed_is_refused() {
    let world = World::new(|_| ()).await;
    let mut host = Host::connect(world.portals[0]).await;
    let text = format!("InitiatorName={HOST}\0TargetName={TARGET}\0");
    let header =
        |flags| Header::new(opcode::LOGIN | 0x40, flags).put(8, [0x80, 0, 0, 0, 0, 1]).put_u32(24, 1);
    host.send(header(0x04), text.as_bytes()).await;
    assert_eq!(host.receive().await.unwrap().header.u16::<36>(), 0);
    let mut table = access();
    table.insert(HOST.to_owned(), Access { chap: credentials("me", "a first secret"), mutual: None });
    world.server.set_access(table);
    host.send(header(0x87), b"").await;
    assert_eq!(host.receive().await.unwrap().header.u16::<36>(), 0x0202, "AUTHORIZATION FAILURE");
    host.closed().await;
    assert_eq!(world.sessions(), []);
}

/// Notifications of an observer.
#[derive(Default)]
struct Notifications(parking_lot::Mutex<Vec<String>>);

impl LoginObserver for Notifications {
    fn logged_in(&self, session: &SessionInfo) {
        let SessionInfo { initiator, portal, .. } = session;
        self.0.lock().push(format!("{initiator} in at {portal}"));
    }

    fn logged_out(&self, session: &SessionInfo, reason: &str) {
        let SessionInfo { initiator, portal, .. } = session;
        self.0.lock().push(format!("{initiator} out at {portal}: {reason}"));
    }

    fn refused(&self, refused: &RefusedLogin) {
        let RefusedLogin { initiator, portal, cause, peer } = refused;
        assert!(peer.ip().is_loopback());
        self.0.lock().push(format!("{} refused at {portal}: {cause}", initiator.as_deref().unwrap_or("-")));
    }
}

#[tokio::test]
async fn an_observer_hears_of_every_login_and_logout() {
    let world = World::new(|config| config.connection_limits.total = 3).await;
    let notifications = Arc::new(Notifications::default());
    world.server.observe(notifications.clone());
    let mut host = world.host(0, HOST, 1).await;
    let header = Header::new(opcode::LOGOUT | 0x40, FINAL).with_itt(77).put_u32(24, host.cmd_sn);
    host.send(header, &[]).await;
    host.closed().await;
    let mut stranger = Host::connect(world.portals[1]).await;
    stranger.login("iqn.2026-01.test:stranger", 1, "").await;
    stranger.closed().await;
    let (first, second) = (world.host(0, HOST, 1).await, world.host(1, HOST, 1).await);
    let third = world.host(1, OTHER, 1).await;
    let mut fourth = Host::connect(world.portals[0]).await;
    assert!(fourth.receive().await.is_none(), "there is no room");
    world.server.set_access([(OTHER.to_owned(), Access::default())].into());
    first.closed().await;
    second.closed().await;
    drop(third);
    while notifications.0.lock().len() < 10 {
        tokio::task::yield_now().await;
    }
    let mut notifications = notifications.0.lock().clone();
    notifications[7..].sort();
    let of = |name: &str, what: &str| format!("iqn.2026-01.test:{name} {what}");
    let expected = [
        of("host", "in at 1"),
        of("host", "out at 1: logged out"),
        of("stranger", "refused at 2: no host has this initiator name"),
        of("host", "in at 1"),
        of("host", "in at 2"),
        of("other", "in at 2"),
        "- refused at 1: too many connections".to_owned(),
        of("host", "out at 1: access changed"),
        of("host", "out at 2: access changed"),
        of("other", "out at 2: closed by the initiator"),
    ];
    assert_eq!(notifications, expected);
}
