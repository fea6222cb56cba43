//! Property tests of primitives over vectors against naive implementations: all types, nulls and infinities, zero and one items,
//! and vectors that are slices of longer ones.

mod support;

use columns::table::{Items, Value};
use proptest::prelude::*;
use support::{ALL, INFINITY, NULL, NULLABLE, canon, float_of, longs, part, q, shown, typed};

/// Small numbers with repetitions, nulls, infinities.
fn item() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -9i64..9, 1 => Just(NULL), 1 => Just(INFINITY), 1 => Just(-INFINITY)]
}

/// Small numbers and nulls.
fn finite() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -9i64..9, 2 => Just(NULL)]
}

fn vector<S: Strategy<Value = i64>>(item: S) -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(item, 0..24)
}

fn order(x: &[i64]) -> Vec<i64> {
    let mut rows: Vec<i64> = (0..x.len() as i64).collect();
    rows.sort_by_key(|row| x[*row as usize]);
    rows
}

fn distinct(x: &[i64]) -> Vec<i64> {
    let mut out: Vec<i64> = Vec::new();
    x.iter().for_each(|i| {
        if !out.contains(i) {
            out.push(*i)
        }
    });
    out
}

fn find(x: &[i64], y: i64) -> i64 {
    x.iter().position(|i| *i == y).unwrap_or(x.len()) as i64
}

/// Windows of the last `n` items ending at each item.
fn windows(x: &[i64], n: usize) -> Vec<&[i64]> {
    (0..x.len()).map(|i| &x[(i + 1).saturating_sub(n)..=i]).collect()
}

fn known(x: &[i64]) -> Vec<i64> {
    x.iter().copied().filter(|i| *i != NULL).collect()
}

fn mean(x: &[i64]) -> f64 {
    let known = known(x);
    known.iter().sum::<i64>() as f64 / known.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_goes_by_order(x in vector(item())) {
        for t in ALL {
            let x = canon(t, &x);
            let rows = order(&x);
            let sorted: Vec<i64> = rows.iter().map(|r| x[*r as usize]).collect();
            let rank: Vec<i64> = (0..x.len() as i64).map(|i| find(&rows, i)).collect();
            prop_assert_eq!(q("iasc x", typed(t, &x), Value::Null), shown(&longs(&rows)), "type {}", t);
            prop_assert_eq!(q("asc x", typed(t, &x), Value::Null), shown(&typed(t, &sorted)), "type {}", t);
            prop_assert_eq!(q("rank x", typed(t, &x), Value::Null), shown(&longs(&rank)), "type {}", t);
            prop_assert_eq!(q("x idesc x", typed(t, &x), Value::Null),
                shown(&typed(t, &sorted.iter().rev().copied().collect::<Vec<_>>())), "type {}", t);
        }
    }

    #[test]
    fn what_goes_by_equality(x in vector(item()), y in vector(item())) {
        for t in ALL {
            let (x, y) = (canon(t, &x), canon(t, &y));
            let at: Vec<i64> = y.iter().map(|i| find(&x, *i)).collect();
            let inside: Vec<u8> = y.iter().map(|i| u8::from(x.contains(i))).collect();
            let differ: Vec<u8> = (0..x.len()).map(|i| u8::from(i == 0 || x[i] != x[i - 1])).collect();
            let first: Vec<i64> = distinct(&x);
            let sizes: Vec<i64> = first.iter().map(|f| x.iter().filter(|i| *i == f).count() as i64).collect();
            let (a, b) = (|| typed(t, &x), || typed(t, &y));
            prop_assert_eq!(q("x?y", a(), b()), shown(&longs(&at)), "type {}", t);
            prop_assert_eq!(q("y in x", a(), b()), shown(&Value::bools(inside.clone())), "type {}", t);
            prop_assert_eq!(q("differ x", a(), b()), shown(&Value::bools(differ.clone())), "type {}", t);
            prop_assert_eq!(q("distinct x", a(), b()), shown(&typed(t, &first)), "type {}", t);
            prop_assert_eq!(q("`long$count each value group x", a(), b()), shown(&longs(&sizes)), "type {}", t);
            prop_assert_eq!(q("key group x", a(), b()), shown(&typed(t, &first)), "type {}", t);
            let except: Vec<i64> = x.iter().copied().filter(|i| !y.contains(i)).collect();
            let inter: Vec<i64> = x.iter().copied().filter(|i| y.contains(i)).collect();
            prop_assert_eq!(q("x except y", a(), b()), shown(&typed(t, &except)), "type {}", t);
            prop_assert_eq!(q("x inter y", a(), b()), shown(&typed(t, &inter)), "type {}", t);
            let both: Vec<i64> = x.iter().chain(&y).copied().collect();
            prop_assert_eq!(q("x union y", a(), b()), shown(&typed(t, &distinct(&both))), "type {}", t);
        }
    }

    #[test]
    fn what_searches_sorted_items(x in vector(item()), y in vector(item()), low in -9i64..9, high in -9i64..9) {
        for t in ALL {
            let (x, y, bounds) = (canon(t, &x), canon(t, &y), canon(t, &[low, high]));
            let (low, high) = (bounds[0], bounds[1]);
            let mut x = x;
            x.sort_unstable();
            let bin: Vec<i64> = y.iter().map(|i| x.iter().filter(|x| *x <= i).count() as i64 - 1).collect();
            let binr: Vec<i64> = y.iter().map(|i| x.iter().filter(|x| *x < i).count() as i64).collect();
            let within: Vec<u8> = y.iter().map(|i| u8::from(*i >= low && *i <= high)).collect();
            prop_assert_eq!(q("x bin y", typed(t, &x), typed(t, &y)), shown(&longs(&bin)), "type {}", t);
            prop_assert_eq!(q("x binr y", typed(t, &x), typed(t, &y)), shown(&longs(&binr)), "type {}", t);
            prop_assert_eq!(q("y within x", typed(t, &[low, high]), typed(t, &y)), shown(&Value::bools(within.clone())));
        }
    }

    #[test]
    fn what_moves_items(x in vector(item()), n in -30i64..30) {
        for t in NULLABLE {
            let count = x.len() as i64;
            let at = |i: i64| usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(NULL);
            let shift = |n: i64| (0..count).map(|i| at(i - n)).collect::<Vec<i64>>();
            let mut filled = x.clone();
            (1..x.len()).for_each(|i| if filled[i] == NULL { filled[i] = filled[i - 1] });
            let turned: Vec<i64> = (0..count).map(|i| at((i + n).rem_euclid(count))).collect();
            let x = || typed(t, &x);
            prop_assert_eq!(q("prev x", x(), Value::Null), shown(&typed(t, &shift(1))), "type {}", t);
            prop_assert_eq!(q("next x", x(), Value::Null), shown(&typed(t, &shift(-1))), "type {}", t);
            prop_assert_eq!(q("y xprev x", x(), Value::Long(n)), shown(&typed(t, &shift(n))), "type {}", t);
            prop_assert_eq!(q("fills x", x(), Value::Null), shown(&typed(t, &filled)), "type {}", t);
            prop_assert_eq!(q("y rotate x", x(), Value::Long(n)), shown(&typed(t, &turned)), "type {}", t);
            prop_assert_eq!(q("reverse reverse x", x(), Value::Null), shown(&x()), "type {}", t);
        }
    }

    #[test]
    fn what_sums_longs(x in vector(finite()), n in 1usize..6) {
        let zero = |i: &i64| if *i == NULL { 0 } else { *i };
        let sums: Vec<i64> = (1..=x.len()).map(|end| x[..end].iter().map(zero).sum()).collect();
        let moving: Vec<i64> = windows(&x, n).iter().map(|w| w.iter().map(zero).sum()).collect();
        let counts: Vec<i64> = windows(&x, n).iter().map(|w| known(w).len() as i64).collect();
        let means: Vec<f64> = windows(&x, n).iter().map(|w| mean(w)).collect();
        let width = Value::Long(n as i64);
        prop_assert_eq!(q("sums x", longs(&x), Value::Null), shown(&longs(&sums)));
        prop_assert_eq!(q("y msum x", longs(&x), width.clone()), shown(&longs(&moving)));
        prop_assert_eq!(q("`long$y mcount x", longs(&x), width.clone()), shown(&longs(&counts)));
        prop_assert_eq!(q("y mavg x", longs(&x), width), shown(&Value::floats(means)));
        prop_assert_eq!(q("sum x", longs(&x), Value::Null), shown(&Value::Long(known(&x).iter().sum())));
        prop_assert_eq!(q("avg x", longs(&x), Value::Null), shown(&Value::Float(mean(&x))));
        prop_assert_eq!(q("count x", longs(&x), Value::Null), shown(&Value::Long(x.len() as i64)));
    }

    #[test]
    fn what_takes_extremes(x in vector(item()), n in 1usize..6) {
        for t in ALL.into_iter().filter(|t| !matches!(t, 2 | 11)) {
            let x = canon(t, &x);
            // A null is the minimum; the maximum of nulls alone is negative infinity, or the minimum of a type without one.
            let least_of_all = if matches!(t, 1 | 4 | 10) { NULL } else { -INFINITY };
            let largest = |w: &[i64]| w.iter().copied().max().filter(|i| *i != NULL).unwrap_or(least_of_all);
            // A window of one item leaves the list as it is, nulls included.
            let most = if n == 1 { x.clone() } else { windows(&x, n).iter().map(|w| largest(w)).collect() };
            let least: Vec<i64> = windows(&x, n).iter().map(|w| w.iter().copied().min().unwrap_or(NULL)).collect();
            let width = || Value::Long(n as i64);
            prop_assert_eq!(q("y mmax x", typed(t, &x), width()), shown(&typed(t, &most)), "type {}", t);
            prop_assert_eq!(q("y mmin x", typed(t, &x), width()), shown(&typed(t, &least)), "type {}", t);
        }
    }

    #[test]
    fn what_takes_running_extremes(x in vector(item())) {
        for t in [5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 18, 19] {
            // Nulls are ignored; of nulls alone the result is the opposite infinity.
            let rising = |end: usize| known(&x[..end]).into_iter().max().unwrap_or(-INFINITY);
            let falling = |end: usize| known(&x[..end]).into_iter().min().unwrap_or(INFINITY);
            let all = |f: &dyn Fn(usize) -> i64| (1..=x.len()).map(f).collect::<Vec<i64>>();
            prop_assert_eq!(q("maxs x", typed(t, &x), Value::Null), shown(&typed(t, &all(&rising))), "type {}", t);
            prop_assert_eq!(q("mins x", typed(t, &x), Value::Null), shown(&typed(t, &all(&falling))), "type {}", t);
            let best = (q("max x", typed(t, &x), Value::Null), q("min x", typed(t, &x), Value::Null));
            let first = |i: i64| shown(&typed(t, &[i]).at(0));
            prop_assert_eq!(best, (first(rising(x.len())), first(falling(x.len()))), "type {}", t);
        }
    }

    #[test]
    fn what_counts_by_keys(x in vector(item()), y in vector(0i64..3)) {
        let rows = x.len().min(y.len());
        for t in ALL {
            let x = canon(t, &x[..rows]);
            let (mut one, mut two) = (distinct(&x), Vec::new());
            one.sort_unstable();
            for first in &one {
                for second in 0..3 {
                    let count = x.iter().zip(&y).filter(|pair| *pair == (first, &second)).count();
                    if count > 0 {
                        two.push((*first, second, count as i64));
                    }
                }
            }
            let counts: Vec<i64> = one.iter().map(|k| x.iter().filter(|i| *i == k).count() as i64).collect();
            let table = |text: &str| q(&format!("t:([]k:x;l:y);{text}"), typed(t, &x), longs(&y[..rows]));
            prop_assert_eq!(table("exec k from select by k from t"), shown(&typed(t, &one)), "type {}", t);
            prop_assert_eq!(table("exec n from select n:count i by k from t"), shown(&longs(&counts)), "type {}", t);
            let both = two.iter().map(|(k, _, _)| *k).collect::<Vec<i64>>();
            let sizes = two.iter().map(|(_, _, n)| *n).collect::<Vec<i64>>();
            prop_assert_eq!(table("exec k from select n:count i by k,l from t"), shown(&typed(t, &both)), "type {}", t);
            prop_assert_eq!(table("exec n from select n:count i by k,l from t"), shown(&longs(&sizes)), "type {}", t);
            let ranked = (0..x.len()).map(|r| x.iter().enumerate().filter(|(i, v)| (**v, *i) < (x[r], r)).count() * 4 / x.len().max(1));
            prop_assert_eq!(table("4 xrank t`k"), shown(&longs(&ranked.map(|r| r as i64).collect::<Vec<_>>())), "type {}", t);
        }
    }

    #[test]
    fn what_aggregates_by_group(x in vector(finite()), keys in prop::collection::vec(0i64..4, 24)) {
        let keys = &keys[..x.len()];
        let mut names = distinct(keys);
        names.sort_unstable();
        let of = |k: i64| -> Vec<i64> { x.iter().zip(keys).filter(|(_, own)| **own == k).map(|(x, _)| *x).collect() };
        let all: Vec<Vec<i64>> = names.iter().map(|k| of(*k)).collect();
        let each = |f: &dyn Fn(&Vec<i64>) -> i64| shown(&longs(&all.iter().map(f).collect::<Vec<i64>>()));
        let by = |what: &str| q(&format!("exec r from select r:{what} v by k from ([]k:y;v:x)"), longs(&x), longs(keys));
        prop_assert_eq!(by("sum"), each(&|g| known(g).iter().sum()));
        prop_assert_eq!(by("max"), each(&|g| known(g).into_iter().max().unwrap_or(-INFINITY)));
        prop_assert_eq!(by("min"), each(&|g| known(g).into_iter().min().unwrap_or(INFINITY)));
        prop_assert_eq!(by("count"), each(&|g| g.len() as i64));
        prop_assert_eq!(by("first"), each(&|g| g[0]));
        prop_assert_eq!(by("last"), each(&|g| g[g.len() - 1]));
        let means = Value::floats(all.iter().map(|g| mean(g)).collect());
        prop_assert_eq!(by("avg"), shown(&means));
    }

    #[test]
    fn what_floats_give(x in vector(finite()), y in vector(finite())) {
        let floats = |x: &[i64]| part(Items::Float(x.iter().map(|i| float_of(*i)).collect()));
        let rows = order(&x);
        let at: Vec<i64> = y.iter().map(|i| find(&x, *i)).collect();
        prop_assert_eq!(q("iasc x", floats(&x), Value::Null), shown(&longs(&rows)));
        prop_assert_eq!(q("distinct x", floats(&x), Value::Null), shown(&floats(&distinct(&x))));
        prop_assert_eq!(q("x?y", floats(&x), floats(&y)), shown(&longs(&at)));
        let total = known(&x).iter().fold(0.0, |total, i| total + float_of(*i));
        prop_assert_eq!(q("sum x", floats(&x), Value::Null), shown(&Value::Float(total)));
    }
}

/// Values and what may be done to their items. `V` stands for the variable.
const HELD: [&str; 12] = [
    "(1 2;3 4;`a)",
    "(1 2;(3;`b;5 6))",
    "(();1 2;`a`b;\"ab\")",
    "`a`b!(1 2;3 4)",
    "`a`b!(`c`d!(1 2;3 4);5)",
    "1 2!(`a;2.5)",
    "([]a:(1 2;3 4);b:5 6)",
    "([k:1 2]a:(1 2;3 4);b:5 6)",
    "`a`b!(([]a:1 2);([]b:3 4))",
    "(`s#1 2 3;`g#`a`b;1b)",
    "1 2 3",
    "(1;`a;2)",
];
const PATHS: [&str; 14] =
    ["0", "1", "2", "5", "`a", "`b", "`z", "0;1", "1;0", "`a;0", "`b;1", "0;`a", "1;1;0", "`a;`c;1"];
const CHANGES: [&str; 12] =
    [":7", ":8 9", ":`x", ":()", ",:7", ",:8 9", ",:`x", "+:1", "-:2.5", "&:0", ":(1;`a)", ":enlist 3"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]
    /// An item that is changed where it is becomes what it becomes in a copy, and another reference to the value sees nothing of it.
    #[test]
    fn items_change_in_place_as_in_a_copy(
        held in 0..HELD.len(),
        changes in prop::collection::vec((0..PATHS.len(), 0..CHANGES.len()), 1..4),
        is_local: bool,
    ) {
        let held = HELD[held];
        let all: Vec<String> =
            changes.iter().map(|(path, change)| format!("@[{{V[{}]{};0}};::;0]", PATHS[*path], CHANGES[*change])).collect();
        let statements = |before: &str| {
            let each: Vec<String> = all.iter().map(|change| format!("{before}{}", change.replace('V', "v"))).collect();
            each.join(";")
        };
        let (alone, shared) = match is_local {
            // A trap is another lambda: the local itself is changed without one, up to the first error.
            true => {
                let each = |before: &str| -> String {
                    changes.iter().map(|(path, change)| format!("{before}v[{}]{};", PATHS[*path], CHANGES[*change])).collect()
                };
                (
                    format!("@[{{v:{held};{}v}};::;{{x}}]", each("")),
                    format!("@[{{v:{held};{}v}};::;{{x}}]", each("w:v;")),
                )
            }
            false => (format!("v:{held};{};v", statements("")), format!("v:{held};{};v", statements("w:v;"))),
        };
        let answer = |text: &str| q(text, Value::Null, Value::Null);
        prop_assert_eq!(answer(&alone), answer(&shared), "{}", alone);
        let (seen, first) = (format!("v:{held};w:v;{};w", statements("")), format!("v:{held};v"));
        prop_assert_eq!(answer(&seen), answer(&first), "{}", seen);
    }
}
