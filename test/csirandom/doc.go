// Package csirandom performs random operations on volumes, jobs and snapshots while leaders, agents and
// plugins are killed, nodes lose their power, and nodes and servers are cut off from servers, and checks each
// call of the plugin with package csitrace.
//
// The servers are real, with Raft on disk and sockets. The nodes are agents of package client with the real
// managers of volumes, their hooks, their endpoints and their statistics. Their tasks are entries of package
// drivertest. Each node runs an instance of the scriptable plugin, of both halves. All instances have the
// same volumes. They fail calls before and after their effect, and answer some late.
//
// A node that is cut off for long counts as lost. Half of the volumes leave it after the proof of a fence
// device, which takes the power of the node. The others leave it with the word of an operator, or wait for
// its return. The rules of csitrace hold meanwhile: no volume has more writers than its access mode allows.
//
// One seed decides on the operations and the faults. The order of the calls also depends on the machine, so
// two runs of a seed are alike, not equal. BERTH_TEST_SEED gives the seed, and BERTH_TEST_OPERATIONS the
// number of operations:
//
//	BERTH_TEST_SEED=2 BERTH_TEST_OPERATIONS=10000 go test -tags hashicorpmetrics -timeout 0 -v ./test/csirandom
//
// At the end all faults stop, all jobs are purged, and all volumes and snapshots are deleted. Then the
// storage has to be empty, and no call may have left an attachment or a mount.
package csirandom
