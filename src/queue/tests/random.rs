//! Random schedules of nodes that keep to the protocol over connections that delay and break, against the windows that the nodes hold in
//! the end.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const NODES: usize = 6;
const LEAVING: Leaving = Leaving { by_ns: 0, replaced: false };

/// Messages from tickerplant to node.
#[derive(Clone, Copy, Debug)]
enum Down {
    Live { first: u64, date: Date },
    Feed { tip: u64 },
    Rebuild { window: Window, hidden: bool, date: Date },
    Recheck { window: Window },
    Handed { window: Window },
    Show { window: Window },
    Drop,
    Left,
    End { date: Date },
}

/// A node that keeps to the protocol.
#[derive(Clone, Debug, Default)]
struct Node {
    handle: Option<Handle>,
    /// Random id of the process, chosen when it first joins.
    process: Option<i32>,
    date: Option<Date>,
    held: Vec<Window>,
    open: Option<(u64, u64)>,
    /// The window and whether queries see it.
    rebuilding: Option<(Window, bool)>,
    /// Windows that are complete but not shown yet: no query sees them.
    hidden: Vec<Window>,
    leaving: bool,
    inbox: VecDeque<Down>,
    outbox: VecDeque<QueueEvent>,
}

impl Node {
    fn forget(&mut self) {
        self.held.clear();
        self.open = None;
        self.rebuilding = None;
        self.hidden.clear();
    }

    fn take(&mut self, message: Down) {
        match message {
            Down::Live { first, date } => {
                self.date = Some(date);
                self.open = Some((first, first));
            }
            Down::Feed { tip } => {
                if let Some((_, next)) = &mut self.open {
                    *next = tip.max(*next);
                }
            }
            Down::Rebuild { window, hidden, date } => {
                self.date = Some(date);
                self.rebuilding = Some((window, hidden));
            }
            Down::Recheck { window } => {
                self.held.retain(|held| *held != window);
                self.hidden.retain(|held| *held != window);
            }
            Down::Handed { window } => self.held.retain(|held| *held != window),
            Down::Show { window } => {
                self.rebuilding = self.rebuilding.map(|(window, _)| (window, false));
                self.held.extend(self.hidden.iter().filter(|held| window.contains(**held)));
                self.hidden.retain(|held| !window.contains(*held));
            }
            Down::Drop => self.forget(),
            Down::Left => {}
            Down::End { date } => {
                let was_live = self.open.is_some();
                self.forget();
                self.date = Some(Date(date.0 + 1));
                self.open = was_live.then_some((0, 0));
            }
        }
        // A draining node gives back every window that it is assigned.
        if self.leaving && matches!(message, Down::Live { .. } | Down::Rebuild { .. }) {
            let (first, window) = (self.open.take(), self.rebuilding.take());
            let next = first.map(|(first, _)| i(first)).or(window.map(|(window, _)| window.first()));
            if let (Some(handle), Some(date), Some(next)) = (self.handle, self.date, next) {
                self.outbox.push_back(QueueEvent::Roll { handle, next, date });
            }
        }
    }

    fn leave(&mut self) {
        let Some(handle) = self.handle else { return };
        self.leaving = true;
        self.outbox.push_back(QueueEvent::Leaving { handle, leaving: LEAVING });
        if self.open.is_some() {
            self.roll();
        }
        self.rebuilding = None;
    }

    /// Returns its closed windows, visible or hidden.
    fn all(&self) -> Vec<Window> {
        self.hidden.iter().chain(&self.held).copied().collect()
    }

    fn roll(&mut self) {
        let (Some(handle), Some(date)) = (self.handle, self.date) else { return };
        let (window, next) = match (self.open.take(), self.rebuilding.take()) {
            (Some((first, next)), _) => (Window::new(i(first), i(next)), next),
            // Half of the window fits.
            (None, Some((window, hidden))) => {
                let next = window.first().0 + window.updates() / 2;
                let part = Window::new(window.first(), i(next));
                self.hidden.extend(part.filter(|_| hidden));
                (part.filter(|_| !hidden), next)
            }
            (None, None) => return,
        };
        self.held.extend(window);
        self.outbox.push_back(QueueEvent::Roll { handle, next: i(next), date });
    }

    fn finish_rebuild(&mut self) {
        let (Some(handle), Some(date), Some((window, hidden))) = (self.handle, self.date, self.rebuilding.take())
        else {
            return;
        };
        if hidden { &mut self.hidden } else { &mut self.held }.push(window);
        self.outbox.push_back(QueueEvent::Rebuilt { handle, window, date });
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Publish(u64),
    Connect(usize),
    /// The node's end of the connection closes; the tickerplant has not noticed yet.
    Cut(usize),
    /// The tickerplant notices all closed connections.
    NoticeCuts,
    /// The node restarts empty.
    Kill(usize),
    Receive(usize),
    ReceiveAll,
    Send(usize),
    SendAll,
    /// One of the receiving nodes is full.
    Roll(usize),
    FinishRebuild(usize),
    /// One of the connected nodes starts to drain.
    Leave(usize),
    /// One of the nodes hangs and is evicted. It goes on when it connects again.
    Evict(usize),
    /// Pending proofs have been compared with the log.
    Compare,
    /// The proof of one of the nodes that hold a window differs.
    Doubt(usize),
    Pass(i64),
    DayEnd,
    RestartTickerplant,
}

fn any_op() -> impl Strategy<Value = Op> {
    let node = || 0..NODES;
    prop_oneof![
        6 => (1..10u64).prop_map(Op::Publish),
        6 => node().prop_map(Op::Connect),
        2 => node().prop_map(Op::Cut),
        2 => Just(Op::NoticeCuts),
        1 => node().prop_map(Op::Kill),
        4 => node().prop_map(Op::Receive),
        4 => Just(Op::ReceiveAll),
        4 => node().prop_map(Op::Send),
        4 => Just(Op::SendAll),
        5 => node().prop_map(Op::Roll),
        4 => node().prop_map(Op::FinishRebuild),
        2 => node().prop_map(Op::Leave),
        2 => node().prop_map(Op::Evict),
        4 => Just(Op::Compare),
        2 => node().prop_map(Op::Doubt),
        3 => (0..2 * S).prop_map(Op::Pass),
        1 => Just(Op::DayEnd),
        1 => Just(Op::RestartTickerplant),
    ]
}

struct World {
    b: Bench,
    nodes: Vec<Node>,
    /// Connections that are closed but not noticed yet by the tickerplant.
    cuts: Vec<Handle>,
    /// Results of comparing proofs, not stepped yet.
    compared: Vec<QueueEvent>,
    next_handle: i32,
}

impl World {
    fn new(standbys_kept: usize) -> World {
        let b = Bench::with(Params { standbys_kept, ..Params::default() });
        World { b, nodes: vec![Node::default(); NODES], cuts: vec![], compared: vec![], next_handle: 1 }
    }

    fn by_handle(&mut self, handle: Handle) -> Option<&mut Node> {
        self.nodes.iter_mut().find(|n| n.handle == Some(handle))
    }

    /// The shell: steps the queue and delivers its actions. The response to a join overtakes all other messages, as a sync response does.
    fn step(&mut self, event: QueueEvent) {
        let actions = self.b.step(event);
        let (tip, date) = (self.b.tip, self.b.queue.date());
        for action in actions {
            match action {
                Action::Joined { handle, drop } => {
                    if let Some(node) = self.by_handle(handle) {
                        match drop {
                            true => node.forget(),
                            false => node.held.append(&mut node.hidden),
                        }
                    }
                }
                Action::Verify { handle, window, date } => {
                    self.compared.push(QueueEvent::Proved { handle, window, date, ok: true });
                }
                Action::MakeLive { handle, first, .. } => {
                    self.send(handle, [Down::Live { first: first.0, date }, Down::Feed { tip }]);
                }
                Action::Resume { handle, .. } => self.send(handle, [Down::Feed { tip }]),
                Action::Rebuild { handle, window, hidden } => {
                    self.send(handle, [Down::Rebuild { window, hidden, date }]);
                }
                Action::Handed { handle, window } => self.send(handle, [Down::Handed { window }]),
                Action::Show { handle, window } => self.send(handle, [Down::Show { window }]),
                Action::Drop { handle } => self.send(handle, [Down::Drop]),
                Action::Left { handle } => self.send(handle, [Down::Left]),
                Action::Recheck { handle, window } => self.send(handle, [Down::Recheck { window }]),
                Action::EndOfDay { handle, date } => self.send(handle, [Down::End { date }]),
                // The process ends, and an empty one takes its name.
                Action::Refused { handle, reason: QueueError::Evicted(_) } => {
                    if let Some(node) = self.by_handle(handle) {
                        *node = Node::default();
                    }
                }
                // Its former process is still connected, as far as the tickerplant knows: it tries again.
                Action::Refused { handle, reason: QueueError::NameTaken(..) } => {
                    if let Some(node) = self.by_handle(handle) {
                        node.handle = None;
                    }
                }
                Action::Close { handle } => self.cuts.retain(|cut| *cut != handle),
                _ => {}
            }
        }
    }

    fn send<const N: usize>(&mut self, handle: Handle, messages: [Down; N]) {
        if let Some(node) = self.by_handle(handle) {
            node.inbox.extend(messages);
        }
    }

    /// Sends the feed up to the tip to live nodes.
    fn feed(&mut self) {
        let tip = self.b.tip;
        for handle in self.live_handles() {
            self.send(handle, [Down::Feed { tip }]);
        }
    }

    fn live_handles(&self) -> Vec<Handle> {
        self.b.queue.subscribers().iter().filter(|s| s.state == State::Live).filter_map(|s| s.handle).collect()
    }

    fn connect(&mut self, at: usize) {
        let handle = Handle(self.next_handle);
        let Some(node) = self.nodes.get_mut(at).filter(|node| node.handle.is_none()) else { return };
        self.next_handle += 1;
        node.handle = Some(handle);
        let process = *node.process.get_or_insert(handle.0);
        node.inbox.clear();
        node.outbox.clear();
        // The node claims no partial rebuild; that starts over.
        node.rebuilding = None;
        let open = node.open.map(|(first, next)| OpenWindow { first: i(first), next: i(next) });
        let (date, held) = (node.date, node.held.iter().chain(&node.hidden).copied().collect());
        let leaving = node.leaving.then_some(LEAVING);
        let process = Some(format!("p{process}").into_bytes());
        self.step(QueueEvent::Join(Join {
            process,
            date,
            held,
            open,
            leaving,
            ..joining(handle.0, &format!("n{at}"))
        }));
    }

    fn cut(&mut self, at: usize) {
        if let Some(node) = self.nodes.get_mut(at)
            && let Some(handle) = node.handle.take()
        {
            node.inbox.clear();
            node.outbox.clear();
            self.cuts.push(handle);
        }
    }

    fn notice_cuts(&mut self) {
        for handle in std::mem::take(&mut self.cuts) {
            self.step(QueueEvent::Disconnect { handle });
        }
    }

    fn receive(&mut self, at: usize) {
        let Some(node) = self.nodes.get_mut(at) else { return };
        while let Some(message) = node.inbox.pop_front() {
            node.take(message);
            // The node ends (its day is over and it is not live, or it has left), and an empty one takes its name.
            let ended = matches!(message, Down::End { .. }) && node.open.is_none();
            if ended || (node.leaving && matches!(message, Down::Left | Down::End { .. })) {
                self.cut(at);
                self.nodes[at] = Node::default();
                return;
            }
        }
    }

    fn evict(&mut self, at: usize) {
        let Some(process) = self.nodes.get(at).and_then(|node| node.process) else { return };
        let (node, process) = (NodeName(format!("n{at}").into_bytes()), format!("p{process}").into_bytes());
        self.step(QueueEvent::Evict { node, process });
        if let Some(node) = self.nodes.get_mut(at) {
            node.handle = None;
            node.inbox.clear();
            node.outbox.clear();
        }
    }

    /// Delivers all messages of a node.
    fn deliver(&mut self, at: usize) {
        for event in self.nodes.get_mut(at).map(|node| std::mem::take(&mut node.outbox)).unwrap_or_default() {
            self.step(event);
        }
    }

    fn compare(&mut self) {
        for event in std::mem::take(&mut self.compared) {
            self.step(event);
        }
    }

    /// Returns one of the nodes that satisfy a condition.
    fn nth(&mut self, nth: usize, is: impl Fn(&Node) -> bool) -> Option<&mut Node> {
        let count = self.nodes.iter().filter(|node| is(node)).count();
        self.nodes.iter_mut().filter(|node| is(node)).nth(nth.checked_rem(count)?)
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Publish(updates) => {
                self.b.publish(updates);
                self.feed();
            }
            Op::Connect(at) => self.connect(at),
            Op::Cut(at) => self.cut(at),
            Op::NoticeCuts => self.notice_cuts(),
            Op::Kill(at) => {
                self.cut(at);
                self.nodes[at] = Node::default();
            }
            Op::Receive(at) => self.receive(at),
            Op::ReceiveAll => (0..NODES).for_each(|at| self.receive(at)),
            Op::Send(at) => self.deliver(at),
            Op::SendAll => (0..NODES).for_each(|at| self.deliver(at)),
            Op::Roll(nth) => {
                if let Some(node) = self.nth(nth, |node| node.open.is_some() || node.rebuilding.is_some()) {
                    node.roll();
                }
            }
            Op::FinishRebuild(nth) => {
                if let Some(node) = self.nth(nth, |node| node.rebuilding.is_some()) {
                    node.finish_rebuild();
                }
            }
            Op::Leave(nth) => {
                if let Some(node) = self.nth(nth, |node| node.handle.is_some() && !node.leaving) {
                    node.leave();
                }
            }
            Op::Evict(at) => self.evict(at),
            Op::Compare => self.compare(),
            Op::Doubt(nth) => {
                let node =
                    self.nth(nth, |node| node.handle.is_some() && !node.all().is_empty()).cloned().unwrap_or_default();
                if let (Some(handle), Some(window), Some(date)) = (node.handle, node.all().first().copied(), node.date)
                {
                    self.step(QueueEvent::Proved { handle, window, date, ok: false });
                }
            }
            Op::Pass(ns) => {
                self.b.now_ns += ns;
                self.step(QueueEvent::Tick);
            }
            Op::DayEnd => {
                let date = self.b.queue.date();
                for handle in self.live_handles() {
                    self.send(handle, [Down::End { date }]);
                }
                self.step(QueueEvent::DayEnd { new_date: Date(date.0 + 1) });
                self.b.tip = 0;
                self.step(QueueEvent::Tick);
            }
            Op::RestartTickerplant => {
                (0..NODES).for_each(|at| self.cut(at));
                self.cuts.clear();
                self.b.queue = self.b.restored();
                self.step(QueueEvent::Restored);
            }
        }
    }

    /// Once all messages are delivered, each connected node shows exactly the windows that the table says it holds.
    fn check_sent(&self) {
        let on_the_way = |node: &Node| !node.inbox.is_empty() || !node.outbox.is_empty();
        if !self.cuts.is_empty() || self.nodes.iter().any(on_the_way) {
            return;
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let Some(handle) = node.handle else { continue };
            let listed = self.b.queue.by_handle(handle);
            let mut listed: Vec<Window> = listed.map(|s| s.held.iter().map(|h| h.window).collect()).unwrap_or_default();
            let mut shown = node.held.clone();
            listed.sort();
            shown.sort();
            assert_eq!(shown, listed, "what node {at} shows, and what the table says");
        }
    }

    /// Delivers all messages, reconnects every node, and adds nodes while windows wait.
    fn heal(&mut self) {
        for round in 0..200 {
            self.notice_cuts();
            for at in 0..self.nodes.len() {
                self.connect(at);
                self.receive(at);
                if let Some(node) = self.nodes.get_mut(at) {
                    node.finish_rebuild();
                }
                self.deliver(at);
            }
            self.compare();
            self.b.now_ns += 31 * S;
            self.step(QueueEvent::Tick);
            self.feed();
            let line = self.b.queue.lines().get(&q("rdb")).cloned().unwrap_or_default();
            let quiet = self.nodes.iter().all(|n| n.rebuilding.is_none() && n.handle.is_some());
            let leaving = self.nodes.iter().any(|n| n.leaving);
            let whole = line.lost.is_empty() && self.live_handles().len() == 1 && !leaving;
            if whole && quiet && round > 10 {
                return;
            }
            if round % 5 == 4 && !whole {
                self.nodes.push(Node::default());
            }
        }
        panic!("the queue does not come to rest: {:?}\n{:?}", self.b.queue.lines(), self.nodes);
    }

    /// Returns the number of copies of each update over all nodes.
    fn copies(&mut self) -> BTreeMap<u64, usize> {
        let mut copies = BTreeMap::new();
        for at in 0..self.nodes.len() {
            self.receive(at);
            let node = &self.nodes[at];
            let open = node.open.and_then(|(first, next)| Window::new(i(first), i(next)));
            for window in node.held.iter().copied().chain(open) {
                for index in window.first().0..window.last().0 {
                    *copies.entry(index).or_insert(0) += 1;
                }
            }
        }
        copies
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    /// Whatever breaks: once connections are stable, exactly one node holds each update of the day.
    #[test]
    fn in_the_end_every_update_is_held_exactly_once(
        ops in prop::collection::vec(any_op(), 1..150),
        standbys_kept in 0..2usize,
    ) {
        let mut world = World::new(standbys_kept);
        for op in ops {
            world.run(op);
            world.check_sent();
        }
        world.heal();
        let copies = world.copies();
        let wrong: Vec<_> = (0..world.b.tip).filter(|index| copies.get(index) != Some(&1)).collect();
        prop_assert!(wrong.is_empty(), "not held once: {wrong:?}\n{:#?}", world.b.queue.rows());
        prop_assert_eq!(copies.len() as u64, world.b.tip, "updates that are not in the log");
        prop_assert_eq!(world.live_handles().len(), 1);
    }
}
