//! The name that somebody probably meant who wrote an unknown one.

/// Longest word for which a name is searched: the comparison takes time in proportion to its length.
const MAX_WORD_BYTES: usize = 64;

/// How well a name fits a word; less is better.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Number of edits between the two.
    Misspelt(usize),
    /// The word is the beginning of a name of this length.
    Begun(usize),
    /// The word is a part, between hyphens, of a name of this length.
    Part(usize),
}

/// Returns the name closest to an unknown word: misspelt (`prot` for `port`), else begun (`mem` for `memory`), else a part of it (`outbox`
/// for `limit-outbox`); `None` if no name is close.
pub fn closest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    close(word, names).first().copied()
}

/// Returns the names close to an unknown word, the closest first.
pub fn close<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if word.len() < 2 || word.len() > MAX_WORD_BYTES {
        return Vec::new();
    }
    let mut found: Vec<(Fit, &str)> = names.into_iter().filter_map(|name| Some((fit(word, name)?, name))).collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

fn fit(word: &str, name: &str) -> Option<Fit> {
    // One edit in five bytes, and one more: in a shorter word, two edits leave little of it.
    let most = word.len().div_ceil(5);
    let edits = edits(word.as_bytes(), name.as_bytes());
    if edits <= most {
        return Some(Fit::Misspelt(edits));
    }
    if word.len() >= 3 && name.starts_with(word) {
        return Some(Fit::Begun(name.len()));
    }
    let is_part = format!("-{name}-").contains(&format!("-{word}-"));
    (word.len() >= 3 && is_part).then_some(Fit::Part(name.len()))
}

/// Number of bytes to insert, remove or replace, or of neighbours to swap, to make one text of the other.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i.saturating_add(1)];
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX);
            let replaced = at(&last, j).saturating_add(usize::from(x != y));
            let removed = at(&last, j.saturating_add(1)).saturating_add(1);
            let inserted = at(&row, j).saturating_add(1);
            let is_swap = i > 0 && j > 0 && a.get(i.wrapping_sub(1)) == Some(y) && b.get(j.wrapping_sub(1)) == Some(x);
            let swapped = if is_swap { at(&before, j.wrapping_sub(1)).saturating_add(1) } else { usize::MAX };
            row.push(replaced.min(removed).min(inserted).min(swapped));
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Program, options};

    fn of(program: Program, word: &str) -> Option<&'static str> {
        closest(word, options::of(program).map(|spec| spec.name))
    }

    #[test]
    fn the_closest_option_is_the_one_meant() {
        for (program, word, meant) in [
            (Program::Tick, "prot", "port"),
            (Program::Rdb, "prot", "port"),
            (Program::Rdb, "protocl", "protocol"),
            (Program::Tick, "durabilty", "durability"),
            (Program::Rdb, "mem", "memory"),
            (Program::Rdb, "roll-treshold", "roll-threshold"),
            (Program::Tick, "outbox", "limit-outbox"),
            (Program::Fleet, "mx", "max"),
        ] {
            assert_eq!(of(program, word), Some(meant), "{word}");
        }
    }

    #[test]
    fn nothing_is_suggested_for_a_word_like_no_other() {
        for word in ["", "x", "nosuch", "fnord-frobnicate", "ñandú"] {
            assert_eq!(of(Program::Tick, word), None, "{word}");
        }
        assert_eq!(of(Program::Tick, &"p".repeat(1 << 20)), None);
    }
}
