//! Hosts with NQNs: who may connect, what they see, and that a volume has one transport unless it is allowed to have both.

use crate::rig::{Rig, ok, refused};
use array::{
    ChangeHost, ChangeVolume, CreateConnection, CreateHost, CreateVolume, HostChange, Kind, ListHosts,
    PeerName, VolumeChange,
};

const IQN: &str = "iqn.1993-08.org.debian:01:web1";
const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:4D2F7C5E";

fn host(name: &str, iqn: Option<&str>, nqn: Option<&str>) -> CreateHost {
    let names = |name: Option<&str>| name.map(str::to_owned).into_iter().collect();
    CreateHost { name: name.into(), initiators: names(iqn), nqns: names(nqn), ..CreateHost::default() }
}

fn connect(volume: &str, host: &str) -> CreateConnection {
    let peer = PeerName::Host(host.into());
    CreateConnection { volume: volume.into(), peer, lun: None, read_only: false, min_lun: None }
}

fn mixed(on: bool) -> ChangeVolume {
    let change = VolumeChange { mixed_transports: Some(on), ..VolumeChange::default() };
    ChangeVolume { name: "data".into(), change }
}

#[tokio::test]
async fn a_volume_has_one_transport_unless_both_are_allowed() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(
        &up,
        CreateVolume { name: "data".into(), bytes: 1 << 30, block_bytes: 512, ..CreateVolume::default() },
    )
    .await;
    ok(&up, host("scsi", Some(IQN), None)).await;
    ok(&up, host("nvme", None, Some(NQN))).await;
    assert_eq!(refused(&up, host("none", None, None)).await.kind, Kind::Invalid);
    let taken = refused(&up, host("other", None, Some(NQN))).await;
    assert_eq!((taken.kind, taken.field), (Kind::Conflict, Some("nqns")));
    ok(&up, connect("data", "scsi")).await;
    let error = refused(&up, connect("data", "nvme")).await;
    assert_eq!((error.kind, error.field), (Kind::Conflict, Some("mixed_transports")));
    let change = HostChange { nqns: Some(vec!["nqn.2026-01.test:x".into()]), ..HostChange::default() };
    let error = refused(&up, ChangeHost { name: "scsi".into(), change }).await;
    assert_eq!(error.field, Some("mixed_transports"), "another way to the same");
    ok(&up, mixed(true)).await;
    ok(&up, connect("data", "nvme")).await;
    assert_eq!(refused(&up, mixed(false)).await.field, Some("mixed_transports"));
    let found = ok(&up, ListHosts { initiator: Some(NQN.into()) }).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].nqns.as_slice()), ("nvme", &[NQN.to_owned()][..]));
    assert_eq!(found[0].connections.len(), 1);
}
