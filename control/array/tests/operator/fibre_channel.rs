//! Hosts with WWPNs: in which forms they are taken, what they see, and that they share volumes with iSCSI hosts.

use crate::rig::{Rig, Up, ok, refused};
use array::{
    ChangeHost, CreateConnection, CreateHost, CreateVolume, Endpoint, FibreChannelDevice, FibreChannelNexus,
    FibreChannelSession, HostChange, Kind, ListFibreChannelSessions, ListHosts, ListPaths, OwnPorts,
    PeerName, PortalProtocol, SessionDevice, ShowConfiguration, ShowHost, ShowVolume, TimeRange,
};
use scsi::InitiatorPort;

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:4D2F7C5E";
const TARGET_PORT: &str = "21:00:00:24:ff:00:00:01";
const WWPN: &str = "21:00:00:24:ff:00:00:a1";

fn host(name: &str, wwpns: &[&str]) -> CreateHost {
    let wwpns = wwpns.iter().map(|wwpn| (*wwpn).to_owned()).collect();
    CreateHost { name: name.into(), wwpns, ..CreateHost::default() }
}

fn connect(host: &str, lun: u16) -> CreateConnection {
    let peer = PeerName::Host(host.into());
    CreateConnection { volume: "data".into(), peer, lun: Some(lun), read_only: false, min_lun: None }
}

async fn with_volume(rig: &Rig) -> Up {
    let up = rig.up().await;
    let volume = CreateVolume { name: "data".into(), bytes: 1 << 30, block_bytes: 512, ..Default::default() };
    ok(&up, volume).await;
    up
}

#[tokio::test]
async fn a_wwpn_is_stored_in_one_form_and_belongs_to_one_host() {
    let rig = Rig::new();
    let up = with_volume(&rig).await;
    let created = ok(&up, host("db1", &["0x21000024FF0000A1", "21000024ff0000a2"])).await;
    assert_eq!(created.object.wwpns, [WWPN, "21:00:00:24:ff:00:00:a2"]);
    // The same again is the same host, in whatever form.
    ok(&up, host("db1", &["21:00:00:24:FF:00:00:A2", WWPN])).await;
    let taken = refused(&up, host("db2", &["21000024ff0000a1"])).await;
    assert_eq!((taken.kind, taken.field), (Kind::Conflict, Some("wwpns")));
    for bad in [&["21:00"][..], &["0000000000000000"], &[WWPN, "21000024ff0000a1"]] {
        let error = refused(&up, host("db2", bad)).await;
        assert_eq!((error.kind, error.field), (Kind::Invalid, Some("wwpns")), "{bad:?}");
    }
    let found = ok(&up, ListHosts { initiator: Some("21000024FF0000A1".into()) }).await;
    assert_eq!(found.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["db1"]);
    let change = HostChange { wwpns: Some(Vec::new()), ..HostChange::default() };
    let error = refused(&up, ChangeHost { name: "db1".into(), change }).await;
    assert_eq!(error.kind, Kind::Invalid, "its only names");
    let document = ok(&up, ShowConfiguration).await;
    assert!(serde_json::to_string(&document).unwrap().contains(WWPN));
}

#[tokio::test]
async fn a_host_sees_its_volumes_by_its_wwpns_beside_iscsi_and_not_beside_nvme() {
    let rig = Rig::new();
    let up = with_volume(&rig).await;
    ok(&up, host("db1", &[WWPN])).await;
    ok(&up, CreateHost { initiators: vec![IQN.into()], ..host("web1", &[]) }).await;
    ok(&up, CreateHost { nqns: vec![NQN.into()], ..host("nvme1", &[]) }).await;
    ok(&up, connect("db1", 7)).await;
    ok(&up, connect("web1", 0)).await;
    assert_eq!(refused(&up, connect("nvme1", 0)).await.field, Some("mixed_transports"));
    let luns = |wwpn| up.target.attach(InitiatorPort::FibreChannel { wwpn }, 1).luns();
    assert_eq!(luns(0x2100_0024_FF00_00A1), [7]);
    let change = HostChange { wwpns: Some(vec!["21000024ff0000a2".into()]), ..HostChange::default() };
    ok(&up, ChangeHost { name: "db1".into(), change }).await;
    assert!(luns(0x2100_0024_FF00_00A1).is_empty());
    assert_eq!(luns(0x2100_0024_FF00_00A2), [7]);
}

#[tokio::test]
async fn sessions_are_those_of_the_host_that_has_the_initiator_port() {
    let rig = Rig::new();
    let up = with_volume(&rig).await;
    let own = OwnPorts { controller: 1, group: 1, numbers: 1..=3, is_shared: false };
    let port = Endpoint { protocol: PortalProtocol::FibreChannel, address: TARGET_PORT.into() };
    let portal = up.array.settle_portals(own, &[port]).await.unwrap()[0].number;
    ok(&up, host("db1", &[WWPN])).await;
    ok(&up, host("db2", &["21:00:00:24:ff:00:00:b2"])).await;
    ok(&up, connect("db1", 7)).await;
    let disk = ok(&up, ShowVolume { name: "data".into() }).await.id;
    let device = FibreChannelDevice { lun: 7, disk, is_served: true, commands: 9, aborted: 2, refused: 1 };
    let nexus = |initiator: &str, is_logged_in| FibreChannelNexus {
        initiator: initiator.into(),
        target_port: TARGET_PORT.into(),
        portal,
        fabric: "qla2xxx".into(),
        is_logged_in,
        devices: vec![device.clone()],
        link: None,
    };
    let stranger = "21:00:00:24:ff:00:00:c3";
    *rig.adapters.0.lock().unwrap() =
        vec![nexus(WWPN, true), nexus("21:00:00:24:ff:00:00:b2", false), nexus(stranger, true)];
    let of = |host: Option<&str>| ListFibreChannelSessions { host: host.map(str::to_owned) };
    let all = ok(&up, of(None)).await;
    let hosts: Vec<_> = all.iter().map(|it| it.host.as_deref()).collect();
    assert_eq!(hosts, [Some("db1"), Some("db2"), None]);
    let own = ok(&up, of(Some("db1"))).await;
    let session = FibreChannelSession {
        host: Some("db1".into()),
        initiator: WWPN.into(),
        target_port: TARGET_PORT.into(),
        portal,
        fabric: "qla2xxx".into(),
        logged_in: true,
        devices: vec![SessionDevice {
            lun: 7,
            volume: Some("data".into()),
            served: true,
            commands: 9,
            aborted: 2,
            refused: 1,
        }],
        link: None,
    };
    assert_eq!(own, [session]);
    assert_eq!(refused(&up, of(Some("db3"))).await.kind, Kind::NotFound);
    // Devices are there before their initiator logs in, which is no session.
    for (name, count) in [("db1", 1), ("db2", 0)] {
        let shown = ok(&up, ShowHost { name: name.into() }).await;
        assert_eq!(shown.fibre_channel_sessions, count, "{name}");
        let listed = ok(&up, ListHosts { initiator: None }).await;
        assert!(listed.contains(&shown));
    }
    let paths = ok(&up, ListPaths { host: None, range: TimeRange::default() }).await;
    let paths: Vec<_> = paths.iter().map(|it| (it.host.as_str(), it.portal, it.sessions)).collect();
    assert_eq!(paths, [("db1", portal, 1)]);
}
