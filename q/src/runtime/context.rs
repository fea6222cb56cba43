//! State of one evaluation: its host, its limits, and the tables whose columns are names.

use crate::runtime::error::{Origin, QError};
use crate::runtime::host::{Host, is_limit};
use crate::runtime::limits::{Allowance, Limits, Watch};
use crate::runtime::registers::Registers;
use crate::runtime::scope::Scope;
use crate::runtime::settings;
use columns::sys::{budget, stack};
use columns::table::function::Lambda;
use columns::table::{Sym, Value};
use std::time::Instant;

/// A level of the call stack.
pub(crate) struct Running {
    pub code: RunningCode,
    /// Position of the call in the caller's text.
    pub called_at: u32,
    /// Locals of a lambda while it calls a function, kept for the debugger only.
    pub locals: Vec<Option<Value>>,
}

/// What runs at a level of the call stack.
pub(crate) enum RunningCode {
    Lambda {
        lambda: Lambda,
        /// Name of the global through which it was called; null if unknown.
        name: Sym,
    },
    /// Text that is evaluated: a line of a script, a string, a view.
    Text { text: Vec<u8>, origin: Option<Origin> },
}

impl Running {
    pub(crate) fn of_lambda(lambda: &Lambda, name: Sym, called_at: u32) -> Running {
        Running { code: RunningCode::Lambda { lambda: lambda.clone(), name }, called_at, locals: Vec::new() }
    }

    pub(crate) fn lambda(&self) -> Option<&Lambda> {
        match &self.code {
            RunningCode::Lambda { lambda, .. } => Some(lambda),
            RunningCode::Text { .. } => None,
        }
    }
}

/// Steps between two checks of the limits.
const STEPS: u32 = 64;

/// State of one evaluation, passed to every primitive.
pub struct Context<'h> {
    pub host: &'h mut dyn Host,
    /// Limits on time, memory and threads, shared with the evaluation's helper threads.
    pub allowance: Allowance,
    /// Tables of the enclosing qSQL templates, innermost last.
    pub(crate) scopes: Vec<Scope>,
    /// The running lambda: `.z.s`.
    pub(crate) running: Option<Value>,
    /// Locals for the functional query that is called next.
    pub(crate) among: Vec<(Sym, Value)>,
    /// Name of the global whose value is applied next, for stack traces.
    pub(crate) callee: Sym,
    /// Views in evaluation.
    pub(crate) viewing: Vec<usize>,
    /// Call stack, outermost first; below it is `text`.
    pub(crate) frames: Vec<Running>,
    /// Number of traps (`@[f;x;handler]`, `.[f;x;handler]`, `.Q.trp`) around what is being evaluated: an error within one does not suspend.
    pub(crate) traps: usize,
    /// Position of the current application in the innermost text.
    pub(crate) at: u32,
    /// Whether an error suspends the evaluation: [`Host::debugs`].
    pub(crate) debugs: bool,
    /// The text that the client sent.
    pub(crate) text: Vec<u8>,
    /// The text has been evaluated, and its value is applied: of `("{x+y}";1;2)` the stack begins with the lambda.
    pub(crate) is_text_done: bool,
    /// Spare registers of the VM, reused by the next run.
    pub(crate) machine: Option<Box<Registers>>,
    /// Makes walks over values count towards this evaluation.
    _watch: Watch,
    steps: u32,
}

impl<'h> Context<'h> {
    /// An evaluation on this thread, with the number of threads that the host permits.
    pub fn new(host: &'h mut dyn Host, limits: &Limits) -> Context<'h> {
        let allowance = Allowance::new(limits, host.threads().now);
        Context::within(host, allowance)
    }

    /// An evaluation within another.
    pub(crate) fn within(host: &'h mut dyn Host, allowance: Allowance) -> Context<'h> {
        settings::set_precision(host.console().precision);
        let debugs = host.debugs();
        let watch = Watch::open(&allowance);
        Context {
            host,
            allowance,
            scopes: Vec::new(),
            running: None,
            among: Vec::new(),
            callee: Sym::NULL,
            viewing: Vec::new(),
            frames: Vec::new(),
            traps: 0,
            at: 0,
            debugs,
            text: Vec::new(),
            is_text_done: false,
            machine: None,
            _watch: watch,
            steps: 0,
        }
    }

    /// Runs `work` where an error is handled: it does not suspend the evaluation.
    pub(crate) fn trapping<R>(&mut self, work: impl FnOnce(&mut Context<'h>) -> R) -> R {
        self.traps += 1;
        let result = work(self);
        self.traps -= 1;
        result
    }

    /// Runs `work` within a deadline as well.
    pub(crate) fn until<R>(&mut self, by: Instant, work: impl FnOnce(&mut Context<'h>) -> R) -> R {
        let shorter = self.allowance.until(by);
        let watch = Watch::open(&shorter);
        let own = std::mem::replace(&mut self.allowance, shorter);
        let result = work(self);
        self.allowance = own;
        drop(watch);
        result
    }

    /// Runs `work` at another level of the call stack, that of a text.
    pub(crate) fn in_text<R>(
        &mut self,
        text: &[u8],
        origin: Option<Origin>,
        work: impl FnOnce(&mut Context<'h>) -> R,
    ) -> R {
        let code = RunningCode::Text { text: text.to_vec(), origin };
        self.frames.push(Running { code, called_at: self.at, locals: Vec::new() });
        let result = work(self);
        if let Some(level) = self.frames.pop() {
            self.at = level.called_at;
        }
        result
    }

    /// Called in every loop; checks the limits at every 64th call.
    ///
    /// # Errors
    /// Those of [`Allowance::check`].
    #[inline]
    pub fn tick(&mut self) -> Result<(), QError> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS) { self.look() } else { Ok(()) }
    }

    /// Checks the limits. If the caller swallows the error (a fallback path), the next step reports it again.
    #[cold]
    fn look(&mut self) -> Result<(), QError> {
        budget::note(STEPS as usize);
        let seen = self.check();
        if seen.is_err() {
            self.steps = self.steps.wrapping_sub(1);
        }
        seen
    }

    /// As [`Context::tick`], but checks the limits now.
    pub fn check(&self) -> Result<(), QError> {
        self.allowance.check()
    }

    /// Whether a trap must not catch this error: it is that of a limit which the evaluation still exceeds. `'wsfull` can be trapped once the memory has been
    /// freed.
    pub(crate) fn is_ended_by(&self, error: &QError) -> bool {
        is_limit(error) && (*error.name != *b"wsfull" || self.check().is_err())
    }

    /// Checks that `items` of `width_bytes` each fit the memory limit.
    pub fn reserve_items(&self, items: usize, width_bytes: usize) -> Result<(), QError> {
        self.reserve(items.saturating_mul(width_bytes))
    }

    /// Checks that `bytes` more fit the memory limit.
    pub fn reserve(&self, bytes: usize) -> Result<(), QError> {
        self.allowance.reserve(bytes)
    }

    /// As [`Context::tick`], called by recursive functions: also fails with `stack` if the recursion is too deep.
    pub fn enter(&mut self) -> Result<(), QError> {
        if stack::is_deep() {
            return Err(QError::named("stack"));
        }
        self.tick()
    }
}
