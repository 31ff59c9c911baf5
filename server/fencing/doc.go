// Package fencing proves that a lost node can no longer write, by fence agents.
//
// A fence agent is a program that switches a machine off, or cuts it off from its storage. It speaks the
// protocol of the cluster world: it reads lines of key=value from its standard input, one of them the action,
// and its exit code is the answer. Debian's fence-agents has dozens.
//
// A proof is the exit code 0 of the action off, and then the exit code 2 of the action status, which says
// that the plug is off. Everything else proves nothing.
package fencing
