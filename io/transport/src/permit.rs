//! Permission to answer hosts. A controller of a cluster has it while its lease holds. Without a lease, another
//! controller may have changed the data that an answer reports.

use std::fmt;
use std::sync::Arc;

/// Checked after commands were executed and before their responses are sent. Without permission, responses wait: they
/// are correct if the permission is granted at any time after the execution.
#[derive(Clone, Default)]
pub struct Permit(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Permit {
    /// Permission while `holds` returns true. The default is permission at any time.
    pub fn new(holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(holds)))
    }

    /// Whether hosts may be answered now.
    pub fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|holds| holds())
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "Permit(asked)" } else { "Permit(always)" })
    }
}
