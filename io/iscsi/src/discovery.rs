//! Text exchanges of the full feature phase (RFC 7143 11.10, 11.11): SendTargets (Appendix C), the few keys that
//! may change during a session, and texts that take several PDUs either way.

use crate::access::TargetConfig;
use crate::keys::{KeyError, Negotiation, Offers, Setting};
use crate::pdu::incoming::Pdu;
use crate::pdu::{CONTINUE, FINAL, Header, NO_TAG, opcode};
use crate::text::{Pairs, TextError};
use bytes::Bytes;
use std::net::SocketAddr;

/// Maximum length of a text that is continued over several requests, in bytes.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// The target transfer tag of the open exchange; at most one is open.
const EXCHANGE_TAG: u32 = 1;

/// Why a text request is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TextRequestError {
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("text too long")]
    Long,
    #[error("continues no open exchange")]
    Tag,
    #[error("final and continue bits in one request")]
    Flags,
    #[error("this value of SendTargets is not allowed in this session")]
    SendTargets,
}

/// The exchange that is open, if any.
#[derive(Default)]
pub(crate) struct Exchange {
    /// The initiator has the target's tag to continue with.
    open: bool,
    request: Vec<u8>,
    /// The part of a response that did not fit in one PDU.
    answer: Bytes,
}

/// The context of a text request.
pub(crate) struct TextContext<'a> {
    pub(crate) target_config: &'a TargetConfig,
    /// The local address of the connection.
    pub(crate) local: SocketAddr,
    pub(crate) offers: &'a Offers,
    pub(crate) discovery: bool,
}

impl Exchange {
    /// Bytes held by the exchange.
    pub(crate) fn held(&self) -> u64 {
        (self.request.len() + self.answer.len()) as u64
    }

    /// Processes a text request; returns the response.
    pub(crate) fn request(
        &mut self,
        pdu: &Pdu,
        place: &TextContext<'_>,
        negotiation: &mut Negotiation,
    ) -> Result<(Header, Bytes), TextRequestError> {
        let header = &pdu.header;
        match header.ttt() {
            // A new exchange ends an open one (11.10.4).
            NO_TAG => *self = Self::default(),
            EXCHANGE_TAG if self.open => {}
            _ => return Err(TextRequestError::Tag),
        }
        if header.is_final() && header.flags() & CONTINUE != 0 {
            return Err(TextRequestError::Flags);
        }
        self.open = true;
        if self.answer.is_empty() {
            if self.request.len() + pdu.data.len() > MAX_TEXT_BYTES {
                return Err(TextRequestError::Long);
            }
            self.request.extend_from_slice(&pdu.data);
            if header.flags() & CONTINUE != 0 {
                return Ok((response(header, 0, EXCHANGE_TAG), Bytes::new()));
            }
            let sent = Pairs::parse(&std::mem::take(&mut self.request))?;
            self.answer = answer(&sent, place, negotiation)?.to_bytes();
        }
        let limit = negotiation.parameters.max_send_data as usize;
        let part = self.answer.split_to(self.answer.len().min(limit));
        Ok(match self.answer.is_empty() {
            true if header.is_final() => {
                self.open = false;
                (response(header, FINAL, NO_TAG), part)
            }
            true => (response(header, 0, EXCHANGE_TAG), part),
            false => (response(header, CONTINUE, EXCHANGE_TAG), part),
        })
    }
}

fn response(request: &Header, flags: u8, ttt: u32) -> Header {
    Header::new(opcode::TEXT_RESPONSE, flags).put(8, request.lun()).with_itt(request.itt()).with_ttt(ttt)
}

fn answer(
    sent: &Pairs,
    place: &TextContext<'_>,
    negotiation: &mut Negotiation,
) -> Result<Pairs, TextRequestError> {
    let mut answers = Pairs::new();
    let mut others = Pairs::new();
    for (key, value) in sent.iter() {
        match key {
            "SendTargets" => answers.extend(targets(value, place)?),
            _ => others.push(key, value),
        }
    }
    let setting = Setting { login: false, discovery: place.discovery };
    answers.extend(negotiation.respond(&others, place.offers, setting)?);
    Ok(answers)
}

/// The response to SendTargets: the target's name, and every portal with its portal group tag. `All` is for discovery sessions, and
/// an empty value, this target, for normal ones (RFC 7143 Appendix C).
fn targets(value: &str, place: &TextContext<'_>) -> Result<Pairs, TextRequestError> {
    let mut answers = Pairs::new();
    let name = place.target_config.target_name.as_str();
    match (value, scsi::iscsi_name(value)) {
        ("All", _) if place.discovery => {}
        ("", _) if !place.discovery => {}
        (_, Some(named)) if named.eq_ignore_ascii_case(name) => {}
        // A name: any other target has no addresses here.
        (_, Some(named)) if ["iqn.", "eui.", "naa."].iter().any(|form| named.starts_with(form)) => {
            return Ok(answers);
        }
        _ => return Err(TextRequestError::SendTargets),
    }
    answers.push("TargetName", name);
    for portal in place.target_config.all_portals() {
        let mut address = portal.address;
        if address.ip().is_unspecified() {
            address.set_ip(place.local.ip().to_canonical());
        }
        answers.push("TargetAddress", format!("{address},{}", portal.number));
    }
    Ok(answers)
}
