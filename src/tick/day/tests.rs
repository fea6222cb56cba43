use super::*;

const NOON_NS: i64 = 43_200_000_000_000;
const DAY_NS: i64 = 86_400_000_000_000;

/// Days roll at midnight.
fn calendar(now_ns: i64) -> Calendar {
    let today = now_ns.div_euclid(DAY_NS);
    Calendar { today: Date(i32::try_from(today).unwrap()), next_roll_ns: (today + 1) * DAY_NS }
}

/// Carries out everything; `fails` says which action does not succeed.
fn run(day: &mut Day, first: Event, now_ns: i64, fails: impl Fn(Action) -> bool) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut event = first;
    while let Some(action) = day.step(event, now_ns) {
        actions.push(action);
        event = if fails(action) { Event::Failed } else { Event::Done };
    }
    actions
}

fn roll(from: i32, to: i32) -> Vec<Action> {
    let (from, to) = (Date(from), Date(to));
    vec![
        Action::Flush { from, to, days_left_out: (to.0 - from.0 - 1) as u32 },
        Action::CreateLog { date: to },
        Action::SendEnd { date: from },
        Action::EndQueueDay { new_date: to },
        Action::CloseLog { date: from },
    ]
}

#[test]
fn nothing_happens_before_the_roll_is_due() {
    let mut day = Day::start(None, calendar(NOON_NS));
    assert!(!day.is_due(DAY_NS - 1));
    assert_eq!(day.step(Event::Clock(calendar(DAY_NS - 1)), DAY_NS - 1), None);
    assert_eq!(day.date(), Date(0));
}

#[test]
fn the_day_rolls_at_its_instant_in_order() {
    let mut day = Day::start(None, calendar(NOON_NS));
    assert!(day.is_due(DAY_NS));
    assert_eq!(run(&mut day, Event::Clock(calendar(DAY_NS)), DAY_NS, |_| false), roll(0, 1));
    assert_eq!(day.date(), Date(1));
    assert_eq!(day.next_deadline_ns(), 2 * DAY_NS);
}

#[test]
fn the_old_date_holds_until_the_last_step_is_done() {
    let mut day = Day::start(None, calendar(NOON_NS));
    let mut event = Event::Clock(calendar(DAY_NS));
    for _ in 0..5 {
        assert!(day.step(event, DAY_NS).is_some());
        assert_eq!(day.date(), Date(0));
        assert!(day.is_rolling());
        event = Event::Done;
    }
    assert_eq!(day.step(Event::Done, DAY_NS), None);
    assert_eq!(day.date(), Date(1));
    assert!(!day.is_rolling());
}

#[test]
fn a_roll_under_way_is_not_begun_again() {
    let mut day = Day::start(None, calendar(NOON_NS));
    day.step(Event::Manual, NOON_NS);
    assert_eq!(day.step(Event::Manual, NOON_NS), None);
    assert_eq!(day.step(Event::Clock(calendar(DAY_NS)), DAY_NS), None);
    assert_eq!(day.step(Event::Done, DAY_NS), Some(Action::CreateLog { date: Date(1) }));
}

#[test]
fn a_day_ended_by_hand_is_not_ended_again_by_the_clock() {
    let mut day = Day::start(None, calendar(NOON_NS));
    assert_eq!(run(&mut day, Event::Manual, NOON_NS, |_| false), roll(0, 1));
    assert_eq!(run(&mut day, Event::Clock(calendar(DAY_NS)), DAY_NS, |_| false), vec![]);
    assert_eq!(run(&mut day, Event::Clock(calendar(2 * DAY_NS)), 2 * DAY_NS, |_| false), roll(1, 2));
}

#[test]
fn days_that_were_slept_through_are_left_out_and_counted() {
    let mut day = Day::start(None, calendar(NOON_NS));
    let late_ns = 5 * DAY_NS + 1;
    let actions = run(&mut day, Event::Clock(calendar(late_ns)), late_ns, |_| false);
    assert_eq!(actions.first(), Some(&Action::Flush { from: Date(0), to: Date(5), days_left_out: 4 }));
    assert_eq!(day.date(), Date(5));
}

#[test]
fn a_log_that_cannot_be_made_leaves_the_old_day_going_and_is_tried_again() {
    let mut day = Day::start(None, calendar(NOON_NS));
    let full = |action| matches!(action, Action::CreateLog { .. });
    let actions = run(&mut day, Event::Clock(calendar(DAY_NS)), DAY_NS, full);
    assert_eq!(actions, roll(0, 1)[..2], "nobody is told");
    assert_eq!(day.date(), Date(0));
    assert!(!day.is_due(DAY_NS + RETRY_NS - 1));
    let again_ns = DAY_NS + RETRY_NS;
    assert!(day.is_due(again_ns));
    assert_eq!(run(&mut day, Event::Clock(calendar(again_ns)), again_ns, |_| false), roll(0, 1));
}

#[test]
fn an_end_by_hand_that_failed_is_tried_again_too() {
    let mut day = Day::start(None, calendar(NOON_NS));
    run(&mut day, Event::Manual, NOON_NS, |action| matches!(action, Action::CreateLog { .. }));
    let again_ns = NOON_NS + RETRY_NS;
    assert_eq!(run(&mut day, Event::Clock(calendar(again_ns)), again_ns, |_| false), roll(0, 1));
}

#[test]
fn a_failed_sync_of_the_old_log_does_not_stop_the_roll() {
    let mut day = Day::start(None, calendar(NOON_NS));
    let actions = run(&mut day, Event::Clock(calendar(DAY_NS)), DAY_NS, |a| !matches!(a, Action::CreateLog { .. }));
    assert_eq!(actions, roll(0, 1));
    assert_eq!(day.date(), Date(1));
}

#[test]
fn a_clock_that_goes_back_rolls_nothing() {
    let mut day = Day::start(Some(Date(7)), calendar(7 * DAY_NS));
    assert_eq!(day.step(Event::Clock(calendar(6 * DAY_NS)), 6 * DAY_NS), None);
    assert_eq!(day.date(), Date(7));
}

#[test]
fn a_restart_in_an_old_log_ends_that_day_first() {
    let now_ns = 3 * DAY_NS + NOON_NS;
    let mut day = Day::start(Some(Date(1)), calendar(now_ns));
    assert_eq!(day.date(), Date(1));
    assert!(day.is_due(now_ns));
    assert_eq!(run(&mut day, Event::Clock(calendar(now_ns)), now_ns, |_| false), roll(1, 3));
}

/// Whatever step a tickerplant dies in, the next one ends up in the same day: what tells is whether the new log exists.
#[test]
fn a_death_in_any_step_is_made_good_at_the_next_start() {
    for steps_done in 0..=5 {
        let mut day = Day::start(None, calendar(NOON_NS));
        let mut newest_log = Date(0);
        let mut event = Event::Clock(calendar(DAY_NS));
        for _ in 0..steps_done {
            if let Some(Action::CreateLog { date }) = day.step(event, DAY_NS) {
                newest_log = date;
            }
            event = Event::Done;
        }
        let mut day = Day::start(Some(newest_log), calendar(DAY_NS));
        let actions = run(&mut day, Event::Clock(calendar(DAY_NS)), DAY_NS, |_| false);
        assert_eq!(day.date(), Date(1), "after {steps_done} steps");
        assert_eq!(actions.is_empty(), newest_log == Date(1), "after {steps_done} steps");
    }
}

#[test]
fn a_restart_after_an_end_by_hand_stays_in_the_new_day() {
    let mut day = Day::start(Some(Date(1)), calendar(NOON_NS));
    assert_eq!(day.date(), Date(1));
    assert_eq!(run(&mut day, Event::Clock(calendar(NOON_NS)), NOON_NS, |_| false), vec![]);
}
