//! Compiles the syntax of a lambda to steps. Unsupported syntax rejects the whole lambda; on a conditional path it becomes a step
//! that bails out to the evaluator.

mod apply;

use crate::runtime::op::Op;
use crate::runtime::registers::WINDOW;
use crate::runtime::scalar::{Scalar, is_object};
use crate::syntax::ast::{Code, Kind, Node};
use crate::syntax::steps::{Site, Step, Unit};
use crate::syntax::{prims, resolve};
use apply::plain_name;
use columns::kernel::zip::Comparison;
use columns::table::{Sym, Value};
use std::sync::Arc;

/// The VM does not support this syntax.
pub(super) struct Refused;

type Made<T = ()> = Result<T, Refused>;

struct Compiler {
    steps: Vec<Step>,
    at: Vec<u32>,
    constants: Vec<Value>,
    globals: Vec<Sym>,
    sites: Vec<Site>,
    parameters: u8,
    locals: u8,
    /// First free register.
    top: u8,
    /// Source position of the node being compiled.
    here: u32,
    /// Index of the step where the last patched jump lands: reachable whatever precedes it.
    landed: usize,
    /// Whether the lambda contains loops.
    has_loops: bool,
    /// Depth of enclosing loops.
    loops: u32,
}

/// Compiles a lambda; `None` if the VM cannot run it.
pub(super) fn unit(code: &Code, source: &Arc<[u8]>) -> Option<Unit> {
    let locals = u8::try_from(code.locals.len()).ok().filter(|l| usize::from(*l) < WINDOW / 2)?;
    let parameters = u8::try_from(code.parameters.len()).ok()?;
    let mut c = Compiler {
        steps: Vec::new(),
        at: Vec::new(),
        constants: Vec::new(),
        globals: Vec::new(),
        sites: Vec::new(),
        parameters,
        locals,
        top: locals,
        here: code.start,
        landed: 0,
        has_loops: code.body.iter().any(loops),
        loops: 0,
    };
    c.result(&code.body).ok()?;
    // Every run would bail out at once.
    if matches!(c.steps.first(), Some(Step::Leave)) || c.steps.len() >= usize::from(u16::MAX) {
        return None;
    }
    Some(Unit {
        steps: c.steps,
        at: c.at,
        constants: c.constants,
        globals: c.globals,
        sites: c.sites,
        parameters,
        locals,
        source: Arc::clone(source),
        start: code.start,
    })
}

/// Whether evaluating a node can assign a local.
fn assigns(node: &Node) -> bool {
    let mut found = false;
    resolve::walk(node, &mut |n| found |= matches!(n.kind, Kind::Assign(_)));
    found
}

fn loops(node: &Node) -> bool {
    let mut found = false;
    resolve::walk(node, &mut |n| found |= matches!(n.kind, Kind::While(_) | Kind::Do(_)));
    found
}

fn small<T: TryFrom<i64>>(node: &Node) -> Option<T> {
    match node.kind {
        Kind::Const(Value::Long(l)) => T::try_from(l).ok(),
        _ => None,
    }
}

/// Returns the primitive that a node names.
fn primitive(f: &Node) -> Option<u16> {
    match &f.kind {
        Kind::Const(value) => prims::index_of(value),
        _ => None,
    }
}

impl Compiler {
    fn emit(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.at.push(self.here);
        self.steps.len() - 1
    }

    fn place(&self) -> u16 {
        u16::try_from(self.steps.len()).unwrap_or(u16::MAX)
    }

    /// Patches an emitted jump to land here.
    fn land(&mut self, jump: usize) {
        let here = self.place();
        self.landed = self.steps.len();
        if let Some(step) = self.steps.get_mut(jump) {
            *step = step.to(here);
        }
    }

    fn register(&mut self) -> Made<u8> {
        let register = self.top;
        self.top = self.top.checked_add(1).filter(|t| usize::from(*t) < WINDOW - 8).ok_or(Refused)?;
        Ok(register)
    }

    /// Compiles a conditional path; if it is rejected, it becomes a bail-out.
    fn perhaps(&mut self, inner: impl FnOnce(&mut Self) -> Made) {
        let (steps, top, here) = (self.steps.len(), self.top, self.here);
        let lists = (self.constants.len(), self.globals.len(), self.sites.len());
        if inner(self).is_err() {
            self.steps.truncate(steps);
            self.at.truncate(steps);
            self.constants.truncate(lists.0);
            self.globals.truncate(lists.1);
            self.sites.truncate(lists.2);
            self.emit(Step::Leave);
        }
        self.top = top;
        self.here = here;
    }

    /// Compiles statements, the last of which is the lambda's result.
    fn result(&mut self, body: &[Node]) -> Made {
        match body.split_last() {
            Some((last, before)) => {
                self.effects(before)?;
                self.tail(last)
            }
            None => {
                let to = self.null()?;
                self.emit(Step::Return { x: to });
                Ok(())
            }
        }
    }

    /// Compiles an expression whose value is the lambda's result.
    fn tail(&mut self, node: &Node) -> Made {
        let top = self.top;
        match &node.kind {
            Kind::Seq(body) => self.result(body)?,
            Kind::Return(value) => self.tail(value)?,
            Kind::Cond(parts) => self.cond(parts, &mut |c, part| match part {
                Some(node) => c.tail(node),
                None => c.result(&[]),
            })?,
            _ => {
                let x = self.operand(node)?;
                self.emit(Step::Return { x });
            }
        }
        self.top = top;
        Ok(())
    }

    fn effects(&mut self, body: &[Node]) -> Made {
        body.iter().try_for_each(|node| self.effect(node))
    }

    /// Compiles the body of the loop at `at` and the jump back to its test.
    fn round(&mut self, body: &[Node], at: u32, again: u16) -> Made {
        self.loops += 1;
        self.effects(body)?;
        self.loops -= 1;
        self.here = at;
        self.emit(Step::Again { target: again });
        Ok(())
    }

    /// Compiles an expression for its side effects only.
    fn effect(&mut self, node: &Node) -> Made {
        let top = self.top;
        match &node.kind {
            Kind::Const(_) => {}
            Kind::Seq(body) => self.effects(body)?,
            Kind::Cond(parts) => self.cond(parts, &mut |c, part| part.map_or(Ok(()), |node| c.effect(node)))?,
            Kind::If(parts) => {
                let (test, body) = parts.split_first().ok_or(Refused)?;
                let skip = self.unless(test)?;
                self.perhaps(|c| c.effects(body));
                self.land(skip);
            }
            Kind::While(parts) => {
                let (test, body) = parts.split_first().ok_or(Refused)?;
                let again = self.place();
                let skip = self.unless(test)?;
                self.round(body, node.at, again)?;
                self.land(skip);
            }
            Kind::Do(parts) => {
                let (times, body) = parts.split_first().ok_or(Refused)?;
                let x = self.register()?;
                self.into(times, x)?;
                self.emit(Step::Times { x });
                let again = self.place();
                let skip = self.emit(Step::Countdown { x, target: 0 });
                self.round(body, node.at, again)?;
                self.land(skip);
            }
            Kind::Assign(assign) => {
                self.assign(assign, node.at, false)?;
            }
            _ => {
                self.operand(node)?;
            }
        }
        self.top = top;
        Ok(())
    }

    /// Compiles `$[test;then;…;otherwise]`; `part` compiles each branch.
    fn cond(&mut self, parts: &[Node], part: &mut dyn FnMut(&mut Self, Option<&Node>) -> Made) -> Made {
        let mut ends = Vec::new();
        let mut rest = parts;
        while let [test, then, more @ ..] = rest {
            let skip = self.unless(test)?;
            self.perhaps(|c| part(c, Some(then)));
            let ended = matches!(self.steps.last(), Some(Step::Return { .. } | Step::Leave));
            if !ended || self.landed == self.steps.len() {
                ends.push(self.emit(Step::Jump { target: 0 }));
            }
            self.land(skip);
            rest = more;
        }
        self.perhaps(|c| part(c, rest.first()));
        ends.into_iter().for_each(|end| self.land(end));
        Ok(())
    }

    /// Emits a jump taken if the condition is false, and returns it for [`Compiler::land`].
    fn unless(&mut self, test: &Node) -> Made<usize> {
        let top = self.top;
        let jump = match &test.kind {
            Kind::Apply(f, arguments) => match (primitive(f).and_then(prims::atomic_op), &arguments[..]) {
                (Some(Op::Compare(c)), [Some(x), Some(y)]) => Some((f.at, c, x, y)),
                _ => None,
            },
            _ => None,
        };
        let step = match jump {
            Some((at, comparison, x, y)) => {
                let step = match (small::<i32>(x), small::<i32>(y)) {
                    (_, Some(y)) => unless_long(comparison, self.operand(x)?, y),
                    (Some(x), _) => unless_long(swapped(comparison), self.operand(y)?, x),
                    _ => {
                        let (x, y) = self.operands(x, y)?;
                        match comparison {
                            Comparison::Equal => Step::UnlessEqual { x, y, target: 0 },
                            Comparison::Unequal => Step::UnlessUnequal { x, y, target: 0 },
                            Comparison::Less => Step::UnlessLess { x, y, target: 0 },
                            Comparison::More => Step::UnlessLess { x: y, y: x, target: 0 },
                            Comparison::AtMost => Step::UnlessAtMost { x, y, target: 0 },
                            Comparison::AtLeast => Step::UnlessAtMost { x: y, y: x, target: 0 },
                        }
                    }
                };
                self.here = at;
                step
            }
            None => Step::Unless { x: self.operand(test)?, target: 0 },
        };
        self.top = top;
        Ok(self.emit(step))
    }

    /// Returns the register that holds the value of a node: the local's own, or a new one.
    fn operand(&mut self, node: &Node) -> Made<u8> {
        match &node.kind {
            Kind::Local(slot) => u8::try_from(*slot).map_err(|_| Refused),
            Kind::Assign(assign) => self.assign(assign, node.at, true),
            _ => {
                let to = self.register()?;
                self.into(node, to)?;
                Ok(to)
            }
        }
    }

    /// Compiles both operands, the right one first; it is copied if evaluating the left one may assign it.
    fn operands(&mut self, x: &Node, y: &Node) -> Made<(u8, u8)> {
        let mut right = self.operand(y)?;
        if right < self.locals && assigns(x) {
            let kept = self.register()?;
            self.emit(Step::Copy { to: kept, x: right });
            right = kept;
        }
        Ok((self.operand(x)?, right))
    }

    fn null(&mut self) -> Made<u8> {
        let to = self.register()?;
        self.constant(&Value::Null, to)?;
        Ok(to)
    }

    fn constant(&mut self, value: &Value, to: u8) -> Made {
        let index = self.listed(value)?;
        self.emit(Step::Constant { to, index });
        Ok(())
    }

    /// Returns the index of a constant, which is added.
    fn listed(&mut self, value: &Value) -> Made<u16> {
        if Scalar::of(value).is_none() && !is_object(value) {
            return Err(Refused);
        }
        let index = u16::try_from(self.constants.len()).map_err(|_| Refused)?;
        self.constants.push(value.clone());
        Ok(index)
    }

    fn global(&mut self, name: Sym) -> Made<u16> {
        plain_name(name)?;
        let known = self.globals.iter().position(|g| *g == name).unwrap_or_else(|| {
            self.globals.push(name);
            self.globals.len() - 1
        });
        u16::try_from(known).map_err(|_| Refused)
    }

    /// Compiles a node into register `to`, which is written last.
    fn into(&mut self, node: &Node, to: u8) -> Made {
        let top = self.top;
        match &node.kind {
            Kind::Const(value) => self.constant(value, to)?,
            Kind::Local(_) | Kind::Assign(_) => {
                let x = self.operand(node)?;
                if x != to {
                    self.emit(Step::Copy { to, x });
                }
            }
            Kind::Global(name) => {
                let index = self.global(*name)?;
                self.emit(Step::Global { to, index });
            }
            Kind::Apply(f, arguments) => self.application(f, arguments, to)?,
            Kind::Cond(parts) => self.cond(parts, &mut |c, part| match part {
                Some(node) => c.into(node, to),
                None => c.constant(&Value::Null, to),
            })?,
            Kind::If(_) | Kind::While(_) | Kind::Do(_) => {
                self.effect(node)?;
                self.constant(&Value::Null, to)?;
            }
            Kind::Seq(body) => match body.split_last() {
                Some((last, before)) => {
                    self.effects(before)?;
                    self.into(last, to)?;
                }
                None => self.constant(&Value::Null, to)?,
            },
            Kind::Return(value) => self.tail(value)?,
            _ => return Err(Refused),
        }
        self.top = top;
        Ok(())
    }
}

/// Jump on a comparison of a register with a constant.
fn unless_long(comparison: Comparison, x: u8, y: i32) -> Step {
    let target = 0;
    match comparison {
        Comparison::Equal => Step::UnlessEqualLong { x, target, y },
        Comparison::Unequal => Step::UnlessUnequalLong { x, target, y },
        Comparison::Less => Step::UnlessLessLong { x, target, y },
        Comparison::More => Step::UnlessMoreLong { x, target, y },
        Comparison::AtMost => Step::UnlessAtMostLong { x, target, y },
        Comparison::AtLeast => Step::UnlessAtLeastLong { x, target, y },
    }
}

/// The comparison with its operands exchanged.
fn swapped(c: Comparison) -> Comparison {
    match c {
        Comparison::Less => Comparison::More,
        Comparison::More => Comparison::Less,
        Comparison::AtMost => Comparison::AtLeast,
        Comparison::AtLeast => Comparison::AtMost,
        same => same,
    }
}
