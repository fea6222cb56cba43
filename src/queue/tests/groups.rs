//! Number of instances to request, with one queue on a group and with several.

use super::*;

fn at(handle: i32, queue: &str, instance: &str) -> QueueEvent {
    let (group, instance) = (Some(b"g".to_vec()), Some(instance.as_bytes().to_vec()));
    QueueEvent::Join(Join { queue: q(queue), group, instance, ..joining(handle, &format!("{queue}.{handle}")) })
}

/// Every [`Action::Group`] so far: connection, number of instances to request, joined instances.
#[derive(Default)]
struct Fleet(Vec<(i32, usize, Vec<String>)>);

impl Fleet {
    fn receive(&mut self, actions: Vec<Action>) {
        for action in actions {
            if let Action::Group { handle, desired, joined } = action {
                let names = joined.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
                self.0.push((handle.0, desired, names));
            }
        }
    }

    /// Returns the joined instances last sent on this connection.
    fn joined(&self, handle: i32) -> &[String] {
        &self.0.iter().rev().find(|(of, ..)| *of == handle).expect("told").2
    }

    fn desired(&self, handle: i32) -> usize {
        self.0.iter().rev().find(|(of, ..)| *of == handle).expect("told").1
    }
}

#[test]
fn one_queue_on_a_group_requests_its_position_plus_one() {
    let mut b = Bench::new();
    let mut fleet = Fleet::default();
    for at_node in 1..5 {
        fleet.receive(b.step(at(at_node, "rdb", &format!("i{at_node}"))));
        b.publish(10);
        assert_eq!(fleet.desired(at_node), at_node as usize + 1);
        let of = b.queue.by_handle(Handle(at_node)).unwrap();
        assert_eq!(b.queue.position(of), at_node as usize);
        let tip = b.tip;
        let rolled = b.roll(at_node, tip);
        assert!(rolled.contains(&need(1, at_node as usize + 1, Some(1))), "{rolled:?}");
    }
}

/// A queue whose only node has rolled, and the messages sent to that node since.
fn rolled_alone() -> (Bench, Fleet) {
    let (mut b, mut fleet) = (Bench::new(), Fleet::default());
    b.step(at(1, "rdb", "i1"));
    b.publish(10);
    fleet.receive(b.roll(1, 10));
    (b, fleet)
}

#[test]
fn without_a_live_node_a_sealed_one_learns_which_nodes_have_joined() {
    let (mut b, mut fleet) = rolled_alone();
    assert_eq!(fleet.joined(1), ["i1"]);
    b.publish(10);
    fleet.receive(b.step(at(2, "rdb", "i2")));
    assert_eq!(fleet.joined(1), [""; 0], "the next live one watches now");
    assert_eq!(fleet.joined(2), ["i1", "i2"]);
    fleet.receive(b.roll(2, 20));
    assert_eq!(fleet.joined(1), ["i1", "i2"]);
    assert_eq!(fleet.joined(2), [""; 0], "the first of those that can ask watches");
}

#[test]
fn a_disconnected_live_node_counts_as_joined_for_the_watcher() {
    let (mut b, mut fleet) = rolled_alone();
    fleet.receive(b.step(at(2, "rdb", "i2")));
    fleet.receive(b.disconnect(2));
    assert_eq!(fleet.joined(1), ["i1", "i2"]);
}

#[test]
fn a_node_that_names_no_instance_counts_alone() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.step(at(2, "other", "i2"));
    assert_eq!(b.queue.position(b.queue.by_handle(Handle(1)).unwrap()), 1);
    assert_eq!(b.queue.position(b.queue.by_handle(Handle(2)).unwrap()), 1);
}

#[test]
fn one_launch_serves_two_queues_that_have_a_node_on_every_instance() {
    let mut b = Bench::new();
    let mut fleet = Fleet::default();
    fleet.receive(b.step(at(1, "a", "i1")));
    fleet.receive(b.step(at(2, "b", "i1")));
    assert_eq!((fleet.desired(1), fleet.desired(2)), (2, 2));
    fleet.receive(b.step(at(3, "a", "i2")));
    assert_eq!((fleet.desired(1), fleet.desired(2)), (2, 2), "the other node of i2 is on its way");
    fleet.receive(b.step(at(4, "b", "i2")));
    assert_eq!((fleet.desired(1), fleet.desired(2)), (2, 2));
    b.publish(10);
    fleet.receive(b.step(QueueEvent::Roll { handle: Handle(1), next: i(10), date: TODAY }));
    assert_eq!((fleet.desired(3), fleet.desired(2)), (3, 2));
}

#[test]
fn an_instance_that_does_not_bring_its_other_node_counts_after_a_while() {
    let mut b = Bench::new();
    let mut fleet = Fleet::default();
    fleet.receive(b.step(at(1, "a", "i1")));
    fleet.receive(b.step(at(2, "b", "i1")));
    fleet.receive(b.step(at(3, "a", "i2")));
    let due_ns = b.queue.next_deadline_ns().expect("someone is expected");
    fleet.receive(b.pass(due_ns - b.now_ns));
    assert_eq!((fleet.desired(1), fleet.desired(2)), (2, 3));
}

#[test]
fn two_queues_with_instances_of_their_own_get_one_each_and_none_too_many() {
    let mut b = Bench::new();
    let mut fleet = Fleet::default();
    fleet.receive(b.step(at(1, "a", "i1")));
    fleet.receive(b.step(at(2, "b", "i2")));
    assert_eq!((fleet.desired(1), fleet.desired(2)), (3, 3), "both ask for the third: one is launched");
    fleet.receive(b.step(at(3, "a", "i3")));
    assert_eq!((fleet.desired(1), fleet.desired(2)), (3, 4), "the other's took it: ask again");
    fleet.receive(b.step(at(4, "b", "i4")));
    assert_eq!((fleet.desired(1), fleet.desired(2)), (4, 4), "there are four");
}

#[test]
fn a_need_met_by_another_queue_is_sent_again() {
    let mut b = Bench::new();
    b.step(at(1, "a", "i1"));
    b.step(at(2, "b", "i2"));
    b.publish(10);
    let needs = |actions: Vec<Action>| -> Vec<(usize, usize)> {
        let need = |action: &Action| match action {
            Action::NeedNode { missing, desired, .. } => Some((*missing, *desired)),
            _ => None,
        };
        actions.iter().filter_map(need).collect()
    };
    let roll = |handle| QueueEvent::Roll { handle: Handle(handle), next: i(10), date: TODAY };
    assert_eq!(needs(b.step(roll(1))), [(1, 3)]);
    assert_eq!(needs(b.step(roll(2))), [(1, 3)]);
    assert_eq!(needs(b.step(at(3, "a", "i3"))), [(1, 4)]);
    assert_eq!(needs(b.step(at(4, "b", "i4"))), []);
}

#[test]
fn an_instance_that_the_fleet_replaces_is_not_counted() {
    let mut b = Bench::new();
    b.step(at(1, "rdb", "i1"));
    b.step(at(2, "rdb", "i2"));
    b.publish(10);
    b.roll(1, 10);
    let leaving = |replaced| QueueEvent::Leaving { handle: Handle(1), leaving: Leaving { by_ns: 0, replaced } };
    assert!(b.step(leaving(false)).contains(&need(1, 3, Some(2))));
    b.step(leaving(true));
    assert_eq!(b.queue.position(b.queue.by_handle(Handle(2)).unwrap()), 1);
}

#[test]
fn a_live_node_that_the_fleet_replaces_says_so_and_its_successor_does_not_count_it() {
    for taken in [0, 10] {
        let mut b = Bench::new();
        b.step(at(1, "rdb", "i1"));
        b.step(at(2, "rdb", "i2"));
        b.publish(taken);
        b.step(QueueEvent::Leaving { handle: Handle(1), leaving: Leaving { by_ns: 0, replaced: true } });
        assert_eq!(b.queue.by_handle(Handle(1)).unwrap().state, State::Live, "it has not said yet what it took");
        let made_live = b.roll(1, taken);
        assert!(made_live.contains(&live(2, taken, taken)), "{made_live:?}");
        assert_eq!(b.queue.position(b.queue.by_handle(Handle(2)).unwrap()), 1);
        assert_eq!(made_live.contains(&Action::Left { handle: Handle(1) }), taken == 0, "{made_live:?}");
    }
}

#[test]
fn live_nodes_learn_which_instances_have_joined() {
    let mut b = Bench::new();
    let mut fleet = Fleet::default();
    fleet.receive(b.step(at(1, "rdb", "i1")));
    fleet.receive(b.step(at(2, "rdb", "i2")));
    assert_eq!(fleet.0.last(), Some(&(1, 2, vec!["i1".to_string(), "i2".to_string()])));
    fleet.receive(b.disconnect(2));
    assert_eq!(fleet.0.len(), 2, "one that is away has come up");
    fleet.receive(b.pass(60 * S));
    assert_eq!(fleet.0.last(), Some(&(1, 2, vec!["i1".to_string()])));
    let sent = fleet.0.len();
    b.publish(10);
    fleet.receive(b.pass(S));
    assert_eq!(fleet.0.len(), sent, "told when something has changed");
}

#[test]
fn instances_of_the_ended_day_have_come_up() {
    let (mut b, mut fleet) = rolled_alone();
    for handle in [2, 3] {
        fleet.receive(b.step(at(handle, "rdb", &format!("i{handle}"))));
    }
    b.publish(10);
    fleet.receive(b.roll(2, 20));
    b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 1) });
    b.tip = 0;
    fleet.receive(b.pass(S));
    assert_eq!(fleet.joined(3), ["i1", "i2", "i3"]);
    fleet.receive(b.step(at(4, "rdb", "i4")));
    assert_eq!(fleet.joined(3), ["i1", "i2", "i3", "i4"]);
    b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 2) });
    fleet.receive(b.pass(S));
    assert_eq!(fleet.joined(3), ["i1", "i2", "i3", "i4"], "an owner's `.u.end` may run past the end of the next day");
    b.now_ns += departed::KEPT_NS - 2 * S;
    b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 3) });
    fleet.receive(b.pass(S));
    assert_eq!(fleet.joined(3), ["i3", "i4"], "those of the first day are forgotten in the end");
}

#[test]
fn a_departed_instance_has_come_up_also_after_a_restart_of_the_tickerplant() {
    let (mut b, mut fleet) = rolled_alone();
    fleet.receive(b.step(at(2, "rdb", "i2")));
    fleet.receive(b.step(QueueEvent::Leaving { handle: Handle(2), leaving: Leaving { by_ns: 0, replaced: true } }));
    fleet.receive(b.roll(2, 10));
    b.queue = b.restored();
    b.step(QueueEvent::Restored);
    fleet.receive(b.step(at(3, "rdb", "i3")));
    assert_eq!(fleet.joined(3), ["i1", "i2", "i3"]);
}

#[test]
fn of_too_many_departed_instances_the_oldest_is_forgotten() {
    let mut departed = departed::Departed::default();
    let (group, name) = (b"g".to_vec(), |number: usize| number.to_string().into_bytes());
    for number in 0..departed::MAX_DEPARTED {
        departed.remember(&group, &name(number), 0);
    }
    departed.remember(&group, &name(0), 1);
    departed.remember(&group, &name(departed::MAX_DEPARTED), 1);
    let known: Vec<&Symbol> = departed.of(&group).collect();
    assert_eq!(known.len(), departed::MAX_DEPARTED);
    assert!(known.contains(&&name(0)), "it departed again");
    assert!(!known.contains(&&name(1)));
}

#[test]
fn a_live_node_whose_roll_arrives_after_the_day_has_ended_has_come_up() {
    let mut b = Bench::new();
    let mut fleet = Fleet::default();
    b.step(at(1, "rdb", "i1"));
    b.publish(10);
    b.step(QueueEvent::DayEnd { new_date: Date(TODAY.0 + 1) });
    b.tip = 0;
    b.step(QueueEvent::Roll { handle: Handle(1), next: i(10), date: TODAY });
    fleet.receive(b.step(at(2, "rdb", "i2")));
    assert_eq!(fleet.joined(2), ["i1", "i2"]);
}

#[test]
fn a_drained_instance_has_come_up() {
    let (mut b, mut fleet) = rolled_alone();
    fleet.receive(b.step(at(2, "rdb", "i2")));
    fleet.receive(b.step(QueueEvent::Leaving { handle: Handle(2), leaving: Leaving { by_ns: 0, replaced: true } }));
    fleet.receive(b.roll(2, 10));
    assert_eq!(b.queue.by_handle(Handle(2)), None);
    fleet.receive(b.step(at(3, "rdb", "i3")));
    assert_eq!(fleet.joined(3), ["i1", "i2", "i3"]);
}
