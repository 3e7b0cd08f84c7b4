//! Requests that take long: a bounded number of them runs at a time, on threads of their own, so that a request that is cheap
//! never waits for a long list.

use crate::problem::Problem;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The most requests of this kind that run at a time; others wait. More would take processor time from hosts' I/O.
const MAX_RUNNING: usize = 2;

/// Runs what takes long.
#[derive(Clone)]
pub struct Heavy(Arc<Semaphore>);

impl Default for Heavy {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_RUNNING)))
    }
}

impl Heavy {
    /// Runs work on a blocking thread as soon as there is room for it. It runs to its end even if the caller goes away.
    ///
    /// # Errors
    /// When it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let broke_off =
            |error: &dyn std::fmt::Display| Problem::internal(format!("the request broke off: {error}"));
        let room = self.0.clone().acquire_owned().await.map_err(|error| broke_off(&error))?;
        let work = move || {
            let done = work();
            drop(room);
            done
        };
        tokio::task::spawn_blocking(work).await.map_err(|error| broke_off(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_bounded_number_runs_at_a_time_and_the_runtime_stays_free() {
        let heavy = Heavy::default();
        let (begun, running) = mpsc::channel();
        let (end, wait) = mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let all: Vec<_> = (0..MAX_RUNNING + 1)
            .map(|_| {
                let (heavy, begun, wait) = (heavy.clone(), begun.clone(), wait.clone());
                tokio::spawn(async move {
                    let work = move || {
                        begun.send(()).expect("the test waits");
                        wait.lock().expect("no panic").recv().expect("the test ends it");
                    };
                    heavy.run(work).await.expect("it runs");
                })
            })
            .collect();
        while heavy.0.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        // A cheap request is answered although as much runs as may.
        tokio::spawn(async {}).await.expect("it is polled");
        assert!(heavy.0.clone().try_acquire_owned().is_err());
        (0..all.len()).for_each(|_| end.send(()).expect("they wait"));
        for one in all {
            one.await.expect("it ends");
        }
        assert_eq!(running.try_iter().count(), MAX_RUNNING + 1);
    }
}
