//! Whether the target has kept its power since the state of a volume was saved.
//!
//! Some state ends when the target loses power: registrations without APTPL, current mode pages, SCSI-2 reservations, unit
//! attentions. Hosts of several controllers see one target. It has power from the start of its first controller to the end of
//! its last one, so that state survives a takeover. A number stands for this time, the *power-on*; what is saved under
//! another one has ended.

/// What the process that serves the volumes knows of the power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    /// Hosts have no other controller: the end of this process is a loss of power. Volatile state is not saved.
    #[default]
    EndsWithProcess,
    /// The number of the power-on, not zero.
    On(u64),
    /// Another controller may know the number. Until it reports the number, or has ended, all saved volatile state is
    /// in force.
    Unknown {
        /// The number if no controller knows one.
        fresh: u64,
    },
}

impl Power {
    /// The number of the power-on; `None` while it is unknown.
    pub fn number(self) -> Option<u64> {
        match self {
            Power::On(number) => Some(number),
            Power::EndsWithProcess | Power::Unknown { .. } => None,
        }
    }

    /// The number under which a volume saves volatile state, and whether state saved under `saved` is in force.
    pub(crate) fn of_volume(self, saved: Option<u64>) -> (u64, bool) {
        match self {
            Power::EndsWithProcess => (0, false),
            Power::On(number) => (number, saved == Some(number)),
            Power::Unknown { fresh } => (saved.unwrap_or(fresh), saved.is_some()),
        }
    }
}
