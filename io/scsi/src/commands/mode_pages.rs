//! Mode pages (SPC-5 7.5, SBC-4 6.5): MODE SENSE and MODE SELECT over a table of page images.

use crate::commands::provisioning;
use crate::encoding::cdb::List;
use crate::encoding::pages::{self, Pages};
use crate::encoding::sense::{Code, Fault};
use crate::unit::command::{Completion, Flow, Request};
use crate::unit::path::Path;
use crate::unit::{Next, Unit};
use block::{Geometry, Note, Op};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// MODE SENSE (6) and (10) (SPC-5 6.13, 6.14)
pub(crate) fn sense(request: Request<'_>) -> Result<Flow, Fault> {
    let cdb = request.cdb;
    let long = cdb.u8(0) == 0x5A;
    let (control, code, subpage) = (cdb.u8(2) >> 6, cdb.u8(2) & 0x3F, cdb.u8(3));
    let unit = &request.path.unit;
    let (pages, settings) = {
        let core = unit.lock();
        (core.pages.clone(), core.pages.current())
    };
    let body = pages
        .images(control, code, subpage)
        .ok_or_else(|| if pages::is_code(code) { Fault::cdb_byte(3) } else { Fault::cdb_bit(2, 5) })?;
    let descriptor = match cdb.bit(1, 0x08) {
        true => Vec::new(),
        false => block_descriptor(unit.geometry(), long && cdb.bit(1, 0x10)),
    };
    let protect = if settings.write_protect || request.path.is_read_only() { 0x80 } else { 0 };
    let device = protect | 0x10; // DPOFUA
    let mut out = if long {
        let long_descriptor = u8::from(descriptor.len() == 16);
        let length = ((6 + descriptor.len() + body.len()) as u16).to_be_bytes();
        vec![length[0], length[1], 0, device, long_descriptor, 0, 0, descriptor.len() as u8]
    } else {
        vec![(3 + descriptor.len() + body.len()) as u8, 0, device, descriptor.len() as u8]
    };
    out.extend_from_slice(&descriptor);
    out.extend_from_slice(&body);
    Ok(Flow::data(out))
}

/// The block descriptor, short or long (SBC-4 6.5.2).
fn block_descriptor(geometry: Geometry, long: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    if long {
        out.extend_from_slice(&geometry.blocks.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
    } else {
        out.extend_from_slice(&u32::try_from(geometry.blocks).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.extend_from_slice(&geometry.block_bytes.to_be_bytes());
    out
}

/// MODE SELECT (6) and (10) (SPC-5 6.11, 6.12)
pub(crate) fn select(request: Request<'_>) -> Result<Flow, Fault> {
    let cdb = request.cdb;
    if !cdb.bit(1, 0x10) {
        return Err(Fault::cdb_bit(1, 4)); // PF: pages in the standard's format only
    }
    let bytes = request.data.to_bytes();
    if bytes.is_empty() {
        return Ok(Flow::good());
    }
    let list = List(&bytes);
    let header = if cdb.u8(0) == 0x55 { 8 } else { 4 };
    let at = header + check_descriptor(list, header, request.path.unit.geometry())?;
    let pages = list.sub(at, list.len() - at).ok_or(Fault::from(Code::PARAMETER_LIST_LENGTH))?;
    let save = cdb.bit(1, 0x01);
    let next = request.path.unit.lock().pages.select(pages, save)?;
    let note = request.notes.whole();
    Ok(Flow::later(adopt(request.path.clone(), next, save, note)))
}

/// Checks a mode parameter header and its block descriptors, which must not change anything; returns their length.
fn check_descriptor(list: List<'_>, header: usize, geometry: Geometry) -> Result<usize, Fault> {
    let (length, long) = match header {
        8 => (usize::from(list.u16(6)), list.u8(4) & 1 != 0),
        _ => (usize::from(list.u8(3)), false),
    };
    if list.len() < header + length {
        return Err(Code::PARAMETER_LIST_LENGTH.into());
    }
    let truth = block_descriptor(geometry, long);
    if length == 0 {
        return Ok(0);
    }
    if length != truth.len() {
        return Err(Fault::list_byte(header - 1));
    }
    // A number of blocks of zero means no change (SBC-4 6.5.2.2).
    let count = if long { 8 } else { 4 };
    for (index, byte) in truth.iter().enumerate() {
        let zero = (0..count).all(|place| list.u8(header + place) == 0);
        if list.u8(header + index) != *byte && !(index < count && zero) {
            return Err(Fault::list_byte(header + index));
        }
    }
    Ok(length)
}

/// Saves the pages if requested, or for a takeover, makes them current and raises MODE PARAMETERS CHANGED for the other initiators.
async fn adopt(path: Arc<Path>, next: Pages, save: bool, note: Option<Note>) -> Result<Completion, Fault> {
    let unit: &Unit = &path.unit;
    let saves_volatile = unit.volume.state().saves_volatile();
    let _lock = if save || saves_volatile { Some(unit.volume.lock_state().await) } else { None };
    if save || saves_volatile {
        let (state, scsi) = {
            let core = unit.lock();
            let others = core.paths.iter().filter(|other| !Arc::ptr_eq(other, &path));
            let changed = others.filter(|_| core.pages.differs_now(&next));
            let raised = changed.filter_map(|other| Some((other.origin?, Code::MODE_CHANGED))).collect();
            let pages = Some((next.saved_bytes(), next.current_bytes()));
            unit.encode_state(&core, Next { pages, raised, ..Next::default() })?
        };
        unit.set_changed(true);
        unit.volume.disk().execute_with(Op::SaveState(state), note).await?;
        unit.volume.state().set_scsi(scsi);
    }
    let mut core = unit.lock();
    let changed = core.pages.differs_now(&next);
    core.pages = next;
    core.threshold_crossed = false;
    unit.descriptor_sense.store(core.pages.current().descriptor_sense, Ordering::Relaxed);
    core.refresh();
    if changed {
        core.raise_unit_attention(Code::MODE_CHANGED, |other| !std::ptr::eq(other, &*path));
    }
    drop(core);
    provisioning::check_thresholds(&path);
    Ok(Completion::default())
}
