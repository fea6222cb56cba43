//! Evaluates one expression within limits and under a watchdog, and checks that its result can be used.

use elastick::q::session::Session;
use elastick::q::{Console, Host, Limits, eval_text, from_view, one_line, show, to_wire};
use elastick::table::function::Function;
use elastick::table::{Attr, Items, Sym, Value, Vector, symbol};
use std::collections::HashMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Limits of one expression.
const TIME: Duration = Duration::from_millis(300);
pub const MEMORY_BYTES: u64 = 64 << 20;
/// An expression that takes this long has evaded its time limit; a busy machine alone does not explain minutes.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// The expression under evaluation on each thread, with its start.
static RUNNING: Mutex<Option<HashMap<ThreadId, Begun>>> = Mutex::new(None);

/// Start of evaluation, and the text.
type Begun = (Instant, Vec<u8>);

/// Guard of an expression under evaluation on this thread; the watchdog reports it if it does not end.
pub struct Running;

impl Running {
    pub fn note(text: &[u8]) -> Running {
        watch();
        note(Some(text));
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        note(None);
    }
}

/// Starts the watchdog, which aborts the process if an expression does not end.
fn watch() {
    static WATCHER: Once = Once::new();
    WATCHER.call_once(|| {
        thread::spawn(|| {
            loop {
                thread::park_timeout(Duration::from_secs(1));
                let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
                for (since, text) in running.iter().flat_map(HashMap::values) {
                    if since.elapsed() > HANGS_AFTER {
                        // Not by a macro: the test harness would capture its output.
                        let told = [b"does not end: ", &text[..], b"\n"].concat();
                        std::io::stderr().write_all(&told).ok();
                        std::process::abort();
                    }
                }
            }
        });
    });
}

fn note(text: Option<&[u8]>) {
    if let (Some(text), Ok(file)) = (text, std::env::var("ELASTICK_FUZZ_LAST")) {
        let file = format!("{file}.{:?}", thread::current().id());
        std::fs::File::create(file).and_then(|mut f| f.write_all(text)).expect("a file for the last expression");
    }
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let all = running.get_or_insert_default();
    match text {
        Some(text) => all.insert(thread::current().id(), (Instant::now(), text.to_vec())),
        None => all.remove(&thread::current().id()),
    };
}

/// Evaluates a text with these globals; appends any fault to `wrong`.
pub fn check(globals: &[(Sym, Value)], text: &[u8], wrong: &mut Vec<String>) {
    let _running = Running::note(text);
    if let Some(what) = fault(globals, text) {
        let least = shrunk(text, |shorter| fault(globals, shorter).is_some());
        wrong.push(format!("{what}: {}\n  of {}", String::from_utf8_lossy(&least), String::from_utf8_lossy(text)));
    }
}

pub fn finish(seed: u64, wrong: &[String]) {
    assert!(wrong.is_empty(), "seed {seed}: {} expressions\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the text without as many bytes as can be removed while the fault stays.
pub fn shrunk(text: &[u8], is_wrong: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut least = text.to_vec();
    if least.len() > 3000 {
        return least;
    }
    let mut width = (least.len() / 2).max(1);
    while width > 0 {
        let mut at = 0;
        while at < least.len() {
            let end = (at + width).min(least.len());
            let shorter = [&least[..at], &least[end..]].concat();
            if is_wrong(&shorter) {
                least = shorter;
            } else {
                at += width;
            }
        }
        width /= 2;
    }
    least
}

fn fault(globals: &[(Sym, Value)], text: &[u8]) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| answer(globals, text))) {
        Ok(told) => told.err(),
        Err(_) => Some("panics".into()),
    }
}

/// Returns the limits of one expression, from now on.
pub fn limits() -> Limits {
    Limits { deadline: Some(Instant::now() + TIME), memory_bytes: MEMORY_BYTES, ..Limits::default() }
}

/// Returns a session with these globals. It is no console: generated text must not reach files or the system.
pub fn session(globals: &[(Sym, Value)]) -> Session {
    let mut session = Session::new();
    for (name, value) in globals {
        session.assign(*name, value.clone()).expect("a global");
    }
    session
}

/// Evaluates a text with these globals and checks its result. Returns the fault found.
pub fn answer(globals: &[(Sym, Value)], text: &[u8]) -> Result<(), String> {
    let limits = limits();
    match eval_text(&mut session(globals), text, &limits) {
        Ok(value) => usable(&value, &limits).and_then(|()| readable(&value)),
        Err(_) => Ok(()),
    }
}

/// Checks that a value can be shown, sent and read back.
pub fn usable(value: &Value, limits: &Limits) -> Result<(), String> {
    limits.within(|| {
        show(value, &Console::default());
        one_line(value);
    });
    // A value too large to send is too large to walk.
    if let Some(bytes) = limits.within(|| bytes_of(value)) {
        let read = |bytes: &[u8]| {
            let (view, _) = proto::View::parse(bytes, proto::Endian::Little, &proto::Limits::default())
                .map_err(|e| format!("is not read ({e})"))?;
            from_view(&view).map_err(|e| format!("is not read ({e})"))
        };
        let back = read(&bytes)?;
        let sent = bytes_of(&back);
        if sent.as_ref() != Some(&bytes) {
            // A list of atoms of one type is read as a vector, which takes fewer bytes and is read as it is.
            let stays = match &sent {
                Some(sent) => sent.len() < bytes.len() && bytes_of(&read(sent)?).as_ref() == Some(sent),
                None => false,
            };
            if !stays {
                return Err(format!("comes back as {}", String::from_utf8_lossy(&one_line(&back))));
            }
            return Ok(());
        }
        if plain(value) && show(&back, &Console::default()) != show(value, &Console::default()) {
            return Err(format!("shows differently when it comes back, {}", String::from_utf8_lossy(&one_line(&back))));
        }
    }
    Ok(())
}

/// Checks that a value's text in q syntax is read back as the same value.
fn readable(value: &Value) -> Result<(), String> {
    let Some(bytes) = limits().within(|| bytes_of(value)) else { return Ok(()) };
    // Skips the text of millions of items, which takes too long. A small value may be one list repeated many times, with too many items to
    // visit.
    if bytes.len() >= 1 << 18 || !literal(value) {
        return Ok(());
    }
    let text = one_line(value);
    let again = eval_text(&mut Session::new(), &text, &Limits::default());
    if again.as_ref().ok().and_then(bytes_of).as_ref() == Some(&bytes) {
        return Ok(());
    }
    Err(format!("its text {} gives {again:?}", String::from_utf8_lossy(&text)))
}

fn bytes_of(value: &Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = proto::Writer::new(&mut bytes);
    let put = to_wire(value, &mut writer).is_ok();
    // Evaluate both: the writer must be finished in any case.
    (writer.finish().is_ok() & put).then_some(bytes)
}

/// Returns whether a value is plain data. Enumerations travel as their symbols, and functions without a code as lambdas.
fn plain(value: &Value) -> bool {
    match value {
        Value::Enum(..) | Value::Link(..) | Value::Func(_) => false,
        Value::Vector(Vector { items, attr }) => match items {
            Items::Enum(..) | Items::Link(..) => false,
            // Attributes of general lists are not sent.
            Items::List(_) if *attr != Attr::None => false,
            Items::List(all) => all.iter().all(plain),
            _ => true,
        },
        Value::Dict(d) => plain(&d.keys) && plain(&d.values),
        Value::Table(t) => t.columns.iter().all(|c| plain(&Value::Vector(c.clone()))),
        _ => true,
    }
}

/// Returns whether `.Q.s1` writes this value as q reads it: atoms and vectors of one type in the usual range, and lists of them. Floats
/// lose digits, lists of one item are written with a comma, and symbols may hold any byte.
fn literal(value: &Value) -> bool {
    let simple_symbol = |s: &Sym| symbol::text(*s).iter().all(u8::is_ascii_alphanumeric);
    // Times are read in nanoseconds, which hold no more than two million hours.
    let on_a_clock = |minutes: &i32| !(150_000_000..i32::MAX).contains(&minutes.saturating_abs());
    match value {
        Value::Bool(_) | Value::Byte(_) | Value::Short(_) | Value::Int(_) | Value::Long(_) | Value::Char(_) => true,
        Value::Minute(minutes) => on_a_clock(minutes),
        Value::Second(_) | Value::Time(_) | Value::Timespan(_) | Value::Timestamp(_) => true,
        Value::Sym(s) => simple_symbol(s),
        Value::Vector(v) if v.len() == 1 => false,
        Value::Vector(Vector { items, .. }) => match items {
            Items::Bool(_) | Items::Byte(_) | Items::Short(_) | Items::Int(_) | Items::Long(_) | Items::Char(_) => true,
            Items::Minute(all) => all.iter().all(on_a_clock),
            Items::Second(_) | Items::Time(_) | Items::Timespan(_) | Items::Timestamp(_) => true,
            Items::Sym(all) => all.iter().all(simple_symbol),
            // A parse tree may hold a list where q would read a vector.
            Items::List(all) => all.iter().all(literal) && Items::collapse(all.to_vec()).is_err(),
            _ => false,
        },
        Value::Func(f) => match &**f {
            // The text omits the namespace, and that the lambda is k.
            Function::Lambda(lambda) => lambda.namespace == Sym::NULL && lambda.source.starts_with(b"{"),
            _ => false,
        },
        _ => false,
    }
}
