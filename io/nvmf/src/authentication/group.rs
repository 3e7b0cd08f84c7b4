//! Diffie-Hellman groups of DH-HMAC-CHAP (NVM Express Base 2.0 figure 448): the groups of RFC 7919.
//!
//! Exponents are short, as RFC 7919 clause 5.2 allows for these groups, so an exchange takes a few milliseconds. With
//! 6144 and 8192 bits it takes 30 to 40 ms, and a host without the secret can cause that work, too. So a host gets
//! these groups only if it offers no smaller one, and shards do not do this work ([`crate::worker`]).

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Encoding, Odd, U448, U2048, U3072, U4096, U6144, U8192, Uint};
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
    Ffdhe6144 = 4,
    Ffdhe8192 = 5,
}

/// Bytes of a private exponent. Each group uses as many of the last bytes as it needs.
pub(crate) const EXPONENT_BYTES: usize = 56;
/// Bits of an exponent: RFC 7919 appendix A asks for 375 at least up to ffdhe6144, and for 400 of ffdhe8192.
const EXPONENT_BITS: u32 = 384;
const LONG_EXPONENT_BITS: u32 = 448;

/// A private exponent, for one use.
pub(crate) type Exponent = Zeroizing<[u8; EXPONENT_BYTES]>;

impl Group {
    /// All groups, the preferred one first: 3072 bits are as strong as a 128-bit key.
    pub(crate) const PREFERRED: [Group; 6] = [
        Group::Ffdhe3072,
        Group::Ffdhe4096,
        Group::Ffdhe2048,
        Group::Ffdhe6144,
        Group::Ffdhe8192,
        Group::Null,
    ];

    /// Bytes of a public value and of a shared secret.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Group::Null => 0,
            Group::Ffdhe2048 => 256,
            Group::Ffdhe3072 => 384,
            Group::Ffdhe4096 => 512,
            Group::Ffdhe6144 => 768,
            Group::Ffdhe8192 => 1024,
        }
    }

    /// The public value of an exponent; empty without an exchange.
    pub(crate) fn public(self, exponent: &Exponent) -> Vec<u8> {
        match self {
            Group::Null => Vec::new(),
            Group::Ffdhe2048 => power(&FFDHE2048, &U2048::from(2u8), exponent, EXPONENT_BITS),
            Group::Ffdhe3072 => power(&FFDHE3072, &U3072::from(2u8), exponent, EXPONENT_BITS),
            Group::Ffdhe4096 => power(&FFDHE4096, &U4096::from(2u8), exponent, EXPONENT_BITS),
            Group::Ffdhe6144 => power(&FFDHE6144, &U6144::from(2u8), exponent, EXPONENT_BITS),
            Group::Ffdhe8192 => power(&FFDHE8192, &U8192::from(2u8), exponent, LONG_EXPONENT_BITS),
        }
    }

    /// The shared secret with the peer that has this public value; `None` if the value is invalid (RFC 7919 clause
    /// 5.1).
    pub(crate) fn shared(self, exponent: &Exponent, public: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if public.len() != self.bytes() {
            return None;
        }
        let secret = match self {
            Group::Null => Some(Vec::new()),
            Group::Ffdhe2048 => power_of(&FFDHE2048, public, exponent, EXPONENT_BITS),
            Group::Ffdhe3072 => power_of(&FFDHE3072, public, exponent, EXPONENT_BITS),
            Group::Ffdhe4096 => power_of(&FFDHE4096, public, exponent, EXPONENT_BITS),
            Group::Ffdhe6144 => power_of(&FFDHE6144, public, exponent, EXPONENT_BITS),
            Group::Ffdhe8192 => power_of(&FFDHE8192, public, exponent, LONG_EXPONENT_BITS),
        };
        secret.map(Zeroizing::new)
    }
}

/// `base` to the power of the last bits of the exponent, as long as the prime.
fn power<const N: usize>(
    group: &FixedMontyParams<N>,
    base: &Uint<N>,
    exponent: &Exponent,
    bits: u32,
) -> Vec<u8>
where
    Uint<N>: Encoding,
{
    let exponent = U448::from_be_slice(&**exponent);
    let power = FixedMontyForm::new(base, group).pow_bounded_exp(&exponent, bits);
    Encoding::to_be_bytes(&power.retrieve()).as_ref().to_vec()
}

/// Power of a public value, which must be between 2 and the prime less 2: any other value reveals the secret.
fn power_of<const N: usize>(
    group: &FixedMontyParams<N>,
    public: &[u8],
    exponent: &Exponent,
    bits: u32,
) -> Option<Vec<u8>>
where
    Uint<N>: Encoding,
{
    let base = Uint::<N>::from_be_slice(public);
    let last = group.modulus().as_ref().wrapping_sub(&Uint::ONE);
    (base > Uint::ONE && base < last).then(|| power(group, &base, exponent, bits))
}

/// A group by the last digits of its prime.
fn group<const N: usize>(last: &str) -> FixedMontyParams<N> {
    let digits = Uint::<N>::BITS as usize / 4;
    let prime = format!("{}{last}", &PRIME_8192[..digits - last.len()]);
    FixedMontyParams::new_vartime(Odd::<Uint<N>>::from_be_hex(&prime))
}

static FFDHE2048: LazyLock<FixedMontyParams<{ U2048::LIMBS }>> =
    LazyLock::new(|| group("285C97FFFFFFFFFFFFFFFF"));
static FFDHE3072: LazyLock<FixedMontyParams<{ U3072::LIMBS }>> =
    LazyLock::new(|| group("C62E37FFFFFFFFFFFFFFFF"));
static FFDHE4096: LazyLock<FixedMontyParams<{ U4096::LIMBS }>> =
    LazyLock::new(|| group("655F6AFFFFFFFFFFFFFFFF"));
static FFDHE6144: LazyLock<FixedMontyParams<{ U6144::LIMBS }>> =
    LazyLock::new(|| group("D0E40E65FFFFFFFFFFFFFFFF"));
static FFDHE8192: LazyLock<FixedMontyParams<{ U8192::LIMBS }>> = LazyLock::new(|| group(""));

/// The longest prime (RFC 7919 appendix A). All primes begin with the digits of e and differ in their last digits.
const PRIME_8192: &str = "\
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
    8EC9B55A7F88A46B4DB5A851F44182E1C68A007E5E0DD9020BFD64B645036C7A4E677D2C38532A3A23BA4442CAF53EA6\
    3BB454329B7624C8917BDD64B1C0FD4CB38E8C334C701C3ACDAD0657FCCFEC719B1F5C3E4E46041F388147FB4CFDB477\
    A52471F7A9A96910B855322EDB6340D8A00EF092350511E30ABEC1FFF9E3A26E7FB29F8C183023C3587E38DA0077D9B4\
    763E4E4B94B2BBC194C6651E77CAF992EEAAC0232A281BF6B3A739C1226116820AE8DB5847A67CBEF9C9091B462D538C\
    D72B03746AE77F5E62292C311562A846505DC82DB854338AE49F5235C95B91178CCF2DD5CACEF403EC9D1810C6272B04\
    5B3B71F9DC6B80D63FDD4A8E9ADB1E6962A69526D43161C1A41D570D7938DAD4A40E329CCFF46AAA36AD004CF600C838\
    1E425A31D951AE64FDB23FCEC9509D43687FEB69EDD1CC5E0B8CC3BDF64B10EF86B63142A3AB8829555B2F747C932665\
    CB2C0F1CC01BD70229388839D2AF05E454504AC78B7582822846C0BA35C35F5C59160CC046FD8251541FC68C9C86B022\
    BB7099876A460E7451A8A93109703FEE1C217E6C3826E52C51AA691E0E423CFC99E9E31650C1217B624816CDAD9A95F9\
    D5B8019488D9C0A0A1FE3075A577E23183F81D4A3F2FA4571EFC8CE0BA8A4FE8B6855DFE72B0A66EDED2FBABFBE58A30\
    FAFABE1C5D71A87E2F741EF8C1FE86FEA6BBFDE530677F0D97D11D49F7A8443D0822E506A9F4614E011E2A94838FF88C\
    D68C8BB7C5C6424CFFFFFFFFFFFFFFFF";
