//! What controllers and arrays say to each other: the controllers of one array over their links, and arrays that replicate.
//!
//! `mutual_tls` proves which certificate an end has, and `admission` finds who that is before anything that it says is
//! decoded; `message` has the messages of protocols that move few bytes. Of one array, [`controller`] takes part in the
//! cluster, and [`board`] shows what it has come to. Each controller has a [`link`]: one that is not the home forwards by
//! `front` and [`portals`] what [`home`] performs; [`join`], [`copies`] of the history, [`logins`] and [`relay`] have
//! connections of their own. [`arrays`] connects different arrays. What is forwarded, and how often it takes effect, is
//! decided by the crate `forward`.

mod admission;
pub mod arrays;
pub mod board;
pub mod certificate;
pub mod controller;
pub mod copies;
mod front;
pub mod held;
pub mod home;
mod identity;
pub mod join;
pub mod kept;
pub mod link;
pub mod listening;
pub mod logins;
mod message;
pub mod moving;
mod mutual_tls;
pub mod portals;
mod ports;
pub mod reading;
pub mod relay;
pub mod shared_store;
pub mod standby;
pub mod token;
mod wire;
