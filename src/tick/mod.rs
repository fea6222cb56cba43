//! The tickerplant: receives updates, logs them, publishes them to subscribers, and runs the queue of RDB nodes.

pub mod catchup;
pub mod clock;
pub mod core;
pub mod day;
pub mod evaluation;
pub mod feed;
pub mod filter;
mod gate;
pub mod globals;
pub mod host;
pub mod journal;
pub mod lane;
pub mod logged_schema;
pub mod merge;
pub mod plant;
pub mod program;
pub mod quarantine;
pub mod query;
pub mod record;
pub mod schema_file;
pub mod sends;
pub mod service;
mod space;
pub mod subscriptions;
pub mod verify;
pub mod worker;
