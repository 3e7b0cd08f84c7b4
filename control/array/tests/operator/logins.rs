//! Log-ins of hosts over sockets: whose access changes is logged out, and every refusal is logged with its reason.

use crate::rig::{Rig, Up, ok};
use array::{
    AlertState, ChangeHost, Chap, ClearVolumeState, CreateConnection, CreateHost, CreateVolume, DeleteHost,
    Host, HostChange, Kind, ListAlerts, ListEvents, ListRefusedLogins, PeerName, RefusedLogin, Severity,
    ShowArray, ShowHost, ShowVolume,
};
use block::{Disk, Op};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ESX: &str = "iqn.1998-01.com.vmware:esx1";
const KVM: &str = "iqn.1993-08.org.debian:kvm1";

async fn serve(up: &Up) -> SocketAddr {
    let portal = iscsi::Portal::plain(1, "127.0.0.1:0".parse().unwrap());
    up.server.serve(&[portal], vec![tokio::runtime::Handle::current()]).await.unwrap()[0].address
}

/// An initiator that logs in without CHAP in one step: status class and detail, and its connection.
pub async fn login(up: &Up, portal: SocketAddr, initiator: &str) -> (u16, TcpStream) {
    let array = ok(up, ShowArray).await;
    let text = format!("InitiatorName={initiator}\0TargetName={}\0", array.target_iqn).into_bytes();
    let mut pdu = vec![0u8; 48];
    // An immediate login request from the operational stage to the full feature phase.
    (pdu[0], pdu[1], pdu[7]) = (0x43, 0x87, text.len() as u8);
    pdu[8..14].copy_from_slice(&[0x80, 0, 0, 0, 0, 1]);
    pdu.extend_from_slice(&text);
    pdu.resize(pdu.len().next_multiple_of(4), 0);
    let mut stream = TcpStream::connect(portal).await.unwrap();
    stream.write_all(&pdu).await.unwrap();
    let mut answer = [0; 48];
    stream.read_exact(&mut answer).await.unwrap();
    let mut text = vec![0; usize::from(answer[7]).next_multiple_of(4)];
    stream.read_exact(&mut text).await.unwrap();
    (u16::from_be_bytes([answer[36], answer[37]]), stream)
}

/// Waits until the array has closed the connection.
pub async fn closed(mut stream: TcpStream) {
    while stream.read(&mut [0; 64]).await.unwrap_or(0) > 0 {}
}

/// Whether the array answers a NOP-Out on the connection.
async fn lives(stream: &mut TcpStream) -> bool {
    let mut nop = [0u8; 48];
    (nop[0], nop[1], nop[19]) = (0x40, 0x80, 9);
    nop[20..24].copy_from_slice(&[0xFF; 4]);
    stream.write_all(&nop).await.unwrap();
    let mut answer = [0; 48];
    stream.read_exact(&mut answer).await.is_ok() && answer[0] & 0x3F == 0x20
}

async fn create(up: &Up, name: &str, initiator: &str) {
    let initiators = vec![initiator.into()];
    ok(up, CreateHost { name: name.into(), initiators, chap: None, mutual: None, ..CreateHost::default() })
        .await;
}

async fn change(up: &Up, name: &str, change: HostChange) {
    ok(up, ChangeHost { name: name.into(), change }).await;
}

async fn host(up: &Up, name: &str) -> Host {
    ok(up, ShowHost { name: name.into() }).await
}

async fn refused(up: &Up) -> Vec<RefusedLogin> {
    ok(up, ListRefusedLogins).await
}

/// Events about log-ins, the oldest first: kind, name of the host, message.
async fn refusals(up: &Up) -> Vec<(String, Option<String>, String)> {
    let events = ok(up, ListEvents { limit: Some(1000), ..ListEvents::default() }).await;
    let of = |event: array::Event| (event.kind, event.name, event.message);
    let about = |kind: &str| kind.contains("logged") || kind.contains("login");
    events.into_iter().rev().map(of).filter(|(kind, _, _)| about(kind)).collect()
}

/// Ticks until there are this many events about log-ins, because connections report their end asynchronously.
async fn told_after(up: &Up, count: usize) -> Vec<(String, Option<String>, String)> {
    loop {
        up.array.tick().await;
        let refused = refusals(up).await;
        if refused.len() >= count {
            return refused;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_host_whose_access_changes_is_logged_out_and_the_others_are_not() {
    let rig = Rig::new();
    let up = rig.up().await;
    let portal = serve(&up).await;
    create(&up, "esx1", ESX).await;
    create(&up, "kvm1", KVM).await;
    let (status, mut kvm) = login(&up, portal, KVM).await;
    assert_eq!(status, 0);
    let chap = |secret: &str| Chap::new("esx", secret);
    let no_chap = || HostChange { chap: Some(None), mutual: Some(None), ..HostChange::default() };
    for to in [
        HostChange { chap: Some(Some(chap("a first secret"))), ..HostChange::default() },
        HostChange {
            chap: Some(Some(chap("a first secret"))),
            mutual: Some(Some(Chap::new("array", "of the array itself"))),
            ..HostChange::default()
        },
        HostChange { initiators: Some(vec![format!("{ESX}-new")]), ..HostChange::default() },
    ] {
        change(&up, "esx1", HostChange { initiators: Some(vec![ESX.into()]), ..no_chap() }).await;
        let (status, mut esx) = login(&up, portal, ESX).await;
        assert_eq!(status, 0);
        change(&up, "esx1", HostChange { name: Some("other".into()), ..HostChange::default() }).await;
        change(&up, "other", HostChange { name: Some("esx1".into()), ..HostChange::default() }).await;
        assert!(lives(&mut esx).await, "another name of the host changes nothing for it");
        change(&up, "esx1", to).await;
        closed(esx).await;
        assert_ne!(login(&up, portal, ESX).await.0, 0);
        assert!(lives(&mut kvm).await);
    }
    change(&up, "esx1", HostChange { initiators: Some(vec![ESX.into()]), ..no_chap() }).await;
    let (_, esx) = login(&up, portal, ESX).await;
    ok(&up, DeleteHost { name: "esx1".into() }).await;
    closed(esx).await;
    assert!(lives(&mut kvm).await);
    up.down().await;
}

#[tokio::test]
async fn operators_learn_why_a_host_can_not_log_in() {
    let rig = Rig::new();
    let up = rig.up().await;
    let portal = serve(&up).await;
    let (status, stream) = login(&up, portal, ESX).await;
    assert_eq!(status, 0x0202);
    closed(stream).await;
    let events = told_after(&up, 1).await;
    assert_eq!((events[0].0.as_str(), events[0].1.as_deref()), ("initiator.login-refused", None));
    assert!(events[0].2.contains("no host has this initiator name"), "{}", events[0].2);
    assert!(events[0].2.contains(ESX) && events[0].2.contains("127.0.0.1"), "{}", events[0].2);
    let found = refused(&up).await;
    assert_eq!((&*found[0].cause, found[0].initiator.as_deref()), ("unknown-initiator", Some(ESX)));
    assert_eq!((found.len(), &found[0].host), (1, &None));
    // With the host that the name is given to, its page shows it.
    create(&up, "esx1", ESX).await;
    assert_eq!(host(&up, "esx1").await.refused_logins[0].reason, "no host has this initiator name");
    let (status, esx) = login(&up, portal, ESX).await;
    assert_eq!(status, 0);
    let events = told_after(&up, 2).await;
    assert_eq!((events[1].0.as_str(), events[1].1.as_deref()), ("host.logged-in", Some("esx1")));
    assert_eq!(refused(&up).await, [], "it is over");
    let secret = "a secret of the host";
    let chap = Some(Some(Chap::new("esx", secret)));
    change(&up, "esx1", HostChange { chap, ..HostChange::default() }).await;
    closed(esx).await;
    closed(login(&up, portal, ESX).await.1).await;
    let events = told_after(&up, 4).await;
    assert!(events[2].0 == "host.logged-out" && events[2].2.contains("access changed"), "{:?}", events[2]);
    assert_eq!((events[3].0.as_str(), events[3].1.as_deref()), ("host.login-refused", Some("esx1")));
    let found = &host(&up, "esx1").await.refused_logins[0];
    assert_eq!((&*found.cause, found.count), ("chap-required", 1));
    let all = format!("{events:?}{:?}", refused(&up).await);
    assert!(!all.contains(secret));
    up.down().await;
}

#[tokio::test]
async fn a_storm_of_refused_log_ins_is_a_few_events_and_a_count() {
    let rig = Rig::new();
    let up = rig.up().await;
    let portal = serve(&up).await;
    create(&up, "kvm1", KVM).await;
    for number in 0..300 {
        closed(login(&up, portal, &format!("iqn.2026-01.made.up:{}", number % 60)).await.1).await;
        up.array.tick().await;
    }
    let before = refusals(&up).await.len();
    assert!((1..=12).contains(&before), "{before} events");
    // A host that is known is logged all the same.
    assert_eq!(login(&up, portal, KVM).await.0, 0);
    let events = told_after(&up, before + 1).await;
    assert!(events.iter().any(|(kind, _, _)| kind == "host.logged-in"));
    assert!(refused(&up).await.len() >= 59);
    let count: u64 = refused(&up).await.iter().map(|refused| refused.count).sum();
    assert!((299..=300).contains(&count), "the last one may still be closing: {count}");
    up.down().await;
}

/// The SCSI status of a write of a block by an initiator that has seen every unit attention.
async fn write(up: &Up, initiator: &str) -> scsi::Status {
    let port = scsi::InitiatorPort::iscsi(initiator, [0; 6]);
    let nexus = up.target.attach(port, 1);
    loop {
        let command = scsi::Command {
            tag: 1,
            lun: scsi::Lun([0; 8]),
            cdb: vec![0x2A, 0, 0, 0, 0, 0, 0, 0, 8, 0].into(),
            attribute: scsi::TaskAttribute::Simple,
            direction: scsi::Direction::Out,
            data_out: bytes::Bytes::from(vec![9; 4096]).into(),
            data_in_limit: 0,
        };
        let response = match up_to_end(nexus.execute(command)).await {
            response if response.status == scsi::Status::CheckCondition => response,
            response => return response.status,
        };
        assert_eq!(response.sense[2] & 15, 6, "a unit attention");
    }
}

async fn up_to_end(execution: scsi::Execution) -> scsi::Response {
    match execution {
        scsi::Execution::Done(response) => response,
        scsi::Execution::Task(task) => task.await.expect("the task is not aborted"),
    }
}

async fn alerts(up: &Up) -> Vec<(String, Severity, Option<String>)> {
    up.array.tick().await;
    let alerts = ok(up, ListAlerts).await;
    let open = alerts.into_iter().filter(|alert| alert.state != AlertState::Closed);
    open.map(|alert| (alert.kind, alert.severity, alert.name)).collect()
}

#[tokio::test]
async fn a_volume_whose_state_is_not_understood_takes_no_writes_until_it_is_cleared_by_its_name() {
    let rig = Rig::new();
    let up = rig.up().await;
    create(&up, "esx1", ESX).await;
    for name in ["db1", "db2"] {
        let action =
            CreateVolume { name: name.into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() };
        ok(&up, action).await;
    }
    let peer = PeerName::Host("esx1".into());
    ok(&up, CreateConnection { volume: "db1".into(), peer, lun: Some(0), read_only: false, min_lun: None })
        .await;
    let volume = ok(&up, ShowVolume { name: "db1".into() }).await;
    let disk = up.engine.volume(volume.id).unwrap();
    disk.execute(Op::SaveState(vec![7; 100].into())).await.unwrap();
    up.down().await;
    let up = rig.up().await;
    assert_eq!(write(&up, ESX).await, scsi::Status::ReservationConflict);
    let raised = ("volume.state-unreadable".to_owned(), Severity::Critical, Some("db1".to_owned()));
    assert_eq!(alerts(&up).await, [raised]);
    let other = up.perform(ClearVolumeState { name: "db2".into() }).await.unwrap_err();
    assert_eq!(other.kind, Kind::Precondition);
    ok(&up, ClearVolumeState { name: "db1".into() }).await;
    assert_eq!(write(&up, ESX).await, scsi::Status::Good);
    rig.clock.fetch_add(60, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(alerts(&up).await, []);
    up.down().await;
    assert_eq!(write(&rig.up().await, ESX).await, scsi::Status::Good);
}
