//! Portals whose addresses move: their controller serves them as long as it reaches the home; otherwise the home does.
//!
//! A command must not take effect after its host has sent it again by another session. So a controller that does not reach the home
//! ends the sessions at such portals ([`GIVE_UP`]) before the home serves these ([`TAKE`]); and the home ends its own before it lets
//! the controller have the portals back. A controller that the cluster has expelled forwards nothing any more.

use crate::held::GIVE_UP;
use crate::home::Home;
use array::{Array, PortalEntry, PortalProtocol, Portals};
use cluster::Map;
use shelf::arbiter::MemberId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};

/// After what time the home serves those of a controller that takes part and does not reach it. Until then that one has noticed,
/// has ended its sessions, and has the addresses no more.
const TAKE: Duration = Duration::from_secs(25);
const _: () = assert!(TAKE.as_secs() > 2 * GIVE_UP.as_secs() + address::LIFETIME.as_secs());
/// Interval at which the home looks.
const FOLLOW: Duration = Duration::from_millis(250);

/// Serves at the home the portals of controllers that do not serve them, forever.
pub async fn serve(home: Arc<Home>, array: Arc<Array>) {
    let (mut absent, mut served) = (Absent::default(), BTreeSet::new());
    let mut ticks = interval(FOLLOW);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(map) = home.map() else { continue };
        let wanted =
            absent.portals(&map, (home.number(), &home.connected()), &array.portals(), Instant::now());
        let numbers: BTreeSet<u16> = wanted.iter().map(|entry| entry.number).collect();
        // Its controller serves a portal as long as it is not named here.
        home.note_moved(&served | &numbers);
        array.serve_moved(&wanted).await;
        home.note_moved(numbers.clone());
        served = numbers;
    }
}

/// Controllers that do not reach the home.
#[derive(Default)]
struct Absent {
    /// Since when, of those that take part.
    since: BTreeMap<u16, Instant>,
    /// Those whose portals the home serves.
    replaced: BTreeSet<u16>,
}

impl Absent {
    /// The portals of other controllers that the home is to serve.
    fn portals(
        &mut self,
        map: &Map,
        (own, connected): (u16, &[u16]),
        recorded: &Portals,
        now: Instant,
    ) -> Vec<PortalEntry> {
        let moving: Vec<&PortalEntry> =
            recorded.iter().filter(|it| it.moves && it.controller != own).collect();
        let owners: BTreeSet<u16> = moving.iter().map(|it| it.controller).collect();
        self.since.retain(|controller, _| owners.contains(controller));
        let absent: BTreeSet<u16> =
            owners.into_iter().filter(|it| self.is_absent(*it, map, connected, now)).collect();
        self.replaced.clone_from(&absent);
        // Only the home serves NVMe/TCP.
        let is_wanted = |it: &&PortalEntry| {
            absent.contains(&it.controller) || it.endpoint.protocol == PortalProtocol::NvmeTcp
        };
        moving.into_iter().filter(is_wanted).cloned().collect()
    }

    fn is_absent(&mut self, controller: u16, map: &Map, connected: &[u16], now: Instant) -> bool {
        let takes_part = map.active(MemberId(controller)).is_some();
        if !takes_part || connected.contains(&controller) {
            self.since.remove(&controller);
            return !takes_part;
        }
        let since = *self.since.entry(controller).or_insert(now);
        // One that has come back serves nothing before it has connected, which may fail.
        self.replaced.contains(&controller) || now.saturating_duration_since(since) >= TAKE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::held::of_controller;
    use crate::ports::tests::map;
    use array::Endpoint;
    use cluster::Standing;

    fn entry(controller: u16, number: u16, protocol: PortalProtocol, moves: bool) -> PortalEntry {
        let endpoint = Endpoint { protocol, address: format!("192.0.2.{number}:3260") };
        let (by_option, tls, created, removed) = (false, false, 1, None);
        PortalEntry { controller, number, endpoint, by_option, tls, moves, created, removed }
    }

    fn recorded() -> Portals {
        let mut portals = Portals::default();
        portals.put(entry(1, 2, PortalProtocol::Iscsi, true));
        portals.put(entry(2, 40, PortalProtocol::Iscsi, true));
        portals.put(entry(2, 41, PortalProtocol::Iscsi, false));
        portals.put(entry(2, 42, PortalProtocol::NvmeTcp, true));
        portals
    }

    #[test]
    fn the_home_serves_what_its_controller_does_not() {
        let (mut absent, recorded, begin) = (Absent::default(), recorded(), Instant::now());
        let mut at = |map: &Map, connected: &[u16], after: Duration| -> Vec<u16> {
            let found = absent.portals(map, (1, connected), &recorded, begin + after);
            found.iter().map(|it| it.number).collect()
        };
        let seconds = Duration::from_secs;
        assert_eq!(at(&map(), &[2], seconds(0)), [42], "NVMe/TCP is served by the home alone");
        assert_eq!(at(&map(), &[], seconds(1)), [42], "the controller may not have noticed yet");
        assert_eq!(at(&map(), &[], TAKE), [42], "since it was found to be away");
        assert_eq!(at(&map(), &[], TAKE + seconds(1)), [40, 42]);
        assert_eq!(at(&map(), &[2], TAKE + seconds(2)), [42], "it is back");
        assert_eq!(at(&map(), &[], TAKE + seconds(3)), [42], "the time begins again");
        let mut left = map();
        left.members[1].standing = Standing::Left;
        assert_eq!(at(&left, &[], TAKE + seconds(4)), [40, 42], "it forwards nothing any more");
        assert_eq!(
            at(&map(), &[], TAKE + seconds(5)),
            [40, 42],
            "another process of it has not connected yet"
        );
        assert_eq!(at(&map(), &[2], TAKE + seconds(6)), [42]);
        let without = Portals::default();
        assert!(absent.portals(&map(), (1, &[]), &without, begin + TAKE * 9).is_empty());
    }

    #[test]
    fn a_controller_that_is_removed_leaves_its_portals_to_the_home() {
        let mut map = map();
        map.members.truncate(1);
        let found = Absent::default().portals(&map, (1, &[]), &recorded(), Instant::now());
        assert_eq!(found.iter().map(|it| it.number).collect::<Vec<_>>(), [40, 42]);
        assert_eq!(of_controller(2, &recorded()), [(40, [192, 0, 2, 40].into())].into());
    }
}
