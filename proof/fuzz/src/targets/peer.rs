//! Arbitrary bytes on the link between controllers, as they come or as payloads of well-formed frames; and in what controllers
//! read from the store: the cluster's map, and the commands that took effect.
//!
//! The first byte chooses: bit 0 skips hello, bit 1 makes frames, bits 2 to 7 the kind; the rest is the stream.

use block::NotedCommands;
use bytes::Bytes;
use peer::message::Message;
use peer::{Channel, Received, frame};

const ARRAY: u128 = 1;

/// Takes one input.
pub fn run(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let (mut channel, mut other) = (Channel::new(1, ARRAY, 1), Channel::new(2, ARRAY, 2));
    if choice & 1 == 0 {
        other.take_output().into_iter().for_each(|piece| channel.receive(piece));
        assert!(matches!(channel.next_message(), Ok(Some(Received::Hello(_)))), "a well-formed hello");
    }
    let payload = Bytes::copy_from_slice(rest);
    if choice & 2 != 0 {
        let header = frame::header(u16::from(choice >> 2), 0, 1, std::slice::from_ref(&payload));
        channel.receive(Bytes::copy_from_slice(&header));
    }
    for portion in rest.chunks(1 + usize::from(choice >> 2)) {
        channel.receive(Bytes::copy_from_slice(portion));
        while let Ok(Some(received)) = channel.next_message() {
            if let Received::Message { message, .. } = received {
                // What was understood is sent in the same way.
                let again = Message::decode(message.kind(), message.encode().concat().into());
                assert_eq!(again, Ok(message));
            }
        }
    }
    _ = channel.take_output();
    if let Some(done) = NotedCommands::decode(rest) {
        assert_eq!(NotedCommands::decode(&done.encode()), Some(done));
    }
    _ = cluster::Map::decode(&map(rest));
}

/// A cluster's map of this text, with the checksum that it has to have.
fn map(json: &[u8]) -> Vec<u8> {
    let format = 1_u32.to_le_bytes();
    let sum = transport::digest(&[&format[..], json].concat());
    [b"ASHC", &format[..], &sum, json].concat()
}
