//! Tables, pages and files of results.

mod files;
mod page;
mod sample;
mod table;

testing::watch!();
