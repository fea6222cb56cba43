//! Arguments as clients write them.

use crate::log::{Proof, TableProof};
use crate::q::QError;
use crate::queue::UpdateIndex;
use proto::View;

/// A name as clients write it: a symbol, or a string, which some begin with the backtick of a symbol.
pub(super) fn name<'a>(view: &View<'a>) -> Option<&'a [u8]> {
    view.symbol().or_else(|| view.chars().map(|text| text.strip_prefix(b"`").unwrap_or(text)))
}

/// Symbols of an atom, a vector, or a string.
pub(super) fn symbols(view: &View<'_>) -> Option<Vec<Vec<u8>>> {
    if let Some(name) = name(view) {
        return Some(vec![name.to_vec()]);
    }
    if let Some(vector) = view.vector() {
        return (vector.ty == proto::types::SYMBOL).then(|| vector.symbols().map(<[u8]>::to_vec).collect());
    }
    view.list()?.iter().map(|item| name(&item).map(<[u8]>::to_vec)).collect()
}

/// The symbols to subscribe to: all if empty, in kdb+'s forms `` ` ``, `` `A ``, `` `A`B ``.
///
/// # Errors
/// `type` for anything else. A string is no symbol: kdb+ would take a condition like `"price>10"` and send nothing for it.
pub(super) fn wanted(view: &View<'_>) -> Result<Vec<Vec<u8>>, QError> {
    let is_string = |view: &View<'_>| view.symbol().is_none() && view.chars().is_some_and(|text| !text.is_empty());
    if is_string(view) || view.list().is_some_and(|list| list.iter().any(|item| is_string(&item))) {
        return Err(QError::with(
            "type",
            "what to subscribe to is a symbol or a list of symbols, not a string; conditions are not offered",
        ));
    }
    symbols(view).ok_or(QError::with("type", "symbols are a symbol or a list of symbols"))
}

/// An update index.
pub(super) fn index_argument(args: &[View<'_>], at: usize) -> Result<UpdateIndex, QError> {
    let index = args.get(at).and_then(|index| index.atom::<i64>()).and_then(|index| u64::try_from(index).ok());
    index.map(UpdateIndex).ok_or(QError::with("type", "an update index is a long, 0 or more"))
}

/// A proof is a table `tab updates rows hash`.
pub(super) fn proof_argument(args: &[View<'_>], at: usize) -> Result<Proof, QError> {
    let wrong = || QError::with("type", "a proof is a table tab updates rows hash");
    let table = args.get(at).and_then(View::table).ok_or_else(wrong)?;
    let longs = |name: &[u8]| -> Option<Vec<i64>> { table.column(name)?.vector()?.to_vec() };
    let tabs = symbols(&table.column(b"tab").ok_or_else(wrong)?).ok_or_else(wrong)?;
    let (updates, rows, hash) =
        longs(b"updates").zip(longs(b"rows")).zip(longs(b"hash")).map(|((u, r), h)| (u, r, h)).ok_or_else(wrong)?;
    let mut proof = Proof::new();
    for (((tab, updates), rows), hash) in tabs.iter().zip(updates).zip(rows).zip(hash) {
        let own =
            TableProof { updates: updates.cast_unsigned(), rows: rows.cast_unsigned(), hash: hash.cast_unsigned() };
        proof.table_mut(tab).merge(own);
    }
    Ok(proof)
}

/// A handle as clients write it: an int or a long.
pub(super) fn handle_argument(view: &View<'_>) -> Option<i32> {
    match view.type_code() {
        -6 => view.atom::<i32>(),
        -7 => view.atom::<i64>().and_then(|handle| i32::try_from(handle).ok()),
        _ => None,
    }
}
