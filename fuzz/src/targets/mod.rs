//! What is fuzzed: functions that take any bytes and must come back, having checked what ought to hold of the answer.
//!
//! The fuzzer's binary drives them with coverage; `tests/fuzz` of elastick runs them over the committed corpus, so that what was
//! once found stays found, with any compiler and without the fuzzer. Both have the modules `answer`, `named` and `ways`.

mod config;
mod journal;
mod log;
mod memory;
mod publish;
mod q;
mod stream;
mod web;
mod wire;

/// Takes any bytes; panics where something does not hold.
pub type Check = fn(&[u8]);

/// Every target and its name, which is also that of its corpus.
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

/// Bounds like a process's, but small, so that the fuzzer meets them.
fn limits() -> proto::Limits {
    proto::Limits { max_message_bytes: 16 << 10, max_decompressed_bytes: 64 << 10, ..proto::Limits::default() }
}
