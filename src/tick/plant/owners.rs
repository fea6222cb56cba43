//! What an operator needs to find nodes whose processes are gone although their connections have not ended, and to give them up:
//! `.u.asg.owners[]`, `.u.asg.evict` and `.u.asg.forget`. `elastick gc` calls them.

use super::Plant;
use super::calls::{Called, malformed};
use super::connection::handle;
use crate::net::{ConnId, Links};
use crate::protocol::owners::{self, OwnerRow};
use crate::protocol::read::short;
use crate::q::QError;
use crate::queue::{Handle, NodeName, QueueEvent, QueueName, State, Subscriber, Symbol, Window};
use proto::{View, Writer};

impl Plant {
    /// `.u.asg.owners[]`.
    pub(super) fn put_owners(&self, writer: &mut Writer<'_>) -> Called {
        owners::put(&self.owners(), writer);
        Called::Put
    }

    /// Returns the nodes of all queues that are not lost, with what shows whether their processes are there.
    fn owners(&self) -> Vec<OwnerRow> {
        let now_ns = self.time.steady_ns();
        let row = |sub: &Subscriber| {
            let member = sub.handle.and_then(|handle| self.queue.member(handle)).filter(|member| member.is_node());
            OwnerRow {
                node: sub.node.as_ref().map(|node| node.0.clone()).unwrap_or_default(),
                queue: sub.queue.0.clone(),
                state: sub.shown_state().as_bytes().to_vec(),
                process: self.queue.core().process(sub.id).cloned().unwrap_or_default(),
                owner: member.and_then(|member| member.owner.clone()).unwrap_or_default(),
                group: sub.group.clone().unwrap_or_default(),
                instance: sub.instance.clone().unwrap_or_default(),
                silent_ns: member.map(|member| now_ns.saturating_sub(member.heard_ns).max(0)),
                updates: self.updates_of(sub),
            }
        };
        let queues = self.queue.core().lines().iter().filter(|(queue, _)| !self.has_nodes(queue));
        let empty = queues.map(|(queue, line)| OwnerRow {
            queue: queue.0.clone(),
            updates: line.lost.iter().map(|lost| lost.window.updates()).sum::<u64>()
                + self.feed.tip().index.saturating_sub(line.open.0),
            ..OwnerRow::default()
        });
        let nodes = self.queue.core().subscribers().iter().filter(|sub| sub.state != State::Lost);
        nodes.map(row).chain(empty).collect()
    }

    fn has_nodes(&self, queue: &QueueName) -> bool {
        self.queue.core().subscribers().iter().any(|sub| sub.queue == *queue && sub.state != State::Lost)
    }

    /// Updates that only this node serves, or is to serve.
    fn updates_of(&self, sub: &Subscriber) -> u64 {
        let open = self.queue.core().live(&sub.queue).filter(|(live, _)| live.id == sub.id);
        let open = open.map_or(0, |(_, first)| self.feed.tip().index.saturating_sub(first.0));
        let rebuilding = if let State::Rebuilding { window, .. } = sub.state { window.updates() } else { 0 };
        sub.held.iter().map(|held| Window::updates(held.window)).sum::<u64>() + open + rebuilding
    }

    /// `.u.asg.evict[node;process]`: gives the node up, unless another process has its name by now.
    ///
    /// # Errors
    /// `type` for arguments that are no names; `domain` if another process is the node.
    pub(super) fn evict(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let (node, process) = (name_of(args, 0, "node")?, name_of(args, 1, "process")?);
        let node = NodeName(node);
        let is_it = |sub: &&Subscriber| sub.node.as_ref() == Some(&node) && sub.state != State::Lost;
        let found = self.queue.core().subscribers().iter().find(is_it);
        if let Some(other) = found.and_then(|sub| self.queue.core().process(sub.id)).filter(|other| **other != process)
        {
            let text = format!("node {node} is another process by now: {}", other.escape_ascii());
            return Err(QError::with("domain", text));
        }
        let from = self.label(conn, ctl);
        tracing::warn!(%from, %node, process = %process.escape_ascii(), "an operator evicts a node");
        self.step_queue(QueueEvent::Evict { node, process }, None, ctl).map_or(Ok(()), Err)
    }

    /// `.u.asg.forget[queue]`: removes a queue that no node is in.
    ///
    /// # Errors
    /// `type` if that is no name; `domain` while a node is in it.
    pub(super) fn forget_queue(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let queue = QueueName(name_of(args, 0, "queue")?);
        let own: Handle = handle(conn);
        self.step_queue(QueueEvent::Forget { handle: own, queue }, None, ctl).map_or(Ok(()), Err)
    }
}

fn name_of(args: &[View<'_>], at: usize, of: &str) -> Result<Symbol, QError> {
    let text = args.get(at).and_then(View::text).filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| QError::with("type", format!("the {of} must be a symbol that is not empty")))?;
    short(of, text).map(<[u8]>::to_vec).map_err(malformed)
}
