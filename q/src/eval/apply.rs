//! Application of functions, and indexing of lists, dictionaries and tables.

use crate::eval::{globals, iterate, languages, views};
use crate::io::environment;
use crate::runtime::context::{Context, Running};
use crate::runtime::error::QError;
use crate::runtime::footprint;
use crate::runtime::limits::{made, settled};
use crate::runtime::paths;
use crate::syntax::prims::Arity;
use crate::syntax::{lambda, prims};
use crate::verbs::above::{Evaluate, Run, Stored};
use crate::verbs::function::{is_elided, is_variadic, project, valence};
use crate::verbs::given::{self, Given};
use crate::verbs::index;
use crate::verbs::{call, trace};
use crate::vm;
use columns::table::function::Function;
use columns::table::{Sym, Value};

/// Applies `f` to arguments.
pub(crate) fn apply(context: &mut Context, f: &Value, arguments: Vec<Value>) -> Result<Value, QError> {
    context.enter()?;
    made(context.applied(f, arguments)?)
}

fn data_applied(context: &mut Context, data: &Value, arguments: &mut [Value]) -> Result<Value, QError> {
    // An elided index selects all, as the generic null does.
    for argument in arguments.iter_mut().filter(|argument| is_elided(argument)) {
        *argument = Value::Null;
    }
    if let (Value::Char(b'\''), [x]) = (data, &*arguments)
        && let Some(message) = x.as_text()
    {
        return Err(QError::signal(message.to_vec()));
    }
    if let (Value::Char(letter @ b'a'..=b'z'), [x]) = (data, &*arguments)
        && let Some((text, origin)) = languages::line(x)
    {
        return languages::evaluate(context, *letter, &text, origin);
    }
    if let (Value::Char(b';'), Some(last)) = (data, arguments.last()) {
        return Ok(last.clone());
    }
    index::deep(context, data, arguments).map_err(|e| given::explain_index(e, data, arguments))
}

impl Context<'_> {
    /// Applies `f` to arguments, `None` for elided ones. A function that lacks arguments becomes a projection.
    pub(super) fn apply_holes(&mut self, f: &Value, mut arguments: Vec<Option<Value>>) -> Result<Value, QError> {
        self.enter()?;
        if let [None] = arguments[..] {
            return self.apply(f, vec![Value::Null]);
        }
        if arguments.len() > 1 {
            for argument in &mut arguments {
                argument.take_if(|value| is_elided(value));
            }
        }
        if arguments.iter().all(Option::is_some) {
            return self.apply(f, arguments.into_iter().flatten().collect());
        }
        if let Value::Sym(name) = f {
            let held = self.named_value(*name)?;
            return self.apply_holes(&held, arguments);
        }
        match f {
            Value::Func(function) => {
                let most = match &**function {
                    Function::Native(name) => {
                        let least = self.host.native(*name).unwrap_or(1);
                        usize::from(self.host.native_most(*name).map_or(least, |most| most.max(least)))
                    }
                    _ => valence(f),
                };
                if arguments.len() > most.max(1) && !is_variadic(f) {
                    return Err(given::too_many(most, arguments.len()));
                }
                made(project(f.clone(), arguments))
            }
            _ => self.apply(f, arguments.into_iter().map(|a| a.unwrap_or(Value::Null)).collect()),
        }
    }

    /// Value of a global, or in a file: `` `:db/t`c `` is a column of a splayed table.
    fn named_value(&mut self, name: Sym) -> Result<Value, QError> {
        if paths::is_path(name) {
            return crate::io::files::get(self, &Value::Sym(name));
        }
        globals::applied(self, name)
    }

    /// The value of a name applied, or a file of the folder that it names.
    fn applied_name(&mut self, name: Sym, arguments: Vec<Value>) -> Result<Value, QError> {
        if let Some(file) = self.file_within(name, &arguments).ok().flatten() {
            return crate::io::files::get(self, &Value::Sym(file));
        }
        let held = self.named_value(name)?;
        self.apply(&held, arguments)
    }

    /// The file in a folder that is no splayed table: `` `:dir`file ``.
    fn file_within(&mut self, name: Sym, arguments: &[Value]) -> Result<Option<Sym>, QError> {
        let [Value::Sym(file)] = arguments else { return Ok(None) };
        if !paths::is_path(name) {
            return Ok(None);
        }
        let held = crate::io::files::key(self, Value::Sym(name))?;
        let names = held.as_symbols().unwrap_or_default();
        let is_splayed = names.iter().any(|n| columns::table::symbol::text(*n) == b".d");
        Ok(if !is_splayed && !names.is_empty() { Some(paths::inside(name, *file)?) } else { None })
    }

    fn applied(&mut self, f: &Value, mut arguments: Vec<Value>) -> Result<Value, QError> {
        // The recorded name belongs to this application only.
        let name = std::mem::take(&mut self.callee);
        let function = match f {
            Value::Func(function) => function,
            Value::Null => return identity(arguments),
            Value::Sym(name) if environment::is_address(*name) => return environment::one_shot(self, *name, arguments),
            Value::Sym(name) => return self.applied_name(*name, arguments),
            Value::Int(_) | Value::Long(_) => {
                let handle = f.as_long().unwrap_or(0);
                let message = if arguments.len() == 1 { arguments.remove(0) } else { Value::collapse(arguments) };
                return environment::send(self, handle, message);
            }
            data => return data_applied(self, data, &mut arguments),
        };
        match &**function {
            Function::Lambda(l) => {
                let code = lambda::code(l)?;
                let arity = code.parameters.len();
                if arguments.len() < arity {
                    return Ok(project(f.clone(), arguments.into_iter().map(Some).collect()));
                }
                if arguments.len() > most_arguments(arity) {
                    return Err(given::too_many(arity, arguments.len()));
                }
                arguments.truncate(arity);
                let caller = self.running.replace(f.clone());
                self.frames.push(Running::of_lambda(l, name, self.at));
                let result = match vm::run_lambda(self, l, &arguments) {
                    Some(result) => result,
                    None => self.run(code, arguments),
                };
                self.running = caller;
                if let Some(frame) = self.frames.pop() {
                    self.at = frame.called_at;
                }
                result.map_err(|error| trace::left(self, l, name, error))
            }
            Function::View(l) => {
                let value = views::value_of(self, l)?;
                self.apply(&value, arguments)
            }
            Function::Primitive(index) => self.primitive(f, *index, arguments),
            Function::Coded(..) => arguments.into_iter().next().filter(|_| is_elided(f)).ok_or(QError::named("nyi")),
            Function::OnDisk { .. } => {
                let table = self.table_on_disk(f)?;
                self.apply(&table, arguments)
            }
            Function::Native(name) => {
                let arity = usize::from(self.host.native(*name).unwrap_or(0));
                if arguments.len() < arity {
                    return Ok(project(f.clone(), arguments.into_iter().map(Some).collect()));
                }
                if arity == 0 && matches!(arguments[..], [Value::Null]) {
                    arguments.clear();
                }
                if arguments.len() > arity.max(usize::from(self.host.native_most(*name).unwrap_or(0))) {
                    return Err(given::too_many(arity, arguments.len()));
                }
                self.host.call(*name, &arguments)
            }
            Function::Projection { function, arguments: held } => {
                let mut new = arguments.into_iter();
                let mut all: Vec<Option<Value>> = Vec::with_capacity(held.len());
                for h in held {
                    all.push(match h {
                        Some(value) => Some(value.clone()),
                        None => new.next(),
                    });
                }
                all.extend(new.map(Some));
                self.apply_holes(function, all)
            }
            Function::Composition(parts) => {
                let (last, before) = parts.split_last().ok_or(QError::named("rank"))?;
                if arguments.len() < valence(last) {
                    return Ok(project(f.clone(), arguments.into_iter().map(Some).collect()));
                }
                let mut result = self.apply(last, arguments)?;
                for part in before.iter().rev() {
                    result = self.apply(part, vec![result])?;
                }
                Ok(result)
            }
            Function::Derived { iterator, function } => iterate::apply(self, *iterator, function, arguments),
        }
    }

    fn primitive(&mut self, f: &Value, index: u16, mut arguments: Vec<Value>) -> Result<Value, QError> {
        let (Some(primitive), Some(function)) = (prims::get(index), Context::function(index)) else {
            return Err(QError::named("nyi"));
        };
        let is_conditional = primitive.name == "?" && arguments.len() == 3;
        if arguments.iter().any(Value::is_enumerated) && !call::keeps_domain(primitive) && !is_conditional {
            arguments = arguments.into_iter().map(Value::plain).collect();
        }
        match (function, arguments.len()) {
            (Run::Unary(run), 1) => {
                let x = arguments.remove(0);
                footprint::ask(primitive.name, &[&x])?;
                let given = [Given::of(&x)];
                settled(run(self, x)).map_err(|e| given::explain(e, primitive.name, &given))
            }
            (Run::Binary(run), 2) => {
                let y = arguments.remove(1);
                let x = arguments.remove(0);
                footprint::ask(primitive.name, &[&x, &y])?;
                let given = [Given::of(&x), Given::of(&y)];
                settled(run(self, x, y)).map_err(|e| given::explain(e, primitive.name, &given))
            }
            (Run::Binary(_), 1) => Ok(project(f.clone(), arguments.into_iter().map(Some).collect())),
            (Run::Many(run), n) => {
                let Arity::Many(least, most) = primitive.arity else { return Err(QError::named("rank")) };
                if n < usize::from(least) {
                    return Ok(project(f.clone(), arguments.into_iter().map(Some).collect()));
                }
                if n > usize::from(most) {
                    return Err(given::too_many(usize::from(most), n));
                }
                let given = Given::first_two(&arguments);
                settled(run(self, arguments))
                    .map_err(|e| given::explain(e, primitive.name, given.get(..n).unwrap_or(&[])))
            }
            // `prev[first;x]`, `sums[start;x]`: the operator under its iterator takes an item to begin with.
            (Run::Unary(_), n) => match prims::derived(primitive) {
                Some(derived) if n == 2 => self.apply(&derived, arguments),
                _ => Err(given::too_many(1, n)),
            },
            (Run::Binary(_), n) => Err(given::too_many(2, n)),
        }
    }
}

/// A lambda without parameters takes one argument, and ignores it: as a timer or a handler it is given one.
fn most_arguments(parameters: usize) -> usize {
    parameters.max(1)
}

/// `(::)x`. `1 2 3 ::` gives the identity nothing on its right.
fn identity(arguments: Vec<Value>) -> Result<Value, QError> {
    match arguments.iter().skip(1).all(|argument| matches!(argument, Value::Null)) {
        true => arguments.into_iter().next().ok_or(QError::named("rank")),
        false => Err(given::too_many(1, arguments.len())),
    }
}
