// Package hostconfig fills the part of a container's configuration that the machine gives it: its limits of
// processor time, memory and processes, its mounts and devices, its capabilities and security options. It
// also says what of it a node does not allow a job. A relative path never leads out of the task's directory,
// also through a link. The package mounts nothing, starts no container and does not talk to a daemon.
package hostconfig
