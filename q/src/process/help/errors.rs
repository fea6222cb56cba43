//! Names of errors, with what usually causes each: `\help NAME`.

/// Errors of the language and of the process. The error of an unknown variable is the variable's name.
pub(crate) const ERRORS: [(&str, &str); 53] = [
    ("No such process", "there is no process with this number: .Q.prf0"),
    (
        "access",
        "the caller lacks the right (files, commands, handles, a role, a function), or user or password are wrong",
    ),
    ("assign", "a word of q cannot be assigned: count:1"),
    ("bad meta data in file", "a compressed file is damaged"),
    ("badmsg", "the other side sent bytes that are no message"),
    ("badtail", "a log ends within a message, or the file is no log; -11!(-2;file) counts the whole messages"),
    ("binary mismatch", "the process is no elastick of this user, so that its call stack cannot be read: .Q.prf0"),
    ("cast", "a symbol is not in the domain of the enumeration, or the type has no such name: `nosuch$1"),
    ("char", "the text contains a zero byte"),
    ("close", "the other side closed the connection"),
    ("conn", "too many handles are open"),
    ("domain", "an argument is outside of what the function takes: til -1"),
    ("empty", "a directory in par.txt is not there, or none of them has partitions"),
    ("export", "a module defines no export, or two modules use each other while they are loaded"),
    ("from", "select, exec, update or delete without from"),
    ("hop", "hopen could not connect: wrong host or port, or no process listens there"),
    ("index", "assignment to a position that the list does not have: x[count x]:0"),
    ("insert", "a row with this key exists; upsert replaces it"),
    ("internal", "a bug in elastick; the log of the process has more"),
    ("invalid partition filter", "none of these values is a partition: .Q.view"),
    ("io", "a file of the process cannot be read or written; its log has more"),
    ("length", "lists or columns of different lengths: 1 2+1 2 3; too few or too many items in an argument or update"),
    ("limit", "a limit of the process or of the format is reached: nesting, symbols, sizes, queries of a user"),
    ("locals", "a function has too many local variables"),
    ("loop", "a view depends on itself"),
    ("match", "a pattern on the left of : does not fit the value: (a;b):1 2 3"),
    ("mismatch", "the columns of two tables differ in names or order; flip, xcols and meta help"),
    ("module not found", "use: no file of the module's name is in a directory of .Q.m.SP, which QPATH sets"),
    ("no append to zipped enums", "the file of an enumeration's symbols is compressed; set writes it uncompressed"),
    ("nosocket", "a function run by peach used a handle"),
    ("noupdate", "nothing may be changed here: clients with -b, tables of the tickerplant, functions run by peach"),
    ("nyi", "not implemented for these arguments"),
    ("os", "a command of the operating system failed"),
    ("p-fail", "`p# where equal items are apart; sort first: `c xasc t"),
    ("par", "a partitioned table cannot be changed as a whole; change its partitions"),
    ("params", "a function has more than 8 parameters"),
    ("parse", "a parse tree that is no expression, or a text that is none"),
    ("path", "a path that begins with :: is relative to a script, and none is being loaded; .Q.rp while it is"),
    ("path too long", "the name of a file is longer than the operating system allows"),
    ("rank", "too many arguments: {x+y}[1;2;3]"),
    ("s-fail", "`s# on items that do not ascend; asc sorts"),
    ("stack", "the recursion is too deep"),
    ("step", "a `s# dictionary or table cannot be changed by upsert"),
    ("stop", "the time limit (\\T, --limit-query-time, query-time of a role), Ctrl-C, or the client has disconnected"),
    ("stype", "' signals a string or a symbol, and got something else: '1"),
    ("timeout", "no answer in time: hopen with a timeout, a client that does not respond"),
    (
        "type",
        "an argument of a type that the function does not take: 1+`a; a value in a column of another type; a list applied to no index",
    ),
    ("u-fail", "`u# on items that are not unique"),
    ("unmappable", "a column that is no vector and no list of vectors of one type: .Q.dpft, .Q.dpt"),
    ("unmatched ]", "ssr: a set of characters in the pattern is not closed; [[] stands for the bracket itself"),
    ("use", "a module's name that begins with a dot is relative to a script or module, and none is being loaded"),
    ("view", "view x: the variable is no view"),
    ("wsfull", "the memory limit: -w of a session, --limit-query-memory of a process, query-memory of a role"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn sources(folder: &Path, texts: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            match entry.is_dir() {
                true => sources(&entry, texts),
                false => texts.push(std::fs::read_to_string(entry).expect("text")),
            }
        }
    }

    #[test]
    fn every_error_of_the_language_is_explained() {
        let mut texts = Vec::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut texts);
        let mut names: Vec<&str> = Vec::new();
        for text in &texts {
            // Errors of unit tests are none of the language.
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for made in ["QError::named(\"", "QError::with(\""] {
                names.extend(text.split(made).skip(1).filter_map(|rest| rest.split('"').next()));
            }
        }
        assert!(names.len() > 300, "{}", names.len());
        let is_named = |name: &&str| name.starts_with(|c: char| c.is_ascii_alphabetic()) && *name != "needs owner";
        for name in names.into_iter().filter(is_named) {
            assert!(ERRORS.iter().any(|(known, _)| *known == name), "\\help {name}");
        }
        assert!(ERRORS.is_sorted_by_key(|(name, _)| *name));
    }
}
