//! As-of join of rows in time order: one pass over both sides.

use super::num::Int;

/// No matching row.
pub const NONE: u32 = u32::MAX;

/// Result of joining one stretch (consecutive rows of both sides).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// For each left row, the last right row with its key so far, or [`NONE`] if this stretch has none.
    pub found: Vec<u32>,
    /// Left rows without a match in this stretch; an earlier stretch may have one.
    pub open: Vec<u32>,
    /// For each key, its last right row in this stretch, or [`NONE`].
    pub last: Vec<u32>,
    /// Whether times ascend on both sides.
    pub ascending: bool,
}

/// One side's keys and times, of equal length.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a, K, T> {
    pub keys: &'a [K],
    pub times: &'a [T],
}

/// For each row of `left`, finds the last row of `right` with the same key and a time at or before its own. Rows of
/// `right` are numbered from `first`. `place` maps a key to its slot in a table of `places` slots.
pub fn stretch<K: Copy, T: Int>(
    left: Side<'_, K, T>,
    right: Side<'_, K, T>,
    first: u32,
    places: usize,
    place: impl Fn(K) -> usize,
) -> Stretch {
    let mut out = Stretch {
        found: Vec::with_capacity(left.keys.len()),
        open: Vec::new(),
        last: vec![NONE; places],
        ascending: left.times.is_sorted(),
    };
    let mut rest = right.keys.iter().zip(right.times).zip(first..).peekable();
    let mut before: Option<T> = None;
    for (at, (key, time)) in (0..).zip(left.keys.iter().zip(left.times)) {
        while let Some(((key, own), row)) = rest.next_if(|((_, own), _)| **own <= *time) {
            out.ascending &= before.is_none_or(|before| before <= *own);
            before = Some(*own);
            if let Some(last) = out.last.get_mut(place(*key)) {
                *last = row;
            }
        }
        let found = out.last.get(place(*key)).copied().unwrap_or(NONE);
        if found == NONE {
            out.open.push(at);
        }
        out.found.push(found);
    }
    // Right rows later than every left row: later stretches need them.
    for ((key, own), row) in rest {
        out.ascending &= before.is_none_or(|before| before <= *own);
        before = Some(*own);
        if let Some(last) = out.last.get_mut(place(*key)) {
            *last = row;
        }
    }
    out
}

/// Completes the open rows of a stretch from `before`, the last row of each key in earlier stretches, then updates
/// `before` for the next stretch.
pub fn close<K: Copy>(stretch: &mut Stretch, before: &mut Vec<u32>, keys: &[K], place: impl Fn(K) -> usize) {
    for at in &stretch.open {
        let last = keys.get(*at as usize).and_then(|key| before.get(place(*key)));
        if let (Some(found), Some(last)) = (stretch.found.get_mut(*at as usize), last) {
            *found = *last;
        }
    }
    before.resize(stretch.last.len(), NONE);
    for (before, last) in before.iter_mut().zip(&stretch.last) {
        if *last != NONE {
            *before = *last;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows of (key, time) in ascending order of time.
    fn side() -> impl Strategy<Value = (Vec<u32>, Vec<i64>)> {
        let time = prop_oneof![4 => 0i64..20, 1 => Just(i64::MIN), 1 => Just(i64::MAX)];
        prop::collection::vec((0u32..4, time), 0..40).prop_map(|mut rows| {
            rows.sort_by_key(|row| row.1);
            rows.into_iter().unzip()
        })
    }

    fn slow(left: &(Vec<u32>, Vec<i64>), right: &(Vec<u32>, Vec<i64>)) -> Vec<u32> {
        let last = |key: u32, time: i64| {
            let fits = |row: &usize| right.0[*row] == key && right.1[*row] <= time;
            (0..right.0.len()).rev().find(fits).map_or(NONE, |row| row as u32)
        };
        left.0.iter().zip(&left.1).map(|(key, time)| last(*key, *time)).collect()
    }

    fn cut(side: &(Vec<u32>, Vec<i64>), rows: std::ops::Range<usize>) -> Side<'_, u32, i64> {
        Side { keys: &side.0[rows.clone()], times: &side.1[rows] }
    }

    proptest! {
        #[test]
        fn stretches_give_what_a_search_gives(left in side(), right in side(), at in 0usize..40) {
            let at = at.min(left.0.len());
            // The first stretch gets the right rows up to the time of its last left row.
            let limit = at.checked_sub(1).map(|last| left.1[last]);
            let split = limit.map_or(0, |limit| right.1.partition_point(|time| *time <= limit));
            let (mut before, mut found) = (Vec::new(), Vec::new());
            for (l, r) in [(0..at, 0..split), (at..left.0.len(), split..right.0.len())] {
                let (l, first) = (cut(&left, l), r.start as u32);
                let mut one = stretch(l, cut(&right, r), first, 4, |key| key as usize);
                prop_assert!(one.ascending);
                close(&mut one, &mut before, l.keys, |key| key as usize);
                found.extend(one.found);
            }
            prop_assert_eq!(found, slow(&left, &right));
        }
    }

    #[test]
    fn times_that_descend_are_noticed_on_either_side() {
        let (up, down) = (Side { keys: &[0u32, 0], times: &[1i64, 2] }, Side { keys: &[0u32, 0], times: &[2i64, 1] });
        assert!(stretch(up, up, 0, 1, |key| key as usize).ascending);
        assert!(!stretch(down, up, 0, 1, |key| key as usize).ascending);
        assert!(!stretch(up, down, 0, 1, |key| key as usize).ascending);
    }
}
