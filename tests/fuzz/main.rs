//! Fuzz tests of the evaluator with random expressions, from a grammar and from mutated case files, and of all fuzz targets with the
//! committed corpus (`corpus`). For every input the evaluator returns a value or an error in time, and the value can be shown, sent and
//! read back.
//!
//! - `ELASTICK_FUZZ_RUNS`: number of expressions per test.
//! - `ELASTICK_FUZZ_SECONDS`: duration of each test instead.
//! - `ELASTICK_FUZZ_SEED`: seed.
//! - `ELASTICK_FUZZ_LAST`: file that keeps the expression under evaluation, for crashes without a message.

mod answer;
mod corpus;
mod grammar;
mod mutate;
mod named;
mod rounds;
#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;
mod ways;

use answer::{check, finish};
use elastick::q::session::Session;
use elastick::q::{Limits, eval_text};
use elastick::table::{Sym, Value};
use named::{kept, named};
use rounds::{Rounds, seed};
use std::fs;
use std::path::PathBuf;

/// Runs `work` on a stack sized for unoptimised code, whose frames are several times those of a release: values that nest 512 or 1,000
/// levels must reach those limits and not the end of the stack.
fn on_a_thread_of_ours(work: fn()) {
    use elastick::sys::stack;
    const RECURSION_BYTES: usize = 32 << 20;
    let thread = stack::thread_that_allows("lines".into(), RECURSION_BYTES).spawn(move || {
        stack::allow(RECURSION_BYTES);
        work();
    });
    let thread = thread.expect("a thread");
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn lines_of_the_grammar_end_in_a_value_or_an_error() {
    on_a_thread_of_ours(lines_of_the_grammar);
}

#[test]
fn deep_or_long_evaluations_end_in_a_value_or_an_error() {
    on_a_thread_of_ours(nested_lines);
}

fn nested_lines() {
    let (seed, grammar, globals) = (seed(), grammar::Grammar::read(), kept(&named()));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut wrong = Vec::new();
    for _ in Rounds::of("nested lines", 400) {
        let line = grammar.nested_line(&mut random);
        check(&globals, line.as_bytes(), &mut wrong);
    }
    finish(seed, &wrong);
}

fn lines_of_the_grammar() {
    let (seed, grammar, globals) = (seed(), grammar::Grammar::read(), kept(&named()));
    let mut random = fastrand::Rng::with_seed(seed);
    let mut wrong = Vec::new();
    for _ in Rounds::of("lines", 12_000) {
        let depth = random.usize(1..7);
        let line = grammar.line(&mut random, depth);
        check(&globals, line.as_bytes(), &mut wrong);
    }
    finish(seed, &wrong);
}

/// Globals by name.
type Globals = Vec<(Sym, Value)>;

/// The expressions of a file, and the globals defined before each.
type Cases = (Vec<String>, Vec<Globals>);

/// Returns the expressions of the case files, and the globals defined before each.
fn cases() -> Vec<Cases> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("q/tests/cases");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).expect("q/tests/cases").map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "test"));
    files.sort();
    let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
    files
        .iter()
        .map(|file| {
            let text = fs::read_to_string(file).expect("readable cases");
            let is_case = |l: &&str| !["#", "->", "!!"].iter().any(|s| l.starts_with(s)) && !l.trim().is_empty();
            let lines: Vec<String> = text.lines().filter(is_case).map(str::to_owned).collect();
            let mut session = Session::new();
            let mut globals = Vec::new();
            for line in &lines {
                globals.push(kept(&session));
                eval_text(&mut session, line.as_bytes(), &limits).ok();
            }
            (lines, globals)
        })
        .collect()
}

#[test]
fn cases_with_something_amiss_end_in_a_value_or_an_error() {
    let (seed, files) = (seed(), cases());
    let mut random = fastrand::Rng::with_seed(seed ^ 1);
    let mut wrong = Vec::new();
    for _ in Rounds::of("cases", 12_000) {
        let (globals, line) = case_with_something_amiss(&files, &mut random);
        check(globals, line.as_bytes(), &mut wrong);
    }
    finish(seed, &wrong);
}

fn case_with_something_amiss<'a>(files: &'a [Cases], random: &mut fastrand::Rng) -> (&'a Globals, String) {
    let (lines, globals) = &files[random.usize(0..files.len())];
    let at = random.usize(0..lines.len());
    // Tokens come mostly from the same file, whose names are defined.
    let (others, _) = if random.u8(0..4) > 0 { &files[random.usize(0..files.len())] } else { &files[0] };
    let other = &if random.bool() { lines } else { others }[..];
    let other = &other[random.usize(0..other.len())];
    (&globals[at], mutate::mutant(&mutate::tokens(&lines[at]), &mutate::tokens(other), random))
}

#[test]
fn all_ways_of_evaluation_agree() {
    let (seed, grammar, files, globals) = (seed(), grammar::Grammar::read(), cases(), kept(&named()));
    let mut random = fastrand::Rng::with_seed(seed ^ 3);
    let mut wrong = Vec::new();
    for _ in Rounds::of("ways", 2_000) {
        if random.bool() {
            let depth = random.usize(1..7);
            ways::compare(&globals, grammar.line(&mut random, depth).as_bytes(), &mut wrong);
        } else {
            let (globals, line) = case_with_something_amiss(&files, &mut random);
            ways::compare(globals, line.as_bytes(), &mut wrong);
        }
    }
    finish(seed, &wrong);
}

#[test]
fn bytes_that_no_one_typed_end_in_a_value_or_an_error() {
    let (seed, files, globals) = (seed(), cases(), kept(&named()));
    let mut random = fastrand::Rng::with_seed(seed ^ 2);
    let mut wrong = Vec::new();
    for _ in Rounds::of("bytes", 6_000) {
        let (lines, _) = &files[random.usize(0..files.len())];
        let text = mutate::garbage(&lines[random.usize(0..lines.len())], &mut random);
        check(&globals, &text, &mut wrong);
    }
    finish(seed, &wrong);
}

#[test]
fn depth_and_size_are_errors_and_not_crashes() {
    let deep = 200_000;
    let mut wrong = Vec::new();
    for text in [
        "(".repeat(deep),
        format!("{}1{}", "(".repeat(deep), ")".repeat(deep)),
        "1+".repeat(deep) + "1",
        "{".repeat(deep),
        "x[".repeat(deep),
        "neg ".repeat(deep) + "1",
        "1,".repeat(deep) + "1",
        "(1;".repeat(deep) + "1" + &")".repeat(deep),
        "+/".repeat(deep),
        "\"".to_owned() + &"\\\"".repeat(deep),
        "`a".repeat(deep),
        "select from ".repeat(deep) + "t",
        "$[1;".repeat(deep),
        "'[".repeat(deep),
        format!(".j.k \"{}\"", "[".repeat(deep)),
        format!("parse \"{}\"", "(".repeat(deep)),
        "value over 100000#enlist\"til 5\"".to_owned(),
        "{.z.s x}1".to_owned(),
        "g:{h x};h:{g x};g 1".to_owned(),
        "x:();do[100000;x:enlist x];x".to_owned(),
        "x:();do[100000;x:enlist x];-8!x".to_owned(),
        "x:();do[100000;x:enlist x];.j.j x".to_owned(),
        "x:();do[100000;x:enlist x];raze over x".to_owned(),
        "x:();do[100000;x:enlist x];neg x".to_owned(),
        "x:();do[100000;x:enlist x];value x".to_owned(),
        "x:();do[100000;x:enlist x];eval x".to_owned(),
        "x:();do[100000;x:(x;1)];asc x".to_owned(),
        "x:{y};do[100000;x:x[;]];1".to_owned(),
        "x:neg;do[100000;x:x';1];x 1".to_owned(),
        "x:neg;do[100000;x:'[x;neg]];x 1".to_owned(),
        "x:1;do[100000;x:`a`b!(x;1)];x".to_owned(),
        "x:();do[100000;x:(x;1)];x~x".to_owned(),
        "x:();do[100000;x:(x;1)];group(x;x)".to_owned(),
        "{x,x}/[1000;til 1000]".to_owned(),
        "{x,x}/[100;\"ab\"]".to_owned(),
        "til 1000000000000".to_owned(),
        "while[1b;1]".to_owned(),
        "{1b}{x+1}/0".to_owned(),
        "{x+1}/[0W;0]".to_owned(),
        "0W rotate til 5".to_owned(),
        "1000000000 1000000000#1".to_owned(),
        "1000000000000 0#1".to_owned(),
        "1000000000?100".to_owned(),
        "(til 100000)cross til 100000".to_owned(),
        "(til 100000)+/:til 100000".to_owned(),
        "10000000000$\"a\"".to_owned(),
        "0W#\"a\"".to_owned(),
        "0W xprev til 5".to_owned(),
        "where 0W 0W".to_owned(),
        "\"a\"$til 10".to_owned(),
        "10000000 msum til 5".to_owned(),
        "1000000000 cut til 5".to_owned(),
        "(2 xexp 62)#1b".to_owned(),
        "ungroup ([]a:1 2;b:(0;til 100000000000))".to_owned(),
    ] {
        check(&[], text.as_bytes(), &mut wrong);
    }
    finish(0, &wrong);
}
