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
