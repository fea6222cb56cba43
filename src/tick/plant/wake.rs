//! `.u.asg.wake[]`: wakes queues that sleep.

use super::Plant;
use super::calls::Called;
use crate::metrics::health::grouped;
use crate::net::Links;
use crate::q::QError;
use crate::queue::{QueueEvent, State};
use crate::tick::node_fleet::NodeFleet;
use proto::Writer;
use std::time::Duration;

/// What a caller of `.u.asg.wake[]` gets.
#[derive(Debug)]
struct Woken {
    /// Instances requested in all; 0 if nodes are there.
    nodes: usize,
    /// Until the first of them is in its queue.
    ready: Duration,
    text: String,
}

impl Plant {
    /// Wakes the queues, and writes what follows: `nodes` long, `ready` timespan, `text` string.
    ///
    /// # Errors
    /// `domain` without a fleet to request nodes from.
    pub(super) fn wake(&mut self, writer: &mut Writer<'_>, ctl: &mut dyn Links) -> Result<Called, QError> {
        let Some(lead) = self.nodes.as_ref().map(NodeFleet::lead) else {
            let text =
                "no fleet to request nodes from: start the tickerplant with --node-fleet, as --node-fleet :5009/rdb";
            return Err(QError::with("domain", text));
        };
        self.step_queue(QueueEvent::Wake, None, ctl).map_or(Ok(()), Err)?;
        let Woken { nodes, ready, text } = self.wake_report(lead);
        writer.dict_head();
        writer.symbols(["nodes", "ready", "text"]);
        writer.list_head(3);
        writer.atom_long(i64::try_from(nodes).unwrap_or(i64::MAX));
        writer.atom_timespan(i64::try_from(ready.as_nanos()).unwrap_or(i64::MAX));
        writer.chars(&text);
        Ok(Called::Put)
    }

    fn wake_report(&self, lead: Duration) -> Woken {
        let queue = self.queue.core();
        let nodes = queue.first_requested();
        if nodes == 0 {
            let is_up = |state: State| !matches!(state, State::Lost);
            let up = queue.subscribers().iter().filter(|sub| sub.handle.is_some() && is_up(sub.state)).count();
            return Woken {
                nodes,
                ready: Duration::ZERO,
                text: format!("awake: {up} {} in queues", if up == 1 { "node is" } else { "nodes are" }),
            };
        }
        let seconds = lead.as_secs_f64().ceil();
        let replayed = match self.feed.tip().index {
            0 => "the log has no updates yet".to_string(),
            tip => format!("then the log is replayed: {}", self.logged_in_words(tip)),
        };
        let word = if nodes == 1 { "node" } else { "nodes" };
        let text = format!("requested {} {word}: ready in about {seconds} s; {replayed}", grouped(nodes as u64));
        Woken { nodes, ready: lead, text }
    }
}
