// Package feasible tells whether a node can take an allocation.
//
//   - Outlook is the state as it will be with the plan so far. It has a NodeView of each node that the plan
//     looks at, and changes the views with what the plan stops and adds.
//   - Group is a group of a version of the job, compiled once. Its filters check what is the same for all
//     its allocations (groupFilters).
//   - Demand is one allocation of a group. Outlook.Check applies the filters that depend on it, or on the
//     plan (placeFilters): limits, volumes, ports, devices and capacity.
//   - Trial tries a demand on a node without some of the allocations there.
//
// It takes no decision and ranks no node. A filter changes no view.
//
// An Outlook and all that it has belong to one plan, and so to one goroutine. Only the memory of views goes
// from plan to plan (viewMemory).
package feasible
