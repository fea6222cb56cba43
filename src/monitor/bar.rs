//! A bar of memory use with its two thresholds.

use super::text;

const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Fills `percent` of `columns` columns, in eighths, with a mark at each threshold that is not yet covered.
pub fn bar(percent: f64, marks: &[f64], columns: usize) -> String {
    let filled = (percent.clamp(0.0, 100.0) / 100.0 * columns as f64 * 8.0).round() as usize;
    let marks: Vec<usize> = marks.iter().map(|mark| (mark / 100.0 * columns as f64) as usize).collect();
    (0..columns)
        .map(|column| match filled.saturating_sub(column * 8) {
            8.. => '█',
            0 if marks.contains(&column) => '│',
            0 => '·',
            part => EIGHTHS.get(part).copied().unwrap_or(' '),
        })
        .collect()
}

/// Progress of the day: a plain bar with its percentage.
pub fn progress(share: f64, columns: usize) -> String {
    format!("{} {}", bar(share * 100.0, &[], columns), text::right(&format!("{:.0} %", share * 100.0), 5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_in_eighths_and_marks_its_thresholds() {
        assert_eq!(bar(0.0, &[60.0, 80.0], 10), "······│·│·");
        assert_eq!(bar(65.0, &[60.0, 80.0], 10), "██████▌·│·");
        assert_eq!(bar(100.0, &[60.0, 80.0], 10), "██████████");
        assert_eq!(bar(250.0, &[], 4), "████");
    }
}
