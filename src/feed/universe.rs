//! Symbols of the simulated market: trading frequency and price of each.

use fastrand::Rng;

/// Names of the busiest symbols; the others are generated.
const KNOWN: [&str; 40] = [
    "AAPL", "MSFT", "NVDA", "AMZN", "TSLA", "META", "GOOG", "AMD", "SPY", "QQQ", "JPM", "BAC", "XOM", "INTC", "NFLX",
    "DIS", "KO", "PFE", "CSCO", "WMT", "V", "MA", "HD", "PG", "JNJ", "UNH", "CVX", "ABBV", "PEP", "MRK", "ORCL", "CRM",
    "ADBE", "NKE", "MCD", "T", "VZ", "GE", "F", "GM",
];

/// Largest step of a price, as a fraction of it.
const STEP: f64 = 0.0008;

/// Name and last price of a symbol.
#[derive(Clone, Debug)]
pub struct Symbol {
    pub name: String,
    pub price: f64,
}

/// Symbols with Zipf's skew: the `k`-th busiest trades `1/k^skew` times as often as the busiest.
#[derive(Clone, Debug)]
pub struct Universe {
    symbols: Vec<Symbol>,
    /// Cumulative share of trades up to each symbol.
    shares: Vec<f64>,
}

impl Universe {
    /// Creates `count` symbols, at least one. With `skew` 0 all are equally busy.
    pub fn new(count: usize, skew: f64, rng: &mut Rng) -> Universe {
        let count = count.max(1);
        let symbols =
            (0..count).map(|rank| Symbol { name: name(rank), price: cents(5.0 * 80f64.powf(rng.f64())) }).collect();
        let weights = (1..=count).map(|rank| (rank as f64).powf(-skew));
        let total: f64 = weights.clone().sum();
        let mut sum = 0.0;
        let shares = weights
            .map(|weight| {
                sum += weight / total;
                sum
            })
            .collect();
        Universe { symbols, shares }
    }

    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// Draws the index of a symbol by trading frequency.
    pub fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.f64();
        self.shares.partition_point(|share| *share <= at).min(self.symbols.len().saturating_sub(1))
    }

    /// Moves a symbol's price by one step of its random walk. Returns the name and the new price.
    pub fn step(&mut self, index: usize, rng: &mut Rng) -> (&str, f64) {
        let Some(symbol) = self.symbols.get_mut(index) else { return ("", 0.0) };
        let moved = symbol.price * (1.0 + STEP * (rng.f64() + rng.f64() - 1.0));
        symbol.price = cents(moved).max(0.01);
        (&symbol.name, symbol.price)
    }
}

/// Rounds to whole cents.
pub fn cents(price: f64) -> f64 {
    (price * 100.0).round() / 100.0
}

fn name(rank: usize) -> String {
    match KNOWN.get(rank) {
        Some(known) => (*known).to_string(),
        None => {
            let mut rest = rank - KNOWN.len();
            let mut letters = vec![b'Z'];
            for _ in 0..3 {
                letters.push(b'A' + (rest % 26) as u8);
                rest /= 26;
            }
            while rest > 0 {
                letters.push(b'0' + (rest % 10) as u8);
                rest /= 10;
            }
            String::from_utf8_lossy(&letters).into_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn draws(skew: f64) -> Vec<u32> {
        let mut rng = Rng::with_seed(7);
        let universe = Universe::new(100, skew, &mut rng);
        let mut counts = vec![0u32; 100];
        (0..200_000).for_each(|_| counts[universe.draw(&mut rng)] += 1);
        counts
    }

    #[test]
    fn the_busiest_trade_as_often_as_zipf_says() {
        let counts = draws(1.0);
        for (rank, factor) in [(1usize, 2.0), (3, 4.0), (9, 10.0)] {
            let ratio = f64::from(counts[0]) / f64::from(counts[rank]);
            assert!((ratio / factor - 1.0).abs() < 0.15, "rank {rank}: {ratio}");
        }
    }

    #[test]
    fn without_skew_all_are_equally_busy() {
        let counts = draws(0.0);
        assert!(counts.iter().all(|count| (1700..2300).contains(count)), "{counts:?}");
    }

    #[test]
    fn names_are_distinct() {
        let universe = Universe::new(60_000, 1.0, &mut Rng::with_seed(1));
        let names: HashSet<&str> = universe.symbols().iter().map(|symbol| symbol.name.as_str()).collect();
        assert_eq!(names.len(), 60_000);
    }

    #[test]
    fn prices_walk_in_small_steps_of_whole_cents_and_stay_positive() {
        let mut rng = Rng::with_seed(3);
        let mut universe = Universe::new(5, 1.0, &mut rng);
        let mut last = universe.symbols()[2].price;
        for _ in 0..10_000 {
            let (_, price) = universe.step(2, &mut rng);
            assert!(price > 0.0 && (price - last).abs() <= last * STEP + 0.006, "{last} {price}");
            assert!((price * 100.0 - (price * 100.0).round()).abs() < 1e-6);
            last = price;
        }
    }
}
