//! One evaluation: its host, its limits, and the tables whose columns are names just now.

use super::error::QError;
use super::host::Host;
use super::limits::{Allowance, Limits, Watch};
use super::machine::Machine;
use super::query::Scope;
use columns::sys::stack;
use columns::table::function::Lambda;
use columns::table::{Sym, Value};

/// A lambda that runs.
pub(super) struct Running {
    pub lambda: Lambda,
    /// The global by which it was called, null where that is not known.
    pub name: Sym,
    /// Where it was called, in the text around it.
    pub called_at: u32,
}

/// What every primitive is given.
pub struct Context<'h> {
    pub host: &'h mut dyn Host,
    /// Time, memory and threads, also for the helpers of this evaluation.
    pub allowance: Allowance,
    /// Tables of the qSQL templates that are being evaluated, innermost last.
    pub(super) scopes: Vec<Scope>,
    /// The lambda that is running: `.z.s`.
    pub(super) running: Option<Value>,
    /// The global whose value is about to be applied, for traces.
    pub(super) callee: Sym,
    /// Views that are being evaluated.
    pub(super) viewing: Vec<usize>,
    /// The lambdas that run, outermost first.
    pub(super) frames: Vec<Running>,
    /// Where in the innermost text something is being applied.
    pub(super) at: u32,
    /// Whether errors keep what failed, for a person to look at.
    pub(super) debugs: bool,
    /// The text that was sent.
    pub(super) text: Vec<u8>,
    /// Registers that no run uses just now.
    pub(super) machine: Option<Box<Machine>>,
    /// Walks over values are on the account of the evaluation.
    _watch: Watch,
    steps: u32,
}

impl<'h> Context<'h> {
    pub fn new(host: &'h mut dyn Host, limits: &Limits) -> Context<'h> {
        let allowance = Allowance::new(limits, host.threads().now);
        Context::within(host, allowance)
    }

    /// An evaluation that is part of another.
    pub(super) fn within(host: &'h mut dyn Host, allowance: Allowance) -> Context<'h> {
        super::format::set_precision(host.console().precision);
        let debugs = host.debugs();
        let watch = Watch::open(&allowance);
        Context {
            host,
            allowance,
            scopes: Vec::new(),
            running: None,
            callee: Sym::NULL,
            viewing: Vec::new(),
            frames: Vec::new(),
            at: 0,
            debugs,
            text: Vec::new(),
            machine: None,
            _watch: watch,
            steps: 0,
        }
    }

    /// Called in every loop: ends the evaluation at its deadline or memory limit.
    #[inline]
    pub fn tick(&mut self) -> Result<(), QError> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps & 0x3f == 0 { self.look() } else { Ok(()) }
    }

    /// Looks at the limits; whoever goes on in spite of an error, as where something is tried another way, meets it at the next step.
    #[cold]
    fn look(&mut self) -> Result<(), QError> {
        let seen = self.check();
        if seen.is_err() {
            self.steps = self.steps.wrapping_sub(1);
        }
        seen
    }

    /// As [`Context::tick`], at once.
    pub fn check(&self) -> Result<(), QError> {
        self.allowance.check()
    }

    /// Whether `items` of `width_bytes` can be made within the memory limit.
    pub fn reserve_items(&self, items: usize, width_bytes: usize) -> Result<(), QError> {
        self.reserve(items.saturating_mul(width_bytes))
    }

    /// Whether `bytes` more can be held.
    pub fn reserve(&self, bytes: usize) -> Result<(), QError> {
        self.allowance.reserve(bytes)
    }

    /// Ends a recursion that has become too deep.
    pub fn enter(&mut self) -> Result<(), QError> {
        if stack::is_deep() {
            return Err(QError::named("stack"));
        }
        self.tick()
    }

    /// Applies with one argument.
    pub fn call1(&mut self, f: &Value, x: Value) -> Result<Value, QError> {
        self.apply(f, vec![x])
    }

    /// Applies with two arguments.
    pub fn call2(&mut self, f: &Value, x: Value, y: Value) -> Result<Value, QError> {
        self.apply(f, vec![x, y])
    }
}
