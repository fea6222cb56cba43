//! Parses and displays `.u.asg.tab`.

use crate::monitor::text;
use crate::monitor::view::NodeState;
use proto::time::DAY_NS;
use proto::{Items, Value, types};

/// Columns shown: those of the paper, then as many of elastick's as fit.
const SHOWN: [&str; 12] =
    ["time", "handle", "tabs", "syms", "ip", "queue", "live", "rolled", "firstI", "lastI", "node", "verified"];

/// A subscriber in the queue's table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub node: String,
    pub state: NodeState,
    pub first: Option<u64>,
    pub last: Option<u64>,
    /// Time of its roll, in nanoseconds since 2000.01.01.
    pub rolled_ns: Option<i64>,
    pub live_ns: Option<i64>,
    pub memory_percent: Option<f64>,
    pub rows: u64,
    pub bytes: u64,
    /// Next update that a live node expects.
    pub next: Option<u64>,
    /// Nanoseconds from becoming live until it had received everything logged by then.
    pub catch_up_ns: Option<i64>,
    pub verified: Option<bool>,
    pub port: Option<u16>,
}

/// Parses the rows; `None` if this is not such a table.
pub fn rows(table: &Value) -> Option<Vec<Row>> {
    let Value::Table { .. } = table else { return None };
    (0..table.len()).map(|at| row(table, at)).collect()
}

fn row(table: &Value, at: usize) -> Option<Row> {
    let item = |name: &str| table.column(name)?.item(at);
    let long = |name: &str| match item(name)? {
        Value::Long(n) | Value::Timestamp(n) if n != types::NULL_LONG => Some(n),
        Value::Int(n) if n != types::NULL_INT => Some(i64::from(n)),
        _ => None,
    };
    let index = |name: &str| long(name).and_then(|n| u64::try_from(n).ok());
    let word = |name: &str| item(name)?.as_symbol().map(|text| String::from_utf8_lossy(text).into_owned());
    let verified = match item("verified") {
        Some(Value::Bool(yes)) => Some(yes),
        Some(Value::Symbol(text)) if text == b"yes" => Some(true),
        Some(Value::Symbol(text)) if text == b"no" => Some(false),
        _ => None,
    };
    let state = state(&word("state")?)?;
    Some(Row {
        node: word("node")?,
        state,
        first: index("firstI"),
        last: index("lastI"),
        rolled_ns: long("rolled"),
        live_ns: long("live"),
        memory_percent: item("memory").and_then(|value| value.as_float()).filter(|percent| !percent.is_nan()),
        rows: index("rows").unwrap_or(0),
        bytes: index("bytes").unwrap_or(0),
        next: index("nextI").filter(|_| state == NodeState::Live),
        // Only the node itself has it.
        catch_up_ns: None,
        verified,
        port: long("port").and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0),
    })
}

fn state(word: &str) -> Option<NodeState> {
    match word {
        "lost" => Some(NodeState::Away),
        word => NodeState::ALL.into_iter().find(|state| state.name() == word),
    }
}

/// Returns the heading and cells for display.
pub fn shown(table: &Value) -> (Vec<String>, Vec<Vec<String>>) {
    let columns: Vec<(&str, &Value)> = SHOWN.iter().filter_map(|name| Some((*name, table.column(name)?))).collect();
    let names = columns.iter().map(|(name, _)| (*name).to_string()).collect();
    let cells =
        |at| columns.iter().map(|(_, column)| column.item(at).map_or(String::new(), |item| cell(&item))).collect();
    (names, (0..table.len()).map(cells).collect())
}

/// Formats a value like q's console, shortened: times without their day, symbols without their backtick.
fn cell(value: &Value) -> String {
    match value {
        Value::Timestamp(types::NULL_LONG) | Value::Long(types::NULL_LONG) | Value::Int(types::NULL_INT) => {
            String::new()
        }
        Value::Timestamp(ns) => {
            let day_ns = u64::try_from(ns.rem_euclid(DAY_NS)).unwrap_or(0);
            format!("{}.{:03}", text::clock(day_ns), day_ns / 1_000_000 % 1000)
        }
        Value::Long(n) => n.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Bool(yes) => if *yes { "1" } else { "0" }.to_string(),
        Value::Symbol(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Vector { items: Items::Symbol(texts), .. } => {
            let texts: Vec<_> = texts.iter().map(|text| format!("`{}", String::from_utf8_lossy(text))).collect();
            match texts.len() {
                1 => format!(",{}", texts.concat()),
                _ => texts.concat(),
            }
        }
        Value::List { items, .. } => {
            let items: Vec<_> = items.iter().map(cell).collect();
            items.join(";")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Value {
        Value::table([
            ("time", Value::timestamps([3_600_000_000_000, 0])),
            ("handle", Value::ints([7, types::NULL_INT])),
            ("tabs", Value::list([Value::symbols(["trade", "quote"]), Value::symbols([""])])),
            ("live", Value::timestamps([5, types::NULL_LONG])),
            ("rolled", Value::timestamps([types::NULL_LONG, types::NULL_LONG])),
            ("firstI", Value::longs([0, types::NULL_LONG])),
            ("lastI", Value::longs([types::NULL_LONG, types::NULL_LONG])),
            ("node", Value::symbols(["rdb-1", "rdb-2"])),
            ("state", Value::symbols(["live", "waiting"])),
            ("memory", Value::floats([12.5, f64::NAN])),
            ("rows", Value::longs([10, types::NULL_LONG])),
            ("bytes", Value::longs([400, types::NULL_LONG])),
            ("verified", Value::symbols(["", "yes"])),
            ("port", Value::ints([4711, types::NULL_INT])),
        ])
    }

    #[test]
    fn rows_have_their_windows_and_states() {
        let rows = rows(&table()).expect("rows");
        assert_eq!((rows[0].first, rows[0].last, rows[0].state), (Some(0), None, NodeState::Live));
        assert_eq!((rows[0].memory_percent, rows[0].port, rows[0].verified), (Some(12.5), Some(4711), None));
        assert_eq!((rows[1].first, rows[1].memory_percent, rows[1].rows), (None, None, 0));
        assert_eq!(rows[1].verified, Some(true));
    }

    #[test]
    fn cells_look_as_in_q() {
        let (names, cells) = shown(&table());
        assert_eq!(names[..3], ["time", "handle", "tabs"]);
        assert_eq!(cells[0][..3], ["01:00:00.000", "7", "`trade`quote"]);
        assert_eq!(cells[1][..3], ["00:00:00.000", "", ",`"]);
    }

    #[test]
    fn another_answer_is_none() {
        assert_eq!(rows(&Value::Long(1)), None);
    }
}
