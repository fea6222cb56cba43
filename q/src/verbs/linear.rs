//! Matrices: products, inverse, least squares.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use columns::kernel::blocks;
use columns::sys::budget;
use columns::table::{Items, Value, Vector};

/// Returns the items of floats. As in kdb+, products and inverses take no other numbers: `1 2e$1 2e` and `inv(1 2;3 4)` are `type`.
fn floats(items: &Items) -> std::result::Result<Vec<f64>, QError> {
    match items {
        Items::Float(items) => Ok(items.to_vec()),
        _ => Err(type_error()),
    }
}

/// A matrix in row-major order.
struct Matrix {
    rows: usize,
    columns: usize,
    items: Vec<f64>,
}

impl Matrix {
    fn zero(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, items: vec![0.0; rows * columns] }
    }

    fn of(x: &Value) -> std::result::Result<Matrix, QError> {
        let Value::Vector(Vector { items: Items::List(rows), .. }) = x else { return Err(type_error()) };
        let columns = rows.first().map_or(0, Value::count);
        let mut items = Vec::with_capacity(rows.len() * columns);
        for row in rows.iter() {
            let Value::Vector(row) = row else { return Err(type_error()) };
            limits::pace()?;
            if row.len() != columns {
                return Err(QError::named("length"));
            }
            items.extend(floats(&row.items)?);
        }
        Ok(Matrix { rows: rows.len(), columns, items })
    }

    fn row(&self, r: usize) -> &[f64] {
        self.items.get(r * self.columns..(r + 1) * self.columns).unwrap_or_default()
    }

    fn at(&self, r: usize, c: usize) -> f64 {
        self.items.get(r * self.columns + c).copied().unwrap_or(0.0)
    }

    fn value(&self) -> Value {
        Value::list((0..self.rows).map(|r| Value::floats(self.row(r).to_vec())).collect())
    }

    fn turned(&self) -> Matrix {
        let rows = self.rows.max(1);
        let items = blocks::numbers(0..self.columns * self.rows, |i| self.at(i % rows, i / rows));
        Matrix { rows: self.columns, columns: self.rows, items }
    }

    fn times(&self, context: &mut Context, other: &Matrix) -> std::result::Result<Matrix, QError> {
        if self.columns != other.rows {
            return Err(QError::named("length"));
        }
        context.reserve_items(self.rows.saturating_mul(other.columns), 8)?;
        let mut out = Matrix::zero(self.rows, other.columns);
        for r in 0..self.rows {
            context.check()?;
            let Some(sums) = out.items.get_mut(r * other.columns..(r + 1) * other.columns) else { continue };
            for (k, factor) in self.row(r).iter().enumerate() {
                if budget::spend(other.columns) {
                    break;
                }
                for (sum, item) in sums.iter_mut().zip(other.row(k)) {
                    *sum += factor * item;
                }
            }
        }
        Ok(out)
    }

    /// Inverse by Gaussian elimination with partial pivoting.
    fn inverse(&self, context: &mut Context) -> std::result::Result<Matrix, QError> {
        let n = self.rows;
        if n != self.columns {
            return Err(QError::named("length"));
        }
        let mut left: Vec<Vec<f64>> = (0..n).map(|r| self.row(r).to_vec()).collect();
        let mut right: Vec<Vec<f64>> =
            (0..n).map(|r| (0..n).map(|c| if r == c { 1.0 } else { 0.0 }).collect()).collect();
        let at = |m: &[Vec<f64>], r: usize, c: usize| m.get(r).and_then(|r| r.get(c)).copied().unwrap_or(0.0);
        for pivot in 0..n {
            context.check()?;
            let best = (pivot..n).max_by(|a, b| at(&left, *a, pivot).abs().total_cmp(&at(&left, *b, pivot).abs()));
            let best = best.unwrap_or(pivot);
            left.swap(pivot, best);
            right.swap(pivot, best);
            let factor = at(&left, pivot, pivot);
            for m in [&mut left, &mut right] {
                m.get_mut(pivot).into_iter().flatten().for_each(|x| *x /= factor);
            }
            let (own_left, own_right) =
                (left.get(pivot).cloned().unwrap_or_default(), right.get(pivot).cloned().unwrap_or_default());
            for r in (0..n).filter(|r| *r != pivot) {
                let factor = at(&left, r, pivot);
                if budget::spend(n.saturating_mul(2)) {
                    break;
                }
                if factor == 0.0 {
                    continue;
                }
                for (m, own) in [(&mut left, &own_left), (&mut right, &own_right)] {
                    let row = m.get_mut(r).into_iter().flatten();
                    row.zip(own).for_each(|(x, own)| *x -= factor * own);
                }
            }
        }
        Ok(Matrix { rows: n, columns: n, items: right.into_iter().flatten().collect() })
    }
}

fn is_matrix(x: &Value) -> bool {
    matches!(x, Value::Vector(Vector { items: Items::List(l), .. }) if !l.is_empty())
}

/// `x$y` and `x mmu y` of vectors and matrices.
pub(crate) fn product(context: &mut Context, x: &Value, y: &Value) -> Result {
    match (is_matrix(x), is_matrix(y)) {
        (true, true) => Ok(Matrix::of(x)?.times(context, &Matrix::of(y)?)?.value()),
        (true, false) => {
            let column = floats(&y.to_items())?;
            let y = Matrix { rows: column.len(), columns: 1, items: column };
            Ok(Value::floats(Matrix::of(x)?.times(context, &y)?.items))
        }
        (false, true) => {
            let row = floats(&x.to_items())?;
            let x = Matrix { rows: 1, columns: row.len(), items: row };
            Ok(Value::floats(x.times(context, &Matrix::of(y)?)?.items))
        }
        (false, false) => {
            let (a, b) = (floats(&x.to_items())?, floats(&y.to_items())?);
            if a.len() != b.len() {
                return Err(QError::named("length"));
            }
            let products: Vec<f64> = blocks::both(&a, &b, |a, b| a * b);
            Ok(Value::Float(blocks::fold(&products, 0.0, |sum, f| sum + f)))
        }
    }
}

/// `inv x`.
pub(crate) fn inv(context: &mut Context, x: Value) -> Result {
    Ok(Matrix::of(&x)?.inverse(context)?.value())
}

/// `x lsq y`: the least-squares solution `w` of `x = w mmu y`.
pub(crate) fn lsq(context: &mut Context, x: Value, y: Value) -> Result {
    let y = Matrix::of(&y)?;
    let single = !is_matrix(&x);
    let x = if single {
        let row = floats(&x.to_items())?;
        Matrix { rows: 1, columns: row.len(), items: row }
    } else {
        Matrix::of(&x)?
    };
    if y.rows == y.columns {
        let inverse = y.inverse(context)?;
        let solution = x.times(context, &inverse)?;
        return Ok(if single { Value::floats(solution.items) } else { solution.value() });
    }
    let turned = y.turned();
    let square = y.times(context, &turned)?.inverse(context)?;
    let solution = x.times(context, &turned)?.times(context, &square)?;
    Ok(if single { Value::floats(solution.items) } else { solution.value() })
}
