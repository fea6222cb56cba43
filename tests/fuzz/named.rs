//! Globals that generated expressions refer to.

use elastick::q::session::Session;
use elastick::q::{Limits, eval_text};
use elastick::table::{Sym, Value};

/// Returns a session with the names that the grammar uses.
pub fn named() -> Session {
    let mut session = Session::new();
    for line in [
        "t:([]a:1 2 3;b:`x`y`x;c:1.5 0n 2)",
        "tt:([]a:1 1 2 3 5;b:`x`y`x`y`x;c:5#1.5 2.5;d:2024.01.01+til 5)",
        "d:`a`b!1 2",
        "kt:([k:`a`b]v:1 2)",
        "f:{x+y}",
        "g:neg",
        "w:`p`q",
        "e:`w$`p`q",
        "fk:([]k:`kt$`a`b`a;n:1 2 3)",
        "st:`s#0 10!`low`high",
        "v::count t",
        "L:(1 2 3;`a`b;\"text\";(4;5 6))",
        "l:10 20 30 40",
        "b:101b",
        "c:\"some text\"",
        "s:`u`v`w",
        "nt:([]k:`a`b;l:(1 2;3 4 5);n:(\"ab\";\"c\"))",
        "m:(1 2f;3 4f)",
        "mt:([]a:0#0;b:0#`;c:0#0n)",
        "gt:([]a:`s#1 2 3;b:`g#`x`y`x;c:3?1f)",
        "x:1 2 3",
    ] {
        eval_text(&mut session, line.as_bytes(), &Limits::default()).expect("a definition");
    }
    session
}

/// Returns the globals of a session, from which others are made.
pub fn kept(session: &Session) -> Vec<(Sym, Value)> {
    session.globals().map(|(name, value)| (name, value.clone())).collect()
}
