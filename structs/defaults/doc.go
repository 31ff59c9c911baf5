// Package defaults makes jobs canonical: it fills in the values that a job leaves out, and replaces older
// forms of the dialect.
//
// It rejects nothing: what a value may be is decided in structs/validate. The default values are constants of
// structs.
package defaults
