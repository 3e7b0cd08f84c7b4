use super::*;
use crate::message::{Attach, Command, Manage, Response};
use block::{FrameBlocks, Piece, Place, Recipe, Sequence};
use proptest::prelude::*;

const ARRAY: u128 = 7;

fn pair() -> (Channel, Channel) {
    let (mut one, mut other) = (Channel::new(1, ARRAY, 5), Channel::new(2, ARRAY, 6));
    carry(&mut one, &mut other);
    carry(&mut other, &mut one);
    for channel in [&mut one, &mut other] {
        assert!(matches!(channel.next_message(), Ok(Some(Received::Hello(_)))));
        assert_eq!(channel.version(), Some(1));
    }
    (one, other)
}

fn carry(from: &mut Channel, to: &mut Channel) {
    from.take_output().into_iter().for_each(|piece| to.receive(piece));
}

fn messages() -> Vec<Message> {
    let sequence = Sequence { front: u64::MAX, number: 8, lowest: 7 };
    let (cdb, data) = (Bytes::from_static(&[0x2a; 10]), Bytes::from(vec![5; 8192]));
    vec![
        Message::Refused,
        Message::Pulse { clock_ns: 12, power_on: 5 },
        Message::Attach(Attach {
            nexus: 3,
            port: 2,
            isid: [1, 2, 3, 4, 5, 6],
            resume: true,
            initiator: Bytes::from_static(b"iqn.2026-01.test:host"),
            power_on: 9,
        }),
        Message::Attached { incarnation: 7, notes: true },
        Message::Detach { nexus: 3 },
        Message::Command(Command {
            sequence,
            read_ns: 1,
            nexus: 3,
            attribute: 1,
            direction: 2,
            lun: 1 << 48,
            tag: 99,
            data_in_limit: 0,
            cdb,
            data: data.clone(),
            locates: false,
        }),
        Message::Command(Command {
            sequence,
            read_ns: 1,
            nexus: 3,
            attribute: 1,
            direction: 1,
            lun: 0,
            tag: 98,
            data_in_limit: 512,
            cdb: Bytes::from_static(&[0x28; 10]),
            data: Bytes::new(),
            locates: true,
        }),
        Message::Located(Recipe {
            opening: 77,
            pieces: vec![
                Piece::Zeros(8192),
                Piece::Bytes(data.slice(..4096)),
                Piece::Blocks(FrameBlocks {
                    frame: 5,
                    stored: 0b1110,
                    first: 1,
                    count: 3,
                    place: Place { segment: 9, offset: 10, len: 11, writing: (12, u64::MAX) },
                }),
                Piece::Bytes(data.slice(..512)),
            ],
        }),
        Message::Located(Recipe::default()),
        Message::Response(Response {
            status: 2,
            data_out_wanted: 512,
            sense: Bytes::from_static(&[0x70; 18]),
            data_in: data,
        }),
        Message::Manage(Manage { sequence, nexus: 3, function: 5, lun: 0, tag: 4 }),
        Message::Managed { response: 0 },
        Message::Ended,
        Message::Configuration(Bytes::from_static(b"{}")),
    ]
}

#[test]
fn messages_cross_a_link() {
    let (mut one, mut other) = pair();
    for (number, message) in (0..).zip(messages()) {
        one.send(3, number, &message);
        carry(&mut one, &mut other);
        assert_eq!(other.next_message(), Ok(Some(Received::Message { domain: 3, number, message })));
    }
    assert_eq!(other.next_message(), Ok(None));
}

#[test]
fn bytes_arrive_in_any_portions() {
    for (portion, taken_after) in (1..300).flat_map(|portion| [1, 3].map(|portions| (portion, portions))) {
        let (mut one, mut other) = pair();
        messages().iter().for_each(|message| one.send(0, 1, message));
        let stream = one.take_output().concat();
        let mut found = Vec::new();
        let portions: Vec<&[u8]> = stream.chunks(portion).collect();
        for some in portions.chunks(taken_after) {
            some.iter().for_each(|portion| other.receive(Bytes::copy_from_slice(portion)));
            while let Some(Received::Message { message, .. }) = other.next_message().unwrap() {
                found.push(message);
            }
        }
        assert_eq!(found, messages(), "portions of {portion} bytes");
    }
}

#[test]
fn an_unknown_kind_is_refused_alone() {
    let (mut one, mut other) = pair();
    one.send(2, 41, &Message::Unknown { kind: 900 });
    one.send(2, 42, &Message::Ended);
    carry(&mut one, &mut other);
    let next = Received::Message { domain: 2, number: 42, message: Message::Ended };
    assert_eq!(other.next_message(), Ok(Some(next)));
    carry(&mut other, &mut one);
    let refused = Received::Message { domain: 2, number: 41, message: Message::Refused };
    assert_eq!(one.next_message(), Ok(Some(refused)));
}

#[test]
fn both_ends_have_a_version_and_the_array_in_common() {
    let hello = |oldest, newest, array| Message::Hello(Hello { oldest, newest, member: 2, array, joined: 1 });
    let receive = |message: &Message| {
        let (mut channel, payload) = (Channel::new(1, ARRAY, 5), message.encode());
        channel.receive(Bytes::copy_from_slice(&frame::header(message.kind(), 0, 0, &payload)));
        payload.into_iter().for_each(|piece| channel.receive(piece));
        let first = channel.next_message();
        assert!(first.is_ok() || channel.next_message() == first, "the end is final");
        first.map(|_| channel.version())
    };
    assert_eq!(receive(&hello(1, 9, ARRAY)), Ok(Some(1)));
    let newer = receive(&hello(8, 9, ARRAY)).unwrap_err().to_string();
    assert!(newer.contains("versions 8 to 9") && newer.contains("update"), "{newer}");
    assert_eq!(receive(&hello(1, 1, 8)), Err(Error::OtherArray(8)));
    assert_eq!(receive(&Message::Ended), Err(Error::Malformed("a message before hello")));
}

/// A peer that has not sent its hello can't make this end reserve memory.
#[test]
fn nothing_long_is_taken_before_hello() {
    let mut channel = Channel::new(1, ARRAY, 5);
    let header = frame::header(1, 0, 0, &[vec![0; MAX_HELLO_BYTES + 1].into()]);
    channel.receive(Bytes::copy_from_slice(&header));
    assert_eq!(channel.next_message(), Err(Error::Malformed("a frame that is longer than allowed")));
    let mut channel = Channel::new(1, ARRAY, 5);
    channel.receive(Bytes::from_static(b"GET"));
    assert_eq!(channel.next_message(), Err(Error::Malformed("bytes that begin no frame")));
}

proptest! {
    #[test]
    fn a_changed_bit_is_noticed(at in any::<proptest::sample::Index>(), bit in 0u8..8) {
        let (mut one, mut other) = pair();
        let sent = messages();
        sent.iter().for_each(|message| one.send(0, 1, message));
        let mut stream = one.take_output().concat();
        let at = at.index(stream.len());
        stream[at] ^= 1 << bit;
        other.receive(stream.into());
        let mut found = 0;
        // Messages before the change are intact.
        while let Ok(Some(Received::Message { message, .. })) = other.next_message() {
            prop_assert_eq!(&message, &sent[found]);
            found += 1;
        }
        prop_assert!(found < sent.len());
        prop_assert!(other.next_message().is_err());
    }
}
