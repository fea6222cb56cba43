//! Errors for a client that requests reasons: which text it is shown.

use crate::process::session::Session;
use crate::{Limits, apply, eval_message, eval_text};
use columns::table::Value;
use proto::Explained;

/// The place of the error of a text, evaluated as it is or by this handler.
fn place(handler: Option<&str>, text: &str) -> String {
    let mut session = Session::new();
    let limits = Limits::default();
    for line in ["f:{x+`a}", "g:{value x,\"+`a\"}", "h:{'`no}"] {
        eval_text(&mut session, line.as_bytes(), &limits).expect(line);
    }
    let message = Value::chars(text);
    let result = match handler {
        None => eval_message(&mut session, &message, &limits),
        Some(handler) => {
            let handler = eval_text(&mut session, handler.as_bytes(), &limits).expect("a function");
            apply(&mut session, &handler, &[message], &limits)
        }
    };
    let error = result.expect_err("an error");
    assert_eq!(error.wire_text(false, Some(text.as_bytes())), error.name);
    let sent = error.wire_text(true, Some(text.as_bytes())).into_owned();
    assert_eq!(Explained::parse(&sent).name, &error.name[..]);
    String::from_utf8(Explained::parse(&sent).place.to_vec()).expect("text")
}

#[test]
fn a_client_sees_its_text_and_the_functions_that_it_calls() {
    assert_eq!(place(None, "1+`a"), "  [0]  1+`a\n        ^\n");
    assert_eq!(place(None, "1;select b by b from t"), "  [0]  1;select b by b from t\n         ^\n");
    assert_eq!(place(None, "f 1"), "  [1]  f:{x+`a}\n           ^\n");
    assert_eq!(place(None, "{x+`a}each 1 2"), "  [1]  {x+`a}\n         ^\n");
    assert_eq!(place(None, &format!("1+`a{}", " ".repeat(5000))), "", "a long text");
}

#[test]
fn a_client_does_not_see_what_functions_evaluate_or_what_evaluates_its_text() {
    // The innermost text, 1+`a, was made by g.
    assert_eq!(place(None, "g enlist\"1\""), "  [1]  g:{value x,\"+`a\"}\n          ^\n");
    assert_eq!(place(Some("{value x}"), "f 1"), "  [0]  f 1\n       ^\n");
    assert_eq!(place(Some("{value x}"), "{x+`a}1"), "  [1]  {x+`a}\n         ^\n");
    assert_eq!(place(Some("{h x}"), "f 1"), "");
}

/// Expressions and the errors with reasons that the console shows for them.
const REASONS: &[(&str, &str)] = &[
    ("1+`a", "type: + was given a long and a symbol"),
    ("+[1;`a]", "type: + was given a long and a symbol"),
    ("neg `a`b", "type: neg was given a list of symbols"),
    ("neg \"ab\"+`a", "type: + was given a string and a symbol"),
    ("1 2+1 2 3", "length: + was given lists of 2 and 3 items"),
    ("1 2!1 2 3", "length: ! was given lists of 2 and 3 items"),
    ("(1 2;3)+(1 2 3;4)", "length"),
    ("{x+y}[1;2;3]", "rank: the function takes 2 arguments and was given 3"),
    ("neg[1;2]", "rank: the function takes 1 argument and was given 2"),
    ("1 2 3[0;0]", "rank: more indices were given than there are levels"),
    ("system\"z 5\"", "domain: 5 is no value of \\z"),
    ("til -1", "domain: til was given -1"),
    ("til 0N", "domain: til was given 0N"),
    ("1 2 3`a", "type: a list of longs was indexed by a symbol"),
    ("`b$1", "cast: no such type"),
    ("nobody+1", "nobody: no variable or column has this name"),
    ("select c from ([]a:1 2)", "c: no variable or column has this name"),
    ("t:([]a:1 2;b:3 4);`t insert(5;`c)", "type: column b is a list of longs and was given a list of symbols"),
    ("t:([]a:1 2);`t insert 1 2 3 4", "length: the table has 1 column and the row 4 items"),
    ("t:([]a:1 2);`t upsert`b`c!3 4", "mismatch: the table has no column b, c, and the new rows lack a"),
    ("([]a:1 2),([]b:1 2)", "mismatch: the table has no column b, and the new rows lack a"),
    ("{'`type}`a", "type"),
    ("{'`type}each 1 2", "type"),
    ("value\"{'`length}1\"", "length"),
    ("first each 1+(::;2)", "type: + was given a long and a general list"),
];

#[test]
fn bare_names_have_reasons() {
    for (text, expected) in REASONS {
        let error = eval_text(&mut Session::new(), text.as_bytes(), &Limits::default()).expect_err(text);
        assert_eq!(error.to_string(), format!("'{expected}"), "{text}");
        assert_eq!(error.wire_text(false, None), error.name, "{text}: programs receive the name alone");
    }
}
