//! What a node logs about itself at its start and at its end.

use super::options::NodeOptions;
use super::shared::State;
use crate::config::units::Scale;
use crate::metrics::health::{grouped, mebibytes};

/// Logs the memory that the node may fill, what it does at which use, and who starts the next node.
pub(super) fn log_memory(options: &NodeOptions, budget_bytes: u64, queue: &str, has_fleet: bool) {
    let whose = if options.memory_bytes.is_some() { "as configured" } else { "of this server or container" };
    let roll = options.policy.roll_percent();
    let at = |percent: f64| mebibytes((budget_bytes as f64 * percent / 100.0) as u64);
    let successor = match options.policy.scale() {
        Scale::At(scale) => format!("requests its successor at {scale} % ({})", at(scale)),
        Scale::Auto => "requests its successor in time, by fill rate and lead time".to_string(),
    };
    tracing::info!(
        "memory {}, {whose}: this node {successor} and hands the feed over at {roll} % ({})",
        mebibytes(budget_bytes),
        at(roll)
    );
    if !has_fleet {
        tracing::warn!(
            "no fleet: nobody starts the next node. Start another one for queue {queue} before this one is {roll} % full; \
             without a standby, later updates cannot be queried until one joins"
        );
    }
}

/// Logs what a node that was asked to end leaves behind.
pub(super) fn log_end(state: &State) {
    let (rows, phase) = (grouped(state.rows), state.phase.name());
    match state.rows {
        0 => tracing::info!("stopped on request: {phase}, without rows"),
        _ => tracing::info!(
            "stopped on request: {phase}, with {rows} rows in memory; the next node of the queue takes them from the \
             tickerplant's log"
        ),
    }
}
