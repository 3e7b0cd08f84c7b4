//! A path: a port of an adapter, a full-duplex link, and interrupts with optional coalescing.

use super::{Tag, Time};

/// A path.
#[derive(Debug, Default)]
pub struct Path {
    sends_until: Time,
    receives_until: Time,
    /// Results that have arrived or are on the link, with their time of arrival.
    arrived: Vec<(Time, Tag)>,
    /// Time of the next interrupt for coalesced results.
    interrupts: Option<Time>,
}

/// Time at which bytes handed over now have passed a link that is busy until then.
fn through(now: Time, busy: &mut Time, bytes: u64, link: u64) -> Time {
    if link == 0 {
        return now;
    }
    let time = u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(link)).unwrap_or(Time::MAX);
    *busy = now.max(*busy) + time;
    *busy
}

impl Path {
    /// Time at which bytes sent now have left.
    pub fn send(&mut self, now: Time, bytes: u64, link: u64) -> Time {
        through(now, &mut self.sends_until, bytes, link)
    }

    /// Time at which bytes sent by the array now have arrived.
    pub fn receive(&mut self, now: Time, bytes: u64, link: u64) -> Time {
        through(now, &mut self.receives_until, bytes, link)
    }

    /// Takes a result with its time of arrival; returns the time of an interrupt, if a new one is needed.
    pub fn collect(&mut self, tag: Tag, arrives: Time, coalescing: Time) -> Option<Time> {
        self.arrived.push((arrives, tag));
        let time = arrives + coalescing;
        if coalescing > 0 && self.interrupts.is_some_and(|known| arrives <= known) {
            return None;
        }
        self.interrupts = Some(time);
        Some(time)
    }

    /// Results delivered by an interrupt.
    pub fn interrupt(&mut self, now: Time) -> Vec<Tag> {
        if self.interrupts.is_some_and(|time| time <= now) {
            self.interrupts = None;
        }
        let (mut here, later): (Vec<_>, Vec<_>) = self.arrived.drain(..).partition(|(time, _)| *time <= now);
        self.arrived = later;
        here.sort_unstable();
        here.into_iter().map(|(_, tag)| tag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_takes_one_thing_after_the_other_in_each_direction() {
        let mut path = Path::default();
        // 1000 bytes per second: a byte takes a millisecond.
        assert_eq!(path.send(0, 10, 1000), 10_000_000);
        assert_eq!(path.send(0, 10, 1000), 20_000_000);
        assert_eq!(path.receive(0, 5, 1000), 5_000_000);
        assert_eq!(path.send(100_000_000, 10, 1000), 110_000_000);
        assert_eq!(path.send(7, 10, 0), 7);
    }

    #[test]
    fn answers_are_collected_until_the_interrupt() {
        let mut path = Path::default();
        assert_eq!(path.collect(1, 10, 100), Some(110));
        assert_eq!(path.collect(2, 50, 100), None);
        assert_eq!(path.collect(3, 200, 100), Some(300));
        assert_eq!(path.interrupt(110), [1, 2]);
        assert_eq!(path.interrupt(300), [3]);
        assert_eq!(path.collect(4, 400, 0), Some(400));
        assert_eq!(path.collect(5, 400, 0), Some(400));
        assert_eq!(path.interrupt(400), [4, 5]);
    }
}
