//! Tests of programs by hand, and on simulated machines.

testing::watch!();

mod by_hand;
mod check;
mod failures;
mod host;
mod programs;
