//! The compiled twin of `hsdns/fastpath`: questions as bytes to finished replies as bytes.
//!
//! ```text
//! --> worker.rs           a thread that never touches Python, or Batch.serve() called from Python
//!     --> batch.rs        recvmmsg: up to 64 datagrams                        (system/: the only unsafe code)
//!         --> key.rs      is the query usual? its key                          else: a miss
//!             --> table.rs    key -> entry.rs, all versions still equal        (index.rs, versions.rs, s3fifo.rs)
//!             --> region.rs   no entry: a name that cannot exist?              (names.rs)
//!         <-- reply.rs    ID, flags, question, OPT, serial, cut to the client's size
//!     <-- batch.rs        sendmmsg, what goes to one client as one message           (trains.rs)
//!     --> queue.rs        what nobody knew: a miss, answered by the asyncio side, which may teach the table
//! counters.rs             what was counted on the way, added up once a batch, drained by /metrics
//! log.rs                  hits of logging blocks, for the asyncio side to write
//! python/                 all of the above for Python; everything else builds without it
//! ```
//!
//! Rule 1: no policy here.  What may be learned, for how long and under which versions is decided in Python.
//! Rule 2: any octets from the network give a hit or a miss, never a panic (fuzz/, tests/hostile.rs).
//! Rule 3: the table's lock is held once a batch and never over a system call.

pub mod batch;
pub mod counters;
pub mod entry;
pub mod index;
pub mod key;
mod lock;
pub mod log;
pub mod names;
pub mod queue;
pub mod records;
pub mod region;
pub mod reply;
pub mod s3fifo;
pub mod system;
pub mod table;
pub mod trains;
pub mod versions;
pub mod worker;

#[cfg(feature = "python")]
mod python;
