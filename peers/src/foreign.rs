//! stub
use std::path::Path;
use crate::driver::Program;
pub(crate) fn program(_peer: &str, own: &Path) -> Program {
    Program::Ready { program: own.to_owned(), first_arguments: vec!["--cell".to_owned()] }
}
