//! Property tests of statistics against their definitions: every numeric type, nulls, zero and one items, slices of longer
//! vectors. Aggregates run in sections of two rows, so that results of sections are combined.

mod support;

use columns::table::Value;
use proptest::prelude::*;
use support::{NULL, float_of, floats, number, q, shown, typed, whole};

/// Numeric types.
const NUMBERS: [i8; 5] = [5, 6, 7, 8, 9];

/// Small numbers and nulls.
fn numbers() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(prop_oneof![8 => -9i64..9, 2 => Just(NULL)], 0..24)
}

/// The numbers as items of a type: floats are quarters.
fn values(t: i8, x: &[i64]) -> Vec<f64> {
    x.iter().map(|i| if t >= 8 || *i == NULL { float_of(*i) } else { *i as f64 }).collect()
}

fn known(x: &[f64]) -> Vec<f64> {
    x.iter().copied().filter(|f| !f.is_nan()).collect()
}

fn mean(x: &[f64]) -> f64 {
    known(x).iter().sum::<f64>() / known(x).len() as f64
}

/// The mean of the products of deviations from the means.
fn covariance(x: &[f64], y: &[f64]) -> f64 {
    let both: Vec<(f64, f64)> = x.iter().copied().zip(y.iter().copied()).filter(|(a, b)| !(a + b).is_nan()).collect();
    let (a, b): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
    both.iter().map(|(x, y)| (x - mean(&a)) * (y - mean(&b))).sum::<f64>() / both.len() as f64
}

fn near(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || a == b || (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

fn all_near(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(*a, *b))
}

/// Windows of the last `n` items ending at each item.
fn windows(x: &[f64], n: usize) -> Vec<&[f64]> {
    (0..x.len()).map(|i| &x[(i + 1).saturating_sub(n)..=i]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn what_says_how_items_spread(x in numbers()) {
        for t in NUMBERS {
            let v = values(t, &x);
            let count = known(&v).len() as f64;
            let variance = covariance(&v, &v);
            // Nulls are sorted first and count for the middle; the average of the two middle items leaves them out.
            let mut sorted = v.clone();
            sorted.sort_by(|x, y| y.is_nan().cmp(&x.is_nan()).then(x.total_cmp(y)));
            let middle = match sorted.len() {
                0 => f64::NAN,
                n => mean(&[sorted[(n - 1) / 2], sorted[n / 2]]),
            };
            let is = |text: &str| number(text, typed(t, &x), Value::Null);
            prop_assert!(near(is("var x"), variance), "type {} {:?}", t, x);
            prop_assert!(near(is("dev x"), variance.sqrt()), "type {} {:?}", t, x);
            if count > 1.0 {
                let sample = variance * count / (count - 1.0);
                prop_assert!(near(is("svar x"), sample), "type {} {:?}", t, x);
                prop_assert!(near(is("sdev x"), sample.sqrt()), "type {} {:?}", t, x);
            }
            prop_assert!(near(is("med x"), middle), "type {} {:?}", t, x);
            prop_assert!(near(is("avg x"), mean(&v)), "type {} {:?}", t, x);
            prop_assert!(near(is("sum x"), known(&v).iter().sum()), "type {} {:?}", t, x);
            prop_assert!(near(is("prd x"), known(&v).iter().product()) || x.len() > 8, "type {} {:?}", t, x);
        }
    }

    #[test]
    fn what_weighs_and_pairs(x in numbers(), y in numbers()) {
        let rows = x.len().min(y.len());
        let (x, y) = (&x[..rows], &y[..rows]);
        for (s, t) in [(7, 9), (9, 7), (6, 6), (5, 8), (9, 9)] {
            let (a, b) = (values(s, x), values(t, y));
            let both: Vec<(f64, f64)> = a.iter().copied().zip(b.iter().copied()).filter(|(a, b)| !(a + b).is_nan()).collect();
            let total: f64 = both.iter().map(|(w, v)| w * v).sum();
            let weight: f64 = both.iter().map(|(w, _)| w).sum();
            let is = |text: &str| number(text, typed(s, x), typed(t, y));
            prop_assert!(near(is("x wsum y"), total), "types {} {} {:?} {:?}", s, t, x, y);
            prop_assert!(near(is("x wavg y"), total / weight), "types {} {} {:?} {:?}", s, t, x, y);
            prop_assert!(near(is("x cov y"), covariance(&a, &b)), "types {} {} {:?} {:?}", s, t, x, y);
            let (a, b): (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
            let spread = (covariance(&a, &a) * covariance(&b, &b)).sqrt();
            if spread > 1e-9 {
                prop_assert!(near(is("x cor y"), covariance(&a, &b) / spread), "types {} {} {:?} {:?}", s, t, x, y);
            }
        }
    }

    #[test]
    fn what_compares_with_the_item_before(x in numbers()) {
        let minus = |a: i64, b: i64| if a == NULL || b == NULL { NULL } else { a - b };
        let steps: Vec<i64> = (0..x.len()).map(|i| if i == 0 { x[0] } else { minus(x[i], x[i - 1]) }).collect();
        for t in [6, 7, 9] {
            prop_assert_eq!(q("deltas x", typed(t, &x), Value::Null), shown(&typed(t, &steps)), "type {}", t);
            let v = values(t, &x);
            let ratios: Vec<f64> = (0..v.len()).map(|i| if i == 0 { v[0] } else { v[i] / v[i - 1] }).collect();
            // `0%0` of integers is a null too.
            prop_assert!(x.is_empty() || all_near(&floats("ratios x", typed(t, &x), Value::Null), &ratios), "{:?}", x);
        }
        if !x.is_empty() {
            // The difference of timestamps is a timespan.
            prop_assert_eq!(q("deltas x", whole(12, &x), Value::Null), shown(&whole(16, &steps)));
        }
    }

    #[test]
    fn what_moves_over_windows(x in numbers(), n in 1usize..6) {
        for t in NUMBERS {
            let v = values(t, &x);
            let width = || Value::Long(n as i64);
            let each = |f: &dyn Fn(&[f64]) -> f64| windows(&v, n).into_iter().map(f).collect::<Vec<f64>>();
            let are = |text: &str| floats(text, typed(t, &x), width());
            prop_assert!(all_near(&are("y msum x"), &each(&|w| known(w).iter().sum())), "type {} {:?}", t, x);
            prop_assert!(all_near(&are("y mavg x"), &each(&mean)), "type {} {:?}", t, x);
            prop_assert!(all_near(&are("y mdev x"), &each(&|w| covariance(w, w).sqrt())), "type {} {:?}", t, x);
            prop_assert!(all_near(&are("y mcount x"), &each(&|w| known(w).len() as f64)), "type {} {:?}", t, x);
        }
    }

    #[test]
    fn what_moves_keeps_large_numbers(x in prop::collection::vec(1i64 << 60..(1 << 60) + 9, 1..20), n in 1usize..5) {
        // Numbers with more digits than a float holds.
        for t in [7, 12, 16] {
            let best: Vec<i64> = (0..x.len()).map(|i| *x[(i + 1).saturating_sub(n)..=i].iter().max().expect("one")).collect();
            prop_assert_eq!(q("y mmax x", whole(t, &x), Value::Long(n as i64)), shown(&whole(t, &best)), "type {}", t);
        }
        let sums: Vec<i64> =
            (0..x.len()).map(|i| x[(i + 1).saturating_sub(n)..=i].iter().fold(0i64, |a, b| a.wrapping_add(*b))).collect();
        prop_assert_eq!(q("y msum x", whole(7, &x), Value::Long(n as i64)), shown(&whole(7, &sums)));
    }

    #[test]
    fn what_smooths(x in numbers(), share in 1u8..10) {
        let alpha = f64::from(share) / 10.0;
        let v = values(9, &x);
        let mut last = None;
        let smooth: Vec<f64> = v
            .iter()
            .map(|f| {
                let next = last.map_or(*f, |last| alpha * f + (1.0 - alpha) * last);
                last = Some(next);
                next
            })
            .collect();
        prop_assert!(all_near(&floats("y ema x", typed(9, &x), Value::Float(alpha)), &smooth), "{:?}", x);
    }
}
