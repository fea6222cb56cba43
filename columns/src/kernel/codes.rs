//! Group keys as small integer codes, usable as array indices. Each key of a compound key is one digit of a mixed-radix
//! number, so that the order of the codes is the order of the keys.

use super::num::Int;

/// Appends one digit to a code.
#[inline(always)]
fn append(code: &mut u32, digits: u32, digit: u32) {
    *code = code.wrapping_mul(digits).wrapping_add(digit);
}

/// Appends `places[key]` for each key. `digits` is greater than every place.
pub fn by_place(codes: &mut [u32], digits: u32, keys: impl Iterator<Item = u32>, places: &[u32]) {
    for (code, key) in codes.iter_mut().zip(keys) {
        append(code, digits, places.get(key as usize).copied().unwrap_or(0));
    }
}

/// Appends the keys themselves. Returns false if one is `digits` or more.
pub fn by_number(codes: &mut [u32], digits: u32, keys: impl Iterator<Item = u32>) -> bool {
    let mut inside = true;
    for (code, key) in codes.iter_mut().zip(keys) {
        inside &= key < digits;
        append(code, digits, key);
    }
    inside
}

/// Appends each key's offset from `base`. Returns false if an offset is negative, or `digits` or more.
pub fn by_offset<T: Int>(codes: &mut [u32], digits: u32, keys: &[T], base: i64) -> bool {
    let mut inside = true;
    for (code, key) in codes.iter_mut().zip(keys) {
        let offset = key.to_long().wrapping_sub(base) as u64;
        inside &= offset < u64::from(digits);
        append(code, digits, offset as u32);
    }
    inside
}

/// Appends for each item the number of its bar of `width`, counted from bar `first`. Returns false if a number is
/// negative, or `digits` or more, or if `width` is not positive. Fast if neighbours share a bar, as times do.
pub fn by_bar(codes: &mut [u32], digits: u32, items: &[i64], width: i64, first: i64) -> bool {
    if width <= 0 {
        return false;
    }
    let (mut low, mut digit) = (0i64, 0u32);
    // A bar of width 0 holds nothing, so the first item computes its own.
    let mut held = 0u64;
    for (code, item) in codes.iter_mut().zip(items) {
        if item.wrapping_sub(low) as u64 >= held {
            let bar = item.div_euclid(width);
            let Some(number) = bar.checked_sub(first).and_then(|n| u32::try_from(n).ok()) else { return false };
            let Some(start) = bar.checked_mul(width) else { return false };
            if number >= digits {
                return false;
            }
            (low, digit, held) = (start, number, width as u64);
        }
        append(code, digits, digit);
    }
    true
}

/// Returns the number of the bar that holds all items, counted as in [`by_bar`]; `None` if there are no items, if they span
/// several bars, if the number is negative, or `digits` or more, or if `width` is not positive.
pub fn one_bar(digits: u32, items: &[i64], width: i64, first: i64) -> Option<u32> {
    let (head, last) = (*items.first()?, *items.last()?);
    let bar = (width > 0).then(|| head.div_euclid(width))?;
    let low = bar.checked_mul(width)?;
    let is_inside = |item: i64| (item.wrapping_sub(low) as u64) < width as u64;
    let number = u32::try_from(bar.checked_sub(first)?).ok().filter(|number| *number < digits)?;
    (is_inside(last) && items.iter().fold(true, |all, item| all & is_inside(*item))).then_some(number)
}

/// Returns the least and the greatest item; `None` if there are none.
pub fn bounds<T: Int>(items: &[T]) -> Option<(i64, i64)> {
    let first = items.first()?.to_long();
    let (low, high) = items.iter().fold((first, first), |(low, high), item| {
        let item = item.to_long();
        (low.min(item), high.max(item))
    });
    Some((low, high))
}
