//! Behaviour of the queue: a test per rule, the paper's known defects, and random schedules.

mod any_events;
mod back_off;
mod days;
mod evicting;
mod groups;
mod joins;
mod journal;
mod late_launches;
mod leaving;
mod paper;
mod random;
mod rules;
mod served;
mod sleep;
mod written;

use super::journal::{Record, read};
use super::*;
use core::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const S: i64 = 1_000_000_000;
const TODAY: Date = Date(9_821);

fn i(index: u64) -> UpdateIndex {
    UpdateIndex(index)
}

fn w(first: u64, last: u64) -> Window {
    Window::new(i(first), i(last)).unwrap()
}

fn q(name: &str) -> QueueName {
    QueueName(name.as_bytes().to_vec())
}

fn all_tables() -> Arc<Subscription> {
    Arc::new(Subscription { tabs: vec![vec![]], syms: vec![vec![]] })
}

/// A queue with a growing log and a clock. Every step checks the invariants, and that the journal restores the same table.
struct Bench {
    queue: Queue,
    records: Vec<Record>,
    tip: u64,
    now_ns: i64,
    /// Offset of the wall clock from the steady clock.
    wall_ahead_ns: i64,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Params::default())
    }

    fn with(params: Params) -> Bench {
        let queue = Queue::new(params, TODAY);
        Bench { records: vec![queue.snapshot()], queue, tip: 0, now_ns: S, wall_ahead_ns: 1_000 * S }
    }

    /// A queue of `count` nodes, `a` on handle 1 and so on, with 100 updates: `a` is live, the others are standbys.
    fn of_nodes(count: i32) -> Bench {
        let mut b = Bench::new();
        for (handle, node) in (1..=count).zip(["a", "b", "c", "d"]) {
            b.join(handle, node);
        }
        b.publish(100);
        b
    }

    /// As [`Bench::of_nodes`] of two, after the roll from `a` to `b` at update 90.
    fn rolled() -> Bench {
        let mut b = Bench::of_nodes(2);
        b.roll(1, 90);
        b
    }

    /// As [`Bench::rolled`], after `a` has been gone for longer than its grace period: its window is lost.
    fn with_lost_window() -> Bench {
        let mut b = Bench::rolled();
        b.disconnect(1);
        b.pass(2 * S);
        b
    }

    fn now(&self) -> Now {
        Now { wall_ns: self.now_ns + self.wall_ahead_ns, steady_ns: self.now_ns }
    }

    /// Returns all actions but [`Action::Journal`].
    fn all(&mut self, event: QueueEvent) -> Vec<Action> {
        let mut actions = self.queue.step(event, i(self.tip), self.now());
        if let Some(Action::Journal(record)) = actions.first() {
            self.records.push(record.clone());
            actions.remove(0);
        }
        assert!(!actions.iter().any(|a| matches!(a, Action::Journal(_))), "one record a step, and first");
        assert_eq!(invariants::check(&self.queue), Ok(()));
        assert_eq!(self.restored().snapshot().changes, self.queue.snapshot().changes);
        actions
    }

    /// Returns the actions without log events.
    fn step(&mut self, event: QueueEvent) -> Vec<Action> {
        let mut actions = self.all(event);
        actions.retain(|a| !matches!(a, Action::Note(_) | Action::Alarm(_)));
        actions
    }

    fn restored(&self) -> Queue {
        let bytes: Vec<u8> = self.records.iter().flat_map(Record::encode).collect();
        let journal = read(&bytes).unwrap();
        assert_eq!(journal.good_bytes, bytes.len() as u64);
        Queue::restore(self.queue.params.clone(), self.queue.date(), &journal.records).unwrap()
    }

    /// Completes and proves every takeover, and rolls draining live nodes.
    fn finish_takeovers(&mut self) {
        let date = self.queue.date();
        for sub in self.queue.subscribers().to_vec() {
            if let (Some(handle), State::Live, Some(_)) = (sub.handle, sub.state, sub.leaving) {
                self.step(QueueEvent::Roll { handle, next: i(self.tip), date });
            }
            if let (Some(handle), State::TakingOver { window, .. }) = (sub.handle, sub.state) {
                self.step(QueueEvent::Rebuilt { handle, window, date });
                self.step(QueueEvent::Proved { handle, window, date, ok: true });
            }
        }
    }

    fn publish(&mut self, updates: u64) {
        self.tip += updates;
    }

    fn pass(&mut self, ns: i64) -> Vec<Action> {
        self.now_ns += ns;
        self.step(QueueEvent::Tick)
    }

    /// Subscribes a paper client.
    fn subscribe(&mut self, handle: i32, queue: &str) -> Vec<Action> {
        self.now_ns += 1;
        self.step(QueueEvent::Subscribe(Subscribe {
            handle: Handle(handle),
            queue: q(queue),
            subscription: all_tables(),
            ip: IpAddr::V4(Ipv4Addr::new(10, 0, 1, 5)),
        }))
    }

    fn join(&mut self, handle: i32, node: &str) -> Vec<Action> {
        self.step(join(handle, node))
    }

    fn roll(&mut self, handle: i32, next: u64) -> Vec<Action> {
        let date = self.queue.date();
        self.step(QueueEvent::Roll { handle: Handle(handle), next: i(next), date })
    }

    fn rebuilt(&mut self, handle: i32, window: Window) -> Vec<Action> {
        let date = self.queue.date();
        self.step(QueueEvent::Rebuilt { handle: Handle(handle), window, date })
    }

    fn proved(&mut self, handle: i32, window: Window, ok: bool) -> Vec<Action> {
        let date = self.queue.date();
        self.step(QueueEvent::Proved { handle: Handle(handle), window, date, ok })
    }

    fn disconnect(&mut self, handle: i32) -> Vec<Action> {
        self.step(QueueEvent::Disconnect { handle: Handle(handle) })
    }

    fn state(&self, handle: i32) -> State {
        self.queue.by_handle(Handle(handle)).expect("in the table").state
    }

    fn held(&self, handle: i32) -> Vec<Window> {
        self.queue.by_handle(Handle(handle)).expect("in the table").held.iter().map(|h| h.window).collect()
    }

    fn lost(&self, queue: &str) -> Vec<Window> {
        self.queue.lines()[&q(queue)].lost.iter().map(|l| l.window).collect()
    }
}

fn join(handle: i32, node: &str) -> QueueEvent {
    QueueEvent::Join(joining(handle, node))
}

fn joining(handle: i32, node: &str) -> Join {
    Join {
        handle: Handle(handle),
        node: NodeName(node.as_bytes().to_vec()),
        queue: q("rdb"),
        subscription: all_tables(),
        ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: Some(5011),
        date: None,
        held: vec![],
        open: None,
        group: None,
        instance: None,
        process: None,
        leaving: None,
    }
}

fn rejoining(handle: i32, node: &str, held: &[Window], open: Option<(u64, u64)>) -> QueueEvent {
    let open = open.map(|(first, next)| OpenWindow { first: i(first), next: i(next) });
    QueueEvent::Join(Join { date: Some(TODAY), held: held.to_vec(), open, ..joining(handle, node) })
}

fn joined(handle: i32) -> Action {
    Action::Joined { handle: Handle(handle), drop: false }
}

fn dropped(handle: i32) -> Action {
    Action::Joined { handle: Handle(handle), drop: true }
}

fn live(handle: i32, first: u64, tip: u64) -> Action {
    Action::MakeLive { handle: Handle(handle), first: i(first), tip: i(tip) }
}

fn resume(handle: i32, next: u64) -> Action {
    Action::Resume { handle: Handle(handle), next: i(next) }
}

fn rebuild(handle: i32, window: Window) -> Action {
    Action::Rebuild { handle: Handle(handle), window, hidden: false }
}

fn stop(handle: i32) -> Action {
    Action::StopFeed { handle: Handle(handle) }
}

fn verify(handle: i32, window: Window) -> Action {
    Action::Verify { handle: Handle(handle), window, date: TODAY }
}

fn need(missing: usize, desired: usize, via: Option<i32>) -> Action {
    Action::NeedNode { queue: q("rdb"), missing, desired, via: via.map(Handle) }
}

fn end(handle: i32) -> Action {
    Action::EndOfDay { handle: Handle(handle), date: TODAY }
}

fn refused(handle: i32, reason: QueueError) -> Action {
    Action::Refused { handle: Handle(handle), reason }
}
