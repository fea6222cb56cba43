//! Lists the schema's tables in the error of an update to an unknown table.

use super::refusal::listed;
use super::schema::Tables;

/// Returns the names of the tables, separated by commas: those most like `name` first, the others in the order of the schema.
pub(super) fn tables_like(tables: &Tables, name: &[u8]) -> String {
    let mut names: Vec<(usize, &[u8])> =
        tables.iter().map(|table| (distance(&table.name, name), table.name.as_slice())).collect();
    names.sort_by_key(|(distance, _)| *distance);
    listed(names.into_iter().map(|(_, name)| name))
}

/// Returns how many characters of the longer name lie between what both begin with and what both end with. One pass, because a
/// publisher may send wrong names without end.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let same = |(one, other): &(&u8, &u8)| one.eq_ignore_ascii_case(other);
    let shorter = one.len().min(other.len());
    let start = one.iter().zip(other).take_while(same).count();
    let rest = shorter.saturating_sub(start);
    let end = one.iter().rev().zip(other.iter().rev()).take(rest).take_while(same).count();
    one.len().max(other.len()).saturating_sub(start).saturating_sub(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Attr;
    use crate::table::schema::{ColumnSchema, Schema};
    use crate::table::symbol::intern;

    fn tables(names: &[&str]) -> Tables {
        let sym = |text: &str| intern(text.as_bytes()).unwrap();
        let column = |name, ty| ColumnSchema { name: sym(name), ty, attr: Attr::None };
        let columns = || vec![column("time", 16), column("sym", 11)];
        Tables::new(names.iter().map(|name| Schema { name: sym(name), columns: columns(), keys: 0 })).unwrap()
    }

    #[test]
    fn the_table_that_was_meant_comes_first() {
        let tables = tables(&["order", "trade", "quote", "quotes2"]);
        for (given, first) in [
            ("Trade", "trade"),
            ("trades", "trade"),
            ("tradee", "trade"),
            ("trde", "trade"),
            ("qoute", "quote"),
            ("quotes", "quote"),
        ] {
            let listed = tables_like(&tables, given.as_bytes());
            assert!(listed.starts_with(first), "{given}: {listed}");
            assert_eq!(listed.split(", ").count(), 4, "{listed}");
        }
    }

    #[test]
    fn of_many_tables_some_are_listed() {
        let names: Vec<String> = (0..20).map(|number| format!("table{number}")).collect();
        let tables = tables(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let listed = tables_like(&tables, b"table17");
        assert!(listed.starts_with("table17, ") && listed.ends_with(" and 12 more"), "{listed}");
    }
}
