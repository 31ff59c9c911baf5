// Package volumes is the node's side of CSI. It keeps one connection to each plugin that runs here, collects
// the plugins' reports, mounts and unmounts volumes for allocations, and serves the servers' calls of the
// controllers that run here (Endpoints).
//
// Its rules:
//
//   - One instance manager exists per half of a plugin. A newer allocation replaces it without an unhealthy
//     moment in between, and only the end of the registration removes it. No goroutine waits for a plugin
//     while it holds a lock that others need: a plugin that hangs delays only itself.
//   - The volume store (a part of client/store) has a record before each step on a volume and a mark after
//     it. A step with a record and no mark may or may not have taken place: it is repeated with the same
//     arguments, or undone.
//   - The users of a volume are counted from the store and never from memory, so the count survives the
//     agent.
//   - A staging record lives no longer than the last publish record of its volume, so there is always an
//     allocation whose Down removes both.
//   - One sequence of steps per volume at a time, one call in flight per volume at a time, over both halves
//     of the plugin (CSI spec, "Concurrency"). An interrupted wait is an error.
//   - A plugin receives paths in its own scope, at most 128 bytes long. The mount table decides which paths
//     are mounted, not the store. Nothing is removed recursively or through a mount.
//
// The servers own claims and attachments. The drivers own processes and their mount namespaces.
package volumes
