//! Operator requests about refused iSCSI log-ins.

use crate::request::verbs;
use crate::shape::view::RefusedLogin;
use serde::Serialize;

/// Log-ins that were refused, of known and unknown initiators, the last one first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListRefusedLogins;

verbs! {
    ListRefusedLogins -> Vec<RefusedLogin>, Read "list" "refused log-in", Viewer
        => |tx, _| Ok(tx.array.logins.refused(&tx.array.config(), None));
}
