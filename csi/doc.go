// Package csi is a typed client of one CSI plugin process: it speaks gRPC on the plugin's unix socket
// and takes and returns plain structs, so that nothing above it knows gRPC or the generated messages.
//
// Laws:
//   - Every error is a structs.Error whose kind comes from the one table of gRPC codes. Its text names
//     the plugin, the RPC, the code and the plugin's message, with the values of the call's secrets taken
//     out. Code tells the gRPC code, Final whether the call surely has no effect.
//   - A plugin is not trusted: an answer that breaks the specification (an empty id, a missing message, a
//     negative size) is an internal error that names plugin, RPC and field. Nothing it sends can panic.
//   - What a plugin has not announced is not sent: a read-only attach, a topology requirement, a mount
//     group or the finer single-node access modes are left out for plugins without the capability.
//   - Secrets, contexts and requests are never logged.
//
// It leaves to others: when to call, in which order, how often to try again, and that only one call per
// volume is in flight.
package csi
