//! What goes on behind the acknowledgements, one step at a time.

use crate::engine::Engine;
use std::future::Future;
use std::sync::atomic::Ordering;

impl Engine {
    /// The background work. Whoever opened the engine drives this future, on a thread of its own if there is one;
    /// it ends after [`Engine::shutdown`], or when the engine stopped.
    pub fn background(&self) -> impl Future<Output = ()> + Send + 'static {
        let core = self.core.clone();
        async move {
            while core.journal.stopped().is_none() && !core.stopping.load(Ordering::Acquire) {
                core.room.freed();
                core.signal.wait().await;
            }
        }
    }

    /// Stops taking changes, and answers when everything that was taken is durable. Reads go on.
    pub async fn shutdown(&self) -> block::Result<()> {
        self.core.stopping.store(true, Ordering::Release);
        self.core.signal.notify();
        let last = self.core.journal.lock().cut() - 1;
        self.core.journal.until(last).await
    }
}
