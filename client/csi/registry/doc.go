// Package registry knows which CSI plugins run on this node at this moment: for each half of each plugin a
// stack of the instances that allocations have started, newest first. It has what the node remembers of
// their processes: the calls in flight (InFlight), calls that a process rejected for good (Parked), and calls
// that end a process (Suspects).
//
// Its rules:
//
//   - The newest instance serves. When it leaves, the one below it serves at once, and subscribers are
//     notified at that moment. When another instance leaves, no subscriber is notified.
//   - An allocation can remove only its own registration. The removal of a missing one changes nothing and
//     notifies no subscriber.
//   - The registry survives a restart of the agent: a change is on disk before it is visible.
//   - Nothing waits for a subscriber. Each gets every change, in order.
//
// Package volumes decides whether an instance is healthy. The hook that registers an instance decides on the
// life of its process.
package registry
