// Package refdocs compares the generated tables of docs/reference with the code: methods, routes, log entries
// and tables. `make goldens` writes them again.
package refdocs
