// Package assembly builds the subsystems of a node agent: the task drivers, the CSI plugins, the devices and
// the hooks of allocations and tasks, in their order. It declares what the agent gives to them (Parts) and
// takes from them (Subsystems). It has no loop of the agent, keeps nothing after Build and calls no server.
package assembly
