//! Table of the functions that clients and nodes may call: name, parameters, caller and effect. A test compares the README's table with
//! it.

use crate::access::Role;
use crate::protocol::names;

/// A function of `.u`, or of the paper's `.u.asg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Sub,
    Add,
    SubInner,
    Del,
    Upd,
    Seq,
    Confirm,
    State,
    Calendar,
    FailOver,
    End,
    EndOfDay,
    Schema,
    Retry,
    Discard,
    Timer,
    QueueSubscribe,
    QueueRoll,
    QueueEnd,
    QueueAdd,
    QueueClose,
    Wake,
    Written,
    Nonce,
    Prove,
    Join,
    From,
    Stream,
    Rolling,
    Proved,
    Status,
    Leaving,
    Owners,
    Evict,
    Forget,
    FollowOpen,
    FollowChecksums,
    FollowCopy,
}

/// Entry of the function table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub function: Function,
    pub name: &'static str,
    /// Parameter names for the documentation.
    pub parameters: &'static [&'static str],
    /// Role that the caller needs; `None` if every connection may call it.
    pub role: Option<Role>,
    pub does: &'static str,
}

const fn row(
    function: Function,
    name: &'static str,
    parameters: &'static [&'static str],
    role: Option<Role>,
    does: &'static str,
) -> Row {
    Row { function, name, parameters, role, does }
}

const PUBLISH: Option<Role> = Some(Role::Publish);
const SUBSCRIBE: Option<Role> = Some(Role::Subscribe);
const OPERATOR: Option<Role> = Some(Role::Operator);
const NODE: Option<Role> = Some(Role::Node);

/// In the order in which `.u` lists them.
pub const FUNCTIONS: [Row; 38] = [
    row(
        Function::Sub,
        ".u.sub",
        &["table", "symbols"],
        SUBSCRIBE,
        "subscribes, replacing the connection's subscription to the table",
    ),
    row(
        Function::Add,
        ".u.add",
        &["table", "symbols"],
        SUBSCRIBE,
        "adds symbols to the connection's subscription to the table; with a third argument, as in the paper, to that of a handle",
    ),
    row(
        Function::SubInner,
        ".u.subInner",
        &["table", "symbols", "handle"],
        SUBSCRIBE,
        "as `.u.sub`, for a handle: the paper's; another's handle needs the role operator",
    ),
    row(Function::Del, ".u.del", &["table", "handle"], SUBSCRIBE, "ends a subscription, but not that of a node"),
    row(Function::Upd, ".u.upd", &["table", "data"], PUBLISH, "publishes an update"),
    row(
        Function::Seq,
        ".u.seq",
        &["publisher"],
        PUBLISH,
        "returns the last sequence number accepted from a publisher, and gives its id to the connection",
    ),
    row(
        Function::Confirm,
        names::CONFIRM,
        &[],
        PUBLISH,
        "returns once the connection's updates are as durable as promised: how many were rejected, and why",
    ),
    row(
        Function::State,
        names::STATE,
        &[],
        None,
        "returns whether this tickerplant is active, the lease, the epoch, the updates in the log, who is active where, and what endangers that",
    ),
    row(
        Function::Calendar,
        ".u.calendar",
        &["date"],
        None,
        "returns whether a date is a trading day of `--calendar`, when its market opens, closes and its day ends, and the next trading day; of today: `.u.calendar[]`",
    ),
    row(
        Function::FailOver,
        names::FAIL_OVER,
        &["successor"],
        OPERATOR,
        "hands the log over to a passive tickerplant, by its `name` in `.u.state[]`, or to any: `.u.failover[]`",
    ),
    row(Function::End, names::END, &["date"], OPERATOR, "sends `.u.end` to subscribers without ending the day"),
    row(
        Function::EndOfDay,
        ".u.endofday",
        &["force"],
        OPERATOR,
        "ends the day; `` `force `` if the next is over a day ahead of the clock",
    ),
    row(Function::Schema, names::SCHEMA, &["table", "empty table"], OPERATOR, "adds columns at the end of a table"),
    row(
        Function::Retry,
        ".u.retry",
        &["ids"],
        PUBLISH,
        "publishes rejected updates again, by their ids in `.u.rejected`",
    ),
    row(Function::Discard, ".u.discard", &["ids"], OPERATOR, "removes rejected updates, or all: `.u.discard[]`"),
    row(Function::Timer, ".z.ts", &["time"], OPERATOR, "publishes the buffered rows of batch mode now"),
    row(
        Function::QueueSubscribe,
        names::PAPER_SUBSCRIBE,
        &["tables", "symbols", "queue"],
        NODE,
        "joins a queue, in the paper's protocol",
    ),
    row(
        Function::QueueRoll,
        ".u.asg.roll",
        &["handle", "count"],
        NODE,
        "rolls, in the paper's protocol: the number of messages received",
    ),
    row(Function::QueueEnd, ".u.asg.end", &["date"], NODE, "does nothing: the queue's day ends with the tickerplant's"),
    row(
        Function::QueueAdd,
        ".u.asg.add",
        &["tables", "symbols", "handle"],
        NODE,
        "is rejected: the queue alone makes a subscriber live",
    ),
    row(
        Function::QueueClose,
        ".u.asg.zpc",
        &["handle"],
        NODE,
        "does nothing: the queue sees by itself that a connection has closed",
    ),
    row(
        Function::Wake,
        names::WAKE,
        &[],
        Some(Role::Query),
        "wakes queues that sleep: as many nodes are requested as the log of the day needs; returns their number and when they are ready",
    ),
    row(
        Function::Written,
        names::WRITTEN,
        &["date", "next"],
        OPERATOR,
        "says that another process has the rows of all updates before an index: nodes that hold nothing else drop them and end; a null index only asks. Returns the index",
    ),
    row(Function::Nonce, names::NONCE, &[], None, "returns random bytes for the proof of a node"),
    row(
        Function::Prove,
        names::PROVE,
        &["node", "nonce", "proof"],
        None,
        "gives the role node to a connection that knows the cluster's secret",
    ),
    row(Function::Join, names::JOIN, &["node"], NODE, "joins a queue, reporting the windows held"),
    row(Function::From, names::FROM, &["next"], NODE, "requests the feed from an update index on"),
    row(Function::Stream, names::STREAM, &["first", "last"], NODE, "requests the updates of a window"),
    row(
        Function::Rolling,
        names::ROLLING,
        &["next", "proof", "date"],
        NODE,
        "rolls: closes the node's window, with its proof",
    ),
    row(
        Function::Proved,
        names::PROVED,
        &["first", "last", "proof", "date"],
        NODE,
        "reports the proof of a window held",
    ),
    row(Function::Status, names::STATUS, &["status"], NODE, "reports memory and progress"),
    row(Function::Leaving, names::LEAVING, &["leaving"], NODE, "reports that the node is about to terminate"),
    row(
        Function::Owners,
        names::OWNERS,
        &[],
        OPERATOR,
        "returns the nodes in queues with their processes, leases and the time since their last message, and the queues without nodes",
    ),
    row(
        Function::Evict,
        names::EVICT,
        &["node", "process"],
        OPERATOR,
        "gives up a node whose process is gone: closes its connection, and rejects that process from then on",
    ),
    row(Function::Forget, names::FORGET, &["queue"], OPERATOR, "removes a queue that no node is in"),
    row(
        Function::FollowOpen,
        names::FOLLOW_OPEN,
        &["follower"],
        NODE,
        "announces a tickerplant that copies this one's log",
    ),
    row(
        Function::FollowChecksums,
        names::FOLLOW_CHECKSUMS,
        &["date", "offsets"],
        NODE,
        "returns checksums of the beginnings of a day's log",
    ),
    row(
        Function::FollowCopy,
        names::FOLLOW_COPY,
        &["next"],
        NODE,
        "confirms what a follower has on its disk, and returns what follows in the log",
    ),
];

impl Row {
    /// Whether it is a message between tickerplant and node, and no q.
    pub fn is_protocol(&self) -> bool {
        matches!(self.role, None | Some(Role::Node)) && !matches!(self.function, Function::State | Function::Calendar)
    }

    /// Whether it changes data: what kdb+'s `-b` forbids. A subscription only changes what its own connection receives.
    pub fn writes(&self) -> bool {
        matches!(
            self.function,
            Function::Upd
                | Function::End
                | Function::EndOfDay
                | Function::Schema
                | Function::Retry
                | Function::Discard
                | Function::Timer
                | Function::Written
        )
    }

    /// Whether each call is a record of the audit log. Updates are summed; a node's requests for its feed and its status follow from its join.
    pub fn is_audited(&self) -> bool {
        !matches!(
            self.function,
            Function::Upd
                | Function::Seq
                | Function::Confirm
                | Function::State
                | Function::Calendar
                | Function::Owners
                | Function::Nonce
                | Function::From
                | Function::Stream
                | Function::Status
                | Function::QueueEnd
                | Function::QueueClose
                | Function::FollowChecksums
                | Function::FollowCopy
        )
    }

    /// Whether it is executed although it cannot be recorded (`--audit-required`): what nodes that have joined report, without which the queue
    /// would stand still.
    pub fn is_exempt(&self) -> bool {
        matches!(self.function, Function::Rolling | Function::Proved | Function::Leaving | Function::QueueRoll)
    }

    /// Number of arguments, by which q decides between a call and a projection: a function without parameters is called with `::`.
    pub fn arity(&self) -> u8 {
        u8::try_from(self.parameters.len()).unwrap_or(u8::MAX).max(1)
    }

    /// Maximum number of arguments of a call from an expression: the paper's `.u.add` has one more than kdb+tick's.
    pub fn arity_most(&self) -> u8 {
        self.arity().saturating_add(u8::from(self.function == Function::Add))
    }
}

/// Returns the function with this name.
pub fn find(name: &[u8]) -> Option<&'static Row> {
    FUNCTIONS.iter().find(|row| row.name.as_bytes() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the table in the README's format.
    fn table() -> String {
        let line = |row: &Row| {
            let parameters = row.parameters.join(";");
            format!("| `{}[{parameters}]` | {} | {} |\n", row.name, row.role.map_or("", Role::name), row.does)
        };
        format!("| function | role | what it does |\n|---|---|---|\n{}", FUNCTIONS.iter().map(line).collect::<String>())
    }

    #[test]
    fn the_readme_has_every_function() {
        let readme = include_str!("../README.md");
        let table = table();
        assert!(readme.contains(&table), "src/tick/README.md should have this table:\n{table}");
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<&str> = FUNCTIONS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FUNCTIONS.len());
    }
}
