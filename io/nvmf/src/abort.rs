//! Abort of commands of one queue (NVM Express Base 2.0 clause 5.1). The admin queue receives the request; the
//! connection of the queue, which alone knows its commands, performs it.

use crate::spec::MAX_ABORTS;
use crate::sqe::Outcome;
use crate::status::Status;
use parking_lot::Mutex;
use std::task::{Context, Waker};
use tokio::sync::oneshot::{Sender, channel};

/// Dword 0 of the completion: the command was not aborted.
const NOT_ABORTED: u64 = 1;

/// Abort requests for one queue, until its connection takes them.
#[derive(Default)]
pub(crate) struct Aborts(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    requests: Vec<Request>,
    waker: Option<Waker>,
}

/// An abort of one command.
pub(crate) struct Request {
    pub(crate) cid: u16,
    done: Sender<bool>,
}

impl Request {
    /// Reports whether the command was aborted.
    pub(crate) fn answer(self, aborted: bool) {
        // The connection of the host may have ended.
        let _gone = self.done.send(aborted);
    }
}

impl Aborts {
    /// Requests the abort of a command. The returned future yields the completion of the Abort; no command is aborted
    /// if the queue has no connection.
    pub(crate) fn request(&self, cid: u16) -> Result<impl Future<Output = Outcome> + use<>, Status> {
        let (done, result) = channel();
        {
            let mut waiting = self.0.lock();
            if waiting.requests.len() >= MAX_ABORTS {
                return Err(Status::ABORT_LIMIT);
            }
            waiting.requests.push(Request { cid, done });
            waiting.waker.take().into_iter().for_each(Waker::wake);
        }
        Ok(async move { outcome(result.await.unwrap_or(false)) })
    }

    /// Takes the pending requests; wakes the context when more arrive.
    pub(crate) fn take(&self, cx: &mut Context<'_>) -> Vec<Request> {
        let mut waiting = self.0.lock();
        if !waiting.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            waiting.waker = Some(cx.waker().clone());
        }
        std::mem::take(&mut waiting.requests)
    }
}

/// The completion of an Abort.
pub(crate) fn outcome(aborted: bool) -> Outcome {
    if aborted { Outcome::success() } else { Outcome::result(NOT_ABORTED) }
}
