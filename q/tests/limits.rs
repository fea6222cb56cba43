//! Resource limits of expressions: memory is charged to the budget before it is allocated.

use columns::sys::allocated;
use columns::table::Value;
use elastick_q::session::Session;
use elastick_q::{Console, Limits, eval_text, show, to_wire};
use std::time::{Duration, Instant};

/// Tolerance: unpacking a charged result into a list of typed items is not charged again.
const SLACK_BYTES: i64 = 1 << 19;

/// Returns a session with the definitions of `huge.txt`.
fn named(definitions: &str) -> Session {
    let mut session = Session::new();
    for line in definitions.lines() {
        eval_text(&mut session, line.as_bytes(), &Limits::default()).expect("a definition");
    }
    session
}

/// Returns the outcome of an expression whose result is also sent and shown, and the peak memory in bytes.
fn outcome(session: &mut Session, text: &str, limits: &Limits) -> (String, i64) {
    let before = allocated::start_peak();
    let sent = |value: Value| {
        limits.within(|| {
            show(&value, &Console::default());
            let mut bytes = Vec::new();
            let mut writer = proto::Writer::new(&mut bytes);
            let put = to_wire(&value, &mut writer);
            writer.finish().ok();
            put
        })
    };
    let ended = match eval_text(session, text.as_bytes(), limits).and_then(sent) {
        Ok(()) => "ok".to_owned(),
        Err(error) => String::from_utf8_lossy(&error.name).into_owned(),
    };
    (ended, allocated::peak_bytes() - before)
}

/// Returns the definitions, and the expressions with their permitted outcomes.
fn huge() -> (String, Vec<(String, String)>) {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/huge.txt");
    let text = std::fs::read_to_string(file).expect("tests/huge.txt");
    let lines = || text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    let definitions: Vec<&str> = lines().filter_map(|l| l.strip_prefix("define ")).collect();
    let told =
        lines().filter(|l| !l.starts_with("define ")).map(|l| l.split_once(' ').expect("a name and an expression"));
    (definitions.join("\n"), told.map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
}

#[test]
fn endless_evaluations_are_stopped_wherever_limits_are_checked() {
    // Limits are checked every so many steps; the prefix shifts the checks to each position in an iteration.
    for steps in 0..64 {
        let text = format!("raze {steps}#enlist 0 0;{{x%2}}/[{{5n>1}};100]");
        let limits = Limits { deadline: Some(Instant::now() + Duration::from_millis(20)), ..Limits::default() };
        let ended = eval_text(&mut Session::new(), text.as_bytes(), &limits).map_err(|error| error.name);
        assert_eq!(String::from_utf8_lossy(&ended.unwrap_err()), "stop", "{text}");
    }
}

#[test]
fn huge_results_fail_before_they_are_allocated() {
    const MEMORY_BYTES: u64 = 1 << 20;
    let (definitions, expressions) = huge();
    let mut session = named(&definitions);
    let mut wrong = Vec::new();
    for (wanted, text) in &expressions {
        // Only endless expressions get a short deadline: all others must finish, also on a busy machine.
        let time = if wanted.starts_with("stop") { Duration::from_millis(100) } else { Duration::from_secs(60) };
        let limits = Limits { deadline: Some(Instant::now() + time), memory_bytes: MEMORY_BYTES, ..Limits::default() };
        let (ended, held) = outcome(&mut session, text, &limits);
        if !wanted.split('|').any(|name| name == ended) || held > MEMORY_BYTES as i64 + SLACK_BYTES {
            wrong.push(format!("{text}: {ended}, not {wanted}; {held} bytes"));
        }
    }
    assert!(expressions.len() >= 80, "{}", expressions.len());
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), expressions.len(), wrong.join("\n"));
}

#[test]
fn long_loops_over_names_text_and_deals_are_stopped() {
    const NAMES: usize = 200_000;
    let mut session = named("wide:flip(`$\"c\",/:string til 200000)!200000#enlist 1 2\nnames:cols wide");
    let many = |before: &str, part: &dyn Fn(usize) -> String, behind: &str| {
        let all: Vec<String> = (0..NAMES).map(part).collect();
        format!("{before}{}{behind}", all.join(";"))
    };
    let expressions = [
        "wide,wide",
        "wide lj `c0 xkey wide",
        "wide uj wide",
        "(reverse names)xcols wide",
        "names xasc wide",
        "wide reverse names",
        "?[wide;();0b;names!names]",
        "![wide;();0b;names!names]",
        "![wide;();0b;reverse names]",
        "wide upsert wide",
        ".Q.id wide",
        "(reverse names)_wide",
        "(names!reverse names)xcol wide",
        "-2000000?2000000",
    ]
    .map(str::to_owned);
    let texts = [
        many("", &|i| format!("g{i}:1"), ""),
        many("{", &|i| format!("g{i}::1"), "}"),
        many("", &|_| "1+1".to_owned(), ""),
        many("(", &|_| "1+1".to_owned(), ")"),
        many("{", &|_| "x+1".to_owned(), "}"),
    ];
    let mut wrong = Vec::new();
    for text in expressions.iter().chain(&texts) {
        let limits = Limits { deadline: Some(Instant::now() + Duration::from_millis(5)), ..Limits::default() };
        let ended = eval_text(&mut session, text.as_bytes(), &limits).map_err(|error| error.name);
        if !matches!(&ended, Err(name) if name.as_ref() == b"stop") {
            wrong.push(text.chars().take(60).collect::<String>());
        }
    }
    assert!(wrong.is_empty(), "not stopped: {wrong:?}");
    // Too many locals: rejected when parsed, whatever the limits.
    let locals = many("{", &|i| format!("l{i}:1"), "}");
    let ended = eval_text(&mut session, locals.as_bytes(), &Limits::default()).map_err(|error| error.name);
    assert_eq!(String::from_utf8_lossy(&ended.unwrap_err()), "locals");
}
