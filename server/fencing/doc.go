// Package fencing proves that a lost node can no longer write, by fence agents.
//
// A fence agent is a program that switches a machine off, or cuts it off from its storage. It speaks the
// protocol of the cluster world: it reads lines of key=value from its standard input, one of them the action,
// and its exit code is the answer. Debian's fence-agents has dozens.
//
// A proof is the exit code 0 of the action off, and then the exit code 2 of the action status, which says
// that the plug is off. Everything else proves nothing.
//
// An agent may hang, leave processes behind or print a password. A run has a bound in time, its whole process
// group ends with it, and no line with a secret leaves this package: the output goes to rows, which users
// read.
package fencing
