//! Asynchronous events of a controller (NVM Express Base 2.0 clause 5.2): pending events, events masked until the host
//! reads their log page, and the waker of the queue.

use crate::spec::{LogPage, event_notice};
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use std::task::{Context, Poll, Waker};

/// Namespaces in the log page of changed namespaces; more are reported as FFFFFFFFh (Base 5.16.1.5).
const MAX_CHANGED: usize = 1024;
/// Stored reservation notifications (Base 5.16.1.24): older ones are dropped.
const MAX_RESERVATION_NOTIFICATIONS: usize = 255;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventKind {
    /// A namespace appeared, disappeared or changed (Namespace Attribute Changed).
    Namespace,
    /// The log page of asymmetric namespace access changed.
    Access,
    /// The discovery log page changed.
    Discovery,
    /// A reservation log page is available.
    Reservation,
}

impl EventKind {
    const ALL: [EventKind; 4] =
        [EventKind::Namespace, EventKind::Access, EventKind::Discovery, EventKind::Reservation];

    /// The bit of the Asynchronous Event Configuration feature that enables the event (Base figure 277); `None` if no
    /// bit does.
    fn enabled_by(self) -> Option<u32> {
        match self {
            EventKind::Namespace => Some(event_notice::NAMESPACE),
            EventKind::Access => Some(event_notice::ANA),
            EventKind::Discovery => Some(event_notice::DISCOVERY),
            EventKind::Reservation => None,
        }
    }

    /// Dword 0 of the completion: type, information, log page (Base figures 145 to 151).
    fn result(self) -> u32 {
        let (kind, information, page) = match self {
            EventKind::Namespace => (2, 0x00, LogPage::ChangedNamespaces),
            EventKind::Access => (2, 0x03, LogPage::NamespaceAccess),
            EventKind::Discovery => (2, 0xF0, LogPage::Discovery),
            EventKind::Reservation => (6, 0x00, LogPage::ReservationNotification),
        };
        kind | information << 8 | (page as u32) << 16
    }
}

/// A change that the reservation notification log page reports (Base figure 268).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ReservationNotice {
    RegistrationPreempted = 1,
    ReservationReleased = 2,
    ReservationPreempted = 3,
}

/// The events of one controller.
#[derive(Default)]
pub(crate) struct Events(Mutex<State>);

#[derive(Default)]
struct State {
    configuration: u32,
    pending: BTreeSet<EventKind>,
    /// Events that were sent, and are masked until their log page is read.
    masked: BTreeSet<EventKind>,
    changed: BTreeSet<u32>,
    reservations: VecDeque<(u32, ReservationNotice)>,
    /// Counts reservation notifications; never zero (Base figure 268).
    notifications: u64,
    waker: Option<Waker>,
}

impl State {
    fn raise(&mut self, kind: EventKind) {
        if kind.enabled_by().is_none_or(|bit| self.configuration & bit != 0) {
            self.pending.insert(kind);
            self.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Events {
    /// The Asynchronous Event Configuration feature.
    pub(crate) fn configuration(&self) -> u32 {
        self.0.lock().configuration
    }

    /// Sets the feature.
    pub(crate) fn configure(&self, configuration: u32) {
        self.0.lock().configuration = configuration;
    }

    /// Raises an event.
    pub(crate) fn raise(&self, kind: EventKind) {
        self.0.lock().raise(kind);
    }

    /// Raises the event for namespaces that appeared, disappeared or changed.
    pub(crate) fn namespaces_changed(&self, nsids: impl IntoIterator<Item = u32>) {
        let mut state = self.0.lock();
        let before = state.changed.len();
        state.changed.extend(nsids);
        if state.changed.len() > before || !state.masked.contains(&EventKind::Namespace) {
            state.raise(EventKind::Namespace);
        }
    }

    /// Whether the host has been or will be notified of a change of the namespace that it has not read yet.
    pub(crate) fn is_unread(&self, nsid: u32) -> bool {
        let state = self.0.lock();
        state.configuration & event_notice::NAMESPACE != 0 && state.changed.contains(&nsid)
    }

    /// Notes that another host changed the reservation of a namespace.
    pub(crate) fn reservation_changed(&self, nsid: u32, notice: ReservationNotice) {
        let mut state = self.0.lock();
        state.reservations.push_back((nsid, notice));
        if state.reservations.len() > MAX_RESERVATION_NOTIFICATIONS {
            state.reservations.pop_front();
        }
        state.raise(EventKind::Reservation);
    }

    /// Returns the next event as dword 0 of the completion of an Asynchronous Event Request. Wakes the context when
    /// there is one.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<u32> {
        let mut state = self.0.lock();
        let next = EventKind::ALL
            .into_iter()
            .find(|kind| state.pending.contains(kind) && !state.masked.contains(kind));
        match next {
            Some(kind) => {
                state.pending.remove(&kind);
                state.masked.insert(kind);
                Poll::Ready(kind.result())
            }
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Unmasks the event of a log page that the host has read without retaining it.
    pub(crate) fn clear(&self, page: LogPage) {
        let kind = match page {
            LogPage::ChangedNamespaces => EventKind::Namespace,
            LogPage::NamespaceAccess => EventKind::Access,
            LogPage::Discovery => EventKind::Discovery,
            LogPage::ReservationNotification => EventKind::Reservation,
            _ => return,
        };
        let mut state = self.0.lock();
        state.masked.remove(&kind);
        if kind == EventKind::Namespace {
            state.changed.clear();
            state.pending.remove(&kind);
        }
        if !state.pending.is_empty() {
            state.waker.take().into_iter().for_each(Waker::wake);
        }
    }

    /// The changed namespaces in ascending order; a single FFFFFFFFh if there are too many for the log page.
    pub(crate) fn changed_namespaces(&self) -> Vec<u32> {
        let state = self.0.lock();
        match state.changed.len() > MAX_CHANGED {
            true => vec![u32::MAX],
            false => state.changed.iter().copied().collect(),
        }
    }

    /// The oldest reservation notification with its number, and the number of those that follow; removed if `take`.
    pub(crate) fn reservation_notification(&self, take: bool) -> Option<(u64, u32, ReservationNotice, u8)> {
        let mut state = self.0.lock();
        let (nsid, notice) = *state.reservations.front()?;
        let number = state.notifications.max(1);
        let left = state.reservations.len() - 1;
        if take {
            state.reservations.pop_front();
            state.notifications = number.checked_add(1).unwrap_or(1);
            if left > 0 {
                state.raise(EventKind::Reservation);
            }
        }
        Some((number, nsid, notice, u8::try_from(left).unwrap_or(u8::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(events: &Events) -> Option<u32> {
        match events.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_event_is_sent_once_until_its_log_page_is_read() {
        let events = Events::default();
        events.namespaces_changed([1]);
        assert_eq!(next(&events), None, "not enabled");
        events.configure(event_notice::NAMESPACE);
        events.namespaces_changed([2]);
        assert_eq!(next(&events), Some(0x0004_0002));
        events.namespaces_changed([3]);
        assert_eq!(next(&events), None, "masked until the page is read");
        assert_eq!(events.changed_namespaces(), [1, 2, 3]);
        events.clear(LogPage::ChangedNamespaces);
        assert_eq!(next(&events), None, "the page had all of it");
        events.namespaces_changed([2]);
        assert_eq!(next(&events), Some(0x0004_0002));
        events.clear(LogPage::ChangedNamespaces);
        events.namespaces_changed(1..=1025);
        assert_eq!(events.changed_namespaces(), [u32::MAX]);
    }

    #[test]
    fn reservation_notifications_come_one_at_a_time() {
        let events = Events::default();
        events.reservation_changed(1, ReservationNotice::ReservationReleased);
        events.reservation_changed(2, ReservationNotice::RegistrationPreempted);
        assert_eq!(next(&events), Some(0x0080_0006));
        let first = events.reservation_notification(true);
        assert_eq!(first, Some((1, 1, ReservationNotice::ReservationReleased, 1)));
        events.clear(LogPage::ReservationNotification);
        assert_eq!(next(&events), Some(0x0080_0006));
        let second = events.reservation_notification(true);
        assert_eq!(second, Some((2, 2, ReservationNotice::RegistrationPreempted, 0)));
        assert_eq!(events.reservation_notification(true), None);
    }
}
