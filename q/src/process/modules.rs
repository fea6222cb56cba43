//! Modules of KDB-X: `use` evaluates a file in a namespace of its own, `.m.0name`, and returns what the file exports.

use crate::eval::globals;
use crate::io::environment;
use crate::io::files::reach;
use crate::runtime::context::{Context, Running};
use crate::runtime::error::QError;
use crate::runtime::host::Made;
use crate::runtime::values::{Result, symbol, type_error};
use crate::syntax::prims;
use crate::syntax::resolve;
use crate::verbs::above::Evaluate;
use columns::table::symbol::text;
use columns::table::{Sym, Value};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directories in which modules are searched, a list of strings.
const SEARCH_PATH: &str = ".Q.m.SP";
/// The loaded modules, file to namespace: a file is evaluated once, whatever the names by which it is used.
const LOADED: &str = ".Q.m.loaded";
/// Endings of a module's file, in the order tried.
const ENDINGS: [&str; 4] = [".k", ".q", "/init.k", "/init.q"];

/// The search path unless it is assigned: `QPATH`, or `mod` in `QHOME`, or in `~/.kx`.
pub(crate) fn default(context: &Context, name: Sym) -> std::result::Result<Option<Value>, QError> {
    if text(name) != SEARCH_PATH.as_bytes() {
        return Ok(None);
    }
    environment::check_system(context, "environment variables")?;
    let listed = environment::variable(b"QPATH");
    let found: Vec<Vec<u8>> = if listed.is_empty() {
        let (home, below) = match environment::variable(b"QHOME") {
            home if home.is_empty() => (environment::variable(b"HOME"), &b"/.kx/mod"[..]),
            home => (home, &b"/mod"[..]),
        };
        vec![[&home, below].concat()]
    } else {
        listed.split(|c| *c == b':').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
    };
    Ok(Some(Value::list(found.into_iter().map(Value::chars).collect())))
}

/// Short names in a namespace.
pub(crate) fn names(space: &[u8]) -> Option<Sym> {
    let short = SEARCH_PATH.as_bytes().strip_prefix(space)?.strip_prefix(b".")?;
    if space.is_empty() || short.contains(&b'.') { None } else { symbol(short).ok() }
}

/// `use x`: the export of the module with a name. Dots in it are directories; with leading dots it is relative to the module in evaluation:
/// `.a` is below it, `..a` beside it.
pub(crate) fn use_module(context: &mut Context, x: Value) -> Result {
    let Value::Sym(name) = x else { return Err(type_error()) };
    crate::runtime::paths::check(context)?;
    let (file, parts) = find(context, text(name))?;
    let known = file_symbol(&file)?;
    let space = match space_of(context, known) {
        Some(space) => return exported(context, space),
        None => fresh_space(context, &parts)?,
    };
    let mut known_files = loaded(context);
    known_files.push((known, space));
    set_loaded(context, &known_files)?;
    let result = evaluated(context, &file, space);
    if result.is_err() {
        // The next `use` of this module loads it again. Modules that it has loaded itself stay loaded.
        let mut known_files = loaded(context);
        known_files.retain(|(file, _)| *file != known);
        set_loaded(context, &known_files)?;
    }
    result
}

/// `.Q.m.mp x`: the directory of a module that has one, else its file without the ending.
pub(crate) fn path_of(context: &mut Context, x: Value) -> Result {
    let Value::Sym(name) = x else { return Err(type_error()) };
    crate::runtime::paths::check(context)?;
    let (file, _) = find(context, text(name))?;
    Ok(Value::chars(base_of(&file).as_os_str().as_bytes()))
}

/// Evaluates a module's file in its namespace.
fn evaluated(context: &mut Context, file: &Path, space: Sym) -> Result {
    let outside = context.host.namespace();
    context.host.set_namespace(space)?;
    let result = context.script(file.as_os_str().as_bytes());
    context.host.set_namespace(outside)?;
    result?;
    let export = exported(context, space)?;
    if !matches!(&export, Value::Func(_)) {
        return Ok(export);
    }
    let export = context.call1(&export, Value::Null)?;
    context.set_global(export_of(space)?, export.clone())?;
    Ok(export)
}

fn export_of(space: Sym) -> std::result::Result<Sym, QError> {
    symbol(&[text(space), b".export"].concat())
}

fn exported(context: &mut Context, space: Sym) -> Result {
    let name = export_of(space)?;
    let known = match context.host.global(name) {
        Some(value) => Some(value),
        // A module that joins another's members to its own is a dictionary; an exported namespace is one in name only.
        None => globals::part(context, name)?.or_else(|| context.namespace(name)),
    };
    let export = known.ok_or(QError::with("export", "the module has no export, or is still being loaded"))?;
    // A client may have assigned the list of loaded modules.
    context.host.makes_code(Made::Value(&export))?;
    Ok(export)
}

fn file_symbol(file: &Path) -> std::result::Result<Sym, QError> {
    symbol(&[b":", file.as_os_str().as_bytes()].concat())
}

fn loaded(context: &Context) -> Vec<(Sym, Sym)> {
    let Some(Value::Dict(held)) = context.host.global(prims::name(LOADED)) else { return Vec::new() };
    let files = held.keys.as_symbols().unwrap_or_default().iter().copied();
    files.zip(held.values.as_symbols().unwrap_or_default().iter().copied()).collect()
}

fn set_loaded(context: &mut Context, loaded: &[(Sym, Sym)]) -> std::result::Result<(), QError> {
    let (files, spaces): (Vec<Sym>, Vec<Sym>) = loaded.iter().copied().unzip();
    let held = Value::dict(Value::symbols(files), Value::symbols(spaces));
    globals::assign(context, prims::name(LOADED), held)
}

fn space_of(context: &Context, file: Sym) -> Option<Sym> {
    loaded(context).into_iter().find(|(known, _)| *known == file).map(|(_, space)| space)
}

/// The namespace of a module `a.b.c`, `.m.a.b.0c`: so may `a.b.c.d` have one beside it. With a number if another file has that.
fn fresh_space(context: &Context, parts: &[Vec<u8>]) -> std::result::Result<Sym, QError> {
    let Some((last, around)) = parts.split_last() else { return Err(QError::named("type")) };
    let folders: Vec<u8> = around.iter().flat_map(|part| [&part[..], b"."].concat()).collect();
    let taken = loaded(context);
    let names = (1..=taken.len() + 1).map(|number| match number {
        1 => [b".m.", &folders[..], b"0", last].concat(),
        _ => [b".m.", &folders[..], b"0", last, b"_", number.to_string().as_bytes()].concat(),
    });
    for name in names {
        let name = symbol(&name)?;
        if taken.iter().all(|(_, space)| *space != name) {
            return Ok(name);
        }
    }
    Err(QError::named("limit"))
}

/// A module's path without its ending: the directory of an `init` file.
fn base_of(file: &Path) -> PathBuf {
    match (file.file_stem().map(OsStrExt::as_bytes), file.parent()) {
        (Some(b"init"), Some(folder)) => folder.to_path_buf(),
        _ => file.with_extension(""),
    }
}

/// The module whose code runs, as a path without ending and the parts of its name: that of the file in evaluation, or of the function.
/// Outside modules the script itself, which has no name.
fn base(context: &Context) -> std::result::Result<(PathBuf, Vec<Vec<u8>>), QError> {
    let running = context.frames.iter().rev().find_map(Running::lambda).map(|lambda| lambda.namespace);
    let spaces = [Some(context.host.namespace()), running];
    let module = spaces.into_iter().flatten().find_map(|space| resolve::module_of(text(space)));
    let known = module.and_then(|space| loaded(context).into_iter().find(|(_, known)| text(*known) == space));
    if let Some((file, space)) = known {
        let file = text(file).strip_prefix(b":").unwrap_or_default();
        let parts = text(space).split(|c| *c == b'.').skip(2);
        let parts = parts.map(|part| part.strip_prefix(b"0").unwrap_or(part).to_vec()).collect();
        return Ok((base_of(Path::new(std::ffi::OsStr::from_bytes(file))), parts));
    }
    match context.host.loading_from() {
        Some(from) => Ok((base_of(Path::new(std::ffi::OsStr::from_bytes(&from.file))), Vec::new())),
        None => {
            Err(QError::with("use", "a name that begins with a dot is relative to a script or module, and none runs"))
        }
    }
}

/// The file of a module, and the parts of its name.
fn find(context: &mut Context, written: &[u8]) -> std::result::Result<(PathBuf, Vec<Vec<u8>>), QError> {
    let dots = written.iter().take_while(|c| **c == b'.').count();
    let rest = written.get(dots..).unwrap_or_default();
    let below: Vec<Vec<u8>> = rest.split(|c| *c == b'.').map(<[u8]>::to_vec).collect();
    if below.iter().any(|part| part.is_empty() || part.contains(&b'/')) {
        return Err(missing(written));
    }
    let (roots, mut parts) = if dots > 0 {
        let (mut base, mut parts) = base(context)?;
        for _ in 1..dots {
            context.tick()?;
            parts.pop();
            if !base.pop() {
                return Err(missing(written));
            }
        }
        (vec![base], parts)
    } else {
        let listed = context.global(prims::name(SEARCH_PATH))?;
        let one = listed.as_text().map(|one| vec![one.to_vec()]);
        let listed = one
            .unwrap_or_else(|| (0..listed.count()).filter_map(|at| Some(listed.at(at).as_text()?.to_vec())).collect());
        let roots = listed.into_iter().map(|root| PathBuf::from(std::ffi::OsStr::from_bytes(&root)));
        (roots.collect(), Vec::new())
    };
    let inside: PathBuf = below.iter().map(|part| std::ffi::OsStr::from_bytes(part)).collect();
    parts.extend(below);
    for root in roots {
        let stem = root.join(&inside);
        for ending in ENDINGS {
            context.tick()?;
            let mut file = stem.clone().into_os_string();
            file.push(ending);
            let file = PathBuf::from(file);
            reach::check(context, &file)?;
            if file.is_file() {
                return Ok((std::fs::canonicalize(&file).unwrap_or(file), parts));
            }
        }
    }
    Err(missing(written))
}

fn missing(written: &[u8]) -> QError {
    let name = String::from_utf8_lossy(written).into_owned();
    QError::with(
        "module not found",
        format!("{name}.q and {name}/init.q, with dots as directories, are in no directory of {SEARCH_PATH}"),
    )
}

/// `.Q.rp x`: a path that begins with `::`, relative to the script in evaluation, as an absolute one. Other paths are returned as they are.
pub(crate) fn resolved(context: &mut Context, x: Value) -> Result {
    crate::runtime::paths::check(context)?;
    let is_symbol = match &x {
        Value::Sym(_) => true,
        other => {
            other.as_text().ok_or_else(type_error)?;
            false
        }
    };
    if !crate::io::files::is_of_script(&x) {
        return Ok(x);
    }
    let path = crate::io::files::path(context, &x)?;
    let path = path.as_os_str().as_bytes();
    if is_symbol { Ok(Value::Sym(symbol(&[b":", path].concat())?)) } else { Ok(Value::chars(path)) }
}
