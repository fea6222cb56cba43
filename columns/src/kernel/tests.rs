//! Kernels compared with naive implementations, over nulls, infinities, empty and unaligned slices.

use super::keys::{groups, groups_dense, positions};
use super::num::{Int, Num, float_equal};
use super::partial::{Counts, Ends, Extremes, Means, Moments, Partial, Sums, To, Weighted};
use super::zip::{Arithmetic, Comparison, arithmetic, compare, compare_floats, zip};
use proptest::prelude::*;

fn long() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -100i64..100,
        1 => any::<i64>(),
        1 => Just(i64::NULL),
        1 => Just(i64::INFINITY),
        1 => Just(i64::NEGATIVE_INFINITY),
    ]
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-1000i32..1000).prop_map(|i| f64::from(i) / 8.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => Just(-0.0),
    ]
}

/// Items, their groups, and a number of parts.
fn grouped() -> impl Strategy<Value = (Vec<(i64, u32)>, usize)> {
    (prop::collection::vec((long(), 0u32..5), 0..60), 1usize..6)
}

/// Never refuses memory.
fn unbounded(_: usize) -> Result<(), std::convert::Infallible> {
    Ok(())
}

fn same(x: f64, y: f64) -> bool {
    x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan()) || (x - y).abs() <= 1e-9 * x.abs().max(y.abs()).max(1.0)
}

/// State of all rows, updated in `parts` sections that are merged.
fn over_parts<P: Partial>(
    make: impl Fn() -> P,
    count: usize,
    parts: usize,
    update: impl Fn(&mut P, std::ops::Range<usize>),
) -> P {
    let mut all = make();
    let size = count.div_ceil(parts).max(1);
    for start in (0..count).step_by(size) {
        let mut state = make();
        update(&mut state, start..(start + size).min(count));
        all.merge(state);
    }
    all
}

proptest! {
    #[test]
    fn sums_of_longs_are_null_where_either_is(x in prop::collection::vec((long(), long()), 0..50), cut in 0usize..9) {
        let (a, b): (Vec<i64>, Vec<i64>) = x.into_iter().unzip();
        let (a, b) = (&a[cut.min(a.len())..], &b[cut.min(b.len())..]);
        let slow: Vec<i64> = a.iter().zip(b).map(|(x, y)| {
            if *x == i64::MIN || *y == i64::MIN { i64::MIN } else { x.wrapping_add(*y) }
        }).collect();
        prop_assert_eq!(arithmetic(Arithmetic::Add, a, b), slow);
    }

    #[test]
    fn lesser_and_greater_take_null_as_least(x in prop::collection::vec((long(), long()), 0..50)) {
        let (a, b): (Vec<i64>, Vec<i64>) = x.into_iter().unzip();
        let least: Vec<i64> = a.iter().zip(&b).map(|(x, y)| *x.min(y)).collect();
        let most: Vec<i64> = a.iter().zip(&b).map(|(x, y)| *x.max(y)).collect();
        prop_assert_eq!(arithmetic(Arithmetic::Lesser, &a, &b), least);
        prop_assert_eq!(arithmetic(Arithmetic::Greater, &a, &b), most);
    }

    #[test]
    fn one_item_is_repeated(x in prop::collection::vec(long(), 2..20), y in long()) {
        let wide = vec![y; x.len()];
        prop_assert_eq!(zip(&x, &[y], i64::minus), zip(&x, &wide, i64::minus));
        prop_assert_eq!(zip(&[y], &x, i64::minus), zip(&wide, &x, i64::minus));
    }

    #[test]
    fn comparisons_of_longs_are_those_of_the_machine(x in prop::collection::vec((long(), long()), 0..50)) {
        let (a, b): (Vec<i64>, Vec<i64>) = x.iter().copied().unzip();
        let slow = |f: fn(&i64, &i64) -> bool| x.iter().map(|(x, y)| u8::from(f(x, y))).collect::<Vec<u8>>();
        prop_assert_eq!(compare(Comparison::Less, &a, &b), slow(i64::lt));
        prop_assert_eq!(compare(Comparison::AtLeast, &a, &b), slow(i64::ge));
        prop_assert_eq!(compare(Comparison::Unequal, &a, &b), slow(i64::ne));
    }

    #[test]
    fn floats_compare_with_null_least_and_each_pair_in_one_way(x in prop::collection::vec((float(), float()), 0..50)) {
        let (a, b): (Vec<f64>, Vec<f64>) = x.iter().copied().unzip();
        let less = compare_floats(Comparison::Less, &a, &b);
        let more = compare_floats(Comparison::More, &a, &b);
        let equal = compare_floats(Comparison::Equal, &a, &b);
        for (i, (x, y)) in x.iter().enumerate() {
            prop_assert_eq!(less[i] + more[i] + equal[i], 1, "{} {}", x, y);
            prop_assert_eq!(equal[i] == 1, float_equal(*x, *y));
            prop_assert_eq!(less[i] == 1, !float_equal(*x, *y) && (x < y || x.is_nan()));
        }
    }

    #[test]
    fn positions_are_those_of_a_search(h in prop::collection::vec(-5i64..5, 0..30), n in prop::collection::vec(-6i64..6, 0..30)) {
        let slow: Vec<i64> =
            n.iter().map(|n| h.iter().position(|h| h == n).unwrap_or(h.len()) as i64).collect();
        prop_assert_eq!(positions(&h, &n, unbounded), Ok(slow));
    }

    #[test]
    fn groups_put_equal_items_together_in_order_of_appearance(x in prop::collection::vec(0u32..8, 0..50)) {
        let Ok(found) = groups(&x, unbounded);
        let mut distinct: Vec<u32> = Vec::new();
        for item in &x {
            if !distinct.contains(item) {
                distinct.push(*item);
            }
        }
        let ids: Vec<u32> = x.iter().map(|i| distinct.iter().position(|d| d == i).unwrap_or(0) as u32).collect();
        prop_assert_eq!(&found.ids, &ids);
        prop_assert_eq!(found.firsts.iter().map(|f| x[*f as usize]).collect::<Vec<_>>(), distinct);
        prop_assert_eq!(groups_dense(x.iter().copied(), 8), found);
    }

    #[test]
    fn partials_merge_to_what_one_pass_gives((rows, parts) in grouped()) {
        let (x, ids): (Vec<i64>, Vec<u32>) = rows.iter().copied().unzip();
        let of = |g: u32| rows.iter().filter(move |(x, group)| *group == g && !x.is_null()).map(|(x, _)| *x);
        let n = x.len();
        let sums = over_parts(|| Sums::new(5, 0i64), n, parts, |s, r| s.update(&x[r.clone()], To::Each(&ids[r]))).finish();
        let least =
            over_parts(|| Extremes::new(5, false), n, parts, |s, r| s.update(&x[r.clone()], To::Each(&ids[r]))).finish();
        let most =
            over_parts(|| Extremes::new(5, true), n, parts, |s, r| s.update(&x[r.clone()], To::Each(&ids[r]))).finish();
        let counts = over_parts(|| Counts::new(5), n, parts, |s, r| s.update(r.len(), To::Each(&ids[r]))).finish();
        let ends = |last| {
            let update = |s: &mut Ends, r: std::ops::Range<usize>| {
                s.update((r.start as u32, r.len()), To::Each(&ids[r]));
            };
            over_parts(|| Ends::new(5, last), n, parts, update).finish()
        };
        let (firsts, lasts) = (ends(false), ends(true));
        for g in 0..5u32 {
            let i = g as usize;
            // A sum that passes through its type's null follows q's rules; compare the others with plain addition.
            let usual = of(g).all(|x| x.abs() < 1 << 40);
            if usual {
                prop_assert_eq!(sums[i], of(g).sum::<i64>());
            }
            prop_assert_eq!(least[i], of(g).min().unwrap_or(i64::INFINITY));
            prop_assert_eq!(most[i], of(g).max().unwrap_or(i64::NEGATIVE_INFINITY));
            prop_assert_eq!(counts[i], ids.iter().filter(|id| **id == g).count() as i64);
            let first = ids.iter().position(|id| *id == g).map_or(u32::MAX, |p| p as u32);
            let last = ids.iter().rposition(|id| *id == g).map_or(u32::MAX, |p| p as u32);
            prop_assert_eq!((firsts[i], lasts[i]), (first, last));
        }
    }

    #[test]
    fn moments_and_weights_merge(rows in prop::collection::vec((-100i32..100, 0i32..9), 0..60), parts in 1usize..6) {
        let x: Vec<f64> = rows.iter().map(|r| if r.0 == 7 { f64::NAN } else { f64::from(r.0) }).collect();
        let w: Vec<f64> = rows.iter().map(|r| f64::from(r.1)).collect();
        let kept: Vec<(f64, f64)> = x.iter().copied().zip(w.iter().copied()).filter(|(x, _)| !x.is_nan()).collect();
        let n = kept.len() as f64;
        let mean = kept.iter().map(|k| k.0).sum::<f64>() / n;
        let variance = kept.iter().map(|k| (k.0 - mean).powi(2)).sum::<f64>() / n;
        let moments = over_parts(|| Moments::new(1), x.len(), parts, |s, r| s.update(&x[r], To::One(0))).finish();
        prop_assert!(same(moments[0].average(), mean));
        prop_assert!(same(moments[0].variance(false), variance));
        let means = over_parts(|| Means::new(1), x.len(), parts, |s, r| s.update(&x[r], To::One(0))).finish();
        prop_assert!(same(means[0].0, kept.iter().map(|k| k.0).sum()));
        prop_assert_eq!(means[0].1, n);
        let weighted = over_parts(|| Weighted::new(1), x.len(), parts, |s, r| s.update((&w[r.clone()], &x[r]), To::One(0))).finish();
        prop_assert!(same(weighted[0].0, kept.iter().map(|k| k.0 * k.1).sum()));
        prop_assert!(same(weighted[0].1, kept.iter().map(|k| k.1).sum()));
    }

    #[test]
    fn rows_of_one_group_give_what_rows_of_many_give((rows, _) in grouped()) {
        let (x, _): (Vec<i64>, Vec<u32>) = rows.into_iter().unzip();
        let floats: Vec<f64> = x.iter().map(|x| x.to_float()).collect();
        let ids = vec![3u32; x.len()];
        macro_rules! both {
            ($make:expr, $input:expr) => {{
                let (mut one, mut each) = ($make, $make);
                one.update($input, To::One(3));
                each.update($input, To::Each(&ids));
                (one.finish(), each.finish())
            }};
        }
        let (one, each) = both!(Sums::new(5, 0i64), &x[..]);
        prop_assert_eq!(one, each);
        for greatest in [false, true] {
            let (one, each) = both!(Extremes::new(5, greatest), &x[..]);
            prop_assert_eq!(one, each);
            let (one, each) = both!(Ends::new(5, greatest), (7, x.len()));
            prop_assert_eq!(one, each);
        }
        let (one, each) = both!(Counts::new(5), x.len());
        prop_assert_eq!(one, each);
        let bits = |v: Vec<(f64, f64)>| v.into_iter().map(|(a, b)| (a.to_bits(), b.to_bits())).collect::<Vec<_>>();
        let (one, each) = both!(Means::new(5), &floats[..]);
        prop_assert_eq!(bits(one), bits(each));
        let (one, each) = both!(Weighted::new(5), (&floats[..], &floats[..]));
        prop_assert_eq!(bits(one), bits(each));
    }

    #[test]
    fn widening_and_narrowing_keep_nulls_and_infinities(x in any::<i32>(), long in any::<i64>()) {
        prop_assert_eq!(i32::from_long(x.to_long()), x);
        prop_assert_eq!(i64::from_long(long), long);
        let narrow = i16::from_long(long);
        prop_assert_eq!(narrow.is_null(), long.is_null());
    }
}
