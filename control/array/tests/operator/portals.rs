//! Portals: the numbers that they keep, over restarts and whatever others there are.

use crate::rig::{Rig, Up, ok};
use array::{CreateConnection, CreateHost, CreateVolume, Endpoint, OwnPorts, PeerName, PortalProtocol};
use scsi::{Command, Direction, Execution, InitiatorPort, Lun, Response, Status, TaskAttribute};

const IQN: &str = "iqn.1993-08.org.debian:01:web1";

fn iscsi(address: &str) -> Endpoint {
    Endpoint { protocol: PortalProtocol::Iscsi, address: address.into() }
}

fn own() -> OwnPorts {
    OwnPorts { controller: 1, group: 1, numbers: 1..=3, is_shared: false }
}

/// The numbers that portals get by options, in their order.
async fn settle(up: &Up, options: &[Endpoint]) -> Vec<u16> {
    let portals = up.array.settle_portals(own(), options).await.unwrap();
    portals.iter().map(|entry| entry.number).collect()
}

/// A command by a target port, after the unit attentions.
async fn command(up: &Up, port: u16, cdb: &[u8], data: &[u8]) -> Response {
    let nexus = up.target.attach(InitiatorPort::iscsi(IQN, [0; 6]), port);
    loop {
        let command = Command {
            tag: 1,
            lun: Lun([0; 8]),
            cdb: cdb.to_vec().into(),
            attribute: TaskAttribute::Simple,
            direction: if data.is_empty() { Direction::In } else { Direction::Out },
            data_out: bytes::Bytes::from(data.to_vec()).into(),
            data_in_limit: 4096,
        };
        let response = match nexus.execute(command) {
            Execution::Done(response) => response,
            Execution::Task(task) => task.await.expect("a task that nobody aborts"),
        };
        match response.status {
            Status::CheckCondition if response.sense[2] & 15 == 6 => {}
            _ => return response,
        }
    }
}

/// A volume that a host sees.
async fn volume(up: &Up) {
    ok(up, CreateVolume { name: "db".into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() })
        .await;
    ok(up, CreateHost { name: "web1".into(), initiators: vec![IQN.into()], ..CreateHost::default() }).await;
    let (volume, peer) = ("db".into(), PeerName::Host("web1".into()));
    ok(up, CreateConnection { volume, peer, lun: Some(0), read_only: false, min_lun: None }).await;
}

/// PERSISTENT RESERVE OUT, REGISTER: the key that the host has, and the one that it gets; it survives a loss of power.
async fn register(up: &Up, port: u16, keys: [u8; 2]) {
    let mut list = [0; 24];
    (list[7], list[15], list[20]) = (keys[0], keys[1], 1);
    let done = command(up, port, &[0x5F, 0, 0, 0, 0, 0, 0, 0, 24, 0], &list).await;
    assert_eq!(done.status, Status::Good, "{:?}", done.sense);
}

/// The ports of the one target port group that hosts see.
async fn ports(up: &Up) -> Vec<u8> {
    let report = command(up, 1, &[0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]).await;
    let report = report.data_in.to_bytes();
    report[12..].chunks(4).map(|port| port[3]).collect()
}

#[tokio::test]
async fn portals_keep_their_numbers_over_restarts() {
    let rig = Rig::new();
    let up = rig.up().await;
    volume(&up).await;
    let nvme = Endpoint { protocol: PortalProtocol::NvmeTcp, address: "10.0.0.1:4420".into() };
    assert_eq!(settle(&up, &[iscsi("10.0.0.1:3260"), iscsi("10.0.1.1:3260"), nvme.clone()]).await, [1, 2, 3]);
    assert_eq!(ports(&up).await, [1, 2], "that of NVMe/TCP is no SCSI target port");
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(settle(&up, &[nvme, iscsi("10.0.1.1:3260")]).await, [3, 2], "whatever their places");
    assert_eq!(ports(&up).await, [2]);
    up.down().await;
}

#[tokio::test]
async fn a_number_that_registrations_name_is_not_that_of_another_portal() {
    let rig = Rig::new();
    let up = rig.up().await;
    volume(&up).await;
    let all = ["10.0.0.1:3260", "10.0.1.1:3260", "10.0.2.1:3260"].map(iscsi);
    assert_eq!(settle(&up, &all).await, [1, 2, 3]);
    register(&up, 1, [0, 7]).await;
    up.down().await;
    let up = rig.up().await;
    assert_eq!(settle(&up, &all[2..]).await, [3]);
    up.down().await;
    let up = rig.up().await;
    let others = [iscsi("10.0.3.1:3260"), iscsi("10.0.4.1:3260")];
    let wanted = [&all[2..], &others].concat();
    assert_eq!(settle(&up, &wanted).await, [3, 2], "there is none for the third");
    register(&up, 1, [7, 0]).await;
    up.down().await;
    let up = rig.up().await;
    assert_eq!(settle(&up, &wanted).await, [3, 2, 1], "nobody names it any more");
    up.down().await;
}
