//! Diffie-Hellman groups of DH-HMAC-CHAP (NVM Express Base 2.0 figure 448): the groups of RFC 7919 up to 4096 bits.
//!
//! Exponents are short, as RFC 7919 clause 5.2 allows for these groups, so that an exchange takes a shard a few milliseconds.
//! The groups of 6144 and 8192 bits would take tens of them, which others could make us spend, and are not offered.

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Encoding, Odd, U2048, U3072, U4096, Uint};
use std::sync::LazyLock;
use zeroize::Zeroizing;

/// A group. Its discriminant is its identifier in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Group {
    /// No Diffie-Hellman exchange: a response depends on the secret and the challenge alone.
    Null = 0,
    Ffdhe2048 = 1,
    Ffdhe3072 = 2,
    Ffdhe4096 = 3,
}

/// Bytes of a private exponent: 384 bits, beyond the 325 that RFC 7919 asks of ffdhe4096.
pub(crate) const EXPONENT_BYTES: usize = 48;
const EXPONENT_BITS: u32 = 8 * EXPONENT_BYTES as u32;

/// A private exponent. It is used once.
pub(crate) type Exponent = Zeroizing<[u8; EXPONENT_BYTES]>;

impl Group {
    /// All of them, the preferred one first: that of 3072 bits is as strong as a key of 128 bits.
    pub(crate) const PREFERRED: [Group; 4] =
        [Group::Ffdhe3072, Group::Ffdhe4096, Group::Ffdhe2048, Group::Null];

    /// Bytes of a public value and of a shared secret.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 256,
            Group::Ffdhe3072 => 384,
            Group::Ffdhe4096 => 512,
        }
    }

    /// The public value of an exponent; empty without an exchange.
    pub(crate) fn public(self, exponent: &Exponent) -> Vec<u8> {
        match self {
            Group::Null => Vec::new(),
            Group::Ffdhe2048 => power(&FFDHE2048, &U2048::from(2u8), exponent),
            Group::Ffdhe3072 => power(&FFDHE3072, &U3072::from(2u8), exponent),
            Group::Ffdhe4096 => power(&FFDHE4096, &U4096::from(2u8), exponent),
        }
    }

    /// The shared secret with the peer that has this public value; `None` if that is none (RFC 7919 clause 5.1).
    pub(crate) fn shared(self, exponent: &Exponent, public: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if public.len() != self.bytes() {
            return None;
        }
        let secret = match self {
            Group::Null => Some(Vec::new()),
            Group::Ffdhe2048 => power_of(&FFDHE2048, public, exponent),
            Group::Ffdhe3072 => power_of(&FFDHE3072, public, exponent),
            Group::Ffdhe4096 => power_of(&FFDHE4096, public, exponent),
        };
        secret.map(Zeroizing::new)
    }
}

/// `base` to the power of the exponent, as long as the prime.
fn power<const N: usize>(group: &FixedMontyParams<N>, base: &Uint<N>, exponent: &Exponent) -> Vec<u8>
where
    Uint<N>: Encoding,
{
    let exponent = crypto_bigint::U384::from_be_slice(&**exponent);
    let power = FixedMontyForm::new(base, group).pow_bounded_exp(&exponent, EXPONENT_BITS);
    Encoding::to_be_bytes(&power.retrieve()).as_ref().to_vec()
}

/// The same of a public value, which has to be between 2 and the prime less 2: any other one gives the secret away.
fn power_of<const N: usize>(
    group: &FixedMontyParams<N>,
    public: &[u8],
    exponent: &Exponent,
) -> Option<Vec<u8>>
where
    Uint<N>: Encoding,
{
    let base = Uint::<N>::from_be_slice(public);
    let last = group.modulus().as_ref().wrapping_sub(&Uint::ONE);
    (base > Uint::ONE && base < last).then(|| power(group, &base, exponent))
}

fn group<const N: usize>(prime: &str) -> FixedMontyParams<N> {
    FixedMontyParams::new_vartime(Odd::<Uint<N>>::from_be_hex(prime))
}

static FFDHE2048: LazyLock<FixedMontyParams<{ U2048::LIMBS }>> = LazyLock::new(|| group(PRIME_2048));
static FFDHE3072: LazyLock<FixedMontyParams<{ U3072::LIMBS }>> = LazyLock::new(|| group(PRIME_3072));
static FFDHE4096: LazyLock<FixedMontyParams<{ U4096::LIMBS }>> = LazyLock::new(|| group(PRIME_4096));

/// The primes (RFC 7919 appendix A).
const PRIME_2048: &str = "\
    FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695A9E13641146433FBCC939DCE249B3EF9\
    7D2FE363630C75D8F681B202AEC4617AD3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3B557135E7F57C935\
    984F0C70E0E68B77E2A689DAF3EFE8721DF158A136ADE73530ACCA4F483A797ABC0AB182B324FB61D108A94BB2C8E3FB\
    B96ADAB760D7F4681D4F42A3DE394DF4AE56EDE76372BB190B07A7C8EE0A6D709E02FCE1CDF7E2ECC03404CD28342F61\
    9172FE9CE98583FF8E4F1232EEF28183C3FE3B1B4C6FAD733BB5FCBC2EC22005C58EF1837D1683B2C6F34A26C1B2EFFA\
    886B423861285C97FFFFFFFFFFFFFFFF";
const PRIME_3072: &str = "\
    FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695A9E13641146433FBCC939DCE249B3EF9\
    7D2FE363630C75D8F681B202AEC4617AD3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3B557135E7F57C935\
    984F0C70E0E68B77E2A689DAF3EFE8721DF158A136ADE73530ACCA4F483A797ABC0AB182B324FB61D108A94BB2C8E3FB\
    B96ADAB760D7F4681D4F42A3DE394DF4AE56EDE76372BB190B07A7C8EE0A6D709E02FCE1CDF7E2ECC03404CD28342F61\
    9172FE9CE98583FF8E4F1232EEF28183C3FE3B1B4C6FAD733BB5FCBC2EC22005C58EF1837D1683B2C6F34A26C1B2EFFA\
    886B4238611FCFDCDE355B3B6519035BBC34F4DEF99C023861B46FC9D6E6C9077AD91D2691F7F7EE598CB0FAC186D91C\
    AEFE130985139270B4130C93BC437944F4FD4452E2D74DD364F2E21E71F54BFF5CAE82AB9C9DF69EE86D2BC522363A0D\
    ABC521979B0DEADA1DBF9A42D5C4484E0ABCD06BFA53DDEF3C1B20EE3FD59D7C25E41D2B66C62E37FFFFFFFFFFFFFFFF";
const PRIME_4096: &str = "\
    FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695A9E13641146433FBCC939DCE249B3EF9\
    7D2FE363630C75D8F681B202AEC4617AD3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3B557135E7F57C935\
    984F0C70E0E68B77E2A689DAF3EFE8721DF158A136ADE73530ACCA4F483A797ABC0AB182B324FB61D108A94BB2C8E3FB\
    B96ADAB760D7F4681D4F42A3DE394DF4AE56EDE76372BB190B07A7C8EE0A6D709E02FCE1CDF7E2ECC03404CD28342F61\
    9172FE9CE98583FF8E4F1232EEF28183C3FE3B1B4C6FAD733BB5FCBC2EC22005C58EF1837D1683B2C6F34A26C1B2EFFA\
    886B4238611FCFDCDE355B3B6519035BBC34F4DEF99C023861B46FC9D6E6C9077AD91D2691F7F7EE598CB0FAC186D91C\
    AEFE130985139270B4130C93BC437944F4FD4452E2D74DD364F2E21E71F54BFF5CAE82AB9C9DF69EE86D2BC522363A0D\
    ABC521979B0DEADA1DBF9A42D5C4484E0ABCD06BFA53DDEF3C1B20EE3FD59D7C25E41D2B669E1EF16E6F52C3164DF4FB\
    7930E9E4E58857B6AC7D5F42D69F6D187763CF1D5503400487F55BA57E31CC7A7135C886EFB4318AED6A1E012D9E6832\
    A907600A918130C46DC778F971AD0038092999A333CB8B7A1A1DB93D7140003C2A4ECEA9F98D0ACC0A8291CDCEC97DCF\
    8EC9B55A7F88A46B4DB5A851F44182E1C68A007E5E655F6AFFFFFFFFFFFFFFFF";
