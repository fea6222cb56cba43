//! Checks that the nodes hold the day: every update exactly once, as sent and as logged. Pure.

use crate::log::{Proof, TableProof};
use crate::monitor::text;
use proto::Value;
use serde::Serialize;

/// A window as a node reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub node: String,
    pub first: u64,
    pub last: u64,
    pub proof: Proof,
}

/// Result of the check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Descriptions of misses, each with its window; empty if the day is proved.
    pub misses: Vec<String>,
    /// For each table: sent by the feed, in the log, held by the nodes.
    pub tables: Vec<TableVerdict>,
    /// Windows in order, and whether each equals the log.
    pub windows: Vec<(Held, bool)>,
}

/// Updates, rows and hash of one table: as sent, logged and held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableVerdict {
    pub table: String,
    pub sent: TableProof,
    pub logged: TableProof,
    pub held: TableProof,
}

impl Verdict {
    pub fn is_proved(&self) -> bool {
        self.misses.is_empty()
    }
}

/// Checks the windows held against the log up to `tip` and against what the feed sent.
///
/// `logged` returns the log's proof of a window. Other publishers may have sent updates too: then the log has more than the feed sent,
/// and only the windows can be compared with the log.
///
/// # Errors
/// Those of `logged`.
pub fn check<E>(
    mut held: Vec<Held>,
    tip: u64,
    sent: &Proof,
    mut logged: impl FnMut(u64, u64) -> Result<Proof, E>,
) -> Result<Verdict, E> {
    let mut verdict = Verdict { misses: coverage(&mut held, tip), ..Verdict::default() };
    let mut held_in_all = Proof::new();
    for window in held {
        let expected = logged(window.first, window.last)?;
        let equal = expected == window.proof;
        if !equal {
            verdict.misses.push(format!(
                "{} is held by {}, but differs from the log: {}",
                text::window(window.first, Some(window.last)),
                window.node,
                difference(&expected, &window.proof)
            ));
        }
        held_in_all.merge(&window.proof);
        verdict.windows.push((window, equal));
    }
    let log = logged(0, tip)?;
    let mut names: Vec<Vec<u8>> =
        [&log, sent, &held_in_all].iter().flat_map(|proof| proof.iter()).map(|(name, _)| name.to_vec()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let table = TableVerdict {
            table: String::from_utf8_lossy(&name).into_owned(),
            sent: sent.table(&name),
            logged: log.table(&name),
            held: held_in_all.table(&name),
        };
        verdict.misses.extend(table.misses());
        verdict.tables.push(table);
    }
    Ok(verdict)
}

impl TableVerdict {
    fn misses(&self) -> Vec<String> {
        let mut misses = Vec::new();
        let less = self.logged.updates < self.sent.updates;
        if less || (self.logged.updates == self.sent.updates && self.logged != self.sent) {
            misses.push(format!(
                "{}: the log differs from what was sent: {}",
                self.table,
                pair(&self.sent, &self.logged)
            ));
        }
        if self.held != self.logged {
            misses.push(format!(
                "{}: the nodes hold something other than the log: {}",
                self.table,
                pair(&self.logged, &self.held)
            ));
        }
        misses
    }
}

/// Describes gaps and overlaps of windows over `[0, tip)`. Sorts the windows.
pub fn coverage(held: &mut [Held], tip: u64) -> Vec<String> {
    held.sort_by_key(|window| (window.first, window.last));
    let mut misses = Vec::new();
    let (mut reached, mut holder) = (0, "");
    for window in held.iter() {
        if window.first > reached {
            misses.push(format!("{} is held by nobody", text::window(reached, Some(window.first))));
        }
        if window.first < reached {
            let twice = text::window(window.first, Some(window.last.min(reached)));
            misses.push(format!("{twice} is held twice, by {holder} and {}", window.node));
        }
        if window.last > reached {
            (reached, holder) = (window.last, &window.node);
        }
    }
    if reached < tip {
        misses.push(format!("{} is held by nobody", text::window(reached, Some(tip))));
    }
    if reached > tip {
        misses.push(format!("{} is held by {holder} and not in the log", text::window(tip, Some(reached))));
    }
    misses
}

fn difference(expected: &Proof, held: &Proof) -> String {
    let mut names: Vec<&[u8]> = expected.iter().chain(held.iter()).map(|(name, _)| name).collect();
    names.sort_unstable();
    names.dedup();
    let differ = names.into_iter().filter(|name| expected.table(name) != held.table(name));
    let tables = differ
        .map(|name| format!("{}: {}", String::from_utf8_lossy(name), pair(&expected.table(name), &held.table(name))));
    tables.collect::<Vec<_>>().join("; ")
}

fn pair(expected: &TableProof, found: &TableProof) -> String {
    let one = |proof: &TableProof| format!("{} updates {} rows {:016x}", proof.updates, proof.rows, proof.hash);
    format!("{} against {}", one(expected), one(found))
}

/// Parses a node's response to `.rdb.windows`; `None` if it is not such a table.
pub fn windows_of(node: &str, answer: &Value) -> Option<Vec<Held>> {
    let longs = |name: &str| answer.column(name)?.as_longs();
    let (first, last) = (longs("firstI")?, longs("lastI")?);
    let (updates, rows, hash) = (longs("updates")?, longs("rows")?, longs("hash")?);
    let tables = answer.column("tab")?.as_symbols()?;
    let mut windows: Vec<Held> = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        let index = |column: &[i64]| u64::try_from(*column.get(at)?).ok();
        let (first, last) = (index(first)?, index(last)?);
        let known = windows.iter().position(|window| (window.first, window.last) == (first, last));
        let at_window = known.unwrap_or_else(|| {
            windows.push(Held { node: node.to_string(), first, last, proof: Proof::new() });
            windows.len() - 1
        });
        if table.is_empty() {
            continue;
        }
        let proof = TableProof { updates: index(updates)?, rows: index(rows)?, hash: hash.get(at)?.cast_unsigned() };
        windows.get_mut(at_window)?.proof.table_mut(table).merge(proof);
    }
    Some(windows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// A log whose update `i` is one row of `trade` with hash `i + 1`.
    fn logged(first: u64, last: u64) -> Result<Proof, Infallible> {
        let mut proof = Proof::new();
        (first..last).for_each(|i| proof.add(b"trade", 1, i + 1));
        Ok(proof)
    }

    fn proof(first: u64, last: u64) -> Proof {
        let Ok(proof) = logged(first, last);
        proof
    }

    fn held(node: &str, first: u64, last: u64) -> Held {
        Held { node: node.to_string(), first, last, proof: proof(first, last) }
    }

    fn misses(held: Vec<Held>, tip: u64, sent: &Proof) -> Vec<String> {
        let Ok(verdict) = check(held, tip, sent, logged);
        verdict.misses
    }

    #[test]
    fn windows_that_cover_the_day_once_prove_it() {
        let all = vec![held("b", 40, 100), held("a", 0, 40), held("c", 100, 100)];
        assert_eq!(misses(all, 100, &proof(0, 100)), [""; 0]);
    }

    #[test]
    fn a_gap_is_named() {
        let found = misses(vec![held("a", 0, 40), held("b", 50, 100)], 100, &proof(0, 100));
        assert!(found[0].contains("[40, 50) is held by nobody"), "{found:?}");
    }

    #[test]
    fn an_overlap_is_named_with_both_nodes() {
        let found = misses(vec![held("a", 0, 60), held("b", 50, 100)], 100, &proof(0, 100));
        assert!(found[0].contains("[50, 60) is held twice, by a and b"), "{found:?}");
    }

    #[test]
    fn an_uncovered_tail_is_named() {
        let found = misses(vec![held("a", 0, 99)], 100, &proof(0, 100));
        assert!(found[0].contains("[99, 100) is held by nobody"), "{found:?}");
    }

    #[test]
    fn a_window_with_other_content_is_named() {
        let mut wrong = held("b", 40, 100);
        wrong.proof.table_mut(b"trade").hash ^= 1;
        let found = misses(vec![held("a", 0, 40), wrong], 100, &proof(0, 100));
        assert!(found[0].contains("[40, 100) is held by b, but differs"), "{found:?}");
    }

    #[test]
    fn less_in_the_log_than_was_sent_is_a_miss_and_more_is_not() {
        assert!(misses(vec![held("a", 0, 90)], 90, &proof(0, 100))[0].contains("differs from what was sent"));
        assert_eq!(misses(vec![held("a", 0, 100)], 100, &proof(0, 90)), [""; 0]);
    }

    #[test]
    fn an_answer_has_a_row_for_each_table_of_a_window() {
        let answer = Value::table([
            ("firstI", Value::longs([0, 0, 10])),
            ("lastI", Value::longs([10, 10, 10])),
            ("open", Value::bools([false, false, true])),
            ("tab", Value::symbols(["quote", "trade", ""])),
            ("updates", Value::longs([6, 4, 0])),
            ("rows", Value::longs([60, 40, 0])),
            ("hash", Value::longs([-1, 5, 0])),
        ]);
        let windows = windows_of("a", &answer).expect("windows");
        assert_eq!(windows.len(), 2);
        assert_eq!(windows[0].proof.table(b"quote"), TableProof { updates: 6, rows: 60, hash: u64::MAX });
        assert_eq!((windows[1].first, windows[1].proof.total().updates), (10, 0));
        assert_eq!(windows_of("a", &Value::Long(1)), None);
    }
}
