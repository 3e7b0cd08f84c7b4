//! The time of day, confirmed by an administrator after the array saw it jump.

use crate::Result;
use crate::array::transaction::Transaction;
use crate::request::verbs;
use history::Severity;

verbs! {
    #![tag = "array"]

    /// Confirm the time of day after a clock jump
    ///
    /// After a jump of the system clock nothing expires until the time is confirmed or the clock is back. The recycle bin,
    /// retention locks and schedule retention then follow the clock again.
    ConfirmTime {} -> (), Change "confirm" "time", Admin, at POST "/array/confirm-time" says "Confirmed"
        => |tx, _| tx.confirm_time().await;
}

impl Transaction<'_> {
    /// An administrator says that the time of day is right: the retention clock is set to it.
    pub async fn confirm_time(&mut self) -> Result<()> {
        let array = self.array;
        let (ahead, rough) = array.clock.confirm().await?;
        let way = if ahead > 0 { "forward" } else { "back" };
        let [before, after] = [ahead, 0].map(|ahead| serde_json::json!({ "ahead_seconds": ahead }));
        self.note_change("time", None, [&before, &after]);
        let message = format!(
            "the time was confirmed by {}: the retention clock was set {way} by {rough}",
            self.caller.user
        );
        array.log_event(Severity::Warning, "clock.confirmed", None, message);
        Ok(())
    }
}
