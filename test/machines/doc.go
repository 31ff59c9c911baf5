// Package machines runs the commands of README that make a cluster on five machines. Each machine has
// namespaces of its own, an empty /etc/berth and an empty /var/lib. A table has sites whose machines are not
// ours: other networks, names, containers, and wires. It also runs the tutorials, each on one
// machine, and compares the outputs of their commands with those that the pages show.
//
// The test binary is each process besides those of the commands, by its first argument (roles). The test
// starts the world, and the world the machines. The world is pid 1 of its namespaces, so everything ends
// with it.
package machines
