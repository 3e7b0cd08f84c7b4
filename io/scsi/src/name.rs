//! iSCSI names (RFC 7143 4.2.7): one place that says what a name is and which names are equal, for logins,
//! TransportIDs, saved reservations and LUN masking.

/// Longest iSCSI name in bytes (RFC 7143 4.2.7.2).
pub const MAX_ISCSI_NAME_BYTES: usize = 223;

/// The canonical form of an iSCSI name, in which names are stored and compared; none when `text` is no name.
///
/// Names are ASCII: for ASCII the string preparation of RFC 3722 is lower-casing, which changes no length, so that what
/// was checked is what is stored. Names beyond ASCII, which would need Unicode normalisation, are refused. A comma is
/// no character of a name: it separates name and ISID in a TransportID (SPC-5 7.6.4.6).
pub fn iscsi_name(text: &str) -> Option<String> {
    let fits = (1..=MAX_ISCSI_NAME_BYTES).contains(&text.len());
    let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    (fits && text.bytes().all(is_name)).then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_checked_in_the_form_in_which_it_is_stored() {
        let longest = "I".repeat(MAX_ISCSI_NAME_BYTES);
        assert_eq!(iscsi_name(&longest), Some("i".repeat(MAX_ISCSI_NAME_BYTES)));
        assert_eq!(
            iscsi_name("IQN.1991-05.com.Microsoft:WIN-1").as_deref(),
            Some("iqn.1991-05.com.microsoft:win-1")
        );
        // U+0130 is two bytes, and three in lower case.
        for bad in ["", &"x".repeat(224), "\u{130}", "iqn.2026-11.test:h\u{f4}te", "a b", "a,b", "a\0", "a\n"]
        {
            assert_eq!(iscsi_name(bad), None, "{bad:?}");
        }
    }
}
