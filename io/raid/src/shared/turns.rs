//! Queue of operations that change records on a drive, so that they run one after the other.

use crate::{Done, Error, Result, wait};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of operations that wait for a silent drive.
const MAX_WAITING: usize = 16;

/// A queue for one drive.
#[derive(Default)]
pub struct Turns(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    is_taken: bool,
    waiting: VecDeque<Done<()>>,
}

/// The right to act; dropping it passes the turn on.
pub struct Turn(Arc<Turns>);

impl Turns {
    /// Waits for a turn. The future must run to completion.
    pub async fn take(self: &Arc<Self>) -> Result<Turn> {
        let came = {
            let mut queue = self.0.lock();
            if queue.waiting.len() >= MAX_WAITING {
                return Err(Error::Drive { what: "the drive does not reply".into() });
            }
            if std::mem::replace(&mut queue.is_taken, true) {
                let (done, came) = wait();
                queue.waiting.push_back(done);
                Some(came)
            } else {
                None
            }
        };
        if let Some(came) = came {
            came.await?;
        }
        Ok(Turn(self.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.0.0.lock();
            let next = queue.waiting.pop_front();
            queue.is_taken = next.is_some();
            next
        };
        if let Some(done) = next {
            done(Ok(()));
        }
    }
}
