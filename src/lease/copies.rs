//! Which copies of the log have every acknowledged update, where each tickerplant has a log of its own.

use std::collections::BTreeSet;
use std::fmt;

/// Name of a log directory and its host, that stays over restarts of the process.
pub type CopyName = String;

/// Stands for every copy.
const ANY: &str = "*";
/// Begins the name of a log that tickerplants with a common directory share.
const COMMON: &str = "log:";

/// Name of the log in a common directory: its source, and the identity that the directory has kept since its first log.
pub fn common_log(src: &str, id: impl fmt::Display) -> CopyName {
    format!("{COMMON}{src}/{id}")
}

/// Copies that a record names: any of them may be continued without losing an acknowledged update. Tickerplants with a common directory name its log
/// ([`common_log`]), or nothing before they have opened it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Copies(BTreeSet<CopyName>);

impl Copies {
    pub fn of(names: impl IntoIterator<Item = CopyName>) -> Copies {
        Copies(names.into_iter().collect())
    }

    /// Any copy may be continued: an operator accepts that updates are lost.
    pub fn any() -> Copies {
        Copies::of([ANY.to_string()])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the record is one of tickerplants with a common directory.
    pub fn is_common(&self) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| name.starts_with(COMMON))
    }

    /// Whether any copy may be continued.
    pub fn are_any(&self) -> bool {
        self.0.contains(ANY)
    }

    /// Whether a copy is among these.
    pub fn allow(&self, name: &str) -> bool {
        self.0.contains(name) || self.are_any()
    }

    pub fn names(&self) -> impl Iterator<Item = &CopyName> {
        self.0.iter()
    }
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.are_any() {
            return f.write_str("any");
        }
        for (at, name) in self.0.iter().enumerate() {
            write!(f, "{}{name}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The own copy of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnCopy {
    pub name: CopyName,
    /// It has no log: a process that has one goes first where there is no record yet.
    pub is_empty: bool,
    /// It was copied from another one, which may have more: it makes no record.
    pub is_followers: bool,
}
