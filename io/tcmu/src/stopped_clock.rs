//! A stopped clock, for tests.

use export::{Clock, Sleep};

pub struct Stopped;

impl Clock for Stopped {
    fn now(&self) -> u64 {
        0
    }

    fn sleep_until(&self, _: u64) -> Sleep {
        Box::pin(std::future::ready(()))
    }
}
