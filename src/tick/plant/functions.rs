//! Table of the functions that clients and nodes may call: name, parameters, caller and effect. A test compares the README's table with
//! it.

use crate::access::Role;
use crate::protocol::names;

/// A function of `.u`, or of the paper's `.u.asg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Sub,
    Add,
    Del,
    Upd,
    End,
    EndOfDay,
    Schema,
    Timer,
    QueueSubscribe,
    QueueRoll,
    QueueEnd,
    Join,
    From,
    Stream,
    Rolling,
    Proved,
    Status,
    Leaving,
}

/// Entry of the function table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub function: Function,
    pub name: &'static str,
    /// Parameter names for the documentation.
    pub parameters: &'static [&'static str],
    /// Role that the caller needs.
    pub role: Role,
    pub does: &'static str,
}

const fn row(
    function: Function,
    name: &'static str,
    parameters: &'static [&'static str],
    role: Role,
    does: &'static str,
) -> Row {
    Row { function, name, parameters, role, does }
}

use Role::{Node, Operator, Publish, Subscribe};

/// In the order in which `.u` lists them.
pub const FUNCTIONS: [Row; 18] = [
    row(
        Function::Sub,
        ".u.sub",
        &["table", "symbols"],
        Subscribe,
        "subscribes, replacing the connection's subscription to the table",
    ),
    row(
        Function::Add,
        ".u.add",
        &["table", "symbols"],
        Subscribe,
        "adds symbols to the connection's subscription to the table",
    ),
    row(Function::Del, ".u.del", &["table", "handle"], Subscribe, "ends a subscription"),
    row(Function::Upd, ".u.upd", &["table", "data"], Publish, "publishes an update"),
    row(Function::End, names::END, &["date"], Operator, "sends `.u.end` to subscribers without ending the day"),
    row(
        Function::EndOfDay,
        ".u.endofday",
        &["force"],
        Operator,
        "ends the day; `` `force `` if the next is over a day ahead of the clock",
    ),
    row(Function::Schema, names::SCHEMA, &["table", "empty table"], Operator, "adds columns at the end of a table"),
    row(Function::Timer, ".z.ts", &["time"], Operator, "publishes the buffered rows of batch mode now"),
    row(
        Function::QueueSubscribe,
        names::PAPER_SUBSCRIBE,
        &["tables", "symbols", "queue"],
        Node,
        "joins a queue, in the paper's protocol",
    ),
    row(
        Function::QueueRoll,
        ".u.asg.roll",
        &["handle", "count"],
        Node,
        "rolls, in the paper's protocol: the number of messages received",
    ),
    row(Function::QueueEnd, ".u.asg.end", &["date"], Node, "does nothing: the queue's day ends with the tickerplant's"),
    row(Function::Join, names::JOIN, &["node"], Node, "joins a queue, reporting the windows held"),
    row(Function::From, names::FROM, &["next"], Node, "requests the feed from an update index on"),
    row(Function::Stream, names::STREAM, &["first", "last"], Node, "requests the updates of a window"),
    row(
        Function::Rolling,
        names::ROLLING,
        &["next", "proof", "date"],
        Node,
        "rolls: closes the node's window, with its proof",
    ),
    row(
        Function::Proved,
        names::PROVED,
        &["first", "last", "proof", "date"],
        Node,
        "reports the proof of a window held",
    ),
    row(Function::Status, names::STATUS, &["status"], Node, "reports memory and progress"),
    row(Function::Leaving, names::LEAVING, &["leaving"], Node, "reports that the node is about to terminate"),
];

impl Row {
    /// Whether it changes data: what kdb+'s `-b` forbids. A subscription only changes what its own connection receives.
    pub fn writes(&self) -> bool {
        matches!(self.function, Function::Upd | Function::End | Function::EndOfDay | Function::Schema | Function::Timer)
    }

    /// Maximum number of arguments: a function without parameters is called with `::`.
    pub fn arity(&self) -> u8 {
        u8::try_from(self.parameters.len()).unwrap_or(u8::MAX).max(1)
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
            format!("| `{}[{parameters}]` | {} | {} |\n", row.name, row.role.name(), row.does)
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
