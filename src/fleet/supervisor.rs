//! Supervisor of a scaling group on this machine: starts, ends and replaces processes by the rules of
//! [`group`](super::group), and serves the calls of [`super::protocol`].

use super::group::{Action, Group, GroupEvent, Instance, Rules};
use super::local::{FLEET_VARIABLE, GROUP_VARIABLE, INSTANCE_VARIABLE};
use super::protocol::{self, Call};
use super::{Capacity, Description, Member, program};
use crate::access::Anyone;
use crate::config::{Limits, Listen, options};
use crate::net::{CloseReason, ConnId, Control, Listeners, NetLimits, Parts, Peer, Reactor, Service, message, signals};
use crate::sys::child;
use mio::Waker;
use proto::{Header, MessageKind, Value, decode, encode};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Settings of a supervisor.
#[derive(Clone, Debug)]
pub struct SupervisorOptions {
    pub group: String,
    pub rules: Rules,
    /// Address that the supervisor listens on.
    pub listen: Listen,
    /// Program and arguments of an instance.
    pub command: Vec<OsString>,
    /// Directory for the instances' output; `None` to share the supervisor's.
    pub logs: Option<PathBuf>,
    pub limits: Limits,
}

/// Service of the supervisor's connection loop.
struct Supervisor {
    options: SupervisorOptions,
    /// Names of this supervisor's instances without their number. They differ from those of an earlier supervisor, whose instances the
    /// tickerplant may remember as joined: one of the same name that never comes up would not be replaced.
    prefix: String,
    group: Group,
    began: Instant,
    port: u16,
    children: BTreeMap<Instance, Child>,
    /// Instances whose process has ended or failed to start.
    ended: Receiver<Instance>,
    end: Sender<Instance>,
    waker: Arc<Waker>,
    is_terminating: Arc<AtomicBool>,
    ending: bool,
}

/// Replies of one step to its caller.
struct Replies {
    capacity: Option<Capacity>,
    answer: Result<(), String>,
}

fn no_command() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "no command")
}

/// A supervisor that listens and has not started running.
pub struct Ready {
    reactor: Reactor<Supervisor>,
}

impl Ready {
    /// Port of the supervisor.
    pub fn port(&self) -> u16 {
        self.reactor.service.port
    }

    /// Runs until SIGTERM or SIGINT; all children have ended on return.
    ///
    /// # Errors
    /// The readiness queue fails.
    pub fn run(mut self) -> io::Result<()> {
        self.reactor.run()
    }
}

/// Binds the port. The children start with [`Ready::run`] and die with the thread that calls it.
///
/// # Errors
/// The program of the instances cannot be found, the port is taken, or the directory for output cannot be created.
pub fn prepare(options: SupervisorOptions) -> io::Result<Ready> {
    let program = options.command.first().ok_or_else(no_command)?;
    program::check(program, std::env::var_os("PATH").as_deref())?;
    if let Some(logs) = &options.logs {
        std::fs::create_dir_all(logs)?;
    }
    let listeners = Listeners::tcp(&options.listen)?;
    let parts = Parts::new()?;
    let waker = parts.waker();
    let (end, ended) = mpsc::channel();
    let limits = NetLimits::of(&options.limits);
    let supervisor = Supervisor {
        prefix: format!("{}-{:06x}-", options.group, fastrand::u32(..1 << 24)),
        group: Group::new(options.rules),
        began: Instant::now(),
        port: listeners.port(),
        children: BTreeMap::new(),
        ended,
        end,
        is_terminating: signals::on_termination(Arc::clone(&waker))?,
        waker,
        ending: false,
        options,
    };
    Ok(Ready { reactor: Reactor::new(parts, listeners, Box::new(Anyone::new(BTreeSet::new())), limits, supervisor)? })
}

impl Supervisor {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn name(&self, instance: Instance) -> String {
        format!("{}{}", self.prefix, instance.0)
    }

    fn instance(&self, name: &str) -> Result<Instance, String> {
        let number = name.strip_prefix(&self.prefix).and_then(|number| number.parse().ok());
        number.map(Instance).ok_or_else(|| format!("fleet: no instance {name} in group {}", self.options.group))
    }

    /// Passes an event to the group and carries out its actions. Returns the replies for the caller.
    fn step(&mut self, event: GroupEvent) -> Replies {
        let mut replies = Replies { capacity: None, answer: Ok(()) };
        for action in self.group.step(event, self.now_ns()) {
            match action {
                Action::Launch(instance) => self.launch(instance),
                // In a shutdown no node remains to take windows over, and SIGINT makes a node end without a handoff.
                Action::Stop(instance) => self.signal(instance, if self.ending { Signal::INT } else { Signal::TERM }),
                Action::Kill(instance) => {
                    tracing::warn!("{} did not exit after SIGTERM; killing it", self.name(instance));
                    self.signal(instance, Signal::KILL);
                }
                Action::Capacity(capacity) => replies.capacity = Some(capacity),
                Action::Answer(answer) => replies.answer = answer,
            }
        }
        replies
    }

    fn launch(&mut self, instance: Instance) {
        let name = self.name(instance);
        match self.spawn(&name) {
            Ok(child) => {
                tracing::info!("{name} started as process {}", child.id());
                let (id, end, waker) = (child.id(), self.end.clone(), Arc::clone(&self.waker));
                self.children.insert(instance, child);
                let watch = move || {
                    if let Err(error) = child::await_end(id) {
                        tracing::error!(%error, "cannot wait for process {id}");
                    }
                    // The supervisor may be gone.
                    let _ = end.send(instance);
                    let _ = waker.wake();
                };
                if let Err(error) = crate::sys::stack::thread(format!("watch {name}")).spawn(watch) {
                    tracing::error!(instance = %name, %error, "cannot watch the instance's process");
                    self.signal(instance, Signal::KILL);
                    self.failed(instance);
                }
            }
            Err(error) => {
                tracing::error!(instance = %name, %error, "cannot start the instance");
                self.failed(instance);
            }
        }
    }

    /// Reports a failed launch, which the group must not see before the step that requested it is over.
    fn failed(&self, instance: Instance) {
        // Both ends of the channel live as long as the supervisor.
        let _ = self.end.send(instance);
        let _ = self.waker.wake();
    }

    fn spawn(&self, name: &str) -> io::Result<Child> {
        let Some((program, arguments)) = self.options.command.split_first() else {
            return Err(no_command());
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.env(FLEET_VARIABLE, format!("127.0.0.1:{}", self.port));
        command.env(INSTANCE_VARIABLE, name).env(GROUP_VARIABLE, &self.options.group);
        // The node's name is its instance's.
        command.env(options::NODE.spec.variable(), name);
        if let Some(logs) = &self.options.logs {
            let file = File::create(logs.join(format!("{name}.log")))?;
            command.stdout(file.try_clone()?).stderr(file);
        }
        child::bind_to_parent(&mut command);
        command.spawn().map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))
    }

    fn signal(&self, instance: Instance, signal: Signal) {
        if let Some(child) = self.children.get(&instance)
            && let Err(error) = child::signal_group(child, signal)
        {
            tracing::error!(instance = %self.name(instance), %error, "cannot signal the instance");
        }
    }

    /// Reaps the instances that have ended.
    fn reap(&mut self) {
        while let Ok(instance) = self.ended.try_recv() {
            // Kills what the process left in its process group while its id cannot be reused yet.
            self.signal(instance, Signal::KILL);
            if let Some(mut child) = self.children.remove(&instance) {
                match child.wait() {
                    Ok(status) if status.success() || self.group.has_asked_to_end(instance) => {
                        tracing::info!("{} has ended: {status}", self.name(instance));
                    }
                    Ok(status) => tracing::warn!("{} has ended by itself: {status}", self.name(instance)),
                    Err(error) => tracing::error!(instance = %self.name(instance), %error, "cannot reap the instance"),
                }
            }
            let failures = self.group.early_failures();
            self.step(GroupEvent::Exited(instance));
            if self.group.early_failures() > failures {
                self.warn_of_early_failures();
            }
        }
    }

    fn warn_of_early_failures(&self) {
        let program = self.options.command.first().map(|program| program.display().to_string()).unwrap_or_default();
        let which = match self.group.early_failures() {
            1 => "an instance".to_string(),
            count => format!("{count} instances in a row"),
        };
        let pause = Duration::from_nanos(self.group.back_off_ns());
        tracing::warn!("{which} of {program} ended at the start, before being ready; the next start is in {pause:?}");
    }

    fn describe(&self) -> Description {
        let rules = self.group.rules();
        let now_ns = self.now_ns();
        let member = |slot: &super::group::Slot| Member {
            instance: self.name(slot.instance),
            stage: slot.stage(),
            process: self.children.get(&slot.instance).map(Child::id),
            age: Duration::from_nanos(now_ns.saturating_sub(slot.requested_ns)),
            lead_time: slot.lead_ns.map(Duration::from_nanos),
            protected: slot.protected,
        };
        Description {
            group: self.options.group.clone(),
            min: rules.min,
            desired: self.group.desired(),
            max: rules.max,
            lead_time: self.group.last_lead_ns().map(Duration::from_nanos),
            members: self.group.slots().iter().map(member).collect(),
        }
    }

    fn own_group(&self, group: &str) -> Result<(), String> {
        match group == self.options.group {
            true => Ok(()),
            false => Err(format!("fleet: no group {group} here; this is {}", self.options.group)),
        }
    }

    fn answer(&mut self, call: Call) -> Result<Value, String> {
        match call {
            Call::Describe { group } => {
                self.own_group(&group)?;
                Ok(protocol::encode_description(&self.describe()))
            }
            Call::AtLeast { group, desired } => {
                self.own_group(&group)?;
                let capacity =
                    self.step(GroupEvent::AtLeast(desired)).capacity.ok_or("fleet: no reply from the supervisor")?;
                tracing::info!("requested {desired} instances: {capacity:?}");
                Ok(protocol::encode_capacity(&capacity))
            }
            Call::Exactly { group, desired } => {
                self.own_group(&group)?;
                tracing::info!("desired capacity set to {desired} instances");
                self.done(GroupEvent::Exactly(desired))
            }
            Call::Ready { instance } => {
                let instance = self.instance(&instance)?;
                self.done(GroupEvent::Ready(instance))
            }
            Call::Protect { instance, on } => {
                let instance = self.instance(&instance)?;
                self.done(GroupEvent::Protect(instance, on))
            }
            Call::Notice { instance: name } => {
                let instance = self.instance(&name)?;
                let slot = self.group.slots().iter().find(|slot| slot.instance == instance);
                let slot = slot.ok_or_else(|| format!("fleet: {name} has ended"))?;
                Ok(protocol::encode_notice(slot.notice(self.now_ns())))
            }
            Call::Released { instance } => {
                let instance = self.instance(&instance)?;
                self.done(GroupEvent::Released(instance))
            }
            Call::Leaving { instance: name } => {
                let instance = self.instance(&name)?;
                let before = self.group.slots().len();
                let answer = self.done(GroupEvent::Leaving(instance));
                let is_replaced = self.group.slots().len() > before;
                let what = if is_replaced { ": starting its replacement" } else { "; the group has enough instances" };
                tracing::info!("{name} is draining{what}");
                answer
            }
            Call::Replace { instance: name } => {
                let instance = self.instance(&name)?;
                tracing::info!("replacing {name}");
                self.done(GroupEvent::Replace(instance))
            }
            Call::Terminate { instance: name } => {
                let instance = self.instance(&name)?;
                let answer = self.done(GroupEvent::Terminate(instance));
                tracing::info!("terminating {name}: {}", answer.as_ref().map_or_else(String::as_str, |_| "done"));
                answer
            }
        }
    }

    /// Runs a call that returns nothing but success or an error.
    fn done(&mut self, event: GroupEvent) -> Result<Value, String> {
        self.step(event).answer?;
        Ok(Value::Unary(proto::types::UNARY_NULL))
    }
}

impl Service for Supervisor {
    fn opened(&mut self, _: ConnId, _: &Peer, _: &mut Control) {}

    fn message(&mut self, conn: ConnId, header: &Header, body: &[u8], ctl: &mut Control) {
        let limits = NetLimits::of(&self.options.limits).codec();
        let value = match decode::object(body, header.endian, &limits) {
            Ok((value, _)) => value,
            Err(error) => return ctl.no_object(conn, error),
        };
        let answer = Call::decode(&value).and_then(|call| self.answer(call));
        let Some(request) = ctl.request() else { return };
        let reply = match &answer {
            Ok(value) => encode::message(MessageKind::Response, value).map_err(|error| error.to_string()),
            Err(reason) => Err(reason.clone()),
        };
        ctl.reply(request, reply.map_or_else(|reason| message::error(reason.as_bytes()), Into::into));
    }

    fn iteration_ended(&mut self, ctl: &mut Control) {
        if signals::is_asked(&self.is_terminating) && !self.ending {
            self.ending = true;
            self.step(GroupEvent::Shutdown);
        }
        if self.group.is_down() {
            ctl.stop();
        }
    }

    fn writable(&mut self, _: ConnId, _: &mut Control) {}

    fn closed(&mut self, _: ConnId, _: &CloseReason, _: &mut Control) {}

    fn woken(&mut self, _: &mut Control) {
        self.reap();
    }

    fn deadline(&self) -> Option<Instant> {
        // A new group launches with its first tick.
        let new = self.group.slots().is_empty() && self.group.desired() > 0;
        let due_ns = if new { Some(0) } else { self.group.deadline_ns() };
        due_ns.map(|ns| self.began.checked_add(Duration::from_nanos(ns)).unwrap_or(self.began))
    }

    fn timer(&mut self, _: &mut Control) {
        self.step(GroupEvent::Tick);
    }
}
