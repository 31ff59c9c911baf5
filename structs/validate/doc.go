// Package validate checks the specifications that users write: jobs, volumes, namespaces, node pools, and the
// settings of the cluster. Each function returns every fault of a value, with the path of its field.
//
// The border: structs has the types, their defaults and the facts that follow from them, and checks nothing.
// This package and those below it import structs, never the other way. It needs no state: whether a volume or
// a plugin exists is for others to decide. Package field collects faults, taskfiles checks artifacts and
// templates, also for nodes, and report the values that nodes send.
package validate
