//go:build !embedexecutor

package program

// embedded is empty: this build has no program for supervisors.
var embedded []byte
