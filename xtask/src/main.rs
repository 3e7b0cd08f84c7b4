//! Filled in by its own commits.
fn main() {}
