//! Tables and functions of a remote process, for completion.

use crate::net::client::{Client, ClientError, Incoming};
use crate::q::from_view;
use crate::table::{Sym, Value, symbol};
use proto::{Limits, MessageKind};
use std::collections::BTreeMap;
use std::time::Duration;

/// Time that the process has to respond: the prompt waits for it.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Tables, their columns, and functions; q that kdb+ evaluates too. The result is bounded.
const QUERY: &[u8] = b"{t:200 sublist tables`.;(t;{200 sublist cols x}each t;2000 sublist@[system;\"f\";0#`])}[]";

/// What a process has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    pub tables: BTreeMap<String, Vec<String>>,
    pub functions: Vec<String>,
}

/// Requests the names of a process. Returns `None` if it rejects the query or returns something else. `other` receives messages that arrive before
/// the response.
///
/// # Errors
/// Those of the connection, which is then of no further use; `Timeout` if the process is busy.
pub fn request(
    client: &mut Client,
    usual: Duration,
    other: impl FnMut(Incoming),
) -> Result<Option<Catalog>, ClientError> {
    let Ok(message) = crate::net::remote::encoded(MessageKind::Sync, &Value::chars(QUERY)) else { return Ok(None) };
    client.set_timeout(Some(TIMEOUT));
    let answer = client.request_raw(&message, other)?;
    client.set_timeout(Some(usual));
    let value = answer.view(&Limits::default()).ok().and_then(|view| from_view(&view).ok());
    Ok(value.as_ref().and_then(catalog))
}

fn catalog(value: &Value) -> Option<Catalog> {
    if value.count() != 3 {
        return None;
    }
    let (tables, columns, functions) = (value.at(0), value.at(1), value.at(2));
    let tables =
        names(&tables)?.into_iter().enumerate().map(|(i, table)| (table, names(&columns.at(i)).unwrap_or_default()));
    Some(Catalog { tables: tables.collect(), functions: names(&functions).unwrap_or_default() })
}

fn names(value: &Value) -> Option<Vec<String>> {
    let written = |name: &Sym| String::from_utf8_lossy(symbol::text(*name)).into_owned();
    match value.as_symbols() {
        Some(names) => Some(names.iter().map(written).collect()),
        None => {
            matches!(value, Value::Vector(_)).then(|| value.count()).filter(|count| *count == 0).map(|_| Vec::new())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::q::session::Session;
    use crate::q::{Limits, eval_text};

    #[test]
    fn a_session_answers_the_query() {
        let mut session = Session::new();
        let mut ask = |line: &[u8]| eval_text(&mut session, line, &Limits::default()).expect("an answer");
        assert_eq!(catalog(&ask(QUERY)), Some(Catalog::default()));
        ask(b"t:([]a:1 2;b:3 4)");
        ask(b"k:([id:1 2]c:3 4)");
        ask(b"f:{x}");
        let found = catalog(&ask(QUERY)).expect("a catalog");
        let columns = |table: &str| found.tables.get(table).map(|columns| columns.join(","));
        assert_eq!((columns("t").as_deref(), columns("k").as_deref()), (Some("a,b"), Some("id,c")));
        assert_eq!(found.functions, ["f"]);
        for other in [&b"1"[..], b"1 2 3", b"(1;2;3)", b"()", b"(`a`b;1;2)"] {
            // A process may answer anything.
            let _ = catalog(&ask(other));
        }
        assert_eq!(catalog(&ask(b"(1;2;3)")), None);
    }
}
