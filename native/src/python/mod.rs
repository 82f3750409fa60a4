//! The classes of the extension module; hsdns/fastpath/_native.pyi documents their parameters and results.
//!
//! Rule 1: nothing is decided here; arguments and results are converted.
//! Rule 2: only Worker.run(), LoadSender (run() and feed(), which wait) and the parsers of many events of an API server
//!         release the GIL: everything else takes less time than acquiring it again might.

mod answer_table;
mod asked;
mod cluster_names;
mod forward;
mod hpack;
mod labels;
mod load;
mod named_tuple;
mod service_replies;
mod slices;
mod sockets;
mod tap;
mod versions;
mod watch;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::system::slice;

/// The module's contents.
#[pymodule(name = "_native")]
mod module {
    #[pymodule_export]
    use super::answer_table::AnswerTable;
    #[pymodule_export]
    use super::cluster_names::ClusterNames;
    #[pymodule_export]
    use super::forward::Forwarder;
    #[pymodule_export]
    use super::hpack::HeaderDecoder;
    #[pymodule_export]
    use super::load::{LoadCounts, LoadSender};
    #[pymodule_export]
    use super::service_replies::ServiceReplies;
    #[pymodule_export]
    use super::shorten_slice;
    #[pymodule_export]
    use super::slices::{SliceStore, move_addresses, slice_change};
    #[pymodule_export]
    use super::sockets::{Batch, MissQueue, Worker};
    #[pymodule_export]
    use super::tap::Tap;
    #[pymodule_export]
    use super::versions::Versions;
    #[pymodule_export]
    use super::watch::{
        ServiceReading, SliceReading, WatchFrames, read_page, read_status, read_time,
    };

    use super::answer_table::{LOG_RECORD, PEEKED, TABLE_STATISTICS};
    use super::sockets::{BATCH_STATISTICS, MISS, WORKER_STATISTICS};
    use super::tap::TAP_RECORD;
    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    /// Add the named tuples.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        for tuple in [
            &MISS,
            &PEEKED,
            &LOG_RECORD,
            &TAP_RECORD,
            &TABLE_STATISTICS,
            &BATCH_STATISTICS,
            &WORKER_STATISTICS,
        ] {
            module.add(tuple.name, tuple.class(module.py())?)?;
        }
        Ok(())
    }
}

/// Let this thread run soon after it wakes, beside one that computes; return whether the kernel accepted that.
#[pyfunction]
fn shorten_slice() -> bool {
    slice::shorten()
}

/// The items of a sequence; those of pyo3's own Vec are as many as `__len__` says before there is any, which a failed
/// allocation ends with the process.
struct Items<T>(Vec<T>);

impl<'py, T: FromPyObjectOwned<'py>> FromPyObject<'_, 'py> for Items<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mut items = Vec::new();
        for item in object.try_iter()? {
            let item = item?.extract::<T>().map_err(Into::into)?;
            let reserved = items.try_reserve(1);
            reserved.map_err(|_| PyMemoryError::new_err("there are too many items"))?;
            items.push(item);
        }
        Ok(Self(items))
    }
}

/// Seconds of the monotonic clock in nanoseconds; saturates.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
