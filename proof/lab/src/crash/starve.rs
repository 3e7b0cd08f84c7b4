//! Competition for processors: computing threads, so that the array's threads are suspended at any point for a
//! scheduler's time slice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Threads that keep processors busy until the drop.
pub struct BusyThreads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl BusyThreads {
    /// Starts the threads.
    pub fn start(count: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Self { threads: threads.collect(), stop }
    }
}

impl Drop for BusyThreads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that only spins can't have panicked.
            let _ = thread.join();
        }
    }
}
