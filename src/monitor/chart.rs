//! Chart of capacity and use over the day, in block characters.

use super::text;
use super::view::Sample;
use crate::monitor::view::DAY_HOURS;

const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the chart: `height` rows and an axis below; use is solid, capacity above it shaded.
///
/// `columns` is the width including the scale on the left. Samples are in order of time.
pub fn capacity(samples: &[Sample], columns: usize, height: usize) -> Vec<String> {
    let top = samples.iter().map(|sample| sample.capacity_bytes.max(sample.used_bytes)).max().unwrap_or(0).max(1);
    let scale = [text::bytes(top), text::bytes(top / 2), "0".to_string()];
    let left = scale.iter().map(|label| text::width(label)).max().unwrap_or(0);
    let plot = columns.saturating_sub(left + 2).max(1);
    let cells = buckets(samples, plot);
    let mut lines = Vec::with_capacity(height + 1);
    for row in 0..height {
        let label = match row {
            0 => scale.first(),
            _ if row == height / 2 => scale.get(1),
            _ => None,
        };
        let floor = top as f64 * (height - row - 1) as f64 / height as f64;
        let step = top as f64 / height as f64;
        let cell = |bucket: &Option<(u64, u64)>| {
            let Some((used, capacity)) = bucket else { return ' ' };
            let eighths = ((*used as f64 - floor) / step * 8.0).round().clamp(0.0, 8.0) as usize;
            match eighths {
                0 if (*capacity as f64 - floor) / step >= 0.5 => '░',
                eighths => EIGHTHS.get(eighths).copied().unwrap_or(' '),
            }
        };
        let body: String = cells.iter().map(cell).collect();
        let tick = if label.is_some() { '┤' } else { '│' };
        lines.push(format!("{} {tick}{body}", text::right(label.map_or("", String::as_str), left)));
    }
    lines.push(format!("{} └{}", " ".repeat(left), axis(plot)));
    lines
}

/// Returns for each column of the plot the maximum use and the capacity at that time.
fn buckets(samples: &[Sample], columns: usize) -> Vec<Option<(u64, u64)>> {
    let mut cells: Vec<Option<(u64, u64)>> = vec![None; columns];
    let mut reached = 0;
    for sample in samples {
        let column = ((sample.day_share * columns as f64) as usize).min(columns - 1);
        if let Some(cell) = cells.get_mut(column) {
            let (used, capacity) = cell.unwrap_or_default();
            *cell = Some((used.max(sample.used_bytes), capacity.max(sample.capacity_bytes)));
        }
        reached = reached.max(column);
    }
    // A column without a sample repeats the one before it.
    let mut last = None;
    for cell in cells.iter_mut().take(reached + 1) {
        match cell {
            Some(_) => last = *cell,
            None => *cell = last,
        }
    }
    cells
}

fn axis(columns: usize) -> String {
    let mut line: Vec<char> = vec!['─'; columns];
    for hour in (0..DAY_HOURS).step_by(if columns >= 60 { 3 } else { 6 }) {
        let at = hour * columns / DAY_HOURS;
        for (i, c) in format!("{hour:02}h").chars().enumerate() {
            if let Some(place) = line.get_mut(at + i) {
                *place = c;
            }
        }
    }
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(day_share: f64, capacity_bytes: u64, used_bytes: u64) -> Sample {
        Sample { day_share, capacity_bytes, used_bytes, nodes: 1 }
    }

    #[test]
    fn use_is_solid_and_capacity_shaded() {
        let samples: Vec<Sample> = (0..10).map(|i| sample(f64::from(i) / 10.0, 1000, 100 * i as u64)).collect();
        let lines = capacity(&samples, 17, 4);
        let rows: Vec<&str> = lines.iter().map(|line| line.split(['┤', '│', '└']).nth(1).unwrap()).collect();
        assert_eq!(rows.len(), 5);
        assert_eq!(rows[3].chars().filter(|c| *c == '█').count(), 7);
        assert!(rows[0].starts_with('░'), "{lines:#?}");
    }

    #[test]
    fn updates_not_yet_received_are_empty() {
        let lines = capacity(&[sample(0.0, 10, 5), sample(0.5, 10, 10)], 30, 2);
        assert!(lines[1].ends_with("     "), "{lines:#?}");
    }

    #[test]
    fn no_samples_draw_an_empty_chart() {
        assert_eq!(capacity(&[], 30, 3).len(), 4);
    }
}
