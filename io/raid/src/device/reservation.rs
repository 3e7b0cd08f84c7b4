//! Persistent reservations of block devices: `<linux/pr.h>`, which the kernel translates for SCSI and NVMe.

use super::Node;
use crate::{Error, Result};
use shelf::ReservationStep;
use std::io;
use std::os::fd::AsRawFd;

/// `struct pr_registration` and `struct pr_preempt` have the same layout: two keys and two words.
#[repr(C)]
struct Keys {
    old: u64,
    new: u64,
    words: [u32; 2],
}

/// `struct pr_reservation` and `struct pr_clear`.
#[repr(C)]
struct Key {
    key: u64,
    words: [u32; 2],
}

/// `IOC_PR_REGISTER`, `IOC_PR_RESERVE`, `IOC_PR_PREEMPT_ABORT` and `IOC_PR_CLEAR`: `_IOW('p', 200 + n, …)`.
const REGISTER: libc::Ioctl = request(200, size_of::<Keys>());
const RESERVE: libc::Ioctl = request(201, size_of::<Key>());
const PREEMPT_ABORT: libc::Ioctl = request(204, size_of::<Keys>());
const CLEAR: libc::Ioctl = request(205, size_of::<Key>());

const fn request(number: u32, bytes: usize) -> libc::Ioctl {
    (1 << 30 | (bytes as u32) << 16 | (b'p' as u32) << 8 | number) as libc::Ioctl
}

/// `PR_FL_IGNORE_KEY`: whatever key was registered.
const IGNORE_KEY: u32 = 1;
/// `PR_WRITE_EXCLUSIVE_REG_ONLY`.
const WRITE_EXCLUSIVE_REGISTRANTS_ONLY: u32 = 3;

/// The status RESERVATION CONFLICT of SCSI, which newer kernels return for NVMe, too. Before 6.3 it comes as the midlayer's result,
/// whose second byte is a message that means nothing here; the third one is the host adapter's, and zero if the drive has replied.
const SCSI_CONFLICT: i32 = 0x18;
const SCSI_STATUS: i32 = !0xff00;
/// The NVMe status Reservation Conflict, and the bits of a status without its flags.
const NVME_CONFLICT: i32 = 0x83;
const NVME_STATUS: i32 = 0x7ff;

/// Performs a step; blocks until the drive has replied.
pub(super) fn perform(node: &Node, step: ReservationStep) -> Result<bool> {
    match step {
        ReservationStep::Probe { key } => {
            let keys = Keys { old: key, new: key, words: [0, 0] };
            submit(node, "probe of a registration", REGISTER, &keys)
        }
        ReservationStep::Register { key } => {
            let mut keys = Keys { old: 0, new: key, words: [IGNORE_KEY, 0] };
            if submit(node, "registration", REGISTER, &keys)? {
                return Ok(true);
            }
            // NVMe: to replace a key is another action than to register one, which this number selects.
            keys.old = key;
            submit(node, "registration", REGISTER, &keys)
        }
        ReservationStep::Reserve { key } => {
            let key = Key { key, words: [WRITE_EXCLUSIVE_REGISTRANTS_ONLY, 0] };
            submit(node, "reservation", RESERVE, &key)
        }
        ReservationStep::PreemptAndAbort { key, victim } => {
            let keys = Keys { old: key, new: victim, words: [WRITE_EXCLUSIVE_REGISTRANTS_ONLY, 0] };
            submit(node, "preemption", PREEMPT_ABORT, &keys)
        }
        ReservationStep::Clear { key } => {
            submit(node, "clearing of reservations", CLEAR, &Key { key, words: [0, 0] })
        }
    }
}

fn submit<T>(node: &Node, what: &str, request: libc::Ioctl, argument: &T) -> Result<bool> {
    // SAFETY: each request reads the structure that belongs to it, which lives until the call returns.
    let status = unsafe { libc::ioctl(node.file.as_raw_fd(), request, std::ptr::from_ref(argument)) };
    outcome(&node.name, what, if status < 0 { Err(io::Error::last_os_error()) } else { Ok(status) })
}

/// What the kernel's answer means. It passes on the status of the drive, of SCSI or NVMe.
fn outcome(name: &str, what: &str, status: io::Result<i32>) -> Result<bool> {
    match status {
        Ok(0) => Ok(true),
        Ok(status) if status & SCSI_STATUS == SCSI_CONFLICT || status & NVME_STATUS == NVME_CONFLICT => {
            Ok(false)
        }
        // A conflict as the block layer reports it.
        Err(cause) if cause.raw_os_error() == Some(libc::EBADE) => Ok(false),
        Err(cause) if matches!(cause.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY)) => {
            Err(Error::Unusable(format!("{name} has no persistent reservations")))
        }
        Ok(status) => Err(Error::Drive { what: format!("{name}: {what}: status {status:#x}") }),
        Err(cause) => Err(Error::Drive { what: format!("{name}: {what}: {cause}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_numbers_of_the_kernel() {
        let numbers = [REGISTER, RESERVE, PREEMPT_ABORT, CLEAR].map(|request| request as u32);
        assert_eq!(numbers, [0x4018_70c8, 0x4010_70c9, 0x4018_70cc, 0x4010_70cd]);
    }

    #[test]
    fn a_conflict_of_scsi_and_of_nvme_is_no_error_and_a_lack_is_named() {
        let of = |status| outcome("/dev/sda", "reservation", status);
        assert_eq!(of(Ok(0)), Ok(true));
        for conflict in [0x18, 0x118, 0x83, 0x4083] {
            assert_eq!(of(Ok(conflict)), Ok(false), "{conflict:#x}");
        }
        let refused = |number| of(Err(io::Error::from_raw_os_error(number)));
        assert_eq!(refused(libc::EBADE), Ok(false));
        assert!(matches!(refused(libc::ENOTTY), Err(Error::Unusable(_))));
        for failure in [0x2, 0x1_0000, 0x1_0018] {
            assert!(matches!(of(Ok(failure)), Err(Error::Drive { .. })), "{failure:#x}");
        }
    }
}
