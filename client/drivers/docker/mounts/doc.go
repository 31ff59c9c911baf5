// Package mounts makes the mounts and devices of a container of the task's directories, its volumes and its
// config, and names those that a node does not allow. A relative path never leads out of the task's
// directory, also through a link. The package mounts nothing itself: the daemon does.
package mounts
