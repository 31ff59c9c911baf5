// Package version says which berth this is.
package version

// Version is the release, set by the linker (see the Makefile).
var Version = "0.1.0-dev"
