// Package csitrace checks what the instances of CSI plugins are called for, and in which order.
//
// A Recorder takes each call of all instances of a test: it is their gRPC interceptor. Check replays the
// calls and asks each of the Rules about each call, at the time of its start. So a rule knows all that the
// orchestrator could know then: which calls had ended, and with which answers. The rules are duties of the
// CSI specification (docs/reference/csi-duties.md). They cover the order of calls, the calls of one object
// that overlap, the capabilities of the plugin, and the arguments.
//
// The rules are strict about calls that failed. After a ControllerPublishVolume that failed in any way, the
// volume counts as attached until a ControllerUnpublishVolume has succeeded, because the specification lets
// the caller only repeat the call or undo it. The same holds for staging and publishing.
//
// A Recorder also takes the loss of a node's power. It ends what the node had mounted, but no attachment.
package csitrace
