//! What a console may complete: names, and tables with their columns.

use super::Session;
use crate::process::help::{Entry, entries};
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Sym, Value};

/// Tables whose columns are completed, and columns of each.
const MAX_TABLES: usize = 1000;
const MAX_COLUMNS: usize = 1000;

fn written(name: Sym) -> String {
    String::from_utf8_lossy(text(name)).into_owned()
}

/// Returns the columns of a table, also of a keyed one and of one on disk; `None` for any other value.
fn columns(value: &Value) -> Option<Vec<Sym>> {
    match value {
        Value::Table(table) => Some(table.names.to_vec()),
        Value::Dict(dict) => {
            dict.keyed().map(|(keys, values)| keys.names.iter().chain(&values.names[..]).copied().collect())
        }
        Value::Func(function) => match &**function {
            Function::OnDisk { columns, .. } => Some(columns.clone()),
            _ => None,
        },
        _ => None,
    }
}

impl Session {
    /// Names for completion: globals, and the names of the language.
    pub fn completions(&self) -> Vec<String> {
        let of_language = entries().into_iter().filter(Entry::is_of_expressions).map(|entry| entry.name);
        self.order.iter().copied().map(written).chain(of_language).collect()
    }

    /// Tables with their columns. One in the current namespace has its short name as well.
    pub fn tables(&self) -> Vec<(String, Vec<String>)> {
        let inside = format!("{}.", written(self.namespace));
        let mut tables = Vec::new();
        for name in &self.order {
            let Some(columns) = self.globals.get(name).and_then(columns) else { continue };
            let columns: Vec<String> = columns.into_iter().take(MAX_COLUMNS).map(written).collect();
            let name = written(*name);
            if let Some(short) = name.strip_prefix(&inside).filter(|_| inside.len() > 1) {
                tables.push((short.to_owned(), columns.clone()));
            }
            tables.push((name, columns));
            if tables.len() >= MAX_TABLES {
                break;
            }
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, eval_text};

    #[test]
    fn tables_of_each_kind_have_columns() {
        let mut session = Session::new();
        for line in ["t:([]a:1 2;b:3 4)", "k:([id:1 2]c:3 4)", "n:1", ".x.u:([]d:1 2)", "f:{x}"] {
            eval_text(&mut session, line.as_bytes(), &Limits::default()).expect(line);
        }
        let shown = |session: &Session| {
            session
                .tables()
                .into_iter()
                .map(|(name, columns)| format!("{name}:{}", columns.join(",")))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&session), ["t:a,b", "k:id,c", ".x.u:d"]);
        session.line(b"\\d .x").expect("a namespace");
        assert!(shown(&session).contains(&"u:d".to_string()), "{:?}", shown(&session));
        assert!(
            session.completions().contains(&"t".to_string()) && !session.completions().contains(&"wsfull".to_string())
        );
    }
}
