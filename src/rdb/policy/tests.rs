use super::*;
use proptest::prelude::*;

const S: i64 = 1_000_000_000;
const GIB: u64 = 1 << 30;

fn policy(scale: Scale) -> Policy {
    Policy::new(Params::new(scale, 80.0).unwrap())
}

fn live(scale: Scale) -> Policy {
    let mut policy = policy(scale);
    policy.step(PolicyEvent::BecameLive, 0);
    policy
}

fn at_percent(percent: u64) -> PolicyEvent {
    PolicyEvent::Memory { used_bytes: percent * GIB, budget_bytes: 100 * GIB }
}

/// Actions of a step, except reports and protection.
fn step(policy: &mut Policy, event: PolicyEvent, now_ns: i64) -> Vec<Action> {
    let mut actions = policy.step(event, now_ns);
    actions.retain(|action| !matches!(action, Action::Report | Action::Protect(_)));
    actions
}

#[test]
fn thresholds_are_numbers_between_0_and_100_and_scale_is_not_above_roll() {
    assert_eq!(Params::new(Scale::At(60.0), 101.0), Err(ThresholdError::OutOfRange("roll", 101.0)));
    assert_eq!(Params::new(Scale::At(-1.0), 80.0), Err(ThresholdError::OutOfRange("scale", -1.0)));
    assert_eq!(Params::new(Scale::At(81.0), 80.0), Err(ThresholdError::ScaleAboveRoll { scale: 81.0, roll: 80.0 }));
    assert!(Params::new(Scale::At(f64::NAN), 80.0).is_err());
    assert!(Params::new(Scale::At(80.0), 80.0).is_ok());
    assert!(Params::new(Scale::Auto, 0.0).is_ok());
}

#[test]
fn a_live_node_requests_its_successor_once() {
    let mut policy = live(Scale::At(60.0));
    assert_eq!(step(&mut policy, at_percent(59), S), []);
    assert_eq!(step(&mut policy, at_percent(60), 2 * S), [Action::ScaleOut]);
    assert_eq!(step(&mut policy, at_percent(61), 3 * S), []);
    policy.step(PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), 4 * S);
    assert_eq!(step(&mut policy, at_percent(70), 1_000 * S), []);
    assert!(policy.has_scaled());
}

#[test]
fn a_waiting_node_neither_scales_nor_rolls() {
    let mut policy = policy(Scale::At(60.0));
    assert_eq!(step(&mut policy, at_percent(99), 0), []);
}

#[test]
fn it_rolls_once_at_the_roll_level_and_takes_nothing_after() {
    let mut policy = live(Scale::At(60.0));
    assert!(policy.takes_updates());
    step(&mut policy, at_percent(60), S);
    assert_eq!(step(&mut policy, at_percent(80), 2 * S), [Action::Roll]);
    assert!(!policy.takes_updates());
    assert_eq!(step(&mut policy, at_percent(90), 3 * S), []);
    assert_eq!(policy.phase(), Phase::Rolled);
}

#[test]
fn a_jump_over_both_levels_scales_and_then_rolls() {
    let mut policy = live(Scale::At(60.0));
    assert_eq!(step(&mut policy, at_percent(85), S), [Action::ScaleOut, Action::Roll]);
}

#[test]
fn bytes_between_two_readings_count() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(50), S);
    assert_eq!(step(&mut policy, PolicyEvent::Taken { bytes: 9 * GIB }, S), []);
    assert_eq!(step(&mut policy, PolicyEvent::Taken { bytes: GIB }, S), [Action::ScaleOut]);
    assert_eq!(step(&mut policy, PolicyEvent::Taken { bytes: 20 * GIB }, S), [Action::Roll]);
}

#[test]
fn a_reading_replaces_what_was_counted() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(50), S);
    step(&mut policy, PolicyEvent::Taken { bytes: 9 * GIB }, S);
    step(&mut policy, at_percent(52), S);
    assert_eq!(policy.memory_percent(), Some(52.0));
}

/// Regression against the paper's node, whose replay goes on after the roll and which then takes the feed again.
#[test]
fn a_roll_during_replay_is_final() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(10), 0);
    assert_eq!(step(&mut policy, PolicyEvent::Replayed { bytes: 75 * GIB }, S), [Action::ScaleOut, Action::Roll]);
    assert_eq!(step(&mut policy, PolicyEvent::Replayed { bytes: GIB }, S), []);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 2 * S), []);
    assert!(!policy.takes_updates());
}

#[test]
fn a_rebuilding_node_rolls_when_full_but_asks_for_no_successor() {
    let mut policy = policy(Scale::At(60.0));
    policy.step(PolicyEvent::BecameRebuilding, 0);
    assert_eq!(step(&mut policy, at_percent(89), S), [], "what another held up to 80 fits, with what the replay takes");
    assert_eq!(step(&mut policy, at_percent(90), 2 * S), [Action::Roll]);
}

#[test]
fn a_finished_rebuild_counts_as_rolled() {
    let mut policy = policy(Scale::At(60.0));
    policy.step(PolicyEvent::BecameRebuilding, 0);
    policy.step(PolicyEvent::RebuildDone, S);
    assert!(!policy.takes_updates());
    assert_eq!(step(&mut policy, at_percent(90), 2 * S), []);
}

#[test]
fn a_rejection_is_repeated_with_growing_pauses() {
    let mut policy = live(Scale::At(60.0));
    let mut now_ns = S;
    assert_eq!(step(&mut policy, at_percent(60), now_ns), [Action::ScaleOut]);
    for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Refused), now_ns), []);
        assert_eq!(step(&mut policy, PolicyEvent::Tick, now_ns + pause * S - 1), []);
        now_ns += pause * S;
        assert_eq!(step(&mut policy, PolicyEvent::Tick, now_ns), [Action::ScaleOut]);
    }
}

#[test]
fn at_the_groups_maximum_requests_are_rare() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(60), 0);
    assert_eq!(policy.fleet_max(), None);
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::AtMaximum { instances: 3 }), 0);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 59 * S), []);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 60 * S), [Action::ScaleOut]);
    assert_eq!(policy.fleet_max(), Some(3), "until the fleet answers again");
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), 61 * S);
    assert_eq!(policy.fleet_max(), None);
}

#[test]
fn the_groups_maximum_matters_only_to_a_live_node_of_the_day() {
    let at_maximum = PolicyEvent::ScaleAnswer(ScaleAnswer::AtMaximum { instances: 3 });
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(60), 0);
    step(&mut policy, at_maximum, 0);
    step(&mut policy, PolicyEvent::DayEnd, S);
    assert_eq!(policy.fleet_max(), None);
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(60), 0);
    step(&mut policy, at_maximum, 0);
    step(&mut policy, at_percent(85), S);
    assert_eq!((policy.phase(), policy.fleet_max()), (Phase::Rolled, None));
}

#[test]
fn no_answer_is_a_rejection() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(60), 0);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 60 * S), []);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 61 * S), [Action::ScaleOut]);
}

#[test]
fn a_rolled_node_still_sees_its_request_through() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(85), 0);
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Refused), 0);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, S), [Action::ScaleOut]);
}

#[test]
fn a_reconnect_does_not_forget_that_it_scaled() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(60), 0);
    assert_eq!(step(&mut policy, PolicyEvent::BecameLive, S), []);
    assert_eq!(step(&mut policy, at_percent(61), 2 * S), []);
}

#[test]
fn a_late_answer_after_the_day_end_is_no_answer_for_the_new_day() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(60), 0);
    step(&mut policy, PolicyEvent::DayEnd, S);
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), 2 * S);
    assert!(!policy.has_scaled());
}

#[test]
fn missing_nodes_are_requested_even_after_a_granted_request() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(60), 0);
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), S);
    assert_eq!(step(&mut policy, PolicyEvent::NodesMissing, 2 * S), [Action::ScaleOut]);
}

#[test]
fn asking_for_missing_nodes_is_not_asking_for_a_successor() {
    let mut policy = live(Scale::At(60.0));
    assert_eq!(step(&mut policy, PolicyEvent::NodesMissing, 0), [Action::ScaleOut]);
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), S);
    assert!(!policy.has_scaled(), "its successor is not on its way");
    assert_eq!(step(&mut policy, at_percent(60), 2 * S), [Action::ScaleOut]);
    assert!(policy.has_scaled());
}

#[test]
fn a_rolled_node_wants_no_successor_any_more() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(60), 0);
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), S);
    assert_eq!(step(&mut policy, at_percent(90), 2 * S), [Action::Roll]);
    assert!(!policy.has_scaled());
}

#[test]
fn nodes_missing_during_a_request_are_requested_once_it_is_granted() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(60), 0);
    assert_eq!(step(&mut policy, PolicyEvent::NodesMissing, S), [], "the request is still open");
    assert_eq!(step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), 2 * S), [Action::ScaleOut]);
    assert_eq!(step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), 3 * S), []);
}

#[test]
fn auto_scales_when_the_time_left_comes_under_lead_times() {
    let mut policy = live(Scale::Auto);
    policy.step(PolicyEvent::LeadTime { lead_ns: 10 * S }, 0);
    let mut scaled_at = None;
    // 1 GiB a second with readings in between: 80 seconds until the roll level of 80 GiB.
    for second in 0..80 {
        let now_ns = second * S;
        let used_bytes = second as u64 * GIB;
        let mut actions = step(&mut policy, PolicyEvent::Memory { used_bytes, budget_bytes: 100 * GIB }, now_ns);
        actions.extend(step(&mut policy, PolicyEvent::Taken { bytes: GIB }, now_ns));
        if actions.contains(&Action::ScaleOut) {
            assert_eq!(scaled_at.replace(second), None, "asked twice");
        }
    }
    assert_eq!(scaled_at, Some(50), "three lead times of 10 s before 80 s");
}

#[test]
fn auto_scales_sooner_when_the_rate_is_higher() {
    let scaled_at_percent = |bytes_per_second: u64| {
        let mut policy = live(Scale::Auto);
        policy.step(PolicyEvent::LeadTime { lead_ns: 10 * S }, 0);
        policy.step(PolicyEvent::Memory { used_bytes: 0, budget_bytes: 100 * GIB }, 0);
        (0..).find(|second| {
            step(&mut policy, PolicyEvent::Taken { bytes: bytes_per_second }, second * S).contains(&Action::ScaleOut)
        })
    };
    let (slow, fast) = (scaled_at_percent(GIB / 4).unwrap(), scaled_at_percent(2 * GIB).unwrap());
    assert!(fast < slow);
    assert!(fast * 8 < slow * 2, "by time left, not by a fixed level: {fast} s and {slow} s");
}

#[test]
fn auto_does_not_take_replay_for_the_feeds_rate() {
    let mut policy = live(Scale::Auto);
    policy.step(PolicyEvent::LeadTime { lead_ns: S }, 0);
    policy.step(at_percent(0), 0);
    for second in 0..39 {
        assert_eq!(step(&mut policy, PolicyEvent::Replayed { bytes: GIB }, second * S), []);
    }
    assert_eq!(policy.bytes_per_second(), None);
    assert_eq!(
        step(&mut policy, PolicyEvent::Replayed { bytes: GIB }, 39 * S),
        [Action::ScaleOut],
        "half of the roll level"
    );
}

#[test]
fn the_cushion_is_the_time_from_scale_to_roll_in_lead_times() {
    let mut policy = live(Scale::At(60.0));
    policy.step(PolicyEvent::LeadTime { lead_ns: 20 * S }, 0);
    step(&mut policy, at_percent(60), 100 * S);
    step(&mut policy, at_percent(80), 150 * S);
    assert_eq!(policy.cushion(1_000 * S), Some(2.5));
}

#[test]
fn a_live_nodes_cushion_is_foreseen() {
    let mut policy = live(Scale::At(60.0));
    policy.step(PolicyEvent::LeadTime { lead_ns: 10 * S }, 0);
    step(&mut policy, PolicyEvent::Taken { bytes: GIB }, 0);
    step(&mut policy, at_percent(60), S);
    // 20 GiB left at 1 GiB a second.
    assert_eq!(policy.cushion(S), Some(2.0));
}

#[test]
fn a_live_node_clears_at_the_days_end_and_may_scale_again() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(70), 0);
    step(&mut policy, PolicyEvent::ScaleAnswer(ScaleAnswer::Granted), 0);
    assert_eq!(step(&mut policy, PolicyEvent::DayEnd, S), [Action::Clear]);
    assert!(policy.takes_updates());
    assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(0), S), [], "it is live: it stays");
    assert_eq!(step(&mut policy, at_percent(60), 2 * S), [Action::ScaleOut]);
}

#[test]
fn a_reading_from_before_the_clear_decides_nothing_after_it() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(79), 0);
    step(&mut policy, PolicyEvent::DayEnd, S);
    assert_eq!(step(&mut policy, PolicyEvent::Taken { bytes: 2 * GIB }, 2 * S), []);
    assert_eq!(policy.memory_percent(), None);
}

#[test]
fn a_rolled_node_ends_when_rows_are_gone_and_queries_drained() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(85), 0);
    step(&mut policy, PolicyEvent::QueriesInFlight(2), S);
    assert_eq!(step(&mut policy, PolicyEvent::DayEnd, 2 * S), [Action::Clear]);
    assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(0), 3 * S), []);
    assert_eq!(step(&mut policy, PolicyEvent::QueriesInFlight(1), 4 * S), []);
    assert_eq!(step(&mut policy, PolicyEvent::QueriesInFlight(0), 5 * S), [Action::Terminate]);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 6 * S), [], "once");
}

#[test]
fn a_rolled_node_does_not_end_while_the_ended_day_is_saved_but_not_for_ever() {
    let ending = || {
        let mut policy = live(Scale::At(60.0));
        step(&mut policy, at_percent(85), 0);
        policy.keep_day(600 * S);
        assert_eq!(step(&mut policy, PolicyEvent::DayEnd, S), [Action::Clear]);
        assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(0), 2 * S), []);
        assert_eq!(step(&mut policy, PolicyEvent::Tick, 100 * S), [], "longer than queries may take");
        policy
    };
    assert_eq!(step(&mut ending(), PolicyEvent::DaySaved, 101 * S), [Action::Terminate]);
    let mut hangs = ending();
    assert_eq!(hangs.next_deadline_ns().max(600 * S), 600 * S);
    assert_eq!(step(&mut hangs, PolicyEvent::Tick, 600 * S), [Action::Terminate]);
}

#[test]
fn queries_have_their_time_and_no_more() {
    let mut policy = policy(Scale::At(60.0));
    step(&mut policy, PolicyEvent::QueriesInFlight(1), 0);
    step(&mut policy, PolicyEvent::DayEnd, 0);
    step(&mut policy, PolicyEvent::RowsLeft(0), 0);
    assert_eq!(policy.next_deadline_ns().max(30 * S), 30 * S);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 30 * S - 1), []);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 30 * S), [Action::Terminate]);
}

#[test]
fn a_node_with_rows_never_ends() {
    let mut policy = policy(Scale::At(60.0));
    step(&mut policy, PolicyEvent::DayEnd, 0);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, S), [], "rows not counted yet");
    step(&mut policy, PolicyEvent::RowsLeft(7), S);
    assert_eq!(step(&mut policy, PolicyEvent::Tick, 1_000 * S), []);
}

#[test]
fn a_node_made_live_before_it_went_stays() {
    let mut policy = policy(Scale::At(60.0));
    step(&mut policy, PolicyEvent::DayEnd, 0);
    step(&mut policy, PolicyEvent::BecameLive, S);
    assert_eq!(step(&mut policy, PolicyEvent::RowsLeft(0), 2 * S), []);
    assert_eq!(policy.phase(), Phase::Live);
}

#[test]
fn a_node_that_the_fleet_keeps_joins_again() {
    let mut policy = policy(Scale::At(60.0));
    step(&mut policy, PolicyEvent::DayEnd, 0);
    step(&mut policy, PolicyEvent::RowsLeft(0), 0);
    assert_eq!(step(&mut policy, PolicyEvent::TerminateRefused, S), [Action::Rejoin]);
    assert_eq!(policy.phase(), Phase::Waiting);
}

#[test]
fn a_dropped_node_forgets_and_waits() {
    let mut policy = live(Scale::At(60.0));
    step(&mut policy, at_percent(85), 0);
    assert_eq!(step(&mut policy, PolicyEvent::Dropped, S), [Action::Clear]);
    assert_eq!(policy.phase(), Phase::Waiting);
    step(&mut policy, PolicyEvent::BecameLive, 2 * S);
    assert_eq!(step(&mut policy, at_percent(60), 3 * S), [Action::ScaleOut]);
}

#[test]
fn reports_come_at_their_interval() {
    let mut policy = policy(Scale::At(60.0));
    assert_eq!(policy.step(PolicyEvent::Tick, 0), [Action::Report]);
    assert_eq!(policy.step(PolicyEvent::Tick, S - 1), []);
    assert_eq!(policy.next_deadline_ns(), S);
    assert_eq!(policy.step(PolicyEvent::Tick, S), [Action::Report]);
}

fn any_event() -> impl Strategy<Value = PolicyEvent> {
    prop_oneof![
        (0..110u64).prop_map(at_percent),
        (0..8 * GIB).prop_map(|bytes| PolicyEvent::Taken { bytes }),
        (0..8 * GIB).prop_map(|bytes| PolicyEvent::Replayed { bytes }),
        Just(PolicyEvent::Memory { used_bytes: u64::MAX, budget_bytes: 0 }),
        Just(PolicyEvent::BecameLive),
        Just(PolicyEvent::BecameRebuilding),
        Just(PolicyEvent::RebuildDone),
        Just(PolicyEvent::Dropped),
        Just(PolicyEvent::DayEnd),
        (0..3u64).prop_map(PolicyEvent::RowsLeft),
        (0..3u64).prop_map(PolicyEvent::QueriesInFlight),
        Just(PolicyEvent::ScaleAnswer(ScaleAnswer::Granted)),
        Just(PolicyEvent::ScaleAnswer(ScaleAnswer::Refused)),
        Just(PolicyEvent::ScaleAnswer(ScaleAnswer::AtMaximum { instances: 3 })),
        Just(PolicyEvent::NodesMissing),
        Just(PolicyEvent::TerminateRefused),
        (0..100 * S).prop_map(|lead_ns| PolicyEvent::LeadTime { lead_ns }),
        Just(PolicyEvent::Tick),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariant under any schedule: the node rolls only while it takes updates and takes none afterwards; it ends only
    /// after a day's end, without rows, and not while live.
    #[test]
    fn no_schedule_makes_it_roll_twice_or_end_with_rows(
        auto in any::<bool>(),
        events in prop::collection::vec((any_event(), 0..20 * S), 1..200),
    ) {
        let mut policy = policy(if auto { Scale::Auto } else { Scale::At(60.0) });
        let mut now_ns = 0;
        let mut rows_left = None;
        for (event, passed_ns) in events {
            now_ns += passed_ns;
            let took = policy.takes_updates();
            let terminated = policy.phase() == Phase::Terminated;
            match event {
                PolicyEvent::DayEnd => rows_left = None,
                PolicyEvent::RowsLeft(rows) => rows_left = Some(rows),
                _ => {}
            }
            let actions = policy.step(event, now_ns);
            if actions.contains(&Action::Roll) {
                prop_assert!(took || matches!(event, PolicyEvent::BecameLive | PolicyEvent::BecameRebuilding));
                prop_assert!(!policy.takes_updates());
            }
            if actions.contains(&Action::Terminate) {
                prop_assert!(!terminated && !took && rows_left == Some(0));
            }
            prop_assert!(actions.iter().filter(|a| **a == Action::ScaleOut).count() <= 1);
            prop_assert!(policy.next_deadline_ns() > now_ns || policy.phase() == Phase::Terminated);
        }
    }
}
