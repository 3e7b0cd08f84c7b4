//! In-band authentication of hosts by DH-HMAC-CHAP (NVM Express Base 2.0 clause 8.13): the state machine of one queue.
//!
//! A queue whose host has a secret accepts no other commands before the host has proved that it knows the secret. The
//! host sends its messages with Authentication Send and fetches ours with Authentication Receive:
//!
//! ```text
//! host                                      controller
//! Negotiate: hash functions, groups   ─►
//!                                     ◄─    Challenge: C1, public value
//! Reply: response, public value, C2   ─►
//!                                     ◄─    Success1: response to C2, if there is one
//! Success2, if it asked for ours      ─►
//! ```
//!
//! A host may authenticate again later on the same connection, at a limited rate. A failure ends the queue after the
//! host fetched Failure1.

pub(crate) mod group;
pub(crate) mod hash;
pub(crate) mod message;
pub(crate) mod secret;

use group::{EXPONENT_BYTES, Exponent, Group};
use hash::Hash;
use message::{Explanation, FromHost, Reply};
use secret::DhchapSecret;
use std::sync::Arc;
use zeroize::Zeroizing;

/// Negotiations that a host may begin in a burst.
pub(crate) const MAX_NEGOTIATIONS: u32 = 4;

/// How a host authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Secret of the host, which the host must prove to know.
    pub host: DhchapSecret,
    /// Secret of the array, which the array proves to know if the host asks for it.
    pub controller: Option<DhchapSecret>,
}

/// The NQNs of both sides.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) host: Arc<str>,
    pub(crate) subsystem: Arc<str>,
}

/// Result of processing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The exchange continues.
    Goes,
    /// The host is authenticated.
    Authenticated,
    /// The queue ends.
    Failed(Failure),
}

/// Why an authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The response of the host is wrong.
    WrongSecret,
    /// The host rejected the controller's response, or asked for one although no controller secret is configured.
    ControllerRefused,
    /// The host violated the protocol, or offered no supported hash function or group.
    Protocol,
}

/// Random bytes of one connection: HMAC-SHA-512 of a counter under a seed.
struct Entropy {
    seed: Zeroizing<[u8; 32]>,
    taken: u64,
}

impl Entropy {
    fn take<const N: usize>(&mut self) -> Zeroizing<[u8; N]> {
        const { assert!(N <= Hash::MAX_BYTES) };
        self.taken += 1;
        let block = Zeroizing::new(Hash::Sha512.mac(&*self.seed, &[&self.taken.to_le_bytes()]));
        let mut out = Zeroizing::new([0; N]);
        out.copy_from_slice(&block[..N]);
        out
    }
}

/// The authentication of one queue.
pub(crate) struct Authentication {
    credentials: Option<Arc<Credentials>>,
    names: Names,
    entropy: Entropy,
    transaction: u16,
    /// Negotiations that the host may still begin.
    negotiations: u32,
    state: State,
}

enum State {
    /// Negotiate is expected.
    Idle,
    /// The host must fetch the Challenge.
    Negotiated(Hash, Group),
    /// The host must reply.
    Challenged(Box<Challenged>),
    /// The host must fetch Success1, with this response to its own challenge.
    Verified(Hash, Option<Vec<u8>>),
    /// The host must confirm the controller's response.
    Responded,
    /// The host must fetch Failure1.
    Failed(Explanation, Failure),
}

struct Challenged {
    hash: Hash,
    group: Group,
    challenge: Vec<u8>,
    number: u32,
    exponent: Exponent,
}

impl Authentication {
    /// Authentication of a host with these credentials; without credentials, the host need not and cannot authenticate.
    /// `seed`: random bytes that are used for no other purpose.
    pub(crate) fn new(credentials: Option<Arc<Credentials>>, names: Names, seed: [u8; 32]) -> Self {
        let entropy = Entropy { seed: Zeroizing::new(seed), taken: 0 };
        let state = State::Idle;
        Self { credentials, names, entropy, transaction: 0, negotiations: 1, state }
    }

    /// Allows the host to begin more negotiations, up to [`MAX_NEGOTIATIONS`].
    pub(crate) fn allow(&mut self, negotiations: u32) {
        self.negotiations = (self.negotiations + negotiations).min(MAX_NEGOTIATIONS);
    }

    /// Whether processing the next message needs finite-field arithmetic. `sent`: the host's message; `None` for
    /// Receive.
    pub(crate) fn takes_long(&self, sent: Option<&[u8]>) -> bool {
        let message = sent.and_then(|sent| FromHost::parse(sent).ok());
        match (&self.state, sent, message) {
            (State::Negotiated(_, group), None, _) => *group != Group::Null,
            (State::Challenged(challenged), _, Some((_, FromHost::Reply(_)))) => {
                challenged.group != Group::Null
            }
            _ => false,
        }
    }

    /// The failure to report if the host disconnects now: a host that received our response and does not confirm it
    /// rejects it.
    pub(crate) fn abandoned(&self) -> Option<Failure> {
        matches!(self.state, State::Responded).then_some(Failure::ControllerRefused)
    }

    /// A message of the host (Authentication Send).
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Step {
        let (transaction, message) = match FromHost::parse(bytes) {
            Ok(parsed) => parsed,
            Err(explanation) => return self.fail(explanation, Failure::Protocol),
        };
        if let FromHost::Negotiate { secure_channel, offer } = message {
            self.transaction = transaction;
            let Some(left) = self.negotiations.checked_sub(1) else {
                return self.fail(Explanation::IncorrectMessage, Failure::Protocol);
            };
            self.negotiations = left;
            return self.negotiate(secure_channel, offer);
        }
        let is_same = transaction == self.transaction;
        match (message, std::mem::replace(&mut self.state, State::Idle)) {
            (FromHost::Failure2, _) => Step::Failed(Failure::ControllerRefused),
            (FromHost::Reply(reply), State::Challenged(challenged)) if is_same => {
                self.reply(&challenged, &reply)
            }
            (FromHost::Success2, State::Responded) if is_same => Step::Authenticated,
            (FromHost::Reply(_), State::Challenged(_)) | (FromHost::Success2, State::Responded) => {
                self.fail(Explanation::IncorrectPayload, Failure::Protocol)
            }
            _ => self.fail(Explanation::IncorrectMessage, Failure::Protocol),
        }
    }

    /// Bytes of the next message for the host.
    pub(crate) fn next_bytes(&self) -> usize {
        message::HEADER_BYTES
            + match &self.state {
                State::Negotiated(hash, group) => hash.bytes() + group.bytes(),
                State::Verified(hash, _) => hash.bytes(),
                _ => 0,
            }
    }

    /// The message for the host (Authentication Receive).
    pub(crate) fn receive(&mut self) -> (Vec<u8>, Step) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Negotiated(hash, group) => (self.challenge(hash, group), Step::Goes),
            State::Verified(hash, response) => {
                let message = message::success(self.transaction, hash.bytes(), response.as_deref());
                if response.is_some() {
                    self.state = State::Responded;
                    return (message, Step::Goes);
                }
                (message, Step::Authenticated)
            }
            State::Failed(explanation, failure) => {
                (message::failure(self.transaction, explanation), Step::Failed(failure))
            }
            State::Idle | State::Challenged(_) | State::Responded => {
                let message = message::failure(self.transaction, Explanation::IncorrectMessage);
                (message, Step::Failed(Failure::Protocol))
            }
        }
    }

    /// Starts the failure: the host fetches Failure1, then the queue ends.
    fn fail(&mut self, explanation: Explanation, failure: Failure) -> Step {
        self.state = State::Failed(explanation, failure);
        Step::Goes
    }

    fn negotiate(&mut self, secure_channel: u8, offer: Option<(&[u8], &[u8])>) -> Step {
        let (Some((hashes, groups)), true) = (offer, self.credentials.is_some()) else {
            return self.fail(Explanation::NotUsable, Failure::Protocol);
        };
        if secure_channel != 0 {
            return self.fail(Explanation::SecureChannel, Failure::Protocol);
        }
        let Some(hash) = Hash::PREFERRED.into_iter().find(|it| hashes.contains(&(*it as u8))) else {
            return self.fail(Explanation::HashUnusable, Failure::Protocol);
        };
        let Some(group) = Group::PREFERRED.into_iter().find(|it| groups.contains(&(*it as u8))) else {
            return self.fail(Explanation::GroupUnusable, Failure::Protocol);
        };
        self.state = State::Negotiated(hash, group);
        Step::Goes
    }

    fn challenge(&mut self, hash: Hash, group: Group) -> Vec<u8> {
        let challenge = self.entropy.take::<{ Hash::MAX_BYTES }>()[..hash.bytes()].to_vec();
        let exponent: Exponent = self.entropy.take::<EXPONENT_BYTES>();
        // Zero means that there is no sequence number.
        let number = u32::from_le_bytes(*self.entropy.take()).max(1);
        let public = group.public(&exponent);
        let identifiers = (hash as u8, group as u8);
        let message = message::challenge(self.transaction, identifiers, (&challenge, number), &public);
        let challenged = Challenged { hash, group, challenge, number, exponent };
        self.state = State::Challenged(Box::new(challenged));
        message
    }

    fn reply(&mut self, challenged: &Challenged, reply: &Reply<'_>) -> Step {
        let Challenged { hash, group, challenge, number, exponent } = challenged;
        let Some(credentials) = self.credentials.clone() else {
            return self.fail(Explanation::NotUsable, Failure::Protocol);
        };
        if reply.response.len() != hash.bytes() {
            return self.fail(Explanation::IncorrectPayload, Failure::Protocol);
        }
        let Some(shared) = group.shared(exponent, reply.public) else {
            return self.fail(Explanation::IncorrectPayload, Failure::Protocol);
        };
        let Names { host, subsystem } = &self.names;
        let expected = Response { hash: *hash, shared: &shared, transaction: self.transaction }.compute(
            &credentials.host.transformed(host),
            (challenge, *number),
            (b"HostHost", host, subsystem),
        );
        if !hash::same(&expected, reply.response) {
            return self.fail(Explanation::Failed, Failure::WrongSecret);
        }
        let Some((theirs, number)) = reply.challenge else {
            self.state = State::Verified(*hash, None);
            return Step::Goes;
        };
        // A host that reflects our own challenge wants us to compute the response to it.
        let Some(secret) = credentials.controller.as_ref().filter(|_| theirs != challenge.as_slice()) else {
            return self.fail(Explanation::Failed, Failure::ControllerRefused);
        };
        let response = Response { hash: *hash, shared: &shared, transaction: self.transaction }.compute(
            &secret.transformed(subsystem),
            (theirs, number),
            (b"Controller", subsystem, host),
        );
        self.state = State::Verified(*hash, Some(response));
        Step::Goes
    }
}

/// Inputs that both responses of an exchange share.
struct Response<'a> {
    hash: Hash,
    /// The shared secret of the Diffie-Hellman exchange; empty without one.
    shared: &'a [u8],
    transaction: u16,
}

impl Response<'_> {
    /// Response of the port with this key to a challenge: `role` identifies the port, its NQN and that of the other
    /// port.
    fn compute(
        &self,
        key: &[u8],
        (challenge, number): (&[u8], u32),
        (role, own, other): (&[u8], &str, &str),
    ) -> Vec<u8> {
        let augmented = match self.shared {
            [] => challenge.to_vec(),
            shared => self.hash.mac(&self.hash.digest(shared), &[challenge]),
        };
        self.hash.mac(
            key,
            &[
                &augmented,
                &number.to_le_bytes(),
                &self.transaction.to_le_bytes(),
                &[0], // SC_C: nothing after the authentication
                role,
                own.as_bytes(),
                &[0],
                other.as_bytes(),
            ],
        )
    }
}
