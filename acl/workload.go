package acl

import "slices"

// own are the rights that a workload has by itself, unless a policy denies them.
type own struct {
	namespace string
	paths     []string // of the variables that it may read and list
}

// ForWorkload returns an ACL that also gives what a workload has by itself: to read and list the variables
// with some paths in its namespace, and the services there.
func (a *ACL) ForWorkload(namespace string, paths []string) *ACL {
	with := *a
	with.own = &own{namespace: namespace, paths: paths}
	return &with
}

// Services reports whether the caller may read the services of a namespace.
func (a *ACL) Services(namespace string) bool {
	if a.Namespace(namespace, ReadJob) {
		return true
	}
	return a.own != nil && a.own.namespace == namespace && !a.denies(namespace)
}

// AnyServices reports whether the caller may read the services of some namespace, which need not exist.
func (a *ACL) AnyServices() bool {
	return a.AnyNamespace(ReadJob) || a.own != nil && !a.denies(a.own.namespace)
}

// denies reports whether a rule denies a whole namespace.
func (a *ACL) denies(namespace string) bool {
	found := a.namespaces.find(namespace)
	return found != nil && found.denied
}

// ownsVariable reports whether the caller has a right on the variable of a path by itself.
func (a *ACL) ownsVariable(namespace, path string, right Capability) bool {
	return a.own != nil && a.own.namespace == namespace && slices.Contains(a.own.paths, path) &&
		(right == VariablesRead || right == VariablesList)
}
