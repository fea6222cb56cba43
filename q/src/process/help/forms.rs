//! Ways to assign, forms of operators with several, and functions called by number: `\help ,:`, `\help 0:`, `\help -11!`.

/// Names, how each is written, and what it does.
pub(crate) const ASSIGNMENTS: [(&str, &str, &str); 5] = [
    (":", "x[i]:y", "replaces items of a list, a dictionary or a table, in place"),
    (":", "(a;b):y", "assigns the items of y to the names; also (a;`long$b):y and ([]a;b):t"),
    (
        "::",
        "x::y",
        "within a function assigns the global x; elsewhere defines x as a view: y is evaluated when x is read and y has changed",
    ),
    ("::", "::", "the identity function, and the value that stands for no value; in x[::;i] all indices"),
    (",:", "x,:y", "appends y to x, in place where nothing else refers to x"),
];

/// Operators with an assignment through them, except `,`: `x+:y`.
pub(crate) const THROUGH: [&str; 17] =
    ["+", "-", "*", "%", "&", "|", "^", "#", "_", "~", "!", "?", "@", "$", "=", "<", ">"];

/// Forms of operators, shown behind the help of the operator.
pub(crate) const OF_OPERATORS: [(&str, &str, &str); 8] = [
    (
        "0:",
        "file 0:texts",
        "writes a line for each text and returns the file: `:a.txt 0:(\"one\";\"two\"), `:t.csv 0:csv 0:t",
    ),
    (
        "0:",
        "delimiter 0:t",
        "the lines of a table with its column names, or of a list of columns: csv 0:t, \"\\t\"0:(`a`b;1 2)",
    ),
    (
        "0:",
        "(types;delimiter)0:x",
        "the columns in a file, a text or a list of texts: (\"SFJ\";\",\")0:`:t.csv; * is text, a blank leaves a field out",
    ),
    (
        "0:",
        "(types;enlist delimiter)0:x",
        "a table, its column names from the first line: (\"SFJ\";enlist\",\")0:`:t.csv",
    ),
    ("0:", "(types;widths)0:x", "the columns of fields of fixed width: (\"SFJ\";4 8 6)0:`:t.txt"),
    ("0:", "\"S=;\"0:x", "keys and values, here symbols before = in pairs with ; between them: \"S=;\"0:\"a=1;b=2\""),
    ("1:", "file 1:bytes", "writes bytes and returns the file: `:a 1:0x0102"),
    ("1:", "(types;widths)1:x", "the columns in a binary file or in bytes: (\"ih\";4 2)1:`:a"),
];

/// Internal functions.
pub(crate) const NUMBERED: [(&str, &str, &str); 39] = [
    ("-1!", "-1!x", "hsym: a symbol as that of a file"),
    ("-2!", "-2!x", "attr: the attribute of x"),
    ("-3!", "-3!x", "x as text in one line; .Q.s1"),
    ("-4!", "-4!x", "the tokens of the text x"),
    ("-5!", "-5!x", "parse: the parse tree of the text x"),
    ("-6!", "-6!x", "eval: evaluates a parse tree"),
    ("-7!", "-7!x", "hcount: the size of a file in bytes"),
    ("-8!", "-8!x", "x as the bytes of a message"),
    ("-9!", "-9!x", "the value in the bytes of a message"),
    ("-10!", "-10!20h", "whether no enumeration has that type number"),
    (
        "-11!",
        "-11!file",
        "evaluates each message of a log and returns their number; the reason of an error says which message failed",
    ),
    (
        "-11!",
        "-11!(n;file)",
        "evaluates the first n messages; -11!(-2;file) evaluates none and returns their number, of a damaged log also the \
         bytes of its whole messages",
    ),
    ("-12!", "-12!x", "the host of an IP address, an int"),
    ("-13!", "-13!x", "the IP address of a host, as an int"),
    ("-14!", "-14!x", "a text in quotes, as in a CSV file"),
    ("-15!", "-15!x", "md5 of a text"),
    ("-16!", "-16!x", "the number of references to x"),
    ("-18!", "-18!x", "x as the bytes of a compressed message"),
    ("-19!", "-19!(from;to;block;algorithm;level)", "compresses a file"),
    ("-20!", "-20!x", "gives free memory back to the system and returns the bytes; .Q.gc"),
    ("-21!", "-21!x", "how a file is compressed"),
    ("-22!", "-22!x", "the bytes of x as a message"),
    ("-23!", "-23!x", "x"),
    ("-24!", "-24!x", "reval: evaluates a parse tree that may change nothing"),
    ("-25!", "-25!(handles;x)", "sends x to each handle, async"),
    ("-26!", "(-26!)[]", "the settings of TLS"),
    ("-27!", "-27!(n;x)", "numbers as text with n decimals; .Q.f"),
    ("-29!", "-29!x", "the value of a JSON text; .j.k"),
    ("-30!", "-30!(::)", "defers the response to the client; -30!(handle;isError;x) sends it"),
    ("-31!", "-31!x", "x as JSON; .j.j"),
    ("-32!", "-32!x", "a text as base 64; .Q.btoa"),
    ("-33!", "-33!x", "SHA-1 of a text"),
    ("-34!", "-34!(f;args)", "time and memory of f . args, and its result; .Q.ts"),
    ("-35!", "-35!x", "gzip; .Q.gz"),
    ("-36!", "-36!(file;password)", "loads a master key; fails, as files are not encrypted"),
    ("-37!", "-37!pid", "the call stack of another process of this user, innermost level last; .Q.prf0"),
    ("-38!", "-38!handles", "protocol and family of sockets"),
    ("-120!", "-120!x", "the memory domain of x, always 0"),
    ("-105!", "-105!(f;x;g)", "f . x; on an error g[error;backtrace]; .Q.trpd"),
];

/// Functions that the console and assignments call, beside the handlers of clients: name, form, meaning.
pub(crate) const CALLED: [(&str, &str, &str); 3] = [
    (
        ".z.pd",
        ".z.pd:handles",
        "int handles with the attribute u, or a function that returns them: the processes to which peach sends its items after \\s -N",
    ),
    (".z.pi", ".z.pi:{…}", "function of a line typed at the console, with its newline; nothing else is shown for it"),
    (
        ".z.vs",
        ".z.vs:{…}",
        "function of name and indices, called after a global outside of namespaces was assigned; indices are () for the whole",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_with_a_number_is_explained() {
        let arms = include_str!("../../eval/numbered.rs").split("match n {").nth(1).expect("the functions");
        let arms = arms.split("\n    }\n").next().expect("its arms").lines().map(str::trim);
        let numbers: Vec<&str> =
            arms.filter(|arm| arm.starts_with('-')).filter_map(|arm| arm.split(' ').next()).collect();
        assert!(numbers.len() > 20, "{numbers:?}");
        for number in numbers {
            assert!(NUMBERED.iter().any(|(name, ..)| *name == format!("{number}!")), "{number}!");
        }
    }
}
