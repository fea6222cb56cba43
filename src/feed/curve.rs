//! Volume over a market's day, after "RDB Autoscaling", figure 2.1: a quiet night, a surge at the open, a busy middle, a surge at the
//! close, a quiet evening.

/// Nanoseconds of a day.
pub const DAY_NS: u64 = proto::time::DAY_NS.unsigned_abs();

/// Hour of the day and relative volume; linear in between.
const POINTS: [(f64, f64); 14] = [
    (0.0, 0.015),
    (6.5, 0.015),
    (7.5, 0.04),
    (8.0, 0.20),
    (8.25, 1.00),
    (9.5, 0.66),
    (12.0, 0.52),
    (14.5, 0.72),
    (15.75, 0.74),
    (16.4, 0.98),
    (16.6, 0.20),
    (17.5, 0.04),
    (20.0, 0.015),
    (24.0, 0.015),
];

/// A linear piece of the curve.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Start and length, as fractions of the day.
    start: f64,
    length: f64,
    /// Level at both ends.
    from: f64,
    to: f64,
    /// Cumulative volume before the piece, and volume in it; all pieces sum to 1.
    before: f64,
    volume: f64,
}

/// Curve of a day: cumulative share of the volume by time, and its inverse.
#[derive(Clone, Debug)]
pub struct Curve {
    pieces: Vec<Piece>,
}

impl Curve {
    /// Returns the paper's simulated day.
    pub fn market_day() -> Curve {
        let mut pieces: Vec<Piece> = POINTS
            .iter()
            .zip(POINTS.iter().skip(1))
            .map(|(&(hour, from), &(next, to))| {
                let (start, length) = (hour / 24.0, (next - hour) / 24.0);
                Piece { start, length, from, to, before: 0.0, volume: length * (from + to) / 2.0 }
            })
            .collect();
        let total: f64 = pieces.iter().map(|piece| piece.volume).sum();
        let mut before = 0.0;
        for piece in &mut pieces {
            piece.volume /= total;
            piece.before = before;
            before += piece.volume;
        }
        Curve { pieces }
    }

    /// Returns the level at a time; the maximum is 1.
    pub fn level(&self, day_ns: u64) -> f64 {
        let at = fraction(day_ns);
        self.pieces
            .iter()
            .rfind(|piece| piece.start <= at)
            .map_or(0.0, |piece| piece.from + (piece.to - piece.from) * ((at - piece.start) / piece.length).min(1.0))
    }

    /// Returns the share of the day's volume up to a time, 0 to 1.
    pub fn share_by(&self, day_ns: u64) -> f64 {
        let at = fraction(day_ns);
        let Some(piece) = self.pieces.iter().rfind(|piece| piece.start <= at) else { return 0.0 };
        let part = ((at - piece.start) / piece.length).min(1.0);
        let level = piece.from + (piece.to - piece.from) * part / 2.0;
        let mean = (piece.from + piece.to) / 2.0;
        (piece.before + piece.volume * part * level / mean).min(1.0)
    }

    /// Returns the time, in nanoseconds of the day, at which a share of the volume is reached.
    pub fn time_of(&self, share: f64) -> u64 {
        let share = share.clamp(0.0, 1.0);
        let Some(piece) = self.pieces.iter().rfind(|piece| piece.before <= share) else { return 0 };
        let target = ((share - piece.before) / piece.volume).min(1.0) * (piece.from + piece.to) / 2.0;
        // The root of from·x + (to - from)·x²/2 = wanted inside the piece, in the form without cancellation.
        let root = (piece.from * piece.from + 2.0 * (piece.to - piece.from) * target).max(0.0).sqrt();
        let part = (2.0 * target / (piece.from + root)).clamp(0.0, 1.0);
        (((piece.start + part * piece.length) * DAY_NS as f64) as u64).min(DAY_NS - 1)
    }
}

fn fraction(day_ns: u64) -> f64 {
    (day_ns as f64 / DAY_NS as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: u64 = DAY_NS / 24;

    fn share_between(from: u64, to: u64) -> f64 {
        let curve = Curve::market_day();
        curve.share_by(to * HOUR) - curve.share_by(from * HOUR)
    }

    #[test]
    fn the_whole_day_is_one() {
        let curve = Curve::market_day();
        assert_eq!(curve.share_by(0), 0.0);
        assert!((curve.share_by(DAY_NS) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn nearly_all_comes_while_the_market_is_open() {
        assert!(share_between(8, 17) > 0.9);
        assert!(share_between(0, 7) < 0.03);
        assert!(share_between(18, 24) < 0.03);
    }

    #[test]
    fn open_and_close_surge_above_the_middle() {
        let curve = Curve::market_day();
        let middle = curve.level(12 * HOUR);
        assert!(curve.level(8 * HOUR + HOUR / 4) > 1.5 * middle);
        assert!(curve.level(16 * HOUR + HOUR * 2 / 5) > 1.5 * middle);
        assert!(middle > 10.0 * curve.level(3 * HOUR));
    }

    proptest! {
        #[test]
        fn the_time_of_a_share_has_that_share(share in 0.0f64..1.0) {
            let curve = Curve::market_day();
            prop_assert!((curve.share_by(curve.time_of(share)) - share).abs() < 1e-9);
        }

        #[test]
        fn volume_only_grows(a in 0..DAY_NS, b in 0..DAY_NS) {
            let curve = Curve::market_day();
            prop_assert!(curve.share_by(a.min(b)) <= curve.share_by(a.max(b)));
        }
    }
}
