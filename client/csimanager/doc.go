// Package csimanager is the node's side of CSI: it keeps one connection to each plugin that runs here,
// knows what each says of itself, and brings volumes to allocations and back.
//
// Its laws:
//
//   - One instance manager per half of a plugin. A newer allocation replaces it without a moment of
//     "unhealthy" in between, and only the registration's own end removes it. Nobody waits for a plugin
//     while holding a lock that others need: a plugin that hangs holds up itself alone.
//   - What is done to a volume is in the node's book (client/store) before it is done and marked after.
//     A step with a record and no mark may or may not have happened: it is done again, with the same
//     arguments, or undone; it is never taken for either.
//   - Who uses a volume is counted from the book and never from memory, so the count survives the agent.
//   - A staging record lives no longer than the last publish record of its volume, so there is always an
//     allocation whose Down takes both away.
//   - One sequence of steps per volume at a time, one call in flight per volume at a time, over both
//     halves of the plugin (CSI spec, "Concurrency"). A wait for another that is cut short is an error.
//   - A plugin is told paths in its own scope, at most 128 bytes long. The mount table decides what is
//     mounted, not the book; nothing is removed recursively or through a mount.
//
// Claims and attachments are the servers'; processes and their mount namespaces are the drivers'.
package csimanager
