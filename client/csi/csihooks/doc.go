// Package csihooks has the hooks that connect allocations with CSI. Volumes mounts a group's volumes and
// unmounts them, and inline volumes belong to one allocation alone (NewInline). The plugin supervisor
// watches a task that is itself a CSI plugin. Other hooks of a task renew the tokens of its volumes, act
// on the illness of their mounts, and run its commands around snapshots (QuiescedTasks).
//
// Its rules:
//
//   - Volumes claims through the servers, waits for grant and attachment, stages and publishes. Down does the
//     reverse, past errors. It releases a claim only when nothing of the volume is left on the node. Down
//     needs only the volume store and the allocation's ID. Down also undoes a failed Up.
//   - The supervisor probes a plugin. It does not restart a plugin that answers that it is still starting. It
//     registers the plugin when it is healthy for the first time, and deregisters it when its process ends.
//   - An allocation removes only its own registration.
//
// Package volumes does the steps on the volumes.
package csihooks
