//! Functions that evaluate (`value`, `.` and `@` with traps), forms of `?` and `!`, and `.Q` functions.

use crate::eval::globals;
use crate::runtime::console::Console;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::locked;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::ast::Kind;
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use crate::verbs::amend::Amend;
use crate::verbs::append::upsert_value;
use crate::verbs::format::one_line_at;
use crate::verbs::function::{self, elided, type_of, valence};
use crate::verbs::show::{MAX_CONSOLE, show};
use crate::verbs::{amend, index, tables};
use columns::table::function::{Function, Lambda};
use columns::table::symbol::text;
use columns::table::{Attr, Items, Sym, Value, Vector};
use proto::types;

/// `type x`: returns the type number.
pub(crate) fn type_(_: &mut Context, x: Value) -> Result {
    Ok(Value::Short(match &x {
        Value::Vector(Vector { attr: Attr::Mapped(number), .. }) => i16::from(*number),
        _ => type_of(&x).into(),
    }))
}

/// `value x`: evaluates text and lists, looks up names, decomposes dictionaries and functions.
pub(crate) fn value(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Char(_) | Value::Vector(Vector { items: Items::Char(_), .. }) => {
            context.text(x.as_text().unwrap_or_default())
        }
        Value::Sym(name) if crate::runtime::paths::is_path(*name) => crate::io::files::get(context, &x),
        Value::Sym(Sym::NULL) => Err(QError::with("type", "the null symbol names nothing")),
        Value::Sym(name) => crate::eval::globals::value_named(context, *name),
        Value::Dict(d) => Ok(d.values.clone()),
        _ if x.is_enumerated() => Ok(x.plain()),
        Value::Vector(Vector { items: Items::List(l), .. }) if !l.is_empty() => context.message(&x),
        Value::Vector(Vector { items: Items::Sym(s), .. }) if !s.is_empty() => context.message(&x),
        Value::Null => Ok(Value::Long(0)),
        Value::Func(f) => match &**f {
            Function::View(lambda) => crate::eval::views::parts(context, lambda),
            _ => parts(context, f, &x),
        },
        _ => Ok(x),
    }
}

/// `value` of a lambda, as in kdb+: bytecode (empty), parameters, locals, namespace and globals, constants, source map (empty),
/// full name, file, line and text.
fn lambda_parts(context: &mut Context, l: &Lambda) -> Result {
    if locked::is_locked(&l.source) {
        return Err(QError::with("type", "a function of a locked script shows no parts"));
    }
    let code = crate::syntax::lambda::code(l)?;
    let locals = code.locals.iter().skip(code.parameters.len()).copied().collect();
    let mut globals = Vec::new();
    crate::syntax::globals::globals(code, &mut globals);
    let space = text(l.namespace);
    let mut names = vec![crate::runtime::values::symbol(space.strip_prefix(b".").unwrap_or(space))?];
    for global in globals {
        let inside = text(global).strip_prefix(space).and_then(|rest| rest.strip_prefix(b"."));
        names.push(match inside.filter(|_| !space.is_empty()) {
            Some(short) => crate::runtime::values::symbol(short)?,
            None => global,
        });
    }
    let mut out = vec![
        Items::Byte(Vec::new().into()).into(),
        // A lambda without parameters takes one that has no name.
        Value::symbols(match &code.parameters[..] {
            [] => vec![Sym::NULL],
            named => named.to_vec(),
        }),
        Value::symbols(locals),
        Value::symbols(names),
    ];
    for node in &code.body {
        crate::syntax::resolve::walk(node, &mut |n| match &n.kind {
            Kind::Const(Value::Func(f)) if !matches!(**f, Function::Lambda(_)) => {}
            Kind::Const(Value::Null) => {}
            Kind::Const(constant) => out.push(constant.clone()),
            _ => {}
        });
    }
    let (holder, origin) = match crate::syntax::lambda::definition(l) {
        // A remote caller sees no path that the host does not show.
        Some(definition) if context.host.caller().remote => {
            (Some(definition.name), context.host.origin(definition.name))
        }
        Some(definition) => (Some(definition.name), definition.origin.clone()),
        None => {
            let holder = crate::verbs::trace::holder_of(context, l)?;
            // `value {x+1}` in a line of a script: no global holds the lambda, so its file and line are those of the line.
            (holder, holder.map_or_else(|| context.host.loading_from(), |name| context.host.origin(name)))
        }
    };
    out.push(Value::longs(Vec::new()));
    out.push(match holder.map(text) {
        Some(full) if full.starts_with(b".") => Value::chars(full),
        Some(of_root) => Value::chars([b"..", of_root].concat()),
        None => Value::chars(&b""[..]),
    });
    out.push(Value::chars(origin.as_ref().map_or(&[][..], |o| &o.file[..])));
    out.push(Value::Long(origin.map_or(-1, |o| i64::from(o.line))));
    out.push(Value::chars(&l.source[..]));
    Ok(Value::list(out))
}

/// `value` of a keyword that is a lambda in kdb+ (`xcol`), and of a function of the process (`.u.sub`): a list as for a lambda, in which programs
/// count the parameters. Its source text is the name.
fn word_parts(name: &[u8], parameters: usize) -> Result {
    const NAMES: [&[u8]; 8] = [b"x", b"y", b"z", b"a", b"b", b"c", b"d", b"e"];
    let named = NAMES.iter().take(parameters).map(|name| crate::runtime::values::symbol(name));
    let mut named = named.collect::<std::result::Result<Vec<Sym>, QError>>()?;
    if named.is_empty() {
        named.push(Sym::NULL);
    }
    Ok(Value::list(vec![
        Items::Byte(Vec::new().into()).into(),
        Value::symbols(named),
        Value::symbols(Vec::new()),
        Value::symbols(vec![Sym::NULL]),
        Value::longs(Vec::new()),
        Value::chars(if name.starts_with(b".") { name.to_vec() } else { [b".q.", name].concat() }),
        Value::chars(&b""[..]),
        Value::Long(-1),
        Value::chars(name),
    ]))
}

fn parts(context: &mut Context, f: &Function, x: &Value) -> Result {
    Ok(match f {
        Function::Lambda(l) => lambda_parts(context, l)?,
        Function::Projection { function, arguments } => {
            let mut all = vec![function.clone()];
            all.extend(arguments.iter().map(|a| a.clone().unwrap_or_else(elided)));
            Value::list(all)
        }
        Function::Composition(parts) => Value::list(parts.clone()),
        Function::Derived { function, .. } => function.clone(),
        Function::Primitive(index) => match prims::get(*index) {
            Some(word) if type_of(x) == types::LAMBDA => word_parts(word.name.as_bytes(), valence(x))?,
            found => match found.and_then(|word| function::iterated(word.name)) {
                Some(operator) => prims::glyph(operator),
                None => Value::Long(found.map_or(0, |p| i64::from(p.code.1))),
            },
        },
        Function::Native(name) => word_parts(text(*name), context.host.native(*name).unwrap_or(1).into())?,
        Function::Coded(_, code) => Value::Long(i64::from(*code)),
        Function::View(_) | Function::OnDisk { .. } => x.clone(),
    })
}

/// Applies the handler of a trap to an error.
fn rescue(context: &mut Context, handler: &Value, error: QError) -> Result {
    if context.is_ended_by(&error) {
        return Err(error);
    }
    match handler {
        Value::Func(_) | Value::Null => context.call1(handler, Value::chars(error.name.into_owned())),
        value => Ok(value.clone()),
    }
}

/// Whether `@[f;x;handler]` calls its first item (a function, a handle, a process's address, or another atom, which cannot be called);
/// anything else is amended.
fn is_called(f: &Value) -> bool {
    match f {
        Value::Sym(name) => crate::io::environment::is_address(*name),
        _ => matches!(f, Value::Func(_) | Value::Null) || f.is_atom(),
    }
}

/// `@[…]` with 1 to 4 arguments.
pub(crate) fn at(context: &mut Context, mut a: Vec<Value>) -> Result {
    match a.len() {
        2 => {
            let y = a.remove(1);
            apply_one(context, &a.remove(0), y)
        }
        3 if a.first().is_some_and(is_called) => {
            let (handler, x) = (a.remove(2), a.remove(1));
            let f = a.remove(0);
            context.trapping(|context| context.call1(&f, x)).or_else(|error| rescue(context, &handler, error))
        }
        n @ (3 | 4) => {
            let value = if n == 4 { Some(a.remove(3)) } else { None };
            let (f, path) = (a.remove(2), a.remove(1));
            amend_global(context, a.remove(0), &[path], &f, value)
        }
        _ => Err(QError::named("rank")),
    }
}

fn apply_one(context: &mut Context, f: &Value, x: Value) -> Result {
    match f {
        Value::Func(_) | Value::Sym(_) | Value::Null => context.call1(f, x),
        Value::Int(_) | Value::Long(_) | Value::Char(_) => context.call1(f, x),
        data => index::one(context, data, &x),
    }
}

/// `.[…]` with 1 to 4 arguments.
pub(crate) fn dot(context: &mut Context, mut a: Vec<Value>) -> Result {
    // A table is a list of arguments too, one for each row: `enlist` of a dictionary is a table.
    let path = |x: &Value| if matches!(x, Value::Vector(_) | Value::Table(_)) { x.items() } else { vec![x.clone()] };
    match a.len() {
        1 => value(context, a.remove(0)),
        2 => {
            let arguments = a.remove(1);
            let f = a.remove(0);
            if !matches!(arguments, Value::Vector(_) | Value::Table(_)) {
                return Err(type_error());
            }
            if arguments.count() == 0 {
                return match &f {
                    Value::Sym(name) => crate::eval::globals::applied(context, *name),
                    _ => Ok(f),
                };
            }
            context.apply_holes(&f, path(&arguments).into_iter().map(Some).collect())
        }
        3 if a.first().is_some_and(is_called) => {
            let (handler, arguments) = (a.remove(2), a.remove(1));
            let f = a.remove(0);
            let arguments = path(&arguments).into_iter().map(Some).collect();
            context
                .trapping(|context| context.apply_holes(&f, arguments))
                .or_else(|error| rescue(context, &handler, error))
        }
        n @ (3 | 4) => {
            let value = if n == 4 { Some(a.remove(3)) } else { None };
            let (f, indices) = (a.remove(2), a.remove(1));
            let indices = if indices.count() == 0 { Vec::new() } else { path(&indices) };
            amend_global(context, a.remove(0), &indices, &f, value)
        }
        _ => Err(QError::named("rank")),
    }
}

/// Amends a value, or the global that a symbol names.
fn amend_global(context: &mut Context, target: Value, path: &[Value], f: &Value, value: Option<Value>) -> Result {
    let assigns = prims::is_glyph(f, ":");
    let change = if assigns {
        Amend { function: None, value: value.as_ref() }
    } else {
        Amend { function: Some(f), value: value.as_ref() }
    };
    let creates = assigns || prims::is_glyph(f, ",");
    let is_inside = if creates { crate::io::files::may_be_folder } else { crate::io::files::is_folder };
    // Each column of a splayed table has its own file; `` ` `` is the table itself. An assignment or append makes the directories that it needs.
    if let (Value::Sym(folder), Some((Value::Sym(column), rest))) = (&target, path.split_first())
        && crate::runtime::paths::is_path(*folder)
        && (*column == Sym::NULL || is_inside(context, &target)?)
    {
        let file = crate::runtime::paths::inside(*folder, *column)?;
        amend_global(context, Value::Sym(file), rest, f, value)?;
        return Ok(target);
    }
    // Several columns are changed one after the other: only their files, and an append may make them longer than the others.
    if let (Value::Sym(folder), Some((Value::Vector(Vector { items: Items::Sym(columns), .. }), rest))) =
        (&target, path.split_first())
        && crate::runtime::paths::is_path(*folder)
        && is_inside(context, &target)?
    {
        let of_each = value.as_ref().filter(|value| !value.is_scalar());
        if of_each.is_some_and(|values| values.count() != columns.len()) {
            return Err(QError::named("length"));
        }
        for (i, column) in columns.iter().enumerate() {
            context.tick()?;
            let value = of_each.map(|values| values.at(i)).or_else(|| value.clone());
            let path = [&[Value::Sym(*column)], rest].concat();
            amend_global(context, target.clone(), &path, f, value)?;
        }
        return Ok(target);
    }
    if let Value::Sym(name) = target
        && crate::runtime::paths::is_path(name)
    {
        return amend_file(context, target, path, &change, creates);
    }
    if let Value::Sym(short) = target {
        let name = crate::eval::globals::named(context, short)?;
        if path.is_empty()
            && prims::is_glyph(f, ",")
            && let Some(rows) = &value
            && let Some(done) = crate::verbs::append::in_place_global(context, name, rows)
        {
            done?;
            context.was_set(name, path)?;
            return Ok(target);
        }
        if let Some(value) = &value
            && context.change_global_in_place(name, (path, change.function, value)).is_some()
        {
            context.was_set(name, path)?;
            return Ok(target);
        }
        let held = match context.host.global(name) {
            None => crate::eval::globals::part(context, name)?,
            held => held,
        };
        let old = match (held.or_else(|| context.namespace(name)), &value) {
            (Some(old), _) => old,
            (None, Some(first)) if path.is_empty() && !assigns && !prims::is_glyph(f, ",") => {
                // As `x+:1` does, an amend of an undefined global assigns the value.
                context.set_global(name, first.clone())?;
                context.was_set(name, path)?;
                return Ok(target);
            }
            (None, _) if path.is_empty() && (assigns || value.is_some()) => Value::empty(),
            (None, _) => context.global(name)?,
        };
        let new = amended(context, old, path, &change)?;
        context.set_global(name, new)?;
        context.was_set(name, path)?;
        return Ok(target);
    }
    amended(context, target, path, &change)
}

/// Amends the value in a file.
fn amend_file(context: &mut Context, target: Value, path: &[Value], change: &Amend, creates: bool) -> Result {
    let appends = path.is_empty() && change.function.is_some_and(|f| prims::is_glyph(f, ","));
    if appends
        && let Some(rows) = change.value
        && crate::io::files::append(context, &target, rows)?
    {
        return Ok(target);
    }
    let assigns = path.is_empty() && change.function.is_none();
    let old = if assigns { Value::empty() } else { stored(context, &target, creates)? };
    let new = match change.value {
        Some(rows) if appends && !old.is_nothing() => upsert_value(context, old, rows, true)?,
        _ => amend::deep(context, old, path, change)?,
    };
    // A new value replaces the file, as `set` does.
    match path.is_empty() && !appends {
        true => crate::io::files::set(context, target, &new),
        false => crate::io::files::set_changed(context, target, &new),
    }
}

/// Reads the file that an amend changes. If there is no file, that is an error, unless the amend is one that `creates` it: then the empty list.
fn stored(context: &mut Context, file: &Value, creates: bool) -> Result {
    if creates { crate::io::files::get_or_empty(context, file) } else { crate::io::files::get(context, file) }
}

/// Amend of a value. `.[t;();,;rows]` adds rows to a table: this is what `upsert` is in kdb+, and what a kdb+ process sends for it.
fn amended(context: &mut Context, x: Value, path: &[Value], change: &Amend) -> Result {
    match (&x, change) {
        (Value::Table(_) | Value::Dict(_), Amend { function: Some(f), value: Some(rows) })
            if path.is_empty() && prims::is_glyph(f, ",") =>
        {
            let rows = (*rows).clone();
            crate::verbs::append::upsert(context, x, rows)
        }
        _ => amend::deep(context, x, path, change),
    }
}

/// `?` with 2 to 6 arguments: find, roll, vector conditional, functional select.
pub(crate) fn query(context: &mut Context, mut a: Vec<Value>) -> Result {
    match a.len() {
        2 => {
            let y = a.remove(1);
            let x = a.remove(0);
            match &x {
                Value::Long(_) | Value::Int(_) | Value::Short(_) => crate::verbs::random::roll(context, &x, y),
                _ => crate::verbs::sets::find_in(context, x, y),
            }
        }
        3 => {
            let (z, y) = (a.remove(2), a.remove(1));
            let x = match a.remove(0) {
                Value::Sym(name) => context.global(globals::named(context, name)?)?,
                given => given,
            };
            match x {
                Value::Table(t) => crate::qsql::tree::simple_exec(context, t, &y, &z),
                x => crate::verbs::conditional::vector_conditional(context, &x, &y, &z),
            }
        }
        _ => crate::qsql::tree::select(context, a),
    }
}

/// `!` with 2 or 4 arguments.
pub(crate) fn bang(context: &mut Context, mut a: Vec<Value>) -> Result {
    match a.len() {
        2 => {
            let y = a.remove(1);
            tables::bang(context, a.remove(0), y)
        }
        4 => crate::qsql::tree::update(context, a),
        _ => Err(QError::named("rank")),
    }
}

/// `show x`: prints a value.
pub(crate) fn show_(context: &mut Context, x: Value) -> Result {
    let console = context.host.console();
    let x = crate::io::files::database::shown(context, x);
    let text = match &x {
        Value::Null => b"::\n".to_vec(),
        shown => show(shown, &console),
    };
    context.host.print(&text)?;
    Ok(Value::Null)
}

/// `0N!x`: prints a value and returns it. Called through `!`.
pub(crate) fn print_through(context: &mut Context, x: Value) -> Result {
    let mut text = one_line_at(&x, crate::runtime::settings::precision())?;
    text.push(b'\n');
    context.host.print(&text)?;
    Ok(x)
}

/// `.Q.s x`: returns console output as text.
pub(crate) fn q_s(context: &mut Context, x: Value) -> Result {
    let console: Console = context.host.console();
    let x = crate::io::files::database::shown(context, x);
    Ok(Value::chars(show(&x, &console)))
}

/// `.Q.S[lines columns;0;x]`: returns the lines that a console of this size shows of `x`. The whole size is used; `.Q.s` leaves two lines and a
/// column of `\c` for the prompt.
pub(crate) fn q_lines(context: &mut Context, arguments: Vec<Value>) -> Result {
    let [size, _, x] = <[Value; 3]>::try_from(arguments).map_err(|_| QError::named("rank"))?;
    let Value::Vector(Vector { items, .. }) = &size else { return Err(QError::named("type")) };
    let side = |at: usize, more: usize| {
        let given = items.get(at).as_long().filter(|_| at < items.len()).ok_or(QError::named("type"))?;
        Ok::<usize, QError>(usize::try_from(given).unwrap_or(0).clamp(1, MAX_CONSOLE).saturating_add(more))
    };
    let console = Console { rows: side(0, 2)?, columns: side(1, 1)?, ..context.host.console() };
    let x = crate::io::files::database::shown(context, x);
    let text = show(&x, &console);
    let lines = text.strip_suffix(b"\n").map(|text| text.split(|byte| *byte == b'\n').map(Value::chars).collect());
    Ok(Value::list(lines.unwrap_or_default()))
}

/// `.Q.s1 x`: returns a value as one line of text.
pub(crate) fn q_s1(_: &mut Context, x: Value) -> Result {
    Ok(Value::chars(one_line_at(&x, crate::runtime::settings::precision())?))
}

/// `.Q.ty x`: returns the type letter, upper case for an atom or a list of vectors.
pub(crate) fn q_ty(_: &mut Context, x: Value) -> Result {
    Ok(Value::Char(match &x {
        Value::Vector(v) if matches!(v.items, Items::List(_)) => tables::column_letter(v),
        Value::Vector(v) => crate::verbs::types::letter(v.items.plain().type_number()),
        atom if atom.is_atom() => crate::verbs::types::letter(-atom.type_number()).to_ascii_uppercase(),
        _ => b' ',
    }))
}

/// Returns a valid name: letters, digits and underscores, starting with a letter, not a keyword.
fn clean_name(name: Sym) -> std::result::Result<Sym, QError> {
    let mut clean: Vec<u8> = text(name).iter().filter(|c| c.is_ascii_alphanumeric() || **c == b'_').copied().collect();
    if !clean.first().is_some_and(u8::is_ascii_alphabetic) {
        clean.insert(0, b'a');
    }
    if prims::keyword(&clean).is_some()
        || matches!(
            &clean[..],
            b"select" | b"exec" | b"update" | b"delete" | b"from" | b"by" | b"if" | b"do" | b"while"
        )
    {
        clean.push(b'1');
    }
    crate::runtime::values::symbol(&clean)
}

/// [`clean_name`] of each, with numeric suffixes for duplicates.
fn clean_names(names: &[Sym]) -> std::result::Result<Vec<Sym>, QError> {
    let mut out: Vec<Sym> = Vec::with_capacity(names.len());
    for name in names {
        let clean = clean_name(*name)?;
        let mut unique = clean;
        let mut number = 0;
        while crate::runtime::limits::place(&out, unique)?.is_some() {
            crate::runtime::limits::step()?;
            number += 1;
            unique = crate::runtime::values::symbol(&[text(clean), number.to_string().as_bytes()].concat())?;
        }
        out.push(unique);
    }
    Ok(out)
}

/// `.Q.id x`: returns valid names.
pub(crate) fn q_id(_: &mut Context, x: Value) -> Result {
    named_well(&x)
}

fn named_well(x: &Value) -> Result {
    match x {
        Value::Sym(s) => Ok(Value::Sym(clean_name(*s)?)),
        Value::Vector(Vector { items: Items::Sym(names), .. }) => Ok(Value::symbols(clean_names(names)?)),
        Value::Table(t) => {
            let names = clean_names(&t.names)?;
            Ok(Value::table(columns::table::Table { sorted: t.sorted, names, columns: t.columns.clone() }))
        }
        Value::Dict(d) => match (&d.keys, &d.values) {
            (Value::Table(_), Value::Table(_)) => {
                let (keys, values) = (named_well(&d.keys)?, named_well(&d.values)?);
                Ok(Value::dict(keys, values))
            }
            _ => {
                let names = clean_names(d.keys.as_symbols().ok_or_else(type_error)?)?;
                Ok(Value::dict(Value::symbols(names), d.values.clone()))
            }
        },
        _ => Err(type_error()),
    }
}

/// `.Q.qt x`: whether `x` is a table.
pub(crate) fn q_qt(_: &mut Context, x: Value) -> Result {
    Ok(Value::Bool(match &x {
        Value::Table(_) => true,
        // As in kdb+, any dictionary whose value is a table, keyed or not.
        Value::Dict(d) => matches!(d.values, Value::Table(_)),
        other => type_of(other) == types::TABLE,
    }))
}

/// `system "…"`: runs a `\` command.
pub(crate) fn system(context: &mut Context, x: Value) -> Result {
    context.command(x.as_text().ok_or_else(type_error)?)
}

/// `:[x;y]`: returns `y`.
pub(crate) fn right(_: &mut Context, _: Value, y: Value) -> Result {
    Ok(y)
}

/// Applies an iterator as a function: derives a function from one argument; `'` of more is a composition.
pub(crate) fn iterator(_: &mut Context, iterator: columns::table::function::Iterator, mut parts: Vec<Value>) -> Result {
    if parts.len() == 1 {
        return Ok(Value::func(Function::Derived { iterator, function: parts.remove(0) }));
    }
    if iterator != columns::table::function::Iterator::Each {
        return Err(QError::named("rank"));
    }
    Ok(Value::func(Function::Composition(parts)))
}
