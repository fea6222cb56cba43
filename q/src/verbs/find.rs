//! Search: `?`, keys of dictionaries and keyed tables.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::verbs::given::other_columns;
use crate::verbs::matches::same_exactly;
use crate::verbs::rows::is_item_of_lists;
use crate::verbs::seek;
use columns::kernel::keys::{self, Groups, float_bits as bits};
use columns::sys::budget;
use columns::table::row_index::find_rows_by_kept;
use columns::table::{Attr, Items, Raw, Table, Value, Vector};
use proto::types;
use std::collections::{HashMap, HashSet};

/// Items in hashable form: equal forms mean equal items.
pub(crate) enum Hashed<'a> {
    U8(&'a [u8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    Guid(&'a [[u8; 16]]),
    Sym(&'a [columns::table::Sym]),
    Bits(Vec<u64>),
    Bytes(Vec<Vec<u8>>),
}

/// Items between two checks of the limits.
const CHUNK: usize = budget::BLOCK;

/// Maps each item, within the limits.
fn made<T, U>(items: &[T], make: impl Fn(&T) -> U) -> Result<Vec<U>, QError> {
    limits::room_for::<U>(items.len())?;
    let mut out = Vec::with_capacity(items.len());
    for chunk in items.chunks(CHUNK) {
        budget::note(chunk.len());
        limits::check()?;
        out.extend(chunk.iter().map(&make));
    }
    Ok(out)
}

/// Returns the items in hashable form; simple vectors other than floats are not copied.
pub(crate) fn hashed(items: &Items) -> Result<Hashed<'_>, QError> {
    Ok(match items.raw() {
        Raw::U8(v) => Hashed::U8(v),
        Raw::I16(v) => Hashed::I16(v),
        Raw::I32(v) => Hashed::I32(v),
        Raw::I64(v) => Hashed::I64(v),
        Raw::Guid(v) => Hashed::Guid(v),
        Raw::Sym(v) => Hashed::Sym(v),
        Raw::F32(v) => Hashed::Bits(made(v, |f| bits(f64::from(*f)))?),
        Raw::F64(v) => Hashed::Bits(made(v, |f| bits(*f))?),
        Raw::List(_) => Hashed::Bytes(all_canonical(items)?),
    })
}

/// A byte encoding of each item that is equal for equal values.
fn all_canonical(items: &Items) -> Result<Vec<Vec<u8>>, QError> {
    limits::room_for::<Vec<u8>>(items.len())?;
    let mut out = Vec::with_capacity(items.len());
    for i in 0..items.len() {
        out.push(canonical(&items.get(i))?);
    }
    Ok(out)
}

/// Bytes that are equal for equal values.
pub(crate) fn canonical(x: &Value) -> Result<Vec<u8>, QError> {
    let mut bytes = Vec::new();
    write_canonical(x, &mut bytes)?;
    Ok(bytes)
}

/// The encodings of the items of a list that one of `sought` may equal, by type and length; of others, which may be long, the empty one.
fn canonical_among(list: &[Value], sought: &[Value]) -> Result<Vec<Vec<u8>>, QError> {
    limits::room_for::<Vec<u8>>(list.len())?;
    let mut forms = HashSet::new();
    for x in sought {
        limits::step()?;
        forms.insert((kind_of(x), x.count()));
    }
    let mut out = Vec::with_capacity(list.len());
    for item in list {
        limits::step()?;
        out.push(if forms.contains(&(kind_of(item), item.count())) { canonical(item)? } else { Vec::new() });
    }
    Ok(out)
}

/// Type of a value; an enumerated one equals the plain one.
fn kind_of(x: &Value) -> i8 {
    match (crate::verbs::function::type_of(x), x) {
        (-20, Value::Link(..)) => x.clone().plain().type_number(),
        (-20, _) => -11,
        (20, Value::Vector(Vector { items: items @ Items::Link(..), .. })) => items.plain().type_number(),
        (20, _) => 11,
        (kind, _) => kind,
    }
}

fn write_canonical(x: &Value, out: &mut Vec<u8>) -> Result<(), QError> {
    limits::step()?;
    out.extend_from_slice(&kind_of(x).to_le_bytes());
    match x {
        Value::Vector(v) => {
            // Growth doubles the buffer.
            limits::room(out.len().saturating_add(v.len().saturating_mul(16)))?;
            out.extend_from_slice(&(v.len() as u64).to_le_bytes());
            match v.items.raw() {
                Raw::U8(s) => out.extend_from_slice(s),
                Raw::I64(s) => s.iter().for_each(|i| out.extend_from_slice(&i.to_le_bytes())),
                Raw::Sym(s) => s.iter().for_each(|i| out.extend_from_slice(&i.0.to_le_bytes())),
                _ => (0..v.len()).try_for_each(|i| write_canonical(&v.items.get(i), out))?,
            }
        }
        Value::Dict(d) => {
            write_canonical(&d.keys, out)?;
            write_canonical(&d.values, out)?;
        }
        Value::Table(t) => {
            t.names.iter().for_each(|n| out.extend_from_slice(&n.0.to_le_bytes()));
            t.columns.iter().try_for_each(|c| write_canonical(&c.clone().into(), out))?;
        }
        Value::Sym(s) | Value::Enum(_, s) => out.extend_from_slice(&s.0.to_le_bytes()),
        Value::Guid(g) => out.extend_from_slice(g),
        Value::Func(_) => {
            out.extend_from_slice(&crate::verbs::format::one_line_at(x, crate::runtime::settings::precision())?)
        }
        other => match (other.as_long(), other.as_float()) {
            (Some(long), _) => out.extend_from_slice(&long.to_le_bytes()),
            (None, Some(float)) => out.extend_from_slice(&bits(float).to_le_bytes()),
            _ => {}
        },
    }
    Ok(())
}

/// Searching floats among integers is an error, as in kdb+, unless it is among one.
pub(crate) fn check_floats(list: &Vector, sought: &Items) -> Result<(), QError> {
    let is_float = matches!(sought, Items::Float(_) | Items::Real(_));
    match is_float && list.len() != 1 && matches!(list.items.type_number(), types::SHORT..=types::LONG) {
        true => Err(QError::named("type")),
        false => Ok(()),
    }
}

/// Callback for kernels: checks for memory, or, for 0 bytes, all limits.
pub(crate) fn room(bytes: usize) -> Result<(), QError> {
    if bytes == 0 { limits::check() } else { limits::room(bytes) }
}

/// Rank of a value relative to the items of the list it is looked up in. The first item gives the rank of all.
pub(crate) enum FindRank {
    /// That of an item: one result.
    Item,
    /// One higher: a list of items, with a result for each.
    ListOfItems,
    /// Higher still: each of its items is looked up in turn.
    Higher,
}

pub(crate) fn find_rank(list: &Vector, value: &Value) -> FindRank {
    let of_items = if list.is_empty() { 0 } else { depth(&list.items.get(0)) };
    // No list is an item of a list of atoms: `((::;`a;`b)!1 2 3)(`a`b;`b`a)` looks up the symbols.
    let is_of_atoms =
        |v: &Vector| matches!(&v.items, Items::List(l) if !l.is_empty() && l.iter().all(Value::is_scalar));
    let holds_lists =
        |v: &Value| matches!(v, Value::Vector(Vector { items: Items::List(l), .. }) if !l.iter().all(Value::is_scalar));
    // Where both lists are mixed, their first items decide: an atom here and a list there, as in `("s";"ring")?("st";"ring")`, look up the characters
    // of "st"; two atoms, as in `("s";"ring")?("s";"ring")`, look up item by item.
    let begins_with = |v: &Vector, is: fn(&Value) -> bool| !v.is_empty() && is(&v.items.get(0));
    let begins_with_list = |v: &Value| {
        begins_with(list, Value::is_scalar)
            && v.as_vector().is_some_and(|v| begins_with(v, |first| matches!(first, Value::Vector(_))))
    };
    // Atoms and lists among one another are no item of a list of vectors, so each is one: `("a";"ba") in ("ba";"dc")` is 01b.
    let is_vector = |item: &Value| matches!(item, Value::Vector(v) if !matches!(v.items, Items::List(_)));
    let is_mixed = || match (value, &list.items) {
        (Value::Vector(Vector { items: Items::List(sought), .. }), Items::List(held)) => {
            sought.first().is_some_and(Value::is_scalar)
                && !sought.iter().all(Value::is_scalar)
                && held.iter().all(is_vector)
        }
        _ => false,
    };
    match depth(value) {
        _ if of_items == 1 && is_mixed() => FindRank::ListOfItems,
        _ if of_items == 0
            && holds_lists(value)
            && !list.is_empty()
            && (is_of_atoms(list) || begins_with_list(value)) =>
        {
            FindRank::Higher
        }
        _ if of_items == 0 || value.is_nothing() => FindRank::ListOfItems,
        of_value if of_value <= of_items => FindRank::Item,
        of_value if of_value == of_items + 1 => FindRank::ListOfItems,
        _ => FindRank::Higher,
    }
}

/// Nesting depth of a list, judging by first items.
fn depth(x: &Value) -> usize {
    let (mut depth, mut at) = (0, x.clone());
    while let Value::Vector(v) = &at {
        depth += 1;
        if !matches!(v.items, Items::List(_)) || v.is_empty() || depth > 64 {
            break;
        }
        at = v.items.get(0);
    }
    depth
}

/// Returns the index of the first item of `list` equal to `item`.
pub(crate) fn position(list: &Value, item: &Value) -> Result<Option<usize>, QError> {
    if list.is_enumerated() || item.is_enumerated() {
        return position(&list.clone().plain(), &item.clone().plain());
    }
    match (list, item) {
        (Value::Vector(v), atom) if atom.is_atom() => {
            if let Some(places) = by_index(v, &atom.to_items())? {
                return Ok(places.first().and_then(|at| usize::try_from(*at).ok()).filter(|at| *at < v.len()));
            }
        }
        _ => {}
    }
    match (list, item) {
        (Value::Table(t), Value::Dict(d)) => return row_of(t, &d.values),
        // In a list of lists an atom is looked up as `enlist` of it: no item is an atom.
        (Value::Vector(Vector { items: Items::List(l), .. }), atom)
            if atom.is_atom() && matches!(l.first(), Some(Value::Vector(_))) =>
        {
            return position(list, &atom.clone().enlist());
        }
        _ => {}
    }
    if let Value::Vector(v) = list
        && !matches!(v.items, Items::List(_))
    {
        return Ok(if item.is_atom() { seek::position_of_atom(&v.items, item) } else { None });
    }
    for i in 0..list.count() {
        let candidate = list.at(i).plain();
        if same_exactly(&candidate, item)? {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

/// Returns for each of `wanted` its first index in `list`, or the length of the list.
pub(crate) fn positions(context: &Context, list: &Vector, sought: &Vector) -> Result<Vec<i64>, QError> {
    context.reserve_items(sought.len() + list.len(), 16)?;
    positions_of(list, sought)
}

/// Key columns of at least this many rows keep an index.
pub(crate) const INDEXED_ROWS: usize = 256;
/// Lists with `` `u# `` of at least this many items keep an index; shorter ones are searched faster without.
const INDEXED_UNIQUE: usize = 32;

/// Positions by the index of a list with `` `u# ``, or by one that appends to a keyed table have made; `None` without one.
fn by_index(list: &Vector, sought: &Items) -> Result<Option<Vec<i64>>, QError> {
    let is_unique = list.attr == Attr::Unique;
    if list.len() < if is_unique { INDEXED_UNIQUE } else { INDEXED_ROWS } {
        return Ok(None);
    }
    limits::room_for::<i64>(sought.len())?;
    let mut out = Vec::with_capacity(sought.len());
    for from in (0..sought.len()).step_by(CHUNK) {
        let chunk = sought.cut(from, from + CHUNK);
        budget::note(chunk.len());
        limits::check()?;
        match list.items.places(&chunk, is_unique, room) {
            Some(places) => out.extend(places?),
            None => return Ok(None),
        }
    }
    Ok(Some(out))
}

/// As [`positions`], without an evaluation at hand.
pub(crate) fn positions_of(list: &Vector, sought: &Vector) -> Result<Vec<i64>, QError> {
    if let Some(places) = by_index(list, &sought.items)? {
        return Ok(places);
    }
    if let (Items::List(list), Items::List(wanted)) = (&list.items, &sought.items) {
        return keys::positions(&canonical_among(list, wanted)?, &all_canonical(&sought.items)?, room);
    }
    // A single float is sought by comparison; more are sought by a hash of the list.
    if let (Items::Float(list), Items::Float(sought)) = (&list.items, &sought.items)
        && let [sought] = sought[..]
    {
        let at = match sought.is_nan() {
            true => list.iter().position(|item| item.is_nan()),
            false => list.iter().position(|item| *item == sought),
        };
        return Ok(vec![at.unwrap_or(list.len()) as i64]);
    }
    Ok(match (hashed(&list.items)?, hashed(&sought.items)?) {
        (Hashed::U8(l), Hashed::U8(w)) => keys::positions(l, w, room)?,
        (Hashed::I16(l), Hashed::I16(w)) => keys::positions(l, w, room)?,
        (Hashed::I32(l), Hashed::I32(w)) => keys::positions(l, w, room)?,
        (Hashed::I64(l), Hashed::I64(w)) => keys::positions(l, w, room)?,
        (Hashed::Guid(l), Hashed::Guid(w)) => keys::positions(l, w, room)?,
        (Hashed::Sym(l), Hashed::Sym(w)) => keys::positions(l, w, room)?,
        (Hashed::Bits(l), Hashed::Bits(w)) => keys::positions(&l, &w, room)?,
        (Hashed::Bytes(l), Hashed::Bytes(w)) => keys::positions(&l, &w, room)?,
        _ => {
            let (l, w) = (crate::verbs::convert::rows(&list.items), crate::verbs::convert::rows(&sought.items));
            if let (Some(l), Some(w)) = (l, w) {
                return keys::positions(&l, &w, room);
            }
            if let (Ok(l), Ok(w)) =
                (crate::verbs::convert::floats(&list.items), crate::verbs::convert::floats(&sought.items))
            {
                let bits = |v: Vec<f64>| v.into_iter().map(bits).collect::<Vec<u64>>();
                return keys::positions(&bits(l), &bits(w), room);
            }
            keys::positions(&all_canonical(&list.items)?, &all_canonical(&sought.items)?, room)?
        }
    })
}

/// As [`positions`], for any list, dictionary keys or table.
pub(crate) fn all(context: &Context, list: &Value, sought: &Value) -> Result<Vec<i64>, QError> {
    match (list, sought) {
        (Value::Table(l), Value::Table(w)) => table_positions(context, l, w),
        (Value::Vector(l), Value::Vector(w)) => positions(context, l, w),
        _ => Err(QError::named("type")),
    }
}

/// Groups equal items.
pub(crate) fn groups(items: &Items) -> Result<Groups, QError> {
    match hashed(items)? {
        Hashed::U8(v) => {
            limits::room_for::<u32>(v.len())?;
            Ok(keys::groups_dense(v.iter().map(|b| u32::from(*b)), 256))
        }
        Hashed::I16(v) => keys::groups(v, room),
        Hashed::I32(v) => keys::groups(v, room),
        Hashed::I64(v) => keys::groups(v, room),
        Hashed::Guid(v) => keys::groups(v, room),
        Hashed::Sym(v) => {
            // Symbol ids are small numbers; if they are dense, they index an array directly.
            let highest = v.iter().map(|s| s.0).max().unwrap_or(0) as usize;
            if highest < v.len().saturating_mul(4).max(4096) {
                limits::room_for::<u32>(v.len().saturating_add(highest))?;
                Ok(keys::groups_dense(v.iter().map(|s| s.0), highest + 1))
            } else {
                keys::groups(v, room)
            }
        }
        Hashed::Bits(v) => keys::groups(&v, room),
        Hashed::Bytes(v) => keys::groups(&v, room),
    }
}

/// Groups equal rows of these columns.
pub(crate) fn row_groups(columns: &[Vector]) -> Result<Groups, QError> {
    let mut all: Option<Groups> = None;
    for column in columns {
        let own = groups(&column.items)?;
        all = Some(match all {
            Some(before) => before.refine(&own, room)?,
            None => own,
        });
    }
    Ok(all.unwrap_or_default())
}

/// Groups items of any list or table.
pub(crate) fn groups_of(x: &Value) -> Result<Groups, QError> {
    match x {
        Value::Vector(v) => groups(&v.items),
        Value::Table(t) => row_groups(&t.columns),
        _ => Err(QError::named("type")),
    }
}

/// Returns the row of `keys` with these `values`.
pub(crate) fn row_of(keys: &Table, values: &Value) -> Result<Option<usize>, QError> {
    if is_item_of_lists(keys, values) {
        return row_of(keys, &values.clone().enlist());
    }
    if values.count() != keys.columns.len() {
        return Err(QError::named("length"));
    }
    // One pass over the first column, typed where it can be.
    let sought: Vec<Value> = (0..keys.columns.len()).map(|i| values.at(i).plain()).collect();
    if let ([column], [value]) = (&keys.columns[..], &sought[..])
        && value.is_atom()
        && let Some(rows) = by_index(column, &value.to_items())?
    {
        return Ok(rows.first().and_then(|row| usize::try_from(*row).ok()).filter(|row| *row < column.len()));
    }
    if keys.count() >= INDEXED_ROWS && sought.iter().all(Value::is_atom) {
        let columns: Vec<Vector> = sought.iter().map(|value| value.to_items().into()).collect();
        if let Some(rows) = find_rows_by_kept(&keys.columns, &columns, room) {
            return Ok(rows?.first().copied().flatten());
        }
    }
    let rows = match (keys.columns.first(), sought.first()) {
        (Some(first), Some(value)) if value.is_atom() => equal_to(&first.items, &value.to_items(), 0)
            .filter(|_| first.items.plain().type_number() == value.to_items().type_number()),
        _ => None,
    };
    let has_all = |row: usize| -> Result<bool, QError> {
        for (column, value) in keys.columns.iter().zip(&sought) {
            if !same_exactly(&column.items.get(row).plain(), value)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    let mut candidates: Box<dyn Iterator<Item = usize>> = match rows {
        Some(rows) => Box::new(rows.into_iter().filter_map(|row| usize::try_from(row).ok())),
        None => Box::new(0..keys.count()),
    };
    loop {
        let Some(row) = candidates.next() else { return Ok(None) };
        if has_all(row)? {
            return Ok(Some(row));
        }
    }
}

/// Returns for each row of `wanted` the first row of `keys` with the same items in the columns of `keys`, or its row count.
pub(crate) fn table_positions(context: &Context, keys: &Table, sought: &Table) -> Result<Vec<i64>, QError> {
    context.reserve_items(sought.count() + keys.count(), 16)?;
    rows_of(keys, sought)
}

/// As [`table_positions`], without an evaluation at hand.
pub(crate) fn rows_of(keys: &Table, sought: &Table) -> Result<Vec<i64>, QError> {
    let mut columns = Vec::with_capacity(keys.names.len());
    for name in &keys.names {
        columns.push(sought.column(*name).ok_or_else(|| other_columns(&keys.names, &sought.names))?);
    }
    if let ([one], [column]) = (&keys.columns[..], &columns[..]) {
        return positions_of(one, column);
    }
    let is_same_type =
        |(own, sought): (&Vector, &&Vector)| own.items.plain().type_number() == sought.items.plain().type_number();
    let count = sought.count();
    // A join seeks more rows than there are keys: one table of hashes then serves all columns.
    let is_join = count > FEW_ROWS && count.saturating_mul(4) > keys.count();
    if is_join || !keys.columns.iter().zip(&columns).all(is_same_type) {
        return by_row_bytes(keys, &columns, count);
    }
    if count <= FEW_ROWS
        && let Some(rows) = (0..count).map(|row| row_by_scan(keys, &columns, row)).collect::<Option<Vec<_>>>()
    {
        return rows.into_iter().collect();
    }
    by_columns(keys, &columns, count)
}

/// Up to this many rows are sought one by one: most updates of a keyed table are single rows.
pub(crate) const FEW_ROWS: usize = 4;

/// Positions of items equal to one; `None` for types whose equal items may differ in their bits.
fn equal_to(items: &Items, sought: &Items, row: usize) -> Option<Vec<i64>> {
    /// Items compared at once, without a branch for each.
    const RUN: usize = 64;
    fn all<T: PartialEq>(items: &[T], sought: Option<&T>) -> Vec<i64> {
        let mut out = Vec::new();
        let Some(sought) = sought else { return out };
        for (block, items) in items.chunks(CHUNK).enumerate() {
            if budget::spend(items.len()) {
                break;
            }
            for (run, items) in items.chunks(RUN).enumerate() {
                if items.iter().fold(false, |found, item| found | (item == sought)) {
                    let here = items.iter().enumerate().filter(|(_, item)| *item == sought);
                    out.extend(here.map(|(i, _)| (block * CHUNK + run * RUN + i) as i64));
                }
            }
        }
        out
    }
    Some(match (items.raw(), sought.raw()) {
        (Raw::U8(l), Raw::U8(w)) => all(l, w.get(row)),
        (Raw::I16(l), Raw::I16(w)) => all(l, w.get(row)),
        (Raw::I32(l), Raw::I32(w)) => all(l, w.get(row)),
        (Raw::I64(l), Raw::I64(w)) => all(l, w.get(row)),
        (Raw::Guid(l), Raw::Guid(w)) => all(l, w.get(row)),
        (Raw::Sym(l), Raw::Sym(w)) => all(l, w.get(row)),
        _ => return None,
    })
}

/// [`rows_of`] one row; `None` if the first column must be hashed.
fn row_by_scan(keys: &Table, columns: &[&Vector], row: usize) -> Option<Result<i64, QError>> {
    let mut pairs = keys.columns.iter().zip(columns);
    let (first, sought) = pairs.next()?;
    let mut rows = equal_to(&first.items, &sought.items, row)?;
    for (column, sought) in pairs {
        if rows.is_empty() {
            break;
        }
        let at = match positions_of(&sought.cut(row, row + 1), &column.items.gather(&rows).into()) {
            Ok(at) => at,
            Err(error) => return Some(Err(error)),
        };
        rows = rows.into_iter().zip(at).filter(|(_, at)| *at == 0).map(|(row, _)| row).collect();
    }
    Some(Ok(rows.first().copied().unwrap_or(keys.count() as i64)))
}

/// [`rows_of`] columns of the same types, column by column: only rows of `keys` whose items so far are among those sought are
/// looked at again.
fn by_columns(keys: &Table, columns: &[&Vector], count: usize) -> Result<Vec<i64>, QError> {
    // Candidates, with the number of their combination of items, and the numbers of the combinations sought.
    let mut rows: Vec<i64> = Vec::new();
    let mut own: Vec<i64> = Vec::new();
    let mut wanted = vec![0i64; count];
    let mut combinations = 1;
    for (i, (column, sought)) in keys.columns.iter().zip(columns).enumerate() {
        let items = if i == 0 { (*column).clone() } else { column.items.gather(&rows).into() };
        let (at, wanted_at) = (positions_of(sought, &items)?, positions_of(sought, sought)?);
        limits::room_for::<[i64; 2]>(items.len())?;
        let mut numbers: HashMap<(i64, i64), i64> = HashMap::with_capacity(count);
        for (before, at) in wanted.iter_mut().zip(&wanted_at) {
            limits::pace()?;
            let next = numbers.len() as i64;
            *before = *numbers.entry((*before, *at)).or_insert(next);
        }
        let (mut kept, mut codes) = (Vec::new(), Vec::new());
        for (j, at) in at.iter().enumerate() {
            limits::pace()?;
            if (*at as usize) < count
                && let Some(number) = numbers.get(&(own.get(j).copied().unwrap_or(0), *at))
            {
                kept.push(rows.get(j).copied().unwrap_or(j as i64));
                codes.push(*number);
            }
        }
        (rows, own, combinations) = (kept, codes, numbers.len());
    }
    let mut first = vec![keys.count() as i64; combinations];
    for (row, number) in rows.iter().zip(&own).rev() {
        if let Some(slot) = first.get_mut(*number as usize) {
            *slot = *row;
        }
    }
    Ok(wanted.iter().map(|number| first.get(*number as usize).copied().unwrap_or(i64::MAX)).collect())
}

fn by_row_bytes(keys: &Table, columns: &[&Vector], count: usize) -> Result<Vec<i64>, QError> {
    let needles = row_bytes(count, columns.len(), |row, c| columns.get(c).map(|c| c.items.get(row)))?;
    by_bytes(keys, &needles)
}

/// Row of the key table for each of the given keys; a key is a list with one item for each key column.
pub(crate) fn rows_of_lists(keys: &Table, lists: &[Value]) -> Result<Vec<i64>, QError> {
    let needles = row_bytes(lists.len(), keys.columns.len(), |row, c| lists.get(row).map(|list| list.at(c)))?;
    by_bytes(keys, &needles)
}

fn by_bytes(keys: &Table, needles: &[Vec<u8>]) -> Result<Vec<i64>, QError> {
    let own = |row: usize, c: usize| keys.columns.get(c).map(|c| c.items.get(row));
    self::keys::positions(&row_bytes(keys.count(), keys.columns.len(), own)?, needles, room)
}

/// Bytes of each row that are equal for equal rows. `cell` returns an item by row and column.
fn row_bytes(rows: usize, width: usize, cell: impl Fn(usize, usize) -> Option<Value>) -> Result<Vec<Vec<u8>>, QError> {
    limits::room_for::<Vec<u8>>(rows)?;
    let mut all = Vec::with_capacity(rows);
    for row in 0..rows {
        let mut out = Vec::new();
        (0..width).filter_map(|c| cell(row, c)).try_for_each(|item| write_canonical(&item, &mut out))?;
        all.push(out);
    }
    Ok(all)
}
