//! Entry point of the fuzzer: `ELASTICK_FUZZ_TARGET` names the target; libFuzzer takes the command line.
#![no_main]

#[allow(dead_code, reason = "the tests use all of it")]
#[path = "../../tests/fuzz/answer.rs"]
mod answer;
#[path = "../../tests/fuzz/named.rs"]
mod named;
mod targets;
#[allow(dead_code, reason = "the tests use all of it")]
#[path = "../../tests/fuzz/ways.rs"]
mod ways;

use std::sync::OnceLock;
use targets::{ALL, Check};

static TARGET: OnceLock<Check> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        elastick::metrics::bugs::make_fatal();
        let name = std::env::var("ELASTICK_FUZZ_TARGET").unwrap_or_default();
        let Some((_, check)) = ALL.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
            eprintln!("ELASTICK_FUZZ_TARGET is {name:?}; it must be one of {}", known.join(", "));
            std::process::exit(2);
        };
        TARGET.get_or_init(|| *check);
    },
    |bytes: &[u8]| {
        if let Some(check) = TARGET.get() {
            check(bytes);
        }
    }
);
