// Package hostpath is the CSI driver that berth ships: volumes on the disk of one node, for those who
// have no storage system at hand. It serves Identity, Controller and Node on one socket, and runs on every
// node that is to have such volumes; its topology key says on which node a volume is.
//
// A volume is of one of two types (parameter "type"):
//
//   - directory: a directory of the data directory, bound into place. Its size is booked against the
//     capacity but not enforced.
//   - image: a file on a loop device, with an ext4 or xfs file system of its own (enforced size, own mount
//     flags), or without one for block access. Its blocks are reserved when it is made (parameter
//     "provisioning", thick), so that a full disk refuses new volumes instead of breaking file systems that
//     are in use. A thin image is sparse: it takes what is written to it, and a disk that fills up turns its
//     file system read-only.
//
// Without the parameter a volume is a directory, unless it is asked for as a block device or with a
// file-system type.
//
// Laws:
//   - Record, act, mark: what a call is about to do to the disk, to a loop device or to the mount table is
//     durable in the volume's record before it is done and marked after. A kill at any point leaves
//     something that the next start finishes or removes, or that the same call picks up again.
//   - The mount table is the truth about mounts; the record is the truth about what a volume is.
//   - Data is never removed while anything shows it: a mount, a loop device, a publication.
//   - One call per volume, snapshot or name at a time; another one meanwhile is answered with ABORTED. A
//     caller that gives up cancels nothing.
//   - An id carries the node it was made on, so that a controller that is asked about another node's
//     volume says that it is the wrong one rather than that the volume does not exist.
//
// It leaves to others: who may use a volume (access modes are held per node only), quotas of directory
// volumes, and moving data between nodes.
package hostpath
