//! Updates that no connected node serves.

use super::*;

impl Bench {
    fn unserved(&self) -> u64 {
        self.queue.unserved(&q("rdb"), i(self.tip))
    }
}

#[test]
fn without_a_live_node_the_updates_since_the_roll_are_not_served() {
    let mut b = Bench::new();
    b.join(1, "a");
    b.publish(100);
    assert_eq!(b.unserved(), 0);
    b.roll(1, 90);
    assert_eq!(b.unserved(), 10);
    b.publish(50);
    assert_eq!(b.unserved(), 60);
    b.join(2, "b");
    assert_eq!(b.unserved(), 0, "the second is live from the roll on");
}

#[test]
fn updates_of_a_node_that_is_away_or_lost_are_not_served_until_another_has_rebuilt_them() {
    let mut b = Bench::of_nodes(2);
    b.roll(1, 60);
    b.disconnect(1);
    assert_eq!(b.unserved(), 60);
    b.disconnect(2);
    assert_eq!(b.unserved(), 100);
    b.step(rejoining(2, "b", &[], Some((60, 100))));
    b.pass(10 * S);
    assert_eq!(b.unserved(), 60);
    b.join(3, "c");
    assert_eq!(b.state(3), State::Rebuilding { window: w(0, 60), rejections: 0 });
    assert_eq!(b.unserved(), 60);
    b.rebuilt(3, w(0, 60));
    assert_eq!(b.unserved(), 0);
}
