// Package dynamicplugins knows which CSI plugins run on this node at this moment: for each half of each
// plugin a stack of the instances that allocations have brought up, newest first.
//
// Its laws:
//
//   - The newest instance serves. When it leaves, the one below it serves at once, and subscribers are
//     told in the same moment; when an instance that does not serve leaves, nobody is disturbed.
//   - Only an allocation's own registration can be taken away by it; taking away what is not there
//     changes nothing and tells nobody.
//   - The registry survives a restart of the agent: a change is on disk before it is seen.
//   - Nothing waits for a subscriber. Each gets every change, in order.
//
// Whether an instance is healthy is left to the csimanager, and the life of its process to the hook that
// registers it.
package dynamicplugins
