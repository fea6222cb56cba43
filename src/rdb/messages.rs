//! What node and tickerplant say to each other besides updates: elastick's own protocol, the paper's, and stock kdb+tick's.
//! `ARCHITECTURE.md` section 4 has the table.

mod asks;
mod told;

pub use asks::*;
pub use told::*;
