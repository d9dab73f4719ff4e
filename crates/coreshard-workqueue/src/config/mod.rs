//! Settings: the attributes of pools, and the requested properties of a queue.

pub(crate) mod attributes;
pub(crate) mod reactor;
pub(crate) mod request;
pub(crate) mod team;
