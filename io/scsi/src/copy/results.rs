//! Results of third-party copies of one path by list identifier, for RECEIVE COPY RESULTS. A result is kept until
//! another copy uses its identifier.

use super::MAX_SEGMENTS;
use crate::path::Path;
use crate::sense::{Code, Fault};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The copies of a path.
#[derive(Default)]
pub(crate) struct Results(Mutex<BTreeMap<u8, Copy>>);

#[derive(Clone, Debug)]
enum Copy {
    Running,
    Done { segments: u16, bytes: u64 },
    Failed { sense: Bytes, status: u8 },
}

/// Stores the result of one copy; a copy that is dropped before its end has failed.
pub(super) struct ResultGuard {
    path: Arc<Path>,
    list_id: Option<u8>,
}

impl Results {
    /// Registers a copy. Refuses an identifier that a running copy of the path uses.
    pub(super) fn begin(path: &Arc<Path>, list_id: Option<u8>) -> Result<ResultGuard, Fault> {
        if let Some(list_id) = list_id {
            let mut copies = path.copies.0.lock();
            if matches!(copies.get(&list_id), Some(Copy::Running)) {
                return Err(Code::OPERATION_IN_PROGRESS.into());
            }
            copies.insert(list_id, Copy::Running);
        }
        Ok(ResultGuard { path: path.clone(), list_id })
    }

    fn get(&self, list_id: u8) -> Result<Copy, Fault> {
        self.0.lock().get(&list_id).cloned().ok_or(Fault::cdb_byte(2))
    }

    /// COPY STATUS (SPC-4 6.24.2)
    pub(super) fn status(&self, list_id: u8) -> Result<Vec<u8>, Fault> {
        let (status, segments, bytes) = match self.get(list_id)? {
            Copy::Running => (0x00, 0, 0),
            Copy::Done { segments, bytes } => (0x01, segments, bytes),
            Copy::Failed { .. } => (0x02, 0, 0),
        };
        let mut out = vec![0, 0, 0, 8, status];
        out.extend_from_slice(&segments.to_be_bytes());
        // The transfer count is in KiB, or in MiB where that does not fit.
        let (unit, count) = match u32::try_from(bytes >> 10) {
            Ok(count) if bytes.is_multiple_of(1024) => (0x01, count),
            _ => u32::try_from(bytes).map_or((0x02, (bytes >> 20) as u32), |bytes| (0x00, bytes)),
        };
        out.push(unit);
        out.extend_from_slice(&count.to_be_bytes());
        Ok(out)
    }

    /// FAILED SEGMENT DETAILS (SPC-4 6.24.5)
    pub(super) fn failed_segment(&self, list_id: u8) -> Result<Vec<u8>, Fault> {
        let Copy::Failed { sense, status } = self.get(list_id)? else { return Ok(vec![0; 4]) };
        let mut out = vec![0; 60];
        out[56] = status;
        out[58..60].copy_from_slice(&(sense.len() as u16).to_be_bytes());
        out.extend_from_slice(&sense);
        let available = out.len() as u32 - 4;
        out[..4].copy_from_slice(&available.to_be_bytes());
        Ok(out)
    }
}

impl ResultGuard {
    /// Ends the copy.
    pub(super) fn end(&self, end: Result<(), Fault>, segments: usize, bytes: u64) {
        let descriptor = self.path.unit.descriptor_sense.load(std::sync::atomic::Ordering::Relaxed);
        let copy = match end {
            Ok(()) => Copy::Done { segments: segments.min(MAX_SEGMENTS) as u16, bytes },
            Err(Fault::Check(sense)) => Copy::Failed { sense: sense.encode(descriptor), status: 0x02 },
            Err(Fault::Status(status)) => Copy::Failed { sense: Bytes::new(), status: status as u8 },
        };
        self.store(copy);
    }

    fn store(&self, copy: Copy) {
        if let Some(list_id) = self.list_id {
            self.path.copies.0.lock().insert(list_id, copy);
        }
    }
}

impl Drop for ResultGuard {
    fn drop(&mut self) {
        let Some(list_id) = self.list_id else { return };
        let running = matches!(self.path.copies.0.lock().get(&list_id), Some(Copy::Running));
        if running {
            self.store(Copy::Failed { sense: Bytes::new(), status: crate::Status::TaskAborted as u8 });
        }
    }
}
