//! Parts of the answer: tables, notes and plots, for the console and as a page.

use crate::monitor::plot::Plot;
use crate::monitor::svg::escape;
use crate::monitor::text;
use std::io::{self, Write};
use std::path::Path;

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub names: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(names: &[&str], rows: Vec<Vec<String>>) -> Table {
        Table { names: names.iter().map(ToString::to_string).collect(), rows }
    }
}

/// One part of the answer.
#[derive(Clone, Debug, Default)]
pub struct Section {
    pub title: String,
    pub tables: Vec<Table>,
    /// Lines below the tables.
    pub notes: Vec<String>,
    pub plots: Vec<Plot>,
}

/// Prints the sections' tables and notes.
pub fn print(out: &mut impl Write, sections: &[Section]) -> io::Result<()> {
    for (index, section) in sections.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        if !section.title.is_empty() {
            writeln!(out, "{}\n", section.title)?;
        }
        for (index, table) in section.tables.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            let names: Vec<&str> = table.names.iter().map(String::as_str).collect();
            for line in text::table(&names, &table.rows) {
                writeln!(out, "{line}")?;
            }
        }
        if !section.notes.is_empty() {
            writeln!(out)?;
        }
        for note in &section.notes {
            writeln!(out, "{note}")?;
        }
    }
    Ok(())
}

/// Writes each plot as an SVG file into a directory, which is made if it is not there.
pub fn write_plots(directory: &Path, sections: &[Section]) -> io::Result<usize> {
    std::fs::create_dir_all(directory)?;
    let mut count = 0;
    for plot in sections.iter().flat_map(|section| &section.plots) {
        std::fs::write(directory.join(format!("{}.svg", plot.file)), plot.svg())?;
        count += 1;
    }
    Ok(count)
}

const STYLE: &str = "body{max-width:1000px;margin:2rem auto;padding:0 1rem;font:15px/1.5 ui-sans-serif,system-ui,sans-serif;color:#1f2328;\
background:#fff}h1{font-size:1.6rem}h2{font-size:1.25rem;margin-top:2.5rem}table{border-collapse:collapse;margin:1rem 0;font-size:13px;\
font-variant-numeric:tabular-nums;display:block;overflow-x:auto}th,td{padding:.25rem .6rem;border-bottom:1px solid #d1d9e0;text-align:right;\
white-space:nowrap}th:first-child,td:first-child{text-align:left}figure{margin:1.5rem 0}svg{width:100%;height:auto;border:1px solid #d1d9e0;\
border-radius:8px}pre{background:#f6f8fa;padding:.8rem;border-radius:6px;overflow-x:auto}";

/// Returns the sections as one HTML page, which loads nothing.
pub fn page(title: &str, sections: &[Section]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{0}</title>\n<style>{STYLE}</style>\n<h1>{0}</h1>\n",
        escape(title)
    );
    for section in sections {
        if !section.title.is_empty() {
            out += &format!("<h2>{}</h2>\n", escape(&section.title));
        }
        for table in &section.tables {
            let row = |tag: &str, cells: &[String]| {
                let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
                format!("<tr>{}</tr>\n", cells.collect::<String>())
            };
            let rows: String = table.rows.iter().map(|cells| row("td", cells)).collect();
            out += &format!("<table>\n{}{rows}</table>\n", row("th", &table.names));
        }
        out += &section.notes.iter().map(|note| format!("<p>{}</p>\n", escape(note))).collect::<String>();
        out += &section.plots.iter().map(|plot| format!("<figure>\n{}</figure>\n", plot.svg())).collect::<String>();
    }
    out + "</html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_escapes_what_it_shows() {
        let section = Section {
            title: "a <b>".to_string(),
            tables: vec![Table::new(&["x&y"], vec![vec!["1<2".to_string()]])],
            notes: vec!["\"n\"".to_string()],
            plots: Vec::new(),
        };
        let page = page("t", &[section]);
        for wanted in ["<h2>a &lt;b&gt;</h2>", "<th>x&amp;y</th>", "<td>1&lt;2</td>", "&quot;n&quot;"] {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
    }

    #[test]
    fn sections_are_printed_one_below_the_other() {
        let of = |title: &str, notes: Vec<String>| Section { title: title.to_string(), notes, ..Section::default() };
        let mut out = Vec::new();
        print(&mut out, &[of("one", vec!["note".to_string()]), of("two", Vec::new())]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "one\n\n\nnote\n\ntwo\n\n");
    }
}
