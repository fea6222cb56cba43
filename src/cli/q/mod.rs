//! `elastick q`: a q console, local or connected to a remote process.

mod admitted;
mod catalog;
mod clients;
mod completion;
mod debug;
mod editor;
mod help;
mod input;
mod local;
mod options;
mod output;
mod peers;
mod remote;
mod requests;
mod signals;

use super::args::command_with;
use super::{CliError, logging, settings_of, tls};
use crate::config::{Address, Addresses, Program, login, options as table};
use crate::net::sites::Sites;
use crate::net::tls::TlsSettings;
use clap::{Arg, ArgMatches, Command};
use options::QOptions;

const EXAMPLES: &str = "Without FILE or address: lines of q, from the terminal or from standard input, until \\\\, \
                        exit or the end of input.
As in kdb+, a session with a port or open handles continues after the \
                        end of input; it says so on standard error.
With FILE: it is loaded first, ARGUMENTS are .z.x; if it cannot \
                        be read or fails, the error is shown as in q and the session continues;
without a terminal \
                        the process exits with 1, unless it has a port or open handles. With an address: input is evaluated by that process;
\\help, \\c \
                        and \\P are about this console, and of the options only -q, -c and -P have a meaning.
\\help \
                        lists names, \\help NAME explains one.

Options of \
                        the language, anywhere after `q`:
  -b        clients may not assign            -q        \
                        no banner, no prompts, no remarks
  -c R C    rows and columns shown            -C R C    the same for \
                        HTTP
  -E 0|1|2  TLS of -p: plain, plain and TLS, TLS only. The certificate and its key are the \
                        files SSL_CERT_FILE and SSL_KEY_FILE
  -e 1      an error in a function opens the debugger, as at a terminal: q)) reads \
                        its locals, ` and . go up and down,
            & and .Q.bt[] show the stack, 'name \
                        signals, :value continues with a value, \\ ends
  -g 0|1    garbage \
                        collection mode
  -o N      hours ahead of UTC                -p PORT   listen for kdb+ \
                        clients (0W: any free one; -N: as N)
  -P N      digits of floats shown, 0 for all
  -s N      \
                        threads for peach                 -S N      seed of the random numbers
  -t N      \
                        milliseconds between calls of .z.ts
  -T N      timeout of a client's request, in seconds
  \
                        -U FILE   user:password lines of the users who may connect, with the \
                        rights of the console as in kdb+; -u FILE: without
  -s -N     peach sends \
                        its items to the processes whose handles .z.pd is or returns
  -u 0      \
                        clients may do all that the console may; otherwise (-u 1, -u FILE, a file that ends in .toml, or neither) \
                        files, system commands and new connections are denied,
            \
                        and the script's functions, handlers and settings stay as they are
  -w N      memory limit of an evaluation, in MB; without it 80 % of this machine's for the \
                        console, 2048 for clients
  -W N      first \
                        day of the week             -z 0|1    mm/dd/yyyy or dd/mm/yyyy
Before FILE, the file in QINIT is loaded, by default q.q in QHOME. Errors and prompts are written to standard error.
Any other option stays in \
                        .z.x; without FILE, one with two dashes is an error, and so is any argument after an address.
-l and -L \
                        (logging), -m and -r are not supported; `elastick tick` logs and publishes.

Examples:
  elastick q                            a session; arrow keys, \
                        Ctrl-R and Tab work, Ctrl-C interrupts
  echo 'sum til 10' | elastick q        45
  \
                        elastick q report.q 2026.11.21 -P 0   a script with an argument
  elastick q -c 40 200                  a larger console
  elastick q lib.q -p 5000              a process for kdb+ \
                        clients: .z.pg .z.ps .z.po .z.pc .z.pw .z.ts as usual,
                                    \
                            and for browsers http://host:5000/?select from t, .z.ph .z.pp .z.pm .z.ac .z.ws .z.wo .z.wc
  \
                        elastick q rdb1:5011:ann:secret       a console connected to a node";

pub fn command() -> Command {
    let arguments =
        Arg::new("arguments").index(1).num_args(0..).value_name("FILE|HOST:PORT[:USER:PASSWORD]] [ARGUMENTS");
    command_with(Program::Q, Program::Q.name(), &|name| {
        matches!(name, "config" | "login-file" | "allow-origin" | "allow-host")
    })
    .about("A q console: expressions and scripts here, or in a remote process")
    .arg(
        arguments
            .help("Script or address, options, arguments for .z.x")
            .trailing_var_arg(true)
            .allow_hyphen_values(true),
    )
    .after_help(EXAMPLES)
}

pub fn run(matches: &ArgMatches) -> Result<(), CliError> {
    let settings = settings_of(Program::Q, matches)?;
    logging::start(&settings)?;
    let words: Vec<String> = matches.get_many::<String>("arguments").into_iter().flatten().cloned().collect();
    let mut options = QOptions::read(&words)?;
    options.sites = Sites::resolve(&settings)?;
    let mut tls_settings = TlsSettings::resolve(&settings)?;
    tls_settings.mode = options.tls.unwrap_or(tls_settings.mode);
    let door = tls::start_with(tls_settings, false)?;
    if options.target.is_none() {
        options.target = settings.find(&table::SERVER)?;
    }
    if options.threads.is_none() {
        let helpers = settings.find(&table::HELPER_THREADS)?.unwrap_or(0);
        options.threads = Some(usize::try_from(helpers).unwrap_or(usize::MAX));
    }
    let code = match &options.target {
        Some(target) if !std::path::Path::new(target).exists() => match target.parse::<Addresses>() {
            Ok(addresses) => {
                options.rejects_arguments()?;
                if words.contains(target) {
                    login::warn_of_password(&addresses);
                }
                remote::run(login::complete(addresses, &settings)?, &options)?
            }
            // A list with one address is no name of a script.
            Err(why) if target.split(',').any(|item| item.parse::<Address>().is_ok()) && target.contains(',') => {
                return Err(CliError::Usage(why));
            }
            Err(_) => with_large_stack(move || local::run(&options, door))?,
        },
        Some(_) => with_large_stack(move || local::run(&options, door))?,
        None => {
            // Words such as `-name value` stay in .z.x, as under kdb+; no option of its own begins with two dashes.
            options.rejects_long_options()?;
            options.rejects_addresses()?;
            with_large_stack(move || local::run(&options, door))?
        }
    };
    crate::net::outgoing::drain();
    // Threads blocked on input or clients end with the process.
    std::process::exit(code)
}

/// Stack for recursion on the console's thread: a user's own functions may recurse deeper than those of a client.
const STACK_BYTES: usize = 128 << 20;

fn with_large_stack(run: impl FnOnce() -> Result<i32, CliError> + Send + 'static) -> Result<i32, CliError> {
    let thread = crate::sys::stack::thread_that_allows("console".into(), STACK_BYTES);
    let running = thread.spawn(|| {
        crate::sys::stack::allow(STACK_BYTES);
        run()
    })?;
    running.join().map_err(|_| CliError::failed("the console's thread ended unexpectedly"))?
}
