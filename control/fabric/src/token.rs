//! A join token: its parts, and its text.

use array::hex::{from_hex, hex};
use aws_lc_rs::digest;

/// What a token begins with.
const PREFIX: &str = "ashlar-join";
const SECRET_BYTES: usize = 16;

/// A token as operators copy it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What the new controller proves to know.
    pub secret: [u8; SECRET_BYTES],
    /// The fingerprint of the home's certificate.
    pub certificate: String,
    /// The array.
    pub array: u128,
    /// The number of the new controller.
    pub controller: u16,
    /// Where the home's link listens.
    pub address: String,
}

impl Token {
    /// Its text.
    pub fn text(&self) -> String {
        let Self { secret, certificate, array, controller, address } = self;
        format!("{PREFIX}.{}.{certificate}.{array:032x}.{controller}.{address}", hex(secret))
    }

    /// Reads a text.
    ///
    /// # Errors
    /// If it is none, or was cut.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "this is no join token: copy all that ashlar controller add has printed".to_owned();
        let mut parts = text.trim().splitn(6, '.');
        let mut part = || parts.next().filter(|part| !part.is_empty()).ok_or_else(wrong);
        if part()? != PREFIX {
            return Err(wrong());
        }
        let secret = from_hex(part()?).and_then(|bytes| bytes.try_into().ok()).ok_or_else(wrong)?;
        let certificate = part()?.to_owned();
        let array = u128::from_str_radix(part()?, 16).map_err(|_| wrong())?;
        let controller = part()?.parse().map_err(|_| wrong())?;
        let address = part()?.to_owned();
        Ok(Self { secret, certificate, array, controller, address })
    }

    /// By what the home finds it, without telling the secret.
    pub fn name(&self) -> String {
        hex(digest::digest(&digest::SHA256, &self.secret).as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written() {
        for address in ["192.0.2.1:8445", "[fd00::1]:8445", "store-1.example.net:8445"] {
            let token = Token {
                secret: [7; SECRET_BYTES],
                certificate: "ab".repeat(32),
                array: 9,
                controller: 2,
                address: address.into(),
            };
            assert_eq!(Token::parse(&format!(" {}\n", token.text())), Ok(token.clone()));
            assert!(!token.text().contains(&token.name()), "the name does not give the secret away");
            for cut in 1..token.text().len() - address.len() {
                assert!(Token::parse(&token.text()[..cut]).is_err(), "{cut}");
            }
        }
        for wrong in ["", "ashlar-join", "ashlar-join.zz.a.b.c.d", "ashlar-join.é.a.1.2.d"] {
            assert!(Token::parse(wrong).is_err(), "{wrong}");
        }
    }
}
