// Package simulate tests the decisions of the servers in virtual time, with faults, on one goroutine.
//
// The state machine, the scheduler, the leases and the loop that fences lost nodes are real. The machines,
// their agents, the network, the CSI plugin, the storage, the fence device and the operators are models. A
// heap of events drives all of them: no goroutine, timer or socket decides the order. So two runs of one seed
// write equal logs, byte for byte.
//
// Each machine has clocks of its own: wall clocks are wrong, drift and are set, and boot clocks differ a
// little.
// The time of the events is the one that really passes.
//
// TestSimulate draws faults. TestInterleavings performs all sequences of a few events instead.
//
// The guarantees are the list properties, with the faults under which each one holds. docs/reliability.md
// repeats the list, and says how to run it.
package simulate
