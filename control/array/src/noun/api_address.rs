//! The address of the API: besides the one of the options, which is always there, the array keeps one that can be
//! changed while it runs.
//!
//! A new address is on trial first: it listens beside the one before. The first request that succeeds by it confirms it; only
//! then it is recorded, and the one before is given up. Without such a request it is given up itself after a time. So neither a
//! wrong address nor a restart during the trial locks an administrator out.
//!
//! Each controller may have such an address of its own. One more moves: the home has it, whichever controller that is.

use crate::array::Array;
use crate::array::transaction::Transaction;
use crate::configuration::check;
use crate::noun::portal::not_settled;
use crate::parts::api_listeners::Trial;
use crate::parts::moving_addresses::{Movable, OF_HOME, check_movable, check_owner};
use crate::request::verbs;
use crate::shape::{shapes, some_time};
use crate::{Caller, Error, Result};
use history::Severity;
use records::{ApiAddressEntry, Edit, Record};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use utoipa::ToSchema;

/// Port of the API where none is given.
const API_PORT: u16 = 8443;
/// How long a new address is on trial, in seconds.
const TRIAL_SECONDS: u64 = 600;

/// Another address of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ApiAddressChange)]
pub struct ChangeApiAddress {
    /// Address of the home's machine, with port 8443 unless another is given; `null`: only that of the options.
    #[schema(example = "10.0.0.1", required = true)]
    #[serde(deserialize_with = "Option::deserialize")]
    pub address: Option<String>,
    /// Change the address that moves with the home: each home adds it to the interface of its machine that has an address in the
    /// same network. It must not be configured on a machine. `ashlard` needs CAP_NET_ADMIN and CAP_NET_RAW for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moves: bool,
}

verbs! {
    #![tag = "array"]

    /// Get the addresses of the API
    ShowApiAddress {} -> ApiAddress, Read "show" "API address", Viewer, at GET "/api-address" says "The addresses"
        => |tx, _| tx.array.api_address();
    /// Try another address of the API
    ///
    /// It serves at once, beside the others. The first authenticated request by it confirms it: it is kept, and the one that was kept before
    /// is given up. Without such a request within ten minutes, or after a restart, it is given up, and nothing has changed.
    ChangeApiAddress -> ApiAddress, Change "change" "API address", Admin, at PUT "/api-address" says "The addresses"
        => |tx, it| tx.change_api_address(it).await;
    /// Confirm the address of the API that is on trial
    ConfirmApiAddress {} -> ApiAddress, Change "confirm" "API address", Admin, at POST "/api-address/confirm"
        says "The addresses"
        => |tx, _| tx.confirm_api_address().await;
}

/// Addresses at which the home serves the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApiAddress {
    /// Address of the options of the start, which always serves.
    #[schema(value_type = String, example = "127.0.0.1:8443")]
    pub by_option: SocketAddr,
    /// Address that the array keeps; `null` if there is none.
    #[schema(value_type = Option<String>, example = "10.0.0.1:8443")]
    pub address: Option<SocketAddr>,
    /// Whether it listens at the address that the array keeps.
    pub listens: bool,
    /// Address that moves with the home; `null` if there is none.
    #[schema(value_type = Option<String>, example = "10.0.0.9:8443")]
    pub moving: Option<SocketAddr>,
    /// Whether it listens at the address that moves.
    pub moving_listens: bool,
    /// Address that is on trial; `null` if there is none. The first authenticated request by it confirms it.
    #[schema(value_type = Option<String>)]
    pub trial: Option<SocketAddr>,
    /// Time at which that is given up without such a request.
    #[serde(serialize_with = "some_time")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub trial_until: Option<u64>,
}

shapes! {
    ApiAddress;
}

impl Array {
    /// Record key of the API address: of the one that moves, or of that of this controller.
    fn api_place(&self, moves: bool) -> Result<u16> {
        let own = self.own_ports.get().map(|own| own.controller).ok_or_else(not_settled)?;
        Ok(if moves { OF_HOME } else { own })
    }

    fn kept_api_address(&self, moves: bool) -> Option<SocketAddr> {
        self.config().api_addresses.get(&self.api_place(moves).ok()?).copied()
    }

    /// Whether the API listens at an address without a listener of its own: at all addresses.
    fn is_api_everywhere(&self, address: SocketAddr) -> bool {
        let by_option = self.parts.api.by_option();
        let is_same = by_option.port() == address.port() && by_option.is_ipv4() == address.is_ipv4();
        is_same && by_option.ip().is_unspecified()
    }

    /// Listens at an address; this machine gets one that moves before that.
    fn open_api(&self, address: SocketAddr, moves: bool) -> io::Result<()> {
        let is_new = moves && self.moved.api.lock().insert(address);
        let held = if is_new { self.parts.addresses.hold(address.ip()) } else { Ok(()) };
        let opened = match held {
            Ok(()) if moves && self.is_api_everywhere(address) => Ok(()),
            Ok(()) => self.parts.api.open(address),
            Err(error) => Err(error),
        };
        if opened.is_err() && is_new {
            self.release_api(address);
        }
        opened
    }

    fn close_api(&self, address: SocketAddr) {
        self.parts.api.close(address);
        self.release_api(address);
    }

    fn release_api(&self, address: SocketAddr) {
        if self.moved.api.lock().remove(&address) {
            self.parts.addresses.release(address.ip());
        }
    }

    fn is_api_open(&self, address: SocketAddr) -> bool {
        let is_held = || self.moved.api.lock().contains(&address);
        self.parts.api.is_open(address) || self.is_api_everywhere(address) && is_held()
    }

    fn api_address(&self) -> Result<ApiAddress> {
        let [address, moving] = [false, true].map(|moves| self.kept_api_address(moves));
        let listens = |address: Option<SocketAddr>| address.is_some_and(|address| self.is_api_open(address));
        let trial = *self.api_trial.lock();
        Ok(ApiAddress {
            by_option: self.parts.api.by_option(),
            address,
            listens: listens(address),
            moving,
            moving_listens: listens(moving),
            trial: trial.map(|trial| trial.address),
            trial_until: trial.map(|trial| trial.until),
        })
    }

    /// Confirms an address that has proven itself, gives up one that has not in its time, and opens those that are kept.
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
            self.close_api(late.address);
            let message = format!(
                "no request came by the new address {} of the API in {} minutes: it was given up",
                late.address,
                TRIAL_SECONDS / 60
            );
            self.log_event(Severity::Warning, "api-address.reverted", None, message);
            self.publish_change(records::Topic::ApiAddress);
        }
        let opened: Vec<_> =
            [false, true].into_iter().filter_map(|moves| self.open_kept_api_address(moves)).collect();
        match opened.into_iter().find_map(|(address, opened)| Some((address, opened.err()?))) {
            None => self.alerts.end_report("api.down"),
            Some(_) if self.alerts.is_reported("api.down") => {}
            Some((address, error)) => {
                let message = format!(
                    "the API can't listen on {address} ({error}); it is reached by {}. Check that this machine has the address, or \
                     can have it, and that nothing else uses the port; it is tried again every second",
                    self.parts.api.by_option()
                );
                self.alerts.report("api.down", Severity::Warning, message);
            }
        }
    }

    /// Listens at the address that is kept, unless it does; `None` if none is.
    fn open_kept_api_address(&self, moves: bool) -> Option<(SocketAddr, io::Result<()>)> {
        let address = self.kept_api_address(moves)?;
        let is_open = self.parts.api.by_option() == address || self.is_api_open(address);
        Some((address, if is_open { Ok(()) } else { self.open_api(address, moves) }))
    }
}

impl Transaction<'_> {
    async fn change_api_address(
        &mut self,
        ChangeApiAddress { address, moves }: ChangeApiAddress,
    ) -> Result<ApiAddress> {
        let array = self.array;
        let wanted = address.as_deref().map(|text| check::own_address(text, API_PORT)).transpose()?;
        let is_known = |array: &Array, new: SocketAddr| {
            Some(new) == array.kept_api_address(moves) || new == array.parts.api.by_option()
        };
        if let Some(new) = wanted.filter(|new| moves && !is_known(array, *new)) {
            check_movable(array.own_ports.get().ok_or_else(not_settled)?, new.ip())?;
            self.outside(array.check_unused(new.ip())).await??;
        }
        let controller = array.api_place(moves)?;
        let kept = array.kept_api_address(moves);
        let before = array.api_trial.lock().take();
        if let Some(trial) = before {
            array.close_api(trial.address);
        }
        match wanted {
            None => {
                if let Some(address) = kept {
                    self.commit(vec![Edit::Remove(Record::ApiAddress(ApiAddressEntry {
                        controller,
                        address,
                    }))])
                    .await?;
                    array.close_api(address);
                    let message =
                        format!("the address {address} of the API was given up by {}", self.caller.user);
                    array.log_event(Severity::Info, "api-address.removed", None, message);
                }
            }
            Some(new) if is_known(array, new) => {}
            Some(new) => {
                if moves {
                    check_owner(&array.config(), &Movable { controller, protocol: None, moves }, new.ip())?;
                }
                array.open_api(new, moves).map_err(|error| {
                    let has = if moves { "can have" } else { "has" };
                    Error::precondition(format!(
                        "the API can't listen on {new} ({error}): check that this machine {has} the address and that nothing else \
                         uses the port; nothing was changed"
                    ))
                    .about("address")
                })?;
                let ends = array.env.uptime_seconds() + TRIAL_SECONDS;
                *array.api_trial.lock() =
                    Some(Trial { address: new, moves, ends, until: self.now() + TRIAL_SECONDS });
                let message = format!("the address {new} of the API is tried by {}", self.caller.user);
                array.log_event(Severity::Info, "api-address.tried", None, message);
                array.publish_change(records::Topic::ApiAddress);
                if array.is_api_everywhere(new) {
                    // A request by it looks like others: there is nothing to wait for.
                    return self.confirm_api_address().await;
                }
            }
        }
        array.api_address()
    }

    async fn confirm_api_address(&mut self) -> Result<ApiAddress> {
        let array = self.array;
        let trial = *array.api_trial.lock();
        let Some(Trial { address, moves, .. }) = trial else {
            return Err(Error::precondition(
                "no address of the API is on trial: it was confirmed, or given up",
            ));
        };
        let (controller, kept) = (array.api_place(moves)?, array.kept_api_address(moves));
        self.commit(vec![Edit::Put(Record::ApiAddress(ApiAddressEntry { controller, address }))]).await?;
        *array.api_trial.lock() = None;
        if let Some(kept) = kept {
            array.close_api(kept);
        }
        let message = format!("{address} is the address of the API now, confirmed by {}", self.caller.user);
        array.log_event(Severity::Info, "api-address.changed", None, message);
        array.api_address()
    }
}
