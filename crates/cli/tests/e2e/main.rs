//! The real program from end to end: real processes, files, signals, HTTP and terminals. One file a subject. What may
//! not live here: what a crate can show by itself.

mod aborts;
mod anchored;
mod answers;
mod asking;
mod audit;
mod background;
mod bad_input;
mod chat;
mod config;
mod damage;
mod doctor;
mod formats;
mod hold;
mod independent;
mod kills;
mod lanes;
mod limits;
mod models;
mod owner;
mod protocol;
mod providers;
mod python_client;
mod queue;
mod reading;
mod receipts;
mod reload;
mod serve;
mod served;
mod setup;
mod show;
mod signals;
mod slow;
mod support;
mod tools;
mod twice;
