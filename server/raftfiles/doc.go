// Package raftfiles keeps the files of a server's Raft: the log, the stable values (term and vote), the
// snapshots, the server's id and the log-end mark. Each of them carries a checksum.
//
// Open reads all of them before Raft does. It returns an error that names the file and the remedy when one of
// them is missing or not as it was written, so that a server never starts on another state than the one that
// it stopped with. A log entry and a snapshot are checked again at each reading.
//
// The log-end mark (file log-end) is outside the directory of Raft. It records the index of the last entry
// that is durable. Open tells by it a write that a power cut interrupted, which is dropped, from a damaged or
// missing file, which is refused.
//
// Files of versions that wrote no checksums are accepted; Open adds the checksums that it can compute.
package raftfiles
