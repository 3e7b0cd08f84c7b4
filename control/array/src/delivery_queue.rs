//! Delivery queue of one notification target: in order, bounded, with exponential back-off after failures.

use std::collections::VecDeque;

/// Maximum number of waiting entries; when one more comes, the oldest is dropped.
const MAX_WAITING: usize = 256;
/// Seconds until what failed is tried again: doubled each time, up to the second.
const RETRY_SECONDS: (u64, u64) = (2, 300);

#[derive(Debug)]
pub(crate) struct DeliveryQueue<T> {
    waiting: VecDeque<T>,
    /// The first one is on its way.
    sending: bool,
    /// How often it failed one time after the other.
    tries: u32,
    /// Not before this, in seconds of uptime.
    next: u64,
    delivered: Option<u64>,
    error: Option<String>,
    lost: u64,
}

impl<T> Default for DeliveryQueue<T> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            sending: false,
            tries: 0,
            next: 0,
            delivered: None,
            error: None,
            lost: 0,
        }
    }
}

impl<T: Clone> DeliveryQueue<T> {
    /// Lets something wait. False when something older is lost for it.
    pub fn put(&mut self, it: T) -> bool {
        let full = self.waiting.len() >= MAX_WAITING;
        if full {
            // What is on its way is not to be taken for another one when it arrives.
            self.waiting.remove(usize::from(self.sending));
            self.lost += 1;
        }
        self.waiting.push_back(it);
        !full
    }

    /// What is to be sent at an uptime. [`DeliveryQueue::done`] must follow.
    pub fn take(&mut self, uptime: u64) -> Option<T> {
        if self.sending || uptime < self.next {
            return None;
        }
        let first = self.waiting.front()?.clone();
        self.sending = true;
        Some(first)
    }

    /// It arrived, or did not, at an uptime and a time of day: one that is set must not keep anything back.
    pub fn done(&mut self, uptime: u64, now: u64, outcome: Result<(), String>) {
        self.sending = false;
        match outcome {
            Ok(()) => {
                self.waiting.pop_front();
                (self.tries, self.next, self.error, self.delivered) = (0, 0, None, Some(now));
            }
            Err(error) => {
                let (first, most) = RETRY_SECONDS;
                self.next = uptime + first.checked_shl(self.tries.min(16)).unwrap_or(most).min(most);
                self.tries += 1;
                self.error = Some(error);
            }
        }
    }
}

impl<T> DeliveryQueue<T> {
    /// Lets what waits be sent at once.
    pub fn hurry(&mut self) {
        self.next = 0;
    }

    /// How often sending failed one time after the other.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// When something arrived last, in seconds.
    pub fn delivered(&self) -> Option<u64> {
        self.delivered
    }

    /// Why the last one did not arrive.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many went because there were too many.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_is_tried_again_later_and_later_in_order() {
        let mut queue = DeliveryQueue::default();
        assert!(queue.put('a') && queue.put('b'));
        let mut now = 100;
        for wait in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!(queue.take(now), Some('a'));
            assert_eq!(queue.take(now), None, "it is on its way");
            queue.done(now, 7, Err("no".into()));
            assert_eq!(queue.take(now + wait - 1), None);
            now += wait;
        }
        assert_eq!((queue.tries(), queue.error(), queue.delivered()), (10, Some("no"), None));
        assert_eq!(queue.take(now), Some('a'));
        queue.done(now, 7, Ok(()));
        assert_eq!((queue.tries(), queue.error(), queue.delivered()), (0, None, Some(7)));
        assert_eq!(queue.take(now), Some('b'));
    }

    #[test]
    fn the_oldest_that_is_not_on_its_way_makes_place() {
        let mut queue = DeliveryQueue::default();
        (0..MAX_WAITING).for_each(|number| assert!(queue.put(number)));
        assert_eq!(queue.take(0), Some(0));
        assert!(!queue.put(MAX_WAITING));
        queue.done(0, 0, Ok(()));
        assert_eq!((queue.take(0), queue.waiting(), queue.lost()), (Some(2), MAX_WAITING - 1, 1));
    }
}
