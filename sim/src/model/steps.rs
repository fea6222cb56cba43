//! Acts that are possible in a state, and their effects.

use super::node::{self, Node};
use super::parts::Parts;
use super::rules;
use super::state::{AllWires, Kind, Left, Place, State, Wire, Wires};
use super::tick::{self, Tick, TickOutput};
use super::{Bounds, Context, TWIN, updates};
use std::rc::Rc;

/// An act. `(u8, u8)` is a node's place and its connection's side, 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Act {
    TickStarts,
    TickDies,
    Publish,
    /// The tickerplant is killed after it has logged the update, before it sends anything.
    PublishAndDie,
    /// Publishes an update that the first node cannot receive.
    PublishTooLong,
    DayEnds,
    /// Nothing happens for so long that queues sleep.
    Idle,
    /// A client announces queries.
    Wake,
    /// A write-down process has all updates before this one.
    Written(u8),
    /// The node reports its status.
    Report(u8, u8),
    TimePasses,
    Launch(u8),
    Connect(u8),
    /// A message reaches the tickerplant.
    Up(u8, u8),
    /// The same, and the tickerplant is killed before any of its output is sent.
    UpAndDie(u8, u8),
    /// A message reaches the node.
    Down(u8, u8),
    /// The tickerplant notices the end of a connection that the node no longer has.
    TickSeesEnd(u8, u8),
    NodeSeesEnd(u8, u8),
    Turn(u8),
    Full(u8),
    /// The node's memory is filled from outside, or freed (`Drain`).
    Fill(u8),
    Drain(u8),
    /// A process connects under the first node's name, or ends.
    TwinComes,
    TwinEnds,
    Restart(u8),
    /// The server goes; another may replace it.
    Go(u8),
    /// The connection breaks; the node or the tickerplant notices first.
    CutAtNode(u8, u8),
    CutAtTick(u8, u8),
}

/// Returns the kind of event whose number an act lowers.
fn spent(act: Act) -> Option<Kind> {
    match act {
        Act::Publish | Act::PublishAndDie | Act::PublishTooLong => Some(Kind::Update),
        Act::DayEnds => Some(Kind::DayEnd),
        Act::Full(_) => Some(Kind::Roll),
        Act::Idle => Some(Kind::Idle),
        Act::Wake => Some(Kind::Wake),
        Act::Written(_) => Some(Kind::Written),
        Act::Report(..) => Some(Kind::Report),
        Act::Fill(_) => Some(Kind::Fill),
        Act::TwinComes => Some(Kind::Twin),
        Act::CutAtNode(..) | Act::CutAtTick(..) => Some(Kind::Cut),
        Act::TickDies | Act::UpAndDie(..) | Act::Restart(_) | Act::Go(_) => Some(Kind::Crash),
        _ => None,
    }
}

/// All known states of a model's processes.
pub struct Model {
    pub context: Context,
    pub ticks: Parts<Tick>,
    pub nodes: Parts<Node>,
    pub wires: AllWires,
}

impl Model {
    pub fn new(bounds: Bounds) -> Model {
        let context = Context::new(bounds);
        let (ticks, nodes) = (Parts::new(&context), Parts::new(&context));
        Model { context, ticks, nodes, wires: AllWires::default() }
    }

    /// Returns the first state: the tickerplant is up, nodes run, none is connected.
    ///
    /// # Errors
    /// As [`Parts::step`].
    pub fn first(&mut self) -> Result<State, String> {
        let none = self.wires.number(Wires::default());
        let mut state = State { left: Left::of(&self.context.bounds), ..State::default() };
        state.places = [Place { node: 0, wires: none }; super::PLACES];
        state.tick = self.ticks.step(0, &tick::Input::Starts, &mut self.context)?.0;
        let (nodes, _) = self.context.places();
        for (number, place) in (0..nodes).zip(&mut state.places) {
            place.node = self.nodes.step(0, &node::Input::Begins(number), &mut self.context)?.0;
        }
        Ok(state)
    }

    /// # Errors
    /// As [`Parts::facts`].
    pub fn tick_of(&self, state: &State) -> Result<Rc<tick::Facts>, String> {
        self.ticks.facts(state.tick).map(Rc::clone)
    }

    /// # Errors
    /// As [`Parts::facts`].
    pub fn node_of(&self, place: &Place) -> Result<Rc<node::Facts>, String> {
        self.nodes.facts(place.node).map(Rc::clone)
    }

    /// Returns every act that is possible in a state.
    ///
    /// # Errors
    /// As [`Parts::facts`].
    pub fn acts(&self, state: &State) -> Result<Vec<Act>, String> {
        let tick = self.tick_of(state)?;
        let left = state.left;
        let mut acts = Vec::new();
        let mut may = |is: bool, act: Act| acts.extend(is.then_some(act));
        may(!tick.up, Act::TickStarts);
        may(tick.up && left.has(Kind::Update), Act::Publish);
        may(tick.up && left.has(Kind::Update) && left.has(Kind::Crash), Act::PublishAndDie);
        may(tick.up && left.has(Kind::Update) && left.has(Kind::TooLong), Act::PublishTooLong);
        may(tick.up && left.has(Kind::DayEnd), Act::DayEnds);
        may(tick.up && left.has(Kind::Crash), Act::TickDies);
        may(tick.up && tick.waits, Act::TimePasses);
        may(tick.up && !tick.waits && left.has(Kind::Idle), Act::Idle);
        may(tick.up && (left.has(Kind::Wake) || !tick.asleep.is_empty()), Act::Wake);
        let tip = tick.tips.get(tick.day).copied().unwrap_or(0);
        for next in 1..=tip {
            may(tick.up && left.has(Kind::Written) && u64::from(next) > tick.written, Act::Written(next));
        }
        let (nodes, all) = self.context.places();
        for (number, place) in (0..).zip(&state.places).filter(|(number, _)| *number < all || *number == TWIN) {
            let node = self.node_of(place)?;
            let wires = self.wires.get(place.wires);
            let connected = wires.iter().flatten().any(|wire| wire.node);
            match number {
                TWIN => {
                    may(!node.runs && left.has(Kind::Twin), Act::TwinComes);
                    may(node.runs, Act::TwinEnds);
                }
                _ => may(!node.runs && (number < nodes || place.node != 0), Act::Launch(number)),
            }
            may(tick.up && node.runs && !connected && wires.iter().any(Option::is_none), Act::Connect(number));
            may(connected && (node.replays || node.comes_round), Act::Turn(number));
            may((node.takes || node.replays) && left.has(Kind::Roll), Act::Full(number));
            // A crash of a node that has neither connection nor window changes nothing.
            let matters = connected || !node.windows.is_empty();
            let crashes = matters && left.has(Kind::Crash) && number != TWIN;
            may(crashes, Act::Restart(number));
            may(crashes, Act::Go(number));
            may(node.runs && !node.filled && left.has(Kind::Fill), Act::Fill(number));
            may(node.filled, Act::Drain(number));
            for (side, wire) in (0u8..).zip(&wires) {
                let Some(wire) = wire else { continue };
                may(wire.tick && tick.up && !wire.up.is_empty(), Act::Up(number, side));
                may(wire.tick && tick.up && !wire.up.is_empty() && left.has(Kind::Crash), Act::UpAndDie(number, side));
                may(wire.tick && tick.up && !wire.node, Act::TickSeesEnd(number, side));
                may(wire.node && !wire.down.is_empty() && !node.comes_round, Act::Down(number, side));
                may(wire.node && !wire.tick, Act::NodeSeesEnd(number, side));
                let whole = wire.node && wire.tick && left.has(Kind::Cut);
                let is_awaited = tick.ending.contains(&node.name);
                let reports = wire.node && wire.tick && node.day.is_some() && !node.comes_round;
                let is_sent = wire.up.iter().any(|message| self.context.messages.is_report(*message));
                may(reports && !is_sent && (left.has(Kind::Report) || is_awaited), Act::Report(number, side));
                may(whole, Act::CutAtNode(number, side));
                may(whole, Act::CutAtTick(number, side));
            }
        }
        Ok(acts)
    }

    /// Returns the state after an act.
    ///
    /// # Errors
    /// As [`Parts::step`].
    pub fn step(&mut self, state: &State, act: Act) -> Result<State, String> {
        let mut next = *state;
        if let Some(kind) = spent(act) {
            next.left = next.left.without(kind);
        }
        let place = |number: u8, side: u8| number.saturating_mul(2).saturating_add(side);
        match act {
            Act::TickStarts => self.tick(&mut next, &tick::Input::Starts)?,
            Act::Publish => self.tick(&mut next, &tick::Input::Publish)?,
            Act::PublishTooLong => {
                next.left = next.left.without(Kind::TooLong);
                let tick = self.tick_of(state)?;
                let index = tick.tips.get(tick.day).copied().unwrap_or(0);
                self.node(&mut next, 0, &node::Input::CannotTake(updates::number(tick.day, usize::from(index))))?;
                self.tick(&mut next, &tick::Input::Publish)?;
            }
            Act::DayEnds => self.tick(&mut next, &tick::Input::DayEnds)?,
            Act::TimePasses => self.tick(&mut next, &tick::Input::TimePasses)?,
            Act::Idle | Act::Wake | Act::Written(_) | Act::Report(..) => self.sleep(&mut next, act)?,
            Act::TickDies => self.tick_dies(&mut next, &tick::Input::Dies)?,
            Act::PublishAndDie => {
                next.left = next.left.without(Kind::Crash);
                self.tick_dies(&mut next, &tick::Input::DiesAfter(Box::new(tick::Input::Publish)))?;
            }
            Act::Up(number, side) => {
                if let Some(message) = self.take(&mut next, number, side, |wire| &mut wire.up) {
                    self.tick(&mut next, &tick::Input::Message(place(number, side), message))?;
                }
            }
            Act::UpAndDie(number, side) => {
                if let Some(message) = self.take(&mut next, number, side, |wire| &mut wire.up) {
                    let last = tick::Input::Message(place(number, side), message);
                    self.tick_dies(&mut next, &tick::Input::DiesAfter(Box::new(last)))?;
                }
            }
            Act::TickSeesEnd(number, side) | Act::CutAtTick(number, side) => {
                self.change(&mut next, number, side, |wire| {
                    wire.tick = false;
                    wire.up.clear();
                });
                self.tick(&mut next, &tick::Input::Closed(place(number, side)))?;
            }
            Act::Connect(number) => self.connect(&mut next, number)?,
            Act::Launch(number) => {
                let begins = state.places.get(usize::from(number)).is_some_and(|place| place.node == 0);
                let input = if begins { node::Input::Begins(number) } else { node::Input::Follows };
                self.node(&mut next, number, &input)?;
            }
            Act::Down(number, side) => {
                if let Some(message) = self.take(&mut next, number, side, |wire| &mut wire.down) {
                    self.node(&mut next, number, &node::Input::Message(message))?;
                }
            }
            Act::NodeSeesEnd(number, side) | Act::CutAtNode(number, side) => {
                self.node_lets_go(&mut next, number, side);
                self.node(&mut next, number, &node::Input::Lost)?;
            }
            Act::Turn(number) => {
                let tips = self.tick_of(&next)?.tips;
                self.node(&mut next, number, &node::Input::Turn(tips))?;
            }
            Act::Full(number) => {
                let tips = self.tick_of(&next)?.tips;
                self.node(&mut next, number, &node::Input::Full(tips))?;
            }
            Act::Fill(number) | Act::Drain(number) => {
                let (tips, is) = (self.tick_of(&next)?.tips, matches!(act, Act::Fill(_)));
                self.node(&mut next, number, &node::Input::Filled(is, tips))?;
            }
            Act::TwinComes => {
                let known = state.places.get(usize::from(TWIN)).is_some_and(|place| place.node != 0);
                let input = if known { node::Input::Follows } else { node::Input::Begins(TWIN) };
                self.node(&mut next, TWIN, &input)?;
            }
            Act::TwinEnds => self.node_dies(&mut next, TWIN, &node::Input::Goes)?,
            Act::Restart(number) => self.node_dies(&mut next, number, &node::Input::Restarts)?,
            Act::Go(number) => self.node_dies(&mut next, number, &node::Input::Goes)?,
        }
        Ok(next)
    }

    /// Steps an act of sleep; none other changes anything.
    fn sleep(&mut self, state: &mut State, act: Act) -> Result<(), String> {
        match act {
            Act::Idle => self.tick(state, &tick::Input::Idle),
            Act::Wake => self.tick(state, &tick::Input::Wake),
            Act::Written(index) => self.tick(state, &tick::Input::Written(index)),
            Act::Report(number, side) => {
                let node = state.places.get(usize::from(number)).map(|place| self.node_of(place)).transpose()?;
                let open = node.as_ref().and_then(|node| Some(node.windows.iter().find(|held| held.open)?.window.end));
                let day = node.and_then(|node| i32::try_from(node.day?).ok());
                let date = day.map(|day| updates::FIRST_DATE.saturating_add(day));
                let report = self.context.messages.report(open, date)?;
                self.change(state, number, side, |wire| wire.up.push(report));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn change(&mut self, state: &mut State, number: u8, side: u8, change: impl FnOnce(&mut Wire)) {
        let Some(place) = state.places.get_mut(usize::from(number)) else { return };
        let mut wires = self.wires.get(place.wires);
        if let Some(wire) = wires.get_mut(usize::from(side)).and_then(Option::as_mut) {
            change(wire);
        }
        place.wires = self.wires.number(wires);
    }

    /// Removes the first message in flight.
    fn take(
        &mut self,
        state: &mut State,
        number: u8,
        side: u8,
        of: impl FnOnce(&mut Wire) -> &mut Vec<u32>,
    ) -> Option<u32> {
        let mut message = None;
        self.change(state, number, side, |wire| {
            let messages = of(wire);
            message = (!messages.is_empty()).then(|| messages.remove(0));
        });
        message
    }

    fn node_lets_go(&mut self, state: &mut State, number: u8, side: u8) {
        self.change(state, number, side, |wire| {
            wire.node = false;
            wire.down.clear();
        });
    }

    fn tick(&mut self, state: &mut State, input: &tick::Input) -> Result<(), String> {
        let (to, outputs) = self.ticks.step(state.tick, input, &mut self.context)?;
        if let tick::Input::Message(from, _) = input {
            rules::closes_own_only(*from, &outputs)?;
        }
        state.tick = to;
        for output in outputs.iter() {
            match output {
                TickOutput::Message(place, message) => self.change(state, place / 2, place % 2, |wire| {
                    if wire.node {
                        wire.down.push(*message);
                    }
                }),
                TickOutput::Closes(place) => self.change(state, place / 2, place % 2, |wire| {
                    wire.tick = false;
                    wire.up.clear();
                }),
            }
        }
        Ok(())
    }

    fn tick_dies(&mut self, state: &mut State, input: &tick::Input) -> Result<(), String> {
        state.tick = self.ticks.step(state.tick, input, &mut self.context)?.0;
        for number in (0u8..).take(super::PLACES) {
            for side in 0..2 {
                self.change(state, number, side, |wire| {
                    wire.tick = false;
                    wire.up.clear();
                });
            }
        }
        Ok(())
    }

    fn connect(&mut self, state: &mut State, number: u8) -> Result<(), String> {
        let Some(place) = state.places.get_mut(usize::from(number)) else { return Ok(()) };
        let mut wires = self.wires.get(place.wires);
        let Some((side, wire)) = (0u8..).zip(&mut wires).find(|(_, wire)| wire.is_none()) else { return Ok(()) };
        *wire = Some(Wire { node: true, tick: true, ..Wire::default() });
        place.wires = self.wires.number(wires);
        self.tick(state, &tick::Input::Opened(number.saturating_mul(2).saturating_add(side)))?;
        self.node(state, number, &node::Input::Connected)
    }

    fn node(&mut self, state: &mut State, number: u8, input: &node::Input) -> Result<(), String> {
        let tick = state.tick;
        let Some(place) = state.places.get_mut(usize::from(number)) else { return Ok(()) };
        let (to, output) = self.nodes.step(place.node, input, &mut self.context)?;
        if output.ended {
            let sleeps = self.context.bounds.sleeps();
            rules::may_end(self.ticks.facts(tick)?, self.nodes.facts(place.node)?, sleeps)?;
        }
        place.node = to;
        let mut wires = self.wires.get(place.wires);
        for wire in wires.iter_mut().flatten().filter(|wire| wire.node) {
            if wire.tick {
                wire.up.extend(&output.sent);
            }
            if output.hangs_up || output.ended {
                wire.node = false;
                wire.down.clear();
            }
        }
        place.wires = self.wires.number(wires);
        Ok(())
    }

    fn node_dies(&mut self, state: &mut State, number: u8, input: &node::Input) -> Result<(), String> {
        for side in 0..2 {
            self.node_lets_go(state, number, side);
        }
        self.node(state, number, input)
    }

    /// Returns an act in words.
    pub fn words(&self, state: &State, act: Act) -> String {
        let name = |number: u8| {
            let facts = state.places.get(usize::from(number)).and_then(|place| self.node_of(place).ok());
            facts.map(|facts| facts.name.clone()).filter(|name| !name.is_empty()).unwrap_or(format!("node {number}"))
        };
        let first = |number: u8, side: u8, of: fn(&Wire) -> &Vec<u32>| {
            let wires = state.places.get(usize::from(number)).map(|place| self.wires.get(place.wires));
            let wire = wires.and_then(|wires| wires.get(usize::from(side)).cloned().flatten());
            wire.and_then(|wire| of(&wire).first().copied()).map_or(String::new(), |m| self.context.messages.words(m))
        };
        match act {
            Act::TickStarts => "the tickerplant starts".to_string(),
            Act::TickDies => "the tickerplant is killed".to_string(),
            Act::Publish => "an update is published".to_string(),
            Act::PublishTooLong => format!("an update is published that is too long for {}", name(0)),
            Act::PublishAndDie => {
                "an update is logged, and the tickerplant is killed before it publishes it".to_string()
            }
            Act::DayEnds => "the day ends".to_string(),
            Act::Idle => "nothing happens for so long that queues sleep".to_string(),
            Act::Wake => "a client announces queries".to_string(),
            Act::Written(next) => format!("the updates before {next} are written down"),
            Act::Report(number, _) => format!("{} reports its status", name(number)),
            Act::TimePasses => "time passes, and the next grace is over".to_string(),
            Act::Launch(number) => format!("a node is launched in the place of {}", name(number)),
            Act::Connect(number) => format!("{} connects", name(number)),
            Act::Up(number, side) => format!("{} -> tickerplant: {}", name(number), first(number, side, |w| &w.up)),
            Act::UpAndDie(number, side) => format!(
                "{} -> tickerplant: {}; and the tickerplant is killed before it says anything",
                name(number),
                first(number, side, |w| &w.up)
            ),
            Act::Down(number, side) => format!("tickerplant -> {}: {}", name(number), first(number, side, |w| &w.down)),
            Act::TickSeesEnd(number, _) => format!("the tickerplant sees the end of a connection of {}", name(number)),
            Act::NodeSeesEnd(number, _) => format!("{} sees the end of its connection", name(number)),
            Act::Turn(number) => format!("{} reads on in the log", name(number)),
            Act::Full(number) => format!("{} is full", name(number)),
            Act::Fill(number) => format!("others fill the memory of {}", name(number)),
            Act::Drain(number) => format!("the memory of {} is free again", name(number)),
            Act::TwinComes => "another process starts under the name of a0".to_string(),
            Act::TwinEnds => "the other process of that name ends".to_string(),
            Act::Restart(number) => format!("{} is killed, and starts with nothing", name(number)),
            Act::Go(number) => format!("the server of {} is gone", name(number)),
            Act::CutAtNode(number, _) => format!("the connection of {} breaks, which it sees first", name(number)),
            Act::CutAtTick(number, _) => {
                format!("the connection of {} breaks, which the tickerplant sees first", name(number))
            }
        }
    }
}
