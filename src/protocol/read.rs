//! Decoders for arguments of nodes and clients.

use super::Malformed;
use proto::View;
use proto::view::DictView;
use proto::{Item, types};
use std::path::PathBuf;

/// Decodes a name: a symbol, or a string, which some clients begin with the backtick of a symbol.
pub fn name<'a>(view: &View<'a>) -> Option<&'a [u8]> {
    view.symbol().or_else(|| view.chars().map(|text| text.strip_prefix(b"`").unwrap_or(text)))
}

/// Maximum length of the names under which nodes and subscribers are in a queue: tables, journal and log lines repeat them.
pub const MAX_NAME_BYTES: usize = 255;

/// Returns a name that is short enough to be kept; `of` says whose it is.
///
/// # Errors
/// `limit`, without the name.
pub fn short<'a>(of: &str, name: &'a [u8]) -> Result<&'a [u8], Malformed> {
    match name.len() {
        0..=MAX_NAME_BYTES => Ok(name),
        bytes => Err(Malformed {
            term: "limit",
            detail: format!("{of}: a name of {bytes} bytes is longer than {MAX_NAME_BYTES}"),
        }),
    }
}

/// Decodes symbols from a symbol, a string (which is one name), a vector of symbols, or a list of symbols and strings.
pub fn symbols(view: &View<'_>) -> Option<Vec<Vec<u8>>> {
    if let Some(name) = name(view) {
        return Some(vec![name.to_vec()]);
    }
    if let Some(vector) = view.vector() {
        return (vector.ty == types::SYMBOL).then(|| vector.symbols().map(<[u8]>::to_vec).collect());
    }
    view.list()?.iter().map(|item| name(&item).map(<[u8]>::to_vec)).collect()
}

/// Decodes an update index: a long, 0 or more.
///
/// # Errors
/// Any other value.
pub fn index(args: &[View<'_>], at: usize) -> Result<u64, Malformed> {
    let index = args.get(at).copied().and_then(index_of);
    index.ok_or_else(|| Malformed::of_type("an update index must be a long of at least 0"))
}

/// Decodes an update index from a view.
pub(super) fn index_of(view: View<'_>) -> Option<u64> {
    u64::try_from(view.atom::<i64>()?).ok()
}

/// Decodes a date; `None` if the argument is missing.
///
/// # Errors
/// Another type.
pub(super) fn date(args: &[View<'_>], at: usize) -> Result<Option<i32>, Malformed> {
    match args.get(at) {
        None => Ok(None),
        Some(date) => date.atom::<i32>().map(Some).ok_or_else(|| Malformed::of_type("a date is missing")),
    }
}

/// Decodes the path of a log from its file handle, `:` and a path; `None` if it is empty.
pub(super) fn path(view: &View<'_>) -> Option<PathBuf> {
    let text = std::str::from_utf8(view.symbol()?).ok()?.trim_start_matches(':');
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// Values of a message's dictionary, by key.
pub(super) struct Fields<'a> {
    function: &'static str,
    dict: DictView<'a>,
}

impl<'a> Fields<'a> {
    /// Reads the first argument as a dictionary.
    ///
    /// # Errors
    /// It is not a dictionary.
    pub fn of(function: &'static str, view: Option<&View<'a>>) -> Result<Fields<'a>, Malformed> {
        let dict = view.and_then(View::dict);
        let dict = dict.ok_or_else(|| Malformed::of_type(format!("{function} takes a dictionary")))?;
        Ok(Fields { function, dict })
    }

    pub fn get(&self, key: &str) -> Option<View<'a>> {
        self.dict.get(key.as_bytes())
    }

    /// Decodes a required value.
    ///
    /// # Errors
    /// It is missing, or `read` rejects it.
    pub fn must<T>(&self, key: &str, read: impl FnOnce(View<'a>) -> Option<T>) -> Result<T, Malformed> {
        self.get(key).and_then(read).ok_or_else(|| self.wrong(key))
    }

    /// Decodes an optional atom.
    ///
    /// # Errors
    /// Another type.
    pub fn atom<T: Item>(&self, key: &str) -> Result<Option<T>, Malformed> {
        self.get(key).map(|value| value.atom::<T>().ok_or_else(|| self.wrong(key))).transpose()
    }

    /// Decodes an optional count or index; null counts as missing.
    ///
    /// # Errors
    /// Another type, or a negative number.
    pub fn count(&self, key: &str) -> Result<Option<u64>, Malformed> {
        let long = self.atom::<i64>(key)?.filter(|value| *value != types::NULL_LONG);
        long.map(|value| u64::try_from(value).map_err(|_| self.wrong(key))).transpose()
    }

    /// Decodes an optional text.
    ///
    /// # Errors
    /// Another type.
    pub fn text(&self, key: &str) -> Result<Option<&'a [u8]>, Malformed> {
        self.get(key).map(|value| value.text().ok_or_else(|| self.wrong(key))).transpose()
    }

    /// Decodes an optional name; empty counts as missing.
    ///
    /// # Errors
    /// Another type; a name that is too long.
    pub fn name(&self, key: &str) -> Result<Option<Vec<u8>>, Malformed> {
        let text = self.text(key)?.filter(|text| !text.is_empty());
        text.map(|text| short(key, text).map(<[u8]>::to_vec)).transpose()
    }

    /// Returns the error of a key that is missing or has a value of the wrong type.
    pub fn wrong(&self, key: &str) -> Malformed {
        Malformed::of_type(format!("{}: {key} is missing or of the wrong type", self.function))
    }
}
