//! Conditions outside the array that never stop it from serving: the history held in memory, sealed secrets that can't
//! be opened, and whatever the machine reports. Each is an alert until it is cleared.

use crate::array::{Array, some_of};
use crate::condition::{self, Conditions};
use crate::{Result, recover};
use engine::Engine;
use history::{Condition, Severity};
use records::SealedField;

/// Whether anything on the drives is sealed: then the key that sealed it must be somewhere.
///
/// # Errors
/// When the configuration can't be read.
pub fn has_sealed_secrets(engine: &Engine) -> Result<bool> {
    Ok(!recover::read(engine)?.sealed().is_empty())
}

impl Array {
    /// Raises an alert about something outside the array, until [`Array::clear_condition`]. `kind`: for programs, and one at a
    /// time.
    pub fn raise_condition(&self, kind: &str, severity: Severity, message: String) {
        tracing::error!(kind, "{message}");
        let condition = Condition { kind: kind.into(), severity, message, noun: None, name: None };
        self.reported.lock().insert(kind.into(), condition);
    }

    /// What was reported is over.
    pub fn clear_condition(&self, kind: &str) {
        self.reported.lock().remove(kind);
    }

    pub(crate) fn reported_conditions(&self) -> Conditions {
        self.reported.lock().clone()
    }

    /// Brings the history back to its file when that is possible.
    pub(crate) fn watch_history(&self) {
        self.parts.history.retry_file(self.now());
        for notice in self.parts.history.take_notices() {
            self.log_event(Severity::Warning, "history.set-aside", None, notice);
        }
    }

    pub(crate) fn history_conditions(&self) -> Conditions {
        let mut found = Conditions::default();
        if let Some(why) = self.parts.history.outage() {
            condition::add(&mut found, "history.memory", Severity::Critical, None, &|| {
                format!(
                    "the history can't be written to the array's folder ({why}): events, alerts and the audit log are \
                     kept in memory, and are lost if the array is started again before that is mended: make room, or \
                     see to the file system; the array goes back to the file by itself"
                )
            });
        }
        found
    }

    /// Secrets that can't be opened, or sealed.
    pub(crate) fn secret_conditions(&self) -> Conditions {
        let mut found = Conditions::default();
        let sealing = &self.parts.sealing;
        let opens = |it: &SealedField| sealing.open(&it.sealed, &it.place).is_ok();
        let shut: Vec<_> = self.config().sealed().into_iter().filter(|it| !opens(it)).collect();
        let shut: Vec<String> = shut.into_iter().map(|it| it.what).collect();
        let why = match (sealing.locked_because(), shut.is_empty()) {
            (None, true) => return found,
            (Some(why), _) => why,
            (None, false) => "secrets.key in the array's folder is not the key that sealed them",
        };
        condition::add(&mut found, "secrets.locked", Severity::Critical, None, &|| match shut.is_empty() {
            true => format!("no secret can be stored: {why}; see to that, and start the array again"),
            false => format!(
                "secrets can't be opened: {why}. Not usable: {}; hosts with CHAP among them can't log in. Put the file \
                 secrets.key back and start the array again. If it is lost for ever: write 32 random bytes to it, start \
                 the array again, and give each of these secrets anew",
                some_of(&shut)
            ),
        });
        found
    }
}
