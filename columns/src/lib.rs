//! Building blocks of an in-memory column store, without a language or a server: memory that columns grow in (`sys`),
//! loops over slices (`kernel`), and symbols, vectors, values, schemas and tables (`table`).

#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]

#[allow(unsafe_code)]
pub mod kernel;
#[allow(unsafe_code)]
pub mod sys;
pub mod table;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
