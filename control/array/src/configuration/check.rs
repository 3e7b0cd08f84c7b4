//! Validation of operator input: names, sizes, initiator names, LUNs, CHAP. Pure functions.

use crate::{Error, Result};
use block::Geometry;
use nvmf::{DhchapSecret, TlsPsk};
use records::{Chap, Config, Secret};
use std::net::SocketAddr;

/// Smallest volume in bytes.
pub const MIN_VOLUME: u64 = 1 << 20;
/// Largest volume in bytes.
pub const MAX_VOLUME: u64 = 16 << 50;
/// Maximum number of initiators of one host.
pub const MAX_INITIATORS: usize = 64;

/// Longest name.
pub const MAX_NAME: usize = 63;
/// A volume's name, a dot, a schedule's name, and a time.
const MAX_SNAPSHOT_NAME: usize = 3 * MAX_NAME;
/// Longest CHAP user in bytes, as long as an iSCSI name.
const MAX_CHAP_USER: usize = scsi::MAX_ISCSI_NAME_BYTES;
/// 96 bits is the least that RFC 7143 12.1.4 accepts without IPsec. Characters that take several bytes of UTF-8 count as several.
const MIN_SECRET_BYTES: usize = 12;
const MAX_SECRET_BYTES: usize = 255;

/// Refuses a retention lock that is longer than the array allows.
///
/// # Errors
/// If it is.
pub fn retention_lock(config: &Config, seconds: u64, field: &'static str) -> Result<()> {
    let most = config.settings.max_lock_seconds;
    if seconds <= most {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a retention lock can't be taken back, and lasts {} days at most on this array: choose a shorter one, or ask an \
         administrator to allow more (ashlar array set --max-lock)",
        most / 86_400
    ))
    .about(field))
}

/// An address of this machine to listen on, where others connect to: with this TCP port unless it has one.
pub fn own_address(text: &str, port: u16) -> Result<SocketAddr> {
    let wrong = |advice| Error::invalid(format!("{text:?} is no address: {advice}")).about("address");
    let socket = transport::listen_address(text, port).map_err(wrong)?;
    if socket.port() == 0 || socket.ip().is_multicast() {
        let message = format!("{socket} can't be connected to: name an address of this machine and a port");
        return Err(Error::invalid(message).about("address"));
    }
    Ok(socket)
}

/// A name for a `noun`: 1 to 63 ASCII letters, digits, `-`, `_`, `.`, beginning with a letter or digit.
pub fn name(noun: &str, name: &str) -> Result<()> {
    well_formed(noun, name, MAX_NAME)
}

fn well_formed(noun: &str, name: &str, most: usize) -> Result<()> {
    if matches!(name.len(), 16 | 32) && hex(name) {
        return Err(Error::invalid(format!(
            "{name:?} is not a name for the {noun}: 16 or 32 hex digits alone are an identity; put a word before them"
        )));
    }
    suffix(noun, name, most)
}

/// What a name ends with: as a name, but it may look like an identity.
fn suffix(noun: &str, name: &str, most: usize) -> Result<()> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let rest = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if first && rest && name.len() <= most {
        return Ok(());
    }
    let shown: String = name.chars().take(most + 1).collect();
    Err(Error::invalid(format!(
        "{shown:?} is not a name for the {noun}: use 1 to {most} letters (a-z, A-Z), digits, '-', '_' \
         or '.', beginning with a letter or digit"
    )))
}

/// A name for a snapshot: as others, up to 189 letters.
pub fn snapshot_name(name: &str) -> Result<()> {
    well_formed("snapshot", name, MAX_SNAPSHOT_NAME)
}

/// What follows the volume's name and a dot in the name of a snapshot.
pub fn snapshot_suffix(text: &str) -> Result<()> {
    suffix("snapshot", text, MAX_NAME)
}

/// A time as part of a name: `20261121T153000Z`.
pub fn stamp(seconds: u64) -> String {
    history::utc(seconds).chars().filter(|c| !"-:".contains(*c)).collect()
}

/// Size and block length of a volume.
pub fn geometry(bytes: u64, block_bytes: u32) -> Result<Geometry> {
    if !matches!(block_bytes, 512 | 4096) {
        return Err(Error::invalid(format!(
            "block size {block_bytes} is not offered: use 512 or 4096 bytes"
        )));
    }
    if !(MIN_VOLUME..=MAX_VOLUME).contains(&bytes) {
        return Err(Error::invalid(format!(
            "a volume of {bytes} bytes is not offered: sizes go from 1 MiB ({MIN_VOLUME}) to 16 PiB ({MAX_VOLUME})"
        )));
    }
    let blocks = bytes / u64::from(block_bytes);
    if !bytes.is_multiple_of(u64::from(block_bytes)) {
        let above = (blocks + 1) * u64::from(block_bytes);
        return Err(Error::invalid(format!(
            "{bytes} bytes is not a whole number of {block_bytes}-byte blocks; the next larger size is {above}"
        )));
    }
    Ok(Geometry { block_bytes, blocks })
}

/// Names of a host in one form, each once. `one` and `many` are what texts call them.
fn names_of_host(
    names: &[String],
    (one, many): (&str, &str),
    refused: impl Fn(String) -> Error,
    parse: impl Fn(&str) -> Result<String>,
) -> Result<Vec<String>> {
    if names.len() > MAX_INITIATORS {
        return Err(refused(format!("a host has at most {MAX_INITIATORS} {many}")));
    }
    let mut out: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let name = parse(name)?;
        if out.contains(&name) {
            return Err(refused(format!("{one} {name} is given twice")));
        }
        out.push(name);
    }
    Ok(out)
}

/// The beginning of a name that is refused.
fn shown(name: &str) -> String {
    name.chars().take(256).collect()
}

/// The NVMe qualified names of a host, each once.
pub fn nqns(names: &[String]) -> Result<Vec<String>> {
    let refused = |what: String| Error::invalid(what).about("nqns");
    names_of_host(names, ("NQN", "NQNs"), refused, |name| {
        nvmf::nqn(name).filter(|name| !name.ends_with(".discovery")).ok_or_else(|| {
            refused(format!(
                "{:?} is not an NQN of a host: it begins with \"nqn.\" and has at most 223 ASCII characters; on Linux it \
                 is in /etc/nvme/hostnqn",
                shown(name)
            ))
        })
    })
}

/// The N_Port names (WWPNs) of a host, in one form, each once.
pub fn wwpns(names: &[String]) -> Result<Vec<String>> {
    let refused = |what: String| Error::invalid(what).about("wwpns");
    names_of_host(names, ("WWPN", "WWPNs"), refused, |name| {
        export::parse_wwpn(name).map(export::shown_wwpn).ok_or_else(|| {
            refused(format!(
                "{:?} is not a WWPN: it has 16 hexadecimal digits, such as 21:00:00:24:ff:00:00:01; on Linux it is in \
                 /sys/class/fc_host/host*/port_name",
                shown(name)
            ))
        })
    })
}

/// Refuses a host without a name of any protocol.
pub fn has_names(names: [&[String]; 3]) -> Result<()> {
    match names.iter().all(|names| names.is_empty()) {
        true => Err(Error::invalid("a host needs at least one initiator name (IQN), NQN or WWPN")),
        false => Ok(()),
    }
}

/// The initiator names of a host, normalised; each once.
pub fn initiators(names: &[String]) -> Result<Vec<String>> {
    names_of_host(names, ("initiator", "initiator names"), Error::invalid, initiator)
}

/// An iSCSI name in canonical form ([`scsi::iscsi_name`]) and of one of the formats of RFC 7143 4.2.7.3.
pub fn initiator(name: &str) -> Result<String> {
    let lower = scsi::iscsi_name(name).unwrap_or_default();
    let well_formed = match lower.split_once('.') {
        Some(("iqn", rest)) => iqn(rest),
        Some(("eui", id)) => id.len() == 16 && hex(id),
        Some(("naa", id)) => matches!(id.len(), 16 | 32) && hex(id),
        _ => false,
    };
    if well_formed {
        return Ok(lower);
    }
    let shown: String = name.chars().take(scsi::MAX_ISCSI_NAME_BYTES + 1).collect();
    Err(Error::invalid(format!(
        "{shown:?} is not an iSCSI name: use iqn.YYYY-MM.reversed.domain[:anything], eui. and 16 hex digits, or naa. \
         and 16 or 32, at most 223 ASCII characters; on Linux it is in /etc/iscsi/initiatorname.iscsi"
    )))
}

/// What follows `iqn.`: a year and month, the naming authority's reversed domain, and perhaps a colon with a string
/// of its own (RFC 7143 4.2.7.4).
fn iqn(rest: &str) -> bool {
    let (authority, unique) = match rest.split_once(':') {
        Some((authority, unique)) => (authority, Some(unique)),
        None => (rest, None),
    };
    let Some((date, domain)) = authority.split_once('.') else { return false };
    let label =
        |label: &str| !label.is_empty() && label.chars().all(|c| c == '-' || c.is_ascii_alphanumeric());
    year_month(date)
        && domain.split('.').all(label)
        && unique.is_none_or(|unique| !unique.is_empty() && unique.chars().all(iscsi_character))
}

fn year_month(date: &str) -> bool {
    let Some((year, month)) = date.split_once('-') else { return false };
    let number =
        |digits: &str| digits.chars().all(|c| c.is_ascii_digit()).then(|| digits.parse::<u32>().ok());
    year.len() == 4
        && number(year).is_some()
        && month.len() == 2
        && matches!(number(month).flatten(), Some(1..=12))
}

/// The ASCII characters that RFC 3722 leaves in a normalised name, and the underscore, which initiators in the field
/// use.
fn iscsi_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-.:_".contains(c)
}

fn hex(digits: &str) -> bool {
    digits.chars().all(|c| c.is_ascii_hexdigit())
}

/// One-way and mutual CHAP of a host. The two secrets must differ, or the target's answer could be had by
/// reflecting its own challenge (RFC 7143 12.1.4).
pub fn chap(one_way: Option<&Chap>, mutual: Option<&Chap>) -> Result<()> {
    one_way.into_iter().chain(mutual).try_for_each(credentials)?;
    match (one_way, mutual) {
        (None, Some(_)) => {
            Err(Error::invalid("mutual CHAP needs one-way CHAP as well: give its user and secret"))
        }
        (Some(a), Some(b)) if a.secret == b.secret => {
            Err(Error::invalid("the mutual CHAP secret must differ from the one-way secret"))
        }
        _ => Ok(()),
    }
}

/// The secrets of DH-HMAC-CHAP of a host and of the array for it. They must differ, or who knows one knows the other.
pub fn dhchap(host: Option<&Secret>, controller: Option<&Secret>) -> Result<()> {
    let parse =
        |secret: &Secret| DhchapSecret::parse(secret.expose()).map_err(|why| Error::invalid(why.to_string()));
    match (host.map(parse).transpose()?, controller.map(parse).transpose()?) {
        (None, Some(_)) => Err(Error::invalid(
            "a DH-HMAC-CHAP secret of the array needs one of the host as well: give that, too",
        )),
        (Some(a), Some(b)) if a.is_same_key(&b) => {
            Err(Error::invalid("the DH-HMAC-CHAP secrets of the host and of the array must differ"))
        }
        _ => Ok(()),
    }
}

/// The PSK of TLS of a host.
pub fn tls_psk(psk: Option<&Secret>) -> Result<()> {
    let parse = |psk: &Secret| TlsPsk::parse(psk.expose()).map_err(|why| Error::invalid(why.to_string()));
    psk.map(parse).transpose().map(drop)
}

fn credentials(chap: &Chap) -> Result<()> {
    let visible = |text: &str| text.chars().all(text::is_visible);
    if chap.user.is_empty() || chap.user.len() > MAX_CHAP_USER || !visible(&chap.user) {
        return Err(Error::invalid(format!("a CHAP user has 1 to {MAX_CHAP_USER} bytes of printable text")));
    }
    let secret = chap.secret.expose();
    if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&secret.len()) {
        return Err(Error::invalid(format!(
            "a CHAP secret has {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} bytes; this one has {}",
            secret.len()
        )));
    }
    if !visible(secret) {
        return Err(Error::invalid("a CHAP secret has printable characters only"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "check_test.rs"]
mod tests;
