//! How hosts see the portals of all controllers: each controller's ports are a target port group, with numbers of its own.

use super::{PORTS, first_port};
use cluster::{Map, MapMember, Standing};
use iscsi::Portal;
use scsi::PortGroup;
use std::net::SocketAddr;

fn has_link(member: &MapMember) -> bool {
    !member.link.address.is_empty()
}

/// The target port groups, by the home: its own ports, and those of front ends, which are active while they are connected.
pub fn groups(map: &Map, own: u16, connected: &[u16]) -> Vec<PortGroup> {
    let members = map.members.iter().filter(|member| has_link(member) && !member.service.iscsi.is_empty());
    let group = |member: &MapMember| {
        let count = u16::try_from(member.service.iscsi.len()).unwrap_or(PORTS).min(PORTS);
        let first = first_port(member.id);
        PortGroup {
            id: member.id,
            ports: first..=first + count - 1,
            is_active: member.id == own || connected.contains(&member.id),
        }
    };
    members.map(group).collect()
}

/// The portals of the other controllers that take part, as far as their addresses are known.
pub fn others(map: &Map, own: u16) -> Vec<Portal> {
    let serves =
        |member: &&MapMember| member.id != own && member.standing == Standing::Active && has_link(member);
    let portals = |member: &MapMember| -> Vec<Portal> {
        let addresses =
            member.service.iscsi.iter().take(usize::from(PORTS)).map(|address| address.parse().ok());
        let portals = (first_port(member.id)..).zip(addresses);
        let known = portals
            .filter_map(|(tag, address): (u16, Option<SocketAddr>)| Some(Portal { tag, address: address? }));
        known.filter(|portal| !portal.address.ip().is_unspecified() && portal.address.port() != 0).collect()
    };
    map.members.iter().filter(serves).flat_map(portals).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::{Identity, Link, Service};
    use shelf::arbiter::MemberId;

    /// Controllers 1 and 2, with links; 2 has two portals, one of which has no address of its own.
    fn map() -> Map {
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
        assert_eq!(groups(&map(), 1, &[2]), [group(1, 1..=1, true), group(2, 33..=34, true)]);
        assert_eq!(groups(&map(), 1, &[]), [group(1, 1..=1, true), group(2, 33..=34, false)]);
        let mut without = map();
        without.members[1].link = Link::default();
        assert_eq!(groups(&without, 1, &[]), [group(1, 1..=1, true)], "it serves no hosts as a front end");
    }

    #[test]
    fn discovery_names_the_portals_of_others_that_take_part() {
        let portal = |tag, address: &str| Portal { tag, address: address.parse().unwrap() };
        assert_eq!(others(&map(), 1), [portal(34, "192.0.2.2:3260")]);
        assert_eq!(others(&map(), 2), [portal(1, "192.0.2.1:3260")]);
        let mut left = map();
        left.members[1].standing = Standing::Left;
        assert_eq!(others(&left, 1), []);
    }
}
