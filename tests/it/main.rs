//! Real processes of the binary, on ports that the system chooses, in directories that are removed.

mod day_end;
mod demo_day;
mod demo_feed;
mod demo_fleet;
mod fake_tickerplant;
mod harness;
mod huge;
mod log_tools;
mod metrics;
mod names;
mod node_handles;
mod node_program;
mod node_web;
mod notify;
mod q_session;
mod rdb_foreign;
mod rdb_native;
mod rdb_process;
mod rdb_support;
mod remote_rights;
mod starting;
mod tick_feed;
mod tick_nodes;
mod tick_program;
mod tick_restored;
mod tick_support;
