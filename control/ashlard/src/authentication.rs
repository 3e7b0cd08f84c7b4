//! The thread for the finite-field work of DH-HMAC-CHAP, so that it takes no time of shards. Anyone who knows the name of a host can
//! ask for this work: there is one such thread, and it serves addresses in turn.

use anyhow::Result;
use machine::threads::named;
use nvmf::{Work, Worker};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

/// Work that waits. Each connection has one piece at most, so it is bounded as they are.
#[derive(Default)]
struct Waiting {
    by_address: BTreeMap<IpAddr, VecDeque<Work>>,
    /// The address that was served last.
    last: Option<IpAddr>,
}

impl Waiting {
    fn add(&mut self, from: IpAddr, work: Work) {
        self.by_address.entry(from).or_default().push_back(work);
    }

    /// The first piece of the address after the last one.
    fn next(&mut self) -> Option<Work> {
        let after = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut following = self.by_address.range((after, Bound::Unbounded));
        let address = *following.next().or_else(|| self.by_address.iter().next())?.0;
        self.last = Some(address);
        let waiting = self.by_address.get_mut(&address)?;
        let work = waiting.pop_front();
        if waiting.is_empty() {
            self.by_address.remove(&address);
        }
        work
    }
}

/// Starts the thread. It ends with the process.
pub fn start() -> Result<Worker> {
    let shared = Arc::new((Mutex::new(Waiting::default()), Condvar::new()));
    let served = shared.clone();
    named("authentication", move || {
        let (waiting, added) = &*served;
        loop {
            let work = {
                let mut waiting = waiting.lock();
                loop {
                    match waiting.next() {
                        Some(work) => break work,
                        None => added.wait(&mut waiting),
                    }
                }
            };
            work();
        }
    })?;
    Ok(Arc::new(move |from, work| {
        let (waiting, added) = &*shared;
        waiting.lock().add(from, work);
        added.notify_one();
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn an_address_with_much_work_waits_for_others() {
        let (mut waiting, done) = (Waiting::default(), Arc::<Mutex<Vec<u8>>>::default());
        let work = |id: u8| {
            let done = done.clone();
            Box::new(move || done.lock().push(id)) as Work
        };
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        (0..100).for_each(|_| waiting.add(address(2), work(2)));
        waiting.next().expect("work")();
        for other in [1, 3] {
            waiting.add(address(other), work(other));
            waiting.add(address(other), work(other));
        }
        while let Some(work) = waiting.next() {
            work();
        }
        let done = done.lock();
        assert_eq!(done[..7], [2, 3, 1, 2, 3, 1, 2]);
        assert_eq!(done.len(), 104);
        assert!(waiting.by_address.is_empty());
    }

    #[test]
    fn work_is_done_on_another_thread() {
        let worker = start().unwrap();
        let (sender, receiver) = channel();
        worker(
            IpAddr::from([10, 0, 0, 1]),
            Box::new(move || sender.send(std::thread::current().id()).unwrap()),
        );
        assert_ne!(receiver.recv().unwrap(), std::thread::current().id());
    }
}
