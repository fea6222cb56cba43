//! Subscription of a node: tables, and symbols of them.

use super::Malformed;
use super::read::symbols;
use crate::queue::Subscription;
use proto::{View, Writer};

/// Tables and symbols that a node takes; empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub tables: Vec<String>,
    pub symbols: Vec<String>,
}

impl Filter {
    /// Whether the node takes every update of the log.
    pub fn is_everything(&self) -> bool {
        self.tables.is_empty() && self.symbols.is_empty()
    }

    /// Writes the first two arguments of `.u.asg.sub`: tables, and a list of symbols for each of them.
    pub(super) fn put(&self, writer: &mut Writer<'_>) {
        if self.tables.is_empty() {
            writer.symbol("")
        } else {
            writer.symbols(&self.tables)
        }
        match (self.tables.len(), self.symbols.is_empty()) {
            (0, true) => writer.symbol(""),
            (0, false) => writer.symbols(&self.symbols),
            (tables, true) => writer.symbols(vec![""; tables]),
            (tables, false) => {
                writer.list_head(tables);
                (0..tables).for_each(|_| writer.symbols(&self.symbols));
            }
        }
    }
}

/// Decodes tables and symbols as the paper's `.u.asg.sub` takes them. The caller checks that the tables exist.
///
/// # Errors
/// `type` for other values than symbols; the paper's own text if the lists differ in length.
pub fn subscription(tabs: &View<'_>, syms: &View<'_>) -> Result<Subscription, Malformed> {
    let tabs_list =
        symbols(tabs).ok_or_else(|| Malformed::of_type("tables and symbols must be symbols or lists of symbols"))?;
    let syms_list: Vec<Vec<Vec<u8>>> = if tabs.symbol().is_some() {
        vec![requested(syms)?]
    } else if let Some(list) = syms.list() {
        list.iter().map(|item| requested(&item)).collect::<Result<_, Malformed>>()?
    } else {
        requested(syms)?.into_iter().map(|symbol| vec![symbol]).collect()
    };
    if tabs_list.len() != syms_list.len() {
        return Err(Malformed { term: "", detail: "Count of table and symbol lists must match".to_string() });
    }
    Ok(Subscription { tabs: tabs_list, syms: syms_list })
}

/// Decodes the symbols to subscribe to: all if empty, in kdb+'s forms `` ` ``, `` `A ``, `` `A`B ``.
///
/// # Errors
/// `type` for any other value. A string is rejected: kdb+ would accept a condition like `"price>10"` and send nothing for it.
pub fn requested(view: &View<'_>) -> Result<Vec<Vec<u8>>, Malformed> {
    let is_string = |view: &View<'_>| view.symbol().is_none() && view.chars().is_some_and(|text| !text.is_empty());
    if is_string(view) || view.list().is_some_and(|list| list.iter().any(|item| is_string(&item))) {
        return Err(Malformed::of_type(
            "subscribe to a symbol or a list of symbols, not a string; conditions are not supported",
        ));
    }
    symbols(view).ok_or_else(|| Malformed::of_type("symbols must be a symbol or a list of symbols"))
}
