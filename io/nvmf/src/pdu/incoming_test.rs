use super::*;
use crate::pdu::outgoing::Outgoing;
use crate::pdu::{MAX_H2C_DATA_BYTES, MAX_IN_CAPSULE_BYTES};
use bytes::BufMut;
use proptest::prelude::*;

/// A PDU as a host sends it.
fn pdu(kind: u8, header_bytes: usize, data: &[u8], digests: Digests) -> Vec<u8> {
    let mut out = vec![0; header_bytes];
    out[0] = kind;
    out[2] = header_bytes as u8;
    let mut at = header_bytes;
    if digests.header {
        out[1] |= HEADER_DIGEST;
        at += 4;
    }
    let mut length = at;
    if !data.is_empty() {
        out[3] = at as u8;
        length += data.len();
        if digests.data {
            out[1] |= DATA_DIGEST;
            length += 4;
        }
    }
    out[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    if digests.header {
        let digest = transport::digest(&out);
        out.extend_from_slice(&digest);
    }
    out.extend_from_slice(data);
    if digests.data && !data.is_empty() {
        out.extend_from_slice(&transport::digest(data));
    }
    out
}

/// Feeds `bytes` in portions and collects the PDUs.
fn receive(bytes: &[u8], portion: usize, digests: Digests) -> Result<Vec<Pdu>, Termination> {
    let mut incoming = Incoming::default();
    incoming.greeted(digests);
    let (mut rest, mut pdus) = (bytes, Vec::new());
    while !rest.is_empty() {
        let mut space = incoming.space();
        let count = portion.min(rest.len()).min(space.remaining_mut());
        assert_ne!(count, 0, "no room though every PDU was taken");
        space.put_slice(&rest[..count]);
        rest = &rest[count..];
        loop {
            if incoming.head()?.is_some() {
                incoming.accept(1);
            }
            match incoming.body() {
                Some(pdu) => pdus.push(pdu),
                None => break,
            }
        }
    }
    Ok(pdus)
}

const ALL_DIGESTS: [Digests; 4] = [
    Digests { header: false, data: false },
    Digests { header: true, data: false },
    Digests { header: false, data: true },
    Digests { header: true, data: true },
];

#[test]
fn pdus_are_the_same_in_every_portion() {
    let data: Vec<u8> = (0..100_000_u32).map(|index| index as u8).collect();
    for digests in ALL_DIGESTS {
        let mut stream = Vec::new();
        let lengths = [0, 512, 4096, 8192];
        lengths.iter().for_each(|length| {
            stream.extend(pdu(kind::CAPSULE_CMD, 72, &data[..*length], digests));
        });
        stream.extend(pdu(kind::H2C_DATA, 24, &data, digests));
        for portion in [1, 7, 71, 4096, 1 << 20] {
            let pdus = receive(&stream, portion, digests).unwrap();
            let got: Vec<usize> = pdus.iter().map(|pdu| pdu.data.len()).collect();
            assert_eq!(got, [0, 512, 4096, 8192, 100_000]);
            assert_eq!(pdus[4].data, data);
            assert!(pdus.iter().all(|pdu| !pdu.damaged && !pdu.skipped && pdu.charge == 1));
        }
    }
}

#[test]
fn damage_is_found() {
    let digests = Digests { header: true, data: true };
    let sound = pdu(kind::CAPSULE_CMD, 72, &[7; 512], digests);
    let mut header = sound.clone();
    header[20] ^= 1;
    let error = receive(&header, 4096, digests).unwrap_err();
    assert_eq!(error.error, FatalError::HeaderDigest);
    assert_eq!(error.information.to_le_bytes(), sound[72..76]);
    let mut data = sound;
    data[100] ^= 1;
    let pdus = receive(&data, 4096, digests).unwrap();
    assert!(pdus[0].damaged && pdus[0].data.is_empty());
}

/// Returns the termination for a header with a changed field.
#[test]
fn wrong_headers_are_terminated_with_the_offset_of_the_field() {
    let none = Digests::default();
    let sound = pdu(kind::CAPSULE_CMD, 72, &[7; 512], none);
    let wrong = |at: usize, value: u8| {
        let mut bytes = sound.clone();
        bytes[at] = value;
        let error = receive(&bytes, 4096, none).unwrap_err();
        (error.error, error.information)
    };
    assert_eq!(wrong(0, 0x77), (FatalError::InvalidHeaderField, 0), "type");
    assert_eq!(wrong(0, kind::IC_REQ), (FatalError::SequenceError, 0), "a second ICReq");
    assert_eq!(wrong(0, kind::R2T), (FatalError::InvalidHeaderField, 0), "only controllers send it");
    assert_eq!(wrong(1, HEADER_DIGEST), (FatalError::InvalidHeaderField, 1), "a digest that was not agreed");
    assert_eq!(wrong(1, DATA_DIGEST), (FatalError::InvalidHeaderField, 1));
    assert_eq!(wrong(1, 0x80), (FatalError::InvalidHeaderField, 1), "reserved");
    assert_eq!(wrong(2, 24), (FatalError::InvalidHeaderField, 2), "header length");
    assert_eq!(wrong(3, 80), (FatalError::InvalidHeaderField, 3), "data offset");
    assert_eq!(wrong(7, 1), (FatalError::InvalidHeaderField, 4), "16 MiB");
}

#[test]
fn lengths_beyond_the_limits_are_refused_with_the_header() {
    let none = Digests::default();
    for (kind, header, most) in
        [(kind::CAPSULE_CMD, 72, MAX_IN_CAPSULE_BYTES), (kind::H2C_DATA, 24, MAX_H2C_DATA_BYTES)]
    {
        assert_eq!(receive(&pdu(kind, header, &vec![0; most], none), 1 << 20, none).unwrap().len(), 1);
        let long = pdu(kind, header, &vec![0; most + 1], none);
        let error = receive(&long[..header], 4096, none).unwrap_err();
        let expected = match kind {
            kind::CAPSULE_CMD => (FatalError::InvalidHeaderField, 4),
            _ => (FatalError::LimitExceeded, 0),
        };
        assert_eq!((error.error, error.information), expected);
        assert_eq!(error.header, long[..header]);
    }
}

#[test]
fn responses_are_encoded_as_the_standard_lays_them_out() {
    let bytes = |out: &Outgoing| -> Vec<u8> { out.slices().iter().flat_map(|part| part.to_vec()).collect() };
    let mut out = Outgoing::default();
    out.initialize_response(Digests { header: true, data: false });
    let response = bytes(&out);
    assert_eq!(response[..16], [1, 0, 128, 0, 128, 0, 0, 0, 0, 0, 0, 1, 0, 0, 4, 0]);
    let mut out = Outgoing::default();
    out.greeted(Digests { header: true, data: true }, 16);
    out.data(0x1234, &block::Data::from(vec![9; 512]), true);
    let data = bytes(&out);
    // 24 bytes of header and 4 of digest, so that data aligned to 16 begin at 32.
    assert_eq!(data[..8], [7, 0x0F, 24, 32, 0x24, 0x02, 0, 0]);
    assert_eq!(data[8..20], [0x34, 0x12, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0]);
    assert_eq!(data.len(), 32 + 512 + 4);
    assert_eq!(data[24..28], transport::digest(&data[..24]));
    assert_eq!(data[32 + 512..], transport::digest(&[9; 512]));
    let mut out = Outgoing::default();
    out.greeted(Digests::default(), 4);
    out.ready_to_transfer(1, 2, 0x10000);
    assert_eq!(bytes(&out), [9, 0, 24, 0, 24, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
}

proptest! {
    /// Any bytes after a sound PDU: an error or nothing, in any portions the same.
    #[test]
    fn any_bytes_are_framed_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        start in 0..10_u8,
        header in any::<bool>(),
        data in any::<bool>(),
    ) {
        let digests = Digests { header, data };
        let mut stream = pdu(kind::CAPSULE_CMD, 72, &[1; 64], digests);
        stream.push(start);
        stream.extend(bytes);
        let describe = |result: Result<Vec<Pdu>, Termination>| {
            result.map(|pdus| pdus.iter().map(|pdu| pdu.data.clone()).collect::<Vec<_>>()).map_err(|it| it.error)
        };
        let (whole, single) = (receive(&stream, 1 << 20, digests), receive(&stream, 1, digests));
        prop_assert_eq!(describe(whole), describe(single));
    }
}
