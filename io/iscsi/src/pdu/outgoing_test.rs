use super::*;

/// Removes all bytes, at most `portion` at a time.
fn drain(out: &mut Outgoing, portion: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !out.is_empty() {
        let all: Vec<u8> = out.slices().iter().flat_map(|slice| slice.to_vec()).collect();
        let count = portion.min(all.len());
        bytes.extend_from_slice(&all[..count]);
        out.advance(count);
    }
    assert_eq!(out.len(), 0);
    assert!(out.slices().is_empty());
    bytes
}

fn fill(out: &mut Outgoing) -> usize {
    let mut expected = 0;
    for (index, bytes) in [0, 5, 512, 513, 4096, 9000, 0, 1].into_iter().enumerate() {
        let mut data = Data::new();
        data.push(Bytes::from(vec![index as u8; bytes / 3]));
        data.push(Bytes::from(vec![index as u8; bytes - bytes / 3]));
        out.push(Header::new(0x25, index as u8), &data);
        expected += 48 + bytes.next_multiple_of(4);
    }
    expected
}

#[test]
fn bytes_do_not_depend_on_how_they_are_sent() {
    let mut whole = Outgoing::default();
    let expected = fill(&mut whole);
    assert_eq!(whole.len(), expected);
    let bytes = drain(&mut whole, usize::MAX);
    assert_eq!(bytes.len(), expected);
    for portion in [1, 47, 49, 1000] {
        let mut out = Outgoing::default();
        fill(&mut out);
        assert_eq!(drain(&mut out, portion), bytes, "{portion}");
    }
}

#[test]
fn short_responses_are_coalesced_and_long_data_is_shared() {
    let mut out = Outgoing::default();
    for _ in 0..32 {
        out.push(Header::new(0x21, 0x80), &Data::new());
    }
    assert_eq!(out.slices().len(), 1);
    let data = Bytes::from(vec![1; 4096]);
    out.push(Header::new(0x25, 0x80), &Data::from(data.clone()));
    let slices = out.slices();
    assert_eq!(slices.len(), 2);
    assert_eq!(slices[1].as_ptr(), data.as_ptr());
}
