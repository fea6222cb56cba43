//! Operations that are a single evaluation step but may run long check their limits themselves.

use crate::process::session::Session;
use crate::{Limits, eval_text};
use columns::sys::interrupt::Cancel;
use std::time::{Duration, Instant};

fn error(text: &str, limits: &Limits) -> String {
    match eval_text(&mut Session::new(), text.as_bytes(), limits) {
        Ok(_) => "none".to_string(),
        Err(error) => String::from_utf8_lossy(&error.name).into_owned(),
    }
}

#[test]
fn rejections_for_nesting_are_counted() {
    for text in ["{enlist x}/[5000;1]", &format!("{}1{}", "(".repeat(2_000), ")".repeat(2_000))] {
        let before = crate::runtime::refused::too_deep();
        assert_eq!(error(text, &Limits::default()), "limit", "{text:.40}");
        assert!(crate::runtime::refused::too_deep() > before, "{text:.40}");
    }
}

#[test]
fn long_operations_look_at_the_clock() {
    for text in [
        "(100000#\"a\") ss \"b\"",
        "ssr[1000#\"a\";\"a\";\"b\"]",
        "(100 100#1f) mmu 100 100#1f",
        "inv \"f\"$(til 100)=/:til 100",
        "(til 500) cross til 500",
        "{x} each til 100",
        "{x+1}/[1000;0]",
        "do[1000;1]",
    ] {
        // The deadline has passed already: only an operation that checks it returns an error.
        let limits = Limits { deadline: Some(Instant::now()), ..Limits::default() };
        assert_eq!(error(text, &limits), "stop", "{text}");
    }
}

#[test]
fn a_cpu_budget_does_not_count_time_of_other_processes() {
    let deadline = Some(Instant::now());
    let never = Limits { deadline, processor_time: Some(Duration::MAX), ..Limits::default() };
    assert_eq!(error("do[1000;1]", &never), "none");
    let used = Limits { deadline, processor_time: Some(Duration::ZERO), ..Limits::default() };
    assert_eq!(error("do[1000;1]", &used), "stop");
}

#[test]
fn an_evaluation_stops_once_another_thread_cancels_it() {
    for text in ["while[1b;]", "{while[1b;x+:1]}0", "do[1000000000;sum til 1000]", "{x+1}/[{1b};0]"] {
        let limits = Limits { cancel: Some(Cancel::default()), ..Limits::default() };
        let cancel = limits.cancel.clone().expect("a flag");
        std::thread::scope(|threads| {
            let evaluating = threads.spawn(|| error(text, &limits));
            cancel.set();
            assert_eq!(evaluating.join().expect("no panic"), "stop", "{text}");
        });
        assert_eq!(error("1+1", &Limits::default()), "none", "the next evaluation of the thread");
    }
}

#[test]
fn an_update_that_does_not_fit_is_not_started() {
    let limits = Limits { memory_bytes: 1 << 20, ..Limits::default() };
    for text in [
        "til 0W",
        "0W#1",
        "0W#`a`b",
        "1000000?10",
        "where 1000000000000 1",
        "100000 100000#0",
        "(til 10000) cross til 10000",
        "\",\" sv 1000#enlist 10000#\"a\"",
        "flip 1000#enlist 10000#\"a\"",
        "{x,x}/[100;1 2]",
        "1000000000000#enlist 1",
    ] {
        assert_eq!(error(text, &limits), "wsfull", "{text}");
    }
}
