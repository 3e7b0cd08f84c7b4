use super::*;

fn body(pages: usize) -> Vec<u8> {
    (0..pages * ALIGN).map(|at| (at * 31 + at / ALIGN * 7) as u8).collect()
}

fn parities(stripe_set: StripeSet, pages: &[&[u8]]) -> Vec<u8> {
    // What was there before doesn't matter.
    let mut parities = vec![0xa5; PARITY_COLUMNS * stripe_set.height(pages.len() * ALIGN)];
    stripe_set.compute(pages, &mut parities);
    parities
}

fn columns(stripe_set: StripeSet, body: &[u8]) -> Vec<Vec<u8>> {
    let pages: Vec<&[u8]> = body.chunks(ALIGN).collect();
    let parities = parities(stripe_set, &pages);
    let data = (0..stripe_set.data()).map(|index| body[stripe_set.part(index, body.len())].to_vec());
    data.chain(parities.chunks(stripe_set.height(body.len())).map(<[u8]>::to_vec)).collect()
}

#[test]
fn any_two_columns_may_be_lost() {
    for (drives, pages) in [(4, 4), (4, 5), (5, 7), (8, 32), (8, 33), (24, 64)] {
        let stripe_set =
            StripeSet::choose((1 << drives) - 1, 3, pages * ALIGN, JournalPos(5)).expect("worth it");
        let body = body(pages);
        let all = columns(stripe_set, &body);
        let lengths: Vec<usize> =
            (0..stripe_set.width()).map(|index| stripe_set.len(index, body.len())).collect();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), lengths, "{drives} drives, {pages} pages");
        for first in 0..all.len() {
            for second in 0..all.len() {
                let mut left: Vec<Option<&Vec<u8>>> = all.iter().map(Some).collect();
                (left[first], left[second]) = (None, None);
                assert!(
                    stripe_set.join(&left, body.len()).as_ref() == Some(&body),
                    "{first} and {second} lost"
                );
            }
        }
        let mut left: Vec<Option<&Vec<u8>>> = all.iter().map(Some).collect();
        left[..3].fill(None);
        assert_eq!(stripe_set.join(&left, body.len()), None, "three are too many");
    }
}

#[test]
fn checksums_are_those_of_the_columns() {
    let (stripe_set, body) =
        (StripeSet::choose(0b1011_0110, 3, 13 * ALIGN, JournalPos(1)).expect("worth it"), body(13));
    let pages: Vec<&[u8]> = body.chunks(ALIGN).collect();
    let checksums = stripe_set.checksums(&pages, &parities(stripe_set, &pages));
    let expected: Vec<u32> = columns(stripe_set, &body).iter().map(|column| crc32c([&column[..]])).collect();
    assert_eq!(checksums[..stripe_set.width()], expected);
    assert!(checksums[stripe_set.width()..].iter().all(|check| *check == 0));
}

/// Fewest pages, requests counted: over eight drives 32 pages would be 48 and 8 requests, over six they are 48 and 6. Four
/// pages are 8 and 4 requests over four drives, 6 and 6 over six.
#[test]
fn as_many_drives_as_pay() {
    let all = |drives: u32| (1u64 << drives) - 1;
    let width = |drives, pages: usize| {
        StripeSet::choose(all(drives), 3, pages * ALIGN, JournalPos(0)).map(StripeSet::width)
    };
    assert_eq!((width(3, 100), width(4, 3), width(4, 4), width(4, 64)), (None, None, Some(4), Some(4)));
    assert_eq!(
        (width(8, 4), width(8, 14), width(8, 32), width(8, 1000)),
        (Some(6), Some(7), Some(6), Some(8))
    );
    assert_eq!(
        (width(40, 10_000), StripeSet::choose(all(8), 1, 64 * ALIGN, JournalPos(0))),
        (Some(24), None)
    );
}

#[test]
fn drives_take_turns() {
    let mut had = [[0; 6]; 9];
    for pos in 0..9 * 6 * 4 {
        let stripe_set = StripeSet::choose(0b1_1111_1111, 3, 8 * ALIGN, JournalPos(pos)).expect("worth it");
        assert_eq!(stripe_set.width(), 6);
        let order = stripe_set.order(JournalPos(pos));
        assert_eq!(order.iter().fold(0, |set, slot| set | 1 << slot), stripe_set.drives());
        order.iter().enumerate().for_each(|(column, slot)| had[*slot][column] += 1);
    }
    assert!(had.iter().flatten().all(|times| (8..=40).contains(times)), "{had:?}");
}

#[test]
fn lanes_from_media_that_nobody_would_write_are_refused() {
    let of = |set, pages: usize| StripeSet::from_media(set, pages * ALIGN).is_some();
    assert!(of(0b1111, 4) && of(0b1111, 5) && of(u64::MAX >> 40, 22) && of(0b1111, 2));
    assert!(!of(0b111, 4) && !of(u64::MAX, 100) && !of(0, 4) && !of(0b1111, 0));
    // Four columns of data, of which one would be empty.
    assert!(!of(0b11_1111, 6) && !of(0b11_1111, 5) && of(0b11_1111, 7));
    assert!(StripeSet::from_media(0b1111, 4097).is_none());
}
