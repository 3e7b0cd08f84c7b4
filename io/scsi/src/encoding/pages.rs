//! The images of the mode pages of a unit (SPC-5 7.5, SBC-4 6.5) and the settings in them.

use crate::Status;
use crate::encoding::cdb::List;
use crate::encoding::sense::{Code, Fault};

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
    pub(crate) fn select(&self, list: List<'_>, save: bool) -> Result<Pages, Fault> {
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

    /// The requested pages, with the values that the page control field selects; `None` if there is no such page.
    pub(crate) fn images(&self, control: u8, code: u8, subpage: u8) -> Option<Vec<u8>> {
        let wanted =
            |page: &Page| (code == 0x3F || code == page.code) && (subpage == 0xFF || subpage == page.subpage);
        let mut body = Vec::new();
        for (index, page) in PAGES.iter().enumerate().filter(|(_, page)| wanted(page)) {
            let at = body.len();
            match control {
                0 => body.extend_from_slice(self.current.get(index)?),
                1 => {
                    body.extend_from_slice(page.changeable);
                }
                2 => body.extend_from_slice(page.default),
                _ => body.extend_from_slice(self.saved.get(index)?),
            }
            if let Some(first) = body.get_mut(at) {
                *first |= SAVEABLE;
            }
        }
        (!body.is_empty()).then_some(body)
    }

    /// Whether the current values differ.
    pub(crate) fn differs_now(&self, other: &Pages) -> bool {
        self.current != other.current
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

/// Whether there is any page or group of pages with this code.
pub(crate) fn is_code(code: u8) -> bool {
    code == 0x3F || PAGES.iter().any(|page| page.code == code)
}

#[cfg(test)]
#[path = "pages_test.rs"]
mod tests;
