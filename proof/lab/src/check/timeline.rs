//! Possible states of a unit over time: its size, and its reservation. One change at a time is in progress.

use super::history::Tick;

/// States in the order of the changes.
#[derive(Clone, Debug)]
pub struct Timeline<T> {
    states: Vec<Since<T>>,
}

#[derive(Clone, Debug)]
struct Since<T> {
    state: T,
    /// Time of the request.
    from: Tick,
    /// Time of the confirmation; `None` if the change is in progress or has no response.
    settled: Option<Tick>,
}

impl<T: Copy + PartialEq> Timeline<T> {
    /// The initial state.
    pub fn new(state: T) -> Self {
        Self { states: vec![Since { state, from: 0, settled: Some(0) }] }
    }

    /// Notes the request of a change.
    pub fn begin(&mut self, state: T, now: Tick) {
        self.states.push(Since { state, from: now, settled: None });
    }

    /// Notes the confirmation of the last change.
    pub fn settle(&mut self, now: Tick) {
        if let Some(last) = self.states.last_mut() {
            last.settled = last.settled.or(Some(now));
        }
    }

    /// The last requested state.
    pub fn last(&self) -> Option<T> {
        self.states.last().map(|last| last.state)
    }

    /// All possible states between `invoked` and `returned`.
    pub fn possible(&self, invoked: Tick, returned: Tick) -> impl Iterator<Item = T> + '_ {
        // A state may last until a later one was confirmed.
        let mut until = Tick::MAX;
        self.states.iter().rev().filter_map(move |since| {
            let possible = since.from <= returned && invoked <= until;
            until = since.settled.map_or(until, |settled| until.min(settled));
            possible.then_some(since.state)
        })
    }

    /// Removes states that are impossible from now on.
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
        // A change without a response leaves both states possible until the next one is confirmed.
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
