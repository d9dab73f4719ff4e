//! A service of heavy requests, and who calls it at a rate of its own.
//!
//! `server`: axum; each request is some milliseconds of arithmetic, done by the executor that is asked for; beyond a
//! bound, requests are refused at once. It serves until its standard input ends. `load`: sends requests at their
//! times, whether or not earlier ones are answered, and tells what came back.

mod load;
mod server;

use clap::Parser;

#[derive(Parser)]
enum Command {
    Server(server::Arguments),
    Load(load::Arguments),
}

fn main() {
    match Command::parse() {
        Command::Server(arguments) => server::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
    }
}
