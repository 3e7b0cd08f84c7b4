use super::*;
use crate::host::{FormerNqns, MAX_FORMER_NQNS};
use crate::label::Labels;

fn host(id: u64, nqn: bool) -> HostEntry {
    HostEntry {
        id: HostId(id),
        name: format!("host{id}"),
        initiators: if nqn { Vec::new() } else { vec![format!("iqn.2026-01.test:{id}")] },
        nqns: if nqn { vec![format!("nqn.2026-01.test:{id}")] } else { Vec::new() },
        wwpns: Vec::new(),
        chap: None,
        mutual: None,
        dhchap: None,
        dhchap_controller: None,
        tls_psk: None,
        luns_retired_below: 0,
        created: 0,
        labels: Labels::default(),
    }
}

fn group(hosts: &[u64]) -> HostGroupEntry {
    let hosts = hosts.iter().map(|id| HostId(*id)).collect();
    let (id, name, labels) = (HostGroupId(9), "farm".into(), Labels::default());
    HostGroupEntry { id, name, created: 0, hosts, luns_retired_below: 0, labels }
}

const FARM: Peer = Peer::HostGroup(HostGroupId(9));
const FIRST: Peer = Peer::Host(HostId(1));

fn put_host(host: HostEntry) -> Edit {
    Edit::Put(Record::Host(host))
}

fn put_group(hosts: &[u64]) -> Edit {
    Edit::Put(Record::HostGroup(group(hosts)))
}

fn connection(volume: u128, peer: Peer, lun: u16) -> Record {
    let volume = DiskId(volume);
    Record::Connection(ConnectionEntry { volume, peer, lun, read_only: false, reused: false })
}

fn connect(volume: u128, peer: Peer, lun: u16) -> Edit {
    Edit::Put(connection(volume, peer, lun))
}

fn disconnect(volume: u128, peer: Peer, lun: u16) -> Edit {
    Edit::Remove(connection(volume, peer, lun))
}

/// A configuration after these changes and the LUNs that each retires.
fn after(changes: Vec<Vec<Edit>>) -> Config {
    after_more(Config::default(), changes)
}

fn after_more(mut config: Config, changes: Vec<Vec<Edit>>) -> Config {
    for edits in changes {
        for edit in config.retiring_luns(edits) {
            config.apply(edit);
        }
    }
    config
}

fn chosen(config: &Config, peer: Peer, lun: Option<u16>) -> (u16, bool) {
    let ChosenLun { lun, reused } = config.choose_lun(DiskId(99), peer, lun, 0).unwrap();
    (lun, reused)
}

#[test]
fn a_freed_lun_of_a_host_over_nvme_is_retired() {
    let ended = |nqn| {
        after(vec![
            vec![put_host(host(1, nqn))],
            vec![connect(1, FIRST, 0)],
            vec![connect(2, FIRST, 5)],
            vec![disconnect(2, FIRST, 5)],
        ])
    };
    let config = ended(true);
    assert_eq!(chosen(&config, FIRST, None), (6, false));
    assert_eq!((chosen(&config, FIRST, Some(5)), chosen(&config, FIRST, Some(7))), ((5, true), (7, false)));
    assert_eq!(chosen(&ended(false), FIRST, None), (1, false), "SCSI hosts have unit attentions");
    // The record of the host may change in the same step.
    let mut named = host(1, true);
    named.name = "other".into();
    let edits = config.retiring_luns(vec![put_host(named), disconnect(1, FIRST, 0)]);
    let Edit::Put(Record::Host(host)) = &edits[0] else { panic!("{edits:?}") };
    assert_eq!((host.name.as_str(), host.luns_retired_below, edits.len()), ("other", 1, 2));
}

#[test]
fn the_luns_of_a_group_are_retired_for_it_and_for_hosts_that_leave_it() {
    let mut changes = vec![
        vec![put_host(host(1, true)), put_host(host(2, true))],
        vec![put_group(&[1, 2])],
        vec![connect(1, FARM, 3)],
        vec![connect(2, FARM, 7)],
        vec![disconnect(2, FARM, 7)],
    ];
    let config = after(changes.clone());
    assert_eq!((chosen(&config, FARM, None), chosen(&config, FIRST, None)), ((8, false), (8, false)));
    let left = HostGroupEntry { luns_retired_below: 8, ..group(&[2]) };
    changes.push(vec![Edit::Put(Record::HostGroup(left))]);
    let config = after(changes);
    assert_eq!(chosen(&config, FIRST, Some(3)), (3, true), "it had the group's LUN 3");
    assert_eq!(chosen(&config, FIRST, None), (8, false));
}

/// A machine that was away comes back with its NQN, whichever host of the configuration has it then.
#[test]
fn the_luns_that_a_machine_knew_follow_its_nqn_to_another_host() {
    let mut changes = vec![
        vec![put_host(host(1, true))],
        vec![connect(1, FIRST, 0)],
        vec![connect(2, FIRST, 5)],
        vec![disconnect(2, FIRST, 5)],
        vec![disconnect(1, FIRST, 0)],
        vec![Edit::Remove(Record::Host(host(1, true)))],
    ];
    let (again, other) = (Peer::Host(HostId(2)), Peer::Host(HostId(3)));
    let with_nqn_of_first = |id| HostEntry { nqns: host(1, true).nqns, ..host(id, true) };
    // The host is created again.
    let config = after([changes.clone(), vec![vec![put_host(with_nqn_of_first(2))]]].concat());
    assert_eq!((chosen(&config, again, None), chosen(&config, again, Some(5))), ((6, false), (5, true)));
    assert_eq!(config.former_nqns, FormerNqns::default(), "the host has it now");
    let fresh = after([changes.clone(), vec![vec![put_host(host(2, true))]]].concat());
    assert_eq!(chosen(&fresh, again, None), (0, false), "another machine");
    // A host that has volumes gets the NQN as well.
    changes.push(vec![put_host(host(3, true))]);
    changes.push(vec![connect(3, other, 4), connect(4, other, 6)]);
    changes.push(vec![put_host(with_nqn_of_first(3))]);
    let config = after(changes);
    let reused: Vec<bool> = config.connections.of_peer(other).map(|entry| entry.reused).collect();
    assert_eq!(reused, [true, false]);
    // Its own NQN is given away with what it knew.
    let config = after_more(
        config,
        vec![
            vec![put_host(host(4, true))],
            vec![put_host(HostEntry { nqns: host(3, true).nqns, ..host(4, true) })],
        ],
    );
    assert_eq!(chosen(&config, Peer::Host(HostId(4)), None), (7, false));
}

#[test]
fn the_oldest_former_nqns_are_forgotten_first() {
    let mut former = FormerNqns::default();
    (0..=MAX_FORMER_NQNS).for_each(|number| former.put(&format!("nqn.2026-01.test:{number}"), 7));
    assert_eq!((former.take("nqn.2026-01.test:0"), former.take("nqn.2026-01.test:1")), (0, 7));
    former.put("nqn.2026-01.test:2", 3);
    assert_eq!((former.take("nqn.2026-01.test:2"), former.take("nqn.2026-01.test:2")), (7, 0));
}

#[test]
fn retired_luns_are_chosen_once_there_are_no_others() {
    let mut both = host(1, true);
    both.initiators = host(1, false).initiators;
    both.luns_retired_below = 300;
    let config = after(vec![vec![put_host(both)]]);
    assert_eq!(chosen(&config, FIRST, None), (0, true), "SCSI hosts can't address all higher ones");
    let mut last = host(1, true);
    last.luns_retired_below = MAX_LUN + 1;
    let config = after(vec![vec![put_host(last)]]);
    assert_eq!(chosen(&config, FIRST, None), (0, true));
}

#[test]
fn every_way_to_more_volumes_than_a_host_can_see_is_found() {
    let config = after(vec![
        vec![put_host(host(1, true)), put_host(host(2, false))],
        vec![put_group(&[1])],
        vec![connect(1, FARM, 0), connect(2, FARM, 1)],
        vec![connect(3, FIRST, 2)],
    ]);
    let above = |edits: Vec<Edit>, limit| config.first_above(&edits, limit);
    let too_many = |host: &str, count| Some((host.to_owned(), count));
    assert_eq!(above(vec![connect(4, FIRST, 3)], 3), too_many("host1", 4));
    assert_eq!(above(vec![connect(4, FARM, 3)], 3), too_many("host1", 4));
    assert_eq!(above(vec![connect(3, FIRST, 9)], 3), None, "another LUN");
    assert_eq!(above(vec![disconnect(3, FIRST, 2), connect(4, FIRST, 2)], 3), None);
    assert_eq!(above(vec![put_group(&[1])], 1), None, "no more than before");
    assert_eq!(above(vec![put_group(&[1, 2])], 1), None, "iSCSI has no such limit");
    let mut given = host(2, false);
    given.nqns = host(2, true).nqns;
    assert_eq!(above(vec![put_host(given), put_group(&[1, 2])], 1), too_many("host2", 2));
}
