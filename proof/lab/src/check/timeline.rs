//! What may be true of a unit when: its size, and which host has reserved it. One change at a time is under way.

use super::history::Tick;

/// States in the order of the changes that made them.
#[derive(Clone, Debug)]
pub struct Timeline<T> {
    states: Vec<Since<T>>,
}

#[derive(Clone, Debug)]
struct Since<T> {
    state: T,
    /// When the change was asked for.
    from: Tick,
    /// When it was confirmed; `None` if it is under way, or got no answer.
    settled: Option<Tick>,
}

impl<T: Copy + PartialEq> Timeline<T> {
    /// This is true from the beginning.
    pub fn new(state: T) -> Self {
        Self { states: vec![Since { state, from: 0, settled: Some(0) }] }
    }

    /// A change is asked for.
    pub fn begin(&mut self, state: T, now: Tick) {
        self.states.push(Since { state, from: now, settled: None });
    }

    /// The last change is confirmed.
    pub fn settle(&mut self, now: Tick) {
        if let Some(last) = self.states.last_mut() {
            last.settled = last.settled.or(Some(now));
        }
    }

    /// What was asked for last.
    pub fn last(&self) -> Option<T> {
        self.states.last().map(|last| last.state)
    }

    /// Everything that may be true at some moment from `invoked` to `returned`.
    pub fn possible(&self, invoked: Tick, returned: Tick) -> impl Iterator<Item = T> + '_ {
        // A state may last until a later one was confirmed.
        let mut until = Tick::MAX;
        self.states.iter().rev().filter_map(move |since| {
            let possible = since.from <= returned && invoked <= until;
            until = since.settled.map_or(until, |settled| until.min(settled));
            possible.then_some(since.state)
        })
    }

    /// Forgets what can't be true from now on.
    pub fn forget(&mut self, now: Tick) {
        let settled =
            self.states.iter().rposition(|since| since.settled.is_some_and(|settled| settled < now));
        self.states.drain(..settled.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_may_last_until_the_next_one_is_confirmed() {
        let mut timeline = Timeline::new('a');
        timeline.begin('b', 10);
        let possible = |timeline: &Timeline<char>, from, to| timeline.possible(from, to).collect::<String>();
        assert_eq!(possible(&timeline, 5, 9), "a");
        assert_eq!(possible(&timeline, 5, 10), "ba");
        assert_eq!(possible(&timeline, 50, 60), "ba", "it is still under way");
        timeline.settle(20);
        assert_eq!(possible(&timeline, 20, 30), "ba");
        assert_eq!(possible(&timeline, 21, 30), "b");
        // One without an answer leaves both open until the next one is confirmed.
        timeline.begin('d', 60);
        timeline.begin('e', 70);
        timeline.settle(80);
        assert_eq!(possible(&timeline, 71, 79), "edb");
        assert_eq!(possible(&timeline, 81, 90), "e");
        timeline.forget(90);
        assert_eq!(possible(&timeline, 81, 90), "e");
        assert_eq!(timeline.states.len(), 1);
    }
}
