//! Result of `.u.asg.owners[]`: a table of the nodes in queues, and of queues without any.

use super::parts::long;
use proto::{Items, Value, Writer, types};

const COLUMNS: [&str; 9] = ["node", "queue", "state", "process", "owner", "group", "instance", "silent", "updates"];

/// A node that is not lost. A queue that no node is in has a row with an empty `node`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerRow {
    pub node: Vec<u8>,
    pub queue: Vec<u8>,
    /// As in `.u.asg.tab`.
    pub state: Vec<u8>,
    /// Random id of the process; empty if it sent none, or is not connected.
    pub process: Vec<u8>,
    /// Name under which the process has a lease; empty without one.
    pub owner: Vec<u8>,
    pub group: Vec<u8>,
    pub instance: Vec<u8>,
    /// Time since its last message; `None` while it is not connected, and for the paper's clients.
    pub silent_ns: Option<i64>,
    /// Updates that the node holds, or is to hold; for a queue without nodes, those that nobody serves.
    pub updates: u64,
}

/// Writes the table.
pub fn put(rows: &[OwnerRow], writer: &mut Writer<'_>) {
    writer.table_head(COLUMNS);
    let names: [fn(&OwnerRow) -> &Vec<u8>; 7] = [
        |row| &row.node,
        |row| &row.queue,
        |row| &row.state,
        |row| &row.process,
        |row| &row.owner,
        |row| &row.group,
        |row| &row.instance,
    ];
    for name in names {
        writer.symbols(rows.iter().map(name).collect::<Vec<_>>());
    }
    let silent: Vec<i64> = rows.iter().map(|row| row.silent_ns.unwrap_or(types::NULL_LONG)).collect();
    writer.vector(types::TIMESPAN, types::ATTR_NONE, &silent);
    let updates: Vec<i64> = rows.iter().map(|row| long(row.updates)).collect();
    writer.vector(types::LONG, types::ATTR_NONE, &updates);
}

/// Decodes the table of owners; `None` if the value has other columns or types.
pub fn read(value: &Value) -> Option<Vec<OwnerRow>> {
    let Value::Table { names, columns, .. } = value else { return None };
    let column = |name: &str| columns.get(names.iter().position(|own| own == name.as_bytes())?);
    let texts = |name: &str| match column(name)? {
        Value::Vector { items: Items::Symbol(texts), .. } => Some(texts),
        _ => None,
    };
    let [nodes, queues, states, processes] = [texts("node")?, texts("queue")?, texts("state")?, texts("process")?];
    let [owners, groups, instances] = [texts("owner")?, texts("group")?, texts("instance")?];
    let (Value::Vector { items: Items::Timespan(silent), .. }, Value::Vector { items: Items::Long(updates), .. }) =
        (column("silent")?, column("updates")?)
    else {
        return None;
    };
    let row = |(at, node): (usize, &Vec<u8>)| {
        Some(OwnerRow {
            node: node.clone(),
            queue: queues.get(at)?.clone(),
            state: states.get(at)?.clone(),
            process: processes.get(at)?.clone(),
            owner: owners.get(at)?.clone(),
            group: groups.get(at)?.clone(),
            instance: instances.get(at)?.clone(),
            silent_ns: silent.get(at).copied().filter(|ns| *ns != types::NULL_LONG),
            updates: u64::try_from(*updates.get(at)?).unwrap_or_default(),
        })
    };
    nodes.iter().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back() {
        let rows = [
            OwnerRow {
                node: b"a".to_vec(),
                owner: b"x".to_vec(),
                silent_ns: Some(5),
                updates: 7,
                ..OwnerRow::default()
            },
            OwnerRow { queue: b"rdb".to_vec(), ..OwnerRow::default() },
        ];
        for rows in [&rows[..], &[]] {
            let mut out = Vec::new();
            let mut writer = Writer::new(&mut out);
            put(rows, &mut writer);
            writer.finish().unwrap();
            let (value, _) = proto::decode::object(&out, proto::Endian::Little, &proto::Limits::default()).unwrap();
            assert_eq!(read(&value), Some(rows.to_vec()));
        }
    }
}
