//! The engine through its public interface, over shelves in memory and over drives. One program, so that it is linked once.

mod check;
mod concurrent;
mod dedup;
mod drives;
mod durable;
mod encrypted;
mod format;
mod full;
mod gathering;
mod images;
mod inconsistencies;
mod map_pages;
mod model;
mod noted;
mod overwritten;
mod policy;
mod read_ahead;
mod recompress;
mod snapshots;
mod space;
mod staged;
mod stored_index;
mod support;
mod unreadable;
mod upgrade;
mod workers;
