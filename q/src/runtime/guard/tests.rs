use super::*;

fn sym(text: &str) -> Sym {
    symbol::intern(text.as_bytes()).expect("room")
}

fn function() -> Value {
    Value::func(Function::Native(sym("f")))
}

fn owner() -> Asking {
    Asking::new(Caller::default(), Grants { files: true, ..Grants::default() })
}

fn client() -> Asking {
    Asking::new(Caller { remote: true, ..Caller::default() }, Grants::default())
}

#[test]
fn the_owners_functions_stay_the_owners() {
    let mut authors = Authors::default();
    authors.note(sym("f"), &function(), &owner());
    authors.note(sym("n"), &Value::Long(1), &owner());
    authors.note(sym(".a.b.f"), &Value::list(vec![Value::Long(1), function()]), &owner());
    for name in ["f", ".a.b.f", ".a.b", ".a", ".", ".z.pg", ".z", ".Q.s", ".h.hy"] {
        assert!(authors.check(sym(name), true).is_err(), "{name}");
        assert!(authors.check(sym(name), false).is_ok(), "{name}");
    }
    for name in ["n", "g", "ff", ".a.c", ".zz.pg", ".hh.x"] {
        assert!(authors.check(sym(name), true).is_ok(), "{name}");
    }
    let texts = Value::list(vec![Value::chars(&b"ab"[..]); 1000]);
    authors.note(sym("texts"), &texts, &owner());
    assert!(authors.check(sym("texts"), true).is_ok());
    authors.note(sym("f"), &Value::Long(2), &owner());
    assert!(authors.check(sym("f"), true).is_ok());
}

/// Whether an evaluation of the owner that reads this value of a client has lost the owner's rights.
fn lowers(value: &Value) -> bool {
    let (mut authors, asking) = (Authors::default(), owner());
    authors.note(sym("g"), value, &client());
    authors.read(sym("g"), Some(value), &asking);
    asking.caller().remote
}

#[test]
fn reading_a_callers_function_lowers_the_readers_rights() {
    assert!(lowers(&function()) && lowers(&Value::list(vec![Value::Long(1), function()])));
    assert!(!lowers(&Value::Long(1)) && !lowers(&Value::chars(&b"text"[..])));
    // The search ends at its limit for values that share their parts.
    let doubled = (0..64).fold(Value::list(vec![Value::Long(1); 300]), |v, _| Value::list(vec![v.clone(), v]));
    assert!(lowers(&doubled));
}

/// `.z.po:{d[x]:{x+1}}`, called for two clients: the second call reads and assigns `d`, with the owner's rights like the first.
#[test]
fn a_function_that_the_owner_keeps_for_a_caller_lowers_no_rights() {
    let mut authors = Authors::default();
    let kept = Value::list(vec![Value::Long(1), function()]);
    for handler in [owner(), owner()] {
        handler.serve_caller();
        authors.read(sym("kept"), Some(&kept), &handler);
        assert!(authors.check(sym("kept"), handler.caller().remote).is_ok());
        authors.note(sym("kept"), &kept, &handler);
    }
    assert!(authors.check(sym("kept"), true).is_err(), "a client may not replace it");
    // What is kept beside them is still the caller's.
    let timer = owner();
    authors.read(sym("kept"), Some(&kept), &timer);
    timer.make_code(Made::Other).expect("no restricted user");
    assert!(timer.caller().remote);
    // A handler that has lost its rights keeps nothing of the owner's.
    authors.note(sym("kept"), &kept, &timer);
    let next = owner();
    authors.read(sym("kept"), Some(&kept), &next);
    assert!(next.caller().remote && authors.check(sym("kept"), true).is_ok());
}

#[test]
fn a_function_in_a_clients_response_lowers_the_rights() {
    let handler = owner();
    handler.received(&Value::Long(1));
    assert!(!handler.caller().remote);
    handler.make_code(Made::Other).expect("no restricted user");
    assert!(handler.caller().remote, "data of the response may be evaluated as text");
    let (mut authors, handler) = (Authors::default(), owner());
    handler.received(&function());
    assert!(handler.caller().remote);
    // What it stores is the caller's.
    authors.note(sym("kept"), &function(), &handler);
    let timer = owner();
    authors.read(sym("kept"), Some(&function()), &timer);
    assert!(timer.caller().remote);
}

/// A global without a function at the first evaluation may hold a client's function at the second.
#[test]
fn a_second_run_searches_again() {
    let (mut authors, timer) = (Authors::default(), owner());
    authors.note(sym("job"), &Value::Long(1), &client());
    authors.read(sym("job"), Some(&Value::Long(1)), &timer);
    timer.again();
    authors.note(sym("job"), &function(), &client());
    authors.read(sym("job"), Some(&function()), &timer);
    assert!(timer.caller().remote);
}

#[test]
fn a_callers_text_lowers_the_rights_once_it_is_code() {
    let (mut authors, asking) = (Authors::default(), owner());
    let text = Value::chars(&b"text"[..]);
    authors.note(sym("job"), &text, &client());
    let code = |asking: &Asking| asking.make_code(Made::Other).expect("no restricted user");
    code(&asking);
    assert!(!asking.caller().remote, "nothing of a client has been read");
    authors.read(sym("job"), Some(&text), &asking);
    asking.make_code(Made::Value(&text)).expect("no restricted user");
    assert!(!asking.caller().remote, "text is no function");
    code(&asking);
    assert!(asking.caller().remote && asking.caller().grants.files);
    asking.raise();
    code(&asking);
    assert!(!asking.caller().remote, "another evaluation");
}

fn restricted(user: &str) -> Asking {
    Asking::of_restricted(Caller { remote: true, user: user.into(), ..Caller::default() })
}

fn named(user: &str) -> Asking {
    Asking::new(Caller { remote: true, user: user.into(), ..Caller::default() }, Grants::default())
}

#[test]
fn what_a_restricted_user_has_written_is_code_for_that_user_only() {
    let mut authors = Authors::default();
    let text = Value::chars(&b"text"[..]);
    authors.note(sym("job"), &text, &restricted("bob"));
    for (asking, runs) in [(restricted("bob"), true), (named("ann"), false), (owner(), false)] {
        authors.read(sym("job"), Some(&text), &asking);
        assert!(asking.make_code(Made::Value(&text)).is_ok(), "text is no function");
        assert_eq!(asking.make_code(Made::Text(b"text")).is_ok(), runs);
    }
    // The evaluation's own message is its own.
    let asking = named("ann");
    asking.begin(&Value::chars(&b"1+1"[..]));
    authors.read(sym("job"), Some(&text), &asking);
    assert!(asking.make_code(Made::Text(b"2+2")).is_err() && asking.make_code(Made::Text(b"1+1")).is_ok());
    // The owner's `.z.pg` has read a variable that a restricted user wrote; it may still evaluate the text that its own caller sent.
    assert!(asking.make_code(Made::Text(b"2+2")).is_ok());
    authors.read(sym("job"), Some(&text), &asking);
    // A copy is no more anybody's.
    authors.note(sym("copy"), &text, &asking);
    let next = named("ann");
    authors.read(sym("copy"), Some(&text), &next);
    assert!(next.make_code(Made::Other).is_err());
    assert!(!authors.is_of(sym("copy"), b"ann") && !authors.is_of(sym("copy"), b"bob"));
}

#[test]
fn a_value_with_parts_of_others_is_nobodys() {
    let mut authors = Authors::default();
    authors.note(sym("log"), &Value::Long(1), &owner());
    authors.start();
    authors.note_change(sym("log"), &restricted("bob"));
    assert!(authors.is_of(sym("log"), b"bob") && !authors.is_of(sym("log"), b"cat"));
    authors.note_change(sym("log"), &restricted("cat"));
    assert!(!authors.is_of(sym("log"), b"bob") && !authors.is_of(sym("log"), b"cat"));
    // Also with parts of the owner's later events.
    authors.note(sym("mine"), &Value::Long(1), &restricted("bob"));
    authors.note_change(sym("mine"), &owner());
    assert!(!authors.is_of(sym("mine"), b"bob"));
}

#[test]
fn names_of_the_start_up_files_stay_the_owners() {
    let mut authors = Authors::default();
    authors.note(sym("n"), &Value::Long(1), &owner());
    authors.note(sym(".app.f"), &Value::Long(1), &owner());
    authors.start();
    authors.note(sym("later"), &Value::Long(1), &owner());
    authors.note(sym("n"), &Value::Long(2), &named("ann"));
    for name in ["n", "n.time", ".app.f", ".app.g", ".app.sub.g", ".app", "later"] {
        assert!(authors.is_owners(sym(name)), "{name}");
    }
    for name in ["m", "m.n", ".apps.f", "app"] {
        assert!(!authors.is_owners(sym(name)), "{name}");
    }
}

#[test]
fn what_an_evaluation_assigns_after_reading_a_callers_value_is_the_callers() {
    let (mut authors, asking) = (Authors::default(), owner());
    authors.note(sym("job"), &Value::Long(1), &client());
    authors.read(sym("job"), None, &asking);
    authors.note(sym("copy"), &Value::Long(1), &asking);
    let next = owner();
    authors.read(sym("copy"), None, &next);
    next.make_code(Made::Other).expect("no restricted user");
    assert!(next.caller().remote);
    // A later assignment that has read nothing of clients makes it the owner's again.
    authors.note(sym("copy"), &Value::Long(1), &owner());
    let last = owner();
    authors.read(sym("copy"), None, &last);
    last.make_code(Made::Other).expect("no restricted user");
    assert!(!last.caller().remote);
}
