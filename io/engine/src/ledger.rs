//! Ledger: the commands of front ends that took effect, as the journal and the checkpoint have them.

use crate::change::Change;
use crate::engine::Engine;
use crate::record::Mutation;
use crate::root::NOTING_VERSION;
use block::{Known, Ledger, Pending, Reply, Sequence};

impl Engine {
    /// Whether commands of front ends are noted: then the engine is the ledger of its volumes.
    pub fn notes_commands(&self) -> bool {
        self.core.format.active() >= NOTING_VERSION
    }
}

impl Ledger for Engine {
    fn look_up(&self, sequence: Sequence) -> Known {
        self.core.state.read().done.look_up(sequence)
    }

    fn settled(&self) -> Pending {
        let core = self.core.clone();
        let batch = core.state.read().done_batch;
        Pending::later(async move { core.journal.until(batch).await.map(|()| Reply::Done) })
    }

    fn fronts(&self) -> Vec<u64> {
        self.core.state.read().done.fronts().collect()
    }

    fn forget(&self, front: u64) -> Pending {
        let core = self.core.clone();
        let change = Change::of(Mutation::Forget { front });
        Pending::later(async move { core.change(change).await.map(|()| Reply::Done) })
    }
}
