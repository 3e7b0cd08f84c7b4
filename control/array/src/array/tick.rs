//! The work that the array does periodically.

use crate::array::Array;
use history::Severity;

impl Array {
    /// Does what is due: to be called about once a second.
    pub async fn tick(&self) {
        self.watch_history();
        self.quotas.check(&self.config(), true);
        self.space.watch();
        self.usage_meter.watch();
        self.logins.watch(&self.config());
        self.controller_monitor.watch();
        self.alerts.watch();
        self.drive_monitor.watch();
        self.parts.target.expire_tokens();
        self.health.watch();
        self.scrubs.watch().await;
        self.scrub_when_due().await;
        self.run_schedules().await;
        self.empty_bin().await;
        self.clock.watch().await;
        self.audit_watch.watch().await;
        self.watch_api_address().await;
    }

    /// Brings the history back to its file when that is possible.
    fn watch_history(&self) {
        self.parts.history.retry_file(self.now());
        for notice in self.parts.history.take_notices() {
            self.log_event(Severity::Warning, "history.set-aside", None, notice);
        }
    }
}
