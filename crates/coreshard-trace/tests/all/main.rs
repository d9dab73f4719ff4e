//! Recordings, and this program's own types.

mod compiled;
mod damaged;
mod own_types;
mod pace;
mod place;
mod plain_stores;
mod read_and_written;
mod replayed_types;
mod unequal_loops;
mod work_ahead;

testing::watch!();
