//! A service with heavy requests, and a load generator with a fixed rate.
//!
//! `server`: axum; each request is some milliseconds of arithmetic, done by the chosen executor. Beyond a bound, requests
//! are refused at once. It serves until its standard input ends. `load`: sends requests at their due times, whether or
//! not earlier ones are answered, and reports the answers.

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
