// Package e2e tests the built binary from outside: real agents as processes, real plugins, real mounts, the
// command line as a user types it. Each test has a data directory and ports of its own and leaves no
// process, mount or loop device behind, also when it fails.
package e2e
