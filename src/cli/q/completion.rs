//! What Tab completes: names, columns of the tables on the line, and file names.

use std::collections::BTreeMap;
use std::path::Path;

/// Most entries of a directory that are looked at, and most candidates.
const MAX_ENTRIES: usize = 10_000;
const MAX_CANDIDATES: usize = 1000;

/// What a console knows about the process that evaluates its lines.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub names: Vec<String>,
    /// Tables and their columns.
    pub tables: BTreeMap<String, Vec<String>>,
    /// Names that `\help` explains.
    pub explained: Vec<String>,
    /// That process reads the files of this machine, as this user.
    pub has_files: bool,
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '.' || c == '_'
}

impl Known {
    /// Returns where the word before byte `at` of the line begins, and what may stand there, in order: columns come first.
    pub fn complete(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let before = line.get(..at).unwrap_or_default();
        if let Some(name) = before.strip_prefix("\\help ") {
            return (at - name.len(), in_order(starting(&self.explained, name)));
        }
        if let Some(command) = before.strip_prefix('\\').filter(|command| !command.is_empty()) {
            let found: Vec<String> =
                LONG_COMMANDS.into_iter().filter(|long| long.starts_with(command)).map(Into::into).collect();
            if !found.is_empty() {
                return (1, found);
            }
        }
        if let Some(path) = path_before(before).filter(|_| self.has_files) {
            return files(path, at);
        }
        let word = before.rsplit(|c| !in_word(c)).next().unwrap_or_default();
        let start = before.len() - word.len();
        // A column of a table: `trade.pr`.
        if let Some((table, column)) = word.rsplit_once('.')
            && let Some(columns) = self.tables.get(table)
        {
            let of_table = starting(columns, column).map(|name| format!("{table}.{name}"));
            let globals = starting(&self.names, word).cloned();
            return (start, in_order_of(of_table.chain(globals)));
        }
        let mentioned = line.split(|c| !in_word(c)).filter_map(|name| self.tables.get(name));
        let columns: Vec<&String> = mentioned.flatten().collect();
        if word.is_empty() {
            return (start, Vec::new());
        }
        let columns = columns.into_iter().filter(|name| name.starts_with(word)).cloned();
        let tables = self.tables.keys().filter(|name| name.starts_with(word)).cloned();
        let mut found = in_order_of(columns);
        let mut others = in_order_of(tables.chain(starting(&self.names, word).cloned()));
        others.retain(|name| !found.contains(name));
        found.append(&mut others);
        found.truncate(MAX_CANDIDATES);
        (start, found)
    }
}

fn starting<'a>(names: &'a [String], with: &'a str) -> impl Iterator<Item = &'a String> {
    names.iter().filter(move |name| name.starts_with(with))
}

fn in_order<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    in_order_of(names.cloned())
}

fn in_order_of(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(MAX_CANDIDATES);
    names
}

/// Commands of more than one letter.
const LONG_COMMANDS: [&str; 3] = ["cd ", "help ", "ts "];

/// Commands with a file or a directory behind them.
const FILE_COMMANDS: [&str; 4] = ["l ", "cd ", "1 ", "2 "];

/// Returns the path at the end of a text: that of a command (`` \l ``, `system"l `), the text of a symbol (`` hsym`$" ``), or what follows the
/// last `` `: ``, if it could be one. `` `::5010 `` is an address.
fn path_before(before: &str) -> Option<&str> {
    let of_command = |text| FILE_COMMANDS.into_iter().find_map(|command| str::strip_prefix(text, command));
    if let Some(path) = before.strip_prefix('\\').and_then(of_command) {
        return Some(path);
    }
    if let Some((outside, text)) = open_string(before) {
        let outside = outside.trim_end();
        if outside.ends_with("system") {
            return of_command(text);
        }
        if outside.ends_with("`$") {
            return Some(text.strip_prefix(':').unwrap_or(text)).filter(|path| !path.starts_with(':'));
        }
    }
    let (_, path) = before.rsplit_once("`:")?;
    let in_path = |c: char| !c.is_whitespace() && !"\"`;()[]{},".contains(c);
    (!path.starts_with(':') && path.chars().all(in_path)).then_some(path)
}

/// Splits a text at the quote of a string that is not closed.
fn open_string(before: &str) -> Option<(&str, &str)> {
    let (mut start, mut escaped) = (None, false);
    for (at, c) in before.char_indices() {
        match c {
            '"' if !escaped => start = if start.is_none() { Some(at) } else { None },
            '\\' if start.is_some() && !escaped => {
                escaped = true;
                continue;
            }
            _ => {}
        }
        escaped = false;
    }
    let (outside, quoted) = before.split_at_checked(start?)?;
    Some((outside, quoted.get(1..)?))
}

/// Completes the last part of a path that ends at byte `at` of its line. Folders end with a slash.
fn files(path: &str, at: usize) -> (usize, Vec<String>) {
    let part = path.rsplit('/').next().unwrap_or_default();
    let folder = path.strip_suffix(part).unwrap_or_default();
    let place = Path::new(if folder.is_empty() { "." } else { folder });
    let Ok(entries) = std::fs::read_dir(place) else { return (at, Vec::new()) };
    let named = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let name = entry.file_name().into_string().ok()?;
        let is_hidden = name.starts_with('.') && !part.starts_with('.');
        if is_hidden || !name.starts_with(part) {
            return None;
        }
        let is_folder = place.join(&name).is_dir();
        Some(if is_folder { name + "/" } else { name })
    };
    (at - part.len(), in_order_of(entries.take(MAX_ENTRIES).filter_map(named)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn known() -> Known {
        let tables = [("trade", &["time", "sym", "price"][..]), ("quote", &["sym", "bid"]), (".h.part", &["date"])];
        Known {
            names: owned(&["trade", "tradeCount", ".u.sub", "til", "prior", "trade.q"]),
            tables: tables.into_iter().map(|(name, columns)| (name.to_owned(), owned(columns))).collect(),
            explained: owned(&["wsfull", "within", "-11!"]),
            has_files: false,
        }
    }

    fn at_end(line: &str) -> (usize, Vec<String>) {
        known().complete(line, line.len())
    }

    #[test]
    fn the_word_before_the_cursor_is_completed() {
        assert_eq!(at_end("count trade"), (6, owned(&["trade", "trade.q", "tradeCount"])));
        assert_eq!(at_end("x:.u"), (2, owned(&[".u.sub"])));
        assert_eq!(at_end("1+"), (2, Vec::new()));
        assert_eq!(at_end("\"é\"ti"), (4, owned(&["til"])));
    }

    #[test]
    fn columns_of_the_tables_on_the_line_are_completed() {
        let line = "select pr from trade";
        assert_eq!(known().complete(line, "select pr".len()), (7, owned(&["price", "prior"])));
        assert_eq!(at_end("select from trade where sy"), (24, owned(&["sym"])));
        assert_eq!(at_end("select from trade lj quote where bi").1, owned(&["bid"]));
        assert_eq!(at_end("exec b").1, Vec::<String>::new(), "no table on the line");
        assert_eq!(at_end("update x from `trade where ti").1, owned(&["time", "til"]), "columns first");
        assert_eq!(at_end("max trade.pr"), (4, owned(&["trade.price"])));
        assert_eq!(at_end("trade.").1, owned(&["trade.price", "trade.q", "trade.sym", "trade.time"]));
        assert_eq!(at_end(".h.part.d").1, owned(&[".h.part.date"]));
        assert_eq!(at_end("trade[`pr").1, owned(&["price", "prior"]));
    }

    #[test]
    fn long_commands_are_completed() {
        assert_eq!(at_end("\\he"), (1, owned(&["help "])));
        assert_eq!(at_end("\\t").1, owned(&["ts "]));
        assert_eq!(at_end("\\").1, Vec::<String>::new());
        assert_eq!(at_end("\\t trad").1, owned(&["trade", "trade.q", "tradeCount"]));
    }

    #[test]
    fn names_with_help_are_completed_behind_help() {
        assert_eq!(at_end("\\help ws"), (6, owned(&["wsfull"])));
        assert_eq!(at_end("\\help -1"), (6, owned(&["-11!"])));
        assert_eq!(at_end("ws").1, Vec::<String>::new());
    }

    #[test]
    fn files_are_completed_where_the_process_reads_them() {
        let folder = std::env::temp_dir().join(format!("elastick-completion-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("data")).expect("a folder");
        for file in ["day.log", "data/one", ".hidden"] {
            std::fs::write(folder.join(file), "").expect("a file");
        }
        let path = folder.to_string_lossy().into_owned();
        let here = Known { has_files: true, ..known() };
        let complete = |line: &str| here.complete(line, line.len());
        let line = format!("get `:{path}/da");
        assert_eq!(complete(&line), (line.len() - 2, owned(&["data/", "day.log"])));
        assert_eq!(complete(&format!("get `:{path}/data/")).1, owned(&["one"]));
        assert_eq!(complete(&format!("get `:{path}/")).1, owned(&["data/", "day.log"]));
        assert_eq!(complete(&format!("get `:{path}/.h")).1, owned(&[".hidden"]));
        assert_eq!(complete(&format!("get[`:{path}/day.log];ti")).1, owned(&["til"]), "the path has ended");
        for start in ["\\l ", "\\cd ", "system \"l ", "-11!hsym`$\"", "`$\":", "f[\"a\\\"b\";`$ \""] {
            let line = format!("{start}{path}/da");
            assert_eq!(complete(&line), (line.len() - 2, owned(&["data/", "day.log"])), "{line}");
        }
        assert_eq!(complete(&format!("`$\"{path}/\";ti")).1, owned(&["til"]), "the text has ended");
        assert_eq!(complete("h\"count tra").1, owned(&["trade", "trade.q", "tradeCount"]));
        assert_eq!(complete("hopen `::50").1, Vec::<String>::new());
        assert_eq!(complete(&format!("get `:{path}/nosuch/x")).1, Vec::<String>::new());
        assert_eq!(at_end(&format!("get `:{path}/da")).1, Vec::<String>::new(), "a process elsewhere");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
