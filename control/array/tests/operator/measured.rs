//! What is measured of commands that hosts really send, and reported by volume, group, host and path.

use crate::rig::{Rig, Up, controller, steps};
use array::{
    Busiest, By, Cell, ControllerState, CreateConnection, CreateGroup, CreateHost, CreateVolume, Endpoint,
    Kind, ListBusiest, ListControllers, ListVolumes, Operation, OwnPorts, PeerName, PortalProtocol, Scope,
    Series, ShowCapacity, ShowPerformance, TimeRange,
};
use std::sync::atomic::Ordering;

pub const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const BLOCKS: u8 = 8;

/// Sends a WRITE(16), or a READ(16), of 4 KiB and waits for its end.
pub async fn send(up: &Up, opcode: u8) {
    send_by(up, 1, opcode).await;
}

/// The same by a portal.
async fn send_by(up: &Up, port: u16, opcode: u8) {
    let nexus = up.target.attach(scsi::InitiatorPort::iscsi(IQN, [0; 6]), port);
    let mut cdb = [0u8; 16];
    (cdb[0], cdb[13]) = (opcode, BLOCKS);
    let data = vec![7u8; if opcode == 0x8A { usize::from(BLOCKS) * 512 } else { 0 }];
    for _attention_first in 0..2 {
        let command = scsi::Command {
            tag: 1,
            lun: scsi::Lun([0; 8]),
            cdb: cdb.to_vec().into(),
            attribute: scsi::TaskAttribute::Simple,
            direction: scsi::Direction::Out,
            data_out: bytes::Bytes::from(data.clone()).into(),
            data_in_limit: 1 << 20,
        };
        let response = match nexus.execute(command) {
            scsi::Execution::Done(response) => response,
            scsi::Execution::Task(task) => task.await.unwrap(),
        };
        if response.status == scsi::Status::Good {
            return;
        }
    }
    panic!("a command failed twice");
}

async fn prepared(up: &Up) {
    for action in steps![
        CreateGroup { name: "sql".into(), ..CreateGroup::default() },
        CreateVolume {
            name: "db1".into(),
            bytes: 1 << 30,
            block_bytes: 512,
            group: Some("sql".into()),
            ..CreateVolume::default()
        },
        CreateVolume { name: "idle".into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() },
        CreateHost {
            name: "web1".into(),
            initiators: vec![IQN.into()],
            chap: None,
            mutual: None,
            ..CreateHost::default()
        },
        CreateConnection {
            volume: "db1".into(),
            peer: PeerName::Host("web1".into()),
            lun: Some(0),
            read_only: false,
            min_lun: None
        },
    ] {
        action.ok(up).await;
    }
}

async fn series(up: &Up, scope: Scope) -> Series {
    up.perform(ShowPerformance { scope, range: TimeRange::default() }).await.unwrap()
}

fn only(series: &Series, wanted: Operation) -> Cell {
    series.whole().sum(|kind, _| array::kind(kind) == Some(wanted))
}

#[tokio::test]
async fn commands_are_told_by_volume_group_and_array_and_survive_a_restart() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepared(&up).await;
    assert_eq!(up.luns(IQN), [0]);
    let mut heard = up.array.subscribe();
    up.array.measure();
    for _ in 0..3 {
        rig.clock.fetch_add(1, Ordering::SeqCst);
        send(&up, 0x8A).await;
        send(&up, 0x88).await;
        up.array.measure();
    }
    rig.clock.fetch_add(1, Ordering::SeqCst);
    for scope in [Scope::Array, Scope::Volume("db1".into()), Scope::Group("sql".into())] {
        let found = series(&up, scope.clone()).await;
        let (reads, writes) = (only(&found, Operation::Read), only(&found, Operation::Write));
        assert_eq!((reads.latency.count(), reads.bytes), (3, 3 * 4096), "{scope:?}");
        assert_eq!((writes.latency.count(), writes.bytes), (3, 3 * 4096), "{scope:?}");
        assert!(writes.latency.quantile(0.99).unwrap() > 0);
        assert_eq!(found.samples.iter().flatten().count(), 3, "only three seconds are known");
    }
    let idle = series(&up, Scope::Volume("idle".into())).await;
    assert_eq!(idle.samples.iter().flatten().filter(|sample| sample.is_idle()).count(), 3);
    let updates = std::iter::from_fn(|| heard.try_recv().ok());
    assert_eq!(updates.filter(|it| matches!(it, array::Update::Measured(..))).count(), 3);

    let Busiest { millis, busiest } = up.perform(ListBusiest { by: By::Volume, seconds: 2 }).await.unwrap();
    assert_eq!((millis, busiest.len(), busiest[0].name.as_str()), (2000, 1, "db1"));
    assert_eq!(busiest[0].sample.sum(|_, _| true).latency.count(), 4);
    let volumes = up.perform(ListVolumes).await.unwrap();
    let recent = |name: &str| volumes.iter().find(|it| it.name == name).unwrap().performance.clone();
    assert_eq!((recent("db1").millis, recent("db1").sum(|_, _| true).latency.count()), (3000, 6));
    assert!(recent("idle").is_idle());

    up.array.flush().await;
    up.down().await;
    let up = rig.up().await;
    assert_eq!(only(&series(&up, Scope::Volume("db1".into())).await, Operation::Write).latency.count(), 3);
    up.down().await;
}

#[tokio::test]
async fn commands_are_told_by_the_controller_whose_portal_they_came_by() {
    let rig = Rig::new();
    *rig.controllers.all.lock().unwrap() =
        vec![controller(1, ControllerState::Home), controller(2, ControllerState::Standby)];
    let up = rig.up().await;
    prepared(&up).await;
    let option = Endpoint { protocol: PortalProtocol::Iscsi, address: "127.0.0.1:3260".into() };
    up.array.settle_portals(OwnPorts::shared(1), &[option]).await.unwrap();
    let mut groups = up.target.port_groups().to_vec();
    groups.push(scsi::PortGroup { id: 2, ports: vec![33, 34], is_active: true });
    up.target.set_port_groups(groups);
    assert_eq!(up.luns(IQN), [0]);
    up.array.measure();
    for port in [1, 33, 34, 33] {
        send_by(&up, port, 0x88).await;
    }
    rig.clock.fetch_add(1, Ordering::SeqCst);
    up.array.measure();
    let counted = |sample: &array::Sample| sample.sum(|_, _| true).latency.count();
    for (number, count) in [(1, 1), (2, 3)] {
        let found = series(&up, Scope::Controller(number)).await;
        assert_eq!(counted(&found.whole()), count, "controller {number}");
    }
    let Busiest { busiest, .. } = up.perform(ListBusiest { by: By::Controller, seconds: 2 }).await.unwrap();
    let busiest: Vec<_> = busiest.iter().map(|it| (it.name.as_str(), counted(&it.sample))).collect();
    assert_eq!(busiest, [("2", 3), ("1", 1)]);
    let all = up.perform(ListControllers).await.unwrap();
    let all: Vec<_> = all.iter().map(|it| (it.number, counted(&it.recent), it.recent.millis)).collect();
    assert_eq!(all, [(1, 1, 1000), (2, 3, 1000)]);
    up.down().await;
}

#[tokio::test]
async fn what_is_done_before_the_first_second_is_over_is_told_too() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepared(&up).await;
    assert_eq!(up.luns(IQN), [0]);
    send(&up, 0x8A).await;
    rig.clock.fetch_add(1, Ordering::SeqCst);
    up.array.measure();
    assert_eq!(only(&series(&up, Scope::Volume("db1".into())).await, Operation::Write).latency.count(), 1);
    up.down().await;
}

#[tokio::test]
async fn questions_about_what_is_not_there_are_refused() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepared(&up).await;
    for scope in
        [Scope::Volume("x".into()), Scope::Group("x".into()), Scope::Host("x".into()), Scope::Controller(9)]
    {
        let range = TimeRange::default();
        let error = up.perform(ShowPerformance { scope, range }).await.unwrap_err();
        assert_eq!(error.kind, Kind::NotFound);
    }
    let range = TimeRange { from: Some(2000), to: Some(1000), points: None };
    let error = up.perform(ShowPerformance { scope: Scope::Array, range }).await.unwrap_err();
    assert_eq!(error.kind, Kind::Invalid);
    up.crash().await;
}

#[tokio::test]
async fn the_use_of_space_is_kept_and_foreseen() {
    let rig = Rig::new();
    let up = rig.up().await;
    prepared(&up).await;
    for _ in 0..500 {
        up.array.measure();
        rig.clock.fetch_add(30, Ordering::SeqCst);
    }
    let now = rig.clock.load(Ordering::SeqCst);
    let range = TimeRange { from: Some(now - 15_000), to: None, points: Some(1000) };
    let capacity = up.perform(ShowCapacity(range)).await.unwrap();
    assert!(capacity.points.len() >= 499, "{}", capacity.points.len());
    assert_eq!(capacity.points[9].provisioned, 2 << 30);
    assert!(capacity.per_day.is_some());
    up.down().await;
}
