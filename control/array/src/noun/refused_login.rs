//! Operator requests about refused iSCSI log-ins.

use crate::request::verbs;
use crate::shape::view::RefusedLogin;

verbs! {
    #![tag = "hosts"]

    /// List refused log-ins of the last seven days, of hosts and of unknown initiators
    ListRefusedLogins {} -> Vec<RefusedLogin>, Read "list" "refused log-in", Viewer, at GET "/refused-logins"
        says "The refused log-ins since the array was started"
        => |tx, _| Ok(tx.array.logins.refused(&tx.array.config(), None));
}
