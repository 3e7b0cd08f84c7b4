//! How hosts see the portals of all controllers: each controller's ports are a target port group, with numbers of its own.

use crate::board::DOMAIN;
use array::{Endpoint, PortalEntry, PortalProtocol, Portals, shared_numbers};
use cluster::{Map, MapMember, Standing};
use iscsi::Portal;
use scsi::PortGroup;
use std::collections::{BTreeMap, BTreeSet};

fn has_link(member: &MapMember) -> bool {
    !member.link.address.is_empty()
}

/// The iSCSI portals of a controller, by number: those that its options name, and those that the array keeps for it. It has numbers
/// that are recorded, or those that it will record when it is the home.
pub fn portals_of(controller: u16, options: &[Endpoint], recorded: &Portals) -> BTreeMap<u16, Endpoint> {
    let found = recorded.number((controller, shared_numbers(controller)), options, &BTreeSet::new());
    let named = options.iter().zip(found).filter_map(|(endpoint, number)| Some((number?, endpoint.clone())));
    let is_kept = |entry: &&PortalEntry| !entry.by_option;
    let kept = recorded.of(controller).filter(is_kept).map(|entry| (entry.number, entry.endpoint.clone()));
    named.chain(kept).filter(|(_, endpoint)| endpoint.protocol == PortalProtocol::Iscsi).collect()
}

fn of_member(member: &MapMember, recorded: &Portals) -> BTreeMap<u16, Endpoint> {
    let endpoint = |protocol| move |address: &String| Endpoint { protocol, address: address.clone() };
    let iscsi = member.service.iscsi.iter().map(endpoint(PortalProtocol::Iscsi));
    let options: Vec<_> =
        iscsi.chain(member.service.nvme.iter().map(endpoint(PortalProtocol::NvmeTcp))).collect();
    portals_of(member.id, &options, recorded)
}

/// The target port groups, by the home: its own ports, and those of front ends, which are active while they are connected, or while
/// the home serves some of their ports (`moved`).
pub fn groups(
    map: &Map,
    own: u16,
    connected: &[u16],
    (recorded, moved): (&Portals, &BTreeSet<u16>),
) -> Vec<PortGroup> {
    let group = |member: &MapMember| {
        let ports: Vec<u16> = of_member(member, recorded).into_keys().collect();
        let is_served = member.id == own || connected.contains(&member.id);
        let is_active = is_served || ports.iter().any(|port| moved.contains(port));
        PortGroup { id: member.id, ports, is_active }
    };
    let members = map.members.iter().filter(|member| has_link(member));
    members.map(group).filter(|group| !group.ports.is_empty()).collect()
}

/// The portals that other controllers serve, as far as their addresses are known: those of the controllers that take part, and those
/// that have moved to the home (`moved`), if that is another one.
pub fn others(map: &Map, own: u16, (recorded, moved): (&Portals, &BTreeSet<u16>)) -> Vec<Portal> {
    let is_home = map.home(DOMAIN).is_some_and(|home| home.home == own);
    let portals = map.members.iter().filter(|member| has_link(member)).flat_map(|member| {
        let serves = member.id != own && member.standing == Standing::Active;
        let is_elsewhere = move |number: &u16| if moved.contains(number) { !is_home } else { serves };
        of_member(member, recorded).into_iter().filter(move |(number, _)| is_elsewhere(number))
    });
    let known = portals.filter_map(|(number, it)| Some(Portal::plain(number, it.socket()?)));
    known.filter(|portal| !portal.address.ip().is_unspecified() && portal.address.port() != 0).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use cluster::{Identity, Link, Service};
    use shelf::arbiter::MemberId;

    /// Controllers 1, which is the home, and 2, with links; 2 has two portals, one of which has no address of its own.
    pub fn map() -> Map {
        let identity = |id: u16, iscsi: &[&str]| Identity {
            id: MemberId(id),
            name: String::new(),
            instance: id.into(),
            link: Link { address: format!("192.0.2.{id}:8445"), ..Link::default() },
            service: Service {
                iscsi: iscsi.iter().map(|it| (*it).to_owned()).collect(),
                ..Service::default()
            },
            release: String::new(),
            reads: 0,
        };
        let mut map = Map::first(7, (1, 0), &identity(1, &["192.0.2.1:3260"]));
        let second = Map::first(7, (1, 0), &identity(2, &["0.0.0.0:3260", "192.0.2.2:3260"]));
        map.members.extend(second.members);
        map
    }

    #[test]
    fn each_controller_is_a_group_which_is_active_while_it_forwards() {
        let group = |id, ports, is_active| PortGroup { id, ports, is_active };
        let none = Portals::default();
        assert_eq!(
            groups(&map(), 1, &[2], (&none, &BTreeSet::new())),
            [group(1, vec![1], true), group(2, vec![33, 34], true)]
        );
        assert_eq!(
            groups(&map(), 1, &[], (&none, &BTreeSet::new())),
            [group(1, vec![1], true), group(2, vec![33, 34], false)]
        );
        let mut without = map();
        without.members[1].link = Link::default();
        assert_eq!(
            groups(&without, 1, &[], (&none, &BTreeSet::new())),
            [group(1, vec![1], true)],
            "it serves no hosts as a front end"
        );
    }

    /// A record of controller 2.
    fn record(number: u16, address: &str, by_option: bool) -> PortalEntry {
        let endpoint = Endpoint { protocol: PortalProtocol::Iscsi, address: address.into() };
        PortalEntry {
            controller: 2,
            number,
            endpoint,
            by_option,
            tls: false,
            moves: false,
            created: 0,
            removed: None,
        }
    }

    #[test]
    fn a_portal_has_the_number_of_its_record_whatever_its_place() {
        let mut recorded = Portals::default();
        recorded.put(record(33, "192.0.2.2:3260", true));
        recorded.put(record(40, "192.0.2.3:3260", false));
        let groups = groups(&map(), 1, &[2], (&recorded, &BTreeSet::new()));
        assert_eq!(groups[1].ports, [33, 34, 40], "and those that the array keeps for it");
        let named: Vec<_> = others(&map(), 1, (&recorded, &BTreeSet::new()))
            .iter()
            .map(|it| (it.number, it.address.ip()))
            .collect();
        let ip = |text: &str| text.parse().unwrap();
        assert_eq!(named, [(33, ip("192.0.2.2")), (40, ip("192.0.2.3"))]);
    }

    #[test]
    fn a_port_that_has_moved_is_served_by_the_home() {
        let mut recorded = Portals::default();
        recorded.put(PortalEntry { moves: true, ..record(40, "192.0.2.9:3260", false) });
        let (moved, stayed) = (BTreeSet::from([40]), BTreeSet::new());
        let (moved, stayed) = ((&recorded, &moved), (&recorded, &stayed));
        let states = |connected: &[u16], of| -> Vec<bool> {
            groups(&map(), 1, connected, of).iter().map(|it| it.is_active).collect()
        };
        assert_eq!(states(&[], moved), [true, true]);
        assert_eq!(states(&[], stayed), [true, false]);
        let numbers = |own, of| -> Vec<u16> { others(&map(), own, of).iter().map(|it| it.number).collect() };
        assert!(numbers(1, stayed).contains(&40), "its controller serves it");
        assert!(!numbers(1, moved).contains(&40), "the home serves it itself");
        assert!(numbers(2, moved).contains(&40), "not the controller whose it is");
        let mut left = map();
        left.members[1].standing = Standing::Left;
        assert_eq!(others(&left, 3, moved).iter().map(|it| it.number).collect::<Vec<_>>(), [1, 40]);
    }

    #[test]
    fn discovery_names_the_portals_of_others_that_take_part() {
        let portal = |number, address: &str| Portal::plain(number, address.parse().unwrap());
        let none = Portals::default();
        assert_eq!(others(&map(), 1, (&none, &BTreeSet::new())), [portal(34, "192.0.2.2:3260")]);
        assert_eq!(others(&map(), 2, (&none, &BTreeSet::new())), [portal(1, "192.0.2.1:3260")]);
        let mut left = map();
        left.members[1].standing = Standing::Left;
        assert_eq!(others(&left, 1, (&none, &BTreeSet::new())), []);
    }
}
