//! A client of a real cluster: what librados returns, as the store wants it.
//!
//! Operations and reads complete on threads of librados. What librados can only do while it blocks (listing, questions to
//! the monitors) is done by a thread of the client's own.

use crate::library::{Access, Connection, Errno, Space, message};
use crate::objects::{Attributes, Name, ObjectError, Objects, Operation, Pool, Usage};
use bytes::Bytes;
use serde_json::Value;
use shelf::pool::BoxFuture;
use shelf::{Done, Error, Result, Wait, wait};
use std::cell::Cell;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// How long the blocklist names a client that was fenced. Its objects refuse it in any case.
const FENCED_SECONDS: u32 = 24 * 3600;

/// What is set besides the configuration file. An operation waits for the cluster as long as it takes, but a start and
/// questions to the monitors end; and librados does not hold up the threads that make requests, whose number the engine
/// bounds.
const OPTIONS: &[(&str, &str)] = &[
    ("rados_osd_op_timeout", "0"),
    ("rados_mon_op_timeout", "30"),
    ("client_mount_timeout", "30"),
    ("objecter_inflight_ops", "0"),
    ("objecter_inflight_op_bytes", "0"),
];

/// Location of an array in Ceph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The configuration file.
    pub conf: String,
    /// The user, without `client.`.
    pub id: String,
    /// The pool of superblocks and journal.
    pub meta: String,
    /// The pool of segments.
    pub data: String,
    /// The namespace of the array in both.
    pub namespace: String,
}

/// A client in the namespace of one array.
pub struct Client {
    /// There until the client is dropped, as the next two.
    inside: Option<Arc<Inside>>,
    /// Jobs for the thread; it ends when there can be no more.
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    instance: String,
    alignment: u64,
    tolerates: usize,
}

type Job = Box<dyn FnOnce(&Inside) + Send>;

struct Inside {
    location: Location,
    connection: Arc<Connection>,
    spaces: [Space; 2],
}

thread_local! {
    /// True while a callback runs on this thread: the connection can't be ended by it.
    static CALLED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a callback.
fn call_back(callback: impl FnOnce()) {
    let before = CALLED_BACK.replace(true);
    callback();
    CALLED_BACK.set(before);
}

impl Inside {
    fn pool(&self, pool: Pool) -> (&Space, &str) {
        match pool {
            Pool::Meta => (&self.spaces[0], &self.location.meta),
            Pool::Data => (&self.spaces[1], &self.location.data),
        }
    }

    /// The monitors' answer to a command without arguments.
    fn ask(&self, prefix: &str, more: &str) -> std::result::Result<Value, ObjectError> {
        let command = format!(r#"{{"prefix":"{prefix}",{more}"format":"json"}}"#);
        let failed = |what: String| ObjectError::Failed(format!("`ceph {prefix}`: {what}"));
        let answer = self.connection.command(&command);
        let answer = answer.map_err(|(errno, said)| failed(format!("{} {said}", message(errno))))?;
        serde_json::from_slice(&answer).map_err(|error| failed(error.to_string()))
    }

    fn list(&self, pool: Pool) -> std::result::Result<Vec<String>, ObjectError> {
        let (space, name) = self.pool(pool);
        space.list().map_err(|errno| failure(name, errno))
    }

    fn usage(&self, pool: Pool) -> std::result::Result<Usage, ObjectError> {
        let (_, name) = self.pool(pool);
        let answer = self.ask("df", r#""detail":"detail","#)?;
        let pools = answer["pools"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = pools.iter().find(|pool| pool["name"] == name).map(|pool| &pool["stats"]);
        let number = |field: &str| found.and_then(|stats| stats[field].as_u64());
        let (Some(stored), Some(available)) = (number("stored"), number("max_avail")) else {
            return Err(ObjectError::Failed(format!("`ceph df` does not say how full the pool {name} is")));
        };
        let quota = number("quota_bytes").filter(|quota| *quota > 0);
        let within = quota.map_or(u64::MAX, |quota| quota.saturating_sub(stored));
        Ok(Usage { available: available.min(within), stored })
    }

    fn fence(&self, instance: &str) -> std::result::Result<(), ObjectError> {
        let failed =
            |errno| ObjectError::Failed(format!("`ceph osd blocklist add {instance}`: {}", message(errno)));
        self.connection.block(instance, FENCED_SECONDS).map_err(failed)
    }
}

fn failure(pool: &str, errno: Errno) -> ObjectError {
    match -errno {
        2 => ObjectError::Absent,
        17 => ObjectError::Exists,
        28 | 122 => ObjectError::Full,
        108 => ObjectError::Blocklisted,
        125 => ObjectError::Guard,
        1 | 13 => ObjectError::Failed(format!(
            "pool {pool}: {}; the user needs the capability osd 'allow rwx pool={pool}'",
            message(errno)
        )),
        _ => ObjectError::Failed(format!("pool {pool}: {}", message(errno))),
    }
}

/// Failures that a pool survives, from `ceph osd dump`. An erasure-coded pool is not for journals.
fn redundancy(dump: &Value, name: &str, journal: bool) -> Result<usize> {
    let refuse = |what: String| Error::Unusable(format!("the pool {name} can't be used: {what}"));
    let pools = dump["pools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pool = pools.iter().find(|pool| pool["pool_name"] == name);
    let pool = pool.ok_or_else(|| refuse("`ceph osd dump` does not name it".into()))?;
    let size = pool["size"].as_u64().unwrap_or(1) as usize;
    if pool["type"].as_u64() != Some(3) {
        return Ok(size.saturating_sub(1));
    }
    if journal {
        return Err(refuse(
            "it is erasure-coded, and the journal needs a replicated pool: give a replicated pool first, and this one \
             for segments, as in --rados META,DATA"
                .into(),
        ));
    }
    let profile = pool["erasure_code_profile"].as_str().unwrap_or_default();
    let data = dump["erasure_code_profiles"][profile]["k"].as_str().and_then(|k| k.parse().ok());
    Ok(size.saturating_sub(data.unwrap_or(size)))
}

impl Client {
    /// Connects. Blocks until the cluster has answered.
    ///
    /// # Errors
    /// [`Error::Unusable`] with what to do: librados or the configuration is missing, no monitor answers, the user is
    /// unknown, a pool does not exist, or the journal's is erasure-coded.
    pub fn connect(location: Location) -> Result<Arc<Self>> {
        let access = Access { conf: &location.conf, id: &location.id, options: OPTIONS };
        let connection = Connection::open(&access).map_err(Error::Unusable)?;
        let open = |pool: &str| {
            connection.space(pool, &location.namespace).map_err(|errno| {
                Error::Unusable(match errno {
                    -2 => format!(
                        "there is no pool {pool} in the Ceph cluster of {}: create it with `ceph osd pool create {pool}`",
                        location.conf
                    ),
                    errno => format!("the pool {pool} can't be opened: {}", message(errno)),
                })
            })
        };
        let spaces = [open(&location.meta)?, open(&location.data)?];
        let instance = connection.instance();
        let instance =
            instance.map_err(|errno| Error::Unusable(format!("no address in Ceph: {}", message(errno))))?;
        let alignment = spaces[1].alignment();
        let alignment = alignment.map_err(|errno| {
            Error::Unusable(format!("the alignment of pool {}: {}", location.data, message(errno)))
        })?;
        let inside = Arc::new(Inside { location, connection, spaces });
        let dump = inside.ask("osd dump", "").map_err(|error| Error::Unusable(error.to_string()))?;
        let tolerates = redundancy(&dump, &inside.location.meta, true)?.min(redundancy(
            &dump,
            &inside.location.data,
            false,
        )?);
        let (jobs, queue) = mpsc::channel::<Job>();
        let of_thread = inside.clone();
        let thread = std::thread::Builder::new().name("rados".into()).spawn(move || {
            // Ends when the client is dropped; what is last here ends the connection.
            while let Ok(job) = queue.recv() {
                call_back(|| job(&of_thread));
            }
            drop(of_thread);
        });
        let thread =
            thread.map_err(|error| Error::Unusable(format!("the thread rados can't be started: {error}")))?;
        let (inside, jobs, thread) = (Some(inside), Some(jobs), Some(thread));
        Ok(Arc::new(Self { inside, jobs, thread, instance, alignment, tolerates }))
    }

    /// Its location.
    pub fn location(&self) -> &Location {
        &self.inside().location
    }

    fn inside(&self) -> &Inside {
        self.inside.as_deref().expect("it is there until the client is dropped")
    }

    /// Runs something that blocks on the client's thread.
    fn blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Inside) -> std::result::Result<T, ObjectError> + Send + 'static,
    ) -> BoxFuture<'static, std::result::Result<T, ObjectError>> {
        let (done, answer) = wait();
        if let Some(jobs) = &self.jobs {
            // A thread that has ended drops the job, and the answer says so.
            _ = jobs.send(Box::new(move |inside| done(Ok(job(inside)))));
        }
        answered(answer)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // An operation without an answer keeps its thread until there is one, without a waiter. A callback can't wait
        // either, as librados waits for it.
        let waits = self.inside().connection.is_idle() && !CALLED_BACK.get();
        // In this order the thread has the connection last.
        (self.inside, self.jobs) = (None, None);
        if let Some(thread) = self.thread.take()
            && waits
        {
            _ = thread.join();
        }
    }
}

/// The answer, or that there will be none.
fn answered<T: Send + 'static>(
    answer: Wait<std::result::Result<T, ObjectError>>,
) -> BoxFuture<'static, std::result::Result<T, ObjectError>> {
    let closed = |_| Err(ObjectError::Failed("the connection to the cluster was closed".into()));
    Box::pin(async move { answer.await.unwrap_or_else(closed) })
}

/// A callback for the library, and the answer that it gives.
#[allow(clippy::type_complexity, reason = "it is the library's callback, and a future")]
fn expect<T: Send + 'static, U: Send + 'static>(
    inside: &Inside,
    pool: Pool,
    turn: impl FnOnce(T) -> U + Send + 'static,
) -> (
    Box<dyn FnOnce(std::result::Result<T, Errno>) + Send>,
    BoxFuture<'static, std::result::Result<U, ObjectError>>,
) {
    let (done, answer): (Done<std::result::Result<U, ObjectError>>, _) = wait();
    let pool = inside.pool(pool).1.to_owned();
    let called = move |outcome: std::result::Result<T, Errno>| {
        call_back(|| done(Ok(outcome.map(turn).map_err(|errno| failure(&pool, errno)))));
    };
    (Box::new(called), answered(answer))
}

impl Objects for Client {
    fn operate(
        &self,
        name: &Name,
        operation: Operation,
    ) -> BoxFuture<'static, std::result::Result<(), ObjectError>> {
        let (done, answer) = expect(self.inside(), name.pool, |()| ());
        self.inside().pool(name.pool).0.operate(&name.name, operation, done);
        answer
    }

    fn read(
        &self,
        name: &Name,
        offset: u64,
        len: u64,
    ) -> BoxFuture<'static, std::result::Result<Bytes, ObjectError>> {
        let (done, answer) = expect(self.inside(), name.pool, Bytes::from);
        self.inside().pool(name.pool).0.read(&name.name, (offset, len as usize), done);
        answer
    }

    fn attributes(&self, name: &Name) -> BoxFuture<'static, std::result::Result<Attributes, ObjectError>> {
        let (done, answer) = expect(self.inside(), name.pool, |found| found);
        self.inside().pool(name.pool).0.attributes(&name.name, done);
        answer
    }

    fn list(&self, pool: Pool) -> BoxFuture<'static, std::result::Result<Vec<String>, ObjectError>> {
        self.blocking(move |inside| inside.list(pool))
    }

    fn usage(&self, pool: Pool) -> BoxFuture<'static, std::result::Result<Usage, ObjectError>> {
        self.blocking(move |inside| inside.usage(pool))
    }

    fn pool_name(&self, pool: Pool) -> String {
        self.inside().pool(pool).1.to_owned()
    }

    fn namespace(&self) -> String {
        self.location().namespace.clone()
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn tolerates(&self) -> usize {
        self.tolerates
    }

    fn instance(&self) -> String {
        self.instance.clone()
    }

    fn fence(&self, instance: &str) -> BoxFuture<'static, std::result::Result<(), ObjectError>> {
        let instance = instance.to_owned();
        self.blocking(move |inside| inside.fence(&instance))
    }
}

#[cfg(test)]
#[path = "client_test.rs"]
mod tests;
