//! Parity with the vector units of x86-64: GFNI or AVX2, whichever the processor has.

use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU8, Ordering};

/// The variant that [`compute`] uses: 0 before it was detected.
static LEVEL: AtomicU8 = AtomicU8::new(0);
const NONE: u8 = 1;
const AVX2: u8 = 2;
const GFNI: u8 = 3;

fn level() -> u8 {
    match LEVEL.load(Ordering::Relaxed) {
        0 => {
            let gfni = is_x86_feature_detected!("gfni")
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw");
            let level = match is_x86_feature_detected!("avx2") {
                true if gfni => GFNI,
                true => AVX2,
                false => NONE,
            };
            LEVEL.store(level, Ordering::Relaxed);
            level
        }
        level => level,
    }
}

/// Computes both parities; false if the processor has no suitable instructions.
pub fn compute(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) -> bool {
    match level() {
        // SAFETY: the processor has been asked, and the caller has compared the lengths.
        GFNI => unsafe { compute_gfni(data, p, q) },
        // SAFETY: as above.
        AVX2 => unsafe { compute_avx2(data, p, q) },
        _ => return false,
    }
    true
}

/// A variant of computing both parities.
#[cfg(test)]
type Compute = fn(&[&[u8]], &mut [u8], &mut [u8]);

/// Every variant that this processor supports, for the tests that compare them.
#[cfg(test)]
pub fn all() -> Vec<Compute> {
    let mut all: Vec<Compute> = Vec::new();
    if level() >= AVX2 {
        // SAFETY: the processor has been asked.
        all.push(|data, p, q| unsafe { compute_avx2(data, p, q) });
    }
    if level() >= GFNI {
        // SAFETY: the processor has been asked.
        all.push(|data, p, q| unsafe { compute_gfni(data, p, q) });
    }
    all
}

/// # Safety
/// The processor has AVX2; all columns are as long as `p` and `q`.
#[target_feature(enable = "avx2")]
unsafe fn compute_avx2(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    const STEP: usize = 64;
    let whole = p.len() / STEP * STEP;
    let polynomial = _mm256_set1_epi8(0x1d);
    let zero = _mm256_setzero_si256();
    let double = |value: __m256i| {
        let carry = _mm256_and_si256(_mm256_cmpgt_epi8(zero, value), polynomial);
        _mm256_xor_si256(_mm256_add_epi8(value, value), carry)
    };
    for at in (0..whole).step_by(STEP) {
        let (mut p0, mut p1, mut q0, mut q1) = (zero, zero, zero, zero);
        for column in data.iter().rev() {
            // SAFETY: `at + 64` is within every column.
            let (d0, d1) = unsafe {
                let from = column.as_ptr().add(at);
                (_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast()))
            };
            (p0, p1) = (_mm256_xor_si256(p0, d0), _mm256_xor_si256(p1, d1));
            (q0, q1) = (_mm256_xor_si256(double(q0), d0), _mm256_xor_si256(double(q1), d1));
        }
        // SAFETY: `at + 64` is within both.
        unsafe {
            let (p, q) = (p.as_mut_ptr().add(at), q.as_mut_ptr().add(at));
            _mm256_storeu_si256(p.cast(), p0);
            _mm256_storeu_si256(p.add(32).cast(), p1);
            _mm256_storeu_si256(q.cast(), q0);
            _mm256_storeu_si256(q.add(32).cast(), q1);
        }
    }
    super::compute_plain(data, p, q, whole);
}

/// Doubling in this field as a matrix over bits, as `GF2P8AFFINEQB` takes it: bit `i` of the product is the parity of
/// byte `7 - i` of the matrix and the operand. The instruction's own multiplication is in another field.
const DOUBLE: i64 = {
    let mut matrix = 0u64;
    let mut bit = 0;
    while bit < 8 {
        let mut row = 0u64;
        let mut from = 0;
        while from < 8 {
            if super::double(1 << from) >> bit & 1 == 1 {
                row |= 1 << from;
            }
            from += 1;
        }
        matrix |= row << (8 * (7 - bit));
        bit += 1;
    }
    matrix as i64
};

/// # Safety
/// The processor has GFNI and AVX-512 F and BW; all columns are as long as `p` and `q`.
#[target_feature(enable = "gfni,avx512f,avx512bw")]
unsafe fn compute_gfni(data: &[&[u8]], p: &mut [u8], q: &mut [u8]) {
    const STEP: usize = 128;
    let whole = p.len() / STEP * STEP;
    let matrix = _mm512_set1_epi64(DOUBLE);
    let zero = _mm512_setzero_si512();
    for at in (0..whole).step_by(STEP) {
        let (mut p0, mut p1, mut q0, mut q1) = (zero, zero, zero, zero);
        for column in data.iter().rev() {
            // SAFETY: `at + 128` is within every column.
            let (d0, d1) = unsafe {
                let from = column.as_ptr().add(at);
                (_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(64).cast()))
            };
            (p0, p1) = (_mm512_xor_si512(p0, d0), _mm512_xor_si512(p1, d1));
            q0 = _mm512_xor_si512(_mm512_gf2p8affine_epi64_epi8::<0>(q0, matrix), d0);
            q1 = _mm512_xor_si512(_mm512_gf2p8affine_epi64_epi8::<0>(q1, matrix), d1);
        }
        // SAFETY: `at + 128` is within both.
        unsafe {
            let (p, q) = (p.as_mut_ptr().add(at), q.as_mut_ptr().add(at));
            _mm512_storeu_si512(p.cast(), p0);
            _mm512_storeu_si512(p.add(64).cast(), p1);
            _mm512_storeu_si512(q.cast(), q0);
            _mm512_storeu_si512(q.add(64).cast(), q1);
        }
    }
    super::compute_plain(data, p, q, whole);
}

/// Adds a multiple, given by the products of low and high halves of a byte; the number of bytes done.
pub fn add_multiple(sum: &mut [u8], column: &[u8], low: &[u8; 16], high: &[u8; 16]) -> usize {
    // SAFETY: the processor has been asked.
    if level() >= AVX2 { unsafe { add_multiple_avx2(sum, column, low, high) } } else { 0 }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn add_multiple_avx2(sum: &mut [u8], column: &[u8], low: &[u8; 16], high: &[u8; 16]) -> usize {
    let whole = sum.len().min(column.len()) / 32 * 32;
    // SAFETY: the tables have 16 bytes.
    let (low, high) = unsafe {
        let twice = |table: &[u8; 16]| _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
        (twice(low), twice(high))
    };
    let half = _mm256_set1_epi8(15);
    for at in (0..whole).step_by(32) {
        // SAFETY: `at + 32` is within both slices.
        unsafe {
            let value = _mm256_loadu_si256(column.as_ptr().add(at).cast());
            let to = sum.as_mut_ptr().add(at).cast::<__m256i>();
            let lower = _mm256_shuffle_epi8(low, _mm256_and_si256(value, half));
            let upper = _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi64::<4>(value), half));
            let product = _mm256_xor_si256(lower, upper);
            _mm256_storeu_si256(to, _mm256_xor_si256(_mm256_loadu_si256(to), product));
        }
    }
    whole
}
