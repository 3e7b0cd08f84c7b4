use super::*;

/// Bytes that look random.
fn column(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn stripe(width: usize, len: usize) -> (Vec<Vec<u8>>, Vec<u8>, Vec<u8>) {
    let data: Vec<_> = (0..width).map(|index| column(index as u64 + 1, len)).collect();
    let (mut p, mut q) = (vec![0; len], vec![0; len]);
    let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    compute(&slices, &mut p, Some(&mut q));
    (data, p, q)
}

#[test]
fn every_form_agrees_with_the_plain_one() {
    for (width, len) in [(1, 64), (2, 4096), (6, 4096), (14, 1000), (22, 333), (22, 4096), (3, 5)] {
        let data: Vec<_> = (0..width).map(|index| column(index as u64 + 9, len)).collect();
        let slices: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let (mut p, mut q) = (vec![1; len], vec![2; len]);
        compute_plain(&slices, &mut p, &mut q, 0);
        // By the definition, without Horner's rule.
        let by_powers = |at: usize| {
            data.iter().enumerate().fold(0, |sum, (i, column)| sum ^ multiply(power(i), column[at]))
        };
        assert!((0..len).all(|at| q[at] == by_powers(at)));
        let mut only_p = vec![0; len];
        compute(&slices, &mut only_p, None);
        assert_eq!(only_p, p);
        #[cfg(target_arch = "x86_64")]
        for profile in x86::all() {
            let (mut other_p, mut other_q) = (vec![7; len], vec![7; len]);
            profile(&slices, &mut other_p, &mut other_q);
            assert!(other_p == p && other_q == q, "{width} columns of {len} bytes");
        }
    }
}

#[test]
fn any_two_columns_come_back() {
    for width in [1, 2, 3, 4, 6, 14, 22] {
        let (data, p, q) = stripe(width, 200);
        // Columns `width` and `width + 1` are P and Q.
        for a in 0..width + 2 {
            for b in a..width + 2 {
                let given: Vec<Option<&[u8]>> =
                    (0..width).map(|i| (i != a && i != b).then_some(&data[i][..])).collect();
                let known = Known {
                    data: &given,
                    p: (a != width && b != width).then_some(&p[..]),
                    q: (a != width + 1 && b != width + 1).then_some(&q[..]),
                };
                let found = reconstruct(&known, 200).expect("two may be missing");
                let lost = (0..width).filter(|i| *i == a || *i == b);
                assert!(lost.eq((0..width).filter(|i| given[*i].is_none())));
                let expected: Vec<&Vec<u8>> =
                    (0..width).filter(|i| given[*i].is_none()).map(|i| &data[i]).collect();
                assert!(found.iter().eq(expected), "{a} and {b} of {width}");
            }
        }
    }
}

#[test]
fn three_missing_columns_are_too_many() {
    let (data, p, q) = stripe(4, 32);
    let given = [Some(&data[0][..]), None, None, None];
    assert!(reconstruct(&Known { data: &given, p: Some(&p), q: Some(&q) }, 32).is_none());
    let given = [Some(&data[0][..]), None, None, Some(&data[3][..])];
    assert!(reconstruct(&Known { data: &given, p: Some(&p), q: None }, 32).is_none());
}

#[test]
fn every_element_but_zero_has_an_inverse() {
    assert!((1..=255).all(|byte| multiply(byte, inverse(byte)) == 1));
}
