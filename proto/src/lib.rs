//! The kdb+ IPC format: messages, serialised objects, compression, login, and the records of a tickerplant log.
//!
//! The crate does no I/O, starts no thread and contains no `unsafe`. All decoders accept untrusted bytes: they return a
//! typed error with the byte offset, never panic, and allocate no more than the input and [`Limits`] justify.
//!
//! | module | content |
//! |---|---|
//! | [`time`] | q's epoch and the length of a day |
//! | [`types`] | type codes, widths, nulls and infinities |
//! | [`header`] | the eight bytes before a message |
//! | [`head`] | the six bytes before the items of a vector or general list |
//! | [`walk`] | steps over an object and checks its structure, without decoding |
//! | [`view`] | zero-copy reading of one object, in either byte order |
//! | [`value`], [`decode`], [`encode`] | owned objects, and their conversion from and to bytes |
//! | [`compress`] | kdb+'s message compression, byte for byte |
//! | [`handshake`] | login: the bytes exchanged before the first message |
//! | [`explained`] | error responses that give a reason, for a console |
//! | [`frame`] | splits a byte stream into messages, with bounded memory |
//! | [`log`] | splits a tickerplant log into records |
//!
//! Symbols and strings are bytes throughout, not necessarily UTF-8.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::arithmetic_side_effects
    )
)]
#![warn(missing_docs)]
#![deny(rustdoc::broken_intra_doc_links, rustdoc::private_intra_doc_links)]

pub mod compress;
mod cursor;
pub mod decode;
pub mod encode;
pub mod error;
pub mod explained;
pub mod frame;
pub mod handshake;
pub mod head;
pub mod header;
mod item;
pub mod limits;
pub mod log;
pub mod time;
pub mod types;
pub mod value;
pub mod view;
pub mod walk;
mod writer;

pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use explained::Explained;
pub use frame::FrameReader;
pub use head::{HEAD_BYTES, Head};
pub use header::{Compression, Endian, HEADER_BYTES, Header, MessageKind};
pub use item::Item;
pub use limits::{DEEPEST, Limits};
pub use value::{Items, Value};
pub use view::View;
pub use writer::Writer;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
