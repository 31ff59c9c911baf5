// Package e2e tests the built binary from outside: real agents as processes, real plugins, real mounts, and
// the command line as a user types it. Each test has its own data directory and ports. It leaves no process,
// mount or loop device behind, also when it fails.
//
// Three plugins serve the tests: the hostpath driver of the binary, a driver of another project, and the test
// binary itself as a plugin that attaches, whose storage all nodes share (see shelf).
package e2e
