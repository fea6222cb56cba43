//! Sync messages to clients: an evaluation waits for the response.

use super::effects::Out;
use super::scope::{Link, NodeScope, WireProtocol};
use crate::config::Limit;
use crate::metrics;
use crate::net::remote;
use crate::q::error::QError;
use crate::table::Value;
use proto::MessageKind;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

impl NodeScope {
    /// Sends a sync message to a client and waits for its response.
    pub(super) fn wait_for_reply(
        &self,
        link: Link,
        before: Vec<Out>,
        value: &Value,
        by: Option<Instant>,
        is_query: bool,
    ) -> Result<Value, QError> {
        if link.protocol == WireProtocol::Web {
            return Err(QError::with("nyi", "WebSocket clients are sent async messages only"));
        }
        let message = remote::encoded(MessageKind::Sync, value)?;
        // Other queries use its slot meanwhile. The threads of handlers have none to spare.
        let away = is_query.then(|| self.queries.away());
        if matches!(away, Some(None)) {
            metrics::refused(Limit::client_waits);
            return Err(QError::with(
                "limit",
                "too many queries wait for the response of a client (--limit-client-waits)",
            ));
        }
        let until = Instant::now().checked_add(self.client_wait);
        let is_limit = by.is_none_or(|by| until.is_some_and(|until| until < by));
        let by = if is_limit { until } else { by };
        let answered = self.send_request(link.conn, before, message.into());
        let answer = match by {
            None => answered.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(by) => answered.recv_timeout(by.saturating_duration_since(Instant::now())),
        };
        match answer {
            Ok(answer) => remote::value(&answer),
            Err(RecvTimeoutError::Disconnected) => Err(QError::named("close")),
            Err(RecvTimeoutError::Timeout) if is_limit => {
                metrics::refused(Limit::client_wait_ns);
                let wait = self.client_wait;
                Err(QError::with(
                    "timeout",
                    format!("the client has not responded within {wait:?} (--limit-client-wait)"),
                ))
            }
            Err(RecvTimeoutError::Timeout) => Err(QError::with("stop", "time limit")),
        }
    }
}
