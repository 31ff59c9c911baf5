// Package calls serves the calls of users and servers for the allocations and the machine of a node:
// commands, signals and restarts, files, statistics and checks. It finds the runner of an allocation and
// passes the call on. It does not authorize callers, and it changes no record of the node.
package calls
