use super::*;
use proptest::prelude::*;

fn identity(id: u16, instance: u64) -> Identity {
    Identity {
        id: MemberId(id),
        name: format!("controller {id}"),
        instance,
        link: Link::default(),
        service: Service { api: format!("https://192.0.2.{id}:8443"), ..Service::default() },
        release: "1".into(),
        reads: 7,
    }
}

fn map_of(members: u16) -> Map {
    let mut map = Map::first(7, (3, 1000), &identity(1, 100));
    for id in 2..=members {
        map = map.next(0, 2000);
        map.admit(&identity(id, 100 + u64::from(id)));
    }
    map
}

#[test]
fn a_map_survives_the_store() {
    let map = map_of(3);
    assert_eq!(Map::decode(&map.encode().unwrap()), Ok(map));
}

#[test]
fn what_a_controller_reads_is_that_of_its_process() {
    let map = map_of(2);
    let reads = |map: &Map| map.members.iter().map(Member::reads).collect::<Vec<_>>();
    assert_eq!(reads(&map), [7, 7]);
    // A release that reports nothing keeps the report of its predecessor, as an unknown field.
    let mut older = serde_json::to_value(&map).unwrap();
    older["members"][1]["joined"] = (map.version + 1).into();
    older["version"] = (map.version + 1).into();
    assert_eq!(reads(&serde_json::from_value(older).unwrap()), [7, 0]);
}

#[test]
fn fields_of_a_newer_release_are_kept() {
    let json = |map: &Map| serde_json::to_value(map).unwrap();
    let mut newer = json(&map_of(2));
    newer["portals"] = 5.into();
    newer["members"][0]["rack"] = "left".into();
    newer["domains"][0]["weight"] = 1.into();
    let mut map: Map = serde_json::from_value(newer).unwrap();
    map = map.next(0, 2000);
    map.admit(&identity(1, 200));
    map.reassign(0, &[MemberId(2)]);
    let after = json(&Map::decode(&map.encode().unwrap()).unwrap());
    let kept = (&after["portals"], &after["members"][0]["rack"], &after["domains"][0]["weight"]);
    assert_eq!(kept, (&5.into(), &"left".into(), &1.into()));
}

#[test]
fn a_map_of_a_release_that_knew_no_addresses_and_times_is_read() {
    let mut older = serde_json::to_value(map_of(2)).unwrap();
    older.as_object_mut().unwrap().remove("made");
    older["domains"][0].as_object_mut().unwrap().remove("since");
    for member in older["members"].as_array_mut().unwrap() {
        member.as_object_mut().unwrap().remove("since");
        member.as_object_mut().unwrap().remove("service");
    }
    let map: Map = serde_json::from_value(older).unwrap();
    assert_eq!((map.made, map.members[1].since, map.domains[0].since), (0, 0, 0));
    assert_eq!(map.members[1].service, Service::default());
}

#[test]
fn domains_go_to_the_heir_with_the_fewest_and_get_the_version_as_epoch() {
    let mut map = map_of(3);
    for domain in 1..4 {
        let home = if domain == 1 { 2 } else { 1 };
        map.domains.push(Domain { domain, home, epoch: map.version, since: 1, other: Unknown::new() });
    }
    map = map.next(40, 2000);
    map.release(MemberId(1), Standing::Expelled, &[MemberId(2), MemberId(3)]);
    let homes: Vec<_> = map.domains.iter().map(|domain| (domain.home, domain.epoch)).collect();
    assert_eq!(homes, [(3, 40), (2, 5), (2, 40), (3, 40)]);
    let since: Vec<_> = map.domains.iter().map(|domain| domain.since).collect();
    assert_eq!(since, [2000, 1, 2000, 2000], "those that moved");
    assert_eq!(map.member(MemberId(1)).map(|member| member.since), Some(2000));
    assert_eq!(map.active_members().collect::<Vec<_>>(), [(MemberId(2), 4), (MemberId(3), 5)]);
    let before = map.clone();
    map.reassign(0, &[]);
    assert_eq!(map, before, "without an heir nothing changes");
}

#[test]
fn a_map_of_a_newer_format_says_so() {
    let good = map_of(1).encode().unwrap();
    let json = &good[HEADER_BYTES..];
    let format = (FORMATS.current + 1).to_le_bytes();
    let sum = crc32c([&format[..], json]).to_le_bytes();
    let newer = [&MAGIC[..], &format, &sum, json].concat();
    let refused = Map::decode(&newer).unwrap_err().to_string();
    assert!(refused.contains("another release"), "{refused}");
}

#[test]
fn contradictions_are_refused() {
    let mut wrong = vec![map_of(2); 4];
    wrong[0].version = 1;
    wrong[1].members.swap(0, 1);
    wrong[2].domains[0].epoch = 99;
    wrong[3].version = u64::MAX;
    for map in wrong {
        assert!(matches!(Map::decode(&map.encode().unwrap()), Err(Error::Map(_))), "{map:?}");
    }
}

proptest! {
    #[test]
    fn damaged_maps_are_refused(at in 0usize..400, bit in 0u8..8, cut in 0usize..400) {
        let good = map_of(2).encode().unwrap();
        let mut flipped = good.to_vec();
        let at = at % flipped.len();
        flipped[at] ^= 1 << bit;
        prop_assert!(Map::decode(&flipped).is_err());
        prop_assert!(Map::decode(&good[..cut % good.len()]).is_err());
    }
}
