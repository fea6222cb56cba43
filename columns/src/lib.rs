//! What a column store is made of, without a language or a server on top: memory that columns grow in (`sys`), loops
//! over vectors (`kernel`), and symbols, vectors, values, schemas and tables (`table`).

#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod kernel;
#[allow(unsafe_code)]
pub mod sys;
pub mod table;

/// The example of the README runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
