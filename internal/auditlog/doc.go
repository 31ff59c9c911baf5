// Package auditlog writes the audit log of an agent: one line of JSON for each event, into files, to stdout
// and to syslog. A context carries the origin of its request (WithOrigin).
//
// Its rules:
//
//   - A sink with the guarantee enforced has the line, and its disk has it, when Begin returns without an
//     error. If it does not, the caller must not make the change. Concurrent lines share one write and one
//     sync of a file.
//   - The line of an end cannot be taken back: the change has happened. An enforced sink that fails keeps it
//     in memory and writes it before the next line.
//   - A sink with the guarantee best-effort delays nothing: a full queue or a fault loses lines, which are
//     counted.
//   - A file is only appended to. It is renamed when it is large or old, and the oldest of the renamed files
//     are deleted. A file that others have renamed or deleted is made anew before the next line.
//
// The package knows nothing of methods and rows. The events come without secrets: see endpoints/audit.
package auditlog
