// Package ordered keeps an order that concurrency or several sources would lose: Pool works in parallel and
// hands its results over in the order of their inputs, and Merge makes one sorted sequence of several. It
// sorts nothing, and it knows nothing of what it orders.
package ordered
