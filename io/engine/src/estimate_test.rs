use super::*;

fn noise(seed: u64, blocks: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..blocks * BLOCK).map(|_| next()).collect()
}

fn one(estimator: &Estimator, dedup: bool, compression: Compression) -> Estimate {
    let wanted = Policy { dedup, compression, verify: false };
    estimator.estimates().find(|estimate| estimate.policy == wanted).expect("it was compared")
}

#[test]
fn zeros_copies_and_text_are_told_apart() {
    let mut estimator = Estimator::new(&COMPARED_POLICIES, 1 << 20);
    let text: Vec<u8> = (0..16 * BLOCK).map(|n| b"some words, "[n * 7 / 5 % 12] + (n / 4096) as u8).collect();
    estimator.feed(1, 0, &noise(1, 16));
    estimator.feed(1, 100, &vec![0; 8 * BLOCK]);
    estimator.feed(1, 200, &text);
    // The same again, on another volume and at another place; and a last block that is not whole.
    estimator.feed(2, 5, &noise(1, 16));
    estimator.feed(2, 90, &[7; 100]);
    let block = BLOCK as u64;
    assert_eq!((estimator.bytes(), estimator.zeros()), (57 * block, 8 * block));
    let off = one(&estimator, true, Compression::Off);
    assert_eq!(off.unique, 33 * block);
    assert!(off.stored > off.unique && off.stored < off.unique + 33 * 64);
    let fast = one(&estimator, true, Compression::Fast);
    assert_eq!(fast.unique, 33 * block);
    assert!(fast.stored < off.stored - 14 * block, "{fast:?}");
    assert!(one(&estimator, true, Compression::High).stored < off.stored);
    let alone = one(&estimator, false, Compression::Fast);
    assert_eq!(alone.unique, 49 * block);
    assert!(alone.stored > fast.stored + 15 * block);
}

#[test]
fn nothing_takes_nothing() {
    let mut estimator = Estimator::new(&COMPARED_POLICIES, 1 << 20);
    estimator.feed(1, 0, &[]);
    assert_eq!((estimator.bytes(), estimator.zeros()), (0, 0));
    assert!(estimator.estimates().all(|estimate| (estimate.unique, estimate.stored) == (0, 0)));
}
