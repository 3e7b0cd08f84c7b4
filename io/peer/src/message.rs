//! Messages: the content of frames. Fixed fields come first, then byte strings with their lengths. Further fields
//! belong to a newer version and are ignored.

use crate::fields::{Fields, put_bytes};
use crate::versions::Protocol;
use crate::{Error, Result};
use block::{FrameBlocks, Piece, Place, Recipe, Sequence};
use bytes::{BufMut, Bytes, BytesMut};

/// Versions of the link that this release supports. Both ends use the newest common one.
pub const LINK: Protocol =
    Protocol { name: "the link", other: "the other controller", own: "this one", versions: [1, 1] };

/// Maximum payload before both ends have sent hello.
pub const MAX_HELLO_BYTES: usize = 256;

/// Buffer size that holds the fields of most messages.
const FIELDS_BYTES: usize = 128;

/// Longest CDB (SAM-5 5.2).
pub const MAX_CDB_BYTES: usize = 260;

/// Longest sense data (SPC-5 4.4).
pub const MAX_SENSE_BYTES: usize = 252;

/// Longest iSCSI name (RFC 7143 4.2.7.2).
pub const MAX_NAME_BYTES: usize = 223;

/// The first message of both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest version that the sender supports.
    pub oldest: u16,
    /// Newest version that the sender supports.
    pub newest: u16,
    /// The number of the controller.
    pub member: u16,
    /// The array.
    pub array: u128,
    /// The version of the map in which the sender's process joined.
    pub joined: u64,
}

/// Power-on in a pulse from a home that does not know it yet.
pub const POWER_ON_UNKNOWN: u64 = u64::MAX;

/// An I_T nexus of a front end, announced to the home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attach {
    /// Number of the nexus in commands on this connection.
    pub nexus: u32,
    /// The relative target port.
    pub port: u16,
    /// ISID of the initiator port.
    pub isid: [u8; 6],
    /// True if a home has had the nexus, and the host must see no new one: no POWER ON.
    pub resume: bool,
    /// The initiator's name.
    pub initiator: Bytes,
    /// The power-on of the target in which that home had the nexus; zero from a release without power-ons.
    pub power_on: u64,
}

/// A SCSI command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Position among the commands of the front end.
    pub sequence: Sequence,
    /// The newest reading of the home's clock that the front end had when the command arrived from its host. The home
    /// refuses commands that are too old.
    pub read_ns: u64,
    /// The nexus.
    pub nexus: u32,
    /// The task attribute, as in iSCSI.
    pub attribute: u8,
    /// The direction of the data that the initiator announced: 0 none, 1 in, 2 out.
    pub direction: u8,
    /// The logical unit.
    pub lun: u64,
    /// The task tag.
    pub tag: u64,
    /// Maximum bytes of Data-In that the initiator accepts.
    pub data_in_limit: u64,
    /// The command descriptor block.
    pub cdb: Bytes,
    /// Data-Out.
    pub data: Bytes,
    /// The reply may be [`Message::Located`]: the front end reads the data itself. An older release ignores this field
    /// and sends the data.
    pub locates: bool,
}

/// The response to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// SCSI status.
    pub status: u8,
    /// Bytes of Data-Out that the CDB asked for.
    pub data_out_wanted: u64,
    /// Sense data, possibly empty.
    pub sense: Bytes,
    /// Data-In.
    pub data_in: Bytes,
}

/// A task management function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manage {
    /// Position among the requests of the front end.
    pub sequence: Sequence,
    /// The nexus.
    pub nexus: u32,
    /// The function, as in iSCSI.
    pub function: u8,
    /// The logical unit.
    pub lun: u64,
    /// Tag of the referenced task.
    pub tag: u64,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Kind 1.
    Hello(Hello),
    /// Kind 2: reply to a request of a kind that the receiver does not know or support.
    Refused,
    /// Kind 3: the sender's clock, several times a second, as a sign of life.
    Pulse {
        /// Nanoseconds.
        clock_ns: u64,
        /// Number of the target's power-on, as known by the sender. Zero: the sender knows none, or its release does
        /// not save volatile state. [`POWER_ON_UNKNOWN`]: the home does not know it yet.
        power_on: u64,
    },
    /// Kind 4: begins a nexus; the reply is [`Message::Attached`].
    Attach(Attach),
    /// Kind 5.
    Attached {
        /// Number of the nexus at the home, unchanged as long as the home has the nexus, its tasks and its answers.
        incarnation: u64,
        /// The home's store notes the commands of this nexus that took effect, and the home looks up repeated ones. An
        /// older release does neither.
        notes: bool,
    },
    /// Kind 6: a nexus has ended.
    Detach {
        /// The nexus.
        nexus: u32,
    },
    /// Kind 7; the reply is [`Message::Response`].
    Command(Command),
    /// Kind 8.
    Response(Response),
    /// Kind 9; the reply is [`Message::Managed`].
    Manage(Manage),
    /// Kind 10: the response to a task management function, as in iSCSI.
    Managed {
        /// The response.
        response: u8,
    },
    /// Kind 11: a command has ended without a response, since it was aborted.
    Ended,
    /// Kind 12: the configuration of a front end, in full; it replaces the previous one. The daemon defines its format.
    Configuration(Bytes),
    /// Kind 13: GOOD for a command that [`Command::locates`], and the location of its Data-In.
    Located(Recipe),
    /// Any other kind, of a newer version.
    Unknown {
        /// The kind.
        kind: u16,
    },
}

impl Message {
    /// Number of the message's kind.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Hello(_) => 1,
            Self::Refused => 2,
            Self::Pulse { .. } => 3,
            Self::Attach(_) => 4,
            Self::Attached { .. } => 5,
            Self::Detach { .. } => 6,
            Self::Command(_) => 7,
            Self::Response(_) => 8,
            Self::Manage(_) => 9,
            Self::Managed { .. } => 10,
            Self::Ended => 11,
            Self::Configuration(_) => 12,
            Self::Located(_) => 13,
            Self::Unknown { kind } => *kind,
        }
    }

    /// The payload, in pieces: data of commands and responses are not copied.
    pub fn encode(&self) -> Vec<Bytes> {
        let mut out = BytesMut::with_capacity(FIELDS_BYTES);
        let (mut data, mut last) = (None, None);
        match self {
            Self::Hello(hello) => {
                out.put_u16_le(hello.oldest);
                out.put_u16_le(hello.newest);
                out.put_u16_le(hello.member);
                out.put_u128_le(hello.array);
                out.put_u64_le(hello.joined);
            }
            Self::Refused | Self::Ended | Self::Unknown { .. } => {}
            Self::Attached { incarnation, notes } => {
                out.put_u64_le(*incarnation);
                out.put_u8((*notes).into());
            }
            Self::Pulse { clock_ns, power_on } => {
                out.put_u64_le(*clock_ns);
                out.put_u64_le(*power_on);
            }
            Self::Attach(attach) => {
                out.put_u32_le(attach.nexus);
                out.put_u16_le(attach.port);
                out.put_slice(&attach.isid);
                out.put_u8(attach.resume.into());
                put_bytes(&mut out, &attach.initiator);
                out.put_u64_le(attach.power_on);
            }
            Self::Detach { nexus } => out.put_u32_le(*nexus),
            Self::Command(command) => {
                let Sequence { front, number, lowest } = command.sequence;
                for number in [front, number, lowest, command.read_ns] {
                    out.put_u64_le(number);
                }
                out.put_u32_le(command.nexus);
                out.put_u8(command.attribute);
                out.put_u8(command.direction);
                out.put_u64_le(command.lun);
                out.put_u64_le(command.tag);
                out.put_u64_le(command.data_in_limit);
                put_bytes(&mut out, &command.cdb);
                out.put_u32_le(command.data.len() as u32);
                data = Some(command.data.clone());
                last = command.locates.then(|| Bytes::from_static(&[1]));
            }
            Self::Response(response) => {
                out.put_u8(response.status);
                out.put_u64_le(response.data_out_wanted);
                put_bytes(&mut out, &response.sense);
                out.put_u32_le(response.data_in.len() as u32);
                data = Some(response.data_in.clone());
            }
            Self::Manage(manage) => {
                let Sequence { front, number, lowest } = manage.sequence;
                [front, number, lowest].into_iter().for_each(|number| out.put_u64_le(number));
                out.put_u32_le(manage.nexus);
                out.put_u8(manage.function);
                out.put_u64_le(manage.lun);
                out.put_u64_le(manage.tag);
            }
            Self::Managed { response } => out.put_u8(*response),
            Self::Located(recipe) => return encode_recipe(recipe, out),
            Self::Configuration(text) => {
                out.put_u32_le(text.len() as u32);
                data = Some(text.clone());
            }
        }
        std::iter::once(out.freeze()).chain(data).chain(last).collect()
    }

    /// Reads the payload of a frame.
    ///
    /// # Errors
    /// [`Error::Malformed`] if a known kind has fields that are missing or too long.
    pub fn decode(kind: u16, payload: Bytes) -> Result<Self> {
        let max = payload.len();
        let mut from = Fields::new(payload);
        Ok(match kind {
            1 => Self::Hello(Hello {
                oldest: from.u16()?,
                newest: from.u16()?,
                member: from.u16()?,
                array: from.u128()?,
                joined: from.u64()?,
            }),
            2 => Self::Refused,
            3 => Self::Pulse { clock_ns: from.u64()?, power_on: from.added_u64()? },
            4 => Self::Attach(Attach {
                nexus: from.u32()?,
                port: from.u16()?,
                isid: [from.u8()?, from.u8()?, from.u8()?, from.u8()?, from.u8()?, from.u8()?],
                resume: from.u8()? & 1 != 0,
                initiator: from.bytes(MAX_NAME_BYTES)?,
                power_on: from.added_u64()?,
            }),
            5 => Self::Attached { incarnation: from.u64()?, notes: from.added_u8()? & 1 != 0 },
            6 => Self::Detach { nexus: from.u32()? },
            7 => Self::Command(Command {
                sequence: Sequence { front: from.u64()?, number: from.u64()?, lowest: from.u64()? },
                read_ns: from.u64()?,
                nexus: from.u32()?,
                attribute: from.u8()?,
                direction: from.u8()?,
                lun: from.u64()?,
                tag: from.u64()?,
                data_in_limit: from.u64()?,
                cdb: from.bytes(MAX_CDB_BYTES)?,
                data: from.bytes(max)?,
                locates: from.added_u8()? & 1 != 0,
            }),
            8 => Self::Response(Response {
                status: from.u8()?,
                data_out_wanted: from.u64()?,
                sense: from.bytes(MAX_SENSE_BYTES)?,
                data_in: from.bytes(max)?,
            }),
            9 => Self::Manage(Manage {
                sequence: Sequence { front: from.u64()?, number: from.u64()?, lowest: from.u64()? },
                nexus: from.u32()?,
                function: from.u8()?,
                lun: from.u64()?,
                tag: from.u64()?,
            }),
            10 => Self::Managed { response: from.u8()? },
            11 => Self::Ended,
            12 => Self::Configuration(from.bytes(max)?),
            13 => Self::Located(decode_recipe(&mut from, max)?),
            kind => Self::Unknown { kind },
        })
    }
}

/// Kinds of pieces of a recipe.
const ZEROS: u8 = 0;
const BYTES: u8 = 1;
const BLOCKS: u8 = 2;

/// Encodes a recipe after the bytes of `out`, in pieces: its data bytes are not copied.
fn encode_recipe(recipe: &Recipe, mut out: BytesMut) -> Vec<Bytes> {
    let mut parts = Vec::new();
    out.put_u64_le(recipe.opening);
    out.put_u32_le(recipe.pieces.len() as u32);
    for piece in &recipe.pieces {
        match piece {
            Piece::Zeros(bytes) => {
                out.put_u8(ZEROS);
                out.put_u64_le(*bytes);
            }
            Piece::Bytes(bytes) => {
                out.put_u8(BYTES);
                out.put_u32_le(bytes.len() as u32);
                parts.extend([out.split().freeze(), bytes.clone()]);
            }
            Piece::Blocks(FrameBlocks { frame, stored, first, count, place }) => {
                let Place { segment, offset, len, writing } = *place;
                out.put_u8(BLOCKS);
                out.put_u64_le(*frame);
                out.put_slice(&[*stored, *first, *count]);
                [segment, offset, len].into_iter().for_each(|number| out.put_u32_le(number));
                [writing.0, writing.1].into_iter().for_each(|number| out.put_u64_le(number));
            }
        }
    }
    parts.push(out.freeze());
    parts
}

fn decode_recipe(from: &mut Fields, max: usize) -> Result<Recipe> {
    let (opening, count) = (from.u64()?, from.u32()?);
    let mut pieces = Vec::new();
    for _ in 0..count {
        pieces.push(match from.u8()? {
            ZEROS => Piece::Zeros(from.u64()?),
            BYTES => Piece::Bytes(from.bytes(max)?),
            BLOCKS => {
                let (frame, stored, first, count) = (from.u64()?, from.u8()?, from.u8()?, from.u8()?);
                let (segment, offset, len) = (from.u32()?, from.u32()?, from.u32()?);
                let place = Place { segment, offset, len, writing: (from.u64()?, from.u64()?) };
                Piece::Blocks(FrameBlocks { frame, stored, first, count, place })
            }
            _ => return Err(Error::Malformed("a recipe with an unknown piece")),
        });
    }
    Ok(Recipe { opening, pieces })
}
