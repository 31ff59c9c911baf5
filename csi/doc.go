// Package csi is a typed client of one CSI plugin process. It calls the plugin's unix socket by gRPC and
// takes and returns plain structs, so that its callers know neither gRPC nor the generated messages.
//
// Its rules:
//
//   - Every error is a structs.Error whose kind comes from the one table of gRPC codes. Its text names the
//     plugin, the RPC, the code and the plugin's message, without the values of the call's secrets. Code
//     returns the gRPC code, Final whether the call surely has no effect.
//   - A plugin is not trusted: an answer that violates the specification (an empty ID, a missing message, a
//     negative size) is an internal error that names plugin, RPC and field. No answer can cause a panic.
//   - The client does not send what a plugin has not announced: a read-only attach, a topology requirement, a
//     mount group or the finer single-node access modes.
//   - Secrets, contexts and requests are never logged.
//
// The callers decide when to call, in which order and how often to retry, and keep only one call per volume
// in flight.
package csi
