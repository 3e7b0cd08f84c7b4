//! What operators do to an array on drives in memory, and what is there after a crash.

#![allow(clippy::unwrap_used, reason = "a test that finds something else than it expects has failed")]

mod actions;
mod alerts;
mod api_address;
mod automation;
mod cables;
mod clock;
mod configuration;
mod controllers;
mod drives;
mod fibre_channel;
mod growth;
mod keys;
mod logins;
mod measured;
mod moving;
mod notices;
mod nvme;
mod outgoing;
mod pages;
mod points;
mod policies;
mod portals;
mod remote;
mod replicated;
mod replication;
mod reverse;
mod rig;
mod roles;
mod schedules;
mod snapshots;
mod synchronous;
mod topics;
mod trail;
mod upgrades;
mod windows;
mod witness;
