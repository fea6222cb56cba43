//! Lists as sets: membership, distinct, union, groups.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::listed;
use crate::runtime::values::type_error;
use crate::verbs::above::Stored;
use crate::verbs::find::FindRank;
use crate::verbs::lookup::{Lookup, together};
use crate::verbs::map::map;
use crate::verbs::matches::same_exactly;
use crate::verbs::shape::join;
use crate::verbs::{bin, find, index};
use columns::kernel::blocks;
use columns::table::symbol::text;
use columns::table::{Attr, Items, Sym, Table, Value, Vector};
use proto::types;

pub(crate) fn distinct(_: &mut Context, x: Value) -> Result {
    if x.is_atom() {
        return Err(type_error());
    }
    if x.is_scalar() {
        return Ok(x);
    }
    if let Value::Dict(d) = &x {
        if d.keyed().is_none() {
            return distinct_of(&d.values);
        }
        return Ok(x);
    }
    distinct_of(&x)
}

fn distinct_of(x: &Value) -> Result {
    let groups = find::groups_of(x)?;
    if groups.firsts.len() == x.count() {
        return Ok(x.clone().unmapped());
    }
    limits::room_for::<i64>(groups.firsts.len())?;
    let kept = x.gather(&groups.firsts);
    Ok(match (x, kept) {
        // What is sorted stays so.
        (Value::Vector(Vector { attr: Attr::Sorted, .. }), Value::Vector(v)) => {
            Vector { attr: Attr::Sorted, items: v.items }.into()
        }
        (_, kept) => kept,
    })
}

pub(crate) fn group(context: &mut Context, x: Value) -> Result {
    match &x {
        Value::Dict(d) => {
            let rows = group(context, d.values.clone())?;
            let Value::Dict(rows) = rows else { return Err(type_error()) };
            let keys = index::one(context, &d.keys, &rows.values)?;
            Ok(Value::dict(rows.keys.clone(), keys))
        }
        Value::Vector(_) | Value::Table(_) => {
            let groups = find::groups_of(&x)?;
            // Per item its number twice; per group two vectors and a value.
            let each = 2 * size_of::<Vec<u32>>() + size_of::<Value>() + 5 * size_of::<usize>();
            let all = groups.ids.len().saturating_mul(size_of::<u32>() + size_of::<i64>());
            limits::room(all.saturating_add(groups.firsts.len().saturating_mul(each)))?;
            let members = groups.members();
            let mut rows = limits::list(members.len())?;
            for group in members {
                limits::pace()?;
                rows.push(Value::longs(blocks::map(&group, |row| i64::from(*row))));
            }
            Ok(Value::dict(x.gather(&groups.firsts), Value::list(rows)))
        }
        _ => Err(type_error()),
    }
}

/// `x?y`.
pub(crate) fn find_in(context: &mut Context, x: Value, y: Value) -> Result {
    match &x {
        // `name?y`: missing items are appended to the domain.
        Value::Sym(name) if text(*name).starts_with(b":") => context.extend_stored_domain(*name, y),
        Value::Sym(name) => crate::verbs::enums::extend(context, *name, y),
        Value::Dict(d) => {
            // Symbols and the items of an enumeration equal one another.
            let at = find_in(context, d.values.clone().plain(), y.plain())?;
            index::one(context, &d.keys, &at)
        }
        Value::Table(keys) => match &y {
            Value::Table(wanted) => Ok(Value::longs(find::table_positions(context, keys, wanted)?)),
            Value::Dict(d) => Ok(Value::Long(find::row_of(keys, &d.values)?.unwrap_or(keys.count()) as i64)),
            // A list of rows; among columns of lists it is one row.
            rows @ Value::Vector(_)
                if index::is_keys(keys, rows) && !keys.columns.iter().any(|c| matches!(c.items, Items::List(_))) =>
            {
                if rows.count() > find::FEW_ROWS {
                    return Ok(Value::longs(find::rows_of_lists(keys, &rows.items())?));
                }
                map(context, rows, |_, row| Ok(Value::Long(find::row_of(keys, &row)?.unwrap_or(keys.count()) as i64)))
            }
            row => Ok(Value::Long(find::row_of(keys, &listed(row.clone()))?.unwrap_or(keys.count()) as i64)),
        },
        Value::Vector(v) => {
            let deep = matches!(v.items, Items::List(_));
            match &y {
                Value::Vector(w) if !deep && !matches!(w.items, Items::List(_)) => {
                    check_types(v, w)?;
                    Ok(Value::longs(find::positions(context, v, w)?))
                }
                Value::Vector(w) if deep => match find::find_rank(v, &y) {
                    FindRank::Item => Ok(Value::Long(find::position(&x, &y)?.unwrap_or(x.count()) as i64)),
                    FindRank::ListOfItems => Ok(Value::longs(find::positions(context, v, w)?)),
                    FindRank::Higher => {
                        Lookup::new(v)?.each(context, &y, &Value::longs, &|c, item| find_in(c, x.clone(), item))
                    }
                },
                // Atoms and lists among one another, the first of them an atom: no search of vectors.
                Value::Vector(Vector { items: Items::List(l), .. })
                    if !deep && l.first().is_some_and(Value::is_atom) && !l.iter().all(Value::is_atom) =>
                {
                    Err(type_error())
                }
                Value::Vector(_) if !deep => match together(context, &y, |c, all| find_in(c, x.clone(), all))? {
                    Some(found) => Ok(found),
                    None => map(context, &y, |c, item| find_in(c, x.clone(), item)),
                },
                Value::Dict(_) | Value::Table(_) if !deep => map(context, &y, |c, item| find_in(c, x.clone(), item)),
                item => {
                    if !deep && item.is_atom() {
                        let w = Vector::from(item.to_items());
                        check_types(v, &w)?;
                        return Ok(find::positions(context, v, &w)?
                            .first()
                            .map_or(Value::Long(v.len() as i64), |p| Value::Long(*p)));
                    }
                    Ok(Value::Long(find::position(&x, item)?.unwrap_or(x.count()) as i64))
                }
            }
        }
        _ => Err(type_error()),
    }
}

/// Searching chars or symbols among items of another type, or the reverse, is an error, as in kdb+.
fn check_types(x: &Vector, y: &Vector) -> std::result::Result<(), QError> {
    find::check_floats(x, &y.items)?;
    let (a, b) = (x.items.type_number(), y.items.type_number());
    let textual = |t: i8| matches!(t, types::CHAR | types::SYMBOL);
    if a != b && a != 0 && b != 0 && (textual(a) || textual(b)) { Err(type_error()) } else { Ok(()) }
}

/// `x in y` of symbols, by a bit for each symbol up to the highest one sought; `None` if these would be many more than there are items.
fn symbols_in(x: &Items, y: &Items) -> std::result::Result<Option<Vec<u8>>, QError> {
    let (Items::Sym(x) | Items::Enum(_, x), Items::Sym(y) | Items::Enum(_, y)) = (x, y) else { return Ok(None) };
    let words = y.iter().map(|symbol| symbol.0).max().map_or(0, |highest| highest as usize / 64 + 1);
    if words > x.len() {
        return Ok(None);
    }
    limits::room(x.len().saturating_add(words.saturating_mul(size_of::<u64>())))?;
    let mut sought = vec![0u64; words];
    for symbol in y.iter() {
        if let Some(word) = sought.get_mut(symbol.0 as usize / 64) {
            *word |= 1 << (symbol.0 % 64);
        }
    }
    let bit = |symbol: &Sym| sought.get(symbol.0 as usize / 64).map_or(0, |word| (word >> (symbol.0 % 64) & 1) as u8);
    Ok(Some(blocks::map(x, bit)))
}

/// `x in y`.
pub(crate) fn in_(context: &mut Context, x: Value, y: Value) -> Result {
    let found = |p: &i64, n: usize| u8::from((*p as usize) < n);
    match (&x, &y) {
        (_, Value::Dict(d)) => in_(context, x.clone(), d.values.clone()),
        (Value::Dict(d), _) if !matches!(y, Value::Table(_)) => {
            let values = in_(context, d.values.clone(), y)?;
            Ok(Value::dict(d.keys.clone(), values))
        }
        (Value::Table(w), Value::Table(keys)) => {
            let at = find::table_positions(context, keys, w)?;
            Ok(Value::bools(blocks::map(&at, |p| found(p, keys.count()))))
        }
        (_, Value::Table(keys)) => {
            let values = if let Value::Dict(d) = &x { d.values.clone() } else { listed(x.clone()) };
            Ok(Value::Bool(find::row_of(keys, &values)?.is_some()))
        }
        (Value::Vector(a), Value::Vector(b)) => {
            let (deep_x, deep_y) = (matches!(a.items, Items::List(_)), matches!(b.items, Items::List(_)));
            find::check_floats(b, &a.items)?;
            if deep_x && a.is_empty() && !b.is_empty() {
                return Ok(Value::bools(Vec::new()));
            }
            match find::find_rank(b, &x) {
                FindRank::Item => Ok(Value::Bool(find::position(&y, &x)?.is_some())),
                FindRank::ListOfItems if !deep_x || deep_y => {
                    if let Some(bits) = symbols_in(&a.items, &b.items)? {
                        return Ok(Value::bools(bits));
                    }
                    let at = find::positions(context, b, a)?;
                    Ok(Value::bools(blocks::map(&at, |p| found(p, b.len()))))
                }
                FindRank::Higher if deep_y => {
                    let result = |at: Vec<i64>| Value::bools(blocks::map(&at, |p| found(p, b.len())));
                    Lookup::new(b)?.each(context, &x, &result, &|c, item| in_(c, item, y.clone()))
                }
                _ => match together(context, &x, |c, all| in_(c, all, y.clone()))? {
                    Some(found) => Ok(found),
                    None => map(context, &x, |c, item| in_(c, item, y.clone())),
                },
            }
        }
        // `in` returns booleans for an empty list of any type: a where-clause may follow one that selects no rows.
        (Value::Vector(none), _) if none.is_empty() => Ok(Value::bools(Vec::new())),
        // One search for all items.
        (Value::Vector(v), atom) if v.items.type_number() == atom.type_number().wrapping_neg() && atom.is_atom() => {
            let at = find::positions(context, &Vector::from(atom.to_items()), v)?;
            Ok(Value::bools(blocks::map(&at, |p| found(p, 1))))
        }
        (Value::Vector(_), _) => map(context, &x, |c, item| in_(c, item, y.clone())),
        (Value::Table(_), _) => Err(type_error()),
        // Among one, as `in` of two atoms.
        (_, Value::Vector(list)) if list.len() == 1 && x.is_atom() && !matches!(list.items, Items::List(_)) => {
            in_(context, x, list.items.get(0))
        }
        (_, Value::Vector(list)) => {
            if x.is_atom() {
                find::check_floats(list, &x.to_items())?;
            }
            let found = find::position(&y, &x)?.is_some()
                || among_floats(context, std::slice::from_ref(&x), &y)?.contains(&true);
            Ok(Value::Bool(found))
        }
        _ => Ok(Value::Bool(same_exactly(&x, &y)? || is_same_number(&x, &y))),
    }
}

/// Whether two atoms are equal as numbers, which longs are digit by digit. Nulls are, whatever their types.
fn is_same_number(x: &Value, y: &Value) -> bool {
    match (x.as_long(), y.as_long()) {
        (Some(x), Some(y)) => x == y,
        _ => x.as_float().zip(y.as_float()).is_some_and(|(x, y)| x == y || x.is_nan() && y.is_nan()),
    }
}

/// For each atom whether it is a whole number that is among floats, as a vector of whole numbers finds its items among them.
fn among_floats(context: &Context, atoms: &[Value], list: &Value) -> std::result::Result<Vec<bool>, QError> {
    let Value::Vector(list @ Vector { items: Items::Float(_) | Items::Real(_), .. }) = list else {
        return Ok(vec![false; atoms.len()]);
    };
    let whole = |atom: &Value| atom.as_long().and(atom.as_float());
    if atoms.iter().all(|atom| whole(atom).is_none()) {
        return Ok(vec![false; atoms.len()]);
    }
    let sought: Vec<f64> = atoms.iter().map(|atom| whole(atom).unwrap_or_default()).collect();
    let at = find::positions(context, list, &Items::Float(sought.into()).into())?;
    Ok(atoms.iter().zip(at).map(|(atom, p)| whole(atom).is_some() && (p as usize) < list.len()).collect())
}

/// `x within y`: between two bounds, inclusive.
pub(crate) fn within(context: &mut Context, x: Value, y: Value) -> Result {
    use crate::runtime::op::Op;
    use crate::verbs::arith::atomic;
    use columns::kernel::zip::{Arithmetic, Comparison};
    if y.count() != 2 {
        return Err(QError::named("length"));
    }
    let from = atomic(context, Op::Compare(Comparison::AtLeast), &x, &y.at(0))?;
    let to = atomic(context, Op::Compare(Comparison::AtMost), &x, &y.at(1))?;
    atomic(context, Op::Arithmetic(Arithmetic::Lesser), &from, &to)
}

pub(crate) fn union(context: &mut Context, x: Value, y: Value) -> Result {
    let both = join(context, listed(x), listed(y))?;
    distinct(context, both)
}

fn keep(context: &mut Context, x: &Value, y: &Value, inside: bool) -> Result {
    let x = match x {
        Value::Dict(d) if d.keyed().is_none() => d.values.clone(),
        other => listed(other.clone()),
    };
    let y = match y {
        Value::Dict(d) if d.keyed().is_none() => d.values.clone(),
        other => listed(other.clone()),
    };
    Ok(x.gather(&rows(context, &x, &y, inside)?))
}

/// Row numbers of the items of a list that are `inside` another one, or are not.
pub(crate) fn rows(context: &Context, x: &Value, y: &Value, inside: bool) -> std::result::Result<Vec<i64>, QError> {
    if let (Value::Vector(x), Value::Vector(y)) = (x, y) {
        find::check_floats(y, &x.items)?;
    }
    // Items of an enumeration are found by their symbols and stay in it.
    let at = find::all(context, &y.clone().plain(), &x.clone().plain())?;
    let n = y.count();
    let among = match x {
        Value::Vector(Vector { items: Items::List(x), .. }) => among_floats(context, x, y)?,
        _ => Vec::new(),
    };
    let is_found = |i: usize, p: i64| (p as usize) < n || among.get(i).is_some_and(|among| *among);
    let is_kept = |i: &usize| at.get(*i).is_some_and(|p| is_found(*i, *p) == inside);
    Ok(blocks::kept(0..at.len(), |i| Some(i).filter(is_kept).map(|i| i as i64)))
}

pub(crate) fn inter(context: &mut Context, x: Value, y: Value) -> Result {
    keep(context, &x, &y, true)
}

pub(crate) fn except(context: &mut Context, x: Value, y: Value) -> Result {
    keep(context, &x, &y, false)
}

pub(crate) fn bin(context: &mut Context, x: Value, y: Value) -> Result {
    searched(context, x, y, bin::bin)
}

pub(crate) fn binr(context: &mut Context, x: Value, y: Value) -> Result {
    searched(context, x, y, bin::binr)
}

type Search = fn(&Value, &Value) -> std::result::Result<Vec<i64>, QError>;

/// For `bin` on tables: rows of `t` equal to a row of `y` in all columns but the last, and the position of the row's last
/// item among theirs.
fn searched_rows(context: &mut Context, t: &Table, y: &Value, search: Search) -> Result {
    let Value::Table(wanted) = y else {
        let Value::Dict(d) = y else { return Err(type_error()) };
        let row = crate::verbs::rows::row_table(t, &Value::Dict(d.clone()))?;
        return Ok(searched_rows(context, t, &Value::table(row), search)?.at(0));
    };
    let (Some(last), Some((last_name, names))) = (t.columns.last(), t.names.split_last()) else {
        return Err(type_error());
    };
    if names.is_empty() {
        let sought = index::column(wanted, *last_name)?;
        return Ok(Value::longs(search(&last.clone().into(), &sought.clone().into())?));
    }
    let before = |t: &Table| -> std::result::Result<Table, QError> {
        let columns = names.iter().map(|n| index::column(t, *n).cloned());
        Ok(Table::new(names.to_vec(), columns.collect::<std::result::Result<_, _>>()?))
    };
    let groups = find::row_groups(&before(t)?.columns)?;
    let members = groups.members();
    let at = find::table_positions(context, &before(t)?.rows(&groups.firsts), &before(wanted)?)?;
    let sought = index::column(wanted, *last_name)?;
    let mut out = Vec::with_capacity(at.len());
    for (i, group) in at.iter().enumerate() {
        context.tick()?;
        let rows = usize::try_from(*group).ok().and_then(|g| members.get(g)).map(Vec::as_slice).unwrap_or_default();
        let within: Value = last.items.gather(rows).into();
        let place = search(&within, &sought.items.get(i).enlist())?.first().copied().unwrap_or(-1);
        let row = usize::try_from(place).ok().and_then(|p| rows.get(p));
        out.push(row.map_or(i64::MIN, |r| i64::from(*r)));
    }
    Ok(Value::longs(out))
}

/// Whether a value is an atom, or a list of atoms only.
fn is_flat(y: &Value) -> bool {
    match y {
        Value::Vector(Vector { items: Items::List(items), .. }) => items.iter().all(Value::is_scalar),
        other => other.is_scalar() || matches!(other, Value::Vector(_)),
    }
}

fn searched(context: &mut Context, x: Value, y: Value, search: Search) -> Result {
    match &x {
        Value::Table(t) => return searched_rows(context, t, &y, search),
        Value::Dict(d) => {
            let at = searched(context, d.values.clone(), y, search)?;
            return index::one(context, &d.keys, &at);
        }
        // `bin` of lists within a list: `0 2 4 bin(1 3;5 -1)` is `(0 1;2 -1)`.
        Value::Vector(sorted) if !matches!(sorted.items, Items::List(_)) && !is_flat(&y) => {
            return map(context, &y, |c, item| searched(c, x.clone(), item, search));
        }
        _ => {}
    }
    if y.is_scalar() {
        return Ok(Value::Long(search(&x, &y.enlist())?.first().copied().unwrap_or(-1)));
    }
    Ok(Value::longs(search(&x, &y)?))
}
