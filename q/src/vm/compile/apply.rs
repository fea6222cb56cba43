//! Compiles applications and assignments.

use super::{Compiler, Made, Refused, assigns, small};
use crate::runtime::op::Op;
use crate::syntax::ast::{Assign, Kind, Node};
use crate::syntax::prims;
use crate::syntax::steps::{Callee, Monad, Site, Step};
use crate::vm::slot;
use columns::kernel::zip::Arithmetic;
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Sym, Value};

/// Primitives of one argument without side effects that mostly return an atom.
const WORDS: &[&str] = &[
    "neg",
    "abs",
    "not",
    "floor",
    "ceiling",
    "sqrt",
    "log",
    "exp",
    "sin",
    "asin",
    "cos",
    "acos",
    "tan",
    "atan",
    "reciprocal",
    "null",
    "signum",
    "count",
    "first",
    "last",
    "sum",
    "prd",
    "min",
    "max",
    "avg",
    "all",
    "any",
    "var",
    "dev",
    "type",
    "lower",
    "upper",
];

/// Non-atomic primitives of two arguments, likewise.
const INFIX: &[&str] = &["~", "$", "in", "within", "like", "bin", "binr", "wsum", "wavg", "cov", "cor"];

/// Primitives that return lists, compiled only in lambdas with loops: elsewhere the evaluator is as fast.
const LIST_WORDS: &[&str] = &[
    "til", "reverse", "where", "distinct", "raze", "sums", "prds", "deltas", "asc", "desc", "iasc", "idesc", "prev",
    "next", "string", "flip",
];
const LIST_INFIX: &[&str] = &[",", "#", "_", "cut", "sublist", "rotate", "union", "inter", "except", "vs", "sv"];
impl Compiler {
    pub(super) fn application(&mut self, f: &Node, arguments: &[Option<Node>], to: u8) -> Made {
        match (&f.kind, arguments) {
            (Kind::Const(Value::Func(function)), _) => match (&**function, arguments) {
                (Function::Primitive(index), [Some(x), Some(y)]) => self.infix(*index, x, y, to, f.at),
                (Function::Primitive(index), [Some(x)]) => self.word(*index, x, to, f.at),
                (Function::Lambda(lambda), _) => {
                    let unit = slot(lambda).and_then(|s| s.unit(lambda)).ok_or(Refused)?;
                    self.call(Callee::Lambda(unit), arguments, to, f.at)
                }
                _ => Err(Refused),
            },
            (Kind::Global(name), _) if text(*name) == b".z.s" => self.call(Callee::Own, arguments, to, f.at),
            (Kind::Global(name), _) => {
                plain_name(*name)?;
                self.call(Callee::Global(*name), arguments, to, f.at)
            }
            (Kind::Local(_) | Kind::Const(_), [Some(i)]) => {
                let y = self.operand(i)?;
                let x = self.operand(f)?;
                self.here = f.at;
                self.emit(Step::Item { to, x, y });
                Ok(())
            }
            _ => Err(Refused),
        }
    }

    fn infix(&mut self, index: u16, x: &Node, y: &Node, to: u8, at: u32) -> Made {
        let op = prims::atomic_op(index);
        let left = small::<i32>(x).filter(|_| small::<i32>(y).is_none());
        if let Some(Op::Arithmetic(arithmetic)) = op
            && let Some(step) = self.with_constant(arithmetic, x, y, to)?
        {
            self.here = at;
            self.emit(step);
            return Ok(());
        }
        let step = match (op, left, small::<i32>(y)) {
            (Some(Op::Arithmetic(Arithmetic::Add)), Some(k), _) => Step::AddLong { to, x: self.operand(y)?, y: k },
            (Some(Op::Arithmetic(Arithmetic::Multiply)), Some(k), _) => {
                Step::MultiplyLong { to, x: self.operand(y)?, y: k }
            }
            (Some(op), _, Some(k)) => {
                let x = self.operand(x)?;
                match self.with_long(op, to, x, k) {
                    Some(step) => step,
                    None => {
                        let register = self.register()?;
                        self.constant(&Value::Long(i64::from(k)), register)?;
                        plain(op, to, x, register)
                    }
                }
            }
            (Some(op), ..) => {
                let (x, y) = self.operands(x, y)?;
                plain(op, to, x, y)
            }
            (None, ..) => {
                let name = prims::get(index).map_or("", |p| p.name);
                if !(INFIX.contains(&name) || self.has_loops && LIST_INFIX.contains(&name)) {
                    return Err(Refused);
                }
                let (x, y) = self.operands(x, y)?;
                Step::Other { to, x, y, primitive: index }
            }
        };
        self.here = at;
        self.emit(step);
        Ok(())
    }

    /// Step on a register and a constant with an opcode of its own: floats, and subtraction from a long.
    fn with_constant(&mut self, op: Arithmetic, x: &Node, y: &Node, to: u8) -> Made<Option<Step>> {
        let float = |node: &Node| matches!(node.kind, Kind::Const(Value::Float(_)));
        let (constant, other) = match (&x.kind, &y.kind) {
            (_, Kind::Const(value)) if float(y) && !float(x) => (value, x),
            (Kind::Const(value), _) if float(x) && !float(y) => (value, y),
            (Kind::Const(value @ Value::Long(_)), kind)
                if op == Arithmetic::Subtract && !matches!(kind, Kind::Const(_)) =>
            {
                (value, y)
            }
            _ => return Ok(None),
        };
        if !matches!(op, Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply) {
            return Ok(None);
        }
        let index = self.listed(constant)?;
        let register = self.operand(other)?;
        Ok(Some(match op {
            Arithmetic::Add => Step::AddConstant { to, x: register, index },
            Arithmetic::Multiply => Step::MultiplyConstant { to, x: register, index },
            _ if std::ptr::eq(other, y) => Step::SubtractFrom { to, x: register, index },
            _ => Step::SubtractConstant { to, x: register, index },
        }))
    }

    /// Step with a constant right operand.
    fn with_long(&self, op: Op, to: u8, x: u8, y: i32) -> Option<Step> {
        Some(match op {
            Op::Arithmetic(Arithmetic::Add) => Step::AddLong { to, x, y },
            Op::Arithmetic(Arithmetic::Subtract) => Step::SubtractLong { to, x, y },
            Op::Arithmetic(Arithmetic::Multiply) => Step::MultiplyLong { to, x, y },
            Op::Div => Step::DivLong { to, x, y },
            Op::Mod => Step::ModLong { to, x, y },
            op => Step::BinaryLong { to, x, y: i16::try_from(y).ok()?, op },
        })
    }

    fn word(&mut self, index: u16, x: &Node, to: u8, at: u32) -> Made {
        let name = prims::get(index).map_or("", |p| p.name);
        if !(WORDS.contains(&name) || self.has_loops && LIST_WORDS.contains(&name)) {
            return Err(Refused);
        }
        let monad = match name {
            "neg" => Monad::Neg,
            "abs" => Monad::Abs,
            "not" => Monad::Not,
            "sqrt" => Monad::Sqrt,
            "count" => Monad::Count,
            _ => Monad::Any,
        };
        let x = self.operand(x)?;
        self.here = at;
        self.emit(Step::Unary { to, x, monad, primitive: index });
        Ok(())
    }

    fn call(&mut self, callee: Callee, arguments: &[Option<Node>], to: u8, at: u32) -> Made {
        let base = self.top;
        let count = match arguments {
            [None] => {
                self.null()?;
                1
            }
            _ => {
                for _ in arguments {
                    self.register()?;
                }
                let registers: Vec<u8> = (base..self.top).collect();
                for (argument, register) in arguments.iter().zip(registers).rev() {
                    self.into(argument.as_ref().ok_or(Refused)?, register)?;
                }
                arguments.len()
            }
        };
        let unit = u16::try_from(self.sites.len()).map_err(|_| Refused)?;
        self.sites.push(Site { callee, arguments: count });
        self.here = at;
        self.emit(Step::Call { to, base, unit });
        Ok(())
    }

    /// Compiles the assignment of a local and returns the register of its result, which is used only if `is_read`.
    pub(super) fn assign(&mut self, assign: &Assign, at: u32, is_read: bool) -> Made<u8> {
        let Kind::Local(slot) = assign.target.kind else { return Err(Refused) };
        if assign.pattern || assign.global {
            return Err(Refused);
        }
        let slot = u8::try_from(slot).map_err(|_| Refused)?;
        let appends = assign.through.as_ref().is_some_and(|f| prims::is_glyph(f, ","));
        if appends || !assign.indices.is_empty() {
            return self.change(assign, slot, at, is_read);
        }
        let top = self.top;
        match assign.through.as_ref().map(prims::index_of) {
            None => self.into(&assign.value, slot)?,
            Some(index) => {
                let op = index.and_then(prims::atomic_op).ok_or(Refused)?;
                let direct = small::<i32>(&assign.value).and_then(|k| self.with_long(op, slot, slot, k));
                let step = match direct {
                    Some(step) => step,
                    None => plain(op, slot, slot, self.operand(&assign.value)?),
                };
                self.here = at;
                self.emit(step);
            }
        }
        self.top = top;
        Ok(slot)
    }

    /// Compiles `x[i]:v`, `x[i]op:v` and `x,:v`, in place if `x` is not shared.
    fn change(&mut self, assign: &Assign, slot: u8, at: u32, is_read: bool) -> Made<u8> {
        // The caller shares an argument, so each run copies it once: this pays only in a loop.
        if slot < self.parameters && self.loops == 0 {
            return Err(Refused);
        }
        let mut value = self.operand(&assign.value)?;
        if assign.indices.is_empty() {
            self.here = at;
            self.emit(Step::Append { x: slot, y: value });
            return Ok(slot);
        }
        let [Some(index)] = &assign.indices[..] else { return Err(Refused) };
        let op = match assign.through.as_ref().map(prims::index_of) {
            None => None,
            Some(index) => Some(index.and_then(prims::atomic_op).ok_or(Refused)?),
        };
        if value < self.locals && assigns(index) {
            let kept = self.register()?;
            self.emit(Step::Copy { to: kept, x: value });
            value = kept;
        }
        let y = self.operand(index)?;
        self.here = at;
        self.emit(Step::Amend { x: slot, y, value, op });
        if is_read && op.is_some() {
            value = self.register()?;
            self.emit(Step::Item { to: value, x: slot, y });
        }
        Ok(value)
    }
}

/// Rejects the variables of the system namespaces, which are computed at each read.
pub(super) fn plain_name(name: Sym) -> Made {
    let own = [&b".z."[..], b".Q.", b".h.", b".j.", b".q"].iter().any(|own| text(name).starts_with(own));
    if own { Err(Refused) } else { Ok(()) }
}

/// Step on two registers.
fn plain(op: Op, to: u8, x: u8, y: u8) -> Step {
    match op {
        Op::Arithmetic(Arithmetic::Add) => Step::Add { to, x, y },
        Op::Arithmetic(Arithmetic::Subtract) => Step::Subtract { to, x, y },
        Op::Arithmetic(Arithmetic::Multiply) => Step::Multiply { to, x, y },
        Op::Div => Step::Div { to, x, y },
        Op::Mod => Step::Mod { to, x, y },
        Op::Divide => Step::Divide { to, x, y },
        op => Step::Binary { to, x, y, op },
    }
}
