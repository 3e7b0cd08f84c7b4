//! Delivery queue of one notification target: in order, bounded, with exponential back-off after failures.

use std::collections::VecDeque;

/// Seconds until what failed is tried again: doubled each time, up to the second.
const RETRY_SECONDS: (u64, u64) = (2, 300);

#[derive(Debug)]
pub(crate) struct DeliveryQueue<T> {
    waiting: VecDeque<T>,
    /// Number of the first that are on their way.
    sending: usize,
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
            sending: 0,
            tries: 0,
            next: 0,
            delivered: None,
            error: None,
            lost: 0,
        }
    }
}

impl<T: Clone> DeliveryQueue<T> {
    /// Lets something wait, of at most `max_waiting` beside those on their way. False when something older is lost for it.
    pub fn put(&mut self, it: T, max_waiting: usize) -> bool {
        let full = self.waiting.len() - self.sending >= max_waiting;
        if full {
            // What is on its way is not to be taken for another one when it arrives.
            self.waiting.remove(self.sending);
            self.lost += 1;
        }
        self.waiting.push_back(it);
        !full
    }

    /// What is to be sent at an uptime, at most `max` in their order. Unless it is nothing, [`DeliveryQueue::done`] must follow.
    pub fn take(&mut self, uptime: u64, max: usize) -> Vec<T> {
        if self.sending > 0 || uptime < self.next {
            return Vec::new();
        }
        let first: Vec<T> = self.waiting.iter().take(max).cloned().collect();
        self.sending = first.len();
        first
    }

    /// They arrived, or did not, at an uptime and a time of day: one that is set must not keep anything back.
    pub fn done(&mut self, uptime: u64, now: u64, outcome: Result<(), String>) {
        let sent = std::mem::take(&mut self.sending);
        match outcome {
            Ok(()) => {
                self.waiting.drain(..sent);
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
        assert!(queue.put('a', 9) && queue.put('b', 9));
        let mut now = 100;
        for wait in [2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            assert_eq!(queue.take(now, 1), ['a']);
            assert!(queue.take(now, 1).is_empty(), "it is on its way");
            queue.done(now, 7, Err("no".into()));
            assert!(queue.take(now + wait - 1, 1).is_empty());
            now += wait;
        }
        assert_eq!((queue.tries(), queue.error(), queue.delivered()), (10, Some("no"), None));
        assert_eq!(queue.take(now, 1), ['a']);
        queue.done(now, 7, Ok(()));
        assert_eq!((queue.tries(), queue.error(), queue.delivered()), (0, None, Some(7)));
        assert_eq!(queue.take(now, 1), ['b']);
    }

    #[test]
    fn the_oldest_that_is_not_on_its_way_makes_place() {
        let mut queue = DeliveryQueue::default();
        (0..4).for_each(|number| assert!(queue.put(number, 4)));
        assert_eq!(queue.take(0, 2), [0, 1]);
        (4..6).for_each(|number| assert!(queue.put(number, 4), "two are on their way"));
        assert!(!queue.put(6, 4));
        queue.done(0, 0, Ok(()));
        assert_eq!((queue.take(0, 9), queue.lost()), (vec![3, 4, 5, 6], 1));
    }

    #[test]
    fn several_that_failed_together_are_sent_again_with_what_came_after_them() {
        let mut queue = DeliveryQueue::default();
        (0..3).for_each(|number| assert!(queue.put(number, 9)));
        assert_eq!(queue.take(0, 2), [0, 1]);
        queue.done(0, 0, Err("no".into()));
        assert!(queue.put(3, 9));
        assert_eq!(queue.take(2, 9), [0, 1, 2, 3]);
        queue.done(2, 0, Ok(()));
        assert_eq!((queue.waiting(), queue.take(2, 9)), (0, vec![]));
        assert_eq!(queue.tries(), 0, "nothing was on its way");
    }
}
