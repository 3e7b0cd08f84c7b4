//! Notifications as SNMP traps (RFC 3416 4.2.6), described in `docs/monitoring/ASHLAR-MIB.txt`, in messages of version
//! 2c (RFC 1901) or 3.

use crate::usm::Sender;
use crate::{Error, Notification, Result};
use history::{AlertChange, Severity};
use std::net::{ToSocketAddrs, UdpSocket};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, Tag};

/// Version 2c (RFC 1901 3).
const VERSION: i64 = 1;
/// SNMPv2-Trap-PDU (RFC 3416 3).
const TRAP: u64 = 7;
/// TimeTicks (RFC 2578 7.1.8): application 3.
const TICKS: u64 = 3;

const SYS_UP_TIME: &[u64] = &[1, 3, 6, 1, 2, 1, 1, 3, 0];
const SNMP_TRAP_OID: &[u64] = &[1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0];

/// `ashlar` of the MIB, under the enterprise number for documentation (RFC 5612).
const ASHLAR: &[u64] = &[1, 3, 6, 1, 4, 1, 32473, 1];
/// `ashlarNotifications` and `ashlarAlert` below it.
const NOTIFICATIONS: u64 = 0;
const ALERT: u64 = 1;

/// Last element of the OID of `snmpTrapOID.0`.
fn trap_number(change: Option<AlertChange>) -> u64 {
    match change {
        Some(AlertChange::Opened) => 1,
        Some(AlertChange::Escalated) => 2,
        Some(AlertChange::Closed) => 3,
        Some(AlertChange::Updated) => 4,
        None => 5,
    }
}

enum Value<'a> {
    Number(i64),
    Ticks(u32),
    Text(&'a str),
    Name(Vec<u64>),
}

fn oid(parts: &[u64]) -> ObjectIdentifier {
    ObjectIdentifier::from_slice(parts)
}

fn write(value: &Value<'_>, writer: DERWriter<'_>) {
    match value {
        Value::Number(number) => writer.write_i64(*number),
        Value::Ticks(ticks) => {
            writer.write_tagged_implicit(Tag::application(TICKS), |it| it.write_u32(*ticks))
        }
        Value::Text(text) => writer.write_bytes(text.as_bytes()),
        Value::Name(parts) => writer.write_oid(&oid(parts)),
    }
}

/// Credentials of a trap.
pub enum Login<'a> {
    /// Version 2c: the community.
    Community(&'a str),
    /// Version 3: a user and a passphrase.
    User(&'a str, &'a str),
}

/// The bytes of the trap's PDU.
fn pdu(notification: &Notification) -> Vec<u8> {
    let (alert, condition) = (&notification.alert, &notification.alert.condition);
    let below = |parts: &[u64]| [ASHLAR, parts].concat();
    let severity = match condition.severity {
        Severity::Info => 1,
        Severity::Warning => 2,
        Severity::Critical => 3,
    };
    // Hundredths of a second, which wrap after 497 days.
    let ticks = (notification.uptime.wrapping_mul(100) & u64::from(u32::MAX)) as u32;
    let mut bindings = vec![
        (SYS_UP_TIME.to_vec(), Value::Ticks(ticks)),
        (SNMP_TRAP_OID.to_vec(), Value::Name(below(&[NOTIFICATIONS, trap_number(notification.change)]))),
    ];
    let objects = [
        Value::Text(&notification.array),
        Value::Text(&notification.serial),
        Value::Number(alert.id & i64::from(i32::MAX)),
        Value::Text(&condition.kind),
        Value::Number(severity),
        Value::Text(&condition.message),
        Value::Text(condition.noun.as_deref().unwrap_or_default()),
        Value::Text(condition.name.as_deref().unwrap_or_default()),
    ];
    // Scalars have one instance: 0.
    bindings.extend((1..).zip(objects).map(|(number, value)| (below(&[ALERT, number, 0]), value)));
    let request = alert.changed as i64 & i64::from(i32::MAX);
    yasna::construct_der(|writer| {
        writer.write_tagged_implicit(Tag::context(TRAP), |pdu| {
            pdu.write_sequence(|pdu| {
                pdu.next().write_i64(request);
                // error-status and error-index are 0.
                pdu.next().write_i64(0);
                pdu.next().write_i64(0);
                pdu.next().write_sequence(|list| {
                    for (name, value) in &bindings {
                        list.next().write_sequence(|binding| {
                            binding.next().write_oid(&oid(name));
                            write(value, binding.next());
                        });
                    }
                });
            });
        });
    })
}

/// A message of version 2c.
fn plain(community: &str, pdu: &[u8]) -> Vec<u8> {
    yasna::construct_der(|writer| {
        writer.write_sequence(|message| {
            message.next().write_i64(VERSION);
            message.next().write_bytes(community.as_bytes());
            message.next().write_der(pdu);
        });
    })
}

/// `now`: in seconds since 1970.
pub fn send(host: &str, port: u16, login: &Login<'_>, notification: &Notification, now: u64) -> Result<()> {
    let pdu = pdu(notification);
    let message = match login {
        Login::Community(community) => plain(community, &pdu),
        Login::User(user, passphrase) => {
            let mut salt = [0; 8];
            aws_lc_rs::rand::fill(&mut salt).map_err(|_| Error::new("no random numbers are available"))?;
            Sender::new(user, passphrase, &notification.serial)?.message(
                &pdu,
                u64::from_be_bytes(salt),
                now,
            )?
        }
    };
    let failed = |error: std::io::Error| Error::new(format!("{host} port {port} can't be reached: {error}"));
    let address = (host, port).to_socket_addrs().map_err(failed)?.next();
    let address = address.ok_or_else(|| Error::new(format!("{host:?} has no address")))?;
    let any = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).map_err(failed)?;
    socket.send_to(&message, address).map(drop).map_err(failed)
}
