//! The kdb+ inter-process format: messages, serialised objects, compression, login, and the records of a tickerplant
//! log.
//!
//! The crate does no I/O, starts no thread, and holds no `unsafe`. Everything that reads takes bytes from an untrusted
//! peer or file: it answers with a typed error that names the byte offset, never panics, and allocates no more than
//! the input and [`Limits`] justify.
//!
//! | module | job |
//! |---|---|
//! | [`time`] | the epoch and the length of a day |
//! | [`types`] | type codes, widths, nulls and infinities |
//! | [`header`] | the eight bytes before a message |
//! | [`head`] | the six bytes before the items of a vector or list |
//! | [`walk`] | step over an object and check its structure, without decoding |
//! | [`view`] | borrowed reading of one object, either byte order |
//! | [`value`], [`decode`], [`encode`] | owned objects, from and to bytes |
//! | [`compress`] | kdb+'s message compression, bit for bit |
//! | [`handshake`] | what both sides say before the first message |
//! | [`frame`] | a byte stream cut into messages, with bounded memory |
//! | [`log`] | a tickerplant log cut into records |
//!
//! Symbols and strings are bytes throughout; nothing here assumes UTF-8.
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
pub use frame::FrameReader;
pub use head::{HEAD_BYTES, Head};
pub use header::{Compression, Endian, HEADER_BYTES, Header, MessageKind};
pub use item::Item;
pub use limits::{DEEPEST, Limits};
pub use value::{Items, Value};
pub use view::View;
pub use writer::Writer;

/// The example of the README runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
