//! `--sleep`: the cluster goes to zero after the feed has ended, and a call wakes it.

use super::cluster::Cluster;
use crate::cli::CliError;
use crate::monitor::text;
use proto::Value;
use serde::Serialize;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

/// `--idle-off` of the demo's tickerplant.
pub const IDLE_OFF: Duration = Duration::from_secs(3);

/// How the cluster slept and woke.
#[derive(Clone, Debug, Serialize)]
pub struct Slept {
    /// From the last update until no instance was left.
    pub zero_ns: u64,
    /// Nodes that the call requested, and what it said.
    pub nodes: u64,
    pub said: String,
    /// From the call until nodes held every update.
    pub answered_ns: u64,
}

impl Slept {
    pub fn text(&self) -> String {
        let (zero, answered) = (text::span(self.zero_ns), text::span(self.answered_ns));
        format!(
            "no node was left {zero} after the last update; .u.asg.wake[]: {}; all rows answered after {answered}",
            self.said
        )
    }
}

/// Returns a free port, for a fleet that the tickerplant must know before it starts.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16, CliError> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(CliError::failed)?;
    Ok(socket.local_addr().map_err(CliError::failed)?.port())
}

/// A call that has woken the cluster.
pub struct Call {
    zero_ns: u64,
    nodes: u64,
    pub said: String,
    began: Instant,
}

impl Call {
    /// Calls `.u.asg.wake[]`; `asleep`: when the last update came.
    ///
    /// # Errors
    /// The tickerplant rejects it, or its answer has another form.
    pub fn make(cluster: &mut Cluster, asleep: Instant) -> Result<Call, CliError> {
        let zero_ns = nanoseconds(asleep.elapsed());
        let began = Instant::now();
        let answer = cluster.wake()?;
        let nodes = answer.lookup("nodes").and_then(|nodes| u64::try_from(nodes.as_long()?).ok());
        let said = answer.lookup("text").and_then(|said| text_of(&said));
        let (nodes, said) = nodes
            .zip(said)
            .ok_or_else(|| CliError::Failed("the reply to .u.asg.wake[] has no nodes or text".to_string()))?;
        Ok(Call { zero_ns, nodes, said, began })
    }

    /// Nodes hold every update.
    pub fn answered(self) -> Slept {
        let answered_ns = nanoseconds(self.began.elapsed());
        Slept { zero_ns: self.zero_ns, nodes: self.nodes, said: self.said, answered_ns }
    }
}

fn text_of(value: &Value) -> Option<String> {
    value.as_text().map(|text| String::from_utf8_lossy(text).into_owned())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
