//! Globals by name: of q, of the library and of the host; parts of values by dotted name.

use crate::eval::{namespace, views};
use crate::runtime::context::{Context, Running};
use crate::runtime::error::QError;
use crate::runtime::host::Made;
use crate::runtime::limits;
use crate::syntax::{lambda, prims, resolve, words};
use crate::verbs::above::Evaluate;
use crate::verbs::amend::{self, Amend};
use crate::verbs::{cast, function, on_disk};
use columns::table::function::Function;
use columns::table::symbol::text;
use columns::table::{Sym, Value};
use std::sync::atomic::{AtomicBool, Ordering};

/// `..a` is `a` of the root.
fn of_root(name: Sym) -> Result<Option<Sym>, QError> {
    let short = text(name).strip_prefix(b"..").filter(|short| short.first().is_some_and(|c| *c != b'.'));
    short.map(crate::runtime::values::symbol).transpose()
}

/// The global that a symbol in an expression names: under `\d .space` a name of that namespace. Names in text are bound when it is parsed.
/// Code of the owner keeps to its own names, whatever namespace its caller is in.
pub(crate) fn named(context: &Context, name: Sym) -> Result<Sym, QError> {
    if let Some(root) = of_root(name)? {
        return Ok(root);
    }
    let space = context.host.namespace();
    if space == Sym::NULL {
        return Ok(name);
    }
    let code = context.frames.iter().rev().find_map(Running::lambda).map(lambda::code);
    if code.is_some_and(|code| code.is_ok_and(|code| code.is_owners)) && context.host.caller().remote {
        return Ok(name);
    }
    resolve::qualify(name, space)
}

/// Returns the value of the global that a symbol names, or of q's own name.
pub(crate) fn value_named(context: &mut Context, name: Sym) -> Result<Value, QError> {
    let full = crate::verbs::tables::located(context, name)?;
    context.global(full)
}

/// Returns what a symbol in a parse tree or applied as a function names: of the current namespace, or a word of q.
pub(crate) fn applied(context: &mut Context, name: Sym) -> Result<Value, QError> {
    let full = named(context, name)?;
    if full != name && context.host.global(full).is_none() {
        let is_word = prims::keyword(text(name)).is_some() || own_keyword(context, text(name)).is_some();
        if is_word {
            return context.global(name);
        }
    }
    context.global(full)
}

/// Returns the value of a global; q's own names take precedence.
pub(crate) fn value(context: &mut Context, name: Sym) -> Result<Value, QError> {
    let name = of_root(name)?.unwrap_or(name);
    let written = text(name);
    if written.first() == Some(&b'.')
        && let Some(own) = context.variable(written)
    {
        return Ok(own);
    }
    crate::io::files::loaded::settle(context);
    if let Some(value) = context.host.global(name) {
        return match &value {
            Value::Func(f) => match &**f {
                Function::View(lambda) => {
                    let value = views::value_of(context, lambda)?;
                    // An earlier reader may have evaluated text for the last value.
                    context.host.makes_code(Made::Value(&value))?;
                    Ok(value)
                }
                _ => Ok(value),
            },
            _ => Ok(value),
        };
    }
    if context.host.native(name).is_some() {
        return Ok(Value::func(Function::Native(name)));
    }
    if let Some(own) = prims::keyword(written.strip_prefix(b".q.").unwrap_or(written)) {
        return Ok(own);
    }
    if let Some(own) = context.library(name)? {
        return Ok(own);
    }
    // Before the names of namespaces are read, some of which may be a client's.
    if let Some(own) = module_word(context, written) {
        return Ok(own);
    }
    if let Some(space) = context.namespace(name) {
        return Ok(space);
    }
    if let Some(nameless) = nameless(context, written) {
        return Ok(nameless);
    }
    // The stem may be a dictionary of the library: `.h.tx.csv` is `.h.tx` indexed by `csv`.
    let part = dotted(context, name, |c, stem| c.host.global(stem).or_else(|| c.library(stem).ok().flatten()))?;
    let found = part.or_else(|| own_keyword(context, written)).or_else(|| default_handler(context, written));
    match found {
        Some(value) => Ok(value),
        None => Err(context.host.missing(name)),
    }
}

/// `` `.my. `` is the item of a namespace whose name is empty, the generic null.
fn nameless(context: &mut Context, written: &[u8]) -> Option<Value> {
    let space = written.strip_suffix(b".").filter(|space| space.len() > 1)?;
    let space = crate::runtime::values::symbol(space).ok()?;
    context.namespace(space).map(|_| Value::Null)
}

/// What a handler of messages does where none is set, for a client, who may not set one: PyKX sets `.z.pg` to `value` if it cannot read it.
fn default_handler(context: &Context, written: &[u8]) -> Option<Value> {
    let is_handler = matches!(written, b".z.pg" | b".z.ps");
    if is_handler && context.host.caller().remote { prims::keyword(b"value") } else { None }
}

/// A function that a script has added to the keywords, by assigning it in `.q`.
fn own_keyword(context: &mut Context, written: &[u8]) -> Option<Value> {
    if written.contains(&b'.') {
        return None;
    }
    let name = columns::table::symbol::find(&[b".q.", written].concat())?;
    context.host.global(name)
}

/// `use`, which is a function and no keyword: programs for kdb+ name variables so. A word of the code's own namespace, for the name in full.
fn module_word(context: &Context, written: &[u8]) -> Option<Value> {
    let around = written.strip_suffix(b"use")?;
    let is_seen = match around.strip_suffix(b".") {
        Some(space) => resolve::module_of(space).is_some() || space == text(context.host.namespace()),
        None => around.is_empty(),
    };
    if is_seen { prims::keyword(b".Q.m.use") } else { None }
}

/// Where the parts of a dotted name begin; none for more parts than any value in use has, as each beginning of the name is looked up.
fn dots_of(name: &[u8]) -> impl DoubleEndedIterator<Item = usize> {
    const MAX_PARTS: usize = 64;
    let is_short = name.iter().filter(|c| **c == b'.').take(MAX_PARTS + 1).count() <= MAX_PARTS;
    let searched = if is_short { name } else { &[] };
    searched.iter().enumerate().filter(|(at, c)| **c == b'.' && *at > 0).map(|(at, _)| at)
}

/// `time.minute`: returns a part of the value named by the stem.
pub(super) fn dotted(
    context: &mut Context,
    name: Sym,
    value_of: impl Fn(&mut Context, Sym) -> Option<Value>,
) -> Result<Option<Value>, QError> {
    let written = text(name);
    let Some(dot) = written.iter().rposition(|c| *c == b'.').filter(|dot| *dot > 0) else { return Ok(None) };
    let (stem, part) = written.split_at(dot);
    // A dotted stem need not be an interned name: it may be a column and a part of it.
    let value = match columns::table::symbol::find(stem).and_then(|stem| value_of(context, stem)) {
        Some(value) => value,
        // `a.b.c`: from the longest stem that is defined, `a` or the dictionary `.a.b`.
        None => {
            let dots = dots_of(stem).rev();
            let mut stems = dots.filter_map(|dot| Some((dot, columns::table::symbol::find(stem.get(..dot)?)?)));
            let found = stems.find_map(|(dot, stem)| Some((dot, value_of(context, stem)?)));
            let Some((dot, mut value)) = found else { return Ok(None) };
            for part in stem.get(dot + 1..).unwrap_or_default().split(|c| *c == b'.') {
                let Some(column) = columns::table::symbol::find(part) else { return Ok(None) };
                value = match &value {
                    Value::Dict(d) if matches!(d.keys, Value::Vector(_)) => {
                        match crate::verbs::find::position(&d.keys, &Value::Sym(column))? {
                            Some(at) => d.values.at(at),
                            None => return Ok(None),
                        }
                    }
                    other => match crate::verbs::enums::follow(context, other, column) {
                        Some(held) => held?,
                        None => return Ok(None),
                    },
                };
            }
            value
        }
    };
    let column = columns::table::symbol::find(part.get(1..).unwrap_or_default());
    // A splayed table on disk is read; a partitioned one is an error, `'par`.
    let value = on_disk::held(context, value)?;
    match &value {
        Value::Table(t) => Ok(column.and_then(|column| t.column(column).cloned().map(Value::of_column))),
        Value::Dict(d) if matches!(d.keys, Value::Vector(_)) => match column {
            Some(column) => Ok(crate::verbs::find::position(&d.keys, &Value::Sym(column))?.map(|at| d.values.at(at))),
            None => Ok(None),
        },
        key if key.is_enumerated() => match column.and_then(|c| crate::verbs::enums::follow(context, key, c)) {
            Some(held) => held.map(Some),
            None => Ok(None),
        },
        _ => cast::part_of(context, part.get(1..).unwrap_or_default(), &value).transpose(),
    }
}

/// As [`value`], of a name that is data: a function found by it counts as code from data.
pub(crate) fn by_data(context: &mut Context, name: Sym) -> Result<Value, QError> {
    let value = value(context, name)?;
    context.host.makes_code(Made::Value(&value))?;
    Ok(value)
}

/// Whether any session of this process has ever set `.z.vs`, so that assignments need not look for it before.
static HAS_SET_HANDLER: AtomicBool = AtomicBool::new(false);

/// `.z.vs[name;indices]`, after a global of the default namespace was assigned.
pub(crate) fn was_set(context: &mut Context, name: Sym, indices: &[Value]) -> Result<(), QError> {
    if !HAS_SET_HANDLER.load(Ordering::Relaxed) || text(name).starts_with(b".") {
        return Ok(());
    }
    let Some(handler) = context.host.global(prims::name(".z.vs")) else { return Ok(()) };
    context.apply(&handler, vec![Value::Sym(name), Value::collapse(indices.to_vec())]).map(drop)
}

pub(crate) fn assign(context: &mut Context, name: Sym, value: Value) -> Result<(), QError> {
    // What code past a limit has left over must not be kept.
    limits::settle()?;
    let written = text(name);
    // A namespace: `.a`, or `a` of globals such as `a.b`.
    if let Value::Dict(members) = &value
        && (written == b"." || namespace::is_one(members) && context.host.global(name).is_none())
        && let Some(Value::Dict(old)) = context.namespace(name)
    {
        return namespace::set_members(context, name, &old, members);
    }
    // Another value takes the place of a namespace.
    if (written.starts_with(b".") || matches!(value, Value::Dict(_))) && context.host.global(name).is_none() {
        namespace::delete_below(context, name)?;
    }
    if matches!(written, b".z.w" | b".z.u" | b".z.a" | b".z.p" | b".z.P") {
        return Err(QError::named("assign"));
    }
    if let Some((holder, parts)) = holder_of(context, written) {
        let held = context.host.global(holder).ok_or(QError::named("type"))?;
        let changed = with_part(context, held, &parts, value)?;
        return assign(context, holder, limits::made(changed)?);
    }
    // k text may assign a word of q, and any text `use`; a client would change them for everyone.
    let is_word = || written == b"use" || !written.starts_with(b".") && prims::keyword(written).is_some();
    if context.host.caller().remote && is_word() {
        return Err(QError::named("assign"));
    }
    if written.starts_with(b".q.") && !context.host.caller().remote {
        words::note(name, &value, matches!(value, Value::Func(_)) && function::valence(&value) == 2);
    }
    if written == b".z.vs" {
        HAS_SET_HANDLER.store(true, Ordering::Relaxed);
    }
    if !crate::verbs::enums::is_domain(name) {
        return context.host.assign(name, value);
    }
    let old = context.host.global(name);
    context.host.assign(name, value.clone())?;
    match old {
        Some(old) => crate::verbs::enums::domain_changed(context, name, &old, &value),
        None => Ok(()),
    }
}

/// Splits a dotted name after the global dictionary or table that it begins with: `.cfg.tick.port` gives `.cfg`, and `tick` and `port`.
fn holder_of(context: &Context, written: &[u8]) -> Option<(Sym, Vec<Sym>)> {
    for (holder, parts) in dots_of(written).filter_map(|dot| written.split_at_checked(dot)) {
        let Some(holder) = columns::table::symbol::find(holder) else { continue };
        let is_holder = match context.host.global(holder) {
            Some(Value::Dict(d)) => d.keyed().is_none() && (d.keys.as_symbols().is_some() || d.keys.count() == 0),
            Some(Value::Table(_)) => true,
            _ => false,
        };
        if is_holder {
            let parts = parts.get(1..).unwrap_or_default().split(|c| *c == b'.').map(crate::runtime::values::symbol);
            return Some((holder, parts.collect::<Result<_, _>>().ok()?));
        }
    }
    None
}

/// Returns the part of a global dictionary or table that a name such as `.cfg.list` stands for.
pub(crate) fn part(context: &mut Context, name: Sym) -> Result<Option<Value>, QError> {
    match holder_of(context, text(name)) {
        Some(_) => dotted(context, name, |c, stem| c.host.global(stem)),
        None => Ok(None),
    }
}

/// `x` with a part assigned. Dictionaries on the way to it are made where there are none, as namespaces are.
fn with_part(context: &mut Context, x: Value, parts: &[Sym], value: Value) -> Result<Value, QError> {
    context.enter()?;
    let Some((part, rest)) = parts.split_first() else { return Ok(value) };
    let value = if rest.is_empty() {
        value
    } else {
        let inner = match &x {
            Value::Dict(d) => crate::verbs::find::position(&d.keys, &Value::Sym(*part))?.map(|at| d.values.at(at)),
            _ => None,
        };
        let inner =
            inner.unwrap_or_else(|| Value::dict(Value::symbols(vec![Sym::NULL]), Value::list(vec![Value::Null])));
        with_part(context, inner, rest, value)?
    };
    amend::deep(context, x, &[Value::Sym(*part)], &Amend { function: None, value: Some(&value) })
}
