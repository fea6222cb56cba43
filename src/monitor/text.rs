//! Formats numbers, times and names for display.

/// Formats `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a size with a binary unit and about three digits.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if unit == 0 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$} {}", UNITS.get(unit).copied().unwrap_or_default())
}

/// Formats a duration: `870 µs`, `12.3 ms`, `4.56 s`, `2m05s`, `7h30m`.
pub fn span(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match ns {
        0..1_000_000 => format!("{} µs", ns / 1000),
        1_000_000..1_000_000_000 => format!("{:.1} ms", seconds * 1e3),
        1_000_000_000..60_000_000_000 => format!("{seconds:.2} s"),
        60_000_000_000..3_600_000_000_000 => format!("{}m{:02}s", ns / 60_000_000_000, ns / 1_000_000_000 % 60),
        _ => format!("{}h{:02}m", ns / 3_600_000_000_000, ns / 60_000_000_000 % 60),
    }
}

/// Formats a time of day: `09:30:15`.
pub fn clock(day_ns: u64) -> String {
    let seconds = day_ns / 1_000_000_000;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Formats a window of updates: `[0, 1,234)`, or `[1,234, …)` while it is open.
pub fn window(first: u64, last: Option<u64>) -> String {
    match last {
        Some(last) => format!("[{}, {})", thousands(first), thousands(last)),
        None => format!("[{}, …)", thousands(first)),
    }
}

/// Returns the columns that a text takes on a terminal, without its colour codes.
pub fn width(text: &str) -> usize {
    let mut in_code = false;
    let mut width = 0;
    for c in text.chars() {
        match c {
            '\x1b' => in_code = true,
            'm' if in_code => in_code = false,
            _ if in_code => {}
            _ => width += 1,
        }
    }
    width
}

/// Cuts a text to `columns` columns; colour codes take none and are all kept.
pub fn cut(text: &str, columns: usize) -> String {
    let mut in_code = false;
    let mut used = 0;
    text.chars()
        .filter(|c| {
            match c {
                '\x1b' => in_code = true,
                'm' if in_code => {
                    in_code = false;
                    return true;
                }
                _ => {}
            }
            if in_code {
                return true;
            }
            used += 1;
            used <= columns
        })
        .collect()
}

/// Pads a text with spaces on its right.
pub fn left(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Pads a text with spaces on its left.
pub fn right(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))))
}

/// Formats rows under a heading with aligned columns, as q does: names, a line, values.
pub fn table(names: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let widths: Vec<usize> = names
        .iter()
        .enumerate()
        .map(|(i, name)| rows.iter().filter_map(|row| row.get(i)).map(|cell| width(cell)).fold(width(name), usize::max))
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.zip(&widths).map(|(cell, width)| left(cell, *width)).collect();
        cells.join(" ").trim_end().to_string()
    };
    let mut lines = vec![line(&mut names.iter().copied())];
    lines.push("-".repeat(widths.iter().sum::<usize>() + widths.len().saturating_sub(1)));
    lines.extend(rows.iter().map(|row| line(&mut row.iter().map(String::as_str))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_commas() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn sizes_and_times_have_units() {
        assert_eq!([0, 1023, 1536, 32 << 20, 3 << 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "32.0 MiB", "3.0 GiB"]);
        assert_eq!(
            [5_000, 1_500_000, 2_340_000_000, 65_000_000_000, 5_400_000_000_000].map(span),
            ["5 µs", "1.5 ms", "2.34 s", "1m05s", "1h30m"]
        );
    }

    #[test]
    fn colours_take_no_room() {
        let red = "\x1b[31mred\x1b[0m";
        assert_eq!(width(red), 3);
        assert_eq!(cut(red, 2), "\x1b[31mre\x1b[0m");
        assert_eq!(left(red, 5), format!("{red}  "));
    }

    #[test]
    fn tables_are_aligned() {
        let rows = vec![vec!["a".to_string(), "1".to_string()], vec!["longer".to_string(), "2".to_string()]];
        assert_eq!(table(&["name", "n"], &rows), ["name   n", "--------", "a      1", "longer 2"]);
    }
}
