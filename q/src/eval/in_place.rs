//! Indexed assignment that changes an item in place, without a copy of the containers around it.

use crate::runtime::context::Context;
use crate::runtime::frame::Frame;
use crate::runtime::guard::is_owned_code;
use crate::syntax::ast::Kind;
use crate::syntax::prims;
use crate::verbs::above::{Evaluate, Stored};
use crate::vm::{self, Edit};
use columns::table::{Sym, Value};

/// Whether a function is a primitive that only computes: `,` or an atomic one.
fn computes(f: &Value) -> bool {
    prims::is_glyph(f, ",") || prims::index_of(f).and_then(prims::atomic_op).is_some()
}

/// Closure that is run on a variable's value in place.
type Work<'a> = &'a mut dyn FnMut(&mut Value);

/// Replaces the item at a path, of atoms after its first index, by `value` or by `f[item;value]`. Returns the new item, or `None` if nothing was changed and the general path
/// is needed. `at_target` runs a closure on the variable's value in place.
fn change_item(
    context: &mut Context,
    (path, f, value): (&[Value], Option<&Value>, &Value),
    at_target: &mut dyn FnMut(&mut Context, Work),
) -> Option<Value> {
    // A keyed table with several key columns is indexed by a list, one item for each of them: `k[(a;b);column]`.
    let is_path = path.split_first().is_some_and(|(_, rest)| rest.iter().all(Value::is_atom));
    if !is_path || f.is_some_and(|f| !computes(f)) {
        return None;
    }
    let mut run = |context: &mut Context, change: Edit| {
        let mut done = None;
        at_target(context, &mut |x| done = vm::edit(x, path, change));
        done
    };
    let Some(f) = f else { return run(context, Edit::Replace(value)) };
    let change = if prims::is_glyph(f, ",") { Edit::Join(value) } else { Edit::Apply(f, value) };
    if let Some(done) = run(context, change) {
        return Some(done);
    }
    let item = run(context, Edit::Read)?;
    // On an error the general path fails too, and reports where.
    let new = context.call2(f, item, value.clone()).ok()?;
    run(context, Edit::Replace(&new))
}

impl Context<'_> {
    /// [`change_item`] of a local or a global.
    pub(super) fn change_in_place(
        &mut self,
        target: &Kind,
        change: (&[Value], Option<&Value>, &Value),
        frame: &mut Frame,
    ) -> Option<Value> {
        match *target {
            Kind::Local(slot) => change_item(self, change, &mut |_, work| {
                if let Some(Some(x)) = frame.locals.get_mut(usize::from(slot)) {
                    work(x);
                }
            }),
            Kind::Global(name) => self.change_global_in_place(name, change),
            _ => None,
        }
    }

    /// [`change_item`] of a global.
    pub(super) fn change_global_in_place(
        &mut self,
        name: Sym,
        change: (&[Value], Option<&Value>, &Value),
    ) -> Option<Value> {
        if change.0.is_empty() || crate::verbs::enums::is_domain(name) || is_owned_code(change.2) {
            return None;
        }
        self.settle_loaded();
        change_item(self, change, &mut |context, work| context.host.edit(name, work))
    }
}
