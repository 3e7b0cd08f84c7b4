//! Safe calls of librados, whose functions are loaded when they are first needed.
//!
//! Nothing of Ceph is needed to build or to run without it. All `unsafe` code of the crate is here; `client` gives the
//! results a meaning.

use crate::objects::{Attributes, Operation, Step};
use libloading::Library;
use parking_lot::{Condvar, Mutex};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Error of a call of librados: a negative error number.
pub type Errno = c_int;

/// `LIBRADOS_OPERATION_FULL_TRY`: the operation is answered although the pool is full, perhaps with an error.
const FULL_TRY: c_int = 64;
/// `LIBRADOS_OPERATION_FULL_FORCE`: the operation takes effect although the pool is full.
const FULL_FORCE: c_int = 128;
/// `LIBRADOS_CREATE_EXCLUSIVE`.
const CREATE_EXCLUSIVE: c_int = 1;
/// `LIBRADOS_CMPXATTR_OP_EQ` and `_GT`: the given value is equal to, or greater than that of the object.
const COMPARE_EQUAL: u8 = 1;
const COMPARE_GREATER: u8 = 3;
/// Error for a name that is no text for C.
const INVALID: Errno = -22;

/// An opaque thing of librados.
type Handle = *mut c_void;
type Callback = extern "C" fn(Handle, *mut c_void);

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used here.
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            rados_blocklist_add: unsafe extern "C" fn(Handle, *mut c_char, u32) -> c_int,
        }

        impl Functions {
            fn look_up(library: &'static Library) -> Result<Self, libloading::Error> {
                // SAFETY: the signatures are those of rados/librados.h, which has not changed them since version 14. Before
                // version 16 the list had another name.
                unsafe {
                    let blocklist = library.get(b"rados_blocklist_add");
                    Ok(Self {
                        $($name: *library.get(stringify!($name).as_bytes())?,)*
                        rados_blocklist_add: *blocklist.or_else(|_| library.get(b"rados_blacklist_add"))?,
                    })
                }
            }
        }
    };
}

functions! {
    rados_create2: fn(*mut Handle, *const c_char, *const c_char, u64) -> c_int;
    rados_conf_read_file: fn(Handle, *const c_char) -> c_int;
    rados_conf_set: fn(Handle, *const c_char, *const c_char) -> c_int;
    rados_connect: fn(Handle) -> c_int;
    rados_shutdown: fn(Handle);
    rados_getaddrs: fn(Handle, *mut *mut c_char) -> c_int;
    rados_mon_command: fn(Handle, *const *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize) -> c_int;
    rados_buffer_free: fn(*mut c_char);
    rados_wait_for_latest_osdmap: fn(Handle) -> c_int;
    rados_ioctx_create: fn(Handle, *const c_char, *mut Handle) -> c_int;
    rados_ioctx_destroy: fn(Handle);
    rados_ioctx_set_namespace: fn(Handle, *const c_char);
    rados_ioctx_pool_requires_alignment2: fn(Handle, *mut c_int) -> c_int;
    rados_ioctx_pool_required_alignment2: fn(Handle, *mut u64) -> c_int;
    rados_aio_create_completion2: fn(*mut c_void, Callback, *mut Handle) -> c_int;
    rados_aio_get_return_value: fn(Handle) -> c_int;
    rados_aio_release: fn(Handle);
    rados_aio_read: fn(Handle, *const c_char, Handle, *mut c_char, usize, u64) -> c_int;
    rados_create_write_op: fn() -> Handle;
    rados_release_write_op: fn(Handle);
    rados_write_op_assert_exists: fn(Handle);
    rados_write_op_cmpxattr: fn(Handle, *const c_char, u8, *const c_char, usize);
    rados_write_op_setxattr: fn(Handle, *const c_char, *const c_char, usize);
    rados_write_op_create: fn(Handle, c_int, *const c_char);
    rados_write_op_write: fn(Handle, *const c_char, usize, u64);
    rados_write_op_write_full: fn(Handle, *const c_char, usize);
    rados_write_op_remove: fn(Handle);
    rados_aio_write_op_operate: fn(Handle, Handle, Handle, *const c_char, *mut c_void, c_int) -> c_int;
    rados_create_read_op: fn() -> Handle;
    rados_release_read_op: fn(Handle);
    rados_read_op_getxattrs: fn(Handle, *mut Handle, *mut c_int);
    rados_aio_read_op_operate: fn(Handle, Handle, Handle, *const c_char, c_int) -> c_int;
    rados_getxattrs_next: fn(Handle, *mut *const c_char, *mut *const c_char, *mut usize) -> c_int;
    rados_getxattrs_end: fn(Handle);
    rados_nobjects_list_open: fn(Handle, *mut Handle) -> c_int;
    rados_nobjects_list_next: fn(Handle, *mut *const c_char, *mut *const c_char, *mut *const c_char) -> c_int;
    rados_nobjects_list_close: fn(Handle);
}

/// The library, loaded once and never unloaded.
///
/// # Errors
/// What to install.
fn functions() -> Result<&'static Functions, String> {
    static LOADED: OnceLock<Result<Functions, String>> = OnceLock::new();
    let load = || {
        // SAFETY: the initialisers of librados set up its own data only.
        let library = unsafe { Library::new("librados.so.2") };
        let library = library.map_err(|error| {
            format!("librados.so.2 can't be loaded: install the package librados2 (or ceph-common): {error}")
        })?;
        let found = Functions::look_up(Box::leak(Box::new(library)));
        found.map_err(|error| {
            format!("librados is too old: version 14 (Nautilus) or newer is needed: {error}")
        })
    };
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// Connections that have not been shut down.
static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    /// `on_exit(3)` of glibc: functions run in the reverse order of their registration.
    safe fn on_exit(run: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    /// `_exit(2)`
    safe fn _exit(status: c_int) -> !;
}

/// Ends the process without the destructors of librados while it has a connection: they would take away what its threads
/// use. Nothing of ours depends on them.
extern "C" fn end_at_once(status: c_int, _: *mut c_void) {
    if CONNECTIONS.load(Ordering::SeqCst) > 0 {
        _exit(status);
    }
}

/// What ends a call.
enum Ending {
    Operation(Box<dyn FnOnce(Result<(), Errno>) + Send>),
    Read(Vec<u8>, Box<dyn FnOnce(Result<Vec<u8>, Errno>) + Send>),
    /// The operation, its iterator and its result, which librados writes to, in this order.
    Attributes(Handle, Handle, c_int, Box<dyn FnOnce(Result<Attributes, Errno>) + Send>),
}

/// Calls under way.
#[derive(Default)]
struct Calls {
    number: Mutex<usize>,
    none: Condvar,
}

impl Calls {
    fn ended(&self) {
        let mut number = self.number.lock();
        *number -= 1;
        if *number == 0 {
            self.none.notify_all();
        }
    }

    fn wait(&self) {
        let mut number = self.number.lock();
        self.none.wait_while(&mut number, |number| *number > 0);
    }
}

/// A call under way. It lives in a box that librados knows the address of until the call is completed.
struct Call {
    functions: &'static Functions,
    /// The calls of its connection, this one among them.
    calls: Arc<Calls>,
    /// Bytes that librados was given to write. It has copied them, which its documentation does not promise.
    _written: Option<Operation>,
    ending: Ending,
}

impl Call {
    /// Ends it with what librados returned.
    fn end(self, result: c_int) {
        let outcome = if result < 0 { Err(result) } else { Ok(result) };
        match self.ending {
            Ending::Operation(done) => done(outcome.map(drop)),
            Ending::Read(mut bytes, done) => done(outcome.map(|len| {
                bytes.truncate(len as usize);
                bytes.shrink_to_fit();
                bytes
            })),
            Ending::Attributes(operation, iterator, own, done) => {
                let functions = self.functions;
                // SAFETY: the operation is completed, so nothing else uses it.
                unsafe { (functions.rados_release_read_op)(operation) };
                let found = attributes(functions, iterator);
                done(outcome.and(check(own)).and(found));
            }
        }
    }
}

/// Takes what an iterator over attributes has, and ends it. One that is no text is left out: none of ours is.
fn attributes(functions: &Functions, iterator: Handle) -> Result<Attributes, Errno> {
    let mut found = Attributes::new();
    if iterator.is_null() {
        return Err(INVALID);
    }
    loop {
        let (mut name, mut value, mut len) = (null(), null(), 0);
        // SAFETY: the iterator was made with the operation, which is completed; it is empty if that failed.
        let result = unsafe { (functions.rados_getxattrs_next)(iterator, &mut name, &mut value, &mut len) };
        if result < 0 || name.is_null() {
            // SAFETY: it is not used after this.
            unsafe { (functions.rados_getxattrs_end)(iterator) };
            return if result < 0 { Err(result) } else { Ok(found) };
        }
        // SAFETY: name ends with a zero, and value has this length; both are valid until the next step.
        let (name, value) = unsafe { (CStr::from_ptr(name).to_str(), bytes(value, len)) };
        if let (Ok(name), Ok(value)) = (name, String::from_utf8(value)) {
            found.insert(name.to_owned(), value);
        }
    }
}

/// A copy of bytes of librados.
///
/// # Safety
/// `at` points to `len` bytes, or `len` is zero.
unsafe fn bytes(at: *const c_char, len: usize) -> Vec<u8> {
    if len == 0 {
        return Vec::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast::<u8>(), len) }.to_vec()
}

/// Called by a thread of librados when a call is completed.
extern "C" fn completed(completion: Handle, argument: *mut c_void) {
    // SAFETY: `argument` is the box that `start` gave away for this call alone, which is completed once.
    let call = unsafe { Box::from_raw(argument.cast::<Call>()) };
    let (functions, calls) = (call.functions, call.calls.clone());
    // SAFETY: the completion is ours until it is released, after its result was read.
    let result = unsafe {
        let result = (functions.rados_aio_get_return_value)(completion);
        (functions.rados_aio_release)(completion);
        result
    };
    call.end(result);
    // Last: the connection may be ended from now on.
    calls.ended();
}

/// How to reach a cluster.
pub struct Access<'a> {
    /// The configuration file.
    pub conf: &'a str,
    /// The user, without `client.`.
    pub id: &'a str,
    /// Options of librados that are set besides.
    pub options: &'a [(&'a str, &'a str)],
}

/// A connection to a cluster. Dropping it waits until every call is completed and ends it, so that no callback runs
/// afterwards: librados crashes when it is shut down while an answer arrives. A callback must not drop it.
pub struct Connection {
    functions: &'static Functions,
    cluster: Handle,
    calls: Arc<Calls>,
}

/// A namespace of a pool.
pub struct Space {
    connection: Arc<Connection>,
    context: Handle,
}

// SAFETY: librados allows every function to be called from every thread, on one cluster or context as well.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}
// SAFETY: as above; what is set of a context is set before it is shared.
unsafe impl Send for Space {}
// SAFETY: as above.
unsafe impl Sync for Space {}

fn check(result: c_int) -> Result<(), Errno> {
    if result < 0 { Err(result) } else { Ok(()) }
}

fn text(text: &str) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| INVALID)
}

/// The message of an error number.
pub fn message(errno: Errno) -> String {
    std::io::Error::from_raw_os_error(-errno).to_string()
}

impl Connection {
    /// Connects, and waits until a monitor has answered.
    ///
    /// # Errors
    /// What is wrong and what to do.
    pub fn open(access: &Access<'_>) -> Result<Arc<Self>, String> {
        let functions = functions()?;
        let invalid = |_| format!("{:?} or {:?} has a zero byte", access.conf, access.id);
        let name = text(&format!("client.{}", access.id)).map_err(invalid)?;
        let conf = text(access.conf).map_err(invalid)?;
        let mut cluster = null_mut();
        // SAFETY: all arguments live until the call returns.
        let made = unsafe { (functions.rados_create2)(&mut cluster, c"ceph".as_ptr(), name.as_ptr(), 0) };
        check(made).map_err(|error| format!("librados can't be used: {}", message(error)))?;
        // From here on it is shut down in every case.
        CONNECTIONS.fetch_add(1, Ordering::SeqCst);
        let connection = Arc::new(Self { functions, cluster, calls: Arc::default() });
        // SAFETY: the cluster was made above, and the file name ends with a zero.
        let read = unsafe { (functions.rados_conf_read_file)(cluster, conf.as_ptr()) };
        check(read).map_err(|error| {
            format!("can't read the Ceph configuration {}: {}", access.conf, message(error))
        })?;
        for (option, value) in access.options {
            let (Ok(key), Ok(value)) = (text(option), text(value)) else { continue };
            // SAFETY: as above.
            let set = unsafe { (functions.rados_conf_set)(cluster, key.as_ptr(), value.as_ptr()) };
            check(set)
                .map_err(|error| format!("librados refuses the option {option}: {}", message(error)))?;
        }
        // SAFETY: the cluster is configured, and not connected yet.
        let connected = unsafe { (functions.rados_connect)(cluster) };
        check(connected).map_err(|error| {
            format!(
                "can't connect to the Ceph cluster of {} as client.{}: {}; check that its monitors can be reached \
                 (`ceph -c {0} --id {1} status`) and that the keyring has the key of client.{1}",
                access.conf,
                access.id,
                message(error)
            )
        })?;
        // After librados has registered its destructors, so that this runs before them. Without it an exit may crash.
        _ = on_exit(end_at_once, null_mut());
        Ok(connection)
    }

    /// Opens a namespace of a pool.
    ///
    /// # Errors
    /// That of librados: 2 (ENOENT) when there is no such pool.
    pub fn space(self: &Arc<Self>, pool: &str, namespace: &str) -> Result<Space, Errno> {
        let (pool, namespace) = (text(pool)?, text(namespace)?);
        let mut context = null_mut();
        // SAFETY: the cluster is connected as long as `self` lives; the texts end with a zero.
        check(unsafe { (self.functions.rados_ioctx_create)(self.cluster, pool.as_ptr(), &mut context) })?;
        // SAFETY: the context was made above, and is not shared yet.
        unsafe { (self.functions.rados_ioctx_set_namespace)(context, namespace.as_ptr()) };
        Ok(Space { connection: self.clone(), context })
    }

    /// The address of this client in the cluster, as `ceph osd blocklist` takes it.
    ///
    /// # Errors
    /// That of librados.
    pub fn instance(&self) -> Result<String, Errno> {
        let mut address = null_mut();
        // SAFETY: the cluster is connected; `address` is set when the call succeeds.
        check(unsafe { (self.functions.rados_getaddrs)(self.cluster, &mut address) })?;
        // SAFETY: it ends with a zero, and is freed once, after it was copied.
        Ok(unsafe {
            let text = CStr::from_ptr(address).to_string_lossy().into_owned();
            (self.functions.rados_buffer_free)(address);
            text
        })
    }

    /// Asks the monitors; blocks.
    ///
    /// # Errors
    /// The error number, and what the monitors say.
    pub fn command(&self, command: &str) -> Result<Vec<u8>, (Errno, String)> {
        let command = text(command).map_err(|error| (error, String::new()))?;
        let (mut out, mut out_len, mut said, mut said_len) = (null_mut(), 0, null_mut(), 0);
        // SAFETY: the cluster is connected; librados sets both buffers, to null where there is nothing.
        let result = unsafe {
            (self.functions.rados_mon_command)(
                self.cluster,
                &command.as_ptr(),
                1,
                null(),
                0,
                &mut out,
                &mut out_len,
                &mut said,
                &mut said_len,
            )
        };
        let take = |buffer: *mut c_char, len: usize| {
            if buffer.is_null() {
                return Vec::new();
            }
            // SAFETY: the buffer has this length, and is freed once, after it was copied.
            unsafe {
                let copy = bytes(buffer, len);
                (self.functions.rados_buffer_free)(buffer);
                copy
            }
        };
        let (out, said) = (take(out, out_len), take(said, said_len));
        check(result).map_err(|error| (error, String::from_utf8_lossy(&said).into_owned()))?;
        Ok(out)
    }

    /// Puts a client on the blocklist for some seconds, and waits for the map that says so; blocks.
    ///
    /// # Errors
    /// That of librados.
    pub fn block(&self, instance: &str, seconds: u32) -> Result<(), Errno> {
        let instance = text(instance)?;
        // SAFETY: the cluster is connected. The address is not changed, whatever its type says.
        check(unsafe {
            (self.functions.rados_blocklist_add)(self.cluster, instance.as_ptr().cast_mut(), seconds)
        })?;
        // SAFETY: the cluster is connected.
        check(unsafe { (self.functions.rados_wait_for_latest_osdmap)(self.cluster) })
    }

    /// Makes a call: `submit` gets its completion, and the place of its ending, which stays valid until the call is completed.
    fn start(
        &self,
        written: Option<Operation>,
        ending: Ending,
        submit: impl FnOnce(Handle, *mut Ending) -> c_int,
    ) {
        let functions = self.functions;
        let call = Box::new(Call { functions, calls: self.calls.clone(), _written: written, ending });
        let call = Box::into_raw(call);
        // Before it can be completed.
        *self.calls.number.lock() += 1;
        let mut completion = null_mut();
        // SAFETY: the callback takes the box; nothing is submitted yet.
        let made =
            unsafe { (functions.rados_aio_create_completion2)(call.cast(), completed, &mut completion) };
        let result = match made {
            // SAFETY: the box is whole until the call is completed, which is after its submission.
            0 => submit(completion, unsafe { &raw mut (*call).ending }),
            error => error,
        };
        if result >= 0 {
            return;
        }
        // SAFETY: a call that was refused is never completed, so the box and the completion are still ours.
        let call = unsafe {
            if made == 0 {
                (functions.rados_aio_release)(completion);
            }
            Box::from_raw(call)
        };
        call.end(result);
        self.calls.ended();
    }

    /// True if no call is under way.
    pub fn is_idle(&self) -> bool {
        *self.calls.number.lock() == 0
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.calls.wait();
        // SAFETY: this is the last reference to the cluster, as every `Space` keeps the connection, and no call is under way.
        unsafe { (self.functions.rados_shutdown)(self.cluster) };
        CONNECTIONS.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.connection.calls.wait();
        // SAFETY: this is the last reference to the context, and no call is under way.
        unsafe { (self.connection.functions.rados_ioctx_destroy)(self.context) };
    }
}

impl Space {
    /// What every write must be a multiple of, in bytes; 1 where it does not matter.
    ///
    /// # Errors
    /// That of librados.
    pub fn alignment(&self) -> Result<u64, Errno> {
        let functions = self.connection.functions;
        let (mut required, mut alignment) = (0, 0);
        // SAFETY: the context is valid.
        check(unsafe { (functions.rados_ioctx_pool_requires_alignment2)(self.context, &mut required) })?;
        if required == 0 {
            return Ok(1);
        }
        // SAFETY: the context is valid.
        check(unsafe { (functions.rados_ioctx_pool_required_alignment2)(self.context, &mut alignment) })?;
        Ok(alignment.max(1))
    }

    /// Does a compound operation. It is answered although the pool is full.
    pub fn operate(&self, name: &str, operation: Operation, done: Box<dyn FnOnce(Result<(), Errno>) + Send>) {
        let functions = self.connection.functions;
        let Ok(name) = text(name) else { return done(Err(INVALID)) };
        let flags = if operation.force { FULL_TRY | FULL_FORCE } else { FULL_TRY };
        // SAFETY: the operation is released below, after librados has taken its steps.
        let steps = unsafe { (functions.rados_create_write_op)() };
        if !operation.steps.contains(&Step::CreateExclusive) {
            // SAFETY: the operation was made above.
            unsafe { (functions.rados_write_op_assert_exists)(steps) };
        }
        let mut added = Ok(());
        for step in &operation.steps {
            added = added.and_then(|()| self.add(steps, step));
        }
        if let Err(error) = added {
            // SAFETY: it is not submitted.
            unsafe { (functions.rados_release_write_op)(steps) };
            return done(Err(error));
        }
        self.connection.start(Some(operation), Ending::Operation(done), |completion, _| {
            // SAFETY: operation, context and completion are valid; a null time means now.
            unsafe {
                (functions.rados_aio_write_op_operate)(
                    steps,
                    self.context,
                    completion,
                    name.as_ptr(),
                    null_mut(),
                    flags,
                )
            }
        });
        // SAFETY: librados has moved the steps to the request.
        unsafe { (functions.rados_release_write_op)(steps) };
    }

    fn add(&self, steps: Handle, step: &Step) -> Result<(), Errno> {
        let functions = self.connection.functions;
        let compare = |name: &str, how, value: &str| {
            let name = text(name)?;
            // SAFETY: the operation is valid, and librados copies name and value.
            unsafe {
                (functions.rados_write_op_cmpxattr)(
                    steps,
                    name.as_ptr(),
                    how,
                    value.as_ptr().cast(),
                    value.len(),
                );
            }
            Ok(())
        };
        match step {
            Step::Equal(name, value) => return compare(name, COMPARE_EQUAL, value),
            Step::Greater(name, value) => return compare(name, COMPARE_GREATER, value),
            // SAFETY: the operation is valid; there are no categories any more.
            Step::CreateExclusive => unsafe {
                (functions.rados_write_op_create)(steps, CREATE_EXCLUSIVE, null());
            },
            Step::Set(name, value) => {
                let (name, len) = (text(name)?, value.len());
                // SAFETY: as for comparisons.
                unsafe {
                    (functions.rados_write_op_setxattr)(steps, name.as_ptr(), value.as_ptr().cast(), len)
                }
            }
            Step::Write(offset, pieces) => {
                let mut at = *offset;
                for piece in pieces {
                    // SAFETY: the operation is valid, and the piece lives until the call is completed.
                    unsafe {
                        (functions.rados_write_op_write)(steps, piece.as_ptr().cast(), piece.len(), at);
                    }
                    at += piece.len() as u64;
                }
            }
            // SAFETY: as for pieces.
            Step::WriteFull(bytes) => unsafe {
                (functions.rados_write_op_write_full)(steps, bytes.as_ptr().cast(), bytes.len());
            },
            // SAFETY: the operation is valid.
            Step::Remove => unsafe { (functions.rados_write_op_remove)(steps) },
        }
        Ok(())
    }

    /// Reads at most `len` bytes.
    pub fn read(
        &self,
        name: &str,
        (offset, len): (u64, usize),
        done: Box<dyn FnOnce(Result<Vec<u8>, Errno>) + Send>,
    ) {
        let functions = self.connection.functions;
        let Ok(name) = text(name) else { return done(Err(INVALID)) };
        self.connection.start(None, Ending::Read(vec![0; len], done), |completion, ending| {
            // SAFETY: the ending stays where it is until the call is completed, and has no other user.
            let Ending::Read(buffer, _) = (unsafe { &mut *ending }) else { return INVALID };
            let buffer = buffer.as_mut_ptr().cast();
            // SAFETY: the buffer has this length.
            unsafe {
                (functions.rados_aio_read)(self.context, name.as_ptr(), completion, buffer, len, offset)
            }
        });
    }

    /// Reads all attributes.
    pub fn attributes(&self, name: &str, done: Box<dyn FnOnce(Result<Attributes, Errno>) + Send>) {
        let functions = self.connection.functions;
        let Ok(name) = text(name) else { return done(Err(INVALID)) };
        // SAFETY: it is released when the call ends.
        let steps = unsafe { (functions.rados_create_read_op)() };
        self.connection.start(None, Ending::Attributes(steps, null_mut(), 0, done), |completion, ending| {
            // SAFETY: the ending stays where it is until the call is completed, and only librados writes to it till then.
            let Ending::Attributes(_, iterator, result, _) = (unsafe { &mut *ending }) else {
                return INVALID;
            };
            // SAFETY: iterator and result are in the box.
            unsafe {
                (functions.rados_read_op_getxattrs)(steps, iterator, result);
                (functions.rados_aio_read_op_operate)(steps, self.context, completion, name.as_ptr(), 0)
            }
        });
    }

    /// The names of all objects; blocks.
    ///
    /// # Errors
    /// That of librados.
    pub fn list(&self) -> Result<Vec<String>, Errno> {
        const END: Errno = -2;
        let functions = self.connection.functions;
        let (mut list, mut names) = (null_mut(), Vec::new());
        // SAFETY: the context is valid.
        check(unsafe { (functions.rados_nobjects_list_open)(self.context, &mut list) })?;
        let result = loop {
            let mut name = null();
            // SAFETY: the list is open; where a key and a namespace would go may be null.
            let next =
                unsafe { (functions.rados_nobjects_list_next)(list, &mut name, null_mut(), null_mut()) };
            match next {
                // SAFETY: the name ends with a zero, and is valid until the next step.
                0 => names.push(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()),
                END => break Ok(names),
                error => break Err(error),
            }
        };
        // SAFETY: it is not used after this.
        unsafe { (functions.rados_nobjects_list_close)(list) };
        result
    }
}
