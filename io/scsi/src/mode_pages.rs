//! Mode pages (SPC-5 7.5, SBC-4 6.5): MODE SENSE and MODE SELECT over a table of page images.

use crate::Status;
use crate::cdb::List;
use crate::command::{Completion, Flow, Request};
use crate::path::Path;
use crate::provisioning;
use crate::sense::{Code, Fault};
use crate::unit::{Next, Unit};
use block::{Geometry, Note, Op};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A mode page: its code, its default values and the bits that a MODE SELECT may change. The images include the page
/// header.
struct Page {
    code: u8,
    subpage: u8,
    default: &'static [u8],
    changeable: &'static [u8],
}

const ERROR_RECOVERY: (u8, u8) = (0x01, 0x00);
const CONTROL: (u8, u8) = (0x0A, 0x00);
const PROVISIONING: (u8, u8) = (0x1C, 0x02);

/// The pages in the order in which MODE SENSE returns them.
#[rustfmt::skip]
const PAGES: [Page; 6] = [
    // Read-write error recovery: LBPERE, threshold notifications are on and can be switched off.
    Page { code: 0x01, subpage: 0x00,
        default:    &[0x01, 10, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0],
        changeable: &[0x01, 10, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0] },
    // Disconnect-reconnect: for the transport, all zero here.
    Page { code: 0x02, subpage: 0x00,
        default:    &[0x02, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        changeable: &[0x02, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] },
    // Caching: WCE is zero, since completed writes are durable.
    Page { code: 0x08, subpage: 0x00,
        default:    &[0x08, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        changeable: &[0x08, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] },
    // Control: one task set for all; unrestricted reordering; D_SENSE, SWP and TAS are changeable; no busy limit.
    Page { code: 0x0A, subpage: 0x00,
        default:    &[0x0A, 10, 0x00, 0x10, 0x00, 0x00, 0, 0, 0xFF, 0xFF, 0, 0],
        changeable: &[0x0A, 10, 0x04, 0x00, 0x08, 0x40, 0, 0, 0x00, 0x00, 0, 0] },
    // Informational exceptions control: nothing fails predictably here.
    Page { code: 0x1C, subpage: 0x00,
        default:    &[0x1C, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        changeable: &[0x1C, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] },
    // Logical block provisioning: SITUA; thresholds of available (armed decreasing) and used (increasing) resources.
    Page { code: 0x1C, subpage: 0x02,
        default:    &[0x5C, 0x02, 0, 28, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                      0x00, 0x01, 0, 0, 0, 0, 0, 0,
                      0x01, 0x02, 0, 0, 0, 0, 0, 0],
        changeable: &[0x5C, 0x02, 0, 28, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                      0x80, 0x00, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
                      0x80, 0x00, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF] },
];

/// PS: the page can be saved.
const SAVEABLE: u8 = 0x80;

impl Page {
    fn name(&self) -> (u8, u8) {
        (self.code, self.subpage)
    }

    /// Length of the page header.
    fn header(&self) -> usize {
        if self.subpage == 0 { 2 } else { 4 }
    }
}

/// The page images of one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    current: Vec<Vec<u8>>,
    saved: Vec<Vec<u8>>,
}

impl Default for Pages {
    fn default() -> Self {
        let images: Vec<_> = PAGES.iter().map(|page| page.default.to_vec()).collect();
        Pages { current: images.clone(), saved: images }
    }
}

/// The settings in the current pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Sense data in descriptor format (D_SENSE).
    pub(crate) descriptor_sense: bool,
    /// Software write protect (SWP).
    pub(crate) write_protect: bool,
    /// Tasks aborted by another nexus end with TASK ABORTED (TAS).
    pub(crate) report_aborted: bool,
    /// Crossed thresholds are reported (LBPERE).
    pub(crate) report_thresholds: bool,
    /// A crossed threshold is reported to one initiator only (SITUA).
    pub(crate) single_initiator: bool,
    /// The available-resources threshold in threshold units.
    pub(crate) min_available: Option<u32>,
    /// The used-resources threshold in threshold units.
    pub(crate) max_used: Option<u32>,
}

impl Settings {
    /// The status of tasks aborted by another nexus; `None` if they get no response.
    pub(crate) fn aborted_status(&self) -> Option<Status> {
        self.report_aborted.then_some(Status::TaskAborted)
    }
}

impl Pages {
    /// The settings in the current pages.
    pub(crate) fn current(&self) -> Settings {
        let image = |name| List(find(name).and_then(|at| self.current.get(at)).map_or(&[], Vec::as_slice));
        let (recovery, control, thin) = (image(ERROR_RECOVERY), image(CONTROL), image(PROVISIONING));
        let threshold = |at: usize| (thin.u8(at) & 0x80 != 0).then(|| thin.u32(at + 4));
        Settings {
            descriptor_sense: control.u8(2) & 0x04 != 0,
            write_protect: control.u8(4) & 0x08 != 0,
            report_aborted: control.u8(5) & 0x40 != 0,
            report_thresholds: recovery.u8(3) & 0x80 != 0,
            single_initiator: thin.u8(4) & 0x01 != 0,
            min_available: threshold(16),
            max_used: threshold(24),
        }
    }

    /// Restores the saved values, as a reset does.
    pub(crate) fn reset(&mut self) {
        self.current = self.saved.clone();
    }

    /// The saved images one after the other.
    pub(crate) fn saved_bytes(&self) -> Vec<u8> {
        self.saved.concat()
    }

    /// The current images one after the other.
    pub(crate) fn current_bytes(&self) -> Vec<u8> {
        self.current.concat()
    }

    /// These pages with other current images; `None` if an image does not fit its page.
    pub(crate) fn with_current(&self, bytes: &[u8]) -> Option<Pages> {
        self.select(List(bytes), false).ok()
    }

    /// Pages from saved images; `None` if an image does not fit its page by the rules of MODE SELECT.
    pub(crate) fn from_saved(bytes: &[u8]) -> Option<Pages> {
        Pages::default().select(List(bytes), true).ok()
    }

    /// The pages after a MODE SELECT of a page list.
    fn select(&self, list: List<'_>, save: bool) -> Result<Pages, Fault> {
        let mut next = self.clone();
        let mut at = 0;
        while at < list.len() {
            let long = list.u8(at) & 0x40 != 0;
            let name = (list.u8(at) & 0x3F, if long { list.u8(at + 1) } else { 0 });
            let length =
                if long { 4 + usize::from(list.u16(at + 2)) } else { 2 + usize::from(list.u8(at + 1)) };
            let (index, page) =
                find(name).and_then(|index| Some((index, PAGES.get(index)?))).ok_or(Fault::list_byte(at))?;
            let given = list.sub(at, length).ok_or(Fault::from(Code::PARAMETER_LIST_LENGTH))?;
            if length != page.default.len() {
                return Err(Fault::list_byte(at + page.header() - 1));
            }
            let image = next.current.get_mut(index).ok_or(Fault::list_byte(at))?;
            merge(page, image, given).map_err(|byte| Fault::list_byte(at + byte))?;
            if save && let Some(saved) = next.saved.get_mut(index) {
                saved.clone_from(image);
            }
            at += length;
        }
        Ok(next)
    }
}

/// Copies the changeable bits of a given page. Fails with the byte where another bit differs.
fn merge(page: &Page, image: &mut [u8], given: List<'_>) -> Result<(), usize> {
    for (at, (byte, mask)) in image.iter_mut().zip(page.changeable).enumerate().skip(page.header()) {
        if (*byte ^ given.u8(at)) & !mask != 0 {
            return Err(at);
        }
        *byte = given.u8(at);
    }
    Ok(())
}

fn find(name: (u8, u8)) -> Option<usize> {
    PAGES.iter().position(|page| page.name() == name)
}

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
    let body = sense_pages(&pages, control, code, subpage)
        .ok_or_else(|| if find_code(code) { Fault::cdb_byte(3) } else { Fault::cdb_bit(2, 5) })?;
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

/// Whether there is any page or group of pages with this code.
fn find_code(code: u8) -> bool {
    code == 0x3F || PAGES.iter().any(|page| page.code == code)
}

/// The requested pages, with the values that the page control field selects; `None` if there is no such page.
fn sense_pages(pages: &Pages, control: u8, code: u8, subpage: u8) -> Option<Vec<u8>> {
    let wanted =
        |page: &Page| (code == 0x3F || code == page.code) && (subpage == 0xFF || subpage == page.subpage);
    let mut body = Vec::new();
    for (index, page) in PAGES.iter().enumerate().filter(|(_, page)| wanted(page)) {
        let at = body.len();
        match control {
            0 => body.extend_from_slice(pages.current.get(index)?),
            1 => {
                body.extend_from_slice(page.changeable);
            }
            2 => body.extend_from_slice(page.default),
            _ => body.extend_from_slice(pages.saved.get(index)?),
        }
        if let Some(first) = body.get_mut(at) {
            *first |= SAVEABLE;
        }
    }
    (!body.is_empty()).then_some(body)
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
            let changed = others.filter(|_| core.pages.current != next.current);
            let raised = changed.filter_map(|other| Some((other.origin?, Code::MODE_CHANGED))).collect();
            let pages = Some((next.saved_bytes(), next.current_bytes()));
            unit.encode_state(&core, Next { pages, raised, ..Next::default() })?
        };
        unit.set_changed(true);
        unit.volume.disk().execute_with(Op::SaveState(state), note).await?;
        unit.volume.state().set_scsi(scsi);
    }
    let mut core = unit.lock();
    let changed = core.pages.current != next.current;
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

#[cfg(test)]
#[path = "mode_pages_test.rs"]
mod tests;
