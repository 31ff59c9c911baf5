// Package hostpath is the CSI driver of berth: volumes on the disk of one node, for users without a storage
// system. It serves Identity, Controller and Node on one socket, and runs on every node with such volumes.
// Its topology key names the node of a volume.
//
// A volume is of one of two types (parameter "type"):
//
//   - directory: a directory of the data directory, mounted by a bind mount. Its size counts against the
//     capacity but is not enforced.
//   - image: a file on a loop device, with its own ext4 or xfs file system (enforced size, own mount flags),
//     or without one for block access. Its blocks are reserved when it is created (parameter "provisioning",
//     thick), so that a full disk rejects new volumes instead of breaking file systems in use. A thin image
//     is sparse: it takes the written blocks, and a disk that fills up turns its file system read-only.
//
// Without the parameter a volume is a directory, unless it is requested as a block device or with a
// file-system type.
//
// Its rules:
//
//   - Record, act, mark: the intended change of the disk, of a loop device or of the mount table is durable
//     in the volume's record before the change, and a mark follows it. A kill at any point leaves a state
//     that the next start completes or removes, or that the same call continues.
//   - The mount table decides what is mounted. The record decides what a volume is.
//   - Data is never removed while a mount, a loop device or a publication shows it.
//   - One call per volume, snapshot or name at a time. The answer to another one meanwhile is ABORTED. A
//     caller that stops waiting cancels nothing.
//   - An ID has the node on which it was made. So a controller that is called for another node's volume
//     answers that it is the wrong one, and not that the volume does not exist.
//
// It does not decide which users may use a volume (access modes are enforced per node only). It has no quotas
// of directory volumes, and does not move data between nodes.
package hostpath
