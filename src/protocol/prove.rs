//! Shows a tickerplant that this process knows the cluster's secret, and checks that the tickerplant knows it too.

use super::names;
use crate::access::member::{self, ClusterSecret, Nonce, Side};
use crate::net::client::{Client, ClientError};
use proto::Value;

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The tickerplant's error, or the connection's.
    #[error("{0}")]
    Client(ClientError),
    /// Its proof is wrong.
    #[error(
        "the tickerplant does not know the secret of the cluster (--cluster-secret-file): is this the right address?"
    )]
    Tickerplant,
    #[error("{0}")]
    System(std::io::Error),
}

/// Proves membership under a name on a new connection.
///
/// # Errors
/// The tickerplant rejects the proof, or does not know the secret itself.
pub fn exchange(client: &mut Client, secret: &ClusterSecret, node: &[u8]) -> Result<(), Refused> {
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
