//! Bindings to the initiator library libiscsi, loaded at run time, so that building never needs it.
//!
//! A session never reconnects by itself: when the target dies, every command without a response stays without one, as
//! the crash test requires.

use anyhow::{Context, Result, bail};
use libloading::Library;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_short, c_uchar, c_void};
use std::rc::Rc;
use std::time::Duration;

type Callback = extern "C" fn(*mut c_void, c_int, *mut c_void, *mut c_void);

#[repr(C)]
struct IoVec {
    base: *mut c_void,
    len: usize,
}

/// `struct scsi_sense`; only the first three fields are used.
#[repr(C)]
#[derive(Default)]
struct RawSense {
    error_type: c_uchar,
    key: c_int,
    ascq: c_int,
    rest: [u64; 4],
}

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The used functions of libiscsi.
        struct Functions { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* }

        impl Functions {
            /// Resolves all functions; the library is never unloaded.
            fn load() -> Result<Self> {
                let names = ["libiscsi.so.7", "libiscsi.so.9", "libiscsi.so.8", "libiscsi.so"];
                // SAFETY: libiscsi's initialisers only set up its own data.
                let found = names.iter().find_map(|name| unsafe { Library::new(name) }.ok());
                let library = Box::leak(Box::new(found.context("libiscsi is not installed")?));
                // SAFETY: the signatures are those of the library's public headers.
                Ok(Self { $($name: unsafe { *library.get(stringify!($name).as_bytes())? },)* })
            }
        }
    };
}

functions! {
    iscsi_create_context: fn(*const c_char) -> *mut c_void;
    iscsi_destroy_context: fn(*mut c_void) -> c_int;
    iscsi_set_targetname: fn(*mut c_void, *const c_char) -> c_int;
    iscsi_set_session_type: fn(*mut c_void, c_int) -> c_int;
    iscsi_set_header_digest: fn(*mut c_void, c_int) -> c_int;
    iscsi_set_isid_random: fn(*mut c_void, u32, u32) -> c_int;
    iscsi_set_noautoreconnect: fn(*mut c_void, c_int);
    iscsi_set_timeout: fn(*mut c_void, c_int) -> c_int;
    iscsi_full_connect_sync: fn(*mut c_void, *const c_char, c_int) -> c_int;
    iscsi_scsi_command_async: fn(*mut c_void, c_int, *mut c_void, Callback, *mut c_void, *mut c_void) -> c_int;
    iscsi_get_fd: fn(*mut c_void) -> c_int;
    iscsi_which_events: fn(*mut c_void) -> c_int;
    iscsi_service: fn(*mut c_void, c_int) -> c_int;
    iscsi_get_error: fn(*mut c_void) -> *const c_char;
    scsi_create_task: fn(c_int, *mut c_uchar, c_int, c_int) -> *mut c_void;
    scsi_free_scsi_task: fn(*mut c_void);
    scsi_task_set_iov_in: fn(*mut c_void, *mut IoVec, c_int);
    scsi_task_set_iov_out: fn(*mut c_void, *mut IoVec, c_int);
    scsi_task_get_status: fn(*mut c_void, *mut RawSense) -> c_int;
}

/// The loaded library.
pub struct Libiscsi(Functions);

/// The data phase of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// None.
    None,
    /// This many bytes to the initiator.
    In(usize),
    /// These bytes to the target.
    Out(Vec<u8>),
}

/// A SCSI command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The LUN.
    pub lun: u16,
    /// The CDB, at most 16 bytes.
    pub cdb: Vec<u8>,
    /// Data phase.
    pub transfer: Transfer,
}

/// End of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// GOOD, with the Data-In.
    Good(Vec<u8>),
    /// CHECK CONDITION with sense key and additional code (`asc << 8 | ascq`).
    Check {
        /// Sense key.
        key: u8,
        /// ASC and ASCQ.
        code: u16,
    },
    /// Another SCSI status.
    Status(u8),
    /// The command had no response: the connection ended or the time limit passed.
    Unanswered,
}

/// A completed command.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Tag passed to [`Session::submit`].
    pub tag: u64,
    /// End of the command.
    pub ending: Ending,
}

/// A logged-in session.
pub struct Session {
    library: Rc<Libiscsi>,
    context: *mut c_void,
    ended: Rc<RefCell<Vec<Completion>>>,
    in_flight: Rc<RefCell<usize>>,
}

/// Buffers of a command that the library points into.
struct InFlight {
    tag: u64,
    buffer: Vec<u8>,
    vector: IoVec,
    reads: bool,
    library: Rc<Libiscsi>,
    ended: Rc<RefCell<Vec<Completion>>>,
    in_flight: Rc<RefCell<usize>>,
}

const SESSION_NORMAL: c_int = 2;
const XFER_NONE: c_int = 0;
const XFER_READ: c_int = 1;
const XFER_WRITE: c_int = 2;
const STATUS_GOOD: c_int = 0;
const STATUS_CHECK_CONDITION: c_int = 2;
/// Seconds after which a command counts as unanswered.
const COMMAND_LIMIT: c_int = 60;

impl Libiscsi {
    /// Loads the library.
    pub fn load() -> Result<Rc<Self>> {
        Functions::load().map(Self).map(Rc::new)
    }
}

/// Parameters of a login.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// The initiator's name.
    pub initiator: &'a str,
    /// `address:port`
    pub portal: &'a str,
    /// The target's name.
    pub target: &'a str,
    /// An existing LUN: the login ends with TEST UNIT READY.
    pub lun: u16,
    /// Distinguishes sessions of one initiator.
    pub session: u32,
    /// CRC32C over headers.
    pub header_digest: bool,
}

impl Session {
    /// Connects and logs in.
    pub fn login(library: &Rc<Libiscsi>, login: Login<'_>) -> Result<Self> {
        let functions = &library.0;
        let [initiator, portal, target] =
            [login.initiator, login.portal, login.target].map(|text| CString::new(text).unwrap_or_default());
        // SAFETY: the string outlives the call.
        let context = unsafe { (functions.iscsi_create_context)(initiator.as_ptr()) };
        if context.is_null() {
            bail!("libiscsi makes no context");
        }
        let session =
            Self { library: library.clone(), context, ended: Rc::default(), in_flight: Rc::default() };
        // SAFETY: the context is alive, the strings outlive the calls, the numbers are the library's constants.
        let result = unsafe {
            (functions.iscsi_set_isid_random)(context, login.session, 0);
            (functions.iscsi_set_targetname)(context, target.as_ptr());
            (functions.iscsi_set_session_type)(context, SESSION_NORMAL);
            (functions.iscsi_set_header_digest)(context, if login.header_digest { 3 } else { 0 });
            (functions.iscsi_set_timeout)(context, COMMAND_LIMIT);
            (functions.iscsi_set_noautoreconnect)(context, 1);
            (functions.iscsi_full_connect_sync)(context, portal.as_ptr(), login.lun.into())
        };
        match result {
            0 => Ok(session),
            _ => bail!("log-in at {}: {}", login.portal, session.error()),
        }
    }

    /// Number of outstanding commands.
    pub fn in_flight(&self) -> usize {
        *self.in_flight.borrow()
    }

    /// Starts a command.
    pub fn submit(&mut self, tag: u64, command: Command) -> Result<()> {
        let functions = &self.library.0;
        let mut cdb = command.cdb;
        let (direction, buffer) = match command.transfer {
            Transfer::None => (XFER_NONE, Vec::new()),
            Transfer::In(bytes) => (XFER_READ, vec![0; bytes]),
            Transfer::Out(bytes) => (XFER_WRITE, bytes),
        };
        let (cdb_len, len) = (c_int::try_from(cdb.len())?, c_int::try_from(buffer.len())?);
        // SAFETY: the library copies the CDB.
        let task = unsafe { (functions.scsi_create_task)(cdb_len, cdb.as_mut_ptr(), direction, len) };
        if task.is_null() {
            bail!("libiscsi makes no task");
        }
        let mut held = Box::new(InFlight {
            tag,
            buffer,
            vector: IoVec { base: std::ptr::null_mut(), len: 0 },
            reads: direction == XFER_READ,
            library: self.library.clone(),
            ended: self.ended.clone(),
            in_flight: self.in_flight.clone(),
        });
        held.vector = IoVec { base: held.buffer.as_mut_ptr().cast(), len: held.buffer.len() };
        let vector: *mut IoVec = &mut held.vector;
        let held = Box::into_raw(held);
        // SAFETY: the vector and the buffer are owned by `held`, which the callback takes back; the library calls it
        // exactly once for a command that it accepted.
        let result = unsafe {
            match direction {
                XFER_READ => (functions.scsi_task_set_iov_in)(task, vector, 1),
                XFER_WRITE => (functions.scsi_task_set_iov_out)(task, vector, 1),
                _ => {}
            }
            let lun = c_int::from(command.lun);
            let none = std::ptr::null_mut();
            (functions.iscsi_scsi_command_async)(self.context, lun, task, ended, none, held.cast())
        };
        if result != 0 {
            // SAFETY: the library does not keep a command that it refused, so both are still owned here.
            unsafe {
                (functions.scsi_free_scsi_task)(task);
                drop(Box::from_raw(held));
            }
            bail!("command not accepted: {}", self.error());
        }
        *self.in_flight.borrow_mut() += 1;
        Ok(())
    }

    /// Events for [`libc::poll`].
    pub fn pollfd(&self) -> libc::pollfd {
        // SAFETY: the context is alive.
        let (fd, events) = unsafe {
            let functions = &self.library.0;
            ((functions.iscsi_get_fd)(self.context), (functions.iscsi_which_events)(self.context))
        };
        libc::pollfd { fd, events: c_short::try_from(events).unwrap_or(0), revents: 0 }
    }

    /// Sends and receives as `revents` allow, and returns the completed commands; an error if the connection is lost.
    /// Commands that completed before the loss are then in [`Session::ended`].
    pub fn service(&mut self, revents: c_short) -> Result<Vec<Completion>> {
        // SAFETY: the context is alive; callbacks only touch what they own and the shared lists.
        let result = unsafe { (self.library.0.iscsi_service)(self.context, revents.into()) };
        if result != 0 {
            bail!("connection lost: {}", self.error());
        }
        Ok(self.ended())
    }

    /// Takes the commands completed since the last call.
    pub fn ended(&mut self) -> Vec<Completion> {
        std::mem::take(&mut self.ended.borrow_mut())
    }

    /// Performs one command and waits for its end.
    pub fn perform(&mut self, command: Command) -> Result<Ending> {
        self.submit(u64::MAX, command)?;
        loop {
            let mut poll = [self.pollfd()];
            wait(&mut poll, 1000)?;
            let ended = self.service(poll[0].revents)?;
            if let Some(completion) = ended.into_iter().find(|completion| completion.tag == u64::MAX) {
                return Ok(completion.ending);
            }
        }
    }

    fn error(&self) -> String {
        // SAFETY: the library returns a string that it owns, or null.
        unsafe {
            let text = (self.library.0.iscsi_get_error)(self.context);
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the context is destroyed once; commands in flight get their callback from here.
        unsafe { (self.library.0.iscsi_destroy_context)(self.context) };
    }
}

/// Waits for the descriptors; a descriptor of -1 is skipped.
pub fn wait(polls: &mut [libc::pollfd], milliseconds: u32) -> Result<()> {
    wait_for(polls, Duration::from_millis(milliseconds.into()))
}

/// Waits for the descriptors, for at most `time`, with the resolution of the system.
pub fn wait_for(polls: &mut [libc::pollfd], time: Duration) -> Result<()> {
    let time = libc::timespec { tv_sec: time.as_secs().try_into()?, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: the slice is valid for its length, the time lives through the call, and no signal mask is given.
    let result =
        unsafe { libc::ppoll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, &time, std::ptr::null()) };
    if result < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error).context("poll");
        }
    }
    Ok(())
}

/// Callback of a completed command: `iscsi_command_cb`.
extern "C" fn ended(_: *mut c_void, status: c_int, task: *mut c_void, held: *mut c_void) {
    // SAFETY: `held` is the box that `submit` passed for this one call.
    let held = unsafe { Box::from_raw(held.cast::<InFlight>()) };
    let functions = &held.library.0;
    let mut sense = RawSense::default();
    // SAFETY: the task is alive until it is freed here; the sense has room for the library's structure.
    unsafe {
        (functions.scsi_task_get_status)(task, &mut sense);
        (functions.scsi_free_scsi_task)(task);
    }
    let ending = match status {
        STATUS_GOOD if held.reads => Ending::Good(held.buffer),
        STATUS_GOOD => Ending::Good(Vec::new()),
        STATUS_CHECK_CONDITION => Ending::Check { key: sense.key as u8, code: sense.ascq as u16 },
        other => u8::try_from(other).map_or(Ending::Unanswered, Ending::Status),
    };
    held.ended.borrow_mut().push(Completion { tag: held.tag, ending });
    *held.in_flight.borrow_mut() -= 1;
}
