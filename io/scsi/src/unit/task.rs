//! A task that continues after [`Nexus::execute`](crate::Nexus::execute) has returned, and its abort from any thread.
//!
//! The work is under a lock. An abort takes it out and drops it; by the contract of [`Disk`](block::Disk) it has then
//! taken effect whole or never will. So an abort is complete when it returns.

use crate::unit::command::Flow;
use crate::unit::gate::TaskSetEntry;
use crate::unit::path::Path;
use crate::unit::response::CommandInfo;
use crate::{Response, Status};
use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// One task of a path's task set.
pub(crate) struct Task {
    /// The initiator's tag.
    pub(crate) tag: u64,
    info: CommandInfo,
    path: Arc<Path>,
    state: Mutex<State>,
}

enum State {
    /// In progress; the entry keeps it in the task set of the unit.
    Running { work: Flow, _entry: Option<TaskSetEntry>, waker: Option<Waker> },
    /// Aborted, with the status for the initiator; `None` if it gets no response.
    Aborted(Option<Status>),
    /// Completed.
    Over,
}

impl Task {
    pub(crate) fn new(
        tag: u64,
        path: Arc<Path>,
        work: Flow,
        entry: Option<TaskSetEntry>,
        info: CommandInfo,
    ) -> Arc<Task> {
        let state = Mutex::new(State::Running { work, _entry: entry, waker: None });
        Arc::new(Task { tag, info, path, state })
    }

    /// Aborts the task: when this returns, it has taken effect whole or never will. `status` is the status for its
    /// initiator; `None` if no response is wanted.
    pub(crate) fn abort(&self, status: Option<Status>) {
        let before = {
            let mut state = self.state.lock();
            match *state {
                State::Running { .. } => std::mem::replace(&mut *state, State::Aborted(status)),
                State::Aborted(_) | State::Over => return,
            }
        };
        if let State::Running { work, _entry, waker } = before {
            drop(work);
            drop(_entry);
            self.path.count_abort(&self.info);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Response>> {
        let mut state = self.state.lock();
        let end = match &mut *state {
            State::Running { work, waker, .. } => match work.poll(context) {
                Poll::Pending => {
                    if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                        *waker = Some(context.waker().clone());
                    }
                    return Poll::Pending;
                }
                Poll::Ready(end) => end,
            },
            State::Aborted(status) => {
                let data_out_wanted = self.info.data_out_wanted;
                let respond = |status| Response { data_out_wanted, ..Response::with_status(status) };
                return Poll::Ready(status.map(respond));
            }
            State::Over => return Poll::Ready(None),
        };
        let before = std::mem::replace(&mut *state, State::Over);
        drop(state);
        drop(before);
        Poll::Ready(Some(self.path.respond(end, &self.info)))
    }
}

/// The future of a task, as the transport holds it. Dropping it aborts.
pub(crate) struct Running {
    task: Arc<Task>,
    over: bool,
}

impl Running {
    pub(crate) fn new(task: Arc<Task>) -> Self {
        Running { task, over: false }
    }
}

impl Future for Running {
    type Output = Option<Response>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Response>> {
        let end = self.task.poll(context);
        if end.is_ready() {
            self.over = true;
            self.task.path.forget(&self.task);
        }
        end
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.over {
            self.task.abort(None);
            self.task.path.forget(&self.task);
        }
    }
}
