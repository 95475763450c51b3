//! What the methods of the protocol do, one file a method or family. Their names, parameters and results are in the
//! protocol's table.

pub mod reading;
