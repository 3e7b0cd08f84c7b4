//! Browsers that were sent to a directory, until they come back: in memory, for minutes. A restart ends the journey, not
//! more.

use array::Journey;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Name of the cookie that says which browser began a journey.
pub const COOKIE: &str = "ashlar-sign-in";

/// How long a journey may take, in seconds: people look for their telephones.
pub const LONGEST: u64 = 600;

/// Most journeys at once; the oldest makes place.
const MOST: usize = 1000;

/// Most requests to directories at once, for all who are not signed in yet.
const AT_ONCE: usize = 4;

struct Pending {
    directory: String,
    journey: Journey,
    /// Hash of the secret in the browser's cookie.
    browser: blake3::Hash,
    begun: u64,
}

/// Journeys under way.
pub struct Journeys {
    /// By the hash of the state that comes back.
    pending: Mutex<HashMap<blake3::Hash, Pending>>,
    /// Held while a directory is asked: a slow one must not take all threads.
    pub asking: Semaphore,
}

impl Default for Journeys {
    fn default() -> Self {
        Self { pending: Mutex::default(), asking: Semaphore::new(AT_ONCE) }
    }
}

impl Journeys {
    /// Remembers a journey. `browser`: the secret in its cookie; `now` in seconds of uptime.
    pub fn begin(&self, directory: &str, journey: Journey, browser: &str, now: u64) {
        let mut pending = self.lock();
        pending.retain(|_, it| it.begun + LONGEST > now);
        if pending.len() >= MOST {
            let oldest = pending.iter().min_by_key(|(_, it)| it.begun).map(|(key, _)| *key);
            oldest.and_then(|key| pending.remove(&key));
        }
        let (key, browser) = (hash(&journey.state), hash(browser));
        pending.insert(key, Pending { directory: directory.into(), journey, browser, begun: now });
    }

    /// The journey that ends with this state in the browser that began it, and its directory. It ends once.
    pub fn end(&self, state: &str, browser: &str, now: u64) -> Option<(String, Journey)> {
        let found = self.lock().remove(&hash(state))?;
        // `Hash` compares in constant time.
        let same = found.browser == hash(browser) && found.begun + LONGEST > now;
        same.then_some((found.directory, found.journey))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<blake3::Hash, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(secret: &str) -> blake3::Hash {
    blake3::hash(secret.as_bytes())
}
