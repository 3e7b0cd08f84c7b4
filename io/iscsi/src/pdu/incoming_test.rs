use super::*;
use crate::pdu::outgoing::Outgoing;
use bytes::BufMut;
use scsi::Data;

fn wire(pdus: &[(Header, Vec<u8>)], digests: bool) -> Vec<u8> {
    let mut out = Outgoing::default();
    out.set_digests(digests, digests);
    pdus.iter().for_each(|(header, data)| out.push(*header, &Data::from(data.clone())));
    let mut bytes = Vec::new();
    while !out.is_empty() {
        let part: Vec<u8> = out.slices().iter().flat_map(|slice| slice.to_vec()).collect();
        out.advance(part.len());
        bytes.extend(part);
    }
    bytes
}

/// Feeds `bytes` in portions and collects the PDUs.
fn receive(bytes: &[u8], portion: usize, digests: bool) -> Result<Vec<Pdu>, FramingError> {
    let mut incoming = Incoming::new(1 << 20);
    incoming.set_digests(digests, digests);
    let (mut rest, mut pdus) = (bytes, Vec::new());
    while !rest.is_empty() {
        let mut space = incoming.space();
        assert!(space.has_remaining_mut(), "no room though every PDU was taken");
        let count = portion.min(rest.len()).min(space.remaining_mut());
        space.put_slice(&rest[..count]);
        rest = &rest[count..];
        while let Some(pdu) = incoming.next()? {
            pdus.push(pdu);
        }
    }
    Ok(pdus)
}

fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index % 251) as u8).collect()
}

#[test]
fn pdus_do_not_depend_on_how_the_stream_is_split() {
    let lengths = [0, 1, 3, 512, 4096, 13_000, 100_000, 155_000, 200_000, 0, 700];
    for digests in [false, true] {
        let pdus: Vec<_> = lengths
            .iter()
            .map(|bytes| (Header::new(1, 0x80).with_itt(*bytes as u32), data(*bytes)))
            .collect();
        let bytes = wire(&pdus, digests);
        for portion in [1, 7, 48, 1000, 4144, 65_536, 1 << 20] {
            let got = receive(&bytes, portion, digests).unwrap();
            assert_eq!(got.len(), pdus.len());
            for (pdu, length) in got.iter().zip(lengths) {
                assert!(!pdu.damaged);
                assert_eq!(pdu.header.itt(), length as u32);
                assert_eq!(pdu.data, data(length));
            }
        }
    }
}

#[test]
fn small_payloads_do_not_pin_large_buffers() {
    let bytes = wire(&[(Header::new(1, 0x80), data(512))], false);
    let pdus = receive(&bytes, 4096, false).unwrap();
    let vec: Vec<u8> = pdus[0].data.clone().into();
    assert!(vec.capacity() < 1024);
}

#[test]
fn a_flipped_bit_is_found() {
    let header = Header::new(1, 0x80);
    for length in [100, 50_000] {
        let bytes = wire(&[(header, data(length))], true);
        for at in 0..48 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            let result = receive(&bytes, 1 << 20, true);
            // With a longer AHS, the digest is expected at a later offset, so the header is not complete yet.
            assert!(at == 4 || matches!(result, Err(FramingError::HeaderDigest)), "{at}");
        }
        for at in [52, 80, bytes.len() - 1] {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x10;
            let pdus = receive(&bytes, 4096, true).unwrap();
            assert!(pdus[0].damaged && pdus[0].data.is_empty());
        }
    }
}

#[test]
fn excessive_lengths_are_refused_as_soon_as_the_header_arrives() {
    let mut header = Header::new(1, 0x80);
    header.set_data_bytes((1 << 20) + 1);
    assert_eq!(
        receive(&header.0, 48, false).unwrap_err(),
        FramingError::TooLong { got: 1_048_577, limit: 1 << 20 }
    );
    let mut header = Header::new(0, 0x80);
    header.0[4] = 1;
    assert_eq!(receive(&header.0, 48, false).unwrap_err(), FramingError::Segments(0));
}
