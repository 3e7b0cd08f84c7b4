//! Dual parity (RAID-6) over the columns of a stripe, in GF(2^8) with the polynomial 0x11d.
//!
//! `P = d0 + d1 + …` and `Q = d0 + 2·d1 + 4·d2 + …`: any two columns can be computed from the others. One function for
//! each direction; processor features are detected at run time, and tests compare every variant with the plain one.
//! Reconstruction is rare: it needs only multiplication by a constant.

#[cfg(target_arch = "x86_64")]
mod x86;

/// Maximum number of data columns: 2^i is different for each of them.
pub const MAX_DATA_COLUMNS: usize = 255;

/// Computes `P`, and `Q` where it is wanted, of data columns of equal length.
///
/// # Panics
/// When the lengths differ, or there are no columns.
pub fn compute(data: &[&[u8]], p: &mut [u8], q: Option<&mut [u8]>) {
    assert!(
        !data.is_empty()
            && data.len() <= MAX_DATA_COLUMNS
            && data.iter().all(|column| column.len() == p.len())
    );
    let Some(q) = q else {
        p.copy_from_slice(data[0]);
        return data[1..].iter().for_each(|column| add(p, column));
    };
    assert_eq!(p.len(), q.len());
    #[cfg(target_arch = "x86_64")]
    if x86::compute(data, p, q) {
        return;
    }
    compute_plain(data, p, q, 0);
}

/// The definition, for bytes from `from` on, by Horner's rule.
fn compute_plain(data: &[&[u8]], p: &mut [u8], q: &mut [u8], from: usize) {
    for at in from..p.len() {
        let (mut sum, mut weighted) = (0, 0);
        for column in data.iter().rev() {
            sum ^= column[at];
            weighted = double(weighted) ^ column[at];
        }
        (p[at], q[at]) = (sum, weighted);
    }
}

/// A stripe to reconstruct: every data column or `None`, and the parities.
pub struct Known<'a> {
    /// Data columns in order.
    pub data: &'a [Option<&'a [u8]>],
    /// P, if it is known.
    pub p: Option<&'a [u8]>,
    /// Q, if it is known.
    pub q: Option<&'a [u8]>,
}

/// Reconstructs the missing data columns, in order, each of `len` bytes. `None` if too much is missing.
pub fn reconstruct(known: &Known<'_>, len: usize) -> Option<Vec<Vec<u8>>> {
    let missing: Vec<usize> = (0..known.data.len()).filter(|index| known.data[*index].is_none()).collect();
    let present = || known.data.iter().enumerate().filter_map(|(index, column)| Some((index, (*column)?)));
    let sum = |start: &[u8]| {
        let mut sum = start.to_vec();
        present().for_each(|(_, column)| add(&mut sum, column));
        sum
    };
    let weighted = |start: &[u8]| {
        let mut sum = start.to_vec();
        present().for_each(|(index, column)| add_multiple(&mut sum, column, power(index)));
        sum
    };
    debug_assert!(present().all(|(_, column)| column.len() == len));
    match (missing.as_slice(), known.p, known.q) {
        ([], ..) => Some(Vec::new()),
        ([_], Some(p), _) => Some(vec![sum(p)]),
        ([index], None, Some(q)) => {
            let mut column = vec![0; len];
            add_multiple(&mut column, &weighted(q), inverse(power(*index)));
            Some(vec![column])
        }
        // x + y = p', g^a·x + g^b·y = q': x = (q' + g^b·p') / (g^a + g^b).
        ([a, b], Some(p), Some(q)) => {
            let (mut y, mut mixed) = (sum(p), weighted(q));
            add_multiple(&mut mixed, &y, power(*b));
            let mut x = vec![0; len];
            add_multiple(&mut x, &mixed, inverse(power(*a) ^ power(*b)));
            add(&mut y, &x);
            Some(vec![x, y])
        }
        _ => None,
    }
}

/// `sum += column`.
fn add(sum: &mut [u8], column: &[u8]) {
    sum.iter_mut().zip(column).for_each(|(sum, byte)| *sum ^= byte);
}

/// `sum += factor · column`.
fn add_multiple(sum: &mut [u8], column: &[u8], factor: u8) {
    // The product of a byte is the sum of the products of its halves: two small tables.
    let low: [u8; 16] = std::array::from_fn(|half| multiply(half as u8, factor));
    let high: [u8; 16] = std::array::from_fn(|half| multiply((half as u8) << 4, factor));
    #[cfg(target_arch = "x86_64")]
    let done = x86::add_multiple(sum, column, &low, &high);
    #[cfg(not(target_arch = "x86_64"))]
    let done = 0;
    for (sum, byte) in sum.iter_mut().zip(column).skip(done) {
        *sum ^= low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)];
    }
}

const fn double(byte: u8) -> u8 {
    (byte << 1) ^ (if byte & 0x80 != 0 { 0x1d } else { 0 })
}

const fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        a = double(a);
        b >>= 1;
    }
    product
}

/// 2 to the power of `exponent`.
fn power(exponent: usize) -> u8 {
    (0..exponent % 255).fold(1, |value, _| double(value))
}

/// The element whose product with `byte`, which is not zero, is one: its 254th power.
fn inverse(byte: u8) -> u8 {
    debug_assert!(byte != 0);
    (0..253).fold(byte, |value, _| multiply(value, byte))
}

#[cfg(test)]
#[path = "parity_test.rs"]
mod tests;
