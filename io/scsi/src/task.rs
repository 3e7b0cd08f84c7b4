//! A task that goes on after [`Nexus::execute`](crate::Nexus::execute) returned, and its abort from anywhere.
//!
//! The work sits in a cell under a lock. Whoever aborts takes the work out and drops it; by the contract of
//! [`Disk`](block::Disk) it then has taken effect whole or never will. So an abort is certain once it returned.

use crate::command::Flow;
use crate::unit::{CommandInfo, Path, TaskSetEntry};
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
    /// At work; the pass keeps its place in the order of the unit's tasks.
    Running { work: Flow, _pass: Option<TaskSetEntry>, waker: Option<Waker> },
    /// Aborted; what the initiator is told, if anything.
    Aborted(Option<Status>),
    /// Answered.
    Over,
}

impl Task {
    pub(crate) fn new(
        tag: u64,
        path: Arc<Path>,
        work: Flow,
        pass: Option<TaskSetEntry>,
        info: CommandInfo,
    ) -> Arc<Task> {
        let state = Mutex::new(State::Running { work, _pass: pass, waker: None });
        Arc::new(Task { tag, info, path, state })
    }

    /// Ends the task: when this returns it has taken effect whole, or never will. `status` is what its initiator is
    /// told; none when its response is not wanted.
    pub(crate) fn abort(&self, status: Option<Status>) {
        let before = {
            let mut state = self.state.lock();
            match *state {
                State::Running { .. } => std::mem::replace(&mut *state, State::Aborted(status)),
                State::Aborted(_) | State::Over => return,
            }
        };
        if let State::Running { work, _pass, waker } = before {
            drop(work);
            drop(_pass);
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
                return Poll::Ready(status.map(|status| Response {
                    status,
                    sense: Default::default(),
                    data_in: Default::default(),
                    data_out_wanted: self.info.data_out_wanted,
                }));
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
