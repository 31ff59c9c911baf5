// load drives a Nomad server (or cluster) over its msgpack RPC on loopback.
//
// The wire is net/rpc with msgpack, one plain TCP connection per client. Reply
// bodies are decoded into small structs, so that the client stays cheap.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net/http"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"berth/bench/peer/shape"
	"github.com/hashicorp/nomad/nomad/structs"
)

var (
	addrs  = flag.String("addr", "127.0.0.1:4647", "server RPC addresses, comma separated")
	httpA  = flag.String("http", "127.0.0.1:4646", "HTTP address")
	op     = flag.String("op", "", "operation")
	conc   = flag.Int("c", 1, "concurrent clients")
	dur    = flag.Duration("dur", 5*time.Second, "duration")
	maxOps = flag.Int64("max", 0, "stop after this many operations (0: by time)")
	nodes  = flag.Int("nodes", 1000, "fleet size")
	vols   = flag.Int("vols", 10000, "volumes")
	allocs = flag.Int("allocs", 0, "allocations wanted (setup-allocs)")
	alFile = flag.String("allocfile", "allocs.json", "")
	vol    = flag.String("vol", shape.MultiReaderVol, "volume for claimread/volget")
	pids   = flag.String("pids", "", "server pids, to report CPU per operation")
	each   = flag.Int("each", 10, "readers of each volume (claimeach)")
	part   = flag.Int("part", 1600, "writers that take turns (claimcycle)")
	off    = flag.Int("off", 0, "offset of the first alloc/volume used")
	label  = flag.String("label", "", "printed first")
	auth   = flag.Bool("auth", false, "send node secrets (needed by v2)")
	region = "global"
)

type allocRef struct{ ID, NodeID string }

func loadAllocs() []allocRef {
	b, err := os.ReadFile(*alFile)
	check(err)
	var a []allocRef
	check(json.Unmarshal(b, &a))
	return a
}

func register(c *client, nd *structs.Node) error {
	req := &structs.NodeRegisterRequest{
		Node:         nd,
		WriteRequest: structs.WriteRequest{Region: region},
	}
	return c.r.Call("Node.Register", req, &idxReply{})
}

func claimReq(v string, a allocRef, mode structs.CSIVolumeClaimMode) *structs.CSIVolumeClaimRequest {
	am := structs.CSIVolumeAccessModeMultiNodeReader
	if mode == structs.CSIVolumeClaimWrite {
		am = structs.CSIVolumeAccessModeSingleNodeWriter
	}
	wr := structs.WriteRequest{Region: region, Namespace: shape.NS}
	if *auth {
		wr.AuthToken = secrets()[a.NodeID]
	}
	return &structs.CSIVolumeClaimRequest{
		VolumeID:       v,
		AllocationID:   a.ID,
		NodeID:         a.NodeID,
		Claim:          mode,
		AccessMode:     am,
		AttachmentMode: structs.CSIVolumeAttachmentModeFilesystem,
		State:          structs.CSIVolumeClaimStateTaken,
		WriteRequest:   wr,
	}
}

var secrets = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for i := 0; i < 20000; i++ {
		m[shape.NodeID(i)] = shape.UUID("secret", i)
	}
	return m
})

func unpubReq(v string, a allocRef, mode structs.CSIVolumeClaimMode) *structs.CSIVolumeUnpublishRequest {
	r := claimReq(v, a, mode)
	r.State = structs.CSIVolumeClaimStateNodeDetached
	return &structs.CSIVolumeUnpublishRequest{
		VolumeID:     v,
		Claim:        r.ToClaim(),
		WriteRequest: r.WriteRequest,
	}
}

func main() {
	flag.Parse()
	qo := structs.QueryOptions{Region: region, Namespace: shape.NS}
	switch *op {
	case "setup-nodes": // register nodes [off, nodes)
		*maxOps = int64(*nodes - *off)
		*dur = time.Hour
		run("boot", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				return register(c, shape.Node(*off+int(n), 0))
			}
		})
	case "setup-barenodes": // register nodes [off, nodes) without a plugin
		*maxOps = int64(*nodes - *off)
		*dur = time.Hour
		run("bareboot", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				return register(c, shape.BareNode(*off+int(n)))
			}
		})
	case "setup-vols":
		const batch = 100
		*dur = time.Hour
		*maxOps = int64((*vols + batch - 1) / batch)
		run("volreg100", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				req := &structs.CSIVolumeRegisterRequest{WriteRequest: structs.WriteRequest{Region: region,
					Namespace: shape.NS}}
				for i := int(n) * batch; i < int(n+1)*batch && i < *vols; i++ {
					req.Volumes = append(req.Volumes, shape.Volume(i))
				}
				return c.r.Call("CSIVolume.Register", req, &idxReply{})
			}
		})
	case "setup-sharedvol":
		c := dial(addrOf(0))
		req := &structs.CSIVolumeRegisterRequest{
			Volumes:      []*structs.CSIVolume{shape.VolumeNamed(*vol, 1<<20)},
			WriteRequest: structs.WriteRequest{Region: region, Namespace: shape.NS},
		}
		check(c.r.Call("CSIVolume.Register", req, &idxReply{}))
	case "setup-allocs":
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
			if len(resp.Allocations) >= *allocs ||
				time.Since(t) > 5*time.Minute {
				out := []allocRef{}
				for _, a := range resp.Allocations {
					out = append(out, allocRef{a.ID, a.NodeID})
				}
				sort.Slice(out, func(i, j int) bool {
					return out[i].ID < out[j].ID
				})
				b, _ := json.Marshal(out)
				check(os.WriteFile(*alFile, b, 0o644))
				fmt.Printf("%-10s allocs=%d placed in %s\n",
					*label, len(out), time.Since(t).Round(time.Millisecond))
				return
			}
		}
	case "reg": // re-register with a changed fingerprint time
		var rev atomic.Int64
		rev.Store(time.Now().Unix() % 100000)
		run("reg", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				return register(c, shape.Node(int(n)%*nodes, int(rev.Add(1))))
			}
		})
	case "hb": // heartbeat: UpdateStatus(ready) of a ready node
		run("heartbeat", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				req := &structs.NodeUpdateStatusRequest{
					NodeID:       shape.NodeID(int(n) % *nodes),
					Status:       structs.NodeStatusReady,
					WriteRequest: structs.WriteRequest{Region: region},
				}
				if *auth {
					req.AuthToken = secrets()[req.NodeID]
				}
				return c.r.Call("Node.UpdateStatus", req, &idxReply{})
			}
		})
	case "claimread": // each op: one new reader of the shared volume
		as := loadAllocs()
		run("claimread", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				i := *off + int(n)
				if i >= len(as) {
					return errDone
				}
				return c.r.Call("CSIVolume.Claim", claimReq(*vol, as[i], structs.CSIVolumeClaimRead), &idxReply{})
			}
		})
	case "claimeach": // each op: one more reader of a volume, until each volume has -each readers
		as := loadAllocs()
		*maxOps = int64(*vols * *each)
		run("claimeach", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				v := int(n) % *vols
				k := int(n) / *vols
				return c.r.Call("CSIVolume.Claim", claimReq(shape.VolID(v), as[(v+37*k)%len(as)],
					structs.CSIVolumeClaimRead), &idxReply{})
			}
		})
	case "relread": // release readers [off, off+max)
		as := loadAllocs()
		run("relread", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				i := *off + int(n)
				if i >= len(as) {
					return errDone
				}
				r := claimReq(*vol, as[i], structs.CSIVolumeClaimRead)
				r.State = structs.CSIVolumeClaimStateReadyToFree
				return c.r.Call("CSIVolume.Claim", r, &idxReply{})
			}
		})
	case "claimwrite": // each op: one writer on its own volume
		as := loadAllocs()
		run("claimwrite", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				i := *off + int(n)
				if i >= len(as) || i >= *vols {
					return errDone
				}
				return c.r.Call("CSIVolume.Claim", claimReq(shape.VolID(i), as[i], structs.CSIVolumeClaimWrite),
					&idxReply{})
			}
		})
	case "relwrite": // release through a claim in state ready-to-free: one raft entry
		as := loadAllocs()
		run("relwrite", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				i := *off + int(n)
				if i >= len(as) || i >= *vols {
					return errDone
				}
				r := claimReq(shape.VolID(i), as[i], structs.CSIVolumeClaimWrite)
				r.State = structs.CSIVolumeClaimStateReadyToFree
				return c.r.Call("CSIVolume.Claim", r, &idxReply{})
			}
		})
	case "claimcycle": // writers [off, off+part) claim, each its own volume, then release, and so on
		as := loadAllocs()
		run("claimcycle", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				i := *off + int(n)%*part
				pass := int(n) / *part
				r := claimReq(shape.VolID(i), as[i], structs.CSIVolumeClaimWrite)
				if pass%2 == 1 {
					r.State = structs.CSIVolumeClaimStateReadyToFree
				}
				return c.r.Call("CSIVolume.Claim", r, &idxReply{})
			}
		})
	case "cycle": // claim + unpublish (the calls of a client for one task), on its own volume
		as := loadAllocs()
		run("cycle", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				i := (*off + int(n)) % min(len(as), *vols)
				v := shape.VolID(i)
				if err := c.r.Call("CSIVolume.Claim", claimReq(v, as[i], structs.CSIVolumeClaimWrite),
					&idxReply{}); err != nil {
					return err
				}
				return c.r.Call("CSIVolume.Unpublish", unpubReq(v, as[i], structs.CSIVolumeClaimWrite), &idxReply{})
			}
		})
	case "plugget":
		run("plugget", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				return c.r.Call("CSIPlugin.Get", &structs.CSIPluginGetRequest{ID: shape.PluginID, QueryOptions: qo},
					&idxReply{})
			}
		})
	case "pluglist":
		run("pluglist", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				return c.r.Call("CSIPlugin.List", &structs.CSIPluginListRequest{QueryOptions: qo}, &idxReply{})
			}
		})
	case "vollist":
		run("vollist", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				return c.r.Call("CSIVolume.List", &structs.CSIVolumeListRequest{QueryOptions: qo}, &idxReply{})
			}
		})
	case "vollist100": // one page of 100
		q := qo
		q.PerPage = 100
		run("vollist100", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				return c.r.Call("CSIVolume.List", &structs.CSIVolumeListRequest{QueryOptions: q}, &idxReply{})
			}
		})
	case "volget":
		run("volget", func(w int, c *client) func(int64) error {
			rnd := rand.New(rand.NewSource(int64(w)))
			return func(n int64) error {
				id := *vol
				if id == "rand" {
					id = shape.VolID(rnd.Intn(*vols))
				}
				return c.r.Call("CSIVolume.Get", &structs.CSIVolumeGetRequest{ID: id, QueryOptions: qo}, &idxReply{})
			}
		})
	case "ping":
		run("ping", func(w int, c *client) func(int64) error {
			return func(n int64) error {
				return c.r.Call("Status.Ping", struct{}{}, &struct{}{})
			}
		})
	case "http": // GET the path in -vol
		hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *conc, DisableCompression: true}}
		var size atomic.Int64
		run("http"+*vol, func(w int, c *client) func(int64) error {
			return func(n int64) error {
				resp, err := hc.Get("http://" + *httpA + *vol)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				sz, err := io.Copy(io.Discard,
					bufio.NewReaderSize(resp.Body, 1<<16))
				if resp.StatusCode != 200 {
					return fmt.Errorf("status %d", resp.StatusCode)
				}
				size.Store(sz)
				return err
			}
		})
		fmt.Printf("  body %d bytes\n", size.Load())
	default:
		fmt.Println("unknown op")
		os.Exit(2)
	}
}
