//! Idle work: index rebuild and recompression while hosts leave the array alone.
//!
//! Both only save space later, so they run when hosts asked for nothing lately, and end after the current step when a
//! host does.

use crate::appender::Appender;
use crate::core::Core;
use crate::reducer::{Recompression, Reducer};
use crate::wake::either;
use std::future::Future;
use std::sync::Arc;

/// How long the background rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A few milliseconds: changes that follow each other closely are seen together, and hosts are served between the steps
    /// of idle work.
    Short,
    /// About two seconds: blocks that are written in this time are flushed together.
    Gather,
    /// About a second: an array that served no host in that time is idle.
    Long,
}

/// What waits for the array to be idle.
pub struct IdleWork {
    core: Arc<Core>,
    recompression: Recompression,
    /// The hosts' activity when it was last looked at.
    activity: u64,
    /// There was no activity during a long rest.
    quiet: bool,
}

impl IdleWork {
    /// Everything may have to be recompressed.
    pub fn new(core: Arc<Core>) -> Self {
        Self { recompression: Recompression::everything(core.clone()), core, activity: 0, quiet: false }
    }

    /// Notes a frame that was flushed.
    pub fn note_new_frame(&mut self, volume: u32, block: u64) {
        self.recompression.note(volume, block);
    }

    /// Whether recompression continues only after a checkpoint; asking takes the request.
    pub fn take_checkpoint_request(&mut self) -> bool {
        self.recompression.take_checkpoint_request()
    }

    /// Whether there is something to do, and room for it.
    pub fn has_work(&self, reducer: &Reducer, appender: &Appender) -> bool {
        !reducer.is_index_complete() || self.recompression.may_run(appender)
    }

    /// How long to rest before the next step. Recompression, which is much work, begins after a long rest.
    pub fn next_rest(&mut self, reducer: &Reducer) -> Rest {
        let activity = self.core.activity.total();
        self.quiet &= std::mem::replace(&mut self.activity, activity) == activity;
        if self.quiet || !reducer.is_index_complete() { Rest::Short } else { Rest::Long }
    }

    /// Rests, and takes a step if hosts were quiet during the rest. True if the rest ended early, as there is
    /// something to flush or an operation waits for the background. `left_dirty` is the dirty metadata in bytes that
    /// the last checkpoint left.
    pub async fn run(
        &mut self,
        rest: impl Future<Output = ()>,
        reducer: &mut Reducer,
        appender: &mut Appender,
        left_dirty: u64,
    ) -> block::Result<bool> {
        let before = self.activity;
        let disturbed = either(self.core.signal.wait(), rest).await;
        self.activity = self.core.activity.total();
        if disturbed || self.activity != before {
            self.quiet = false;
        } else if !reducer.is_index_complete() {
            reducer.rebuild_index_step().await;
        } else {
            self.quiet = true;
            self.recompression.step(reducer, appender, left_dirty).await?;
        }
        Ok(disturbed)
    }
}
