//! Evaluation behind the interface that lower layers call.

use crate::eval::{apply, globals, namespace, numbered, walk};
use crate::process::{commands, entry, functions, modules, prelude, system};
use crate::runtime::context::Context;
use crate::runtime::error::{Origin, QError};
use crate::runtime::frame::{Frame, Walk};
use crate::runtime::host::Made;
use crate::syntax::ast::{Code, Node};
use crate::verbs::above::{Evaluate, Run};
use columns::table::{Items, Sym, Value, Vector};

type Evaluated = Result<Value, QError>;

impl Evaluate for Context<'_> {
    #[inline]
    fn function(index: u16) -> Option<&'static Run> {
        functions::get(index)
    }

    #[inline]
    fn apply(&mut self, f: &Value, arguments: Vec<Value>) -> Evaluated {
        apply::apply(self, f, arguments)
    }

    #[inline]
    fn node(&mut self, node: &Node, frame: &mut Frame) -> Walk {
        walk::node(self, node, frame)
    }

    #[inline]
    fn run(&mut self, code: &Code, arguments: Vec<Value>) -> Evaluated {
        walk::run(self, code, arguments)
    }

    fn line(&mut self, text: &[u8], origin: Option<Origin>) -> Result<(Value, bool), QError> {
        entry::run_line_of(self, text, origin)
    }

    fn text(&mut self, text: &[u8]) -> Evaluated {
        self.host.makes_code(Made::Text(text))?;
        entry::run_text(self, text)
    }

    fn message(&mut self, object: &Value) -> Evaluated {
        // A function at the head of a list is code already.
        if !matches!(object, Value::Vector(Vector { items: Items::List(list), .. }) if matches!(list.first(), Some(Value::Func(_))))
        {
            self.host.makes_code(Made::Message(object))?;
        }
        entry::message(self, object)
    }

    fn command(&mut self, text: &[u8]) -> Evaluated {
        self.host.makes_code(Made::Other)?;
        commands::command(self, text)
    }

    fn script(&mut self, path: &[u8]) -> Evaluated {
        self.host.makes_code(Made::Other)?;
        commands::load(self, path)
    }

    #[inline]
    fn global(&mut self, name: Sym) -> Evaluated {
        globals::by_data(self, name)
    }

    fn named(&self, name: Sym) -> Result<Sym, QError> {
        globals::named(self, name)
    }

    #[inline]
    fn set_global(&mut self, name: Sym, value: Value) -> Result<(), QError> {
        globals::assign(self, name, value)
    }

    fn was_set(&mut self, name: Sym, indices: &[Value]) -> Result<(), QError> {
        globals::was_set(self, name, indices)
    }

    fn namespace(&mut self, name: Sym) -> Option<Value> {
        namespace::of(self, name)
    }

    fn delete_names(&mut self, space: Sym, names: &[Sym]) -> Result<(), QError> {
        namespace::delete_names(self, space, names)
    }

    fn library(&self, name: Sym) -> Result<Option<Value>, QError> {
        match prelude::value(self, name)? {
            Some(value) => Ok(Some(value)),
            None => modules::default(self, name),
        }
    }

    fn library_names(space: &[u8]) -> Vec<Sym> {
        let mut names = prelude::definitions::names(space);
        names.extend(system::constants(space));
        names.extend(modules::names(space));
        names
    }

    fn variable(&self, name: &[u8]) -> Option<Value> {
        system::variable(self, name)
    }

    fn numbered(&mut self, number: i64, x: Value) -> Evaluated {
        numbered::call(self, number, x)
    }
}
