//! The wire layout of protocol data units (RFC 7143 clause 11): the 48-byte basic header segment, its fields at
//! fixed offsets, and the numbers in it. Framing is in [`incoming`], encoding in [`outgoing`].

pub(crate) mod incoming;
pub(crate) mod outgoing;

/// Bytes of a basic header segment (11.2.1).
pub(crate) const HEADER_BYTES: usize = 48;

/// The reserved tag: no task, no transfer (11.2.1.8).
pub(crate) const NO_TAG: u32 = 0xffff_ffff;

/// Opcodes (11.2.1.2), without the immediate bit.
pub(crate) mod opcode {
    pub(crate) const NOP_OUT: u8 = 0x00;
    pub(crate) const SCSI_COMMAND: u8 = 0x01;
    pub(crate) const TASK_MANAGEMENT: u8 = 0x02;
    pub(crate) const LOGIN: u8 = 0x03;
    pub(crate) const TEXT: u8 = 0x04;
    pub(crate) const DATA_OUT: u8 = 0x05;
    pub(crate) const LOGOUT: u8 = 0x06;
    pub(crate) const SNACK: u8 = 0x10;
    pub(crate) const NOP_IN: u8 = 0x20;
    pub(crate) const SCSI_RESPONSE: u8 = 0x21;
    pub(crate) const TASK_MANAGEMENT_RESPONSE: u8 = 0x22;
    pub(crate) const LOGIN_RESPONSE: u8 = 0x23;
    pub(crate) const TEXT_RESPONSE: u8 = 0x24;
    pub(crate) const DATA_IN: u8 = 0x25;
    pub(crate) const LOGOUT_RESPONSE: u8 = 0x26;
    pub(crate) const R2T: u8 = 0x31;
    pub(crate) const ASYNC: u8 = 0x32;
    pub(crate) const REJECT: u8 = 0x3f;
}

/// The final bit of most PDUs, the transit bit of a login (11.2.1.3).
pub(crate) const FINAL: u8 = 0x80;
/// The continue bit of login and text PDUs (11.10.2, 11.12.2).
pub(crate) const CONTINUE: u8 = 0x40;

/// Offsets of fields that most PDUs share.
const LUN_AT: usize = 8;
const ITT_AT: usize = 16;
const TTT_AT: usize = 20;
const CMD_SN_AT: usize = 24;
const IMMEDIATE: u8 = 0x40;
const OPCODE_MASK: u8 = 0x3f;

/// Reasons of a Reject PDU (11.17.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub(crate) enum RejectReason {
    #[error("data digest error")]
    DataDigest = 0x02,
    #[error("SNACK reject")]
    SnackReject = 0x03,
    #[error("protocol error")]
    Protocol = 0x04,
    #[error("too many immediate commands")]
    ImmediateCommand = 0x06,
    #[error("task in progress")]
    TaskInProgress = 0x07,
    #[error("invalid PDU field")]
    InvalidField = 0x09,
    #[error("long operation reject: out of resources")]
    LongOperation = 0x0a,
}

/// A basic header segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header(pub(crate) [u8; HEADER_BYTES]);

impl Header {
    /// A header of zeros but for opcode and flags byte.
    pub(crate) fn new(opcode: u8, flags: u8) -> Self {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = opcode;
        bytes[1] = flags;
        Self(bytes)
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.0[0] & OPCODE_MASK
    }

    /// The immediate-delivery bit (11.2.1.1).
    pub(crate) fn immediate(&self) -> bool {
        self.0[0] & IMMEDIATE != 0
    }

    /// Opcode-specific flags, byte 1.
    pub(crate) fn flags(&self) -> u8 {
        self.0[1]
    }

    pub(crate) fn is_final(&self) -> bool {
        self.flags() & FINAL != 0
    }

    /// Bytes of all additional header segments (11.2.1.5 counts words).
    pub(crate) fn ahs_bytes(&self) -> usize {
        usize::from(self.0[4]) * 4
    }

    /// Bytes of data, without padding (11.2.1.6).
    pub(crate) fn data_bytes(&self) -> usize {
        usize::from(self.0[5]) << 16 | usize::from(self.0[6]) << 8 | usize::from(self.0[7])
    }

    pub(crate) fn set_data_bytes(&mut self, bytes: usize) {
        assert!(bytes < 1 << 24, "{bytes} bytes do not fit in DataSegmentLength");
        let length = (bytes as u32).to_be_bytes();
        self.0[5..8].copy_from_slice(&length[1..]);
    }

    pub(crate) fn lun(&self) -> [u8; 8] {
        self.array::<LUN_AT, 8>()
    }

    /// Initiator task tag (11.2.1.8).
    pub(crate) fn itt(&self) -> u32 {
        self.u32::<ITT_AT>()
    }

    /// Target transfer tag, where the PDU has one.
    pub(crate) fn ttt(&self) -> u32 {
        self.u32::<TTT_AT>()
    }

    pub(crate) fn cmd_sn(&self) -> u32 {
        self.u32::<CMD_SN_AT>()
    }

    pub(crate) fn u16<const AT: usize>(&self) -> u16 {
        u16::from_be_bytes(self.array::<AT, 2>())
    }

    pub(crate) fn u32<const AT: usize>(&self) -> u32 {
        u32::from_be_bytes(self.array::<AT, 4>())
    }

    /// `N` bytes from offset `AT`.
    pub(crate) fn array<const AT: usize, const N: usize>(&self) -> [u8; N] {
        const { assert!(AT + N <= HEADER_BYTES) };
        std::array::from_fn(|index| self.0[AT + index])
    }

    pub(crate) fn put<const N: usize>(mut self, at: usize, bytes: [u8; N]) -> Self {
        self.0[at..at + N].copy_from_slice(&bytes);
        self
    }

    pub(crate) fn put_u32(self, at: usize, value: u32) -> Self {
        self.put(at, value.to_be_bytes())
    }

    pub(crate) fn put_u16(self, at: usize, value: u16) -> Self {
        self.put(at, value.to_be_bytes())
    }

    pub(crate) fn with_itt(self, itt: u32) -> Self {
        self.put_u32(ITT_AT, itt)
    }

    pub(crate) fn with_ttt(self, ttt: u32) -> Self {
        self.put_u32(TTT_AT, ttt)
    }
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a PDU with opcode {:#04x} and ITT {:#x}", self.opcode(), self.itt())
    }
}

impl std::fmt::Display for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Length on the wire: data are padded to words (11.1).
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(4)
}
