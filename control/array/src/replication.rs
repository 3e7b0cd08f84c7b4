//! Replication with other arrays: transfers, synchronous sessions, witnesses, reversal and promotion.

mod begun;
pub(crate) mod points;
pub(crate) mod promotion;
pub(crate) mod reversal;
pub(crate) mod synchronous;
pub(crate) mod test_failover;
pub(crate) mod transfer;
pub(crate) mod witness;
