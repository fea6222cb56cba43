//! Days that differ from the planned one: more or less volume, unevenly, and a surge.

use super::shape::Shape;

/// Minutes that share one draw of the noise within a day.
const BLOCK_NS: u64 = 15 * 60_000_000_000;

/// How much days differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Standard deviation of the logarithm of a day's volume. 0.25: two days of three are within a quarter of the planned volume.
    pub volume: f64,
    /// The same of each quarter of an hour.
    pub within: f64,
}

/// More volume for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surge {
    pub factor: f64,
    pub length_ns: u64,
}

/// Returns a day like `planned`, with noise, and with the surge at a random time while the market is open. One seed is one day.
pub fn draw(planned: &Shape, noise: Noise, surge: Surge, seed: u64) -> Shape {
    let mut rng = fastrand::Rng::with_seed(seed);
    let volume = factor(&mut rng, noise.volume);
    let (open_ns, close_ns) = planned.open_hours();
    let from_ns = rng.u64(open_ns..close_ns.max(open_ns.saturating_add(1)));
    let mut block = (None, 1.0);
    let noisy = planned.changed(|at_ns, bytes| {
        if block.0 != Some(at_ns / BLOCK_NS) {
            block = (Some(at_ns / BLOCK_NS), factor(&mut rng, noise.within));
        }
        bytes * volume * block.1
    });
    noisy.with_surge((from_ns, from_ns.saturating_add(surge.length_ns)), surge.factor)
}

/// A factor with mean 1 whose logarithm is normally distributed.
fn factor(rng: &mut fastrand::Rng, deviation: f64) -> f64 {
    // Box and Muller.
    let normal = (-2.0 * rng.f64().max(f64::MIN_POSITIVE).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
    (deviation * normal - deviation * deviation / 2.0).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::curve::DAY_NS;

    const CALM: Surge = Surge { factor: 1.0, length_ns: 0 };

    #[test]
    fn without_noise_each_day_is_the_planned_one() {
        let planned = Shape::market_day(1_000_000_000);
        let day = draw(&planned, Noise { volume: 0.0, within: 0.0 }, CALM, 7);
        assert!(day.by(DAY_NS).abs_diff(planned.by(DAY_NS)) < 2000, "each minute is rounded");
    }

    #[test]
    fn days_vary_around_the_planned_volume_and_a_seed_is_a_day() {
        let planned = Shape::market_day(1_000_000_000);
        let noise = Noise { volume: 0.25, within: 0.5 };
        let volumes: Vec<f64> =
            (0..2000).map(|seed| draw(&planned, noise, CALM, seed).total_bytes() as f64 / 1e9).collect();
        let mean = volumes.iter().sum::<f64>() / 2000.0;
        let within = volumes.iter().filter(|volume| (0.75..1.29).contains(*volume)).count();
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
        assert!((1150..1450).contains(&within), "{within} of 2000 are within one deviation");
        assert_eq!(draw(&planned, noise, CALM, 3), draw(&planned, noise, CALM, 3));
    }

    #[test]
    fn a_surge_begins_while_the_market_is_open() {
        let planned = Shape::market_day(1_000_000_000);
        let still = Noise { volume: 0.0, within: 0.0 };
        let more = |seed| {
            let day = draw(&planned, still, Surge { factor: 10.0, length_ns: BLOCK_NS }, seed);
            day.total_bytes() as f64 / planned.total_bytes() as f64
        };
        assert!((0..100).all(|seed| (1.02..1.6).contains(&more(seed))));
    }
}
