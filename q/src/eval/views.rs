//! Views: `name::expression`, evaluated on read, and again only if an input changed.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::locked;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::ast::Code;
use crate::syntax::{parse, resolve};
use crate::verbs::above::Evaluate;
use columns::table::function::{Function, Lambda};
use columns::table::symbol::text;
use columns::table::{Attr, Items, Raw, Sym, Value, Vector};
use std::sync::{Arc, Mutex, PoisonError};

/// Compiled form of a view.
#[derive(Debug)]
pub(crate) struct View {
    code: Code,
    reads: Vec<Sym>,
    /// Inputs and result of the last evaluation.
    last: Mutex<Option<Last>>,
}

#[derive(Debug)]
struct Last {
    inputs: Vec<Option<Value>>,
    value: Value,
}

/// Whether two values share the same storage; their items are not compared.
pub(crate) fn identical(x: &Value, y: &Value) -> bool {
    match (x, y) {
        (Value::Vector(a), Value::Vector(b)) => {
            let place = |v: &Vector| match v.items.raw() {
                Raw::List(s) => (s.as_ptr() as usize, s.len()),
                Raw::U8(s) => (s.as_ptr() as usize, s.len()),
                Raw::Guid(s) => (s.as_ptr() as usize, s.len()),
                Raw::I16(s) => (s.as_ptr() as usize, s.len()),
                Raw::I32(s) => (s.as_ptr() as usize, s.len()),
                Raw::I64(s) => (s.as_ptr() as usize, s.len()),
                Raw::F32(s) => (s.as_ptr() as usize, s.len()),
                Raw::F64(s) => (s.as_ptr() as usize, s.len()),
                Raw::Sym(s) => (s.as_ptr() as usize, s.len()),
            };
            a.items.type_number() == b.items.type_number() && place(a) == place(b)
        }
        (Value::Dict(a), Value::Dict(b)) => a.ptr_eq(b),
        (Value::Table(a), Value::Table(b)) => Arc::ptr_eq(a, b),
        (Value::Func(a), Value::Func(b)) => a.ptr_eq(b),
        _ => x.is_atom() && y.is_atom() && crate::verbs::matches::same_exactly(x, y).unwrap_or(false),
    }
}

/// Creates a view from the text of an expression.
pub(crate) fn view(source: Arc<[u8]>, namespace: Sym) -> Result {
    let code = parse::program(&source, namespace)?.code;
    // Names in the phrases of a template may be columns: like kdb+, do not count them as inputs.
    let mut reads = Vec::new();
    code.body.iter().for_each(|node| crate::syntax::globals::globals_outside(node, &mut reads));
    let view = View { code, reads, last: Mutex::new(None) };
    Ok(Value::func(Function::View(Lambda { source, namespace, code: Arc::new(view) })))
}

fn compiled(lambda: &Lambda) -> std::result::Result<&View, QError> {
    lambda.code.downcast_ref::<View>().ok_or_else(type_error)
}

impl Context<'_> {
    /// Current values of a view's inputs.
    fn inputs(&mut self, view: &View) -> std::result::Result<Vec<Option<Value>>, QError> {
        let mut out = Vec::with_capacity(view.reads.len());
        for name in &view.reads {
            if self.is_view(*name, view) {
                continue;
            }
            out.push(match self.trapping(|context| context.global(*name)) {
                Ok(value) => Some(value),
                Err(error) if crate::runtime::host::is_limit(&error) || &error.name[..] == b"loop" => {
                    return Err(error);
                }
                Err(_) => None,
            });
        }
        Ok(out)
    }

    /// Whether a name is that of the view itself.
    fn is_view(&self, name: Sym, view: &View) -> bool {
        matches!(self.host.global(name), Some(Value::Func(f)) if matches!(&*f, Function::View(l)
            if compiled(l).is_ok_and(|own| std::ptr::eq(own, view))))
    }

    /// Evaluates a view, at a level of its own in the call stack.
    fn calculated(&mut self, view: &View, lambda: &Lambda) -> Result {
        self.in_text(&lambda.source, None, |context| context.run(&view.code, Vec::new()))
            .map_err(|error| error.leave(b"", &lambda.source, 0))
    }

    /// Returns the cached value of a view, or evaluates it if an input changed.
    fn fresh(&mut self, view: &View, lambda: &Lambda) -> Result {
        if self.host.is_restricted() {
            return self.calculated(view, lambda);
        }
        let inputs = self.inputs(view)?;
        if let Some(last) = view.last.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
            && unchanged(&last.inputs, &inputs)
        {
            return Ok(last.value.clone());
        }
        let value = self.calculated(view, lambda)?;
        let last = Last { inputs, value: value.clone() };
        *view.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        Ok(value)
    }

    /// Whether reading a view would evaluate it.
    fn is_pending(&mut self, lambda: &Lambda) -> bool {
        let Ok(view) = compiled(lambda) else { return false };
        let Ok(inputs) = self.inputs(view) else { return true };
        let last = view.last.lock().unwrap_or_else(PoisonError::into_inner);
        !last.as_ref().is_some_and(|last| unchanged(&last.inputs, &inputs))
    }
}

/// Returns the value of a view. A view that reads itself gets its previous value.
pub(super) fn value_of(context: &mut Context, lambda: &Lambda) -> Result {
    context.enter()?;
    let view = compiled(lambda)?;
    let own = std::ptr::from_ref(view) as usize;
    if context.viewing.contains(&own) {
        if context.host.is_restricted() {
            return Err(QError::named("loop"));
        }
        let last = view.last.lock().unwrap_or_else(PoisonError::into_inner);
        return last.as_ref().map(|last| last.value.clone()).ok_or(QError::named("loop"));
    }
    context.viewing.push(own);
    let result = context.fresh(view, lambda);
    context.viewing.pop();
    result
}

/// `\b` and `\B`: names of the views in a namespace, all or only the pending ones.
pub(crate) fn listed(context: &mut Context, space: Sym, pending: bool) -> Result {
    let mut found = Vec::new();
    for name in context.host.names(space) {
        let full = resolve::qualify(name, space)?;
        if let Some(Value::Func(f)) = context.host.global(full)
            && let Function::View(lambda) = &*f
            && (!pending || context.is_pending(lambda))
        {
            found.push(name);
        }
    }
    found.sort_by_key(|n| text(*n));
    // kdb+ shows a single name without `` `s# ``.
    let attr = if pending || found.len() < 2 { Attr::None } else { Attr::Sorted };
    Ok(Vector { attr, items: Items::Sym(found.into()) }.into())
}

fn unchanged(before: &[Option<Value>], now: &[Option<Value>]) -> bool {
    before.iter().zip(now).all(|pair| match pair {
        (Some(a), Some(b)) => identical(a, b),
        (None, None) => true,
        _ => false,
    })
}

/// `view x`: returns the text of a view.
pub(crate) fn text_of(context: &mut Context, x: Value) -> Result {
    let Value::Sym(name) = x else { return Err(type_error()) };
    let full = resolve::qualify(name, context.host.namespace())?;
    match context.host.global(full) {
        Some(Value::Func(f)) => match &*f {
            Function::View(lambda) => Ok(Value::chars(locked::shown(&lambda.source))),
            _ => Err(QError::named("view")),
        },
        Some(_) => Err(type_error()),
        None => Err(QError::signal(text(name))),
    }
}

/// `views x`: names of the views in a namespace.
pub(crate) fn names(context: &mut Context, x: Value) -> Result {
    let space = match x {
        Value::Sym(s) if text(s) != b"." => s,
        _ => Sym::NULL,
    };
    listed(context, space, false)
}

/// `value` of a view: its last value, parse tree, inputs and text.
pub(crate) fn parts(context: &mut Context, lambda: &Lambda) -> Result {
    if locked::is_locked(&lambda.source) {
        return Err(QError::with("type", "a view of a locked script shows no parts"));
    }
    let view = compiled(lambda)?;
    let tree = crate::qsql::tree::parse(context, Value::chars(&lambda.source[..]))?;
    let last = view.last.lock().unwrap_or_else(PoisonError::into_inner);
    let last = last.as_ref().filter(|_| !context.host.is_restricted());
    let value = last.map_or(Value::Null, |last| last.value.clone());
    Ok(Value::list(vec![value, tree, Value::symbols(view.reads.clone()), Value::chars(&lambda.source[..])]))
}

/// `.z.b`: dictionary from globals to the views that read them. Where roles restrict what the caller sees, it names no others.
pub(crate) fn dependencies(context: &Context) -> Value {
    let mut read: Vec<Sym> = Vec::new();
    let mut readers: Vec<Vec<Sym>> = Vec::new();
    let names = context.host.names(Sym::NULL);
    let is_restricted = context.host.is_restricted();
    for name in names.iter().copied() {
        let Some(Value::Func(f)) = context.host.global(name) else { continue };
        let Function::View(lambda) = &*f else { continue };
        for source in compiled(lambda).map(|view| &view.reads[..]).unwrap_or_default() {
            if is_restricted && !names.contains(source) {
                continue;
            }
            let place = read.iter().position(|r| r == source).unwrap_or_else(|| {
                read.push(*source);
                readers.push(Vec::new());
                read.len() - 1
            });
            if let Some(readers) = readers.get_mut(place) {
                readers.push(name);
            }
        }
    }
    Value::dict(Value::symbols(read), Value::list(readers.into_iter().map(Value::symbols).collect()))
}
