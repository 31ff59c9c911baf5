// Package capability decides whether a volume can serve a capability of the specification, and reads the
// mount options in it. It mounts nothing.
package capability
