//! The byte level of a connection: both halves, and its share of the memory budget.

use crate::pdu::incoming::Incoming;
use crate::pdu::outgoing::Outgoing;
use transport::BudgetShare;

/// A connection as bytes.
pub(crate) struct Wire {
    pub(crate) incoming: Incoming,
    pub(crate) out: Outgoing,
    pub(crate) share: BudgetShare,
}

impl Wire {
    pub(crate) fn new(share: BudgetShare) -> Self {
        Self { incoming: Incoming::default(), out: Outgoing::default(), share }
    }
}
