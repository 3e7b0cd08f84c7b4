//! OpenID Connect sign-ins in progress: browsers that were redirected to a provider and have not come back yet. Kept in
//! memory for minutes; after a restart the user signs in again.

use array::AuthorizationRequest;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// Name of the cookie that identifies the browser that began a sign-in.
pub const COOKIE: &str = "ashlar-sign-in";

/// How long a sign-in may take, in seconds: a second factor takes time.
pub const TIMEOUT_S: u64 = 600;

/// Sign-ins in progress at once; the oldest is dropped for a new one.
const MAX_PENDING: usize = 1000;

/// Concurrent requests to directories for callers that are not signed in.
const MAX_CONCURRENT_REQUESTS: usize = 4;

struct Pending {
    directory: String,
    request: AuthorizationRequest,
    /// Hash of the secret in the browser's cookie.
    browser: blake3::Hash,
    begun: u64,
}

/// Sign-ins in progress.
pub struct PendingSignIns {
    /// By the hash of the state that comes back.
    pending: Mutex<HashMap<blake3::Hash, Pending>>,
    /// Held while a directory is asked: a slow one must not take all threads.
    pub asking: Semaphore,
}

impl Default for PendingSignIns {
    fn default() -> Self {
        Self { pending: Mutex::default(), asking: Semaphore::new(MAX_CONCURRENT_REQUESTS) }
    }
}

impl PendingSignIns {
    /// Remembers a redirect. `browser`: the secret in its cookie; `now` in seconds of uptime.
    pub fn begin(&self, directory: &str, request: AuthorizationRequest, browser: &str, now: u64) {
        let mut pending = self.lock();
        pending.retain(|_, it| it.begun + TIMEOUT_S > now);
        if pending.len() >= MAX_PENDING {
            let oldest = pending.iter().min_by_key(|(_, it)| it.begun).map(|(key, _)| *key);
            oldest.and_then(|key| pending.remove(&key));
        }
        let (key, browser) = (hash(&request.state), hash(browser));
        pending.insert(key, Pending { directory: directory.into(), request, browser, begun: now });
    }

    /// Takes the request with this state if the same browser began it, and its directory. Succeeds once.
    pub fn end(&self, state: &str, browser: &str, now: u64) -> Option<(String, AuthorizationRequest)> {
        let found = self.lock().remove(&hash(state))?;
        // `Hash` compares in constant time.
        let same = found.browser == hash(browser) && found.begun + TIMEOUT_S > now;
        same.then_some((found.directory, found.request))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<blake3::Hash, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(secret: &str) -> blake3::Hash {
    blake3::hash(secret.as_bytes())
}
