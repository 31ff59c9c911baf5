// Package invariant has the rules that hold in every state of the servers, for tests that change a cluster
// at random. A rule reads the rows alone. It does not use the code that it checks: it counts capacity,
// devices, ports and volumes by itself, one allocation after another.
//
// There are three lists. Always holds after each log entry. Settled holds whenever the servers have nothing
// left to do at once: see Busy. Calm holds when, besides, all nodes have answered, no task fails, and no
// operator is awaited.
//
// state.Check has the rules of single tables. A test calls it besides.
package invariant
