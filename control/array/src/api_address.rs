//! The address of the API: besides the one of the options, which is always there, the array keeps one that can be changed while it
//! runs.
//!
//! A new address is on trial first: it listens beside the one before. The first request that succeeds by it confirms it; only
//! then it is recorded, and the one before is given up. Without such a request it is given up itself after a time. So neither a
//! wrong address nor a restart meanwhile locks an administrator out.

use crate::api_listeners::Trial;
use crate::array::Array;
use crate::request::verbs;
use crate::transaction::Transaction;
use crate::{Caller, Error, Result, check};
use history::Severity;
use records::{ApiAddressEntry, Edit, Record};
use serde::Serialize;
use std::net::SocketAddr;

/// Port of the API where none is given.
const API_PORT: u16 = 8443;
/// How long a new address is on trial, in seconds.
const TRIAL_SECONDS: u64 = 600;

/// The addresses of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShowApiAddress;

/// Try another address, or give up the one that the array keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeApiAddress {
    /// Address, with a TCP port unless it is 8443; `None`: only that of the options.
    pub address: Option<String>,
}

/// Keep the address that is on trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfirmApiAddress;

verbs! {
    ShowApiAddress -> ApiAddress, Read "show" "API address", Viewer
        => |tx, _| tx.array.api_address();
    ChangeApiAddress -> ApiAddress, Change "change" "API address", Admin
        => |tx, it| tx.change_api_address(it.address).await;
    ConfirmApiAddress -> ApiAddress, Change "confirm" "API address", Admin
        => |tx, _| tx.confirm_api_address().await;
}

/// The addresses of this controller's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiAddress {
    /// That of the options of the start.
    pub by_option: SocketAddr,
    /// The one that the array keeps.
    pub address: Option<SocketAddr>,
    /// Whether it listens there.
    pub listens: bool,
    /// The one that is on trial.
    pub trial: Option<SocketAddr>,
    /// Until when, in seconds since 1970.
    pub trial_until: Option<u64>,
}

impl Array {
    fn own_controller(&self) -> Result<u16> {
        let not_yet = || Error::precondition("the array does not listen yet: try again in a moment");
        self.own_ports.get().map(|own| own.controller).ok_or_else(not_yet)
    }

    fn kept_api_address(&self) -> Option<SocketAddr> {
        self.config().api_addresses.get(&self.own_controller().ok()?).copied()
    }

    fn api_address(&self) -> Result<ApiAddress> {
        let (listeners, address) = (&self.parts.api, self.kept_api_address());
        let trial = *self.api_trial.lock();
        Ok(ApiAddress {
            by_option: listeners.by_option(),
            address,
            listens: address.is_some_and(|address| listeners.is_open(address)),
            trial: trial.map(|trial| trial.address),
            trial_until: trial.map(|trial| trial.until),
        })
    }

    /// Confirms an address that has proven itself, gives up one that has not in its time, and opens the one that is kept.
    pub(crate) async fn watch_api_address(&self) {
        let trial = *self.api_trial.lock();
        if trial.is_some_and(|trial| self.parts.api.is_used(trial.address)) {
            if let Err(error) = self.perform(&Caller::array(), ConfirmApiAddress).await {
                tracing::error!(%error, "the new address of the API can't be recorded");
            }
            return;
        }
        let now = self.env.uptime_seconds();
        if let Some(late) = self.api_trial.lock().take_if(|trial| now >= trial.ends) {
            self.parts.api.close(late.address);
            let message = format!(
                "no request came by the new address {} of the API in {} minutes: it was given up",
                late.address,
                TRIAL_SECONDS / 60
            );
            self.log_event(Severity::Warning, "api-address.reverted", None, message);
            self.publish_change(records::Topic::ApiAddress);
        }
        self.open_kept_api_address();
    }

    /// Listens at the address that is kept, unless it does.
    fn open_kept_api_address(&self) {
        let Some(address) = self.kept_api_address() else {
            return self.alerts.end_report("api.down");
        };
        let api = &self.parts.api;
        if api.by_option() == address || api.is_open(address) {
            return self.alerts.end_report("api.down");
        }
        match api.open(address) {
            Ok(()) => self.alerts.end_report("api.down"),
            Err(_) if self.alerts.is_reported("api.down") => {}
            Err(error) => {
                let message = format!(
                    "the API can't listen on {address} ({error}): it is reached by {} only. Check that this machine has the address \
                     and that nothing else uses the port; it is tried again every second",
                    api.by_option()
                );
                self.alerts.report("api.down", Severity::Warning, message);
            }
        }
    }
}

impl Transaction<'_> {
    async fn change_api_address(&mut self, address: Option<String>) -> Result<ApiAddress> {
        let array = self.array;
        let controller = array.own_controller()?;
        let kept = array.kept_api_address();
        let before = array.api_trial.lock().take();
        if let Some(trial) = before {
            array.parts.api.close(trial.address);
        }
        match address.as_deref().map(|text| check::own_address(text, API_PORT)).transpose()? {
            None => {
                if let Some(address) = kept {
                    self.commit(vec![Edit::Remove(Record::ApiAddress(ApiAddressEntry {
                        controller,
                        address,
                    }))])
                    .await?;
                    array.parts.api.close(address);
                    let message =
                        format!("the address {address} of the API was given up by {}", self.caller.user);
                    array.log_event(Severity::Info, "api-address.removed", None, message);
                }
            }
            Some(new) if Some(new) == kept || new == array.parts.api.by_option() => {}
            Some(new) => {
                array.parts.api.open(new).map_err(|error| {
                    Error::precondition(format!(
                        "the API can't listen on {new} ({error}): check that this machine has the address and that nothing else uses \
                         the port; nothing was changed"
                    ))
                    .about("address")
                })?;
                let ends = array.env.uptime_seconds() + TRIAL_SECONDS;
                *array.api_trial.lock() =
                    Some(Trial { address: new, ends, until: self.now() + TRIAL_SECONDS });
                let message = format!("the address {new} of the API is tried by {}", self.caller.user);
                array.log_event(Severity::Info, "api-address.tried", None, message);
                array.publish_change(records::Topic::ApiAddress);
            }
        }
        array.api_address()
    }

    async fn confirm_api_address(&mut self) -> Result<ApiAddress> {
        let array = self.array;
        let controller = array.own_controller()?;
        let trial = *array.api_trial.lock();
        let Some(Trial { address, .. }) = trial else {
            return Err(Error::precondition(
                "no address of the API is on trial: it was confirmed, or given up",
            ));
        };
        let kept = array.kept_api_address();
        self.commit(vec![Edit::Put(Record::ApiAddress(ApiAddressEntry { controller, address }))]).await?;
        *array.api_trial.lock() = None;
        if let Some(kept) = kept {
            array.parts.api.close(kept);
        }
        let message = format!("{address} is the address of the API now, confirmed by {}", self.caller.user);
        array.log_event(Severity::Info, "api-address.changed", None, message);
        array.api_address()
    }
}
