//! Hosts with NQNs: who may connect, what they see, and that a volume has one transport unless it is allowed to have both.

use crate::rig::{Rig, ok, refused};
use array::{
    ChangeHost, ChangeHostGroup, ChangeVolume, CreateConnection, CreateHost, CreateHostGroup, CreateVolume,
    DeleteConnection, HostChange, HostGroupChange, Kind, ListAudit, ListHosts, PeerName, Secret, ShowArray,
    ShowConfiguration, ShowConnection, VolumeChange,
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
async fn no_host_has_a_name_of_the_array() {
    let rig = Rig::new();
    let up = rig.up().await;
    let status = ok(&up, ShowArray).await;
    let (iqn, nqn) = (status.target_iqn, status.subsystem_nqn);
    let error = refused(&up, host("own", None, Some(&nqn))).await;
    assert_eq!((error.kind, error.field), (Kind::Invalid, Some("nqns")));
    let error = refused(&up, host("own", Some(&iqn.to_uppercase()), None)).await;
    assert_eq!((error.kind, error.field), (Kind::Invalid, Some("initiators")));
    ok(&up, host("own", Some(IQN), None)).await;
    let change = HostChange { nqns: Some(vec![NQN.into(), nqn]), ..HostChange::default() };
    let error = refused(&up, ChangeHost { name: "own".into(), change }).await;
    assert_eq!((error.kind, error.field), (Kind::Invalid, Some("nqns")));
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

const OF_HOST: &str = "DHHC-1:01:nhr7JP2NMnF+O+sHDpADH7X4X92Mro645HWZ341f6zLhtuL4:";
const OF_ARRAY: &str = "DHHC-1:00:tzuO87X781NTu5c9pT+yk2K4rC3xzh0G3gcVObMwF1hNWq/J:";

fn secret(text: &str) -> Option<Secret> {
    Some(Secret::new(text))
}

#[tokio::test]
async fn secrets_of_dhchap_are_checked_kept_and_never_shown() {
    let rig = Rig::new();
    let up = rig.up().await;
    let plain = host("web1", None, Some(NQN));
    let refusals: [(Option<&str>, Option<&str>, &str); 4] = [
        (Some("twelve chars"), None, "gen-dhchap-key"),
        (Some(&OF_HOST.replace("nhr7", "nhr8")), None, "CRC"),
        (None, Some(OF_ARRAY), "of the host as well"),
        (Some(OF_HOST), Some(OF_HOST), "must differ"),
    ];
    for (of_host, of_array, why) in refusals {
        let new = CreateHost {
            dhchap_secret: of_host.and_then(secret),
            dhchap_controller_secret: of_array.and_then(secret),
            ..plain.clone()
        };
        let error = refused(&up, new).await;
        assert!(error.kind == Kind::Invalid && error.message.contains(why), "{error:?}");
        assert!(!error.message.contains("nhr"), "no secret is repeated");
    }
    let both = CreateHost {
        dhchap_secret: secret(OF_HOST),
        dhchap_controller_secret: secret(OF_ARRAY),
        ..plain.clone()
    };
    let made = ok(&up, both.clone()).await;
    assert!(made.created && made.object.dhchap && made.object.dhchap_controller);
    assert!(!ok(&up, both.clone()).await.created && !ok(&up, plain.clone()).await.created);
    let other =
        CreateHost { dhchap_secret: secret(OF_ARRAY), dhchap_controller_secret: None, ..plain.clone() };
    assert_eq!(refused(&up, other).await.kind, Kind::Differs);
    let trail = ok(&up, ListAudit { limit: Some(10), ..ListAudit::default() }).await;
    assert!(["nhr7", "tzuO"].iter().all(|it| !format!("{trail:?}").contains(it)), "{trail:?}");

    let change = |change: HostChange| ChangeHost { name: "web1".into(), change };
    let none = HostChange { dhchap_secret: Some(None), ..HostChange::default() };
    assert!(refused(&up, change(none)).await.message.contains("of the host as well"));
    let one_way = HostChange { dhchap_controller_secret: Some(None), ..HostChange::default() };
    let host = ok(&up, change(one_way)).await;
    assert_eq!((host.dhchap, host.dhchap_controller), (true, false));
    let renamed = HostChange { name: Some("web2".into()), ..HostChange::default() };
    assert!(ok(&up, change(renamed)).await.dhchap, "what is not named stays");

    // An export says that there is a secret, and an import needs it.
    let document = ok(&up, ShowConfiguration).await;
    let text = serde_json::to_string(&document).unwrap();
    assert!(text.contains("\"dhchap\":true") && !text.contains("DHHC"), "{text}");
    assert!(text.contains("dhchap_secret of host/web2"), "{text}");
    up.down().await;
    let up = rig.up().await;
    let host = &ok(&up, ListHosts { initiator: Some(NQN.into()) }).await[0];
    assert_eq!((host.dhchap, host.dhchap_controller), (true, false), "after a restart");
}

#[tokio::test]
async fn the_psk_of_tls_is_checked_kept_and_never_shown() {
    const PSK: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    let rig = Rig::new();
    let up = rig.up().await;
    let plain = host("web1", None, Some(NQN));
    let with = |psk: &str| CreateHost { tls_psk: secret(psk), ..plain.clone() };
    for (psk, why) in [
        (OF_HOST, "gen-tls-key"),
        (&PSK.replace("VRLb", "VRLc"), "CRC"),
        (&PSK.replace(":01:", ":02:"), "32 or 48"),
    ] {
        let error = refused(&up, with(psk)).await;
        assert!(error.kind == Kind::Invalid && error.message.contains(why), "{error:?}");
        assert!(!error.message.contains("VRL"), "no secret is repeated");
    }
    let made = ok(&up, with(PSK)).await;
    assert!(made.created && made.object.tls);
    assert!(!ok(&up, with(PSK)).await.created && !ok(&up, plain.clone()).await.created);
    assert_eq!(refused(&up, with(&PSK.replace(":01:", ":00:"))).await.kind, Kind::Differs);
    let trail = ok(&up, ListAudit { limit: Some(10), ..ListAudit::default() }).await;
    assert!(!format!("{trail:?}").contains("VRL"), "{trail:?}");

    let change = |change: HostChange| ChangeHost { name: "web1".into(), change };
    let renamed = HostChange { name: Some("web2".into()), ..HostChange::default() };
    assert!(ok(&up, change(renamed)).await.tls, "what is not named stays");
    let text = serde_json::to_string(&ok(&up, ShowConfiguration).await).unwrap();
    assert!(text.contains("\"tls\":true") && !text.contains("NVMeTLSkey"), "{text}");
    assert!(text.contains("tls_psk of host/web2"), "{text}");
    up.down().await;
    let up = rig.up().await;
    assert!(ok(&up, ListHosts { initiator: Some(NQN.into()) }).await[0].tls, "after a restart");
    let none = HostChange { tls_psk: Some(None), ..HostChange::default() };
    assert!(!ok(&up, ChangeHost { name: "web2".into(), change: none }).await.tls);
}

fn volume(name: &str) -> CreateVolume {
    CreateVolume { name: name.into(), bytes: 1 << 20, block_bytes: 512, ..CreateVolume::default() }
}

fn disconnect(volume: &str, host: &str) -> DeleteConnection {
    DeleteConnection { volume: volume.into(), peer: PeerName::Host(host.into()) }
}

#[tokio::test]
async fn a_number_over_nvme_is_not_chosen_for_another_volume() {
    let rig = Rig::new();
    let up = rig.up().await;
    for name in ["a", "b", "c", "d"] {
        ok(&up, volume(name)).await;
    }
    ok(&up, host("nvme", None, Some(NQN))).await;
    for name in ["a", "b"] {
        ok(&up, connect(name, "nvme")).await;
    }
    ok(&up, disconnect("b", "nvme")).await;
    let connected = ok(&up, connect("c", "nvme")).await.object;
    assert_eq!(connected.lun, 2, "1 was b's");
    assert!(connected.nsid == Some(3) && connected.subsystem_nqn.is_some_and(|nqn| nqn.starts_with("nqn.")));
    ok(&up, disconnect("c", "nvme")).await;
    // A host that was away while both were disconnected may come back after a restart.
    up.crash().await;
    let up = rig.up().await;
    assert_eq!(ok(&up, connect("d", "nvme")).await.object.lun, 3);
    let chosen = CreateConnection { lun: Some(1), ..connect("c", "nvme") };
    assert_eq!(ok(&up, chosen).await.object.lun, 1, "an operator may choose it");
    let shown = ok(&up, ShowConnection { volume: "d".into(), peer: PeerName::Host("nvme".into()) }).await;
    assert_eq!(shown.nsid, Some(4));
    // LUNs of SCSI hosts are few, and unit attentions report their changes.
    ok(&up, host("scsi", Some(IQN), None)).await;
    ok(&up, connect("b", "scsi")).await;
    ok(&up, disconnect("b", "scsi")).await;
    let connected = ok(&up, connect("b", "scsi")).await.object;
    assert_eq!((connected.lun, connected.nsid), (0, None));
}

#[tokio::test]
async fn a_host_over_nvme_has_no_volume_that_it_can_not_see() {
    let rig = Rig::new();
    let up = rig.up().await;
    ok(&up, host("nvme", None, Some(NQN))).await;
    ok(&up, host("scsi", Some(IQN), None)).await;
    ok(&up, CreateHostGroup { name: "farm".into(), ..CreateHostGroup::default() }).await;
    let farm =
        |volume: &str| CreateConnection { peer: PeerName::HostGroup("farm".into()), ..connect(volume, "") };
    for number in 0..=nvmf::MAX_NAMESPACES {
        ok(&up, volume(&format!("v{number}"))).await;
        ok(&up, farm(&format!("v{number}"))).await;
    }
    let members = |name: &str| {
        let change = HostGroupChange { hosts: Some(vec![name.into()]), ..HostGroupChange::default() };
        ChangeHostGroup { name: "farm".into(), change }
    };
    let error = refused(&up, members("nvme")).await;
    assert_eq!(error.kind, Kind::Precondition);
    assert!(error.to_string().contains("at most 1024"), "{error}");
    let last = format!("v{}", nvmf::MAX_NAMESPACES);
    let end = DeleteConnection { volume: last.clone(), peer: PeerName::HostGroup("farm".into()) };
    ok(&up, end).await;
    ok(&up, members("nvme")).await;
    for way in [farm(&last), connect(&last, "nvme")] {
        assert_eq!(refused(&up, way).await.kind, Kind::Precondition);
    }
    // A host over iSCSI may have more, until it gets an NQN instead.
    ok(&up, members("scsi")).await;
    ok(&up, farm(&last)).await;
    let nqns = Some(vec!["nqn.2026-01.test:x".into()]);
    let change = HostChange { initiators: Some(Vec::new()), nqns, ..HostChange::default() };
    let error = refused(&up, ChangeHost { name: "scsi".into(), change }).await;
    assert!(error.to_string().contains("1025 volumes"), "{error}");
}
