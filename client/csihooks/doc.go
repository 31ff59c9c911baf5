// Package csihooks holds the two hooks by which allocations meet CSI: Volumes brings a group's volumes to it
// and takes them back; the plugin supervisor cares for a task that is itself a CSI plugin.
//
// Its laws:
//
//   - Volumes: claim through the servers, wait for grant and attachment, stage and publish; down in
//     reverse, past errors. A claim is released only for a volume that the node has let go of entirely.
//     Down needs nothing but the book and the allocation's ID. Undoing an Up that failed is Down's, which
//     the runner calls.
//   - A plugin is asked whether it is healthy and never restarted for saying that it is still starting. It
//     is registered when it has been healthy once, and stays so until its process ends.
//   - Only an allocation's own registration is taken away by it.
//
// The steps on the volumes themselves are the csimanager's.
package csihooks
