use super::*;
use proptest::prelude::*;

fn offer() -> Offer {
    let extents = vec![
        Extent { first: 3, count: 2, kind: Kind::Data },
        Extent { first: 5, count: 4, kind: Kind::Hole },
        Extent { first: 12, count: 1, kind: Kind::Zero },
        Extent { first: 14, count: 1, kind: Kind::Data },
    ];
    Offer {
        number: 7,
        volume: 1,
        extents,
        fingerprints: vec![[1; 16], [2; 16], [3; 16]],
        digest: Digest([9; 32]),
    }
}

fn messages() -> Vec<Message> {
    let geometry = Geometry { block_bytes: 512, blocks: 1 << 40 };
    let position = Position { point: 4, base: 3, next: 9, volume: 2, block: 77, digest: Digest([5; 32]) };
    vec![
        Message::Hello { least: 1, most: 4, array: u128::MAX },
        Message::Open { replication: 12 },
        Message::State { points: vec![(9, Digest([1; 32])), (3, Digest([2; 32]))], position: Some(position) },
        Message::State { points: vec![], position: None },
        Message::Begin {
            point: 4,
            taken: 1,
            base: 0,
            resume: true,
            volumes: vec![SourceVolume { id: DiskId(5), geometry }],
        },
        Message::Snapshots { names: vec!["db1.nightly".into(), String::new()] },
        Message::Ready,
        Message::Offer(offer()),
        Message::Want { number: 7, wanted: Bytes::from_static(&[5]) },
        Message::Blocks { number: 7, method: 0, packed: Bytes::from_static(&[0; 4096]) },
        Message::Applied { number: 7 },
        Message::End { digest: Digest([3; 32]) },
        Message::Published,
        Message::Mirror,
        Message::Change {
            number: 4,
            parts: vec![
                (1, Part::Data { block: 9, data: Bytes::from(vec![5; 2 * 4096]) }),
                (0, Part::Hole { block: 1, count: 1 << 40, mapped: true }),
                (0, Part::Hole { block: 7, count: 2, mapped: false }),
                (2, Part::Same { block: 3, count: 1 << 30, data: Bytes::from(vec![6; 4096]) }),
                (2, Part::Resized { blocks: 1 << 41 }),
            ],
        },
        Message::Durable { number: 4 },
        Message::Refused { reason: Reason::NoSpace, text: "no space left".into() },
    ]
}

#[test]
fn messages_are_decoded_as_they_were_encoded() {
    for message in messages() {
        let payload = Bytes::from(message.encode().concat());
        assert_eq!(Message::decode(message.kind(), payload.clone()), Ok(message.clone()));
        for len in 0..payload.len() {
            assert!(Message::decode(message.kind(), payload.slice(..len)).is_err(), "{len} of {message:?}");
        }
    }
    assert!(Message::decode(99, Bytes::new()).is_err());
}

#[test]
fn an_offer_has_runs_in_order_within_its_volume() {
    let geometry = Geometry { block_bytes: 512, blocks: 8 * 14 + 3 };
    offer().check(geometry, 3).unwrap();
    offer().check(geometry, 4).unwrap_err();
    offer().check(Geometry { blocks: 8 * 14, ..geometry }, 0).unwrap_err();
    let change = |change: fn(&mut Offer)| {
        let mut changed = offer();
        change(&mut changed);
        changed.check(geometry, 0)
    };
    change(|_| ()).unwrap();
    change(|offer| offer.extents.swap(0, 1)).unwrap_err();
    change(|offer| offer.extents[1].count = 0).unwrap_err();
    change(|offer| offer.extents[1].count = u64::MAX).unwrap_err();
    change(|offer| offer.extents.clear()).unwrap_err();
    change(|offer| offer.fingerprints.truncate(2)).unwrap_err();
}

#[test]
fn blocks_are_packed_where_that_makes_them_smaller() {
    let noise: Vec<u8> =
        (0..4096u64).map(|n| (n.wrapping_mul(n).wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
    let noise = Bytes::from(noise);
    for (block, smaller) in [(Bytes::from(vec![7; 4096]), true), (noise, false)] {
        let blocks = [block.clone(), block.slice(..512)];
        let (method, packed) = pack(&blocks);
        assert!(!smaller || packed.len() < 1000, "{}", packed.len());
        assert!(packed.len() <= 4608);
        assert_eq!(unpack(method, &packed, 4608), Ok(blocks.concat().into()));
        assert!(unpack(method, &packed, 4096).is_err());
        assert!(unpack(method, &packed, 8192).is_err());
        assert!(unpack(9, &packed, 4608).is_err());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_or_refused(kind in 0u16..17, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(message) = Message::decode(kind, bytes.into()) {
            let again = Message::decode(message.kind(), message.encode().concat().into());
            prop_assert_eq!(again, Ok(message));
        }
    }
}
