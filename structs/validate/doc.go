// Package validate checks the specifications that users write: jobs, volumes, namespaces, node pools, and the
// settings of the cluster. Each function returns every fault of a value, with the path of its field.
//
// The border: structs has the types, their defaults, and the facts that follow from them. This package has
// the rules for valid values. They need no state: whether a volume or a plugin exists is for others to
// decide. Package field collects faults, taskfiles checks artifacts and templates, also for nodes, and report
// checks the values that nodes send.
package validate
