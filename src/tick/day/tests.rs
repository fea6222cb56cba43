use super::*;

const NOON_NS: i64 = 43_200_000_000_000;

/// Days roll at midnight.
fn calendar(now_ns: i64) -> Calendar {
    let today = now_ns.div_euclid(DAY_NS);
    Calendar::daily(Date(i32::try_from(today).unwrap()), (today + 1) * DAY_NS)
}

/// Both clocks, in agreement.
fn at(ns: i64) -> Now {
    Now { wall_ns: ns, steady_ns: ns }
}

fn start(newest_log: Option<Date>, now_ns: i64) -> Day {
    start_on(newest_log, now_ns, None)
}

fn start_on(newest_log: Option<Date>, now_ns: i64, today: Option<Date>) -> Day {
    let clock_limits = ClockLimits { jump_ns: 3 * DAY_NS, pause_ns: 31 * DAY_NS, today };
    Day::start(newest_log, calendar(now_ns), at(now_ns), clock_limits)
}

/// Carries out all actions; `fails` selects those that fail.
fn run(day: &mut Day, first: DayEvent, now_ns: i64, fails: impl Fn(Action) -> bool) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut event = first;
    while let Some(action) = day.step(event, at(now_ns)) {
        actions.push(action);
        event = if fails(action) { DayEvent::Failed } else { DayEvent::Done };
    }
    actions
}

fn roll(from: i32, to: i32) -> Vec<Action> {
    let (from, to) = (Date(from), Date(to));
    vec![
        Action::Flush { from, to, days_left_out: (to.0 - from.0 - 1) as u32 },
        Action::RollLog { date: to },
        Action::SendEnd { date: from },
        Action::EndQueueDay { new_date: to },
        Action::ReleaseLogs { date: from },
    ]
}

#[test]
fn nothing_happens_before_the_roll_is_due() {
    let mut day = start(None, NOON_NS);
    assert!(!day.is_due(at(DAY_NS - 1)));
    assert_eq!(day.step(DayEvent::Clock(calendar(DAY_NS - 1)), at(DAY_NS - 1)), None);
    assert_eq!(day.date(), Date(0));
}

#[test]
fn the_day_rolls_at_its_instant_in_order() {
    let mut day = start(None, NOON_NS);
    assert!(day.is_due(at(DAY_NS)));
    assert_eq!(run(&mut day, DayEvent::Clock(calendar(DAY_NS)), DAY_NS, |_| false), roll(0, 1));
    assert_eq!(day.date(), Date(1));
    assert_eq!(day.left_ns(at(DAY_NS)), DAY_NS);
}

#[test]
fn the_old_date_holds_until_the_last_step_is_done() {
    let mut day = start(None, NOON_NS);
    let mut event = DayEvent::Clock(calendar(DAY_NS));
    for _ in 0..5 {
        assert!(day.step(event, at(DAY_NS)).is_some());
        assert_eq!(day.date(), Date(0));
        assert!(day.is_rolling());
        event = DayEvent::Done;
    }
    assert_eq!(day.step(DayEvent::Done, at(DAY_NS)), None);
    assert_eq!(day.date(), Date(1));
    assert!(!day.is_rolling());
}

#[test]
fn a_roll_under_way_is_not_begun_again() {
    let mut day = start(None, NOON_NS);
    day.step(DayEvent::Manual, at(NOON_NS));
    assert_eq!(day.step(DayEvent::Manual, at(NOON_NS)), None);
    assert_eq!(day.step(DayEvent::Clock(calendar(DAY_NS)), at(DAY_NS)), None);
    assert_eq!(day.step(DayEvent::Done, at(DAY_NS)), Some(Action::RollLog { date: Date(1) }));
}

#[test]
fn a_day_ended_by_hand_is_not_ended_again_by_the_clock() {
    let mut day = start(None, NOON_NS);
    assert_eq!(run(&mut day, DayEvent::Manual, NOON_NS, |_| false), roll(0, 1));
    assert_eq!(run(&mut day, DayEvent::Clock(calendar(DAY_NS)), DAY_NS, |_| false), vec![]);
    assert_eq!(run(&mut day, DayEvent::Clock(calendar(2 * DAY_NS)), 2 * DAY_NS, |_| false), roll(1, 2));
}

#[test]
fn one_day_may_be_ended_ahead_of_the_calendar_and_more_by_force() {
    let mut day = start(None, NOON_NS);
    for from in 0..3 {
        assert_eq!([false, true].map(|force| day.may_end_by_hand(calendar(NOON_NS), force)), [from == 0, true]);
        assert_eq!(run(&mut day, DayEvent::Manual, NOON_NS, |_| false), roll(from, from + 1));
        assert_eq!(day.stuck_ahead(calendar(NOON_NS)), None);
    }
    assert!(!day.may_end_by_hand(calendar(NOON_NS), true), "no further than the clock may jump");
    assert!(day.may_end_by_hand(calendar(NOON_NS + DAY_NS), true), "one more on the next calendar day");
    assert!(day.may_end_by_hand(calendar(NOON_NS + 3 * DAY_NS), false), "the calendar has caught up");
    let clock_limits = ClockLimits { jump_ns: 0, pause_ns: 0, today: None };
    let mut day = Day::start(None, calendar(NOON_NS), at(NOON_NS), clock_limits);
    assert!(day.may_end_by_hand(calendar(NOON_NS), false), "once, whatever the limit");
    run(&mut day, DayEvent::Manual, NOON_NS, |_| false);
    assert!(!day.may_end_by_hand(calendar(NOON_NS), true));
}

#[test]
fn days_that_were_slept_through_are_left_out_and_counted() {
    let mut day = start(None, NOON_NS);
    let late_ns = 5 * DAY_NS + 1;
    let actions = run(&mut day, DayEvent::Clock(calendar(late_ns)), late_ns, |_| false);
    assert_eq!(actions.first(), Some(&Action::Flush { from: Date(0), to: Date(5), days_left_out: 4 }));
    assert_eq!(day.date(), Date(5));
}

#[test]
fn a_log_that_cannot_be_made_leaves_the_old_day_going_and_is_tried_again() {
    let mut day = start(None, NOON_NS);
    let full = |action| matches!(action, Action::RollLog { .. });
    let actions = run(&mut day, DayEvent::Clock(calendar(DAY_NS)), DAY_NS, full);
    assert_eq!(actions, roll(0, 1)[..2], "no message is sent");
    assert_eq!(day.date(), Date(0));
    assert!(!day.is_due(at(DAY_NS + RETRY_NS - 1)));
    let again_ns = DAY_NS + RETRY_NS;
    assert!(day.is_due(at(again_ns)));
    assert_eq!(run(&mut day, DayEvent::Clock(calendar(again_ns)), again_ns, |_| false), roll(0, 1));
}

#[test]
fn an_end_by_hand_that_failed_is_tried_again_too() {
    let mut day = start(None, NOON_NS);
    run(&mut day, DayEvent::Manual, NOON_NS, |action| matches!(action, Action::RollLog { .. }));
    let again_ns = NOON_NS + RETRY_NS;
    assert_eq!(run(&mut day, DayEvent::Clock(calendar(again_ns)), again_ns, |_| false), roll(0, 1));
}

#[test]
fn a_failed_sync_of_the_old_log_does_not_stop_the_roll() {
    let mut day = start(None, NOON_NS);
    let actions = run(&mut day, DayEvent::Clock(calendar(DAY_NS)), DAY_NS, |a| !matches!(a, Action::RollLog { .. }));
    assert_eq!(actions, roll(0, 1));
    assert_eq!(day.date(), Date(1));
}

#[test]
fn a_clock_that_goes_back_rolls_nothing() {
    let mut day = start(Some(Date(7)), 7 * DAY_NS);
    assert_eq!(day.step(DayEvent::Clock(calendar(6 * DAY_NS)), at(6 * DAY_NS)), None);
    assert_eq!(day.date(), Date(7));
}

#[test]
fn a_restart_in_an_old_log_ends_that_day_first() {
    let now_ns = 3 * DAY_NS + NOON_NS;
    let mut day = start(Some(Date(1)), now_ns);
    assert_eq!(day.date(), Date(1));
    assert!(day.is_due(at(now_ns)));
    assert_eq!(run(&mut day, DayEvent::Clock(calendar(now_ns)), now_ns, |_| false), roll(1, 3));
}

/// After a crash in any step, the restart ends up in the same day; the existence of the new log decides.
#[test]
fn a_death_in_any_step_is_made_good_at_the_next_start() {
    for steps_done in 0..=5 {
        let mut day = start(None, NOON_NS);
        let mut newest_log = Date(0);
        let mut event = DayEvent::Clock(calendar(DAY_NS));
        for _ in 0..steps_done {
            if let Some(Action::RollLog { date }) = day.step(event, at(DAY_NS)) {
                newest_log = date;
            }
            event = DayEvent::Done;
        }
        let mut day = start(Some(newest_log), DAY_NS);
        let actions = run(&mut day, DayEvent::Clock(calendar(DAY_NS)), DAY_NS, |_| false);
        assert_eq!(day.date(), Date(1), "after {steps_done} steps");
        assert_eq!(actions.is_empty(), newest_log == Date(1), "after {steps_done} steps");
    }
}

#[test]
fn a_restart_after_an_end_by_hand_stays_in_the_new_day() {
    let mut day = start(Some(Date(1)), NOON_NS);
    assert_eq!(day.date(), Date(1));
    assert_eq!(run(&mut day, DayEvent::Clock(calendar(NOON_NS)), NOON_NS, |_| false), vec![]);
}

/// What the tickerplant does when it checks the clocks.
fn due_actions(day: &mut Day, now: Now) -> Vec<Action> {
    if day.has_changed(now) {
        day.check_clock(now, calendar(now.wall_ns));
    }
    if !day.is_due(now) {
        return Vec::new();
    }
    let mut actions = Vec::new();
    let mut event = DayEvent::Clock(calendar(day.time_ns(now)));
    while let Some(action) = day.step(event, now) {
        actions.push(action);
        event = DayEvent::Done;
    }
    actions
}

#[test]
fn a_clock_ten_years_ahead_for_two_seconds_ends_no_day() {
    const SECOND_NS: i64 = 1_000_000_000;
    let mut day = start(None, NOON_NS);
    let ahead = |ns| Now { wall_ns: ns + 3652 * DAY_NS, steady_ns: ns };
    assert_eq!(due_actions(&mut day, ahead(NOON_NS + SECOND_NS)), vec![]);
    assert_eq!(due_actions(&mut day, ahead(NOON_NS + 2 * SECOND_NS)), vec![]);
    assert_eq!(due_actions(&mut day, at(NOON_NS + 3 * SECOND_NS)), vec![]);
    assert_eq!(due_actions(&mut day, at(DAY_NS)), roll(0, 1));
}

#[test]
fn days_end_by_the_steady_clock_while_the_wall_clock_is_wrong() {
    for off in [3652 * DAY_NS, -3652 * DAY_NS] {
        let mut day = start(None, NOON_NS);
        let wrong = |ns| Now { wall_ns: ns + off, steady_ns: ns };
        assert_eq!(due_actions(&mut day, wrong(DAY_NS - 1)), vec![]);
        assert_eq!(due_actions(&mut day, wrong(DAY_NS)), roll(0, 1));
        assert_eq!(due_actions(&mut day, wrong(2 * DAY_NS)), roll(1, 2));
        assert_eq!(due_actions(&mut day, at(2 * DAY_NS + NOON_NS)), vec![]);
        assert_eq!(due_actions(&mut day, at(3 * DAY_NS)), roll(2, 3));
    }
}

#[test]
fn a_step_within_the_limit_ends_the_day_and_a_pause_of_the_machine_too() {
    let mut day = start(None, NOON_NS);
    let ahead = |ns| Now { wall_ns: ns + 2 * DAY_NS, steady_ns: ns };
    assert_eq!(due_actions(&mut day, ahead(NOON_NS)), roll(0, 2));
    // Both clocks count 30 days of suspend.
    assert_eq!(due_actions(&mut day, at(30 * DAY_NS)), roll(2, 30));
}

#[test]
fn a_clock_set_back_does_not_put_off_a_roll_that_failed() {
    let mut day = start(None, NOON_NS);
    let full = |action| matches!(action, Action::RollLog { .. });
    run(&mut day, DayEvent::Clock(calendar(DAY_NS)), DAY_NS, full);
    let back = Now { wall_ns: DAY_NS - NOON_NS, steady_ns: DAY_NS + RETRY_NS };
    assert_eq!(due_actions(&mut day, back), roll(0, 1));
}

#[test]
fn a_day_far_ahead_of_the_clock_is_reported() {
    let ahead = |log, now_ns| start(Some(Date(log)), now_ns).stuck_ahead(calendar(now_ns));
    assert_eq!((ahead(3652, NOON_NS), ahead(4, NOON_NS)), (Some(3652), Some(4)));
    assert_eq!((ahead(3, NOON_NS), ahead(0, NOON_NS), ahead(0, 30 * DAY_NS)), (None, None, None));
}

#[test]
fn a_machine_that_boots_with_a_clock_far_behind_is_set_right_later() {
    const YEARS_NS: i64 = 20_000 * DAY_NS;
    let booted = NOON_NS;
    for (log, rolls) in [(20_000, vec![]), (19_999, roll(19_999, 20_000))] {
        let mut day = start(Some(Date(log)), booted);
        assert!(day.stuck_ahead(calendar(booted)).is_some());
        assert_eq!(due_actions(&mut day, at(booted + 1)), vec![]);
        let right = |ns| Now { wall_ns: YEARS_NS + ns, steady_ns: ns };
        assert_eq!(due_actions(&mut day, right(booted + 2)), rolls);
        assert_eq!((day.jump_ns(right(booted + 3)), day.stuck_ahead(calendar(YEARS_NS + booted))), (None, None));
        assert_eq!(due_actions(&mut day, right(DAY_NS)), roll(20_000, 20_001));
        // From here on the clock is trusted no more than any other.
        let ahead = Now { wall_ns: 2 * YEARS_NS, steady_ns: DAY_NS + 1 };
        assert_eq!((due_actions(&mut day, ahead), day.jump_ns(ahead).is_some()), (vec![], true));
    }
}

const TEN_YEARS: i64 = 3652;

/// Clocks that many days after the newest log plus `ns`, without a jump since a start at noon of day 0.
fn days_on(days: i64, ns: i64) -> Now {
    Now { wall_ns: days * DAY_NS + NOON_NS + ns, steady_ns: NOON_NS + ns }
}

fn start_late(days: i64, today: Option<Date>) -> Day {
    let clock_limits = ClockLimits { jump_ns: 3 * DAY_NS, pause_ns: 31 * DAY_NS, today };
    let now = days_on(days, 0);
    Day::start(Some(Date(0)), calendar(now.wall_ns), now, clock_limits)
}

#[test]
fn a_start_with_a_clock_ten_years_ahead_ends_no_day() {
    let mut day = start_late(TEN_YEARS, None);
    let now = days_on(TEN_YEARS, 0);
    assert_eq!((day.too_late(calendar(now.wall_ns)), day.is_due(now)), (Some(TEN_YEARS), false));
    for ns in [0, NOON_NS, 10 * DAY_NS] {
        assert_eq!((due_actions(&mut day, days_on(TEN_YEARS, ns)), day.ignores_wall_clock()), (vec![], true));
    }
}

#[test]
fn a_clock_that_was_ahead_at_the_start_is_followed_once_it_is_set_right() {
    for (right, rolls) in [(0, vec![]), (1, roll(0, 1)), (31, roll(0, 31))] {
        let mut day = start_late(TEN_YEARS, None);
        assert_eq!((due_actions(&mut day, days_on(right, 0)), day.ignores_wall_clock()), (rolls, false), "{right}");
        assert_eq!(day.jump_ns(days_on(right, 1)), None);
        let (from, to) = (i32::try_from(right).unwrap(), i32::try_from(right + 1).unwrap());
        assert_eq!(due_actions(&mut day, days_on(right, NOON_NS)), roll(from, to), "the next day begins in its time");
    }
}

#[test]
fn a_clock_that_was_ahead_at_the_start_and_is_set_too_far_back_is_doubted_still() {
    let mut day = start_late(TEN_YEARS, None);
    assert_eq!(due_actions(&mut day, days_on(-TEN_YEARS, 0)), vec![]);
    assert_eq!(day.stuck_ahead(calendar(days_on(-TEN_YEARS, 0).wall_ns)), Some(TEN_YEARS));
    assert_eq!(due_actions(&mut day, days_on(1, 0)), roll(0, 1));
}

#[test]
fn a_start_after_a_long_pause_begins_today_and_after_one_too_long_if_the_operator_says_so() {
    assert_eq!(due_actions(&mut start_late(31, None), days_on(31, 0)), roll(0, 31));
    let today = |days: i64| Some(Date(i32::try_from(days).unwrap()));
    assert_eq!(due_actions(&mut start_late(32, None), days_on(32, 0)), vec![]);
    assert_eq!(due_actions(&mut start_late(32, today(32)), days_on(32, 0)), roll(0, 32));
    assert_eq!(due_actions(&mut start_late(TEN_YEARS, today(32)), days_on(TEN_YEARS, 0)), vec![], "of another day");
}

#[test]
fn a_day_is_ended_by_hand_and_tried_again_while_the_clock_is_doubted() {
    let mut day = start_late(TEN_YEARS, None);
    let full = |action| matches!(action, Action::RollLog { .. });
    run(&mut day, DayEvent::Manual, NOON_NS, full);
    assert_eq!(due_actions(&mut day, days_on(TEN_YEARS, RETRY_NS)), roll(0, 1));
    assert_eq!((due_actions(&mut day, days_on(TEN_YEARS, DAY_NS)), day.ignores_wall_clock()), (vec![], true));
}
