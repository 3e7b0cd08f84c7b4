//! A request to the kernel, from submission to completion, in one or more steps.

use super::Node;
use crate::{ALIGN, AlignedBuf, Done, Error, Result};
use bytes::Bytes;
use io_uring::{opcode, squeue, types};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of pieces that the kernel takes in one vectored write (UIO_MAXIOV).
const MAX_PIECES: usize = 1024;

/// `<linux/falloc.h>`: FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE. On a block device this deallocates where the drive
/// can, and is refused where it would have to write zeros.
const PUNCH_HOLE: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// A request in flight. It owns every byte that the kernel reads or writes, and stays at one address until it
/// completes.
pub(super) struct Request {
    node: Arc<Node>,
    offset: u64,
    work: Work,
}

/// The operation, and its progress.
pub(super) enum Work {
    /// `buffer` has what was read, and room for `len` bytes.
    Read {
        buffer: AlignedBuf,
        len: usize,
        done: Done<Bytes>,
    },
    Write {
        vectors: Vectors,
        durable: bool,
        done: Done<()>,
    },
    Sync {
        done: Done<()>,
    },
    Discard {
        len: u64,
        done: Done<()>,
    },
    Allocate {
        len: u64,
        done: Done<()>,
    },
}

/// The pieces of a write as an I/O vector; `next` is the first that still has bytes to write.
pub(super) struct Vectors {
    list: Vec<libc::iovec>,
    next: usize,
    written: u64,
    /// Keeps the memory that `list` points into.
    _pieces: Vec<Bytes>,
}

// SAFETY: the pointers in `list` point into `_pieces`, which are immutable and live as long.
unsafe impl Send for Vectors {}

impl Vectors {
    /// Pieces that are contiguous in memory become one vector.
    fn new(pieces: Vec<Bytes>) -> Self {
        let mut list: Vec<libc::iovec> = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            debug_assert!(piece.as_ptr().addr().is_multiple_of(ALIGN) && piece.len().is_multiple_of(ALIGN));
            let start = piece.as_ptr().cast_mut().cast::<libc::c_void>();
            match list.last_mut() {
                Some(last) if last.iov_base.wrapping_byte_add(last.iov_len) == start => {
                    last.iov_len += piece.len()
                }
                _ => list.push(libc::iovec { iov_base: start, iov_len: piece.len() }),
            }
        }
        Self { list, next: 0, written: 0, _pieces: pieces }
    }

    /// Advances by `bytes` written; true if that was all.
    fn advance(&mut self, bytes: usize) -> bool {
        self.written += bytes as u64;
        let mut rest = bytes;
        while let Some(vector) = self.list.get_mut(self.next) {
            if rest < vector.iov_len {
                vector.iov_base = vector.iov_base.wrapping_byte_add(rest);
                vector.iov_len -= rest;
                return false;
            }
            rest -= vector.iov_len;
            self.next += 1;
        }
        true
    }

    fn rest(&self) -> &[libc::iovec] {
        let rest = &self.list[self.next..];
        &rest[..rest.len().min(MAX_PIECES)]
    }
}

impl Work {
    pub(super) fn read(len: u32, done: Done<Bytes>) -> Self {
        let len = len as usize;
        Self::Read { buffer: AlignedBuf::with_capacity(len), len, done }
    }

    pub(super) fn write(pieces: Vec<Bytes>, durable: bool, done: Done<()>) -> Self {
        Self::Write { vectors: Vectors::new(pieces), durable, done }
    }
}

/// The step after a completion.
pub(super) enum Next {
    /// The request must be submitted again, for the rest of it or because it was interrupted.
    Again(Box<Request>),
    /// It has completed.
    Completed,
}

impl Request {
    pub(super) fn new(node: Arc<Node>, offset: u64, work: Work) -> Box<Self> {
        Box::new(Self { node, offset, work })
    }

    /// The submission queue entry of its next step. It points into this request, which must stay where it is.
    pub(super) fn entry(&mut self) -> squeue::Entry {
        let file = types::Fd(self.node.file.as_raw_fd());
        match &mut self.work {
            Work::Read { buffer, len, .. } => {
                let filled = buffer.len();
                let rest = &mut buffer.spare()[..*len - filled];
                opcode::Read::new(file, rest.as_mut_ptr().cast(), rest.len() as u32)
                    .offset(self.offset + filled as u64)
                    .build()
            }
            Work::Write { vectors, durable, .. } => {
                let rest = vectors.rest();
                opcode::Writev::new(file, rest.as_ptr(), rest.len() as u32)
                    .offset(self.offset + vectors.written)
                    .rw_flags(if *durable { libc::RWF_DSYNC } else { 0 })
                    .build()
            }
            Work::Sync { .. } => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
            Work::Discard { len, .. } => {
                opcode::Fallocate::new(file, *len).offset(self.offset).mode(PUNCH_HOLE).build()
            }
            Work::Allocate { len, .. } => {
                opcode::Fallocate::new(file, *len).offset(self.offset).mode(libc::FALLOC_FL_KEEP_SIZE).build()
            }
        }
    }

    /// Handles the kernel's result of a step: bytes done, or a negative error number.
    pub(super) fn complete(mut self: Box<Self>, result: i32) -> Next {
        // The kernel cancels waiting requests of a thread that ended; the drive is not the cause.
        if matches!(-result, libc::EINTR | libc::EAGAIN | libc::ECANCELED) {
            return Next::Again(self);
        }
        let count = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        match (&mut self.work, count) {
            (Work::Read { buffer, len, .. }, Ok(count)) if count > 0 => {
                // Only whole pages count, so that the rest is still aligned; the last one may well be complete.
                let end = buffer.len() + count;
                assert!(end <= *len, "the kernel reads as much as it was asked for");
                let filled = if end < *len { end / ALIGN * ALIGN } else { end };
                // SAFETY: the kernel has written `count` bytes after those that were there.
                unsafe { buffer.set_filled(filled) };
                if filled < *len && count >= ALIGN { Next::Again(self) } else { self.finish(Ok(())) }
            }
            (Work::Write { vectors, .. }, Ok(count)) if count > 0 => {
                if vectors.advance(count) {
                    self.finish(Ok(()))
                } else {
                    Next::Again(self)
                }
            }
            (Work::Read { .. } | Work::Write { .. }, Ok(_)) => {
                self.finish(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "beyond the end of the drive")))
            }
            (Work::Discard { .. }, Err(cause)) if cause.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                self.node.discards.store(false, Ordering::Relaxed);
                self.finish(Ok(()))
            }
            // Punching a hole may need a block itself. The discard is skipped if there is none.
            (Work::Discard { .. }, Err(cause)) if is_no_space(&cause) => self.finish(Ok(())),
            // Without reservation later writes may find no space, which they report.
            (Work::Allocate { .. }, Err(cause)) if cause.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                self.finish(Ok(()))
            }
            (_, outcome) => self.finish(outcome.map(|_| ())),
        }
    }

    fn finish(self, outcome: io::Result<()>) -> Next {
        let Self { node, offset, work } = self;
        let error = |verb: &str, cause: io::Error| {
            let what = format!("{}: {verb} at byte {offset}: {cause}", node.name);
            match cause.raw_os_error() {
                _ if is_no_space(&cause) => Error::NoSpace { what },
                // RESERVATION CONFLICT: this server's registration was ended.
                Some(libc::EBADE) => {
                    tracing::error!(what, "another server has reserved the drive");
                    Error::Fenced { epoch: 0 }
                }
                _ => Error::Drive { what },
            }
        };
        match work {
            Work::Read { buffer, len, done } => done(match outcome {
                Ok(()) if buffer.len() < len => Err(error("read", io::ErrorKind::UnexpectedEof.into())),
                Ok(()) => Ok(Arc::new(buffer).share(0..len)),
                Err(cause) => Err(error("read", cause)),
            }),
            Work::Write { done, vectors, .. } => {
                // After the callback the caller may reuse the memory.
                drop(vectors);
                end(done, outcome.map_err(|cause| error("write", cause)));
            }
            Work::Sync { done } => end(done, outcome.map_err(|cause| error("sync", cause))),
            Work::Discard { done, .. } => end(done, outcome.map_err(|cause| error("discard", cause))),
            Work::Allocate { done, .. } => end(done, outcome.map_err(|cause| error("allocate", cause))),
        }
        Next::Completed
    }
}

/// The file system is full, or the user's quota is used up.
fn is_no_space(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

fn end(done: Done<()>, outcome: Result) {
    done(outcome);
}
