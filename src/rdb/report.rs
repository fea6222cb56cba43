//! The node's state as q values: `.rdb.windows` and `.rdb.stats`.

use super::policy::{Params, Phase};
use super::shared::State;
use crate::config::units::Scale;
use crate::table::{Items, Sym, Table, Value, symbol};
use proto::types::{NULL_FLOAT, NULL_INT, NULL_LONG};

fn long(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Interns a fixed name. If the symbol table has no room even for these, nothing works.
fn sym(name: &'static str) -> Sym {
    symbol::intern_own(name.as_bytes()).unwrap_or(Sym::NULL)
}

/// What a caller may see of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    All,
    /// Some of its rows.
    Rows,
    No,
}

/// Columns of `.rdb.windows`. None is a reserved word of q, so that qSQL can name each.
pub const WINDOW_COLUMNS: [&str; 7] = ["firstI", "lastI", "open", "tab", "updates", "rows", "hash"];

/// Columns of `.rdb.windowsV1`, with the names of the first version for existing programs. `first` and `last` are
/// reserved words: only ``t`first`` reads them.
const WINDOW_COLUMNS_V1: [&str; 7] = ["first", "last", "open", "tab", "updates", "rows", "hash"];

/// Returns `.rdb.windows`: one row for each window and table with updates, or one with a null `tab` for an empty window.
pub fn windows(state: &State, shown: impl Fn(Sym) -> Shown) -> Value {
    windows_as(state, WINDOW_COLUMNS, shown)
}

/// Returns `.rdb.windowsV1`.
pub fn windows_v1(state: &State, shown: impl Fn(Sym) -> Shown) -> Value {
    windows_as(state, WINDOW_COLUMNS_V1, shown)
}

fn windows_as(state: &State, names: [&'static str; 7], shows: impl Fn(Sym) -> Shown) -> Value {
    let (mut first, mut last, mut open, mut tab) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut updates, mut rows, mut hash) = (Vec::new(), Vec::new(), Vec::new());
    for shown in state.windows.iter() {
        let taken = state.tables.iter().zip(&shown.window.tables).filter(|(_, taken)| taken.proof.updates > 0);
        let taken = taken.filter(|(name, _)| shows(**name) != Shown::No);
        let mut entries: Vec<(Sym, crate::log::TableProof)> = taken.map(|(name, taken)| (*name, taken.proof)).collect();
        if entries.is_empty() {
            entries.push((Sym::NULL, crate::log::TableProof::default()));
        }
        for (name, proof) in entries {
            first.push(long(shown.window.first));
            last.push(long(shown.window.next));
            open.push(u8::from(shown.open));
            tab.push(name);
            // Figures of all rows would tell those who may read some of them about the rest.
            let figure = |value: i64| if shows(name) == Shown::Rows { NULL_LONG } else { value };
            updates.push(figure(long(proof.updates)));
            rows.push(figure(long(proof.rows)));
            hash.push(figure(proof.hash.cast_signed()));
        }
    }
    let longs = |items: Vec<i64>| Items::Long(items.into());
    let columns = [
        longs(first),
        longs(last),
        Items::Bool(open.into()),
        Items::Sym(tab.into()),
        longs(updates),
        longs(rows),
        longs(hash),
    ];
    Value::table(Table::new(names.map(sym).to_vec(), columns.map(Into::into).to_vec()))
}

/// Facts that stay the same while a node runs.
#[derive(Clone, Debug)]
pub struct Constants {
    pub node: Sym,
    pub queue: Sym,
    pub port: u16,
    pub policy: Params,
    /// Names in the fleet; the group is empty without one.
    pub instance: String,
    pub group: String,
}

/// Returns the dictionary `.rdb.stats`. No key is a reserved word of q, so that ``select from enlist .rdb.stats`` can
/// name each.
pub fn stats(state: &State, constants: &Constants, queries_open: u64, day_end: &'static str) -> Value {
    let lag = match (state.tip, state.next) {
        (Some(tip), Some(next)) => Value::Long(long(tip.saturating_sub(next))),
        _ => Value::Long(NULL_LONG),
    };
    let index = |value: Option<u64>| Value::Long(value.map_or(NULL_LONG, long));
    let float = |value: Option<f64>| Value::Float(value.unwrap_or(NULL_FLOAT));
    let memory = &state.memory;
    let phase = state.phase.name();
    let entries = [
        ("node", Value::Sym(constants.node)),
        ("queue", Value::Sym(constants.queue)),
        ("port", Value::Int(i32::from(constants.port))),
        ("protocol", Value::Sym(sym(state.protocol))),
        ("connected", Value::Bool(state.connected)),
        ("state", Value::Sym(sym(phase))),
        ("live", Value::Bool(state.phase == Phase::Live)),
        ("date", Value::Date(state.date.unwrap_or(NULL_INT))),
        ("nextI", index(state.next)),
        ("tip", index(state.tip)),
        ("lag", lag),
        ("rows", Value::Long(long(state.rows))),
        ("memory", float(state.memory_percent)),
        (
            "scale",
            match constants.policy.scale() {
                Scale::At(percent) => Value::Float(percent),
                Scale::Auto => Value::Float(NULL_FLOAT),
            },
        ),
        ("roll", Value::Float(constants.policy.roll_percent())),
        ("scaled", Value::Bool(state.scaled)),
        ("lead", Value::Timespan(state.lead_ns.unwrap_or(NULL_LONG))),
        ("catchUp", Value::Timespan(state.catch_up_ns.unwrap_or(NULL_LONG))),
        ("cushion", float(state.cushion)),
        ("rate", float(state.bytes_per_second)),
        ("budget", Value::Long(long(memory.budget))),
        ("used", Value::Long(long(memory.used))),
        ("columns", Value::Long(long(memory.store.column_bytes as u64))),
        ("index", Value::Long(long(memory.store.index_bytes as u64))),
        ("symbols", Value::Long(long(memory.store.symbol_bytes as u64))),
        ("buffers", Value::Long(long(memory.buffers))),
        ("queries", Value::Long(long(memory.queries))),
        ("ended", Value::Long(long(memory.ended))),
        ("resident", Value::Long(long(memory.resident))),
        ("systemUsed", Value::Long(long(memory.system_used))),
        ("systemTotal", Value::Long(long(memory.system_total))),
        ("queriesOpen", Value::Long(long(queries_open))),
        ("updates", Value::Long(long(state.updates_taken))),
        ("refused", Value::Long(long(state.updates_refused))),
        ("missing", Value::Long(long(state.updates_missing))),
        ("resyncs", Value::Long(long(state.resyncs))),
        ("dayEnd", Value::Sym(sym(day_end))),
    ];
    let (names, values): (Vec<Sym>, Vec<Value>) = entries.into_iter().map(|(name, value)| (sym(name), value)).unzip();
    Value::dict(Value::symbols(names), Value::list(values))
}

/// Returns `.rdb.statsV1`: `.rdb.stats` with the first version's key `next`.
pub fn stats_v1(state: &State, constants: &Constants, queries_open: u64, day_end: &'static str) -> Value {
    match stats(state, constants, queries_open, day_end) {
        Value::Dict(dict) => {
            let renamed = |name: &Sym| if *name == sym("nextI") { sym("next") } else { *name };
            let names = dict.keys.as_symbols().unwrap_or_default().iter().map(renamed).collect();
            Value::dict(Value::symbols(names), dict.values.clone())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::shared::ShownWindow;
    use crate::rdb::windows::Window;

    #[test]
    fn a_window_has_a_row_for_each_table_it_holds_and_one_if_it_holds_none() {
        let mut full = Window::new(3, &[0, 0, 0]);
        full.enter(0, 5, b"abc");
        full.enter(2, 1, b"d");
        full.next = 5;
        let windows_shown =
            [ShownWindow { window: full, open: false }, ShownWindow { window: Window::new(5, &[0, 0, 0]), open: true }];
        let tables = ["a", "b", "c"].map(sym).to_vec();
        let state = State { tables, windows: windows_shown.into(), ..State::default() };
        let Value::Table(table) = windows(&state, |_| Shown::All) else { panic!("no table") };
        let column = |name: &'static str| table.column(sym(name)).expect("column").items.clone();
        let (Items::Sym(tab), Items::Long(rows), Items::Long(last)) = (column("tab"), column("rows"), column("lastI"))
        else {
            panic!("types")
        };
        assert_eq!(&*tab, &[sym("a"), sym("c"), Sym::NULL]);
        assert_eq!((&*rows, &*last), (&[5, 1, 0][..], &[5, 5, 5][..]));
    }
}
