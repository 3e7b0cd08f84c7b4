//! Sequence numbers of outgoing PDUs: StatSN, and the command window (RFC 7143 4.2.2).

use crate::pdu::Header;
use crate::pdu::incoming::Incoming;
use crate::pdu::outgoing::Outgoing;
use scsi::Data;
use transport::BudgetShare;

/// How a PDU uses StatSN.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatSn {
    /// The PDU is a status: it takes the number and advances it.
    Next,
    /// The PDU carries the number of the next status.
    Current,
    /// The field is reserved.
    None,
}

/// Both halves of a connection, its status numbering, and its share of the memory budget.
pub(crate) struct Wire {
    pub(crate) incoming: Incoming,
    pub(crate) out: Outgoing,
    pub(crate) share: BudgetShare,
    stat_sn: u32,
}

impl Wire {
    pub(crate) fn new(max_receive_data: usize, share: BudgetShare) -> Self {
        Self { incoming: Incoming::new(max_receive_data), out: Outgoing::default(), share, stat_sn: 1 }
    }

    /// Queues a PDU with its three sequence numbers, which have the same offsets in all PDUs.
    pub(crate) fn send(&mut self, window: &Window, header: Header, data: &Data, stat_sn: StatSn) {
        let number = if stat_sn == StatSn::None { 0 } else { self.stat_sn };
        if stat_sn == StatSn::Next {
            self.stat_sn = self.stat_sn.wrapping_add(1);
        }
        let header = header.put_u32(24, number).put_u32(28, window.expected()).put_u32(32, window.max());
        self.out.push(header, data);
    }
}

/// The position of a CmdSN relative to the command window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowPosition {
    Expected,
    /// Earlier commands have not arrived yet.
    Ahead,
    /// The command is outside the window and ignored.
    Outside,
}

/// The command window of a session (4.2.2.1): ExpCmdSN, and the number of commands that may be outstanding.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    expected: u32,
    size: u32,
    outstanding: u32,
}

impl Window {
    pub(crate) fn new(expected: u32, size: u32) -> Self {
        Self { expected, size, outstanding: 0 }
    }

    /// ExpCmdSN
    pub(crate) fn expected(&self) -> u32 {
        self.expected
    }

    /// MaxCmdSN. It never decreases: an arriving command advances ExpCmdSN and becomes outstanding.
    pub(crate) fn max(&self) -> u32 {
        self.expected.wrapping_add(self.size - self.outstanding).wrapping_sub(1)
    }

    pub(crate) fn position(&self, cmd_sn: u32) -> WindowPosition {
        match cmd_sn.wrapping_sub(self.expected) {
            ahead if ahead >= self.size - self.outstanding => WindowPosition::Outside,
            0 => WindowPosition::Expected,
            _ => WindowPosition::Ahead,
        }
    }

    /// Advances ExpCmdSN after the expected command has arrived.
    pub(crate) fn advance(&mut self) {
        self.expected = self.expected.wrapping_add(1);
    }

    /// Occupies a slot of the window for a command, until [`Window::close`].
    pub(crate) fn open(&mut self) {
        assert!(self.outstanding < self.size, "more commands than the window has slots");
        self.outstanding += 1;
    }

    /// Frees the slot of a command that has ended.
    pub(crate) fn close(&mut self) {
        assert!(self.outstanding > 0, "a command ended that was not outstanding");
        self.outstanding -= 1;
    }
}

/// True when `a` comes before `b` in serial number arithmetic (RFC 1982).
pub(crate) fn before(a: u32, b: u32) -> bool {
    a != b && b.wrapping_sub(a) < 1 << 31
}
