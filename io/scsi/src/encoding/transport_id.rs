//! TransportIDs of initiator ports (SPC-5 7.6.4), by transport.

use crate::InitiatorPort;
use crate::encoding::cdb::List;
use crate::encoding::sense::{Code, Fault};
use crate::iscsi_name;

/// FORMAT CODE and PROTOCOL IDENTIFIER of byte 0.
const FIBRE_CHANNEL: u8 = 0x00;
const SRP: u8 = 0x04;
const ISCSI_PORT: u8 = 0x45;
const SAS: u8 = 0x06;

/// Length of all TransportIDs but iSCSI's.
const FIXED_BYTES: usize = 24;

/// The TransportID of an initiator port. Empty for NVMe hosts, which SCSI has no TransportID for.
pub(crate) fn encode(initiator: &InitiatorPort) -> Vec<u8> {
    let fixed = |format: u8, at: usize, bytes: &[u8]| {
        let mut out = vec![0; FIXED_BYTES];
        out[0] = format;
        out[at..at + bytes.len()].copy_from_slice(bytes);
        out
    };
    match initiator {
        InitiatorPort::Iscsi { name, isid } => encode_iscsi(name, isid),
        InitiatorPort::FibreChannel { wwpn } => fixed(FIBRE_CHANNEL, 8, &wwpn.to_be_bytes()),
        InitiatorPort::Sas { address } => fixed(SAS, 4, &address.to_be_bytes()),
        InitiatorPort::Srp { port } => fixed(SRP, 8, port),
        InitiatorPort::Nvme { .. } => Vec::new(),
    }
}

/// Format 01b of iSCSI: "name,i,0xISID" (SPC-5 7.6.4.6).
fn encode_iscsi(name: &str, isid: &[u8; 6]) -> Vec<u8> {
    let isid = isid.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let mut name = format!("{name},i,0x{isid}").into_bytes();
    name.resize((name.len() / 4 + 1).max(5) * 4, 0);
    let mut out = vec![ISCSI_PORT, 0];
    out.extend_from_slice(&(name.len() as u16).to_be_bytes());
    out.extend_from_slice(&name);
    out
}

/// Decodes the TransportID at `at` of a parameter list; returns the initiator port and the length of the TransportID.
/// Format 00b of iSCSI names no port: it can't be registered here, where ports are registered.
pub(crate) fn decode(list: List<'_>, at: usize) -> Result<(InitiatorPort, usize), Fault> {
    let fixed = |initiator| Ok((initiator, FIXED_BYTES));
    let whole = list.sub(at, FIXED_BYTES);
    match (list.u8(at), whole) {
        (FIBRE_CHANNEL, Some(id)) => fixed(InitiatorPort::FibreChannel { wwpn: id.u64(8) }),
        (SAS, Some(id)) => fixed(InitiatorPort::Sas { address: id.u64(4) }),
        (SRP, Some(id)) => {
            let port = id.sub(8, 16).and_then(|port| port.0.try_into().ok());
            fixed(InitiatorPort::Srp { port: port.ok_or(Fault::list_byte(at))? })
        }
        _ => decode_iscsi(list, at),
    }
}

fn decode_iscsi(list: List<'_>, at: usize) -> Result<(InitiatorPort, usize), Fault> {
    let length = usize::from(list.u16(at + 2));
    let bytes = list.sub(at + 4, length).ok_or(Fault::from(Code::PARAMETER_LIST_LENGTH))?;
    if list.u8(at) != ISCSI_PORT || length % 4 != 0 {
        return Err(Fault::list_byte(at));
    }
    let text = bytes.0.split(|byte| *byte == 0).next().unwrap_or(&[]);
    let port = std::str::from_utf8(text).ok().and_then(|text| {
        let (name, isid) = text.split_once(",i,0x").or_else(|| text.split_once(",i,0X"))?;
        let is_isid =
            !isid.is_empty() && isid.len() <= 12 && isid.bytes().all(|digit| digit.is_ascii_hexdigit());
        let [_, _, isid @ ..] = u64::from_str_radix(isid, 16).ok().filter(|_| is_isid)?.to_be_bytes();
        Some(InitiatorPort::iscsi(iscsi_name(name)?, isid))
    });
    port.map(|port| (port, 4 + length)).ok_or(Fault::list_byte(at + 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scsi_transport_has_its_format() {
        let ports = [
            InitiatorPort::iscsi("iqn.a", [0, 2, 0x3D, 0, 0, 1]),
            InitiatorPort::FibreChannel { wwpn: 0x2100_0024_FF00_0001 },
            InitiatorPort::Sas { address: 0x5000_C500_0000_0001 },
            InitiatorPort::Srp { port: [7; 16] },
        ];
        for port in &ports {
            let id = encode(port);
            assert_eq!(decode(List(&id), 0), Ok((port.clone(), id.len())));
            assert!(decode(List(&id[..id.len() - 1]), 0).is_err(), "{port:?} is cut");
        }
        assert_eq!(&encode(&ports[0])[..24], b"\x45\0\0\x18iqn.a,i,0x00023d0000");
        assert_eq!(encode(&ports[1])[8..16], [0x21, 0, 0, 0x24, 0xFF, 0, 0, 1]);
        assert_eq!(encode(&ports[2])[..12], [6, 0, 0, 0, 0x50, 0, 0xC5, 0, 0, 0, 0, 1]);
        assert_eq!((encode(&ports[3])[0], encode(&ports[3])[23]), (4, 7));
        assert_eq!(encode(&InitiatorPort::Nvme { nqn: "nqn.a".into(), host_id: [1; 16] }), []);
    }

    #[test]
    fn other_protocols_are_refused() {
        for format in [0x05, 0x0A, 0x46, 0xC0] {
            let mut id = vec![0; 24];
            id[0] = format;
            assert_eq!(decode(List(&id), 0), Err(Fault::list_byte(0)));
        }
    }
}
