//! Little-endian fields and variable-length integers, written without limits and read with checked access.

/// The bytes are not what the format says; `0` names the field that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct Malformed(pub &'static str);

/// Appends fields to a vector of bytes.
pub trait Put {
    /// One byte.
    fn u8(&mut self, value: u8);
    /// Four bytes.
    fn u32(&mut self, value: u32);
    /// Eight bytes.
    fn u64(&mut self, value: u64);
    /// Sixteen bytes.
    fn u128(&mut self, value: u128);
    /// Seven bits a byte, least significant first, the top bit says that more follow: 1 to 10 bytes.
    fn var(&mut self, value: u64);
    /// A signed number folded to 0, −1, 1, −2… and then as [`Put::var`].
    fn signed(&mut self, value: i64) {
        self.var(((value << 1) ^ (value >> 63)) as u64);
    }
    /// A length as [`Put::var`], then the bytes.
    fn blob(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn u128(&mut self, value: u128) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn var(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn blob(&mut self, bytes: &[u8]) {
        self.var(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// Takes fields from the front of some bytes. `what` names them in errors.
pub struct Take<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Take<'a> {
    /// Starts at the front of `bytes`.
    pub fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    /// True if every byte has been taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The error for these bytes.
    pub fn malformed(&self) -> Malformed {
        Malformed(self.what)
    }

    /// Fails with [`Malformed`] unless `fine`.
    pub fn check(&self, fine: bool) -> Result<(), Malformed> {
        if fine { Ok(()) } else { Err(self.malformed()) }
    }

    /// The next `len` bytes.
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Malformed(self.what))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed(self.what))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Four bytes that must have this value.
    pub fn expect(&mut self, value: u32) -> Result<(), Malformed> {
        let found = self.u32()?;
        self.check(found == value)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// Sixteen bytes.
    pub fn u128(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    /// See [`Put::var`]; longer than ten bytes or 64 bits is malformed.
    #[inline]
    pub fn var(&mut self) -> Result<u64, Malformed> {
        // Eight bytes at once if there are as many: most metadata is variable-length integers.
        let Some((word, _)) = self.rest.split_first_chunk::<8>() else { return self.long_var() };
        let word = u64::from_le_bytes(*word);
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.long_var();
        }
        let bits = ends.trailing_zeros() + 1;
        self.rest = &self.rest[bits as usize / 8..];
        Ok(close_up(word & (u64::MAX >> (64 - bits))))
    }

    /// The same, byte by byte.
    #[cold]
    fn long_var(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            self.check(bits << shift >> shift == bits)?;
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed())
    }

    /// See [`Put::signed`].
    #[inline]
    pub fn signed(&mut self) -> Result<i64, Malformed> {
        self.var().map(|folded| (folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// A [`Put::var`] that fits in 32 bits.
    pub fn var32(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.var()?).map_err(|_| self.malformed())
    }

    /// A number of things that take at least one byte each: never more than the bytes that are left.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.var()?).map_err(|_| self.malformed())?;
        self.check(count <= self.rest.len())?;
        Ok(count)
    }

    /// See [`Put::blob`].
    pub fn blob(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count()?;
        self.bytes(len)
    }
}

/// The low seven bits of each of eight bytes, without gaps.
#[inline]
fn close_up(bytes: u64) -> u64 {
    let sevens = bytes & 0x7f7f_7f7f_7f7f_7f7f;
    let pairs = (sevens & 0x007f_007f_007f_007f) | ((sevens & 0x7f00_7f00_7f00_7f00) >> 1);
    let fours = (pairs & 0x0000_3fff_0000_3fff) | ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    (fours & 0x0000_0000_0fff_ffff) | ((fours & 0x0fff_ffff_0000_0000) >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length, with many bytes and with none after it, is decoded as it is byte by byte.
    #[test]
    fn eight_bytes_at_once_are_the_same_number() {
        let numbers = (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, 0x9e37_79b9_7f4a_7c15 >> bit]);
        for number in numbers {
            for after in [0, 1, 8] {
                let mut bytes = Vec::new();
                bytes.var(number);
                bytes.resize(bytes.len() + after, 0xff);
                let (mut one, mut other) = (Take::new(&bytes, "number"), Take::new(&bytes, "number"));
                assert_eq!((one.var(), other.long_var()), (Ok(number), Ok(number)));
                assert_eq!((one.rest.len(), other.rest.len()), (after, after));
            }
        }
    }

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut bytes = Vec::new();
        for number in numbers {
            bytes.var(number);
            bytes.signed(number as i64);
        }
        let mut take = Take::new(&bytes, "numbers");
        for number in numbers {
            assert_eq!(take.var(), Ok(number));
            assert_eq!(take.signed(), Ok(number as i64));
        }
        assert!(take.is_empty());
        assert_eq!(take.u8(), Err(Malformed("numbers")));
    }

    #[test]
    fn a_number_beyond_64_bits_is_malformed() {
        assert!(Take::new(&[0xff; 11], "n").var().is_err());
        assert!(Take::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], "n").var().is_err());
    }

    #[test]
    fn a_count_never_exceeds_what_is_there() {
        let mut bytes = Vec::new();
        bytes.var(1 << 40);
        assert!(Take::new(&bytes, "list").count().is_err());
    }
}
