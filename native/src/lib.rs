//! The compiled twin of `hsdns/fastpath`: from the octets of a query to the octets of its reply.
//!
//! ```text
//! --> worker.rs           a thread that never runs Python, or Batch.serve() called from Python
//!     --> batch.rs        recvmmsg: up to 64 datagrams                        (system/: the only unsafe code)
//!         --> key.rs      is the query plain? its key                         else: a miss
//!             --> table.rs    key -> entry.rs, all versions unchanged (entries.rs, index.rs, s3fifo.rs, versions.rs)
//!             --> negative_zone.rs   no entry: a name that does not exist?    (names.rs, soa_template.rs)
//!                 --> numerous_names.rs   or that of an address?
//!         <-- reply.rs    ID, flags, question, OPT, serial, cut to the client's size
//!     <-- batch.rs        sendmmsg, with UDP segmentation                     (segmentation.rs)
//!     --> forward.rs      misses for an upstream, whose replies are stored, if nothing about them is unusual
//!         <-- outlet.rs   sent by its thread, or handed to
//!     --> queue.rs        misses, for the event loop, which may store their replies in the table
//! hit_counts.rs           what is counted on the way, added up once a batch, taken for /metrics
//! log.rs                  hits of logging blocks, which the event loop writes to the log
//! tap.rs                  recent queries, while somebody looks
//! load_sender.rs          the queries of a load test (hsdns/load), which has nothing to do with the rest
//! watch.rs                what API servers send as protobuf (hsdns/apiserver), which has nothing to do with the rest
//! slice_change.rs         what an event about an EndpointSlice changes (hsdns/cluster)
//! hpack.rs                header blocks of HTTP/2 (hsdns/http2.py), which have nothing to do with the rest
//! service_reply.rs        the reply about a Service or an endpoint, for queries that are misses (hsdns/answer_table)
//! python/                 all of the above for Python; everything else builds without it
//! ```
//!
//! Rule 1: no policy here.  Python decides what is stored, for how long and with which versions.
//! Rule 2: any octets from the network give a hit or a miss, never a panic (fuzz/, tests/hostile.rs).
//! Rule 3: the table's lock is taken once a batch and never held during a system call.

pub mod batch;
pub mod entries;
pub mod entry;
pub mod forward;
pub mod hit_counts;
pub mod hpack;
pub mod index;
pub mod key;
pub mod load_sender;
mod lock;
pub mod log;
pub mod names;
pub mod negative_zone;
pub mod numerous_names;
pub mod outlet;
pub mod queue;
pub mod records;
pub mod reply;
pub mod s3fifo;
pub mod segmentation;
pub mod service_reply;
pub mod slice_change;
pub mod soa_template;
pub mod system;
pub mod table;
pub mod tap;
pub mod timing;
pub mod versions;
pub mod watch;
pub mod worker;

#[cfg(feature = "python")]
mod python;
