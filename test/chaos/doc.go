// Package chaos runs three servers and four nodes as real processes, each member in namespaces of its
// own, while faults happen. Tasks write to volumes, and the storage notes the writers. TestFigures measures
// single faults on such a cluster. See docs/reliability.md.
//
// The test binary is each process besides the agents, by its first argument (roles). The tests start a
// keeper, the keeper the world, and the world the members:
//
//   - The keeper removes everything when the tests or the world have ended, also if they were killed.
//   - The world is pid 1 of its namespaces, where all members and their network are: all ends with it.
//   - Each member is a machine: its first process is pid 1 of namespaces in those of the world. A member that
//     loses its power loses all its processes and mounts, and keeps its disk.
package chaos
