// Package namespaces has the namespaces and the rules on them. A namespace needs no row: it exists while a
// volume, a variable or a job that is not dead is in it. What users may do in a namespace is not decided
// here.
package namespaces
