//! Shows the tickerplant that this node knows the cluster's secret, and checks that the tickerplant knows it too.

use super::{Fault, Ingest};
use crate::access::member::{self, ClusterSecret, Nonce, Side};
use crate::net::client::{Client, ClientError};
use crate::protocol::names;
use proto::Value;

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
            Err(Refused::Tickerplant) => Err(self.refused(
                "the tickerplant does not know the secret of the cluster (--cluster-secret-file): is this the right address?"
                    .to_string(),
            )),
            Err(Refused::System(error)) => Err(Fault::Fatal(error.to_string())),
        }
    }
}

enum Refused {
    Client(ClientError),
    /// Its proof is wrong.
    Tickerplant,
    System(std::io::Error),
}

fn exchange(client: &mut Client, secret: &ClusterSecret, node: &[u8]) -> Result<(), Refused> {
    let call = |items: Vec<Value>| Value::list(items);
    let nonce = client.request(&call(vec![Value::symbol(names::NONCE), Value::NULL])).map_err(Refused::Client)?;
    let of_tickerplant = bytes(&nonce).ok_or(Refused::Tickerplant)?;
    let of_node = member::nonce().map_err(Refused::System)?;
    let proof = secret.proof(Side::Node, &of_tickerplant, &of_node, node);
    let items = vec![
        Value::symbol(names::PROVE),
        Value::symbol(node),
        Value::bytes(of_node.to_vec()),
        Value::bytes(proof.to_vec()),
    ];
    let answer = client.request(&call(items)).map_err(Refused::Client)?;
    let answer = bytes(&answer).ok_or(Refused::Tickerplant)?;
    match secret.verifies(&answer, Side::Tickerplant, &of_tickerplant, &of_node, node) {
        true => Ok(()),
        false => Err(Refused::Tickerplant),
    }
}

fn bytes(value: &Value) -> Option<Nonce> {
    value.as_bytes().and_then(|bytes| Nonce::try_from(bytes).ok())
}
