//! What is asked for: the attributes of pools, and what a queue is to be.

pub(crate) mod attributes;
pub(crate) mod reactor;
pub(crate) mod request;
pub(crate) mod team;
