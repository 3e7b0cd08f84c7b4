//! History of one sector, and the check that some order of its operations explains it and respects real time
//! (linearizability).
//!
//! Every value is written once, so a read identifies its write. All operations of a value form a *cluster*; successful
//! compares join clusters to chains with a given inner order. In any valid order, a chain is one block. The zone of a
//! block lies between its first return and its last invocation; a valid order exists exactly if zones do not contradict
//! each other (Gibbons and Korach, Testing Shared Memories, SIAM J. Comput. 26, 1997). The check takes one pass over
//! the operations, and a sort of the blocks, which are nearly in order.

use std::collections::HashMap;
use std::fmt::{self, Display};

/// A unique position in the order of invocations and returns at all hosts.
pub type Tick = u64;
/// Value of a sector; zero means zeros.
pub type Value = u64;

/// Effect or result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Returned this value.
    Read(Value),
    /// Wrote this value.
    Write(Value),
    /// A successful COMPARE AND WRITE.
    Swap {
        /// The compared value.
        from: Value,
        /// The written value.
        to: Value,
    },
    /// A COMPARE AND WRITE that found another value than this.
    Differs(Value),
}

/// An operation on the sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The command, for reports.
    pub command: u64,
    /// Time of sending.
    pub invoked: Tick,
    /// Time of the response, or the latest time of an effect; `None` if it may still take effect.
    pub returned: Option<Tick>,
    /// False if there was no response: it took effect or not. Recorded only for writes and compares.
    pub answered: bool,
    /// Effect or result.
    pub action: Action,
}

impl Operation {
    fn end(&self) -> Tick {
        self.returned.unwrap_or(Tick::MAX)
    }
}

/// Reason why no order explains a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A value that no command has written to this sector.
    NeverWritten(Value),
    /// Two compares of the same value succeeded.
    ComparedTwice(Value),
    /// The second value occurs before the last and after the first observation of the first value: an old value
    /// returned.
    Contradiction {
        /// A value.
        first: Value,
        /// Another one.
        second: Value,
    },
    /// A compare failed although the sector had the value at all times.
    WronglyDiffers(Value),
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverWritten(value) => write!(f, "no command has written {value:#x} here"),
            Self::ComparedTwice(value) => write!(f, "two compares with {value:#x} succeeded"),
            Self::Contradiction { first, second } => {
                write!(
                    f,
                    "no order explains when {first:#x} and {second:#x} were seen: one of them is stale or came back"
                )
            }
            Self::WronglyDiffers(value) => {
                write!(f, "a compare with {value:#x} failed, which was there all the time")
            }
        }
    }
}

/// Knowledge of one value.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    value: Value,
    /// Time at which its write was sent, and latest time of its effect.
    written: (Tick, Tick),
    /// The value compared by its write.
    from: Option<Value>,
    /// The compare that replaced it: invocation, end, and written value.
    replaced: Option<(Tick, Tick, Value)>,
    /// The last invocation and the first return of its reads.
    reads: Option<(Tick, Tick)>,
    /// Whether its write had a response, or the value was observed.
    happened: bool,
}

impl Cluster {
    fn first_return(&self) -> Tick {
        let reads = self.reads.map_or(Tick::MAX, |(_, first)| first);
        self.written.1.min(reads).min(self.replaced.map_or(Tick::MAX, |(_, end, _)| end))
    }

    fn last_invocation(&self) -> Tick {
        let reads = self.reads.map_or(0, |(last, _)| last);
        self.written.0.max(reads).max(self.replaced.map_or(0, |(invoked, ..)| invoked))
    }
}

/// A chain as a block of the order.
#[derive(Clone, Copy)]
struct Zone {
    first_return: Tick,
    last_invocation: Tick,
    /// Time at which its first write was sent.
    begins: Tick,
    /// Its first and its last value.
    values: (Value, Value),
}

/// Earliest times at which another value may have replaced one.
struct Changes {
    /// First returns of blocks in order, each with the two earliest writes of this and later blocks: time of sending,
    /// and last value of their block.
    starts: Vec<(Tick, [(Tick, Value); 2])>,
    /// Last invocation of the block that ends with a value.
    ends: HashMap<Value, Tick>,
}

impl Changes {
    fn new(clusters: &HashMap<Value, Cluster>, zones: &[Zone]) -> Self {
        let blocks = zones.iter().map(|zone| (zone.first_return, (zone.begins, zone.values.1)));
        // An unobserved value without a response may have existed for a moment.
        let unseen = clusters.values().filter(|it| !it.happened);
        let unseen = unseen.map(|it| (it.written.1, (it.written.0, it.value)));
        let mut blocks: Vec<_> = blocks.chain(unseen).collect();
        blocks.sort_unstable();
        let mut earliest = [(Tick::MAX, 0); 2];
        let mut starts = Vec::with_capacity(blocks.len());
        for (first_return, begins) in blocks.into_iter().rev() {
            let mut candidates = [begins, earliest[0], earliest[1]];
            candidates.sort_unstable();
            earliest = [candidates[0], candidates[1]];
            starts.push((first_return, earliest));
        }
        starts.reverse();
        Self { starts, ends: zones.iter().map(|zone| (zone.values.1, zone.last_invocation)).collect() }
    }

    /// Time of sending of the first write that may have followed all operations of this value.
    fn first_after(&self, cluster: &Cluster) -> Tick {
        if let Some((invoked, ..)) = cluster.replaced {
            return invoked;
        }
        let end = self.ends.get(&cluster.value).copied().unwrap_or(0);
        let at = self.starts.partition_point(|(first_return, _)| *first_return < end);
        let candidates = self.starts.get(at).into_iter().flat_map(|(_, earliest)| earliest);
        let others = candidates.filter(|(_, value)| *value != cluster.value);
        others.map(|(begins, _)| *begins).min().unwrap_or(Tick::MAX)
    }
}

/// Operations of one sector since a time at which its value was known.
#[derive(Clone, Debug)]
pub struct History {
    initial: Value,
    /// That time.
    since: Tick,
    operations: Vec<Operation>,
}

impl History {
    /// A sector with this value at this time.
    pub fn new(initial: Value, since: Tick) -> Self {
        Self { initial, since, operations: Vec::new() }
    }

    /// Adds an ended operation, preferably in the order of returns.
    pub fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }

    /// The operations in the order of addition.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Ends the possible effect of operations without a response.
    pub fn fence(&mut self, now: Tick) {
        for operation in self.operations.iter_mut().filter(|it| it.returned.is_none()) {
            operation.returned = Some(now);
        }
    }

    /// Restarts with this value, which a read returned without concurrent operations. Operations that may still take
    /// effect stay.
    pub fn restart(&mut self, value: Value, now: Tick) {
        let seen: Vec<Value> = self.operations.iter().filter_map(|it| seen(it.action)).collect();
        self.operations.retain(|it| {
            it.returned.is_none() && written(it.action).is_some_and(|value| !seen.contains(&value))
        });
        (self.initial, self.since) = (value, now);
    }

    /// Checks that some order explains the history.
    ///
    /// # Errors
    /// The reason why none does.
    pub fn check(&self) -> Result<(), Violation> {
        let clusters = self.clusters()?;
        let zones = zones(&clusters)?;
        contradiction(&zones)?;
        self.check_failed_compares(&clusters, &zones)
    }

    /// A failed compare must precede all operations of its value, or follow them and another write.
    fn check_failed_compares(
        &self,
        clusters: &HashMap<Value, Cluster>,
        zones: &[Zone],
    ) -> Result<(), Violation> {
        if !self.operations.iter().any(|it| matches!(it.action, Action::Differs(_))) {
            return Ok(());
        }
        let changes = Changes::new(clusters, zones);
        for it in &self.operations {
            let Action::Differs(value) = it.action else { continue };
            let Some(cluster) = clusters.get(&value).filter(|cluster| cluster.happened) else { continue };
            let after = value == self.initial || cluster.first_return() < it.invoked;
            let before = it.end() < cluster.last_invocation();
            if after && (before || changes.first_after(cluster) > it.end()) {
                return Err(Violation::WronglyDiffers(value));
            }
        }
        Ok(())
    }

    fn clusters(&self) -> Result<HashMap<Value, Cluster>, Violation> {
        let fresh = |value, written| Cluster {
            value,
            written,
            from: None,
            replaced: None,
            reads: None,
            happened: false,
        };
        let first = Cluster { happened: true, ..fresh(self.initial, (0, self.since)) };
        let mut clusters = HashMap::from([(self.initial, first)]);
        for it in &self.operations {
            let Some(value) = written(it.action) else { continue };
            let from = seen(it.action);
            let cluster = Cluster { from, happened: it.answered, ..fresh(value, (it.invoked, it.end())) };
            assert!(clusters.insert(value, cluster).is_none(), "{value:#x} is written twice to one sector");
        }
        for it in &self.operations {
            if let Action::Read(value) = it.action {
                let cluster = clusters.get_mut(&value).ok_or(Violation::NeverWritten(value))?;
                cluster.happened = true;
                let (last, first) = cluster.reads.unwrap_or((0, Tick::MAX));
                cluster.reads = Some((last.max(it.invoked), first.min(it.end())));
            }
        }
        self.link(&mut clusters)?;
        Ok(clusters)
    }

    /// Joins each value to the compare that replaced it. A successfully compared value existed, even if its write had
    /// no response; an unobserved write without a response counts as not performed.
    fn link(&self, clusters: &mut HashMap<Value, Cluster>) -> Result<(), Violation> {
        let happened =
            |clusters: &HashMap<Value, Cluster>, value| clusters.get(&value).is_some_and(|it| it.happened);
        let mut compared: Vec<Value> = Vec::new();
        compared.extend(clusters.values().filter(|it| it.happened).filter_map(|it| it.from));
        while let Some(value) = compared.pop() {
            let cluster = clusters.get_mut(&value).ok_or(Violation::NeverWritten(value))?;
            if !std::mem::replace(&mut cluster.happened, true) {
                compared.extend(cluster.from);
            }
        }
        for it in &self.operations {
            let Action::Swap { from, to } = it.action else { continue };
            if !happened(clusters, to) {
                continue;
            }
            let cluster = clusters.get_mut(&from).ok_or(Violation::NeverWritten(from))?;
            if cluster.replaced.replace((it.invoked, it.end(), to)).is_some() {
                return Err(Violation::ComparedTwice(from));
            }
        }
        Ok(())
    }
}

/// The value that an action observed in the sector.
fn seen(action: Action) -> Option<Value> {
    match action {
        Action::Read(value) | Action::Swap { from: value, .. } => Some(value),
        Action::Write(_) | Action::Differs(_) => None,
    }
}

/// The value that an action leaves in the sector.
fn written(action: Action) -> Option<Value> {
    match action {
        Action::Write(value) | Action::Swap { to: value, .. } => Some(value),
        Action::Read(_) | Action::Differs(_) => None,
    }
}

/// The blocks of the order. Within a chain, no operation may end before an earlier one was sent.
fn zones(clusters: &HashMap<Value, Cluster>) -> Result<Vec<Zone>, Violation> {
    let mut zones = Vec::with_capacity(clusters.len());
    let mut placed = 0;
    for head in clusters.values().filter(|it| it.happened && it.from.is_none()) {
        let (begins, values) = (head.written.0, (head.value, head.value));
        let mut zone = Zone { first_return: Tick::MAX, last_invocation: 0, begins, values };
        // The last invocation of the predecessors, and its value.
        let (mut before, mut whose) = (0, head.value);
        let mut next = Some(head);
        while let Some(cluster) = next {
            placed += 1;
            let reads = cluster.reads;
            let replaced = cluster.replaced.map(|(invoked, end, _)| (invoked, end));
            for (invoked, end) in [Some(cluster.written), reads, replaced].into_iter().flatten() {
                if end < before {
                    return Err(Violation::Contradiction { first: whose, second: cluster.value });
                }
                if invoked > before {
                    (before, whose) = (invoked, cluster.value);
                }
            }
            zone.values.1 = cluster.value;
            zone.first_return = zone.first_return.min(cluster.first_return());
            zone.last_invocation = zone.last_invocation.max(cluster.last_invocation());
            next = cluster.replaced.and_then(|(.., to)| clusters.get(&to));
        }
        zones.push(zone);
    }
    match clusters.values().filter(|it| it.happened).count() == placed {
        true => Ok(zones),
        // A value in no chain with a beginning is in a cycle of compares.
        false => {
            let value =
                clusters.values().find(|it| it.happened && it.from.is_some()).map_or(0, |it| it.value);
            Err(Violation::Contradiction { first: value, second: value })
        }
    }
}

/// Two blocks contradict each other if each has an operation that ended before one of the other was sent.
fn contradiction(zones: &[Zone]) -> Result<(), Violation> {
    let mut zones: Vec<&Zone> = zones.iter().collect();
    zones.sort_by_key(|zone| zone.first_return);
    // The block with the latest last invocation, of those with an earlier first return.
    let mut latest: Option<&Zone> = None;
    for zone in zones {
        if let Some(other) = latest
            && other.first_return < zone.last_invocation
            && zone.first_return < other.last_invocation
        {
            return Err(Violation::Contradiction { first: other.values.1, second: zone.values.0 });
        }
        if latest.is_none_or(|other| other.last_invocation < zone.last_invocation) {
            latest = Some(zone);
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "history_test.rs"]
mod tests;
