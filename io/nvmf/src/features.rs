//! Set Features and Get Features (NVM Express Base 2.0 clauses 5.15 and 5.27).

use crate::controller::Controller;
use crate::event::ReservationNotice;
use crate::execute::Execution;
use crate::reservation;
use crate::spec::{FEATURES, Feature, FeatureRow, find_feature};
use crate::sqe::{ALL_NAMESPACES, Outcome, Sqe};
use crate::status::Status;
use export::InitiatorPort;
use std::sync::Arc;

/// SV of Set Features: save the value.
const SAVE: u32 = 1 << 31;
/// SEL of Get Features.
const SELECT_DEFAULT: u32 = 1;
const SELECT_SAVED: u32 = 2;
const SELECT_CAPABILITIES: u32 = 3;

/// The namespace of a feature that has a value for each namespace; zero for all of them.
fn namespace(controller: &Controller, row: &FeatureRow, sqe: &Sqe) -> Result<u32, Status> {
    match (row.namespace, sqe.nsid()) {
        (false, _) => Ok(0),
        (true, ALL_NAMESPACES) if row.feature != Feature::ReservationPersistence => Ok(0),
        (true, nsid) => controller.path_of(sqe).map(|_| nsid).ok_or(Status::INVALID_NAMESPACE),
    }
}

/// Set Features
pub(crate) fn set(controller: &Arc<Controller>, sqe: &Sqe) -> Execution {
    match set_now(controller, sqe) {
        Ok(execution) => execution,
        Err(status) => status.into(),
    }
}

fn set_now(controller: &Arc<Controller>, sqe: &Sqe) -> Result<Execution, Status> {
    let row = find_feature(sqe.dword(10) as u8, controller.discovery).ok_or(Status::INVALID_FIELD)?;
    if sqe.dword(10) & SAVE != 0 {
        return Err(Status::FEATURE_NOT_SAVEABLE);
    }
    let nsid = namespace(controller, row, sqe)?;
    let value = sqe.dword(11);
    if row.changeable == 0 {
        tracing::debug!(feature = row.name, clause = row.clause, "can't be changed");
        let same = row.feature == Feature::PowerManagement && value == 0;
        return if same {
            Ok(Execution::Done(Outcome::success()))
        } else {
            Err(Status::FEATURE_NOT_CHANGEABLE)
        };
    }
    if value & !row.changeable != 0 {
        return Err(Status::INVALID_FIELD);
    }
    match row.feature {
        Feature::NumberOfQueues => {
            let (submission, completion) = (value as u16, (value >> 16) as u16);
            if submission == u16::MAX || completion == u16::MAX {
                return Err(Status::INVALID_FIELD);
            }
            if controller.connected_queues() > 0 {
                return Err(Status::COMMAND_SEQUENCE_ERROR);
            }
            let granted = u64::from(controller.grant_queues(submission, completion)) - 1;
            return Ok(Execution::Done(Outcome::result(granted | granted << 16)));
        }
        Feature::AsynchronousEvents => controller.events.configure(value),
        Feature::KeepAliveTimer => controller.set_keep_alive_ms(value),
        Feature::ReservationPersistence => {
            let path = controller.path_of(sqe).ok_or(Status::INVALID_NAMESPACE)?;
            let exports = controller.exports().clone();
            return Ok(Execution::Task(Box::pin(async move {
                match reservation::set_persistence(&exports, &path, value != 0).await {
                    Ok(()) => Outcome::success(),
                    Err(status) => status.into(),
                }
            })));
        }
        _ => controller.set_feature(row, nsid, value),
    }
    Ok(Execution::Done(Outcome::success()))
}

/// Get Features
pub(crate) fn get(controller: &Controller, sqe: &Sqe) -> Result<Outcome, Status> {
    let row = find_feature(sqe.dword(10) as u8, controller.discovery).ok_or(Status::INVALID_FIELD)?;
    let nsid = namespace(controller, row, sqe)?;
    match sqe.dword(10) >> 8 & 7 {
        SELECT_DEFAULT | SELECT_SAVED => return Ok(Outcome::result(row.default.into())),
        SELECT_CAPABILITIES => {
            let capabilities = u64::from(row.namespace) << 1 | u64::from(row.changeable != 0) << 2;
            return Ok(Outcome::result(capabilities));
        }
        0 => {}
        _ => return Err(Status::INVALID_FIELD),
    }
    let value = match row.feature {
        Feature::NumberOfQueues => {
            let granted = u32::from(controller.granted_queues()) - 1;
            granted | granted << 16
        }
        Feature::AsynchronousEvents => controller.events.configuration(),
        Feature::KeepAliveTimer => controller.keep_alive_ms(),
        Feature::ReservationPersistence => {
            let path = controller.path_of(sqe).ok_or(Status::INVALID_NAMESPACE)?;
            u32::from(path.volume.state().registrations.persists)
        }
        Feature::HostIdentifier => {
            // EXHID: only the extended form has room for the identifiers that are used over fabrics.
            if sqe.dword(11) & 1 == 0 {
                return Err(Status::INVALID_FIELD);
            }
            return match &controller.host.initiator {
                InitiatorPort::Nvme { host_id, .. } => Ok(Outcome::data(host_id.to_vec())),
                _ => Err(Status::INTERNAL_ERROR),
            };
        }
        _ => controller.feature(row, nsid),
    };
    Ok(Outcome::result(value.into()))
}

impl Controller {
    /// Whether the host has masked this notification of a reservation change (Base 5.27.1.26).
    pub(crate) fn masks_notice(&self, nsid: u32, notice: ReservationNotice) -> bool {
        let row = FEATURES.iter().find(|row| row.feature == Feature::ReservationNotificationMask);
        row.is_some_and(|row| {
            let mask = self.feature(row, nsid) | self.feature(row, 0);
            mask & 1 << notice as u8 != 0
        })
    }
}
