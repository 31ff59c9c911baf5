// Package query runs the reads of the procedures: queries that block until their answer changes, and lists.
//
// Its rules:
//
//   - A query sees one snapshot of the state. It may run several times; each time it reads a newer one.
//   - A blocking query ends with its caller, after its MaxWait, and, unless it accepts a stale answer, when
//     this server loses its leadership.
//   - A digest cache may lose entries. A query is then answered too early, never too late.
//   - The pages of a list have each row once that exists from the first page to the last.
//   - A streamed list has at most one stub in memory at a time.
//
// A list procedure names its rows and makes them into stubs. List does the rest:
//
//	rows := state.JobsFrom(tx, namespace, req.Prefix, query.Start(req))
//	l := query.List[structs.Job, structs.JobListStub]{Key: jobKey, Stub: jobStub}
//	resp.Jobs, err = l.Page(rows, req, resp)
//
// Start gives the state the beginning of the page, so no row before it is read. Rows that the state has in
// another order pass through Sorted. Page applies the filter, the order by index (QueryOptions.Sort), the
// size of the page and its token. A caller in this process that asked to stream gets a function that makes
// the rows. StreamRows, around the endpoint, writes these rows to a caller in another process while it makes
// them.
//
// The package knows no noun and no row: it gets a function that reads.
package query
