//! Nodes that have proved themselves: `.u.asg.nonce` and `.u.asg.prove`.

use super::Plant;
use crate::access::Grants;
use crate::access::member::{self, ClusterSecret, Nonce, Side};
use crate::net::{ConnId, Links, Peer};
use crate::q::QError;
use proto::{View, Writer, types};
use std::collections::HashMap;
use std::sync::Arc;

/// What a connection has shown.
enum Member {
    /// It was sent this number, and has not proved itself yet.
    Challenged(Nonce),
    /// It is the node with this name.
    Proved(Vec<u8>),
}

/// The cluster's secret, and who has shown to know it. Entries end with their connections.
#[derive(Default)]
pub(super) struct Members {
    /// `None`: the role `node` is enough.
    secret: Option<ClusterSecret>,
    members: HashMap<ConnId, Member>,
}

impl Members {
    pub fn new(secret: Option<ClusterSecret>) -> Members {
        Members { secret, members: HashMap::new() }
    }

    /// Forgets a closed connection.
    pub fn closed(&mut self, conn: ConnId) {
        self.members.remove(&conn);
    }

    /// Returns a number for the connection's proof, which replaces an earlier one.
    fn nonce(&mut self, conn: ConnId) -> Result<Nonce, QError> {
        if self.secret.is_none() {
            return Err(QError::with("nyi", "this tickerplant has no cluster secret (--cluster-secret-file)"));
        }
        let nonce = member::nonce().map_err(|error| QError::with("os", error.to_string()))?;
        self.members.insert(conn, Member::Challenged(nonce));
        Ok(nonce)
    }

    /// Checks the proof of a node. Returns the tickerplant's own.
    fn prove(&mut self, conn: ConnId, node: &[u8], of_node: &Nonce, proof: &[u8]) -> Result<member::Proof, QError> {
        // Whatever the outcome, the number is used up.
        let challenge = self.members.remove(&conn);
        let (Some(secret), Some(Member::Challenged(nonce))) = (&self.secret, challenge) else {
            return Err(QError::with(
                "access",
                "a proof needs the number of .u.asg.nonce, for every attempt a new one",
            ));
        };
        if !secret.verifies(proof, Side::Node, &nonce, of_node, node) {
            return Err(QError::with("access", "the proof is wrong: this node has another secret than the cluster"));
        }
        self.members.insert(conn, Member::Proved(node.to_vec()));
        Ok(secret.proof(Side::Tickerplant, &nonce, of_node, node))
    }

    /// Checks that a connection may join as this node.
    ///
    /// # Errors
    /// `access` for a node that has not proved itself, or under another name.
    pub fn may_be(&self, conn: ConnId, node: &[u8]) -> Result<(), QError> {
        let refused = match (&self.secret, self.members.get(&conn)) {
            (None, _) => return Ok(()),
            (Some(_), Some(Member::Proved(name))) if name == node => return Ok(()),
            (Some(_), Some(Member::Proved(name))) => {
                format!("this connection has proved to be {}, not {}", name.escape_ascii(), node.escape_ascii())
            }
            (Some(_), _) => "a node must know the secret of the cluster (--cluster-secret-file)".to_string(),
        };
        Err(QError::with("access", refused))
    }
}

impl Plant {
    /// Whether nodes must know a secret.
    pub fn has_secret(&self) -> bool {
        self.members.secret.is_some()
    }

    /// `.u.asg.nonce[]`: returns 32 random bytes for the proof of this connection.
    ///
    /// # Errors
    /// `nyi` without a cluster secret; `os` if the system has no random numbers.
    pub(super) fn asg_nonce(&mut self, conn: ConnId, writer: &mut Writer<'_>, ctl: &dyn Links) -> Result<(), QError> {
        // An expression may outlive its connection, and would leave an entry that nothing removes.
        ctl.peer(conn).ok_or(QError::with("access", "the connection is closed"))?;
        let nonce = self.members.nonce(conn)?;
        writer.vector(types::BYTE, types::ATTR_NONE, &nonce);
        Ok(())
    }

    /// `.u.asg.prove[node;nonce;proof]`: gives the connection the role `node` under this name. Returns the tickerplant's proof.
    ///
    /// # Errors
    /// `access` for a wrong proof; `type` for arguments of another form.
    pub(super) fn asg_prove(
        &mut self,
        args: &[View<'_>],
        conn: ConnId,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        let wrong = QError::with("type", ".u.asg.prove takes a node's name and two byte vectors of 32 items");
        let bytes = |at: usize| {
            let vector = args.get(at).and_then(View::vector).filter(|vector| vector.ty == types::BYTE)?;
            vector.to_vec::<u8>().and_then(|bytes| Nonce::try_from(bytes).ok())
        };
        let (Some(node), Some(of_node), Some(proof)) = (args.first().and_then(View::text), bytes(1), bytes(2)) else {
            return Err(wrong);
        };
        let answer = self.members.prove(conn, node, &of_node, &proof).inspect_err(|error| {
            let peer = ctl.peer(conn).map(|peer| peer.to_string()).unwrap_or_default();
            tracing::warn!(%peer, node = %node.escape_ascii(), %error, "a node was not admitted");
        })?;
        let mut grants = Grants::clone(&Plant::grants(conn, ctl));
        grants.prove();
        ctl.grant(conn, Arc::new(grants));
        writer.vector(types::BYTE, types::ATTR_NONE, &answer);
        Ok(())
    }

    /// Checks that a node may join this queue under this name: a verified certificate with the name proves it, too. A join takes the name away
    /// from the queue where it is in use, so the caller needs the role for that queue as well.
    ///
    /// # Errors
    /// `access` without the role for the queues, or without proof where the cluster has a secret.
    pub(super) fn may_join(&self, conn: ConnId, node: &[u8], queue: &[u8], ctl: &dyn Links) -> Result<(), QError> {
        let certificate = ctl.peer(conn).and_then(Peer::certificate);
        let is_certified = certificate.is_some_and(|of| of.names().any(|name| name.as_bytes() == node));
        if !is_certified {
            self.members.may_be(conn, node)?;
        }
        if let Some(own) = self.queue.core().queue_of(node) {
            may_join(conn, &own.0, ctl)?;
        }
        may_join(conn, queue, ctl)
    }

    /// Checks that the paper's RDB may join this queue. It has no name and knows no proof: where the cluster has a secret, only a users file
    /// can admit it.
    ///
    /// # Errors
    /// `access` without the role for the queue.
    pub(super) fn may_join_as_paper(&self, conn: ConnId, queue: &[u8], ctl: &dyn Links) -> Result<(), QError> {
        if self.members.secret.is_some() && !Plant::grants(conn, ctl).by_name {
            return Err(QError::with("access", "a node that knows no proof needs the role node in a users file"));
        }
        may_join(conn, queue, ctl)
    }
}

fn may_join(conn: ConnId, queue: &[u8], ctl: &dyn Links) -> Result<(), QError> {
    match Plant::grants(conn, ctl).joins(queue) {
        true => Ok(()),
        false => Err(QError::with("access", format!("you may not join the queue {}", queue.escape_ascii()))),
    }
}
