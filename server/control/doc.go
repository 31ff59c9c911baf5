// Package control has the loops that run only on the leader. They do the work that a log entry cannot do: it
// takes time, a call to a node, or a decision.
//
// Its rules:
//
//   - A loop has no state that must survive. All work follows from the rows. The loops of a new leader find
//     it there and repeat it with the same arguments.
//   - The keys of changed rows drive a loop (workqueue). The cost of a step does not grow with the number of
//     waiting rows. A blocked row is read again only after a change that may unblock it.
//   - A pure function of rows decides (next...). The loop acts and proposes the outcome, also a failure and
//     its number.
//   - A volume has at most one controller call in flight (CSI spec, "Concurrency"), a plugin a bounded
//     number. A failure delays only itself.
//   - No claim is released for a node that is down, because the node may still write: except after a proof
//     that it can no longer (package fence).
//   - A loop ends with its context and waits for everything that it started.
//
// Calls to nodes go through server/nodeconn. Package endpoints serves requests; state applies entries.
package control
