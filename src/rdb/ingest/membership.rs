//! Shows the tickerplant that this node knows the cluster's secret, and checks that the tickerplant knows it too.

use super::{Fault, Ingest};
use crate::net::client::{Client, ClientError};
use crate::protocol::prove::{Refused, exchange};

impl Ingest {
    /// Proves membership on a new connection. Without a secret there is nothing to prove.
    ///
    /// # Errors
    /// The tickerplant rejects the proof, or does not know the secret itself.
    pub(super) fn prove(&mut self, client: &mut Client) -> Result<(), Fault> {
        let Some(secret) = &self.options.cluster_secret else { return Ok(()) };
        match exchange(client, secret, self.identity.node.as_bytes()) {
            Ok(()) => Ok(()),
            // The connection broke, which says nothing about the tickerplant.
            Err(Refused::Client(error)) if !matches!(error, ClientError::Server(_)) => Err(error.into()),
            Err(Refused::Client(error)) => Err(self.refused(format!("the tickerplant rejects this node: {error}"))),
            Err(refused @ Refused::Tickerplant) => Err(self.refused(refused.to_string())),
            Err(Refused::System(error)) => Err(Fault::Fatal(error.to_string())),
        }
    }
}
