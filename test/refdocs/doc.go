// Package refdocs holds the generated tables of docs/reference against the code: what can be called, over
// which paths, what goes into the log and into which tables. `make goldens` writes them again.
package refdocs
