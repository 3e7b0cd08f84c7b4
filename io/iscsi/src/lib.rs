//! Filled in by its own commits.
