//! Initiator ports by transport, and the host names that identify them.
//!
//! Registrations outlive sessions, so an initiator port is identified by its names on its transport, not by a
//! connection.

use std::borrow::Cow;

/// Longest iSCSI name in bytes (RFC 7143 4.2.7.2).
pub const MAX_ISCSI_NAME_BYTES: usize = 223;

/// The initiator side of an I_T nexus (SPC-5 7.6.4 for SCSI transports; NVM Express Base 5.27 for NVMe hosts).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InitiatorPort {
    /// iSCSI
    Iscsi {
        /// The initiator's iSCSI name in canonical form (see [`iscsi_name`]).
        name: String,
        /// The session part of the port name: the ISID.
        isid: [u8; 6],
    },
    /// NVMe over Fabrics
    Nvme {
        /// The host's NVMe qualified name.
        nqn: String,
        /// The host identifier, which identifies registrants.
        host_id: [u8; 16],
    },
    /// Fibre Channel
    FibreChannel {
        /// The N_Port name (WWPN).
        wwpn: u64,
    },
    /// Serial Attached SCSI
    Sas {
        /// The SAS address.
        address: u64,
    },
    /// SCSI RDMA Protocol
    Srp {
        /// The initiator port identifier.
        port: [u8; 16],
    },
}

impl InitiatorPort {
    /// An iSCSI initiator port.
    pub fn iscsi(name: impl Into<String>, isid: [u8; 6]) -> Self {
        InitiatorPort::Iscsi { name: name.into(), isid }
    }

    /// The name that mappings, QoS and statistics use for the host: the iSCSI name, the NQN, the WWPN (see
    /// [`shown_wwpn`]), or the port's identifier in hexadecimal.
    pub fn host_name(&self) -> Cow<'_, str> {
        match self {
            InitiatorPort::Iscsi { name, .. } => name.into(),
            InitiatorPort::Nvme { nqn, .. } => nqn.into(),
            InitiatorPort::FibreChannel { wwpn } => shown_wwpn(*wwpn).into(),
            InitiatorPort::Sas { address } => format!("sas.{address:016x}").into(),
            InitiatorPort::Srp { port } => format!("srp.{:032x}", u128::from_be_bytes(*port)).into(),
        }
    }
}

/// An I_T nexus by its names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NexusName {
    /// The initiator port.
    pub initiator: InitiatorPort,
    /// The relative identifier of the target port.
    pub target_port: u16,
}

/// The canonical form of an iSCSI name (RFC 7143 4.2.7), used for storage and comparison. `None` if `text` is not an
/// iSCSI name.
///
/// Names are ASCII: for ASCII, the string preparation of RFC 3722 is lower-casing, which preserves the length, so the
/// checked name is the stored name. Names beyond ASCII, which would need Unicode normalisation, are refused. A comma is
/// refused because it separates name and ISID in a TransportID (SPC-5 7.6.4.6).
pub fn iscsi_name(text: &str) -> Option<String> {
    let fits = (1..=MAX_ISCSI_NAME_BYTES).contains(&text.len());
    let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    (fits && text.bytes().all(is_name)).then(|| text.to_ascii_lowercase())
}

/// An N_Port name (WWPN) of Fibre Channel: 16 hexadecimal digits, as pairs with colons, in a row, or after `0x`. `None`
/// if `text` is not a valid name; zero is invalid.
pub fn parse_wwpn(text: &str) -> Option<u64> {
    let pairs: Vec<&str> = text.strip_prefix("0x").unwrap_or(text).split(':').collect();
    let digits = match pairs.as_slice() {
        [digits] => (*digits).to_owned(),
        pairs if pairs.len() == 8 && pairs.iter().all(|pair| pair.len() == 2) => pairs.concat(),
        _ => return None,
    };
    let is_name = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let wwpn = if is_name { u64::from_str_radix(&digits, 16).ok() } else { None };
    wwpn.filter(|wwpn| *wwpn != 0)
}

/// An N_Port name as switches and hosts show it, also used for storage and comparison: pairs of digits with colons.
pub fn shown_wwpn(wwpn: u64) -> String {
    wwpn.to_be_bytes().map(|byte| format!("{byte:02x}")).join(":")
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
        // U+0130 has two bytes, and three in lower case.
        for bad in ["", &"x".repeat(224), "\u{130}", "iqn.2026-11.test:h\u{f4}te", "a b", "a,b", "a\0", "a\n"]
        {
            assert_eq!(iscsi_name(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_wwpn_is_taken_as_switches_hosts_and_the_kernel_show_it() {
        for text in ["21:00:00:24:FF:00:00:01", "21000024ff000001", "0x21000024ff000001"] {
            assert_eq!(parse_wwpn(text), Some(0x2100_0024_FF00_0001), "{text}");
        }
        assert_eq!(shown_wwpn(0x2100_0024_FF00_0001), "21:00:00:24:ff:00:00:01");
        for bad in [
            "",
            "0000000000000000",
            "21:00:00:24:ff:00:00",
            "2100:0024:ff00:0001",
            "+1000024ff000001",
            "iqn.a",
        ] {
            assert_eq!(parse_wwpn(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_transport_has_a_host_name_of_its_own() {
        let names = [
            InitiatorPort::iscsi("iqn.a", [1; 6]).host_name().into_owned(),
            InitiatorPort::Nvme { nqn: "nqn.a".into(), host_id: [1; 16] }.host_name().into_owned(),
            InitiatorPort::FibreChannel { wwpn: 0x2100_0024_FF00_0001 }.host_name().into_owned(),
            InitiatorPort::Sas { address: 1 }.host_name().into_owned(),
            InitiatorPort::Srp { port: [1; 16] }.host_name().into_owned(),
        ];
        assert_eq!(names[0], "iqn.a");
        assert_eq!(names[2], "21:00:00:24:ff:00:00:01");
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len());
    }
}
