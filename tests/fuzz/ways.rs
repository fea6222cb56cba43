//! Ways to evaluate an expression: on the register VM or by walking the syntax tree, with rows in sections or at once, on one thread or
//! two. All must return the same.

use crate::answer::{Running, session, shrunk};
use elastick::q::{Limits, eval_text, one_line};
use elastick::table::{Sym, Value};
use std::time::{Duration, Instant};

/// Enough for nearly all expressions; slower ones are not compared.
const TIME: Duration = Duration::from_millis(1500);
const MEMORY_BYTES: u64 = 64 << 20;
/// Length of the result's text that is compared.
const SHOWN_BYTES: usize = 20_000;

struct Way {
    name: &'static str,
    machine: bool,
    section_rows: Option<usize>,
    threads: usize,
}

const WAYS: [Way; 4] = [
    Way { name: "walked", machine: false, section_rows: None, threads: 1 },
    Way { name: "in sections of a row", machine: true, section_rows: Some(1), threads: 1 },
    Way { name: "on two threads", machine: true, section_rows: Some(2), threads: 2 },
    Way { name: "walked on two threads", machine: false, section_rows: None, threads: 2 },
];
const USUAL: Way = Way { name: "as usual", machine: true, section_rows: None, threads: 1 };

/// Returns the result as text, or the name of the error; `None` if a limit ended the evaluation, as the ways reach it at different points.
fn told(globals: &[(Sym, Value)], text: &[u8], way: &Way, time: Duration) -> Option<String> {
    let mut session = session(globals).with_threads(way.threads);
    eval_text(&mut session, b"\\S 7", &Limits::default()).expect("a seed");
    let limits = Limits {
        deadline: Some(Instant::now() + time),
        memory_bytes: MEMORY_BYTES,
        machine: way.machine,
        section_rows: way.section_rows,
        ..Limits::default()
    };
    match eval_text(&mut session, text, &limits) {
        Ok(value) => {
            let mut line = limits.within(|| one_line(&value));
            line.truncate(SHOWN_BYTES);
            let printed = session.take_printed();
            Some(format!("{} {}", String::from_utf8_lossy(&line), String::from_utf8_lossy(&printed)))
        }
        Err(error) => match &error.name[..] {
            b"stop" | b"wsfull" | b"stack" | b"limit" => None,
            name => Some(format!("'{}", String::from_utf8_lossy(name))),
        },
    }
}

/// Splits a text into numbers and the text between them.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let is_digit = |c: u8| c.is_ascii_digit() || matches!(c, b'.' | b'e' | b'-' | b'+');
    text.as_bytes().chunk_by(move |a, b| is_digit(*a) == is_digit(*b)).map(|p| std::str::from_utf8(p).unwrap_or("?"))
}

/// Returns whether two results agree up to the last digits of floats, since the ways sum in different orders.
fn agree(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    let (mut a, mut b) = (parts(a), parts(b));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(x), Some(y)) if x == y => {}
            (Some(x), Some(y)) => match (x.parse::<f64>(), y.parse::<f64>()) {
                (Ok(x), Ok(y)) if (x - y).abs() <= 1e-5 * x.abs().max(y.abs()).max(1e-9) => {}
                _ => return false,
            },
            _ => return false,
        }
    }
}

/// Returns the difference between the ways, if there is one and all finish in time.
pub fn difference(globals: &[(Sym, Value)], text: &[u8], time: Duration) -> Option<String> {
    let told = |way| told(globals, text, way, time);
    let usual = told(&USUAL)?;
    // Helper threads have random generators of their own and neither assign nor send; .Q.fc cuts its list into as many parts as there are
    // threads.
    let has = |part: &[u8]| text.windows(part.len()).any(|w| w == part);
    let parallel = [&b"peach"[..], b"prior", b"':", b".Q.fc"].into_iter().any(has);
    // Bytes of floats include the last digits.
    let bytes = [&b"-8!"[..], b"vs"].into_iter().any(has);
    // The amount of memory to return differs between runs.
    if has(b".Q.gc") || has(b"-20!") {
        return None;
    }
    let same = |way: &&Way| (way.threads == 1 || !parallel) && (way.section_rows.is_none() || !bytes);
    WAYS.iter().filter(same).find_map(|way| {
        let other = told(way)?;
        let asks_threads = way.threads > 1 && [&b"\\"[..], b"system"].into_iter().any(has);
        if asks_threads && (&usual[..], &other[..]) == ("1i ", "2i ") {
            // The result depends on the number of threads.
            return None;
        }
        // Clock, memory in use and the like differ between runs.
        if agree(&usual, &other) || told(&USUAL)? != usual || told(way)? != other {
            return None;
        }
        Some(format!("{} {other}, {} {usual}", way.name, USUAL.name))
    })
}

/// Evaluates a text in all ways; appends any difference to `wrong`.
pub fn compare(globals: &[(Sym, Value)], text: &[u8], wrong: &mut Vec<String>) {
    let _running = Running::note(text);
    if let Some(what) = difference(globals, text, TIME) {
        let least = shrunk(text, |shorter| difference(globals, shorter, TIME).is_some());
        wrong.push(format!("{what}: {}\n  of {}", String::from_utf8_lossy(&least), String::from_utf8_lossy(text)));
    }
}
