//! Hosts with WWPNs: in which forms they are taken, what they see, and that they share volumes with iSCSI hosts.

use crate::rig::{Rig, Up, ok, refused};
use array::{
    ChangeHost, CreateConnection, CreateHost, CreateVolume, HostChange, Kind, ListHosts, PeerName,
    ShowConfiguration,
};
use scsi::InitiatorPort;

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:4D2F7C5E";
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
