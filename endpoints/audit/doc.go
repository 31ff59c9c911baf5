// Package audit makes the events of the audit log from the requests that a server serves.
//
// The list line of a method decides: a write is a change by people, unless machines alone call it for
// themselves, and a method for the operator socket is forced. A denied call is an event, whatever the method.
// Reads that succeed are none. A method that needs no token has the two events of a change only if it
// proposes an entry of the log.
//
// An event names objects and rows, and has no value that may be a secret: no items of variables, no content
// of jobs, no parameters, contexts, secrets and mount flags of volumes, no secrets of tokens.
package audit
