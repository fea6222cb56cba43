//! Random schedules: arbitrary events from any connection, against the invariants and the journal.

use super::*;
use proptest::prelude::*;

const NODES: usize = 6;

fn any_window() -> impl Strategy<Value = Window> {
    (0..60u64, 1..30u64).prop_map(|(first, updates)| w(first, first + updates))
}

fn any_date() -> impl Strategy<Value = Date> {
    prop_oneof![8 => Just(TODAY), 1 => Just(Date(TODAY.0 - 1)), 1 => Just(Date(TODAY.0 + 1))]
}

fn any_queue() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("rdb"), Just("other")]
}

fn any_leaving() -> impl Strategy<Value = Leaving> {
    (0..100 * S, any::<bool>()).prop_map(|(by_ns, replaced)| Leaving { by_ns, replaced })
}

fn any_process() -> impl Strategy<Value = Vec<u8>> {
    (0..8u8).prop_map(|of| vec![b'p', of])
}

fn any_join() -> impl Strategy<Value = QueueEvent> {
    let fleet = (prop::option::of(0..2u8), prop::option::of(0..4u8), prop::option::weighted(0.1, any_leaving()));
    let held = prop::collection::vec(any_window(), 0..3);
    let open = prop::option::of((0..60u64, 0..60u64));
    let process = prop::option::of(any_process());
    (0..12i32, 0..NODES, any_queue(), prop::option::of(any_date()), held, open, (fleet, process)).prop_map(
        |(handle, node, queue, date, held, open, ((group, instance, leaving), process))| {
            let open = open.map(|(first, next)| OpenWindow { first: i(first), next: i(next) });
            let (group, instance) = (group.map(|of| vec![b'g', of]), instance.map(|of| vec![b'i', of]));
            let joining = joining(handle, &format!("n{node}"));
            QueueEvent::Join(Join { queue: q(queue), date, held, open, group, instance, process, leaving, ..joining })
        },
    )
}

fn any_wake() -> impl Strategy<Value = Wake> {
    prop_oneof![Just(Wake::Schedule), Just(Wake::FirstUpdate), Just(Wake::FirstQuery), Just(Wake::Calendar)]
}

fn any_subscribe() -> impl Strategy<Value = QueueEvent> {
    (0..12i32, any_queue()).prop_map(|(handle, queue)| {
        let Join { handle, subscription, ip, .. } = joining(handle, "");
        QueueEvent::Subscribe(Subscribe { handle, queue: q(queue), subscription, ip })
    })
}

fn any_event() -> impl Strategy<Value = QueueEvent> {
    let handle = || (0..12i32).prop_map(Handle);
    prop_oneof![
        4 => any_join(),
        2 => any_subscribe(),
        4 => (handle(), 0..80u64, any_date())
            .prop_map(|(handle, next, date)| QueueEvent::Roll { handle, next: i(next), date }),
        1 => (handle(), any_window(), any_date())
            .prop_map(|(handle, window, date)| QueueEvent::Rebuilt { handle, window, date }),
        1 => (handle(), any_window(), any_date(), any::<bool>())
            .prop_map(|(handle, window, date, ok)| QueueEvent::Proved { handle, window, date, ok }),
        1 => (handle(), any_window(), any_date())
            .prop_map(|(handle, window, date)| QueueEvent::Unproved { handle, window, date }),
        2 => (handle(), any_leaving()).prop_map(|(handle, leaving)| QueueEvent::Leaving { handle, leaving }),
        3 => handle().prop_map(|handle| QueueEvent::Disconnect { handle }),
        1 => (0..NODES, any_process()).prop_map(|(node, process)| {
            QueueEvent::Evict { node: NodeName(format!("n{node}").into_bytes()), process }
        }),
        1 => (handle(), any_queue()).prop_map(|(handle, queue)| QueueEvent::Forget { handle, queue: q(queue) }),
        1 => any_date().prop_map(|new_date| QueueEvent::DayEnd { new_date }),
        3 => (handle(), prop::option::of(0..100u8), prop::option::of(0..4 * S), any::<bool>()).prop_map(
            |(handle, memory, quiet_ns, is_new)| {
                let (memory_percent, next) = (memory.map(f64::from), is_new.then_some(i(0)));
                let status = Status { memory_percent, roll_percent: Some(70.0), quiet_ns, next, ..Status::default() };
                QueueEvent::Status { handle, status }
            }
        ),
        1 => Just(QueueEvent::Wake),
        1 => (handle(), 0..80u64, any_date()).prop_map(|(handle, next, date)| QueueEvent::Written { handle, next: i(next), date }),
        2 => Just(QueueEvent::Tick),
        1 => Just(QueueEvent::Restored),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    /// No sequence of events breaks an invariant, and the journal restores the same table after every step (`Bench::step` checks both).
    /// Once enough nodes have joined and time has passed, no window is lost and each queue has one live subscriber.
    #[test]
    fn nothing_breaks_the_invariants(
        schedule in prop::collection::vec((any_event(), 0..5u64, 0..S), 1..80),
        standbys_kept in 0..2usize,
        cut in 0..80u64,
        sleeps in prop::option::of((any_wake(), 1..4 * S)),
    ) {
        // In half of the cases one of the two groups sleeps.
        let (wake, idle_ns) = sleeps.unwrap_or((Wake::Schedule, i64::MAX));
        let groups = sleeps.map(|_| b"g\0".to_vec()).into_iter().collect();
        let mut b = Bench::with(Params { standbys_kept, lost_rows_max: 2, groups, wake, idle_ns, ..Params::default() });
        for (event, updates, ns) in schedule {
            b.now_ns += ns;
            b.publish(updates);
            match event {
                QueueEvent::Restored => {
                    b.tip = b.tip.min(cut);
                    b.queue = b.restored();
                    b.step(QueueEvent::Restored);
                }
                QueueEvent::DayEnd { new_date } => {
                    let before = b.queue.date();
                    b.step(QueueEvent::DayEnd { new_date });
                    if b.queue.date() != before {
                        b.tip = 0;
                    }
                }
                event => {
                    b.step(event);
                }
            }
        }
        b.pass(60 * S);
        b.step(QueueEvent::Wake);
        let queues: Vec<QueueName> = b.queue.lines().keys().cloned().collect();
        for queue in &queues {
            for extra in 0..100 {
                let line = &b.queue.lines()[queue];
                let handed_on = b.queue.subscribers().iter().any(|s| s.queue == *queue && s.leaving.is_some());
                if line.lost.is_empty() && b.queue.live(queue).is_some() && !handed_on {
                    break;
                }
                let handle = 1_000 + extra + if *queue == q("rdb") { 0 } else { 500 };
                let join = Join { queue: queue.clone(), ..joining(handle, &format!("extra{handle}")) };
                b.step(QueueEvent::Join(join));
                b.finish_takeovers();
                prop_assert!(extra < 99, "nodes come and come and the queue is not whole");
            }
        }
    }
}
