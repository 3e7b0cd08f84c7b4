//! Watches the controllers: events when one joins, stops, is lost or has taken over.

use crate::events::bus::EventBus;
use crate::parts::membership::{Controller, ControllerState, Controllers, Phases, Takeover, TakeoverCause};
use crate::service::condition::{self, Conditions};
use history::Severity;
use parking_lot::Mutex;
use records::Topic;
use std::sync::Arc;

/// Compares the controllers with those of before, about once a second.
pub(crate) struct ControllerMonitor {
    bus: Arc<EventBus>,
    controllers: Arc<dyn Controllers>,
    /// Those that were there last; none before the first time.
    before: Mutex<Option<Vec<Controller>>>,
}

impl ControllerMonitor {
    pub fn new(bus: Arc<EventBus>, controllers: Arc<dyn Controllers>) -> Self {
        Self { bus, controllers, before: Mutex::default() }
    }

    pub fn conditions(&self) -> Conditions {
        condition::of_controllers(&self.controllers.controllers())
    }

    /// Looks for changes. The first time, it reports how this controller became the home.
    pub fn watch(&self) {
        let now = self.controllers.controllers();
        let before = self.before.lock().replace(now.clone());
        let Some(before) = before else {
            if let Some(takeover) = self.controllers.takeover() {
                self.report_takeover(&now, &takeover);
            }
            return;
        };
        if now == before {
            return;
        }
        self.bus.publish_change(Topic::Controllers);
        for controller in &now {
            let old = before.iter().find(|old| old.number == controller.number);
            if old.is_none_or(|old| old.state != controller.state || old.since != controller.since) {
                self.report(controller);
            }
        }
    }

    fn report(&self, controller: &Controller) {
        let (number, name, version) = (controller.number, &controller.name, &controller.version);
        let (severity, kind, message) = match controller.state {
            ControllerState::Home => return,
            ControllerState::Standby => {
                let message = format!("controller {number} ({name}, version {version}) stands by");
                (Severity::Info, "controller.joined", message)
            }
            ControllerState::Stopped => {
                (Severity::Info, "controller.stopped", format!("controller {number} ({name}) was stopped"))
            }
            ControllerState::Lost => {
                let message = format!("controller {number} ({name}) is lost: it has not been heard of");
                (Severity::Warning, "controller.lost", message)
            }
        };
        self.bus.log_event(severity, kind, Some(("controller", &number.to_string())), message);
    }

    fn report_takeover(&self, now: &[Controller], takeover: &Takeover) {
        let Some(home) = now.iter().find(|it| it.state == ControllerState::Home) else { return };
        let severity = match takeover.cause {
            TakeoverCause::Lost => Severity::Warning,
            TakeoverCause::Stopped | TakeoverCause::Moved => Severity::Info,
        };
        let subject = Some(("controller", &*home.number.to_string()));
        let message = takeover_message(home.number, &home.name, takeover);
        self.bus.log_event(severity, "controller.takeover", subject, message);
    }
}

/// What the event says when the controller with this number and name has taken over.
pub(crate) fn takeover_message(number: u16, name: &str, takeover: &Takeover) -> String {
    let why = match takeover.cause {
        TakeoverCause::Lost => "which was lost",
        TakeoverCause::Stopped => "which was stopped",
        TakeoverCause::Moved => "which gave the array up",
    };
    let Phases { silence, agreement, store, recovery, start } = takeover.phases;
    format!(
        "controller {number} ({name}) took over from controller {}, {why}, in {} ms: silence {silence}, agreement {agreement}, \
         store {store}, recovery {recovery}, start {start}",
        takeover.from,
        takeover.phases.total()
    )
}
