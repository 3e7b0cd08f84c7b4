//! Services. Each owns its state, receives its inputs at construction, and publishes events on the event bus. None
//! depends on the array.

pub(crate) mod accounts;
pub(crate) mod alerts;
pub(crate) mod audit_mark;
pub(crate) mod caller;
pub(crate) mod clock;
pub(crate) mod condition;
pub(crate) mod controllers;
pub(crate) mod delivery_queue;
pub(crate) mod directories;
pub(crate) mod displacements;
pub(crate) mod drives;
pub(crate) mod health;
pub(crate) mod jobs;
pub(crate) mod login_queue;
pub(crate) mod logins;
pub(crate) mod metering;
pub(crate) mod mirrors;
pub(crate) mod notifier;
pub(crate) mod outgoing;
pub(crate) mod point_retention;
pub(crate) mod quotas;
pub(crate) mod remote_arrays;
pub(crate) mod replica_conditions;
pub(crate) mod replicas;
pub(crate) mod replication_env;
pub(crate) mod replication_meter;
pub(crate) mod replication_status;
pub(crate) mod schedules;
pub(crate) mod scrub;
pub(crate) mod sealed_store;
pub(crate) mod space;
pub(crate) mod statistics;
pub(crate) mod usage_meter;
pub(crate) mod windows;
pub(crate) mod witnesses;
