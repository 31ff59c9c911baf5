package explain

import (
	"time"

	"berth/scheduler/schedtest"
	"berth/state"
	"berth/structs"
	"berth/structs/cluster"
)

// lossSituations are those of a volume whose node is lost and whose policy is fence. A job waits for it.
var lossSituations = []situation{
	{name: "volume: the variable with its secrets is missing", volume: "vol", nodes: 1,
		make: after(volume(func(v *structs.CSIVolume) { v.SecretsFrom = "nomad/volumes/default/vol" }))},
	{name: "volume: a lost node holds it", volume: "vol", nodes: 2, make: after(lostHolder(structs.LossHold))},
	{name: "volume: a lost node is about to be fenced", volume: "vol", nodes: 2,
		make: after(lostHolder(structs.LossFence))},
	{name: "volume: a fence device is being tried", volume: "vol", nodes: 2,
		make: after(lostHolder(structs.LossFence), fenceBegins("ipmi"), wait(20*time.Second))},
	{name: "volume: a fence of an operator runs for one that holds", volume: "vol", nodes: 2,
		make: after(lostHolder(structs.LossHold), orderFence, fenceBegins("ipmi"), wait(20*time.Second))},
	{name: "volume: a fence for another volume runs for one that holds", volume: "vol", nodes: 2,
		make: after(lostHolderBy(structs.LossHold, dbClaimsAnother), awaitsAnother, fenceBegins("ipmi"),
			wait(20*time.Second))},
	{name: "volume: a fence for another volume failed for one that holds", volume: "vol", nodes: 2,
		make: after(lostHolderBy(structs.LossHold, dbClaimsAnother), awaitsAnother, fenceBegins("ipmi"),
			fenceEnds(cluster.FenceEndRequest{
				Cause:  cluster.FenceCauseAgent,
				Reason: "the action off ended with exit code 1",
				Output: "Connection timed out\n",
			}, 2*time.Minute))},
	{name: "volume: a fence of an operator failed, and the claim is not guarded", volume: "vol", nodes: 2,
		make: after(lostHolder(structs.LossLease), orderFence, fenceBegins("ipmi"),
			fenceEnds(cluster.FenceEndRequest{
				Cause:  cluster.FenceCauseAgent,
				Reason: "the action off ended with exit code 1",
				Output: "Failed: Unable to connect/login to fencing device\n",
			}, 2*time.Minute))},
	{name: "volume: a lost node has not reported it since a restore", volume: "vol", nodes: 2,
		make: after(lostHolder(structs.LossFence), restored)},
	{name: "volume: a fence device gave no proof", volume: "vol", nodes: 2,
		make: after(lostHolder(structs.LossFence), fenceBegins("ipmi"), fenceEnds(cluster.FenceEndRequest{
			Cause:  cluster.FenceCauseAgent,
			Reason: "the action off ended with exit code 1",
			Output: "Connection timed out\nFailed: Unable to connect/login to fencing device\n",
		}, 2*time.Minute))},
	{name: "volume: no fence device matches", volume: "vol", nodes: 2,
		make: after(lostHolder(structs.LossFence), fenceBegins(""), fenceEnds(cluster.FenceEndRequest{
			Cause:  cluster.FenceCauseNoDevice,
			Reason: "no fence device of the servers matches",
		}, time.Minute))},
	{name: "volume: the proof of a fence device does not cover it", volume: "vol", nodes: 2,
		make: after(lostHolder(structs.LossFence), fenceBegins("san"), fenceEnds(cluster.FenceEndRequest{
			Proved: true,
		}, time.Minute))},
	{name: "volume: the brake stops the fences", volume: "vol", nodes: 5,
		make: after(lostHolder(structs.LossFence), nodeStatus("n1", structs.NodeDown),
			nodeStatus("n2", structs.NodeDown), wait(time.Hour))},
	{name: "volume: nobody waits for that of a lost node", volume: "vol", nodes: 2, make: after(
		volume(onNodeLoss(structs.LossFence)), runsDB(both(usesVolume(structs.CSISingleNodeWriter), onNode("n0"))),
		dbClaims, nodeStatus("n0", structs.NodeDown), stopDB, wait(time.Minute))},
	{name: "volume: a lost node had no guard for its claim", volume: "vol", nodes: 2,
		make: after(lostHolder(structs.LossLease))},
	{name: "volume: a process of the plugin of a lost node serves it", volume: "vol", nodes: 2,
		make: after(lostHolderBy(structs.LossLease, dbClaimsServed))},
	{name: "volume: a lost node holds it, and no device fences the node", volume: "vol", nodes: 2, unfenced: true,
		make: after(lostHolder(structs.LossHold))},
	{name: "volume: the brake stops the fences, and no device fences the node", volume: "vol", nodes: 5,
		unfenced: true,
		make: after(lostHolder(structs.LossFence), nodeStatus("n1", structs.NodeDown),
			nodeStatus("n2", structs.NodeDown), wait(time.Hour))},
	{name: "volume: nobody waits for that of a lost node, and no device fences it", volume: "vol", nodes: 2,
		unfenced: true, make: after(volume(onNodeLoss(structs.LossFence)),
			runsDB(both(usesVolume(structs.CSISingleNodeWriter), onNode("n0"))),
			dbClaims, nodeStatus("n0", structs.NodeDown), stopDB, wait(time.Minute))},
	{name: "volume: a fence failed, and the servers have no device for the node any more", volume: "vol", nodes: 2,
		unfenced: true, make: after(lostHolder(structs.LossFence), fenceBegins("ipmi"),
			fenceEnds(cluster.FenceEndRequest{
				Cause:  cluster.FenceCauseAgent,
				Reason: "the action off ended with exit code 1",
			}, 2*time.Minute))},
	{name: "volume: the lease of a lost node has ended", volume: "vol", nodes: 2,
		make: after(lostHolderBy(structs.LossLease, dbClaimsGuarded))},
}

func onNodeLoss(policy string) func(*structs.CSIVolume) {
	return func(v *structs.CSIVolume) { v.OnNodeLoss = policy }
}

// lostHolder has n0 lost with a volume, for which the job web waits.
func lostHolder(policy string) func(*schedtest.Fleet) { return lostHolderBy(policy, dbClaims) }

func lostHolderBy(policy string, claims func(*schedtest.Fleet)) func(*schedtest.Fleet) {
	return after(volume(onNodeLoss(policy)),
		runsDB(both(usesVolume(structs.CSISingleNodeWriter), onNode("n0"))), claims,
		nodeStatus("n0", structs.NodeDown), placed(1, usesVolume(structs.CSISingleNodeWriter)), wait(time.Minute))
}

func dbClaimsGuarded(f *schedtest.Fleet) {
	f.Claim(f.Allocs("db")[0], "vol", structs.CSISingleNodeWriter, func(c *structs.CSIClaim) { c.Guarded = true })
}

func dbClaimsServed(f *schedtest.Fleet) {
	f.Claim(f.Allocs("db")[0], "vol", structs.CSISingleNodeWriter, func(c *structs.CSIClaim) {
		c.Unguarded = "a process of plugin ebs serves its file system (fuse.s3fs), and the guard does not end it"
	})
}

// dbClaimsAnother has the job db claim two volumes, of which one has the policy fence.
func dbClaimsAnother(f *schedtest.Fleet) {
	f.Volume("another", onNodeLoss(structs.LossFence))
	f.Claim(f.Allocs("db")[0], "another", structs.CSISingleNodeWriter)
	dbClaims(f)
}

// awaitsAnother has a job wait for the volume with the policy fence.
func awaitsAnother(f *schedtest.Fleet) {
	f.Register(schedtest.Job("late", structs.JobService, 1, usesVolume(structs.CSISingleNodeWriter),
		func(g *structs.TaskGroup) { g.Volumes["data"].Source = "another" }))
	f.Schedule()
}

// orderFence has an operator order a fence of n0.
func orderFence(f *schedtest.Fleet) {
	schedtest.Do(f, state.FenceOrdered, &cluster.NodeFenceRequest{NodeID: "n0", By: "ann"})
}

// restored makes the state one that was restored from a snapshot.
func restored(f *schedtest.Fleet) {
	now := f.Now().Now
	schedtest.Do(f, func(tx *state.WriteTx, _ *structs.Empty) error {
		state.Recover(tx, state.New().Read(), now)
		return nil
	}, nil)
}

func fenceBegins(device string) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		scope := cluster.FencePower
		if device == "san" {
			scope = cluster.FenceStorage
		}
		schedtest.Do(f, state.FenceBegin, &cluster.FenceBeginRequest{
			NodeID:  "n0",
			Epoch:   state.Node(f.Store.Read(), "n0").Epoch,
			Number:  1,
			Attempt: 1,
			Device:  device,
			Scope:   scope,
			Now:     f.Now().Now,
		})
	}
}

// fenceEnds ends the run. The next attempt is due after a time.
func fenceEnds(p cluster.FenceEndRequest, again time.Duration) func(*schedtest.Fleet) {
	return func(f *schedtest.Fleet) {
		p.NodeID = "n0"
		p.Number = 1
		p.Now = f.Now().Now
		p.NextTry = f.Clock.Add(again).UnixNano()
		schedtest.Do(f, state.FenceEnd, &p)
	}
}
