//! Get Log Page (NVM Express Base 2.0 clause 5.16).

use crate::controller::Controller;
use crate::discovery;
use crate::encoding::{Structure, list_of_u32};
use crate::execute;
use crate::path::Access;
use crate::spec::{ANA_GROUP, LogPage};
use crate::sqe::{FABRICS, Outcome, Sqe};
use crate::status::Status;
use crate::{admin, path::View};
use export::IoCounters;

/// RAE: the event of the page stays masked.
const RETAIN: u32 = 1 << 15;
/// RGO of the log page of asymmetric access: groups without their namespaces.
const GROUPS_ONLY: u32 = 1 << 8;
/// Units of data in the health log page.
const DATA_UNIT_BYTES: u64 = 512 * 1000;

/// Get Log Page: a part of the page, padded with zeros after its end.
pub(crate) fn get(controller: &Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    let code = sqe.dword(10) as u8;
    let page = LogPage::from_code(code, controller.discovery).ok_or(Status::INVALID_LOG_PAGE)?;
    let dwords = u64::from(sqe.dword(10) >> 16) | u64::from(sqe.dword(11) & 0xFFFF) << 16;
    let wanted = (dwords + 1) * 4;
    let from = sqe.qword(12);
    if wanted > u64::from(controller.max_transfer_bytes()) || !from.is_multiple_of(4) {
        return Err(Status::INVALID_FIELD);
    }
    if wanted > u64::from(sqe.data_bytes()) {
        return Err(Status::DATA_SGL_LENGTH_INVALID);
    }
    let retain = sqe.dword(10) & RETAIN != 0;
    if page == LogPage::ChangedNamespaces && !retain && from == 0 {
        controller.subsystem.begin_inventory(controller, |_| false);
    }
    let whole = content(controller, page, sqe, retain);
    let from = usize::try_from(from).ok().filter(|from| *from <= whole.len()).ok_or(Status::INVALID_FIELD)?;
    let wanted = usize::try_from(wanted).map_err(|_too_long| Status::INVALID_FIELD)?;
    let mut part: Vec<u8> = whole[from..].iter().copied().take(wanted).collect();
    part.resize(wanted, 0);
    if !retain {
        controller.events.clear(page);
    }
    Ok(Outcome::data(part))
}

fn content(controller: &Controller, page: LogPage, sqe: &Sqe, retain: bool) -> Vec<u8> {
    match page {
        LogPage::SupportedPages => {
            let supported = LogPage::supported(controller.discovery).iter();
            supported.fold(Structure::new(1024), |out, page| out.u32(*page as usize * 4, 1)).into_vec()
        }
        // Errors are reported with their commands; the page has one entry, which is invalid (error count zero).
        LogPage::Errors => vec![0; 64],
        LogPage::Health => health(&controller.view()),
        LogPage::Firmware => {
            Structure::new(512).u8(0, 1).text(8, 8, &controller.subsystem.identity.revision).into_vec()
        }
        LogPage::ChangedNamespaces => list_of_u32(controller.events.changed_namespaces().into_iter(), 4096),
        LogPage::CommandEffects => command_effects(),
        LogPage::NamespaceAccess => namespace_access(controller, sqe.dword(10) & GROUPS_ONLY != 0),
        LogPage::Discovery => discovery::log_page(controller),
        LogPage::ReservationNotification => {
            let mut out = Structure::new(64);
            if let Some((number, nsid, notice, left)) = controller.events.reservation_notification(!retain) {
                out = out.u64(0, number).u8(8, notice as u8).u8(9, left).u32(12, nsid);
            }
            out.into_vec()
        }
    }
}

/// SMART / Health Information (Base figure 207): bytes that the host read and wrote, and the fill level of the pool.
fn health(view: &View) -> Vec<u8> {
    let (mut read, mut written) = (export::OperationCounts::default(), export::OperationCounts::default());
    let mut add = |counters: &IoCounters| {
        for operation in [export::Operation::Read, export::Operation::Other] {
            read.add(&counters.of(operation));
        }
        for operation in [export::Operation::Write, export::Operation::CompareAndWrite] {
            written.add(&counters.of(operation));
        }
    };
    view.values().for_each(|path| add(&path.recorder.counters()));
    let space = view.values().next().map(|path| path.volume.disk().space()).unwrap_or_default();
    let free = space.pool_total.saturating_sub(space.pool_used);
    let spare = (free.saturating_mul(100)).checked_div(space.pool_total).unwrap_or(100).min(100) as u8;
    let units = |bytes: u64| u128::from(bytes.div_ceil(DATA_UNIT_BYTES));
    Structure::new(512)
        .u8(3, spare)
        .u128(32, units(read.bytes))
        .u128(48, units(written.bytes))
        .u128(64, read.operations().into())
        .u128(80, written.operations().into())
        .into_vec()
}

/// Commands Supported and Effects (Base figure 211), from the tables of commands.
fn command_effects() -> Vec<u8> {
    const SUPPORTED: u32 = 1;
    const CHANGES_BLOCKS: u32 = 1 << 1;
    let mut out = Structure::new(4096);
    for row in admin::ROWS.iter().filter(|row| row.opcode != FABRICS) {
        out = out.u32(usize::from(row.opcode) * 4, SUPPORTED);
    }
    for row in execute::ROWS {
        let effects = if row.access == Access::Write { CHANGES_BLOCKS } else { 0 };
        out = out.u32(1024 + usize::from(row.opcode) * 4, SUPPORTED | effects);
    }
    out.into_vec()
}

/// Asymmetric Namespace Access (Base figure 227): one group with all namespaces, optimized on every path.
fn namespace_access(controller: &Controller, groups_only: bool) -> Vec<u8> {
    const OPTIMIZED: u8 = 1;
    let view = controller.view();
    let changes = controller.subsystem.access_changes();
    let listed = if groups_only { 0 } else { view.len() };
    let mut out = Structure::new(48)
        .u64(0, changes)
        .u16(8, 1)
        .u32(16, ANA_GROUP)
        .u32(20, listed as u32)
        .u64(24, changes)
        .u8(32, OPTIMIZED)
        .into_vec();
    out.extend(view.keys().take(listed).flat_map(|nsid| nsid.to_le_bytes()));
    out
}
