//! The iterators: each, over, scan, each-prior, each-left, each-right.

use crate::eval::by_key::ByKey;
use crate::eval::peach::{by_processes, by_threads};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::scalar::Scalar;
use crate::runtime::values::truth;
use crate::syntax::prims;
use crate::verbs::above::Evaluate;
use crate::verbs::function::valence;
use crate::verbs::map::map;
use crate::verbs::matches::same;
use crate::verbs::{fold, index, shape};
use crate::vm::{Given, Many, Results, atom};
use columns::table::function::{Function, Iterator};
use columns::table::{Items, Value, Vector};

/// Applies a derived function.
pub(crate) fn apply(
    context: &mut Context,
    iterator: Iterator,
    f: &Value,
    mut arguments: Vec<Value>,
) -> Result<Value, QError> {
    match iterator {
        Iterator::Each if is_index_case(f) => case(context, f, &arguments),
        // `f'[x]` of a binary function is a projection.
        Iterator::Each
            if matches!(f, Value::Func(_))
                && arguments.len() == 1
                && valence(f) > 1
                && !crate::verbs::function::is_variadic(f) =>
        {
            let function = Value::func(Function::Derived { iterator, function: f.clone() });
            Ok(crate::verbs::function::project(function, arguments.into_iter().map(Some).collect()))
        }
        Iterator::Each => each(context, f, arguments),
        // A char or byte operand is a separator: the forms behind `vs` and `sv`.
        Iterator::EachLeft | Iterator::EachRight if arguments.len() == 1 && !matches!(f, Value::Func(_)) => {
            let y = arguments.pop().ok_or(QError::named("rank"))?;
            let split = iterator == Iterator::EachLeft;
            if split {
                crate::verbs::strings::vs(context, f.clone(), y)
            } else {
                crate::verbs::strings::sv(context, f.clone(), y)
            }
        }
        Iterator::EachLeft | Iterator::EachRight if arguments.len() == 1 => {
            let function = Value::func(Function::Derived { iterator, function: f.clone() });
            Ok(crate::verbs::function::project(function, arguments.into_iter().map(Some).collect()))
        }
        Iterator::EachLeft | Iterator::EachRight => {
            let [x, y] = <[Value; 2]>::try_from(arguments).map_err(|_| QError::named("rank"))?;
            each_of(context, f, iterator == Iterator::EachLeft, &x, &y)
        }
        Iterator::EachPrior => {
            let y = arguments.pop().ok_or(QError::named("rank"))?;
            // A list of lists has an item for each pair: `matrix':indexes`.
            let is_nested = matches!(f, Value::Vector(Vector { items: Items::List(_), .. }));
            if valence(f) == 1 && arguments.is_empty() && !is_nested {
                return in_parallel(context, f, y);
            }
            let seed = arguments.pop();
            if !arguments.is_empty() {
                return Err(QError::named("rank"));
            }
            prior(context, f, seed, &y)
        }
        Iterator::Over | Iterator::Scan => {
            let scan = iterator == Iterator::Scan;
            if !matches!(f, Value::Func(_) | Value::Null) {
                return walk_data(context, f, arguments, scan);
            }
            match (valence(f), arguments.len()) {
                (_, 0) => Err(QError::named("rank")),
                (1, 1) => converge(context, f, arguments.remove(0), scan),
                (1, 2) => {
                    let x = arguments.remove(1);
                    repeat(context, f, &arguments.remove(0), x, scan)
                }
                // A function of three arguments or more has as many under over and scan: one of them leaves a projection.
                (n, 1) if n <= 2 || crate::verbs::function::is_variadic(f) => {
                    fold(context, f, None, &arguments.remove(0), scan)
                }
                (2, 2) => {
                    let y = arguments.remove(1);
                    fold(context, f, Some(arguments.remove(0)), &y, scan)
                }
                // `.` and `@` take up to four arguments.
                (_, 3..=4) if crate::verbs::function::is_variadic(f) && prims::index_of(f).is_some() => {
                    fold_many(context, f, arguments, scan)
                }
                (n, m) if n == m => fold_many(context, f, arguments, scan),
                (n, m) if m < n => {
                    let function = Value::func(Function::Derived { iterator, function: f.clone() });
                    Ok(crate::verbs::function::project(function, arguments.into_iter().map(Some).collect()))
                }
                _ => Err(QError::named("rank")),
            }
        }
    }
}

/// Applies a function to the items of lists in parallel, `count` times; `given` may include fixed arguments.
fn side_by_side(context: &mut Context, f: &Value, given: &[Given], count: usize) -> Result<Value, QError> {
    let mut many = Many::new(context, f, given.len());
    let mut out = Results::new();
    go_on(context, &mut many, given, count, &mut out)?;
    many.finish(context);
    Ok(out.into_value())
}

/// Appends the results from the first missing one up to `count`.
fn go_on(
    context: &mut Context,
    many: &mut Many,
    given: &[Given],
    count: usize,
    out: &mut Results,
) -> Result<(), QError> {
    while out.len() < count {
        let from = out.len();
        if many.is_quick()
            && let (_, Some(larger)) = many.along(context, given, from..count, &mut Scalar::Unset, Some(out))?
        {
            out.push(larger);
            context.tick()?;
            continue;
        }
        if out.len() < count {
            context.tick()?;
            let arguments: Vec<Value> = given.iter().filter_map(|g| g.value(out.len())).collect();
            // `Many::along` has already tried atoms.
            let result = if arguments.iter().all(Value::is_scalar) {
                many.apply(context, arguments)?
            } else {
                many.either(context, arguments)?
            };
            out.push(result);
        }
    }
    Ok(())
}

/// `x f\: y` and `x f/: y`.
fn each_of(context: &mut Context, f: &Value, left: bool, x: &Value, y: &Value) -> Result<Value, QError> {
    let over = if left { x } else { y };
    // Rows joined to a keyed table take its columns: `lj` of kdb+ is this.
    if let (true, Value::Table(_), Value::Dict(keyed)) = (left, x, y)
        && prims::is_glyph(f, ",")
        && keyed.keyed().is_some()
    {
        return crate::verbs::joins::lj(context, x.clone(), y.clone());
    }
    if let Value::Dict(d) = over {
        let values =
            if left { each_of(context, f, left, &d.values, y)? } else { each_of(context, f, left, x, &d.values)? };
        return Ok(Value::dict(d.keys.clone(), values));
    }
    if over.is_scalar() {
        return map(context, over, |c, _| c.call2(f, x.clone(), y.clone()));
    }
    if over.count() == 0 {
        return Ok(Value::empty());
    }
    let given = if left { [Given::Item(x), Given::Fixed(y)] } else { [Given::Fixed(x), Given::Item(y)] };
    side_by_side(context, f, &given, over.count())
}

/// [`map`] with a function of one argument.
fn map_with(context: &mut Context, f: &Value, over: &Value) -> Result<Value, QError> {
    match over {
        Value::Vector(v) if !v.is_empty() => side_by_side(context, f, &[Given::Item(over)], v.len()),
        _ => map(context, over, |c, item| c.call1(f, item)),
    }
}

pub(crate) fn each(context: &mut Context, f: &Value, arguments: Vec<Value>) -> Result<Value, QError> {
    if let [x] = &arguments[..] {
        if x.count() == 0 && !x.is_scalar() {
            return Ok(match x {
                Value::Dict(d) => Value::dict(d.keys.clone(), Value::empty()),
                _ => Value::empty(),
            });
        }
        return map_with(context, f, x);
    }
    // `t,'u` keeps the columns where there are no rows to join: `ij` and `ej` of kdb+ are made of it.
    if let [Value::Table(x), Value::Table(y)] = &arguments[..]
        && prims::is_glyph(f, ",")
        && x.count() + y.count() == 0
    {
        return Ok(Value::table(crate::verbs::rows::beside(x, y)));
    }
    // Two dictionaries pair up by key.
    if let [Value::Dict(x), Value::Dict(y)] = &arguments[..] {
        let keys = crate::verbs::sets::union(context, x.keys.clone(), y.keys.clone())?;
        if keys.count() == 0 && matches!(x.values, Value::Table(_)) {
            let values = each(context, f, vec![x.values.clone(), y.values.clone()])?;
            return Ok(Value::dict(keys, values));
        }
        let (left, right) = (ByKey::new(context, x, &keys), ByKey::new(context, y, &keys));
        let (mut left, mut right) = (left?, right?);
        let mut out = Vec::with_capacity(keys.count());
        for at in 0..keys.count() {
            let (x, y) = (left.value(context, &keys, at)?, right.value(context, &keys, at)?);
            out.push(context.call2(f, x, y)?);
        }
        return Ok(Value::dict(keys, Value::collapse(out)));
    }
    let keys = arguments.iter().find_map(|a| if let Value::Dict(d) = a { Some(d.keys.clone()) } else { None });
    let mut count = None;
    for argument in arguments.iter().filter(|a| !a.is_scalar()) {
        if *count.get_or_insert(argument.count()) != argument.count() {
            return Err(QError::named("length"));
        }
    }
    let Some(count) = count else { return context.apply(f, arguments) };
    let given: Vec<Given> =
        arguments.iter().map(|a| if a.is_scalar() { Given::Fixed(a) } else { Given::Item(a) }).collect();
    let values = side_by_side(context, f, &given, count)?;
    Ok(match keys {
        Some(keys) => Value::dict(keys, values),
        None => values,
    })
}

/// Whether each on a list of integers is the case iterator.
fn is_index_case(f: &Value) -> bool {
    matches!(f, Value::Vector(Vector { items: Items::Int(_) | Items::Long(_) | Items::Short(_), .. }))
}

/// `i'[a;b;…]`: item `k` comes from list `i[k]`.
fn case(context: &mut Context, choice: &Value, arguments: &[Value]) -> Result<Value, QError> {
    let mut out = Vec::with_capacity(choice.count());
    for k in 0..choice.count() {
        context.tick()?;
        let which = choice.at(k).as_long().and_then(|w| usize::try_from(w).ok()).ok_or(QError::named("index"))?;
        let list = arguments.get(which).ok_or(QError::named("index"))?;
        if matches!(list, Value::Dict(_)) {
            return Err(QError::named("domain"));
        }
        if !list.is_scalar() && list.count() != choice.count() {
            return Err(QError::named("length"));
        }
        out.push(list.at(k));
    }
    Ok(Value::collapse(out))
}

fn prior(context: &mut Context, f: &Value, seed: Option<Value>, y: &Value) -> Result<Value, QError> {
    if let Value::Dict(d) = y {
        let values = prior(context, f, seed, &d.values)?;
        return Ok(Value::dict(d.keys.clone(), values));
    }
    if y.is_scalar() {
        return Ok(y.clone());
    }
    let count = y.count();
    let alone = seed.is_none() && fold::keeps_first(f);
    if count == 0 {
        return Ok(y.clone());
    }
    let mut out = Results::new();
    let mut many = Many::new(context, f, 2);
    let first = y.at(0);
    out.push(match seed {
        _ if alone => first,
        Some(seed) => many.either(context, vec![first, seed])?,
        None => many.either(context, vec![first, fold::prior_seed(f, y)])?,
    });
    go_on(context, &mut many, &[Given::Item(y), Given::Before(y)], count, &mut out)?;
    many.finish(context);
    Ok(out.into_value())
}

fn fold(context: &mut Context, f: &Value, seed: Option<Value>, y: &Value, scan: bool) -> Result<Value, QError> {
    if let Value::Dict(d) = y {
        let values = fold(context, f, seed, &d.values, scan)?;
        return Ok(if scan { Value::dict(d.keys.clone(), values) } else { values });
    }
    if y.is_scalar() {
        return match seed {
            Some(seed) => context.call2(f, seed, y.clone()),
            None if !scan && prims::name_of(f) == Some(",") => shape::raze(context, y.clone()),
            None => Ok(y.clone()),
        };
    }
    // `,/` of tables whose columns differ is a list of their rows, as `raze` gives it, where `,` would be `'mismatch`.
    if let (None, false, Some(",")) = (&seed, scan, prims::name_of(f))
        && let Value::Vector(Vector { items: Items::List(items), .. }) = y
        && items.len() > 1
        && items.iter().all(|item| matches!(item, Value::Table(_)) || item.is_nothing())
        && items.iter().any(|item| matches!(item, Value::Table(_)))
    {
        return shape::raze(context, y.clone());
    }
    if let Some(result) = fold::fast_fold(context, f, seed.as_ref(), y, scan) {
        return result;
    }
    let count = y.count();
    let mut from = 0;
    let mut out = Results::new();
    let mut total = match seed {
        Some(seed) => seed,
        None if count == 0 => return fold::fold_identity(context, f, y),
        None => {
            from = 1;
            // `,` starts from the empty list.
            let first = y.at(0);
            let first =
                if scan && prims::name_of(f) == Some(",") && first.is_scalar() { first.enlist() } else { first };
            if scan {
                out.push(first.clone());
            }
            first
        }
    };
    let mut many = Many::new(context, f, 2);
    while from < count {
        // Folds atoms until the evaluator is needed.
        if many.is_quick()
            && let Some(mut sum) = atom(&total)
        {
            if !scan {
                from = many.sum_longs(context, &mut sum, y, from)?;
            }
            let larger;
            let given = [Given::Total, Given::Item(y)];
            (from, larger) = many.along(context, &given, from..count, &mut sum, scan.then_some(&mut out))?;
            if let (Some(larger), true) = (&larger, scan) {
                out.push(larger.clone());
            }
            total = match larger {
                Some(larger) => larger,
                None => sum.value(&[]).unwrap_or(total),
            };
        }
        if from < count {
            context.tick()?;
            let item = y.at(from);
            // `Many::along` has already tried atoms.
            let atoms = total.is_scalar() && item.is_scalar();
            total =
                if atoms { many.apply(context, vec![total, item])? } else { many.either(context, vec![total, item])? };
            from += 1;
            if scan {
                out.push(total.clone());
            }
        }
    }
    many.finish(context);
    Ok(if scan { out.into_value() } else { total })
}

/// `f/[seed;a;b;…]`: folds over lists in parallel.
fn fold_many(context: &mut Context, f: &Value, arguments: Vec<Value>, scan: bool) -> Result<Value, QError> {
    let mut arguments = arguments.into_iter();
    let mut total = arguments.next().ok_or(QError::named("rank"))?;
    let lists: Vec<Value> = arguments.collect();
    let mut count = None;
    for list in lists.iter().filter(|l| !l.is_scalar()) {
        if *count.get_or_insert(list.count()) != list.count() {
            return Err(QError::named("length"));
        }
    }
    let mut given = vec![Given::Total];
    given.extend(lists.iter().map(|l| if l.is_scalar() { Given::Fixed(l) } else { Given::Item(l) }));
    let mut out = Results::new();
    let mut many = Many::new(context, f, given.len());
    total = rounds(context, &mut many, &given, count.unwrap_or(1), total, scan.then_some(&mut out))?;
    many.finish(context);
    Ok(if scan { out.into_value() } else { total })
}

/// Returns the result after `count` rounds, each of which receives the previous result.
fn rounds(
    context: &mut Context,
    many: &mut Many,
    given: &[Given],
    count: usize,
    mut total: Value,
    mut out: Option<&mut Results>,
) -> Result<Value, QError> {
    let mut at = 0;
    while at < count {
        if many.is_quick()
            && let Some(mut sum) = atom(&total)
        {
            let larger;
            (at, larger) = many.along(context, given, at..count, &mut sum, out.as_deref_mut())?;
            if let (Some(larger), Some(out)) = (&larger, &mut out) {
                out.push(larger.clone());
            }
            total = larger.or_else(|| sum.value(&[])).unwrap_or(total);
        }
        if at < count {
            context.tick()?;
            let mut arguments = Vec::with_capacity(given.len());
            for argument in given {
                arguments.push(argument.value(at).unwrap_or_else(|| total.clone()));
            }
            // Drop our reference, so that the function may change the value in place.
            drop(std::mem::replace(&mut total, Value::Null));
            total = many.either(context, arguments)?;
            at += 1;
            if let Some(out) = &mut out {
                out.push(total.clone());
            }
        }
    }
    Ok(total)
}

/// Item count above which a clock check is cheap in comparison.
const LARGE: usize = 1000;

/// Iterates until the result repeats or equals the start.
fn converge(context: &mut Context, f: &Value, start: Value, scan: bool) -> Result<Value, QError> {
    let mut out = vec![start.clone()];
    let mut last = start.clone();
    let mut many = Many::new(context, f, 1);
    loop {
        context.enter()?;
        let next = many.either(context, vec![last.clone()])?;
        // Growing values take longer each step: the periodic clock check may come too late.
        if next.count() > LARGE {
            context.check()?;
        }
        if same(&next, &last)? || same(&next, &start)? {
            many.finish(context);
            return Ok(if scan { Value::collapse(out) } else { last });
        }
        if scan {
            out.push(next.clone());
        }
        last = next;
    }
}

/// `n f/x` and `test f/x`.
fn repeat(context: &mut Context, f: &Value, times: &Value, start: Value, scan: bool) -> Result<Value, QError> {
    let mut out = Results::new();
    let mut last = start;
    if scan {
        out.push(last.clone());
    }
    let count = match times {
        Value::Func(_) | Value::Dict(_) | Value::Vector(_) => None,
        atom => Some(atom.as_long().ok_or(QError::named("type"))?),
    };
    let mut many = Many::new(context, f, 1);
    if let Some(count) = count {
        let count = usize::try_from(count).unwrap_or(0);
        last = rounds(context, &mut many, &[Given::Total], count, last, scan.then_some(&mut out))?;
    } else {
        let mut test = Many::new(context, times, 1);
        loop {
            context.tick()?;
            if let Some(mut x) = atom(&last) {
                many.as_long_as(context, &mut test, &mut x, scan.then_some(&mut out))?;
                last = x.value(&[]).unwrap_or(last);
            }
            if !truth(&test.either_beside(context, last.clone(), &mut many)?)? {
                break;
            }
            last = many.either_beside(context, last, &mut test)?;
            if scan {
                out.push(last.clone());
            }
        }
        test.finish(context);
    }
    many.finish(context);
    Ok(if scan { out.into_value() } else { last })
}

/// `x b\y`: `{z+x*y}` over `b` and `y`.
fn damped(context: &mut Context, b: &Value, x: Value, y: &Value, scan: bool) -> Result<Value, QError> {
    use crate::runtime::op::Op;
    use crate::verbs::arith::atomic;
    use columns::kernel::zip::Arithmetic;
    if !b.is_scalar() && b.count() != y.count() {
        return Err(QError::named("length"));
    }
    let mut total = x;
    let mut out = Vec::with_capacity(y.count());
    for i in 0..y.count() {
        context.tick()?;
        let product = atomic(context, Op::Arithmetic(Arithmetic::Multiply), &total, &b.at(i))?;
        total = atomic(context, Op::Arithmetic(Arithmetic::Add), &y.at(i), &product)?;
        if scan {
            out.push(total.clone());
        }
    }
    Ok(if scan { Value::collapse(out) } else { total })
}

/// A list or dictionary as the function of an accumulator: indexes it until the result repeats.
fn walk_data(context: &mut Context, data: &Value, mut arguments: Vec<Value>, scan: bool) -> Result<Value, QError> {
    match arguments.len() {
        1 => converge(context, data, arguments.remove(0), scan),
        2 => {
            let y = arguments.remove(1);
            let x = arguments.remove(0);
            // Floats as the function: each item is added to the previous result times its float.
            let numbers = matches!(data, Value::Float(_) | Value::Vector(Vector { items: Items::Float(_), .. }));
            if numbers && !y.is_scalar() {
                return damped(context, data, x, &y, scan);
            }
            let deep = matches!(data, Value::Vector(Vector { items: Items::List(_), .. }));
            if deep && !y.is_scalar() {
                let mut total = x;
                let mut out = Vec::new();
                for item in y.items() {
                    total = index::deep(context, data, &[total, item])?;
                    out.push(total.clone());
                }
                return Ok(if scan { Value::collapse(out) } else { total });
            }
            repeat(context, data, &x, y, scan)
        }
        _ => Err(QError::named("rank")),
    }
}

/// `f peach x`: as `f':[x]`, each prior if `f` is binary. A function that an iterator has made counts as unary.
pub(crate) fn peach(context: &mut Context, f: &Value, x: Value) -> Result<Value, QError> {
    let is_derived = matches!(f, Value::Func(f) if matches!(**f, Function::Derived { .. }));
    match matches!(f, Value::Func(_)) && !is_derived && valence(f) == 2 {
        true => prior(context, f, None, &x),
        false => in_parallel(context, f, x),
    }
}

/// `f peach x` of a unary function.
fn in_parallel(context: &mut Context, f: &Value, x: Value) -> Result<Value, QError> {
    if let Value::Dict(d) = &x {
        let values = in_parallel(context, f, d.values.clone())?;
        return Ok(Value::dict(d.keys.clone(), values));
    }
    match by_processes(context, f, &x).or_else(|| by_threads(context, f, &x)) {
        Some(results) => results,
        None => derive(context, Iterator::Each, f.clone(), x),
    }
}

/// `f each x` and the like, as functions of two arguments.
pub(crate) fn derive(context: &mut Context, iterator: Iterator, f: Value, x: Value) -> Result<Value, QError> {
    // `f each x` applies at once, or gives a projection if `f` takes more arguments.
    if iterator == Iterator::Each && matches!(f, Value::Func(_)) {
        return each(context, &f, vec![x]);
    }
    let derived = Value::func(Function::Derived { iterator, function: f });
    context.call1(&derived, x)
}
