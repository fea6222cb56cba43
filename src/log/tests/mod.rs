//! Behaviour of the log as a whole, one file for each theme.

mod blocks;
mod damage;
mod durable;
mod faulty;
mod golden;
mod grow;
mod holes;
mod identity;
mod model;
mod rolls;
mod seek;
mod shared;
mod side;
mod support;
mod watch;
mod writers;
