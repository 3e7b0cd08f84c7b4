//! Operational keys (RFC 7143 clause 13): a table with each key's sender, phase, session types and negotiation rule.

use crate::text::Pairs;

/// Largest value of a length key (13.12 to 13.14): 2^24 - 1.
const MAX_LENGTH: u32 = (1 << 24) - 1;

/// Maximum bytes of data that the target receives in a PDU before login is complete: the default of the standard.
pub(crate) const LOGIN_DATA_BYTES: usize = 8192;
/// The declared maximum in a discovery session.
pub(crate) const DISCOVERY_DATA_BYTES: usize = 16 << 10;

/// Negotiated parameters of a session. The defaults are the standard's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Headers carry a CRC32C.
    pub header_digest: bool,
    /// Data carry a CRC32C.
    pub data_digest: bool,
    /// Unsolicited data beyond immediate data are forbidden.
    pub initial_r2t: bool,
    /// Commands may carry data.
    pub immediate_data: bool,
    /// Maximum bytes of data that the initiator receives in a PDU.
    pub max_send_data: u32,
    /// Maximum bytes of a solicited or Data-In sequence.
    pub max_burst: u32,
    /// Maximum unsolicited bytes of a command.
    pub first_burst: u32,
    /// Maximum R2Ts outstanding for a command.
    pub max_outstanding_r2t: u32,
    /// Seconds that the initiator waits before it logs in again.
    pub time_to_wait: u32,
    /// Seconds that tasks outlive their connection: zero.
    pub time_to_retain: u32,
    /// Maximum connections in a session.
    pub max_connections: u32,
    /// Error recovery level.
    pub error_recovery_level: u32,
    /// Protocol level; 1 is RFC 7143.
    pub protocol_level: u32,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            initial_r2t: true,
            immediate_data: true,
            max_send_data: 8192,
            max_burst: 262_144,
            first_burst: 65_536,
            max_outstanding_r2t: 1,
            time_to_wait: 2,
            time_to_retain: 20,
            max_connections: 1,
            error_recovery_level: 0,
            protocol_level: 1,
        }
    }
}

/// Values that the target proposes or accepts at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offers {
    /// Maximum bytes of data that the target receives in a PDU.
    pub max_receive_data: u32,
    /// Largest MaxBurstLength.
    pub max_burst: u32,
    /// Largest FirstBurstLength.
    pub first_burst: u32,
    /// Largest MaxOutstandingR2T.
    pub max_outstanding_r2t: u32,
}

impl Default for Offers {
    fn default() -> Self {
        Self { max_receive_data: 262_144, max_burst: 1 << 20, first_burst: 262_144, max_outstanding_r2t: 8 }
    }
}

/// When a key may be sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Login,
    /// In the full feature phase too.
    Any,
}

/// Whether a key is relevant in a discovery session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Both,
    /// "Irrelevant when: SessionType=Discovery"
    NormalOnly,
}

/// Negotiation rule (6.2).
enum Rule {
    /// The first value in the initiator's list that the target supports.
    Choice(fn(&mut Parameters, &str), &'static [&'static str]),
    /// The smaller of both numbers, within the standard's range.
    Minimum(fn(&mut Parameters) -> &mut u32, fn(&Offers) -> u32, std::ops::RangeInclusive<u32>),
    /// The larger of both numbers, within the standard's range.
    Maximum(fn(&mut Parameters) -> &mut u32, fn(&Offers) -> u32, std::ops::RangeInclusive<u32>),
    /// Yes only if both sides say Yes.
    And(fn(&mut Parameters) -> &mut bool, bool),
    /// Yes if one side says Yes. Without a parameter, the result can only be Yes, or has no effect.
    Or(Option<fn(&mut Parameters) -> &mut bool>, bool),
    /// Declared by each side for itself; no response.
    Declared(fn(&mut Parameters) -> &mut u32, std::ops::RangeInclusive<u32>),
    /// Declared, but not used by the target.
    Unused,
    /// Keys that only the target may send.
    TargetOnly,
    /// Obsolete, with the response that 13.25 requires.
    Obsolete(&'static str),
}

struct Key {
    name: &'static str,
    phase: Phase,
    scope: Scope,
    rule: Rule,
}

const fn key(name: &'static str, phase: Phase, scope: Scope, rule: Rule) -> Key {
    Key { name, phase, scope, rule }
}

/// MaxBurstLength precedes FirstBurstLength, which must not exceed its result.
#[rustfmt::skip]
const KEYS: &[Key] = {
    use Phase::{Any, Login};
    use Rule::*;
    use Scope::{Both, NormalOnly};
    const DIGESTS: &[&str] = &["CRC32C", "None"];
    &[
        key("HeaderDigest",             Login, Both,       Choice(|p, v| p.header_digest = v == "CRC32C", DIGESTS)),
        key("DataDigest",               Login, Both,       Choice(|p, v| p.data_digest = v == "CRC32C", DIGESTS)),
        key("TaskReporting",            Login, NormalOnly, Choice(|_, _| (), &["RFC3720"])),
        key("MaxConnections",           Login, NormalOnly, Minimum(|p| &mut p.max_connections, |_| 1, 1..=65_535)),
        key("InitialR2T",               Login, NormalOnly, Or(Some(|p| &mut p.initial_r2t), false)),
        key("ImmediateData",            Login, NormalOnly, And(|p| &mut p.immediate_data, true)),
        key("MaxRecvDataSegmentLength", Any,   Both,       Declared(|p| &mut p.max_send_data, 512..=MAX_LENGTH)),
        key("MaxBurstLength",           Login, NormalOnly, Minimum(|p| &mut p.max_burst, |o| o.max_burst, 512..=MAX_LENGTH)),
        key("FirstBurstLength",         Login, NormalOnly, Minimum(|p| &mut p.first_burst, |o| o.first_burst, 512..=MAX_LENGTH)),
        key("DefaultTime2Wait",         Login, Both,       Maximum(|p| &mut p.time_to_wait, |_| 0, 0..=3600)),
        key("DefaultTime2Retain",       Login, Both,       Minimum(|p| &mut p.time_to_retain, |_| 0, 0..=3600)),
        key("MaxOutstandingR2T",        Login, NormalOnly, Minimum(|p| &mut p.max_outstanding_r2t, |o| o.max_outstanding_r2t, 1..=65_535)),
        key("DataPDUInOrder",           Login, NormalOnly, Or(None, true)),
        key("DataSequenceInOrder",      Login, NormalOnly, Or(None, true)),
        key("ErrorRecoveryLevel",       Login, Both,       Minimum(|p| &mut p.error_recovery_level, |_| 0, 0..=2)),
        key("iSCSIProtocolLevel",       Login, NormalOnly, Minimum(|p| &mut p.protocol_level, |_| 1, 0..=31)),
        key("InitiatorName",            Login, Both,       Unused),
        key("InitiatorAlias",           Any,   Both,       Unused),
        key("TargetName",               Login, Both,       Unused),
        key("SessionType",              Login, Both,       Unused),
        key("TargetAlias",              Any,   Both,       TargetOnly),
        key("TargetAddress",            Any,   Both,       TargetOnly),
        key("TargetPortalGroupTag",     Login, Both,       TargetOnly),
        key("IFMarker",                 Login, Both,       Obsolete("No")),
        key("OFMarker",                 Login, Both,       Obsolete("No")),
        key("IFMarkInt",                Login, Both,       Obsolete("Reject")),
        key("OFMarkInt",                Login, Both,       Obsolete("Reject")),
    ]
};

/// Errors of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("{0} must not be sent by the initiator")]
    Sender(&'static str),
    #[error("{0} outside the login phase")]
    Phase(&'static str),
    #[error("{0} declared with a value outside its range")]
    Range(&'static str),
    #[error("{0} negotiated a second time")]
    Repeated(&'static str),
}

/// The phase and session type of a negotiation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) login: bool,
    pub(crate) discovery: bool,
}

/// The negotiation of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Negotiation {
    pub(crate) parameters: Parameters,
    seen: Vec<&'static str>,
}

impl Negotiation {
    /// Responds to the initiator's keys and stores the results. The caller must have removed the keys of the login
    /// itself (`AuthMethod`, `CHAP_*`) and `SendTargets`.
    pub(crate) fn respond(
        &mut self,
        sent: &Pairs,
        offers: &Offers,
        setting: Setting,
    ) -> Result<Pairs, KeyError> {
        let mut responses = Pairs::new();
        for key in KEYS {
            let Some(value) = sent.get(key.name) else { continue };
            if !setting.login && key.phase == Phase::Login {
                return Err(KeyError::Phase(key.name));
            }
            // A declaration may be repeated: some initiators repeat their name in the next stage.
            let declared = matches!(key.rule, Rule::Declared(..) | Rule::Unused);
            if setting.login && !declared {
                if self.seen.contains(&key.name) {
                    return Err(KeyError::Repeated(key.name));
                }
                self.seen.push(key.name);
            }
            if setting.discovery && key.scope == Scope::NormalOnly {
                responses.push(key.name, "Irrelevant");
            } else if let Some(response) = self.apply(key, value, offers)? {
                responses.push(key.name, response);
            }
        }
        for (name, value) in sent.iter() {
            let known = KEYS.iter().any(|key| key.name == name);
            // The initiator's response to a key; no proposal of the target needs one.
            let is_response = value == "NotUnderstood";
            if !known && !is_response {
                responses.push(name, "NotUnderstood");
            }
        }
        Ok(responses)
    }

    fn apply(&mut self, key: &Key, value: &str, offers: &Offers) -> Result<Option<String>, KeyError> {
        let parameters = &mut self.parameters;
        let rejected = || Ok(Some("Reject".to_owned()));
        let within = |range: &std::ops::RangeInclusive<u32>| number(value).filter(|n| range.contains(n));
        match &key.rule {
            Rule::Choice(set, ours) => {
                let Some(choice) = value.split(',').find(|name| ours.contains(name)) else {
                    return rejected();
                };
                set(parameters, choice);
                Ok(Some(choice.to_owned()))
            }
            Rule::Minimum(field, ours, range) => {
                let Some(offered) = within(range) else { return rejected() };
                // 13.14: FirstBurstLength must not exceed MaxBurstLength.
                let burst = if key.name == "FirstBurstLength" { parameters.max_burst } else { u32::MAX };
                *field(parameters) = offered.min(ours(offers)).min(burst);
                Ok(Some(field(parameters).to_string()))
            }
            Rule::Maximum(field, ours, range) => {
                let Some(offered) = within(range) else { return rejected() };
                *field(parameters) = offered.max(ours(offers));
                Ok(Some(field(parameters).to_string()))
            }
            Rule::And(field, ours) => {
                let Some(offered) = boolean(value) else { return rejected() };
                *field(parameters) = offered && *ours;
                Ok(Some(yes_or_no(*field(parameters))))
            }
            Rule::Or(field, ours) => {
                let Some(offered) = boolean(value) else { return rejected() };
                let result = offered || *ours;
                if let Some(field) = field {
                    *field(parameters) = result;
                }
                Ok(Some(yes_or_no(result)))
            }
            Rule::Declared(field, range) => {
                *field(parameters) = within(range).ok_or(KeyError::Range(key.name))?;
                Ok(None)
            }
            Rule::Unused => Ok(None),
            Rule::TargetOnly => Err(KeyError::Sender(key.name)),
            Rule::Obsolete(response) => Ok(Some((*response).to_owned())),
        }
    }
}

/// A number in decimal or hexadecimal notation (6.1).
pub(crate) fn number(value: &str) -> Option<u32> {
    let (digits, radix) = match value.split_at_checked(2) {
        Some(("0x" | "0X", digits)) => (digits, 16),
        _ => (value, 10),
    };
    // `from_str_radix` accepts a sign, the standard does not.
    u32::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'))
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

fn yes_or_no(value: bool) -> String {
    if value { "Yes" } else { "No" }.to_owned()
}

#[cfg(test)]
#[path = "keys_test.rs"]
mod tests;
