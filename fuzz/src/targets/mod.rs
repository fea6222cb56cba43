//! Fuzz targets: functions that take arbitrary bytes, return in bounded time, and check the invariants of the result.
//!
//! The fuzzer's binary runs them with coverage feedback. `tests/fuzz` of elastick runs them over the committed corpus, as regression tests
//! that need no fuzzer and work with any compiler. Both include the modules `answer`, `named` and `ways`.

mod config;
mod journal;
mod log;
mod memory;
mod publish;
mod q;
mod stream;
mod web;
mod wire;

/// A target: takes arbitrary bytes and panics if an invariant is violated.
pub type Check = fn(&[u8]);

/// Every target with its name, which is also the name of its corpus.
pub const ALL: [(&str, Check); 12] = [
    ("codec", wire::codec),
    ("decompress", wire::decompress),
    ("stream", stream::stream),
    ("http", web::http),
    ("websocket", web::websocket),
    ("publish", publish::publish),
    ("log", log::log),
    ("journal", journal::journal),
    ("q", q::q),
    ("message", q::message),
    ("config", config::config),
    ("schema", config::schema),
];

/// Limits like those of a process, but small enough for the fuzzer to reach.
fn limits() -> proto::Limits {
    proto::Limits { max_message_bytes: 16 << 10, max_decompressed_bytes: 64 << 10, ..proto::Limits::default() }
}
