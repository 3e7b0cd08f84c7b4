//! Text data: `key=value` pairs, each ended by a NUL (RFC 7143 clause 6.1).

use bytes::Bytes;

/// Longest key name in bytes (6.1).
const MAX_KEY_BYTES: usize = 63;
/// Longest value in bytes: room for a challenge of 1024 bytes in hexadecimal.
const MAX_VALUE_BYTES: usize = 8 << 10;

/// Maximum number of pairs in one text, above the number of all standard keys. This many "NotUnderstood" responses fit
/// in the 8192 bytes that an initiator accepts in login.
const MAX_PAIRS: usize = 64;

/// Pairs in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pairs(Vec<(String, String)>);

/// Errors in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TextError {
    #[error("not UTF-8")]
    Encoding,
    #[error("an item that is not key=value")]
    Syntax,
    #[error("a key or value that is too long")]
    Length,
    #[error("a key that occurs twice")]
    Twice,
    #[error("too many keys")]
    Many,
}

impl Pairs {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Parses a complete text.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, TextError> {
        let text = std::str::from_utf8(text).map_err(|_| TextError::Encoding)?;
        let mut pairs = Self::new();
        for item in text.split('\0').filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').ok_or(TextError::Syntax)?;
            let is_key = |c: char| c.is_ascii_alphanumeric() || ".-+@_/[]:".contains(c);
            if key.is_empty() || !key.chars().all(is_key) {
                return Err(TextError::Syntax);
            }
            if key.len() > MAX_KEY_BYTES || value.len() > MAX_VALUE_BYTES {
                return Err(TextError::Length);
            }
            if pairs.get(key).is_some() {
                return Err(TextError::Twice);
            }
            if pairs.0.len() == MAX_PAIRS {
                return Err(TextError::Many);
            }
            pairs.push(key, value);
        }
        Ok(pairs)
    }

    pub(crate) fn push(&mut self, key: &str, value: impl Into<String>) {
        self.0.push((key.to_owned(), value.into()));
    }

    pub(crate) fn extend(&mut self, other: Pairs) {
        self.0.extend(other.0);
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The text.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let text: String = self.iter().flat_map(|(key, value)| [key, "=", value, "\0"]).collect();
        Bytes::from(text)
    }
}
