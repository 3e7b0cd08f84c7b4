//! Stable identities of records: random numbers that are never reused, written as hex digits.

/// Defines identity types of 64 bits.
macro_rules! identities {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(#[serde(with = "crate::id::hex64")] pub u64);

        impl serde::Serialize for $name {
            /// Sixteen hex digits, as a newtype struct with the type's name: [`crate::Redactor`] resolves it to a name.
            fn serialize<S: serde::Serializer>(
                &self,
                serializer: S,
            ) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_newtype_struct(stringify!($name), &format!("{:016x}", self.0))
            }
        }

        impl crate::id::Identity for $name {
            const TYPE: &'static str = stringify!($name);

            fn digits(self) -> String {
                format!("{:016x}", self.0)
            }

            fn from_digits(digits: &str) -> Option<Self> {
                let digits = crate::id::well_formed(digits, 16)?;
                u64::from_str_radix(digits, 16).ok().map(Self)
            }
        }
    )*};
}

identities! {
    /// Stable identity of a user.
    UserId;
    /// Stable identity of an API token.
    TokenId;
    /// Stable identity of a volume group.
    GroupId;
    /// Stable identity of a host.
    HostId;
    /// Stable identity of a host group.
    HostGroupId;
    /// Stable identity of a remote array.
    RemoteArrayId;
    /// Stable identity of a replication: the same on both arrays.
    ReplicationId;
    /// Stable identity of a snapshot schedule.
    ScheduleId;
    /// Stable identity of a notification target.
    NotificationTargetId;
    /// Stable identity of a directory.
    DirectoryId;
}

/// An identity in a record key.
pub trait Identity: Ord + Copy {
    /// Name of the type, for the resolution of references.
    const TYPE: &'static str;

    /// The identity as hex digits.
    fn digits(self) -> String;

    /// Parses hex digits, exactly as written by [`Identity::digits`].
    fn from_digits(digits: &str) -> Option<Self>;
}

/// Returns the text if it has the number of digits of an identity.
pub(crate) fn well_formed(digits: &str, count: usize) -> Option<&str> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (digits.len() == count && digits.bytes().all(is_digit)).then_some(digits)
}

impl Identity for block::DiskId {
    const TYPE: &'static str = "DiskId";

    fn digits(self) -> String {
        format!("{:032x}", self.0)
    }

    fn from_digits(digits: &str) -> Option<Self> {
        u128::from_str_radix(well_formed(digits, 32)?, 16).ok().map(Self)
    }
}

/// Identities of 64 bits as hex digits.
pub mod hex64 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Sixteen hex digits.
    pub fn serialize<S: Serializer>(id: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{id:016x}"))
    }

    /// Decodes the digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let id = (digits.len() == 16).then(|| u64::from_str_radix(&digits, 16).ok()).flatten();
        id.ok_or_else(|| D::Error::custom("not 16 hex digits"))
    }
}

/// Identities of volumes and snapshots as hex digits.
pub mod disk {
    use block::DiskId;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Thirty-two hex digits.
    pub fn serialize<S: Serializer>(id: &DiskId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct("DiskId", &format!("{:032x}", id.0))
    }

    /// Decodes the digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DiskId, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let id = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
        id.map(DiskId).ok_or_else(|| D::Error::custom("not 32 hex digits"))
    }
}
