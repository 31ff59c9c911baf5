package main

import (
	"sync/atomic"
	"time"

	"berth/bench/peer/shape"
	"github.com/hashicorp/nomad/nomad/structs"
)

// registerAgain registers nodes again with another time of their fingerprint.
func registerAgain() {
	var rev atomic.Int64
	rev.Store(time.Now().Unix() % 100000)
	run("reg", func(c *client, n int64) error {
		return register(c, shape.Node(int(n)%*nodes, int(rev.Add(1))))
	})
}

// heartbeat makes ready nodes ready again (Node.UpdateStatus).
func heartbeat() {
	run("heartbeat", func(c *client, n int64) error {
		req := &structs.NodeUpdateStatusRequest{
			NodeID:       shape.NodeID(int(n) % *nodes),
			Status:       structs.NodeStatusReady,
			WriteRequest: structs.WriteRequest{Region: region},
		}
		if *auth {
			req.AuthToken = secrets()[req.NodeID]
		}
		return c.r.Call("Node.UpdateStatus", req, &idxReply{})
	})
}

// claimRead claims the shared volume for one more reader.
func claimRead() {
	as := loadAllocs()
	run("claimread", func(c *client, n int64) error {
		i := *off + int(n)
		if i >= len(as) {
			return errDone
		}
		return c.r.Call("CSIVolume.Claim", claimReq(*vol, as[i], structs.CSIVolumeClaimRead), &idxReply{})
	})
}

// claimEach claims each volume for one more reader, until each has -each readers.
func claimEach() {
	as := loadAllocs()
	*maxOps = int64(*vols * *each)
	run("claimeach", func(c *client, n int64) error {
		v := int(n) % *vols
		k := int(n) / *vols
		return c.r.Call("CSIVolume.Claim", claimReq(shape.VolID(v), as[(v+37*k)%len(as)],
			structs.CSIVolumeClaimRead), &idxReply{})
	})
}

// releaseRead releases the readers [off, off+max).
func releaseRead() {
	as := loadAllocs()
	run("relread", func(c *client, n int64) error {
		i := *off + int(n)
		if i >= len(as) {
			return errDone
		}
		r := claimReq(*vol, as[i], structs.CSIVolumeClaimRead)
		r.State = structs.CSIVolumeClaimStateReadyToFree
		return c.r.Call("CSIVolume.Claim", r, &idxReply{})
	})
}

// claimWrite claims volumes, each for its only writer.
func claimWrite() {
	as := loadAllocs()
	run("claimwrite", func(c *client, n int64) error {
		i := *off + int(n)
		if i >= len(as) || i >= *vols {
			return errDone
		}
		return c.r.Call("CSIVolume.Claim", claimReq(shape.VolID(i), as[i], structs.CSIVolumeClaimWrite),
			&idxReply{})
	})
}

// releaseWrite releases writers by a claim in the state ready-to-free: one Raft entry.
func releaseWrite() {
	as := loadAllocs()
	run("relwrite", func(c *client, n int64) error {
		i := *off + int(n)
		if i >= len(as) || i >= *vols {
			return errDone
		}
		r := claimReq(shape.VolID(i), as[i], structs.CSIVolumeClaimWrite)
		r.State = structs.CSIVolumeClaimStateReadyToFree
		return c.r.Call("CSIVolume.Claim", r, &idxReply{})
	})
}

// claimCycle has the writers [off, off+part) claim, each its own volume, then release, and so on.
func claimCycle() {
	as := loadAllocs()
	run("claimcycle", func(c *client, n int64) error {
		i := *off + int(n)%*part
		pass := int(n) / *part
		r := claimReq(shape.VolID(i), as[i], structs.CSIVolumeClaimWrite)
		if pass%2 == 1 {
			r.State = structs.CSIVolumeClaimStateReadyToFree
		}
		return c.r.Call("CSIVolume.Claim", r, &idxReply{})
	})
}

// claimAndUnpublish claims a volume and unpublishes it, the calls of a client for one task.
func claimAndUnpublish() {
	as := loadAllocs()
	run("cycle", func(c *client, n int64) error {
		i := (*off + int(n)) % min(len(as), *vols)
		v := shape.VolID(i)
		if err := c.r.Call("CSIVolume.Claim", claimReq(v, as[i], structs.CSIVolumeClaimWrite),
			&idxReply{}); err != nil {
			return err
		}
		return c.r.Call("CSIVolume.Unpublish", unpubReq(v, as[i], structs.CSIVolumeClaimWrite), &idxReply{})
	})
}
