// Package fault has the errors of the driver: each has a gRPC code, and a busy resource is tried again. It
// logs nothing.
package fault
