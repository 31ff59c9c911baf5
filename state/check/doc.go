// Package check collects the violated invariants of a state. A check is a function that takes a Report. It
// stands in the package of the rows that it checks; state.Check lists all. The package itself knows no rows.
package check
