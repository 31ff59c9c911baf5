package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"berth/bench/peer/shape"
	"github.com/hashicorp/nomad/nomad/structs"
)

// setupNodes registers the nodes [off, nodes).
func setupNodes() {
	*maxOps = int64(*nodes - *off)
	*dur = time.Hour
	run("boot", func(c *client, n int64) error {
		return register(c, shape.Node(*off+int(n), 0))
	})
}

// setupBareNodes registers the nodes [off, nodes) without a plugin.
func setupBareNodes() {
	*maxOps = int64(*nodes - *off)
	*dur = time.Hour
	run("bareboot", func(c *client, n int64) error {
		return register(c, shape.BareNode(*off+int(n)))
	})
}

// setupVolumes registers the volumes, 100 in each request.
func setupVolumes() {
	const batch = 100
	*dur = time.Hour
	*maxOps = int64((*vols + batch - 1) / batch)
	run("volreg100", func(c *client, n int64) error {
		req := &structs.CSIVolumeRegisterRequest{WriteRequest: structs.WriteRequest{Region: region,
			Namespace: shape.NS}}
		for i := int(n) * batch; i < int(n+1)*batch && i < *vols; i++ {
			req.Volumes = append(req.Volumes, shape.Volume(i))
		}
		return c.r.Call("CSIVolume.Register", req, &idxReply{})
	})
}

// setupSharedVolume registers the volume of -vol, for many readers.
func setupSharedVolume() {
	c := dial(addrOf(0))
	req := &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{shape.VolumeNamed(*vol, 1<<20)},
		WriteRequest: structs.WriteRequest{Region: region, Namespace: shape.NS},
	}
	check(c.r.Call("CSIVolume.Register", req, &idxReply{}))
}

// setupAllocs runs a job and stores its placed allocations in -allocfile.
func setupAllocs() {
	c := dial(addrOf(0))
	job := shape.Job(*allocs)
	job.Status = ""
	job.Canonicalize()
	t := time.Now()
	check(c.r.Call("Job.Register", &structs.JobRegisterRequest{
		Job:          job,
		WriteRequest: structs.WriteRequest{Region: region, Namespace: shape.NS},
	}, &idxReply{}))
	type stub struct {
		ID, NodeID, DesiredStatus, ClientStatus string
	}
	for {
		time.Sleep(500 * time.Millisecond)
		var resp struct{ Allocations []stub }
		check(c.r.Call("Job.Allocations", &structs.JobSpecificRequest{JobID: shape.JobID, QueryOptions: qo},
			&resp))
		if len(resp.Allocations) >= *allocs || time.Since(t) > 5*time.Minute {
			out := []allocRef{}
			for _, a := range resp.Allocations {
				out = append(out, allocRef{a.ID, a.NodeID})
			}
			sort.Slice(out, func(i, j int) bool {
				return out[i].ID < out[j].ID
			})
			b, _ := json.Marshal(out)
			check(os.WriteFile(*allocFile, b, 0o644))
			fmt.Printf("%-10s allocs=%d placed in %s\n",
				*label, len(out), time.Since(t).Round(time.Millisecond))
			return
		}
	}
}
