//! When the bytes of a day arrive.

use crate::feed::curve::{Curve, DAY_NS};

/// Intervals of the paper's day: a minute each.
const INTERVALS: u64 = 24 * 60;

/// Bytes that arrive in each interval of a day; within an interval at a constant rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    interval_ns: u64,
    /// Bytes before each interval, and at the end of the day.
    before: Vec<u64>,
}

impl Shape {
    /// Minutes of a day.
    pub const MINUTES: usize = INTERVALS as usize;

    /// Intervals of equal length over a day.
    ///
    /// # Errors
    /// There are none, or the day's sum does not fit.
    pub fn new(bytes: &[u64]) -> Result<Shape, String> {
        let mut before = vec![0u64];
        for bytes in bytes {
            let sum = before.last().and_then(|sum| sum.checked_add(*bytes)).ok_or("the day's volume is too large")?;
            before.push(sum);
        }
        match u64::try_from(bytes.len()) {
            Ok(intervals) if intervals > 0 => Ok(Shape { interval_ns: DAY_NS.div_ceil(intervals), before }),
            _ => Err("the day has no interval".to_string()),
        }
    }

    /// The paper's day of figure 2.1 with so many bytes.
    pub fn market_day(total_bytes: u64) -> Shape {
        let curve = Curve::market_day();
        let by = |interval: u64| {
            let share = curve.share_by(interval * DAY_NS / INTERVALS);
            if interval == INTERVALS { total_bytes } else { (share * total_bytes as f64) as u64 }
        };
        Shape { interval_ns: DAY_NS / INTERVALS, before: (0..=INTERVALS).map(by).collect() }
    }

    /// Reads lines of a time of day and a volume, `09:30,1200000`. Each volume lasts until the next line's time, or the day's end. A first line without
    /// a time is a heading. The day begins with the first time at the latest.
    ///
    /// # Errors
    /// The line that is wrong: another form, a negative volume, times that do not grow, or less than a minute between two.
    pub fn parse_csv(text: &str) -> Result<Shape, String> {
        let mut minutes = vec![0u64; usize::try_from(INTERVALS).unwrap_or(0)];
        let mut lines: Vec<(usize, u64, u64)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let (time, volume) = line.split_once(',').ok_or(format!("line {number}: expected TIME,VOLUME"))?;
            let Some(minute) = minute_of(time.trim()) else {
                if lines.is_empty() && number == 1 {
                    continue;
                }
                return Err(format!("line {number}: {} is no time of a day, as 09:30", time.trim()));
            };
            let volume: u64 = volume.trim().parse().map_err(|_| match volume.trim() {
                "" => format!("line {number}: the volume is missing"),
                text => format!("line {number}: {text} is no volume: a whole number of bytes, not negative"),
            })?;
            if let Some((before, last, _)) = lines.last().filter(|(_, last, _)| minute <= *last) {
                let (last, now) = (clock(*last), clock(minute));
                return Err(format!("line {number}: {now} is not after {last} of line {before}: times must grow"));
            }
            lines.push((number, minute, volume));
        }
        if lines.is_empty() {
            return Err("no line has a time and a volume".to_string());
        }
        let ends = lines.iter().skip(1).map(|(_, minute, _)| *minute).chain([INTERVALS]);
        for ((_, minute, volume), end) in lines.iter().zip(ends) {
            let length = end.saturating_sub(*minute).max(1);
            for at in 0..length {
                let by = |minutes: u64| u128::from(*volume) * u128::from(minutes) / u128::from(length);
                let bytes = u64::try_from(by(at + 1) - by(at)).unwrap_or(u64::MAX);
                let slot = usize::try_from(minute + at).ok().and_then(|at| minutes.get_mut(at));
                slot.into_iter().for_each(|slot| *slot = bytes);
            }
        }
        Shape::new(&minutes)
    }

    /// The same day with another volume.
    pub fn scaled_to(&self, total_bytes: u64) -> Shape {
        let own = self.total_bytes().max(1);
        let scale = |bytes: &u64| {
            u64::try_from(u128::from(*bytes) * u128::from(total_bytes) / u128::from(own)).unwrap_or(u64::MAX)
        };
        Shape { interval_ns: self.interval_ns, before: self.before.iter().map(scale).collect() }
    }

    /// The same day with the volume between two times multiplied. An interval that is only partly between them has its part multiplied.
    pub fn with_surge(&self, (from_ns, to_ns): (u64, u64), factor: f64) -> Shape {
        let interval_ns = self.interval_ns;
        self.changed(|at_ns, bytes| {
            let begin_ns = from_ns.max(at_ns);
            let end_ns = to_ns.min(at_ns.saturating_add(interval_ns));
            let part = end_ns.saturating_sub(begin_ns) as f64 / interval_ns as f64;
            bytes * (1.0 + part * (factor - 1.0))
        })
    }

    /// The same day with the bytes of each interval, which begins at a time, changed.
    pub fn changed(&self, mut change: impl FnMut(u64, f64) -> f64) -> Shape {
        let (mut sum, mut before) = (0u64, vec![0u64]);
        for (at, pair) in (0u64..).zip(self.before.windows(2)) {
            let [begin, end] = pair else { continue };
            let bytes = change(at.saturating_mul(self.interval_ns), end.saturating_sub(*begin) as f64);
            // Rounded up or down; below zero there is nothing.
            sum = sum.saturating_add(bytes.round() as u64);
            before.push(sum);
        }
        Shape { interval_ns: self.interval_ns, before }
    }

    pub fn total_bytes(&self) -> u64 {
        self.before.last().copied().unwrap_or(0)
    }

    /// Bytes that have arrived by a time of the day.
    pub fn by(&self, at_ns: u64) -> u64 {
        let (interval, within_ns) = (at_ns / self.interval_ns, at_ns % self.interval_ns);
        let Some(begin) = usize::try_from(interval).ok().and_then(|at| self.before.get(at)) else {
            return self.total_bytes();
        };
        let more = u128::from(self.in_interval(interval)) * u128::from(within_ns) / u128::from(self.interval_ns);
        begin.saturating_add(u64::try_from(more).unwrap_or(0))
    }

    /// Returns the first time at which more than these bytes have arrived; `None` if no more do.
    pub fn reaches_ns(&self, bytes: u64) -> Option<u64> {
        let end = self.before.partition_point(|by| *by <= bytes);
        let interval = u64::try_from(end.checked_sub(1)?).ok()?;
        let missing = bytes.saturating_add(1).saturating_sub(*self.before.get(end.checked_sub(1)?)?);
        let within = u128::from(missing) * u128::from(self.interval_ns);
        let within_ns = within.div_ceil(u128::from(self.in_interval(interval)).max(1));
        (end < self.before.len()).then(|| {
            interval.saturating_mul(self.interval_ns).saturating_add(u64::try_from(within_ns).unwrap_or(u64::MAX))
        })
    }

    /// The same day from another time on; what came before it comes at its end.
    pub fn from(&self, begin_ns: u64) -> Shape {
        let volumes: Vec<u64> =
            self.before.windows(2).filter_map(|pair| Some(pair.last()?.saturating_sub(*pair.first()?))).collect();
        let begin = usize::try_from(begin_ns / self.interval_ns).unwrap_or(0).min(volumes.len());
        let (first, rest) = volumes.split_at(begin);
        let sum = |sum: &mut u64, bytes: &u64| {
            *sum = sum.saturating_add(*bytes);
            Some(*sum)
        };
        let before = [0].into_iter().chain(rest.iter().chain(first).scan(0, sum)).collect();
        Shape { interval_ns: self.interval_ns, before }
    }

    fn in_interval(&self, interval: u64) -> u64 {
        let at = |interval: u64| usize::try_from(interval).ok().and_then(|at| self.before.get(at)).copied();
        at(interval.saturating_add(1)).zip(at(interval)).map_or(0, |(end, begin)| end.saturating_sub(begin))
    }

    /// When the interval of a time ends, and the bytes that arrive in a second until then.
    pub fn rate(&self, at_ns: u64) -> (u64, f64) {
        let interval = at_ns / self.interval_ns;
        let per_second = self.in_interval(interval) as f64 * 1e9 / self.interval_ns as f64;
        (interval.saturating_add(1).saturating_mul(self.interval_ns), per_second)
    }

    /// From when to when the market is open: between the first and the last interval in which a tenth of the busiest one's volume arrives.
    pub fn open_hours(&self) -> (u64, u64) {
        let intervals = self.before.len().saturating_sub(1) as u64;
        let most = (0..intervals).map(|at| self.in_interval(at)).max().unwrap_or(0);
        let is_busy = |at: &u64| self.in_interval(*at).saturating_mul(10) >= most.max(1);
        let first = (0..intervals).find(is_busy).unwrap_or(0);
        let last = (0..intervals).rev().find(is_busy).map_or(0, |at| at.saturating_add(1));
        (first.saturating_mul(self.interval_ns), last.saturating_mul(self.interval_ns))
    }
}

fn minute_of(time: &str) -> Option<u64> {
    let (hour, minute) = time.split_once(':')?;
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    // Seconds are dropped only where they are none.
    let minute = minute.strip_suffix(":00").unwrap_or(minute);
    let (hour, minute): (u64, u64) = (digits(hour) && digits(minute))
        .then(|| (hour.parse().ok(), minute.parse().ok()))
        .and_then(|(hour, minute)| hour.zip(minute))?;
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

fn clock(minute: u64) -> String {
    format!("{:02}:{:02}", minute / 60, minute % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn the_papers_day_adds_up_and_grows() {
        let day = Shape::market_day(16_000_000_000);
        assert_eq!((day.by(0), day.by(DAY_NS), day.total_bytes()), (0, 16_000_000_000, 16_000_000_000));
        assert!((0..1440).all(|minute| day.by(minute * MINUTE) <= day.by((minute + 1) * MINUTE)));
        let (open, close) = day.open_hours();
        assert!((7 * 60..9 * 60).contains(&(open / MINUTE)) && (16 * 60..19 * 60).contains(&(close / MINUTE)));
    }

    #[test]
    fn a_volume_lasts_until_the_next_time() {
        let day = Shape::parse_csv("time,bytes\n08:00,600\n08:10,0\n09:00,77\n").unwrap();
        let by = |hour: u64, minute: u64| day.by((hour * 60 + minute) * MINUTE);
        assert_eq!((by(7, 59), by(8, 5), by(8, 10), by(9, 0), day.total_bytes()), (0, 300, 600, 600, 677));
        assert_eq!(day.by((8 * 60 + 5) * MINUTE + MINUTE / 2), 330);
        assert_eq!(day.rate(8 * 60 * MINUTE), ((8 * 60 + 1) * MINUTE, 1.0));
        assert_eq!(day.scaled_to(1354).total_bytes(), 1354);
    }

    #[test]
    fn a_day_from_another_time_on_has_the_same_volume_and_says_when_it_arrives() {
        let day = Shape::parse_csv("08:00,600\n08:10,0\n20:00,60\n20:01,0\n").unwrap();
        assert_eq!(day.reaches_ns(0), Some(8 * 60 * MINUTE + MINUTE / 60));
        assert_eq!(
            (day.reaches_ns(599), day.reaches_ns(600)),
            (Some((8 * 60 + 10) * MINUTE), Some(20 * 60 * MINUTE + MINUTE / 60))
        );
        assert_eq!(day.reaches_ns(660), None);
        let evening = day.from(17 * 60 * MINUTE);
        let by = |minute: u64| evening.by(minute * MINUTE);
        assert_eq!(
            (by(3 * 60), by(3 * 60 + 1), by(15 * 60), by(15 * 60 + 5), evening.total_bytes()),
            (0, 60, 60, 360, 660)
        );
        assert_eq!(day.from(0), day);
    }

    #[test]
    fn a_surge_multiplies_what_arrives_between_two_times() {
        let day = Shape::parse_csv("08:00,600\n08:10,600\n08:20,0").unwrap();
        let surge = day.with_surge((8 * 60 * MINUTE, (8 * 60 + 10) * MINUTE), 10.0);
        assert_eq!((surge.by((8 * 60 + 10) * MINUTE), surge.total_bytes()), (6000, 6600));
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, wrong) in [
            ("", "no line has"),
            ("08:00", "line 1: expected"),
            ("08:00,5\n25:00,5", "line 2: 25:00 is no time"),
            ("08:00,5\n07:00,5", "line 2: 07:00 is not after 08:00 of line 1"),
            ("08:00,5\n08:00,6", "line 2: 08:00 is not after"),
            ("08:00,-5", "line 1: -5 is no volume"),
            ("08:00,5\n09:00,\n", "line 2: the volume is missing"),
            ("08:00,5.5", "line 1: 5.5 is no volume"),
            ("8:00,5\n", "no line has"),
        ] {
            let error = Shape::parse_csv(text).unwrap_err();
            assert!(error.contains(wrong), "{text:?}: {error}");
        }
    }
}
