// Package suspects finds the calls that end the process of a CSI plugin, and stops them: a driver that ends
// at one call would otherwise end with each repeat, until its allocation fails and nobody is served any
// more.
//
// Its rules:
//
//   - A call is lost if its connection ended before the plugin answered. If the process then ends by itself,
//     each call that it lost becomes a suspect: one of them may be the cause.
//   - The next call of a suspect runs alone at its process. Other calls wait for its end. If the process ends
//     by itself again, the cause is known, and the call is not made any more. Any other end of the call
//     clears it.
//   - The end of a process that berth stops, for a restart, an update or a silent plugin, proves nothing.
//   - A stopped call is made again if the plugin or its job has another version, if an operator allows it,
//     and after a restart of the agent: the records are only in memory. Each node has its own.
//
// The calls that the agent makes to each new process before any other, such as Probe, are not counted, and
// wait for none: a plugin that ends at them never becomes healthy, and gets no others.
package suspects
